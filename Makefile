# make help lists the targets. Build results are in .cache.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

MODULES   := operator builder runtime trigger
GENERATED := $(wildcard deploy/*.yaml) deploy/optional/cert-manager.yaml deploy/optional/secrets.yaml deploy/chart/values.schema.json operator/api/v1beta1/zz_generated.deepcopy.go trigger/api/v1alpha1/zz_generated.deepcopy.go builder/internal/program/runtime.txtar builder/internal/schema/crd.yaml builder/internal/schema/triggers-crd.yaml docs/reference.md docs/settings.md
BIN       := .cache/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

# The time for which make fuzz runs each target.
FUZZTIME = 30s

# The platforms of the images, such as linux/amd64,linux/arm64.
ARCH      = $(shell go env GOARCH)
PLATFORMS = linux/$(ARCH)

# The version of the chart and of the release.
VERSION = 0.0.0
CHART   = .cache/chart/goless-$(VERSION:v%=%).tgz

# The Prometheus of the tests. The package of Debian is unpacked, not installed, so that
# its service does not start.
PROMETHEUS := $(or $(shell command -v prometheus),.cache/prometheus/usr/bin/prometheus)

# An independent Kafka client for the tests of triggers.
KCAT := $(or $(shell command -v kcat),/usr/bin/kcat)

# The modules that the functions of the tests require, in the layout of a module proxy.
# The tests of the builder read them here; the end-to-end tests use an image with them.
MODULES_SERVED := test/modproxy/kodata/modules
REQUIRE        := runtime test/e2e/testdata/dependencies test/e2e/testdata/publisher builder/internal/modules/testdata/current
REQUIRE_OLDER  := builder/internal/modules/testdata/older

# The race detector requires a C compiler. The packages in UNRACED are tested without it:
# they test programs in other processes or code without goroutines, or make faults tests
# them with the race detector. With it, their tests would take minutes longer.
RACE    := $(if $(shell command -v gcc),-race)
UNRACED := /(builder|cmd/builder|compile|modules|accesspolicy|function)$$

# The slowest unit tests, which compile and link many programs. make check leaves them out, and
# make test-all runs them as unit-slow.
SLOW := ^(TestBuildIsReproducible|TestMutantsOfTypes|TestImageHostile|TestBlame|TestLayout|TestAcceptedBuilds)$$|^TestScripts$$/^(examples|package|test|new|build_yaml|build_output)$$

# The packages whose tests start an API server. make check leaves them out, and make test runs them.
API := /(goless-operator|installcheck|accesspolicy|activator|wake|admission|function|controllers)$$

# The end-to-end tests that make test runs: about one for each feature. make test-all runs the others.
E2E := TestAdmission TestBuildServiceRefuses TestChangeOfSource TestClass TestCommandLine TestCompileErrorOnUpdate \
	TestDelete TestDependencies TestEnvironment TestExamples TestFiles TestHostileSources TestHTTPTrigger TestInsideOfFunction \
	TestKafkaTrigger TestKubectlExplainAndGet TestNATSTrigger TestPanicInHandler TestPodIsRestricted TestPrometheus TestRequestOutlivesUpdate \
	TestScale TestScaleOnRequests TestSharedCompilesOnce TestSleep TestTriggers TestWebsocket

# Like go test, and lists skipped tests with the reason at the end. Vet is off, because
# make lint runs it for all packages.
TEST := gotestsum --format standard-quiet -- -vet=off

# The go commands that unit tests run use a module proxy with only the modules above, and
# a module cache in this checkout. They do not use the module cache of the machine or the
# network, so a test that requires other modules fails.
UNIT := $(TEST) -timeout 40m -exec "env GOWORK=off GOSUMDB=off GOPROXY=file://$(CURDIR)/$(MODULES_SERVED) GOMODCACHE=$(CURDIR)/.cache/gomodcache"

empty :=
space := $(empty) $(empty)
comma := ,
say = @printf '\n==> %s\n' "$(1)"

# If KUBECONFIG and KO_DOCKER_REPO are both set, demo, e2e and bench use that cluster and
# registry. Otherwise they start a cluster.
ifneq ($(and $(KUBECONFIG),$(KO_DOCKER_REPO)),)
CLUSTER  :=
ENV_FILE :=
ENV      := :
else
CLUSTER  := cluster-up
ENV_FILE := .cache/cluster/env
ENV      := . $(CURDIR)/$(ENV_FILE)
endif

# The end-to-end tests; $(1) selects some of them.
e2e = $(ENV) && $(e2e_env) && cd test && $(TEST) -count=1 -timeout 60m $(1) ./e2e/...
e2e_env = cd test && export GOWORK=off PROMETHEUS=$(abspath $(PROMETHEUS)) && \
	MODPROXY_IMAGE=$$(ko build --base-import-paths ./modproxy) && \
	NATS_IMAGE=$$(ko build --base-import-paths ./natsserver) && KAFKA_IMAGE=$$(ko build --base-import-paths ./kafkaserver) && \
	export MODPROXY_IMAGE NATS_IMAGE KAFKA_IMAGE && cd ..

# The software of others that make neighbours runs Goless with. ONLY selects some, such as
# ONLY=keda,traefik.
NEIGHBOURS := $(notdir $(patsubst %/,%,$(sort $(wildcard test/neighbours/*/))))

