// SPDX-License-Identifier: Apache-2.0

package sbom_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/build/binary"
	"github.com/http01-proxyd/http01-proxyd/build/sbom"
)

const imageRef = "registry.example:5000/some/http01-proxyd@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func roots() debug.Module {
	return debug.Module{
		Path: "golang.org/x/crypto/x509roots/fallback", Version: "v0.0.0-20260102030405-0123456789ab",
		Sum: "h1:roots=",
	}
}

// command runs a command with a bound and returns what it prints.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return string(out)
}

// buildHost builds the host binary as a release has it, and returns its folder.
func buildHost(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	command(t, "../..", []string{
		"CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64",
		"GOFLAGS=-trimpath -gcflags=all=-dwarf=false", "GOWORK=off",
	},
		"go", "build", "-buildvcs=auto", "-ldflags", "-s -w", "-o", filepath.Join(dir, "http01-proxyd-linux-amd64"),
		"./cmd/http01-proxyd")
	return dir
}

func encode(t *testing.T, o sbom.Options) []byte {
	t.Helper()
	bom, err := sbom.New(o)
	must(t, err)
	var text bytes.Buffer
	must(t, sbom.Write(&text, bom))
	return text.Bytes()
}

func decode(t *testing.T, text []byte) *cdx.BOM {
	t.Helper()
	var bom cdx.BOM
	must(t, cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom))
	return &bom
}

// linked is the output of `go version -m`: "path version sum".
func linked(t *testing.T, file string) []string {
	t.Helper()
	var all []string
	for _, line := range strings.Split(command(t, ".", nil, "go", "version", "-m", file), "\n") {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == "dep" {
			all = append(all, strings.Join(fields[1:], " "))
		}
	}
	slices.Sort(all)
	return all
}

// TestBillOfTheHostBinary holds the bill against the toolchain's own reading of
// the same file.
func TestBillOfTheHostBinary(t *testing.T) {
	t.Parallel()
	dir := buildHost(t)
	file := filepath.Join(dir, "http01-proxyd-linux-amd64")
	binaries, err := binary.ReadAll(dir, "*")
	must(t, err)
	o := sbom.Options{Binaries: binaries, Image: imageRef, Roots: roots()}
	text := encode(t, o)
	if !bytes.Equal(text, encode(t, o)) {
		t.Error("the same binaries give two different bills")
	}
	validate(t, text)
	bom := decode(t, text)
	checkReferences(t, bom)
	at := ""
	if commit := binaries[0].Commit.Time; !commit.IsZero() { // of a tree that has one
		at = commit.UTC().Format(time.RFC3339)
	}
	if bom.SerialNumber != "" || bom.Metadata.Timestamp != at {
		t.Errorf("serial number %q, time %q: want none, and the commit's %q", bom.SerialNumber, bom.Metadata.Timestamp, at)
	}

	var modules, others []string
	for _, c := range *bom.Components {
		sum := ""
		if c.Properties != nil {
			sum = (*c.Properties)[0].Value
		}
		if c.Type == cdx.ComponentTypeLibrary && c.Name != "stdlib" {
			modules = append(modules, strings.Join([]string{c.Name, c.Version, sum}, " "))
		} else {
			others = append(others, string(c.Type)+" "+c.PackageURL)
		}
	}
	want := linked(t, file)
	if diff := cmp.Diff(want, modules); diff != "" || len(want) == 0 {
		t.Errorf("modules, -go version -m +bill:\n%s", diff)
	}
	wantOthers := []string{
		"application ", // the file
		"data pkg:golang/golang.org/x/crypto/x509roots/fallback@v0.0.0-20260102030405-0123456789ab",
		"library pkg:golang/stdlib@" + strings.TrimPrefix(strings.Fields(command(t, ".", nil, "go", "version", file))[1],
			"go"),
		"container pkg:oci/http01-proxyd@sha256%3A0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef?repository_url=registry.example%3A5000/some/http01-proxyd",
	}
	if diff := cmp.Diff(wantOthers, others); diff != "" {
		t.Errorf("other components, -want +got:\n%s", diff)
	}
	sum := strings.Fields(command(t, ".", nil, "sha256sum", file))[0]
	if got := (*(*bom.Components)[0].Hashes)[0]; got.Value != sum || got.Algorithm != cdx.HashAlgoSHA256 {
		t.Errorf("the file's checksum is %v, want %s", got, sum)
	}
}

