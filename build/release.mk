# SPDX-License-Identifier: Apache-2.0
#
# Part of the Makefile; `make -f build/release.mk TARGET` works as well.
#
# make binaries  dist/http01-proxyd-linux-ARCH and dist/oc-http01-*
# make image     dist/image, the OCI image for all architectures; prints its digest.
#                PUSH=registry/name[:tag] also pushes it and prints its reference;
#                PLAIN_HTTP=1 for a registry without TLS
# make release   binaries, image, and the files that build/release lists:
#                VERSION=v1.2.3 [IMAGE_REPOSITORY=registry/name] [ALLOW_DIRTY=1];
#                with KEY=key.pem also sign and attest
# make sign      dist/SHA256SUMS.sig, which cosign and openssl verify: KEY=key.pem
# make sign-image  dist/image in a registry, with signatures that nodes verify:
#                KEY=import-cosign.key PUSH=registry/name:v1.2.3 [PASSPHRASE_FILE=]
#                [PLAIN_HTTP=1]. Requires skopeo 1.18 or later
# make verify    the signature and the checksums in dist: PUBLIC_KEY=key.pub
# make attest    dist/provenance.intoto.jsonl and dist/sbom.intoto.jsonl: KEY=key.pem
# make reproduce builds a release again from its tag, and compares all files with those in
#                PUBLISHED: VERSION=v1.2.3 [PUBLISHED=dist]
# make share     man pages and completion files in SHARE, for image, install and rpm:
#                requires Go
# make install   installation on a host with systemd: [PREFIX=/usr/local] [DESTDIR=]
#                [BINARY=bin/http01-proxyd] [SHARE=bin/share]; enables and starts nothing
# make uninstall removal of the files that install has written
# make rpm       the same files as dist/http01-proxyd-VERSION-1.*.rpm:
#                [ARCHITECTURE=amd64] [BINARY=] [VERSION=v1.2.3], which must be that of
#                the binary, [ALLOW_DIRTY=1] for a rehearsal. Requires rpmbuild, and Go
#                unless BINARY is given and SHARE exists
# make deb       the same as dist/http01-proxyd_VERSION-1_*.deb. Requires dpkg-deb
# make repository  dist/repository with the signed RPMs of dist, for dnf:
#                GPG_KEY=identity URL=https://... Requires rpmsign, gpg and createrepo_c

SHELL            := bash
.SHELLFLAGS      := -o pipefail -c

GO               ?= go
DIST             ?= dist
PUSH             ?=
PLAIN_HTTP       ?=
VERSION          ?=
IMAGE_REPOSITORY ?= quay.io/http01-proxyd/http01-proxyd
ALLOW_DIRTY      ?=

# Some commands run in build/.
override DIST := $(abspath $(or $(DIST),dist))

ARCHITECTURES           := amd64 arm64 ppc64le s390x
# The workstations of administrators.
ADMIN_PLATFORMS ?= linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64

HOST_BINARIES  := $(ARCHITECTURES:%=http01-proxyd-linux-%)
ADMIN_BINARIES := $(foreach p,$(ADMIN_PLATFORMS),oc-http01-$p$(if $(filter windows-%,$p),.exe))
DIST_BINARIES  := $(addprefix $(DIST)/,$(HOST_BINARIES) $(ADMIN_BINARIES))

# Every go command gets these flags, so that each package is compiled once for tools,
# tests and releases. With -trimpath, the result does not depend on the folder: clones
# share it. Binaries and test programs contain no DWARF, whose generation takes a fifth
# of the compilation.
COMMON_FLAGS := -trimpath -gcflags=all=-dwarf=false
export GOFLAGS := $(strip $(filter-out $(COMMON_FLAGS),$(shell $(GO) env GOFLAGS 2>/dev/null)) $(COMMON_FLAGS))

# All settings that influence the generated code are fixed: the same commit and Go
# release give the same bytes on every machine. (With an empty GOFLAGS, the value
# of `go env -w` would apply.)
REPRODUCIBLY := GOFLAGS='$(COMMON_FLAGS)' GOWORK=off GOEXPERIMENT= GOFIPS140=off CGO_ENABLED=0 \
	GOAMD64=v1 GOARM64=v8.0 GOPPC64=power8

.PHONY: binaries image release sign sign-image verify share install uninstall rpm deb repository $(DIST_BINARIES)

binaries: $(DIST_BINARIES)