##@ Start here

.PHONY: demo
demo: install ## install Goless and its requirements, run examples/hello.yaml on a real cluster, and call it
	@$(ENV) && ENV_FILE=$(ENV_FILE) test/demo.sh

.PHONY: test
test: check unit-api faults e2e e2e-chart ## check, tests with an API server, fault injection, the most important end-to-end tests and the chart on a real cluster
	$(call say,all tests passed. Not part of them: make test-all and FULL=1)

##@ Use

.PHONY: install
install: kodata $(BIN)/ko $(CLUSTER) ## build the images and install Goless into the cluster
	$(call say,installing Goless with ko)
	@$(ENV) && ko apply --base-import-paths -f deploy && \
	kubectl -n goless-system get deployments -o name | xargs -n 1 kubectl -n goless-system rollout status --timeout=180s

.PHONY: images
images: $(BIN)/ko $(BIN)/crane ## build all images for PLATFORMS and push them to KO_DOCKER_REPO
	@mkdir -p .cache && VERSION=$(VERSION) PLATFORMS=$(PLATFORMS) tools/images.sh | tee .cache/images

.PHONY: chart
chart: images $(BIN)/helm ## package the Helm chart, and push its images to KO_DOCKER_REPO
	$(call say,packaging the chart: $(CHART))
	@rm -rf $(dir $(CHART)); mkdir -p $(dir $(CHART)); VERSION=$(VERSION:v%=%) tools/chart.sh $(dir $(CHART)) $$(cat .cache/images)

.PHONY: release
release: PLATFORMS = linux/amd64,linux/arm64
release: $(BIN)/ko $(BIN)/crane $(BIN)/helm ## build the release VERSION of this commit in dist/, with images for KO_DOCKER_REPO; see CONTRIBUTING.md to publish it
	@VERSION=$(VERSION) PLATFORMS=$(PLATFORMS) tools/release.sh

.PHONY: kodata
kodata: ## download the Go toolchain of functions and fill its build cache, for the builder image
	$(call say,preparing the builder image for $(ARCH): toolchain and build cache)
	@go run ./builder/cmd/kodata -arch $(ARCH) builder/cmd/builder/kodata

.PHONY: cluster-up
cluster-up: ## start a Kubernetes cluster on this machine (as root, without Docker)
	$(call say,starting the cluster)
	@cd test/cluster && GOWORK=off go run ./cmd/cluster up

.PHONY: cluster-down
cluster-down: ## stop and remove that cluster; what was compiled stays in .cache
	@cd test/cluster && GOWORK=off go run ./cmd/cluster down

##@ Test

.PHONY: check
check: unit lint verify ## run the unit tests that need no API server, the linter, and check generated files

.PHONY: test-all
test-all: test test-rest ## run all tests

.PHONY: test-rest
test-rest: unit-slow release-test e2e-rest fuzz upgrade-test ## run the tests that make test leaves out

