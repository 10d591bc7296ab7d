SHELL := bash
.SHELLFLAGS := -euo pipefail -c
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GO ?= go
export CGO_ENABLED ?= 1

.PHONY: help build run test proof race lint generate bench e2e fuzz clean

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t14

build: ## Build bin/stoplog
	@mkdir -p bin
	$(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/stoplog ./cmd/stoplog

run: build ## Start the sidecar with the shipped destinations and the playground
	./bin/stoplog up

test: build e2e/node_modules ## Everything: vet, layers, unit, conformance, crash and end-to-end tests
	$(GO) vet ./...
	$(GO) test -race -timeout 8m ./...
	$(MAKE) e2e

e2e: build e2e/node_modules ## End-to-end tests with the vendors' official clients (needs Node 20)
	$(GO) build -o bin/e2e-vendors ./e2e/vendors
	cd e2e && npm test --silent

e2e/node_modules: e2e/package-lock.json
	cd e2e && npm ci --no-audit --no-fund
	@touch e2e/node_modules

proof: ## The long trials at full count (a seeded tenth of them runs in test)
	STOPLOG_LONG=1 $(GO) test -timeout 40m -run 'Trials|Crash|Power|Kill|Histor' ./...

lint: ## golangci-lint (version in docs/dependencies.md)
	golangci-lint run ./...

generate: ## Regenerate configs/configv1 and docs/reasons.md
	$(GO) generate ./...

bench: build ## Compare with a tuned httputil.ReverseProxy in one run
	$(GO) run ./bench

fuzz: ## Fuzz each parser of outside bytes for 20 s
	@for t in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]*' $$t/*_test.go | sed 's/func //'); do \
	    echo "== $$t $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime 20s $$t; done; done

clean: ## Remove build products
	rm -rf bin e2e/node_modules