# PROGRAM-OS-ARCH[.exe]. The toolchain decides what is up to date.
$(DIST_BINARIES): $(DIST)/%:
	@echo "building $@" >&2; mkdir -p $(DIST); \
	name=$(basename $*); arch=$${name##*-}; name=$${name%-*}; \
	$(REPRODUCIBLY) GOOS=$${name##*-} GOARCH=$$arch \
		$(GO) build -buildvcs=auto -tags nethttpomithttp2 -ldflags '-s -w' -o $@ ./cmd/$${name%-*}

# The folder contains a release if it has SHA256SUMS.
RELEASED = $(if $(and $(wildcard $(DIST)/SHA256SUMS),$(wildcard $(DIST)/image.digest)),$(DIST)/image.digest)

image: $(addprefix $(DIST)/,$(HOST_BINARIES)) share
	@cd build && CGO_ENABLED=0 $(GO) run ./cmd/image --binaries '$(DIST)' --share '$(abspath $(SHARE))' --out '$(DIST)/image' \
		$(if $(RELEASED),--released "$$(<'$(RELEASED)')") \
		$(if $(PUSH),--push '$(PUSH)') $(if $(filter-out 0 no false,$(PLAIN_HTTP)),--plain-http)

# With +, the make that the script runs shares the job slots of -j. But a line with +
# or with $$(MAKE) also runs under -n.
RECURSIVE := $(if $(findstring n,$(firstword -$(MAKEFLAGS))),,+)

release:
	$(RECURSIVE)@GO='$(GO)' MAKE='$(MAKE_COMMAND)' MAKEFILE='$(firstword $(MAKEFILE_LIST))' DIST='$(DIST)' \
		VERSION='$(VERSION)' IMAGE_REPOSITORY='$(IMAGE_REPOSITORY)' ALLOW_DIRTY='$(ALLOW_DIRTY)' KEY='$(KEY)' \
		build/release $(HOST_BINARIES) $(ADMIN_BINARIES)

# What `cosign sign-blob --key` writes: base64 of the ECDSA signature (ASN.1) over the
# SHA-256 of the file. cosign's keys are on the curve P-256.
KEY        ?=
PUBLIC_KEY ?=

sign:
	@[ -n '$(KEY)' ] || { echo "make sign: KEY=key.pem is missing: give the private key, in PEM form" >&2; exit 1; }
	@[ -s '$(DIST)/SHA256SUMS' ] || { echo "make sign: $(DIST)/SHA256SUMS does not exist: run make release first" >&2; exit 1; }
	@openssl ec -in '$(KEY)' -noout -text 2>/dev/null | grep -x 'ASN1 OID: prime256v1' >/dev/null || \
		{ echo "make sign: $(KEY) is not an unencrypted key on the curve P-256: create one as build/README.md describes" >&2; exit 1; }
	@openssl dgst -sha256 -sign '$(KEY)' '$(DIST)/SHA256SUMS' | base64 --wrap=0 > '$(DIST)/SHA256SUMS.sig.next'
	@mv '$(DIST)/SHA256SUMS.sig.next' '$(DIST)/SHA256SUMS.sig'

# Nodes verify the signature of the image for their platform, and not the one of the index: --all signs
# each. The signature names PUSH, and nodes require its repository.
SKOPEO          ?= skopeo
PASSPHRASE_FILE ?=

sign-image:
	@[ -n '$(KEY)' ] || { echo "make sign-image: KEY=import-cosign.key is missing: give the private key, as build/README.md describes" >&2; exit 1; }
	@[[ '$(notdir $(PUSH))' == *:* ]] || { echo "make sign-image: PUSH=$(PUSH) has no tag: give PUSH=registry/name:v1.2.3" >&2; exit 1; }
	@[ -s '$(DIST)/image.digest' ] || { echo "make sign-image: $(DIST)/image.digest does not exist: run make release first" >&2; exit 1; }
	@$(SKOPEO) --insecure-policy --registries.d build/registries.d copy --all --preserve-digests \
		--sign-by-sigstore-private-key '$(KEY)' $(if $(PASSPHRASE_FILE),--sign-passphrase-file '$(PASSPHRASE_FILE)') \
		$(if $(filter-out 0 no false,$(PLAIN_HTTP)),--dest-tls-verify=false) 'oci:$(DIST)/image' 'docker://$(PUSH)'

verify:
	@[ -n '$(PUBLIC_KEY)' ] || { echo "make verify: PUBLIC_KEY=key.pub is missing: give the public key of the releases, in PEM form" >&2; exit 1; }
	@base64 --decode '$(DIST)/SHA256SUMS.sig' | openssl dgst -sha256 -verify '$(PUBLIC_KEY)' -signature /dev/stdin '$(DIST)/SHA256SUMS'
	@cd '$(DIST)' && sha256sum --check --strict --quiet --ignore-missing SHA256SUMS

.PHONY: attest reproduce

attest:
	@[ -n '$(KEY)' ] || { echo "make attest: KEY=key.pem is missing: give the private key, in PEM form" >&2; exit 1; }
	@cd build && CGO_ENABLED=0 $(GO) run ./cmd/attest --release '$(DIST)' --key '$(abspath $(KEY))'

# The folder with the downloaded files of a release, or with its SHA256SUMS alone.
PUBLISHED ?= $(DIST)

reproduce:
	$(RECURSIVE)@GO='$(GO)' MAKE='$(MAKE_COMMAND)' MAKEFILE='$(firstword $(MAKEFILE_LIST))' VERSION='$(VERSION)' \
		IMAGE_REPOSITORY='$(IMAGE_REPOSITORY)' PUBLISHED='$(abspath $(PUBLISHED))' build/reproduce

# Man pages, and completion files for bash, zsh and fish, laid out as in PREFIX/share.
# The build tag docs selects the generator instead of the program. The date of the man
# pages is that of the commit.
SHARE ?= $(CURDIR)/bin/share

share:
	@rm -rf '$(SHARE).next' && mkdir -p '$(SHARE).next/bash-completion/completions' '$(SHARE).next/zsh/site-functions' \
		'$(SHARE).next/fish/vendor_completions.d' '$(SHARE).next/man/man1' '$(SHARE).next/man/man5' '$(SHARE).next/man/man8'
	@export CGO_ENABLED=0 SOURCE_DATE_EPOCH="$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}" && cd '$(SHARE).next' && \
	$(GO) -C '$(CURDIR)' run -tags docs ./cmd/http01-proxyd man '$(SHARE).next/man/man8' && \
	$(GO) -C '$(CURDIR)' run -tags docs ./cmd/http01-proxyd file docs/configuration.md '$(SHARE).next/man/man5/http01-proxyd.yaml.5' && \
	$(GO) -C '$(CURDIR)' run -tags docs ./cmd/oc-http01 man '$(SHARE).next/man/man1' && \
	for program in http01-proxyd oc-http01; do \
		$(GO) -C '$(CURDIR)' run ./cmd/$$program completion bash > bash-completion/completions/$$program && \
		$(GO) -C '$(CURDIR)' run ./cmd/$$program completion zsh > zsh/site-functions/_$$program && \
		$(GO) -C '$(CURDIR)' run ./cmd/$$program completion fish > fish/vendor_completions.d/$$program.fish || exit 1; \
	done
	@rm -rf '$(SHARE)' && mv '$(SHARE).next' '$(SHARE)'

# The names of rpm and uname are converted to the names of Go.
ARCHITECTURE ?= $(shell uname -m)
override ARCHITECTURE := $(patsubst aarch64,arm64,$(patsubst x86_64,amd64,$(ARCHITECTURE)))
# The binary of a release, unless another is given.
PACKAGED     := $(if $(filter-out undefined,$(origin BINARY)),$(BINARY))

rpm deb: $(if $(PACKAGED),,$(DIST)/http01-proxyd-linux-$(ARCHITECTURE)) $(if $(wildcard $(SHARE)),,share)
	@VERSION='$(VERSION)' ALLOW_DIRTY='$(ALLOW_DIRTY)' SHARE='$(abspath $(SHARE))' packaging/build-package $@ \
		'$(or $(PACKAGED),$(DIST)/http01-proxyd-linux-$(ARCHITECTURE))' '$(ARCHITECTURE)' '$(DIST)'

repository:
	@GPG_KEY='$(GPG_KEY)' URL='$(URL)' packaging/build-repository '$(DIST)'

# Hosts with systemd. systemd searches for units below these two prefixes
# (systemd.unit(5), "Unit File Load Path"). Units in /etc/systemd/system take
# precedence and belong to the administrator.
PREFIX   ?= /usr/local
DESTDIR  ?=
UNITDIR  ?= $(if $(filter /usr /usr/local,$(PREFIX)),$(PREFIX)/lib/systemd/system,/etc/systemd/system)
# systemd searches for message catalogs below these two prefixes, and nowhere else
# (catalog_file_dirs in its src/libsystemd/sd-journal/catalog.c).
CATALOGDIR ?= $(if $(filter /usr /usr/local,$(PREFIX)),$(PREFIX),/usr/local)/lib/systemd/catalog
BINARY   ?= $(CURDIR)/bin/http01-proxyd

INSTALLED_BINARY  := $(DESTDIR)$(PREFIX)/bin/http01-proxyd
INSTALLED_UNITS   := $(patsubst %,$(DESTDIR)$(UNITDIR)/%,http01-proxyd.service http01-proxyd-table.service)
# Of the program that is installed. Empty if SHARE does not exist.
SHARED            := $(patsubst $(SHARE)/%,%,$(wildcard $(SHARE)/man/man8/http01-proxyd*.8 $(SHARE)/man/man5/http01-proxyd.yaml.5 \
	$(SHARE)/bash-completion/completions/http01-proxyd \
	$(SHARE)/zsh/site-functions/_http01-proxyd $(SHARE)/fish/vendor_completions.d/http01-proxyd.fish))
# The units name only man pages that are installed.
MANUALS           := $(strip $(patsubst man/man8/%.8,man:%(8),$(filter man/man8/http01-proxyd.8,$(SHARED))) \
	$(patsubst man/man5/%.5,man:%(5),$(filter man/man5/%,$(SHARED))))
SHAREDIR          := $(DESTDIR)$(PREFIX)/share
INSTALLED_CATALOG := $(DESTDIR)$(CATALOGDIR)/http01-proxyd.catalog

# journalctl -x reads a database that is compiled from all catalogs. An unreadable
# catalog of another package must not fail the installation.
UPDATE_CATALOG = if command -v journalctl >/dev/null; then journalctl --update-catalog || true; fi

# install compiles nothing, so root does not need Go.
install:
	@[ -x "$(BINARY)" ] || { echo "make install: $(BINARY) does not exist: run make build first, or give another file with BINARY=" >&2; exit 1; }
	install -D -m 0755 "$(BINARY)" "$(INSTALLED_BINARY)"
	install -d -m 0755 "$(DESTDIR)$(UNITDIR)"
	@for unit in $(INSTALLED_UNITS); do \
		( set -ex; sed -e 's|/usr/local/bin/http01-proxyd|$(PREFIX)/bin/http01-proxyd|g' \
		$(if $(MANUALS),-e '/^Description=/a Documentation=$(MANUALS)') "systemd/$${unit##*/}" > "$$unit.next"; \
		chmod 0644 "$$unit.next"; mv -f "$$unit.next" "$$unit" ) || exit 1; \
	done
	install -D -m 0644 systemd/http01-proxyd.catalog "$(INSTALLED_CATALOG)"
	@for file in $(SHARED); do install -D -m 0644 "$(SHARE)/$$file" "$(SHAREDIR)/$$file" || exit 1; done
	@[ -n "$(SHARED)" ] || echo "make install: $(SHARE) does not exist: man pages and completion files are not installed; make share builds them" >&2
	@[ -n "$(DESTDIR)" ] || { \
		if command -v restorecon >/dev/null; then restorecon "$(INSTALLED_BINARY)" $(INSTALLED_UNITS) "$(INSTALLED_CATALOG)"; fi; \
		$(UPDATE_CATALOG); \
		echo; \
		echo "Installed, but not started. Next, after the first installation:"; \
		echo "  systemctl daemon-reload && systemctl enable --now http01-proxyd"; \
		echo "After an upgrade:"; \
		echo "  systemctl daemon-reload && systemctl restart http01-proxyd"; \
	}

# A unit that runs or is enabled must be stopped first: without its file, systemd
# cannot disable it.
uninstall:
	@if [ -z "$(DESTDIR)" ] && command -v systemctl >/dev/null && \
		{ systemctl is-active --quiet http01-proxyd || [ "$$(systemctl show -p ActiveState --value http01-proxyd)" = activating ] || systemctl is-enabled --quiet http01-proxyd 2>/dev/null; }; then \
		echo "make uninstall: http01-proxyd is active or enabled. Run this command, then retry:" >&2; \
		echo "  systemctl disable --now http01-proxyd" >&2; \
		exit 1; \
	fi
	@# systemctl does not wait for the table's unit, whose stop runs the binary.
	@[ -n "$(DESTDIR)" ] || ! command -v systemctl >/dev/null || \
		timeout 20 sh -c 'while systemctl show --property=ActiveState --value http01-proxyd-table | grep -xE "active|deactivating" >/dev/null; do sleep 0.2; done' || \
		{ echo "make uninstall: http01-proxyd-table does not stop: see systemctl status http01-proxyd-table, then retry" >&2; exit 1; }
	rm -f "$(INSTALLED_BINARY)" $(INSTALLED_UNITS) "$(INSTALLED_CATALOG)" "$(SHAREDIR)"/man/man8/http01-proxyd*.8 \
		"$(SHAREDIR)/man/man5/http01-proxyd.yaml.5" \
		"$(SHAREDIR)/bash-completion/completions/http01-proxyd" "$(SHAREDIR)/zsh/site-functions/_http01-proxyd" \
		"$(SHAREDIR)/fish/vendor_completions.d/http01-proxyd.fish"
	@[ -n "$(DESTDIR)" ] || { \
		$(UPDATE_CATALOG); \
		echo; \
		echo "Removed. Next:"; \
		echo "  systemctl daemon-reload"; \
		echo "To remove its state:"; \
		echo "  rm -rf /var/lib/http01-proxyd /var/lib/private/http01-proxyd"; \
	}
