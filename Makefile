# make help lists what can be made. Everything that is built goes to .cache.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

MODULES   := operator builder runtime trigger
GENERATED := deploy/10-crd.yaml deploy/15-triggers-crd.yaml operator/api/v1beta1/zz_generated.deepcopy.go trigger/api/v1alpha1/zz_generated.deepcopy.go builder/internal/program/runtime.txtar builder/internal/input/crd.yaml builder/internal/input/triggers-crd.yaml docs/reference.md docs/settings.md
BIN       := .cache/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

# The platforms of the images, such as linux/amd64,linux/arm64.
ARCH      = $(shell go env GOARCH)
PLATFORMS = linux/$(ARCH)

# The version of the chart and of the release.
VERSION = 0.0.0
CHART   = .cache/chart/goless-$(VERSION:v%=%).tgz

# The end-to-end tests let a real Prometheus scrape. Debian's is unpacked and not
# installed, so that no service of it starts.
PROMETHEUS := $(or $(shell command -v prometheus),.cache/prometheus/usr/bin/prometheus)

# A client of Kafka by others, which the tests of triggers use too.
KCAT := $(or $(shell command -v kcat),/usr/bin/kcat)

# The modules that the tests' functions require, as a module proxy has them. The
# builder's tests read them here, and the end-to-end tests have them in an image.
MODULES_SERVED := test/modproxy/kodata/modules
REQUIRE        := runtime test/e2e/testdata/dependencies test/e2e/testdata/publisher builder/internal/modules/testdata/current
REQUIRE_OLDER  := builder/internal/modules/testdata/older

# The race detector needs a C compiler. What these packages test are programs that they
# start, functions without goroutines, and an operator that runs with the race detector
# in the tests of faults: here it would only take minutes.
RACE    := $(if $(shell command -v gcc),-race)
UNRACED := /(builder|cmd/builder|compile|modules|accesspolicy|function|status)$$

# As go test, and at the end it says which tests were skipped, and why. What go test would
# vet, with all that it depends on, make verify vets once for all of them.
TEST := gotestsum --format standard-quiet -- -vet=off

# The go commands that the unit tests of the modules run see no modules of this
# machine, and have no network: there is a module proxy of exactly what is listed
# above, and a module cache of this checkout. A test that needs more fails here as on a fresh machine.
UNIT := $(TEST) -timeout 40m -exec "env GOWORK=off GOSUMDB=off GOPROXY=file://$(CURDIR)/$(MODULES_SERVED) GOMODCACHE=$(CURDIR)/.cache/gomodcache"

comma := ,
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
test: unit ## run every test: units, faults, linter, release, generated files, real cluster
	$(call say,testing the operator under faults$(comma) and beside them the linter and the release: some ten minutes without a word)
	@# The faults mostly wait.
	@$(MAKE) --jobs=2 --output-sync=target faults lint release-test
	@$(MAKE) verify e2e e2e-chart
	$(call say,all tests passed)

##@ Use

.PHONY: install
install: kodata $(BIN)/ko $(CLUSTER) ## install Goless into the cluster, images included
	$(call say,installing Goless with ko)
	@$(ENV) && ko apply --base-import-paths -f deploy && \
	kubectl -n goless-system get deployments -o name | xargs -n 1 kubectl -n goless-system rollout status --timeout=180s

.PHONY: images
images: $(BIN)/ko $(BIN)/crane ## build all images for PLATFORMS and push them to KO_DOCKER_REPO
	@mkdir -p .cache && VERSION=$(VERSION) PLATFORMS=$(PLATFORMS) tools/images.sh | tee .cache/images

.PHONY: chart
chart: images $(BIN)/helm ## derive the Helm chart from deploy/, and push its images to KO_DOCKER_REPO
	$(call say,making the chart: $(CHART))
	@rm -rf $(dir $(CHART)); mkdir -p $(dir $(CHART)); \
	go run ./operator/cmd/chart -version $(VERSION:v%=%) $$(sed 's/^/-image /' .cache/images) -o $(dir $(CHART))goless
	@helm package $(dir $(CHART))goless -d $(dir $(CHART))

.PHONY: release
release: PLATFORMS = linux/amd64,linux/arm64
release: $(BIN)/ko $(BIN)/crane $(BIN)/helm ## make the release VERSION of this commit in dist/, for images in KO_DOCKER_REPO; CONTRIBUTING.md says how to publish it
	@VERSION=$(VERSION) PLATFORMS=$(PLATFORMS) tools/release.sh

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
unit: kodata assets modules $(PROMETHEUS) $(KCAT) $(BIN)/gotestsum ## run the tests of all modules, some against etcd and kube-apiserver
	$(call say,testing the modules)
	@# Each of them waits for half of its time. The first take longest, and the others are short, or need what those have compiled.
	@$(MAKE) --jobs=3 --output-sync=target --keep-going unit-builder unit-operator unit-trigger unit-test unit-builder-raced unit-runtime
	@# The race detector allocates memory too.
	@$(UNIT) -run '^TestAllocations$$' ./runtime
	@$(UNIT) -run '^TestMemory$$' ./trigger/internal/kafkastream

