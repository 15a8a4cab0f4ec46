# A menu: each entry is one command that you could type as well.
# Needed: Rust, Go, Python 3, make and a C compiler. Nothing else is looked for on PATH.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help tools tools-nats-versions tools-kube tools-helm packages images able cluster cluster-down build test demo demo-local bench-cluster sim chaos soak model mutants bench lint fmt clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-19s %s\n", $$1, $$2 }' Makefile

tools: tools/bin/.stamp ## build the pinned nats-server and nats CLI into tools/bin (once)

tools/bin/.stamp: tools/go.mod tools/go.sum
	@mkdir -p tools/bin
	cd tools && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/ tool
	@touch $@

tools-nats-versions: ## fetch the older nats-servers of the version matrix into tools/bin (once)
	@python3 tools/nats_versions.py tools/nats-versions.txt tools/bin

tools-kube: tools/bin/.kube ## build etcd and Kubernetes, one program, into tools/bin (once, about 7 minutes)

KUBE_VERSION := 1.37.2
KUBE_NAMES := etcd coredns kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl
# Without them the servers call themselves v0.0.0, which Helm does not take for a new enough Kubernetes.
KUBE_FLAGS := -s -w -X k8s.io/component-base/version.gitVersion=v$(KUBE_VERSION) \
	-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37

tools/bin/.kube: tools/kube/go.mod tools/kube/go.sum tools/kube/main.go
	@mkdir -p tools/bin
	cd tools/kube && CGO_ENABLED=0 GOFLAGS=-buildvcs=false go build -trimpath -ldflags='$(KUBE_FLAGS)' -o ../bin/kube .
	@for name in $(KUBE_NAMES); do ln -sf kube tools/bin/$$name; done
	@touch $@

tools-helm: tools/bin/.helm ## build the pinned Helm into tools/bin (once, about 3 minutes)

tools/bin/.helm: tools/helm/go.mod tools/helm/go.sum
	@mkdir -p tools/bin
	cd tools/helm && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o ../bin/helm helm.sh/helm/v4/cmd/helm
	@touch $@

# What a test cluster's node needs of the distribution.
PACKAGES := containerd runc containernetworking-plugins iptables nftables busybox-static

packages: ## install what a test cluster's node needs (as root on Debian or Ubuntu)
	@if command -v containerd >/dev/null && command -v runc >/dev/null && command -v nft >/dev/null && [ -x /usr/lib/cni/ptp ] && [ -x /bin/busybox ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $(PACKAGES); } \
			|| echo "these could not be installed: $(PACKAGES)"; \
	else \
		echo "test clusters with a node need: apt-get install $(PACKAGES)"; \
	fi

images: tools packages ## write the images of test clusters into target/images
	RUSTFLAGS='-C target-feature=+crt-static' cargo build --locked --bin lockstep --profile image \
		--target x86_64-unknown-linux-gnu --target-dir target/static
	cd examples/applications/go && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o ../../../target/applications/go .
	cargo build --workspace --bins --locked
	target/debug/images target/static/x86_64-unknown-linux-gnu/image/lockstep target/applications/go target/images

# Says at once what is missing, and not after the long builds.
able: packages
	@cargo build --quiet -p lockstep-e2e --bin cluster --locked
	@target/debug/cluster check

CLUSTER := target/cluster

cluster: able tools-kube tools-helm images ## start a whole Kubernetes that stays, with these images, and say how to use it
	@target/debug/cluster up $(CLUSTER)

cluster-down: ## end it
	cargo build -p lockstep-e2e --bin cluster --locked
	@target/debug/cluster down $(CLUSTER)

build: ## build everything, tests and demo included
	cargo build --workspace --all-targets --locked

test: tools tools-nats-versions tools-kube tools-helm ## lint, then every test; the last line is the sum
	@python3 tools/run_tests.py

demo: able tools tools-kube tools-helm images ## Lockstep on a real cluster: helm install, apply, scale, kill, verdict
	@target/debug/cluster-demo

demo-local: tools ## a group without Kubernetes: members join, leave and are killed (KEEP=1 leaves it running)
	cargo build --workspace --bins --locked
	@target/debug/demo

# The core alone is optimised: everything else is built already, as tests need it.
MODEL := --config 'profile.dev.package.lockstep.opt-level=2' --config 'profile.dev.package.lockstep-model.opt-level=2'

model: ## try every order of events in the protocol within a large bound (stateright, about 10 minutes)
	cargo run -p lockstep-model --locked $(MODEL)

# cargo-mutants is not pinned: any version will do that knows `--iterate`.
mutants: ## change the core in small ways and see whether a test notices: FILE=src/group/... SHARD=0/8 (hours)
	@cargo mutants --version || { echo "first: cargo install cargo-mutants"; exit 1; }
	@python3 tools/mutants.py $(addprefix --file ,$(FILE)) $(if $(SHARD),--shard $(SHARD))

bench-cluster: tools-kube tools-helm images ## measure what the controller takes, the webhook, a rolling update (about 15 minutes)
	@target/debug/cluster-bench target/static/x86_64-unknown-linux-gnu/image/lockstep

MINUTES ?= 10
DICE = $(or $(SEED),$(shell date +%s))

chaos: tools ## faults of the whole catalogue in a seeded order (MINUTES=n SEED=n)
	cargo build --workspace --bins --locked
	@target/debug/chaos --minutes $(MINUTES) --seed $(DICE)

soak: tools ## one group under load and faults for long; nothing may grow (MINUTES=n SEED=n)
	cargo build --workspace --bins --locked
	@target/debug/soak $(MINUTES) $(DICE)

# One seed is shown event by event; else many are run. WITHOUT names a guard that is switched off.
SIM := $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),20000)) $(if $(WITHOUT),--without $(WITHOUT))

sim: ## run simulated worlds (SEEDS=20000), or show one (SEED=17), or without a guard (WITHOUT=cas)
	@cargo build --quiet -p lockstep-sim --bin sim --locked
	@target/debug/sim $(SIM)
bench: tools ## measure against the limit of NATS and against peers (QUICK=1: in less than 3 minutes)
	cargo build --release --locked --bin lockstep
	cargo build --release --locked -p lockstep-bench
	@sh bench/build.sh
	@target/release/lockstep-bench $(if $(QUICK),--quick)

lint: ## formatting, clippy and documentation, with warnings as errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --document-private-items

fmt: ## format the sources
	cargo fmt --all

clean: ## remove what was built, the pinned tools as well
	cargo clean
	rm -rf tools/bin