.PHONY: unit
unit: kodata modules $(PROMETHEUS) $(KCAT) $(BIN)/gotestsum ## run the unit tests of all modules that need no API server, without the slowest
	$(call say,testing the modules: about ten minutes without output)
	@# They run in parallel because each waits half of the time. The longest are first.
	@$(MAKE) --jobs=3 --output-sync=target --keep-going unit-builder unit-builder-raced unit-runtime unit-trigger unit-operator unit-test
	@# Without the race detector, which allocates memory too.
	@$(UNIT) -run '^TestAllocations$$' ./runtime
	@$(UNIT) -run '^TestMemory$$' ./trigger/internal/kafkastream

.PHONY: unit-builder unit-builder-raced unit-operator unit-runtime unit-trigger unit-test
unit-builder: # without the race detector, binaries are linked statically, as in the image
	@CGO_ENABLED=0 $(UNIT) -skip '$(SLOW)' $$(go list ./builder/... | grep -E '$(UNRACED)')
unit-builder-raced:
	@$(UNIT) $(RACE) $$(go list ./builder/... | grep -vE '$(UNRACED)')
	@# Tests of goroutines in the other packages. The test of go vet has a memory limit, which the race detector exceeds.
	@$(UNIT) $(RACE) -run '^(TestTest|TestFetchAndServe)$$' ./builder/internal/compile ./builder/internal/modules
unit-operator:
	@$(UNIT) $(RACE) $$(go list ./operator/... | grep -vE '$(API)')
unit-runtime: # most tests wait for a deadline
	@$(UNIT) $(RACE) -parallel 8 ./runtime/...
unit-trigger:
	@$(UNIT) $(RACE) $$(go list ./trigger/... | grep -vE '$(API)')
unit-test:
	@cd test && GOWORK=off PROMETHEUS=$(abspath $(PROMETHEUS)) $(TEST) -timeout 40m ./faults/wire ./monitoring/... ./otlp/... ./streams/...
	@cd test/cluster && GOWORK=off $(TEST) ./...

.PHONY: unit-slow
unit-slow: kodata modules $(BIN)/gotestsum ## run the slowest unit tests
	$(call say,testing what compiles many programs)
	@CGO_ENABLED=0 $(UNIT) -run '$(SLOW)' $$(go list ./builder/... | grep -E '$(UNRACED)')

.PHONY: unit-api
unit-api: kodata assets modules $(PROMETHEUS) $(BIN)/gotestsum ## run the tests with etcd and kube-apiserver
	$(call say,testing with an API server)
	@$(MAKE) --jobs=3 --output-sync=target --keep-going unit-api-operator unit-api-trigger unit-api-test

.PHONY: unit-api-operator unit-api-trigger unit-api-test
unit-api-operator:
	@KUBEBUILDER_ASSETS=$(CURDIR)/.cache/assets $(UNIT) $$(go list ./operator/... | grep -E '$(API)' | grep -E '$(UNRACED)')
	@KUBEBUILDER_ASSETS=$(CURDIR)/.cache/assets $(UNIT) $(RACE) $$(go list ./operator/... | grep -E '$(API)' | grep -vE '$(UNRACED)')
unit-api-trigger: # go list reports the directory of a module only after it is downloaded
	@go mod download sigs.k8s.io/gateway-api && \
	export GATEWAY_CRDS=$$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd/standard && \
	KUBEBUILDER_ASSETS=$(CURDIR)/.cache/assets $(UNIT) $(RACE) $$(go list ./trigger/... | grep -E '$(API)')
unit-api-test: # the test cache of Go does not detect changes of the builder and of the files that these tests read
	@cd test && GOWORK=off KUBEBUILDER_ASSETS=$(CURDIR)/.cache/assets $(TEST) -count=1 -timeout 20m ./bench/... ./cli/... ./docs/... ./install
	@cd test && GOWORK=off KUBEBUILDER_ASSETS=$(CURDIR)/.cache/assets PROMETHEUS=$(abspath $(PROMETHEUS)) $(TEST) -count=1 -run '^TestOperatorMonitoring$$' ./monitoring

.PHONY: modules
modules: $(MODULES_SERVED) ## download the modules that the functions of the tests require

.PHONY: assets
assets:
	@cd test/cluster && GOWORK=off go run ./cmd/cluster build
	@mkdir -p .cache/assets && for name in etcd kube-apiserver kubectl; do ln -sfn ../cluster/bin/kubernetes .cache/assets/$$name; done