.PHONY: unit-builder unit-builder-raced unit-operator unit-runtime unit-trigger unit-test
unit-builder: # what is not raced is linked statically, as in the image
	@CGO_ENABLED=0 $(UNIT) $$(go list ./builder/... | grep -E '$(UNRACED)')
unit-builder-raced:
	@$(UNIT) $(RACE) $$(go list ./builder/... | grep -vE '$(UNRACED)')
	@# Their goroutines. That of vet is left out: it is limited in memory, of which the race detector takes terabytes.
	@$(UNIT) $(RACE) -run '^(TestTest|TestFetchAndServe)$$' ./builder/internal/compile ./builder/internal/modules
unit-operator: # without the chart: make verify has the helm command that its tests need
	@KUBEBUILDER_ASSETS=$(CURDIR)/.cache/assets $(UNIT) $$(go list ./operator/... | grep -E '$(UNRACED)')
	@KUBEBUILDER_ASSETS=$(CURDIR)/.cache/assets $(UNIT) $(RACE) $$(go list ./operator/... | grep -vE '$(UNRACED)|/chart$$')
unit-runtime: # most of these wait for a deadline
	@$(UNIT) $(RACE) -parallel 8 ./runtime/...
unit-trigger: # the directory of a module is empty in go list until the module is downloaded
	@go mod download sigs.k8s.io/gateway-api && \
	export GATEWAY_CRDS=$$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd/standard && \
	KUBEBUILDER_ASSETS=$(CURDIR)/.cache/assets $(UNIT) $(RACE) ./trigger/...
unit-test: # some of these build the operator, with the modules of this machine
	@cd test && GOWORK=off PROMETHEUS=$(abspath $(PROMETHEUS)) $(TEST) -timeout 40m ./bench/... ./gateway/... ./monitoring/... ./otlp/... ./podmetrics/... ./streams/...
	@cd test && GOWORK=off KUBEBUILDER_ASSETS=$(CURDIR)/.cache/assets $(TEST) -count=1 -timeout 20m ./cli/... # Go does not see a change of the builder
	@cd test && GOWORK=off KUBEBUILDER_ASSETS=$(CURDIR)/.cache/assets $(TEST) -count=1 ./docs/... ./install # Go does not see that the files have changed which these read
	@cd test/cluster && GOWORK=off $(TEST) ./...

.PHONY: modules
modules: $(MODULES_SERVED) ## fetch the modules that the tests' functions require

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
verify: $(BIN)/controller-gen $(BIN)/helm ## prove that generated files are current and that each module builds alone
	$(call say,verifying generated files and modules)
	@before=$$(sha256sum $(GENERATED)); $(MAKE) generate; \
	test "$$before" = "$$(sha256sum $(GENERATED))" || { echo "generated files were stale and are written anew: look at git diff and commit them"; exit 1; }
	@for module in $(MODULES) test test/cluster; do (cd $$module && GOWORK=off go mod tidy -diff && GOWORK=off go vet ./...); done
	@HELM=$(abspath $(BIN)/helm) go test -count=1 ./operator/cmd/chart # Go does not see that deploy/ has changed

.PHONY: release-test
release-test: kodata $(BIN)/ko $(BIN)/crane $(BIN)/helm $(BIN)/gotestsum ## make two releases of the last commit, compare them, and publish one to a registry of the test (FULL=1 with images for amd64 and arm64)
	$(call say,testing the release)
	@cd test && GOWORK=off $(TEST) -count=1 -timeout 60m ./release $(if $(FULL),-full)

.PHONY: e2e
e2e: install modules $(PROMETHEUS) $(BIN)/gotestsum ## run the end-to-end tests on the real cluster (FULL=1 with more requests, functions and kills)
	$(call say,testing on the real cluster)
	@$(ENV) && cd test && export GOWORK=off PROMETHEUS=$(abspath $(PROMETHEUS)) && \
	MODPROXY_IMAGE=$$(ko build --base-import-paths ./modproxy) PODMETRICS_IMAGE=$$(ko build --base-import-paths ./podmetrics) \
	NATS_IMAGE=$$(ko build --base-import-paths ./natsserver) KAFKA_IMAGE=$$(ko build --base-import-paths ./kafkaserver) \
	GATEWAY_IMAGE=$$(ko build --base-import-paths ./gateway) \
	$(TEST) -count=1 -timeout 60m ./e2e/...

.PHONY: e2e-chart
e2e-chart: $(CLUSTER) modules $(BIN)/gotestsum ## run the tests of the Helm chart on the real cluster, from which Goless is uninstalled
ifeq ($(CLUSTER),)
	$(call say,leaving out the tests of the chart: they would uninstall Goless with all Functions from the cluster of KUBECONFIG)
