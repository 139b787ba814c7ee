// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/http01-proxyd/http01-proxyd/"

type listedPackage struct {
	ImportPath string
	Imports    []string
}

// listPackages returns packages and their imports, without tests, from the go command.
func listPackages(t *testing.T, args ...string) []listedPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Imports"}, args...)...)
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

// TestImportRules holds the direction of imports: decisions do not import the packages
// that apply them.
func TestImportRules(t *testing.T) {
	t.Parallel()
	siblings := map[string][]string{
		"cmd/internal/command":  nil,            // both binaries start with it
		"cmd/internal/terminal": {"pkg/report"}, // the text of the report
		"pkg/host/address":      {"internal/rtnl"},
		"pkg/apis/config/v1":    nil,                                 // the API's types
		"pkg/host/apiname":      {"pkg/config", "internal/textfile"}, // the configuration defines the grammar of a name
		"pkg/findings":          {"internal/docurl"},
		"pkg/diagnose":          nil, // may import all: it looks at all of them
		"internal/child":        {"internal/printable", "internal/sandbox", "internal/wire"},
		"pkg/findings/cause":    {"pkg/findings"}, // what a child reports, and its sentences: both sides link it
		"pkg/prober":            {"internal/child", "pkg/host/resolve", "pkg/prober/protocol"},
		// It uses the causes of upstream, and requests the ingress as the proxy does.
		"pkg/prober/network":          {"internal/sandbox", "internal/wire", "pkg/findings/cause", "pkg/prober/protocol", "pkg/proxy/reqhead", "pkg/proxy/upstream"},
		"pkg/prober/protocol":         {"internal/printable", "pkg/findings/cause", "pkg/ingress"},
		"pkg/ingress":                 {"pkg/config", "pkg/findings/cause"},               // the settings of the ingress as one value
		"pkg/ingress/egress":          {"pkg/config", "pkg/ingress", "internal/textfile"}, // the configuration defines the grammar of a proxy's URL
		"pkg/cluster/condition":       {"pkg/report"},                                     // folds the hosts' conditions
		"pkg/config":                  {"internal/textfile"},                              // also judges files on the admin's machine
		"pkg/cluster":                 nil,
		"pkg/cluster/disruption":      nil,
		"pkg/proxy/protocol":          {"pkg/ingress", "pkg/findings/cause", "pkg/report"},
		"pkg/controller/expiry":       {"pkg/report"}, // the report of a certificate
		"pkg/exporter":                {"internal/sandbox", "internal/wire", "pkg/exporter/metrics", "pkg/exporter/protocol", "pkg/report"},
		"pkg/exporter/protocol":       {"pkg/report"},
		"pkg/exporter/metrics":        {"pkg/findings", "pkg/report"}, // the labels' values
		"internal/httpfield":          nil,                            // one grammar for both directions
		"internal/printable":          nil,
		"internal/settled":            nil,
		"internal/wire":               nil,
		"internal/heartbeat":          nil,
		"internal/filewatch":          nil,
		"pkg/proxy":                   {"internal/wire", "pkg/proxy/protocol", "pkg/findings/cause", "pkg/proxy/server", "pkg/proxy/tcp", "internal/sandbox", "pkg/report", "internal/heartbeat", "pkg/proxy/upstream"}, // the process that faces the network
		"pkg/proxy/reqhead":           {"internal/httpfield"},                                                                                                                                                           // the parser must be readable, and fuzzed, by itself
		"pkg/host/socketowner":        nil,
		"pkg/host/keepalived":         {"internal/settled", "internal/textfile"},
		"pkg/cluster/machineconfig":   {"pkg/apis/config/v1", "pkg/config", "pkg/ingress/trust"}, // validates files as the host does, and objects as the API server does
		"pkg/host/microshift":         {"pkg/host/address", "internal/settled", "internal/textfile"},
		"pkg/host/loopback":           {"pkg/host/address", "pkg/host/microshift", "pkg/host/route"}, // an address is put where nobody has it and no route leads
		"pkg/controller/ownership":    nil,
		"pkg/host/route":              {"internal/rtnl"},
		"pkg/host/resolve":            {"internal/textfile"},
		"pkg/host/nftables/ruleset":   nil,
		"internal/sandbox":            nil,
		"pkg/report":                  nil,
		"pkg/report/client":           {"pkg/report"},
		"pkg/controller/tracker":      {"pkg/report"},
		"pkg/host/systemd":            {"internal/heartbeat", "internal/heartbeat", "pkg/findings/messageid"},
		"pkg/ingress/trust":           {"internal/printable", "internal/textfile", "pkg/ingress"}, // also judges files on the admin's machine
		"pkg/findings/messageid":      {"internal/docurl"},
		"pkg/controller/challengelog": {"pkg/report"},
		"pkg/proxy/upstream":          {"pkg/ingress", "pkg/findings/cause", "internal/httpfield", "internal/nonblock"},
		"pkg/diagnose/simulator":      nil, // reads all rulesets: package nftables handles our table only
		"pkg/diagnose/unit":           {"pkg/findings", "pkg/host/systemd"},
		"pkg/diagnose/conntrack":      {"pkg/findings"},
		"pkg/diagnose/obstacles":      {"pkg/diagnose/simulator", "pkg/findings", "pkg/host/nftables/ruleset"},
		"pkg/diagnose/discovery":      {"pkg/config", "pkg/host/keepalived"},
		"pkg/diagnose/network":        {"pkg/findings", "pkg/host/address", "pkg/host/route", "pkg/prober"},
		"pkg/proxy/tcp":               {"internal/nonblock"},
		"pkg/proxy/server":            {"pkg/proxy/upstream", "pkg/findings/cause", "internal/httpfield", "pkg/proxy/reqhead", "pkg/proxy/tcp", "pkg/report"},
		"pkg/host/nftables":           {"pkg/host/socketowner", "pkg/host/nftables/ruleset"},
		"pkg/controller/reconcile":    {"internal/settled", "pkg/host/address", "pkg/config", "pkg/host/keepalived", "pkg/host/microshift", "pkg/controller/ownership", "pkg/host/nftables/ruleset", "pkg/report", "pkg/controller/tracker"},
		"pkg/controller":              nil, // may import all: it joins the parts
		"internal/docurl":             nil, // addresses, for all that is printed
		"internal/nonblock":           nil,
		"internal/nstest":             nil,
		"internal/rtnl":               nil,
		"internal/textfile":           nil,
	}
	for _, p := range listPackages(t, module+"pkg/...", module+"cmd/internal/...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		allowed, known := siblings[name]
		if !known {
			t.Errorf("%s is new: add its permitted imports here", name)
			continue
		}
		for _, imported := range p.Imports {
			sibling, ours := strings.CutPrefix(imported, module)
			if ours && name != "pkg/controller" && name != "pkg/diagnose" && !slices.Contains(allowed, sibling) {
				t.Errorf("%s imports %s", name, sibling)
			}
		}
	}
}

