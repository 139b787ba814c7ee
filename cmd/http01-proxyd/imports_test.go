// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/http01-proxyd/http01-proxyd/"

type listedPackage struct {
	ImportPath, Name string
	Imports          []string
}

// listPackages returns packages and their imports, without tests, from the go command.
func listPackages(t *testing.T, args ...string) []listedPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Name,Imports"}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listedPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// An importRule lists which folders the packages of a folder may import besides each other. The
// rule with the longest folder applies.
type importRule struct {
	folder, may, reason string
}

func importRules() []importRule {
	const base = "internal pkg/config pkg/report pkg/findings "
	return []importRule{
		{"internal", "", "every process links it: it imports no package of the project"},
		{"pkg/apis", "", "the API types are published alone"},
		{"pkg/config", "internal", "the configuration is also judged on the administrator's machine"},
		{"pkg/report", "internal", "the JSON contract stands alone"},
		{"pkg/findings", "internal", "every process names causes"},
		{"pkg/findings/verdict", "internal pkg/report pkg/findings", "a report shows which findings apply"},
		{"pkg/host", base, "the host is read the same way by the controller and by check"},
		{"pkg/ingress", base, "the controller, the proxy and the prober share one value"},
		{"pkg/proxy", base + "pkg/ingress", "the proxy faces the network: no host, no other process"},
		{"pkg/exporter", "internal pkg/report pkg/findings", "the exporter imports the report alone"},
		{"pkg/prober", base + "pkg/ingress", "a client of the prober links no network code"},
		{
			"pkg/prober/network", base + "pkg/ingress pkg/prober pkg/proxy/upstream pkg/proxy/reqhead",
			"the prober sends a request exactly as the proxy does",
		},
		{
			"pkg/controller", base + "pkg/host pkg/ingress pkg/proxy/protocol pkg/exporter/protocol pkg/prober",
			"the controller imports the protocols of other processes",
		},
		{"pkg/diagnose", base + "pkg/host pkg/ingress pkg/prober", "check reads the host and queries the prober"},
		{"pkg/cluster", base + "pkg/apis pkg/ingress/trust", "files are judged as on the host"},
		{"cmd", "internal pkg", "command lines join the parts"},
	}
}

func below(folder, name string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }

// TestImportRules holds the direction of imports: internal, config, report and findings
// know nobody above them, host and ingress know those, and the processes know each other
// by their protocols, but for the prober, which sends requests as the proxy does.
func TestImportRules(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, p := range listPackages(t, module+"...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		var rule importRule
		for _, r := range importRules() {
			if below(r.folder, name) && len(r.folder) > len(rule.folder) {
				rule = r
			}
		}
		if rule.folder == "" {
			if p.ImportPath != strings.TrimSuffix(module, "/") { // the embedded files
				t.Errorf("%s has no rule: add its folder to importRules", name)
			}
			continue
		}
		used[rule.folder] = true
		for _, imported := range p.Imports {
			sibling, ours := strings.CutPrefix(imported, module)
			if ours && !below(rule.folder, sibling) && !slices.ContainsFunc(strings.Fields(rule.may),
				func(f string) bool { return below(f, sibling) }) {
				t.Errorf("%s imports %s: %s", name, sibling, rule.reason)
			}
		}
	}
	for _, r := range importRules() {
		if !used[r.folder] {
			t.Errorf("no package below %s: remove its rule", r.folder)
		}
	}
}

// TestLayout: at most a dozen folders directly under pkg/, and a doc.go in each package.
func TestLayout(t *testing.T) {
	t.Parallel()
	folders := map[string]bool{}
	for _, p := range listPackages(t, module+"...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		if parts := strings.Split(name, "/"); parts[0] == "pkg" {
			folders[parts[1]] = true
		}
		if p.ImportPath == strings.TrimSuffix(module, "/") {
			continue // the embedded files
		}
		begin := "// Package "
		if p.Name == "main" {
			begin = "// Command "
		}
		text, err := os.ReadFile(filepath.Join("..", "..", name, "doc.go"))
		if err != nil || !strings.Contains(string(text), begin) {
			t.Errorf("%s needs a doc.go with a comment that begins with %q (%v)", name, begin, err)
		}
	}
	if len(folders) > 12 {
		t.Errorf("pkg/ has %d folders", len(folders))
	}
}