// checkReferences: each component has a name of its own, and each is part of
// something.
func checkReferences(t *testing.T, bom *cdx.BOM) {
	t.Helper()
	known := map[string]bool{bom.Metadata.Component.BOMRef: true}
	for _, c := range *bom.Components {
		if known[c.BOMRef] {
			t.Errorf("%s is there twice", c.BOMRef)
		}
		known[c.BOMRef] = true
	}
	needed := map[string]bool{bom.Metadata.Component.BOMRef: true}
	for _, d := range *bom.Dependencies {
		if !known[d.Ref] {
			t.Errorf("%s has dependencies and is no component", d.Ref)
		}
		if d.Dependencies == nil {
			continue
		}
		for _, on := range *d.Dependencies {
			if !known[on] {
				t.Errorf("%s needs %s, which is no component", d.Ref, on)
			}
			needed[on] = true
		}
	}
	for ref := range known {
		if !needed[ref] {
			t.Errorf("nothing needs %s", ref)
		}
	}
}

// made pretends that the toolchain built a program of these modules.
func made(t *testing.T, name string, deps ...*debug.Module) binary.Binary {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(file, []byte(name), 0o600))
	parts := strings.Split(name, "-")
	return binary.Binary{
		File: file, Program: strings.Join(parts[:2], "-"), OS: parts[2], Arch: parts[3],
		Commit: binary.Commit{Version: "v1.2.3"},
		Info:   &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "example.com/Main"}, Deps: deps},
	}
}

// TestBillOfAllBinaries compares the dependencies of all components, including the
// image.
func TestBillOfAllBinaries(t *testing.T) {
	t.Parallel()
	a := &debug.Module{Path: "example.com/A", Version: "v1.0.0+incompatible", Sum: "h1:a="}
	b := &debug.Module{Path: "example.com/b", Version: "v1.0.0", Replace: &debug.Module{
		Path:    "example.com/fork",
		Version: "v1.0.1", Sum: "h1:fork=",
	}}
	text := encode(t, sbom.Options{
		Binaries: []binary.Binary{
			made(t, "http01-proxyd-linux-amd64", a),
			made(t, "http01-proxyd-linux-s390x", a),
			made(t, "oc-http01-linux-amd64", a, b),
		},
		Image: imageRef,
		Roots: roots(),
	})
	validate(t, text)
	bom := decode(t, text)
	checkReferences(t, bom)
	if bom.Metadata.Timestamp != "" {
		t.Errorf("the time is %s, and the commit's is not known", bom.Metadata.Timestamp)
	}
	got := make(map[string][]string)
	for _, d := range *bom.Dependencies {
		if d.Dependencies != nil {
			got[d.Ref] = *d.Dependencies
		}
	}
	const (
		image = "pkg:oci/http01-proxyd@sha256%3A0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef?repository_url=registry.example%3A5000/some/http01-proxyd"
		aRef  = "pkg:golang/example.com/a@v1.0.0%2Bincompatible"
		fork  = "pkg:golang/example.com/fork@v1.0.1"
		std   = "pkg:golang/stdlib@1.26.8"
	)
	want := map[string][]string{
		"pkg:golang/example.com/main@v1.2.3": {
			"file:http01-proxyd-linux-amd64", "file:http01-proxyd-linux-s390x", "file:oc-http01-linux-amd64", image,
		},
		"file:http01-proxyd-linux-amd64": {aRef, std},
		"file:http01-proxyd-linux-s390x": {aRef, std},
		"file:oc-http01-linux-amd64":     {aRef, fork, std},
		image: {
			"file:http01-proxyd-linux-amd64", "file:http01-proxyd-linux-s390x",
			"pkg:golang/golang.org/x/crypto/x509roots/fallback@v0.0.0-20260102030405-0123456789ab",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dependencies, -want +got:\n%s", diff)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	one := made(t, "http01-proxyd-linux-amd64")
	gone := one
	gone.File += ".gone"
	for name, tt := range map[string]struct {
		options sbom.Options
		want    string
	}{
		"no binary":      {sbom.Options{}, "no binary given"},
		"a missing file": {sbom.Options{Binaries: []binary.Binary{gone}}, gone.File},
		"a tag": {
			sbom.Options{Binaries: []binary.Binary{one}, Image: "quay.io/a/b:v1"},
			"use the form REGISTRY/NAME@sha256:HEX",
		},
		"a short digest": {
			sbom.Options{Binaries: []binary.Binary{one}, Image: "quay.io/a/b@sha256:00"},
			"use the form REGISTRY/NAME@sha256:HEX",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := sbom.New(tt.options); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