// TestLibraryImporters: only the package that owns a kernel interface or a library
// imports it.
func TestLibraryImporters(t *testing.T) {
	t.Parallel()
	owners := map[string]string{
		"github.com/jsimonetti/rtnetlink/":   "internal/rtnl pkg/host/address pkg/host/route", // what the host has, and where its packets go
		"github.com/google/nftables":         "pkg/host/nftables",
		"github.com/fsnotify/fsnotify":       "internal/filewatch",
		"github.com/coreos/go-systemd/":      "pkg/host/systemd",
		"github.com/coreos/butane":           "pkg/cluster/machineconfig",
		"github.com/prometheus/common":       "pkg/exporter/metrics",
		"github.com/prometheus/client_model": "pkg/exporter/metrics",
		"github.com/coreos/ignition/":        "pkg/cluster/machineconfig",
		"k8s.io/apimachinery/":               "pkg/apis/config/v1",
		"github.com/coreos/vcontext/":        "pkg/cluster/machineconfig",
		"github.com/distribution/":           "pkg/cluster/machineconfig",
		"github.com/opencontainers/":         "pkg/cluster/machineconfig",
		"github.com/vincent-petithory/":      "pkg/cluster/machineconfig",
		"github.com/beevik/ntp":              "pkg/prober/network",
	}
	for _, p := range listPackages(t, module+"...") {
		for _, imported := range p.Imports {
			for library, owner := range owners {
				if strings.HasPrefix(imported, library) && !slices.Contains(strings.Fields(owner), strings.TrimPrefix(p.ImportPath, module)) {
					t.Errorf("%s imports %s, which is %s's", strings.TrimPrefix(p.ImportPath, module), imported, owner)
				}
			}
		}
	}
}

// TestControllerDependencies: the process with a capability links no HTTP and no TLS. It
// parses certificates, with crypto/x509, only from files of the administrator and of the
// host, because the proxy opens no file. The binary contains HTTP and TLS for the child
// processes, which have no capability.
func TestControllerDependencies(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t, "-deps", module+"pkg/controller") {
		for _, name := range []string{
			"net/http", "crypto/tls", "github.com/prometheus/client_golang/prometheus",
			module + "pkg/prober/network", module + "pkg/exporter", module + "pkg/exporter/metrics",
		} {
			if p.ImportPath == name {
				t.Errorf("the controller links %s", p.ImportPath)
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
		// Only the administrator's tool renders MachineConfigs.
		module + "pkg/cluster/machineconfig", module + "pkg/cluster/disruption", module + "pkg/apis/config/v1",
		"github.com/coreos/butane", "github.com/coreos/ignition/", "github.com/coreos/vcontext/",
	}
	for _, p := range listPackages(t, "-deps", module+"cmd/http01-proxyd") {
		for _, name := range forbidden {
			if p.ImportPath == name || (strings.HasSuffix(name, "/") && strings.HasPrefix(p.ImportPath, name)) || strings.HasPrefix(p.ImportPath, name+"/") {
				t.Errorf("the host binary links %s", p.ImportPath)
			}
		}
		// Protobuf embeds its defaults, less than a kilobyte.
		if slices.Contains(p.Imports, "embed") && p.ImportPath != "google.golang.org/protobuf/internal/editiondefaults" {
			t.Errorf("the host binary has files of %s in it", p.ImportPath)
		}
	}
}
