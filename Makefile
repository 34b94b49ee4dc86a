# make help lists what can be made. Everything that is built goes to .cache.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

MODULES   := operator builder runtime
GENERATED := deploy/10-crd.yaml operator/api/v1beta1/zz_generated.deepcopy.go builder/internal/program/runtime.txtar
BIN       := .cache/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

# The platforms of the images, such as linux/amd64,linux/arm64. The data of the
# builder's image is for one of them, so that image is made for one after the other.
ARCH      = $(shell go env GOARCH)
PLATFORMS = linux/$(ARCH)
comma    := ,
ARCHES    = $(patsubst linux/%,%,$(subst $(comma), ,$(PLATFORMS)))

# The end-to-end tests let a real Prometheus scrape. Debian's is unpacked and not
# installed, so that no service of it starts.
PROMETHEUS := $(or $(shell command -v prometheus),.cache/prometheus/usr/bin/prometheus)

# The modules that functions of the end-to-end tests need, as a module proxy has
# them, in the image of one.
MODULES_SERVED := test/e2e/modproxy/kodata/modules
DEPENDENCIES   := test/e2e/testdata/dependencies

# The race detector needs a C compiler.
RACE := $(if $(shell command -v gcc),-race)

# As go test, and at the end it says which tests were skipped, and why.
TEST := gotestsum --format standard-quiet --

say = @printf '\n==> %s\n' "$(1)"

# demo, e2e and bench use the cluster that KUBECONFIG and KO_DOCKER_REPO name, if
# both are set, and one of their own otherwise.
ifneq ($(and $(KUBECONFIG),$(KO_DOCKER_REPO)),)
CLUSTER  :=
ENV_FILE :=
ENV      := :
else
CLUSTER  := cluster-up
ENV_FILE := .cache/cluster/env
ENV      := . $(CURDIR)/$(ENV_FILE)
endif

##@ Two commands

.PHONY: demo
demo: install ## set up whatever is missing, run examples/hello.yaml on a real cluster, call it
	@$(ENV) && ENV_FILE=$(ENV_FILE) test/demo.sh

.PHONY: test
test: unit faults lint verify e2e ## run every test: units, faults, linter, generated files, API server, real cluster
	$(call say,all tests passed)

##@ Use

.PHONY: install
install: kodata $(BIN)/ko $(CLUSTER) ## install Goless into the cluster, images included
	$(call say,installing Goless with ko)
	@$(ENV) && ko apply --base-import-paths -f deploy && \
	kubectl -n goless-system rollout status deployment/goless-operator --timeout=180s

.PHONY: images
images: $(BIN)/ko $(BIN)/crane ## build all images for PLATFORMS and push them to KO_DOCKER_REPO
	@test -n "$(KO_DOCKER_REPO)" || { echo "set KO_DOCKER_REPO to a registry that you may push to, for example KO_DOCKER_REPO=localhost:5000"; exit 1; }
	@ko build --base-import-paths --platform=$(PLATFORMS) ./operator/cmd/goless-operator ./runtime/cmd/launch
	@for arch in $(ARCHES); do \
	  $(MAKE) kodata ARCH=$$arch >&2; \
	  manifests+=" --manifest $$(ko build --base-import-paths --platform=linux/$$arch ./builder/cmd/builder)"; \
	done; crane index append $$manifests --tag $(KO_DOCKER_REPO)/builder:latest
	@$(MAKE) kodata

.PHONY: kodata
kodata: ## fetch the Go toolchain of functions and warm its build cache, for the builder image
	$(call say,preparing the builder image for $(ARCH): toolchain and warm build cache)
	@go run ./builder/cmd/kodata -arch $(ARCH) builder/cmd/builder/kodata

.PHONY: cluster-up
cluster-up: ## start a real Kubernetes on this machine (as root, without Docker)
	$(call say,starting the cluster)
	@cd test/cluster && GOWORK=off go run ./cmd/cluster up

.PHONY: cluster-down
cluster-down: ## stop that Kubernetes and leave nothing of it behind
	@cd test/cluster && GOWORK=off go run ./cmd/cluster down

##@ Test

.PHONY: unit
unit: kodata assets $(PROMETHEUS) $(BIN)/gotestsum ## run the tests of all modules, some against etcd and kube-apiserver
	$(call say,testing the modules)
	@# Each of them waits for half of its time.
	@$(MAKE) --jobs=3 --output-sync=target --keep-going unit-builder unit-operator unit-runtime unit-test
	@# These two need a small heap of their own, without the race detector.
	@$(TEST) -run '^(TestAllocations|TestPace)$$' ./runtime