.PHONY: faults
faults: assets $(BIN)/gotestsum ## run fault injection tests of the operator, and print a table (FULL=1 runs all cases, in about two hours)
	$(call say,testing the operator with fault injection)
	@# The tests mostly wait: three control planes, of 1 GiB each, are enough for two cores.
	@cd test/faults && GOWORK=off KUBEBUILDER_ASSETS=$(CURDIR)/.cache/assets $(TEST) -count=1 -parallel 3 -timeout 8h . $(if $(FULL),-full)

.PHONY: lint
lint: $(BIN)/golangci-lint ## run the linter, which also checks the imports between the modules
	$(call say,running the linter)
	@golangci-lint run $(MODULES:%=./%/...)
	@for module in test test/cluster; do (cd $$module && GOWORK=off golangci-lint run ./...); done

.PHONY: verify
verify: $(BIN)/controller-gen $(BIN)/helm ## check that generated files are current and that each module builds alone
	$(call say,verifying generated files and modules)
	@sums() { sha256sum $(GENERATED) deploy/*.yaml; }; before=$$(sums); $(MAKE) generate; \
	test "$$before" = "$$(sums)" || { echo "generated files were stale and have been regenerated: review git diff and commit them"; exit 1; }
	@for module in $(MODULES) test test/cluster; do (cd $$module && GOWORK=off go mod tidy -diff && GOWORK=off go build ./...); done
	@cd test && GOWORK=off HELM=$(abspath $(BIN)/helm) go test -count=1 ./chart # the test cache of Go does not detect changes of deploy/

.PHONY: release-test
release-test: kodata $(BIN)/ko $(BIN)/crane $(BIN)/helm $(BIN)/gotestsum ## build the release of the last commit twice, compare the results, and publish one to a test registry (FULL=1 with images for amd64 and arm64)
	$(call say,testing the release)
	@cd test && GOWORK=off $(TEST) -count=1 -timeout 60m ./release $(if $(FULL),-full)

.PHONY: e2e e2e-rest
e2e: install modules $(PROMETHEUS) $(BIN)/gotestsum ## run the most important end-to-end tests on the real cluster
	$(call say,testing on the real cluster)
	@$(call e2e,-run '^($(subst $(space),|,$(strip $(E2E))))$$')
e2e-rest: install modules $(PROMETHEUS) $(BIN)/gotestsum ## run the other end-to-end tests (FULL=1 with more requests, functions and killed processes)
	$(call say,testing the rest on the real cluster: about twenty minutes without output)
	@$(call e2e,-skip '^($(subst $(space),|,$(strip $(E2E)))|TestNeighbour.*)$$')

.PHONY: neighbours
neighbours: install modules $(PROMETHEUS) $(BIN)/gotestsum ## run tests with ingress controllers, autoscalers and other software on the real cluster, and list in docs/how-to/install.md what they have seen (ONLY=keda,traefik: only with these)
	@$(ENV) && $(e2e_env) && tools/neighbours.sh $(or $(subst $(comma),$(space),$(ONLY)),$(NEIGHBOURS))

.PHONY: e2e-chart
e2e-chart: $(CLUSTER) modules $(BIN)/gotestsum ## uninstall Goless from the real cluster and run the tests of the Helm chart there
ifeq ($(CLUSTER),)
	$(call say,skipping the tests of the chart: they would uninstall Goless with all Functions from the cluster of KUBECONFIG)
else
	@$(ENV) && $(MAKE) chart && kubectl delete --ignore-not-found --wait -f deploy >/dev/null
	$(call say,testing the chart on the real cluster)
	@$(ENV) && cd test && export GOWORK=off && HELM=$(abspath $(BIN)/helm) CHART=$(abspath $(CHART)) \
	MODPROXY_IMAGE=$$(ko build --base-import-paths ./modproxy) $(TEST) -count=1 -timeout 30m ./install
endif

.PHONY: upgrade-test
upgrade-test: kodata $(BIN)/ko $(CLUSTER) $(BIN)/gotestsum ## uninstall Goless from the real cluster, install the previous release from its commit, and upgrade it
ifeq ($(CLUSTER),)
	$(call say,skipping the upgrade test: it would uninstall Goless with all Functions from the cluster of KUBECONFIG)
else
	@$(ENV) && kubectl delete --ignore-not-found --wait -f deploy >/dev/null && ko resolve --base-import-paths -f deploy >.cache/install.yaml
	$(call say,testing the upgrade on the real cluster)
	@$(ENV) && cd test && GOWORK=off INSTALL=$(abspath .cache/install.yaml) $(TEST) -count=1 -timeout 40m -run '^TestUpgrade$$' ./install
endif

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME
	$(call say,fuzzing)
	@tools/fuzz.sh $(FUZZTIME)

.PHONY: vulnerabilities
vulnerabilities: ## look for known vulnerabilities in the dependencies (needs the vulnerability database of Go)
	@for module in $(MODULES); do (cd $$module && go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...); done

.PHONY: bench
bench: install assets ## run benchmarks on the real cluster, print a table and write .cache/bench.json (FULL=1 also those that take two hours longer; ONLY=wake,zero only these groups; N=30 more samples than 8 of each kind)
	$(call say,running benchmarks: about half an hour on an idle machine)
	@$(ENV) && cd test && export GOWORK=off && \
	PLAIN_IMAGE=$$(ko build --base-import-paths ./bench/plain) go run ./bench $(if $(FULL),-full) $(if $(N),-n $(N)) $(if $(ONLY),-only $(ONLY)) -o ../.cache/bench.json -plot ../.cache/requests.svg

.PHONY: figures
figures: ## write the results of make bench, measured on this machine with this commit, to docs/figures.md
	@cd test && GOWORK=off go run ./bench -o ../.cache/bench.json -page ../docs/figures.md
	@if [ -e .cache/requests.svg ]; then cp .cache/requests.svg docs/how-to/requests.svg; fi

##@ Change

.PHONY: generate
generate: $(BIN)/controller-gen $(BIN)/helm ## regenerate generated files
	@controller-gen object paths=./operator/api/...
	@controller-gen object paths=./trigger/api/...
	@{ echo '# Generated by make generate from operator/api/v1beta1.'; \
	   controller-gen crd:omitToolVersion=true paths=./operator/api/... output:crd:stdout; } | go run ./operator/cmd/unwrap > deploy/10-crd.yaml
	@{ echo '# Generated by make generate from trigger/api/v1alpha1.'; \
	   controller-gen crd:omitToolVersion=true paths=./trigger/api/... output:crd:stdout; } | go run ./operator/cmd/unwrap > deploy/15-triggers-crd.yaml
	@tools/render.sh
	@go run ./operator/cmd/chartschema > .cache/values.schema.json && mv .cache/values.schema.json deploy/chart/values.schema.json
	@go run ./operator/cmd/reference deploy/10-crd.yaml deploy/15-triggers-crd.yaml > docs/reference.md
	@go run ./operator/cmd/reference -settings deploy/25-config.yaml > docs/settings.md
	@cd builder && go generate ./...

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

.cache/prometheus/usr/bin/prometheus:
	$(call say,downloading Prometheus from Debian)
	@mkdir -p .cache/prometheus && cd .cache/prometheus && \
	{ command -v apt-get >/dev/null || { echo "apt-get not found: install prometheus, then try again"; exit 1; }; } && \
	{ apt-get download -q prometheus 2>/dev/null || { apt-get update -q && apt-get download -q prometheus; }; } && \
	dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb

/usr/bin/kcat:
	$(call say,installing kcat from Debian)
	@{ command -v apt-get && test "$$(id -u)" = 0; } >/dev/null || { echo "kcat not found, and installing it requires apt-get and root: install kcat, then try again"; exit 1; }; \
	install() { apt-get install -y -q --no-install-recommends kcat >/dev/null; }; \
	export DEBIAN_FRONTEND=noninteractive; install 2>/dev/null || { apt-get update -qq && install; }

$(MODULES_SERVED): $(foreach dir,$(REQUIRE) $(REQUIRE_OLDER),$(dir)/go.mod $(dir)/go.sum)
	$(call say,downloading the modules that the functions of the tests require)
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
