# The image of controller and workers, as `make images` writes it without a container engine: one
# static program, no shell, a user that is not root.
#
#   docker build -t lockstep:dev .
FROM rust:1-slim AS build
# The compiler of C is for ring; no protoc is needed.
RUN apt-get update -q && apt-get install -qy --no-install-recommends gcc libc6-dev
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs ./
COPY proto proto
COPY src src
# The workspace names the crates of tests, too; their manifests suffice, with a library to go with each.
COPY bench/Cargo.toml bench/Cargo.toml
COPY e2e/Cargo.toml e2e/Cargo.toml
COPY model/Cargo.toml model/Cargo.toml
COPY sim/Cargo.toml sim/Cargo.toml
RUN for crate in bench e2e model sim; do mkdir -p $crate/src && touch $crate/src/lib.rs; done
# Static, on the target that the compiler has: naming it keeps the flags from procedural macros.
ENV RUSTFLAGS="-C target-feature=+crt-static"
RUN target=$(rustc -vV | sed -n 's/^host: //p') \
    && cargo build --locked --bin lockstep --profile image --target "$target" \
    && mkdir -p /image/tmp && chmod 1777 /image/tmp \
    && cp "target/$target/image/lockstep" /image/lockstep

FROM scratch
COPY --from=build /image /
ENV PATH=/usr/local/bin:/usr/bin:/bin
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/lockstep"]