.PHONY: unit-builder unit-operator unit-runtime unit-test
unit-builder:
	@$(TEST) ./builder/...
unit-operator:
	@KUBEBUILDER_ASSETS=$(CURDIR)/.cache/assets $(TEST) ./operator/...
unit-runtime:
	@$(TEST) $(RACE) ./runtime/...
unit-test:
	@cd test && GOWORK=off PROMETHEUS=$(abspath $(PROMETHEUS)) $(TEST) ./monitoring/... ./otlp/...
	@cd test/cluster && GOWORK=off $(TEST) ./...

.PHONY: assets
assets:
	@cd test/cluster && GOWORK=off go run ./cmd/cluster build
	@mkdir -p .cache/assets && for name in etcd kube-apiserver kubectl; do ln -sfn ../cluster/bin/kubernetes .cache/assets/$$name; done

.PHONY: faults
faults: assets $(BIN)/gotestsum ## hurt the operator in every way there is, and print a table (FULL=1 tries all cases, for some two hours)
	$(call say,testing the operator under faults)
	@# Most of the time is waiting: three control planes, of 1 GiB each, keep two cores busy.
	@cd test/faults && GOWORK=off KUBEBUILDER_ASSETS=$(CURDIR)/.cache/assets $(TEST) -count=1 -parallel 3 -timeout 8h $(if $(FULL),-full)

.PHONY: lint
lint: $(BIN)/golangci-lint ## run the linter, the import arrows between the modules included
	$(call say,running the linter)
	@golangci-lint run $(MODULES:%=./%/...)
	@for module in test test/cluster; do (cd $$module && GOWORK=off golangci-lint run ./...); done

.PHONY: verify
verify: $(BIN)/controller-gen ## prove that generated files are current and that each module builds alone
	$(call say,verifying generated files and modules)
	@before=$$(sha256sum $(GENERATED)); $(MAKE) generate; \
	test "$$before" = "$$(sha256sum $(GENERATED))" || { echo "generated files were stale and are written anew: look at git diff and commit them"; exit 1; }
	@for module in $(MODULES) test test/cluster; do (cd $$module && GOWORK=off go mod tidy -diff && GOWORK=off go vet ./...); done

.PHONY: e2e
e2e: install $(PROMETHEUS) $(MODULES_SERVED) $(BIN)/gotestsum ## run the end-to-end tests on the real cluster
	$(call say,testing on the real cluster)
	@$(ENV) && cd test && export GOWORK=off PROMETHEUS=$(abspath $(PROMETHEUS)) && \
	MODPROXY_IMAGE=$$(ko build --base-import-paths ./e2e/modproxy) $(TEST) -count=1 -timeout 60m ./e2e/...

.PHONY: bench
bench: install ## measure on the real cluster; prints a table and writes .cache/bench.json
	$(call say,measuring: a quarter of a minute a round)
	@$(ENV) && cd test && export GOWORK=off && \
	PLAIN_IMAGE=$$(ko build --base-import-paths ./bench/plain) go run ./bench -o ../.cache/bench.json

##@ Change

.PHONY: generate
generate: $(BIN)/controller-gen ## write generated files anew
	@controller-gen object paths=./operator/api/...
	@{ echo '# Generated by make generate from operator/api/v1beta1.'; \
	   controller-gen crd:omitToolVersion=true paths=./operator/api/... output:crd:stdout; } > deploy/10-crd.yaml
	@cd builder && go generate ./...

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

.cache/prometheus/usr/bin/prometheus:
	$(call say,fetching Prometheus from Debian)
	@mkdir -p .cache/prometheus && cd .cache/prometheus && \
	{ command -v apt-get >/dev/null || { echo "install prometheus, then try again"; exit 1; }; } && \
	{ apt-get download -q prometheus 2>/dev/null || { apt-get update -q && apt-get download -q prometheus; }; } && \
	dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb

$(MODULES_SERVED): $(DEPENDENCIES)/go.sum
	$(call say,fetching the modules that the tests' functions need)
	@rm -rf $(@D) && mkdir -p $(@D) && \
	export GOWORK=off GOFLAGS=-modcacherw GOMODCACHE=$(abspath .cache/modproxy) && \
	(cd $(DEPENDENCIES) && go mod download all) && cp -r .cache/modproxy/cache/download $@ && rm -rf $@/sumdb

$(BIN)/%: tools/go.mod tools/go.sum
	$(call say,building $* (some minutes the first time))
	@mkdir -p $(BIN)
	@cd tools && GOWORK=off go build -o ../$@ $$(GOWORK=off go list tool | grep '/$*$$')