// TestLibraryImporters: only the package that owns a kernel interface or a library
// imports it.
func TestLibraryImporters(t *testing.T) {
	t.Parallel()
	owners := map[string]string{
		// what the host has, and where its packets go
		"github.com/jsimonetti/rtnetlink/": "internal/rtnl pkg/host/address pkg/host/route",
		// the service's table, and those of a trace
		"github.com/google/nftables":           "pkg/host/nftables pkg/diagnose/trace",
		"github.com/fsnotify/fsnotify":         "internal/filewatch",
		"github.com/coreos/go-systemd/":        "pkg/host/systemd",
		"github.com/coreos/ignition/v2/butane": "pkg/cluster/machineconfig",
		"k8s.io/apimachinery/":                 "pkg/apis/config/v1 pkg/apis/operator/v1alpha1 pkg/cluster/chain",
		"github.com/distribution/":             "pkg/cluster/machineconfig",
		"github.com/opencontainers/":           "pkg/cluster/machineconfig",
		"github.com/beevik/ntp":                "pkg/prober/network",
		"github.com/pires/go-proxyproto":       "pkg/proxy/upstream",
		"github.com/landlock-lsm/":             "internal/sandbox",
	}
	for _, p := range listPackages(t, module+"...") {
		for _, imported := range p.Imports {
			for library, owner := range owners {
				if strings.HasPrefix(imported, library) && !slices.Contains(strings.Fields(owner), strings.TrimPrefix(p.ImportPath,
					module)) {
					t.Errorf("%s imports %s, which is %s's", strings.TrimPrefix(p.ImportPath, module), imported, owner)
				}
			}
		}
	}
}

// TestProcessDependencies: what a process must not link, with everything that it imports.
func TestProcessDependencies(t *testing.T) {
	t.Parallel()
	const dbus = "github.com/godbus/dbus/v5"
	for process, rule := range map[string]struct {
		never  []string
		reason string
	}{
		// The controller reads certificates with crypto/x509, out of files of the host
		// only: it judges which CAs the proxy trusts, and the proxy opens no file.
		"pkg/controller": {
			[]string{
				"net/http", "crypto/tls", module + "pkg/proxy/upstream", module + "pkg/proxy/reqhead",
				module + "pkg/prober/network", module + "pkg/exporter/metrics",
			},
			"a process with a capability links no HTTP, no TLS and no upstream exchange",
		},
		"pkg/proxy": {
			[]string{dbus, "net/http", module + "pkg/host/systemd"},
			"the proxy reaches no bus and no other HTTP implementation",
		},
		"pkg/exporter":       {[]string{dbus, module + "pkg/proxy/upstream"}, "the exporter serves metrics alone"},
		"pkg/prober/network": {[]string{dbus}, "the prober queries the network alone"},
	} {
		for _, p := range listPackages(t, "-deps", module+process) {
			if slices.Contains(rule.never, p.ImportPath) {
				t.Errorf("%s links %s: %s", process, p.ImportPath, rule.reason)
			}
		}
	}
}

// TestHostBinaryDependencies lists packages that a program of a control-plane node must
// not link.
func TestHostBinaryDependencies(t *testing.T) {
	t.Parallel()
	forbidden := []string{
		"testing", "k8s.io/", "sigs.k8s.io/",
		// Tests read the metrics with them. They would add 2 MB.
		"github.com/prometheus/", "google.golang.org/protobuf/",
		// Only the administrator's tool renders MachineConfigs.
		module + "pkg/cluster/machineconfig", module + "pkg/cluster/disruption", module + "pkg/apis/config/v1", module +
			"pkg/apis/operator/v1alpha1",
		"github.com/coreos/ignition/", "github.com/coreos/vcontext/",
	}
	for _, p := range listPackages(t, "-deps", module+"cmd/http01-proxyd") {
		for _, name := range forbidden {
			if p.ImportPath == name || (strings.HasSuffix(name, "/") && strings.HasPrefix(p.ImportPath, name)) ||
				strings.HasPrefix(p.ImportPath, name+"/") {
				t.Errorf("the host binary links %s", p.ImportPath)
			}
		}
		if slices.Contains(p.Imports, "embed") && p.ImportPath != module+"cmd/internal/page" { // its style sheet
			t.Errorf("the host binary has files of %s in it", p.ImportPath)
		}
	}
}
