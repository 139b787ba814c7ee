# SPDX-License-Identifier: Apache-2.0
#
# make build           the host binary bin/http01-proxyd, and the administrator's tool
# make lint            formatting, static checks, units, scripts, workflows, words
# make test            unit and kernel tests, and the main paths through the labs (root)
# make test-all        every test and, beside them, the fuzzers (root)
# make ci              lint beside test-all, with --jobs=2 (root)
# make test-unit       parts of these tests: cmd/, internal/ and pkg/
# make test-lab        ... test/, the labs
# make test-host       ... the unit, and its delivery, on hosts that boot
# make test-release    ... image, release and `make install`
# make flakes          the tests of SET N times under load: N=5 LOAD=4 SET=main or all
# make machineconfigs  the MachineConfigs: IMAGE CONFIG APISERVER HTTP01PROXY INFRASTRUCTURE ALLOW_DISABLED TRUSTED_CA PROXY CLUSTER_DOMAIN POOL SUMS OUT LAYERED FCOS
# make crd             the API as a patch of the cluster's CRD: machineconfigs/crd
# make dashboard       the copy of the Grafana dashboard for the console
# make image           the container image, for all architectures
# make release         all files of a release: VERSION IMAGE_REPOSITORY KEY
# make sign            the signature of dist/SHA256SUMS: KEY
# make attest          the signed provenance and bill of materials of dist: KEY
# make sign-image      the image with signatures that nodes verify, in a registry: KEY PUSH
# make reproduce       a release again, compared with the published files: VERSION PUBLISHED
# make verify          that signature and the checksums in dist: PUBLIC_KEY
# make install         installation of binary and units on this host: DESTDIR PREFIX
# make rpm             binary and units as an RPM: ARCHITECTURE VERSION BINARY
# make deb             the same as a Debian package
# make repository      the RPMs of dist as a signed repository: GPG_KEY URL
# make demo            the whole path of a challenge, in network namespaces (root)
# make rehearsal       cert-manager's controllers on a real API server, in the lab (root); VERSION=1.20 or 1.19: older
# make mco             OpenShift's machine-config-operator runs the documented procedures (root); VERSION=4.19: older
# make bench           proxies compared: docs/internals/bench (root, half an hour)
# make bench-failover  time to follow the move of a VIP (root)
# make bench-idle      wake-ups, CPU and memory of the idle service, beside keepalived, HAProxy and nginx (root)
# make bench-flood     a minute with 50,000 connections and challenges (root)
# make chaos           random faults for DURATION from SEED on, compared with a model; or FLAPPING=60s (root)
# make soak            accelerated life for DURATION: does anything grow? (root)
# make share           man pages and completion files: bin/share
# make docs            files that are generated from the code: catalog, documents
# make pictures        the pictures of the documentation; the tests draw them too (root)
# make fuzz            every fuzzer for FUZZTIME
# make vulncheck       known vulnerabilities in the used modules; needs vuln.go.dev
# make syscalls        the system calls of each child process in a run of SYSCALL_TESTS (root)
# make tidy            go.mod and go.sum of all modules
# make clean           removal of what is built: bin and dist
# make help            this list

SHELL           := bash
.SHELLFLAGS     := -o pipefail -c

