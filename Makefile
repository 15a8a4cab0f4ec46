# A menu: each entry is one command that you could type as well.
# Needed: Rust, Go, Python 3, make and a C compiler. Nothing else is looked for on PATH.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help tools build test demo lint fmt clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

tools: tools/bin/.stamp ## build the pinned nats-server and nats CLI into tools/bin (once)

tools/bin/.stamp: tools/go.mod tools/go.sum
	@mkdir -p tools/bin
	cd tools && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/ tool
	@touch $@

build: ## build everything, tests and demo included
	cargo build --workspace --all-targets --locked

test: tools ## lint, then every test; the last line is the sum
	@python3 tools/run_tests.py

demo: tools ## a group on a real server: members join, leave and are killed (KEEP=1 leaves it running)
	cargo build --workspace --bins --locked
	@target/debug/demo

lint: ## formatting, clippy and documentation, with warnings as errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --document-private-items

fmt: ## format the sources
	cargo fmt --all

clean: ## remove what was built, the pinned tools as well
	cargo clean
	rm -rf tools/bin