else
	@$(ENV) && $(MAKE) chart && kubectl delete --ignore-not-found --wait -f deploy >/dev/null
	$(call say,testing the chart on the real cluster)
	@$(ENV) && cd test && export GOWORK=off && HELM=$(abspath $(BIN)/helm) CHART=$(abspath $(CHART)) \
	MODPROXY_IMAGE=$$(ko build --base-import-paths ./modproxy) $(TEST) -count=1 -timeout 30m ./install
endif

.PHONY: upgrade-test
upgrade-test: kodata $(BIN)/ko $(CLUSTER) $(BIN)/gotestsum ## make the release before from its commit, and upgrade from it on the real cluster, from which Goless is uninstalled
ifeq ($(CLUSTER),)
	$(call say,leaving out the test of an upgrade: it would uninstall Goless with all Functions from the cluster of KUBECONFIG)
else
	@$(ENV) && kubectl delete --ignore-not-found --wait -f deploy >/dev/null && ko resolve --base-import-paths -f deploy >.cache/install.yaml
	$(call say,testing the upgrade on the real cluster)
	@$(ENV) && cd test && GOWORK=off INSTALL=$(abspath .cache/install.yaml) $(TEST) -count=1 -timeout 40m -run '^TestUpgrade$$' ./install
endif

.PHONY: bench
bench: install assets ## measure on the real cluster; prints a table and writes .cache/bench.json (FULL=1 also what takes more than an hour; ONLY=wake,zero some groups)
	$(call say,measuring: less than twenty minutes on a quiet machine)
	@$(ENV) && cd test && export GOWORK=off && \
	PLAIN_IMAGE=$$(ko build --base-import-paths ./bench/plain) go run ./bench $(if $(FULL),-full) $(if $(ONLY),-only $(ONLY)) -o ../.cache/bench.json

.PHONY: figures
figures: ## write what make bench has measured, on this machine and of this commit, into docs/figures.md
	@cd test && GOWORK=off go run ./bench -o ../.cache/bench.json -page ../docs/figures.md

##@ Change

.PHONY: generate
generate: $(BIN)/controller-gen ## write generated files anew
	@controller-gen object paths=./operator/api/...
	@controller-gen object paths=./trigger/api/...
	@{ echo '# Generated by make generate from operator/api/v1beta1.'; \
	   controller-gen crd:omitToolVersion=true paths=./operator/api/... output:crd:stdout; } | go run ./operator/cmd/unwrap > deploy/10-crd.yaml
	@{ echo '# Generated by make generate from trigger/api/v1alpha1.'; \
	   controller-gen crd:omitToolVersion=true paths=./trigger/api/... output:crd:stdout; } | go run ./operator/cmd/unwrap > deploy/15-triggers-crd.yaml
	@go run ./operator/cmd/reference deploy/10-crd.yaml deploy/15-triggers-crd.yaml > docs/reference.md
	@go run ./operator/cmd/reference -settings deploy/25-config.yaml > docs/settings.md
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

/usr/bin/kcat:
	$(call say,installing kcat from Debian)
	@{ command -v apt-get && test "$$(id -u)" = 0; } >/dev/null || { echo "install kcat, then try again"; exit 1; }; \
	install() { apt-get install -y -q --no-install-recommends kcat >/dev/null; }; \
	export DEBIAN_FRONTEND=noninteractive; install 2>/dev/null || { apt-get update -qq && install; }

$(MODULES_SERVED): $(foreach dir,$(REQUIRE) $(REQUIRE_OLDER),$(dir)/go.mod $(dir)/go.sum)
	$(call say,fetching the modules that the tests' functions require)
	@rm -rf $(@D) .cache/modproxy; mkdir -p $(@D); \
	export GOWORK=off GOFLAGS=-modcacherw GOMODCACHE=$(abspath .cache/modproxy); \
	for dir in $(REQUIRE); do (cd $$dir; go mod tidy -diff); done; \
	for dir in $(REQUIRE) $(REQUIRE_OLDER); do (cd $$dir; go list -m -json all >/dev/null); done; \
	cp -r .cache/modproxy/cache/download $@; rm -rf $@/sumdb .cache/modproxy

$(BIN)/helm: tools/helm/go.mod tools/helm/go.sum
	$(call say,building helm (some minutes the first time))
	@mkdir -p $(BIN)
	@cd tools/helm && GOWORK=off go build -o ../../$@ $$(GOWORK=off go list tool)

$(BIN)/%: tools/go.mod tools/go.sum
	$(call say,building $* (some minutes the first time))
	@mkdir -p $(BIN)
	@cd tools && GOWORK=off go build -o ../$@ $$(GOWORK=off go list tool | grep '/$*$$')