GO              ?= go
# Compilers and linters with a larger heap: an eighth to a third less CPU time.
LARGE_HEAP      := GOGC=400 GOMEMLIMIT=3GiB
BIN             := $(CURDIR)/bin
TOOLS           := $(CURDIR)/.cache/tools
GOLANGCI_LINT   := $(TOOLS)/golangci-lint-v2.15.0
# The linters make folders in the home directory, which would be leftovers of the tests
# beside them.
LINT             = $(LARGE_HEAP) GOCACHE="$$($(GO) env GOCACHE)" XDG_CACHE_HOME=$(CURDIR)/.cache $(GOLANGCI_LINT)
GOFUMPT         := $(TOOLS)/gofumpt-v0.12.0
VALE            := $(TOOLS)/vale-v3.22.0
ACTIONLINT      := $(TOOLS)/actionlint-v1.7.12
CONTROLLER_GEN  := $(TOOLS)/controller-gen-v0.23.0
# As Tags of test/support/oracle.
OPENSHIFT_TAGS  := containers_image_openpgp exclude_graphdriver_devicemapper exclude_graphdriver_btrfs containers_image_ostree_stub
FUZZTIME        ?= 60s
SUDO            := $(shell [ "$$(id -u)" -eq 0 ] || echo sudo -E env PATH="$$PATH")
SHELL_FILES     := .ci/run test/install-packages test/run-readme test/support/guest/init.sh test/support/guest/trim.sh systemd/http01-proxyd-install docs/install/certificate-files/http01-certificate-files pkg/cluster/disruption/apply.sh pkg/cluster/certificate/switch.sh build/release build/must-gather/gather build/reproduce packaging/build-package packaging/build-repository packaging/source-archive $(wildcard packaging/scriptlets/* packaging/debian/p*)
UNITS           := $(wildcard $(addprefix systemd/,*.service *.timer) $(addprefix docs/install/certificate-files/,*.service *.timer))

export CGO_ENABLED ?= 0

.PHONY: all build packages ci lint-beside lint lint-go lint-shell lint-units lint-workflows lint-words lint-packages test test-all test-unit test-lab test-host test-release flakes demo rehearsal mco bench bench-failover bench-idle bench-flood fuzz machineconfigs crd controller-gen docs pictures dashboard tidy clean help syscalls vulncheck chaos soak

all: build

# The list above.
help:
	@sed -n 's/^# \(make .*\)/\1/p' '$(firstword $(MAKEFILE_LIST))'

include build/release.mk

# The exporter and the prober use net/http for HTTP/1.1 only: the tag omits 0.5 MB of HTTP/2.
build:
	$(GO) build -trimpath -buildvcs=auto -tags nethttpomithttp2 -ldflags '-s -w' -o $(BIN)/ ./cmd/http01-proxyd ./cmd/oc-http01

lint: lint-go lint-shell lint-units lint-workflows lint-words lint-packages

# The linter would analyse all packages of boulder.
lint-go: $(GOLANGCI_LINT) $(GOFUMPT)
	@out=$$($(GOFUMPT) -l *.go cmd internal pkg build test); [ -z "$$out" ] || { echo "not gofumpt-ed: $$out"; exit 1; }
	$(GO) mod tidy -diff
	$(LINT) run ./...
	for module in build test test/rehearsal; do \
		cd $(CURDIR)/$$module && $(GO) mod tidy -diff && \
		$(LINT) run --config $(CURDIR)/.golangci.yml ./... || exit 1; \
	done
	cd test/support/boulder && $(GO) mod tidy -diff && $(LARGE_HEAP) $(GO) vet .
	cd test/openshift && $(GO) mod tidy -diff && $(LARGE_HEAP) $(GO) vet -tags "$(OPENSHIFT_TAGS)" ./...
	cd test/rehearsal && $(LARGE_HEAP) $(GO) vet -tags mco ./openshift

lint-shell:
	shellcheck $(SHELL_FILES)

# systemd-analyze requires that the programs of the units exist: check copies with the
# paths in this checkout.
lint-units: build
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	for unit in $(UNITS); do \
		sed -e 's|/usr/local/bin/http01-certificate-files|$(CURDIR)/docs/install/certificate-files/http01-certificate-files|' \
			-e 's|/usr/local/bin/http01-proxyd-install|$(CURDIR)/systemd/http01-proxyd-install|' \
			-e 's|/usr/local/bin/http01-proxyd|$(BIN)/http01-proxyd|' "$$unit" > "$$dir/$$(basename "$$unit")" || exit 1; \
	done && \
	systemd-analyze verify --man=no "$$dir"/*
	@for limit in 15:systemd/http01-proxyd.service 31:systemd/http01-proxyd-install.service \
		9:docs/install/certificate-files/http01-certificate-files.service; do \
		systemd-analyze security --offline=true --threshold=$${limit%%:*} --no-pager $${limit#*:} > $(BIN)/security.txt || \
			{ cat $(BIN)/security.txt; echo "$${limit#*:}: the exposure is above $${limit%%:*} tenths" >&2; exit 1; }; \
		tail -n 1 $(BIN)/security.txt; \
	done

# It runs shellcheck over the commands of the workflows.
lint-workflows: $(ACTIONLINT)
	$(ACTIONLINT)

lint-packages:
	rpmlint --strict --config packaging/rpmlint.toml packaging/http01-proxyd.spec

# The word list (.vale/http01) and the length of sentences over all Markdown, and the words
# over the rendered texts: the journal catalog and the help of each command. The test
# test/suites/words runs the list over comments, string literals, scripts, units,
# manifests, alerts, dashboards and workflows.
lint-words: build $(VALE)
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	cp systemd/http01-proxyd.catalog "$$dir/catalog.txt" && \
	for program in http01-proxyd oc-http01; do \
		$(BIN)/$$program --help > "$$dir/$$program.txt" && \
		for command in $$($(BIN)/$$program __complete '' 2>/dev/null | sed -n 's/\t.*//p'); do \
			$(BIN)/$$program $$command --help > "$$dir/$$program-$$command.txt" || exit 1; \
		done || exit 1; \
	done && \
	test -s "$$dir/http01-proxyd-check.txt" -a -s "$$dir/oc-http01-render.txt" && \
	XDG_CONFIG_HOME=$(CURDIR)/.cache XDG_DATA_HOME=$(CURDIR)/.cache $(VALE) --output=line $$(git ls-files '*.md') "$$dir"

# Which tests there are, how they are split, and what `make test` leaves out is in
# test/cmd/suites/table.go. SUITES has further flags, such as -only '^pkg/'.
# Tests that run make must not search for the job slots of this one.
RUN_SUITES = MAKEFLAGS= $(BIN)/suites -root $(CURDIR)
HOSTS      = ^test/(support/(host|cluster)|suites/(delivery|packaging))$$

test: packages $(BIN)/suites
	$(RUN_SUITES) -set main $(SUITES)

test-all: packages $(BIN)/suites
	$(RUN_SUITES) -set all -fuzz $(SUITES)

# The tests mostly wait, and the linters use the cores then. The priority is that of the
# fuzzers.
ci: lint-beside test-all

lint-beside: packages
	@nice -n 10 $(MAKE) --no-print-directory lint

test-unit: packages $(BIN)/suites
	$(RUN_SUITES) -only '^(cmd|internal|pkg)/' $(SUITES)

test-lab: packages $(BIN)/suites
	$(RUN_SUITES) -only '^test/' -skip '$(HOSTS)' $(SUITES)

test-host: packages $(BIN)/suites
	$(RUN_SUITES) -only '$(HOSTS)' $(SUITES)

test-release: packages $(BIN)/suites
	$(RUN_SUITES) -only '^build' $(SUITES)

# Rounds of the tests of SET beside busy loops. A single failure is a defect of the test
# or of the tested code.
N    ?= 5
LOAD ?= 4
SET  ?= main

flakes: packages $(BIN)/suites
	$(RUN_SUITES) -set $(SET) -rounds $(N) -load $(LOAD) $(SUITES)

.PHONY: $(BIN)/suites
$(BIN)/suites:
	cd test && $(GO) build -o $@ ./cmd/suites

packages:
	$(SUDO) test/install-packages all

demo: build
	$(SUDO) test/install-packages lab
	cd test && $(GO) build -o $(BIN)/ ./cmd/... tool
	$(SUDO) $(BIN)/demo --binary $(BIN)/http01-proxyd

# The first time, etcd, kube-apiserver and cert-manager are compiled. REHEARSAL passes flags:
# --compact, or --scale=300 for 300 Certificates during failovers, restarts and a crash.
rehearsal: build
	$(SUDO) test/install-packages lab
	cd test && $(GO) build -o $(BIN)/ ./cmd/solver tool
	cd test/rehearsal && $(GO) build -o $(BIN)/ ./cmd/rehearsal
	$(SUDO) env HTTP01_CERT_MANAGER=$(VERSION) $(BIN)/rehearsal --binary $(BIN)/http01-proxyd $(REHEARSAL)

# The first time, the programs are compiled, which takes minutes. TESTS selects tests by a regular expression.
# The tag adds tests that take too long for ci.
mco:
	$(SUDO) test/install-packages all
	cd test/rehearsal && $(GO) test -c -tags mco -o $(BIN)/openshift.test ./openshift
	cd test/rehearsal/openshift && $(SUDO) env HTTP01_OPENSHIFT=$(VERSION) $(BIN)/openshift.test -test.v -test.timeout 0 \
		-test.run '$(or $(TESTS),.)'

# BENCH passes flags. A change compared with an earlier program, in three minutes:
# BENCH='--out= --quick --before OLD'.
bench: build
	$(SUDO) test/install-packages bench
	cd test && $(GO) build -o $(BIN)/ ./cmd/... tool
	$(SUDO) $(BIN)/bench --binary $(BIN)/http01-proxyd --out docs/internals/bench $(BENCH)

bench-failover: build
	$(SUDO) test/install-packages lab
	cd test && $(GO) build -o $(BIN)/ ./cmd/... tool
	$(SUDO) $(BIN)/bench-failover --binary $(BIN)/http01-proxyd
	$(SUDO) $(BIN)/bench-failover --binary $(BIN)/http01-proxyd --starts 1 --slow-state

bench-idle: build
	$(SUDO) test/install-packages bench
	cd test && $(GO) build -o $(BIN)/ ./cmd/... tool
	$(SUDO) $(BIN)/bench-idle --binary $(BIN)/http01-proxyd $(BENCH)

bench-flood: build
	$(SUDO) test/install-packages lab
	cd test && $(GO) build -o $(BIN)/ ./cmd/... tool
	$(SUDO) $(BIN)/bench-flood --binary $(BIN)/http01-proxyd

# CHAOS has more flags, such as -hosts 8. FLAPPING=60s flaps a VIP for so long instead.
CHAOS_DURATION = $(or $(DURATION),10m)
CHAOS_SEED     = $(or $(SEED),1)

chaos: build
	$(SUDO) test/install-packages lab
	cd test && $(GO) test -c -o $(BIN)/chaos.test ./suites/chaos
	cd test/suites/chaos && $(SUDO) env HTTP01_PROXYD=$(BIN)/http01-proxyd $(BIN)/chaos.test -test.run '^$(if $(FLAPPING),TestFlap,TestWalk)$$' -test.v -test.timeout 0 \
		-duration $(CHAOS_DURATION) -seed $(CHAOS_SEED) $(if $(FLAPPING),-flapping $(FLAPPING)) $(CHAOS)

soak: build
	$(SUDO) test/install-packages lab
	cd test && $(GO) build -o $(BIN)/ ./cmd/soak
	$(SUDO) $(BIN)/soak --binary $(BIN)/http01-proxyd --duration $(or $(DURATION),2h)

fuzz:
	@grep -rlE '^func Fuzz' --include=*_test.go cmd internal pkg | while read -r file; do \
		grep -oE '^func Fuzz[A-Za-z0-9_]+' "$$file" | cut -d' ' -f2 | while read -r name; do \
			echo "$$name in $$(dirname "$$file")"; \
			$(GO) test "./$$(dirname "$$file")" -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x || exit 1; \
		done || exit 1; \
	done

# A variable that is set is passed on unchanged: the tool rejects an empty one instead
# of ignoring it.
given = $(if $(filter-out undefined,$(origin $1)),$2 '$($1)')

# Switches: 0, no and false mean not set.
yes = $(filter-out 0 no false,$1)

# Without IMAGE, the committed example is rendered, to its own folder only. An empty one is
# an unset variable of the caller.
EXAMPLE_IMAGE := quay.io/http01-proxyd/http01-proxyd@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
OUT           ?= machineconfigs

ifeq ($(call yes,$(FCOS))$(call yes,$(LAYERED)),)
RENDERED_IMAGE = $(or $(if $(IMAGE),$(call given,IMAGE,--image)),$\
	$(if $(filter-out undefined,$(origin IMAGE)),$(error IMAGE is empty: give IMAGE=registry.example.com/name@sha256:..., or remove it to render the example)),$(if $(filter $(abspath machineconfigs),$(abspath $(OUT))),--image '$(EXAMPLE_IMAGE)',$\
	$(error IMAGE is required: give IMAGE=registry.example.com/name@sha256:...; without it, only the example in machineconfigs can be rendered)))
endif

# The database is no Go module, so this is no part of `make lint`.
vulncheck:
	@for module in . build; do $(GO) -C $$module run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./... || exit 1; done

# strace follows the service in these tests of the module in test/.
SYSCALL_TESTS ?= ./support/lab -run 'TestCertificate$$|TestFailover$$|TestMetrics|TestExpiryWatch|TestReloadSignal|TestPortChange|TestDrain|TestRouterAnswers'

syscalls: build
	$(SUDO) test/install-packages all
	cd test && $(SUDO) $(GO) run ./cmd/syscalls -binary $(BIN)/http01-proxyd $(GO) test -count=1 $(SYSCALL_TESTS)

machineconfigs:
	@$(GO) run ./cmd/oc-http01 render $(RENDERED_IMAGE) $(call given,CONFIG,--config) \
		$(call given,POOL,--pool) $(call given,SUMS,--sums) $(call given,TRUSTED_CA,--trusted-ca) \
		$(call given,SIGNATURE_POLICY,--signature-policy) \
		$(call given,PROXY,--proxy) $(call given,CLUSTER_DOMAIN,--cluster-domain) \
		$(call given,APISERVER,--apiserver) $(call given,HTTP01PROXY,--http01proxy) $(call given,INFRASTRUCTURE,--infrastructure) \
		$(if $(call yes,$(ALLOW_DISABLED)),--allow-disabled) $(if $(call yes,$(LAYERED)),--layered) \
		$(if $(call yes,$(FCOS)),--fcos --binary $(BIN)/http01-proxyd) --output-dir '$(OUT)'

# The schema of pkg/apis, as a patch. A test fails if it is not current. The test finds
# the generator with make controller-gen.
crd: $(CONTROLLER_GEN)
	cd test && $(GO) test ./suites/apis -run TestPatchIsGenerated -count=1 -update

controller-gen: $(CONTROLLER_GEN)
	@echo $<

# Files that are generated from tables in the code. Tests fail if they are not current.
docs:
	$(GO) test ./pkg/findings/messageid -run IsCurrent -count=1 -update
	$(GO) test ./pkg/exporter/metrics -run TestDocumentIsCurrent -count=1 -update
	$(GO) run -tags docs ./cmd/http01-proxyd markdown docs/reference/cli
	$(GO) run -tags docs ./cmd/oc-http01 markdown docs/reference/cli
	$(GO) test ./internal/sandbox -run TestTable -count=1 -update
	cd test && $(GO) test ./suites/hostile/matrix -run TestDocumentIsCurrent -count=1 -update
	$(GO) test ./pkg/diagnose -run TestTroubleshooting -count=1 -update
	$(GO) test ./cmd/http01-proxyd ./cmd/oc-http01 -run 'TestSchemas|TestPicture' -count=1 -update

# The tests take the same pictures, and fail if they cannot.
pictures: build
	$(SUDO) test/install-packages all
	$(GO) test ./cmd/oc-http01 -run TestPicture -count=1 -update
	cd test && $(SUDO) env HTTP01_PROXYD=$(BIN)/http01-proxyd $(GO) test ./suites/page -run TestPages -count=1 -update

# The console reads an older model of dashboards, from a ConfigMap.
dashboard:
	cd test && $(GO) test ./suites/monitoring -run TestConsoleDashboardIsCurrent -count=1 -update

tidy:
	$(GO) mod tidy
	cd build && $(GO) mod tidy
	cd test && $(GO) mod tidy
	cd test/rehearsal && $(GO) mod tidy
	cd test/rehearsal/programs && $(GO) mod tidy && $(GO) mod tidy -modfile=1.20.mod && $(GO) mod tidy -modfile=1.19.mod
	cd test/support/boulder && $(GO) mod tidy
	cd test/openshift && $(GO) mod tidy && $(GO) mod tidy -modfile=4.19.mod

clean:
	rm -rf $(BIN) $(DIST)

$(GOLANGCI_LINT):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) $(LARGE_HEAP) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	mv $(TOOLS)/golangci-lint $@

$(GOFUMPT):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) $(GO) install mvdan.cc/gofumpt@v0.12.0
	mv $(TOOLS)/gofumpt $@

# Vale has grammars in C: without optimization they compile in half a minute.
$(VALE):
	@mkdir -p $(TOOLS)
	CGO_ENABLED=1 CGO_CFLAGS="-O0 -w" GOBIN=$(TOOLS) $(LARGE_HEAP) $(GO) install github.com/vale-cli/vale/v3/cmd/vale@v3.22.0
	mv $(TOOLS)/vale $@

$(ACTIONLINT):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) $(GO) install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
	mv $(TOOLS)/actionlint $@

$(CONTROLLER_GEN):
	@mkdir -p $(TOOLS)
	@GOBIN=$(TOOLS) $(GO) install sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0
	@mv $(TOOLS)/controller-gen $@
