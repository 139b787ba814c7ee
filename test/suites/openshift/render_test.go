// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
)

// operatorLimit is the largest rendered configuration in bytes (machine-config-operator,
// pkg/controller/render), which is also the limit of etcd.
const operatorLimit = 1.5 * (1 << 20)

// platforms returns a cluster of each platform and topology.
func platforms() []platform {
	var all []platform
	for _, kind := range onPrem() {
		all = append(all, platform{kind: kind, vips: dualVIPs})
	}
	for _, kind := range []configv1.PlatformType{
		configv1.AWSPlatformType, configv1.AzurePlatformType, configv1.GCPPlatformType, configv1.IBMCloudPlatformType,
		configv1.PowerVSPlatformType, configv1.KubevirtPlatformType, configv1.LibvirtPlatformType,
		configv1.ExternalPlatformType, configv1.NonePlatformType,
	} {
		all = append(all, platform{kind: kind})
	}
	return append(all,
		platform{kind: configv1.OvirtPlatformType, vips: v4VIPs},
		platform{kind: configv1.VSpherePlatformType}, // installed without VIPs
		platform{kind: configv1.NonePlatformType, topology: configv1.SingleReplicaTopologyMode},
		platform{kind: configv1.BareMetalPlatformType, topology: configv1.HighlyAvailableArbiterMode, vips: v4VIPs},
		platform{kind: configv1.BareMetalPlatformType, topology: configv1.DualReplicaTopologyMode, vips: v4VIPs},
	)
}

// TestRendered: on each platform, the rendered configuration contains the files and units of the platform, and
// ours as they are in our MachineConfigs.
func TestRendered(t *testing.T) {
	t.Parallel()
	ours := ourConfigs(t)
	var added types.Config
	for _, text := range ours {
		one := ignition(t, read(t, text))
		added.Storage.Files = append(added.Storage.Files, one.Storage.Files...)
		added.Systemd.Units = append(added.Systemd.Units, one.Systemd.Units...)
	}
	eachRelease(t, func(t *testing.T, _ oracle.Release, o *oracle.Operator) {
		t.Helper()
		for _, p := range platforms() {
			t.Run(p.String(), func(t *testing.T) {
				before, after := ask(t, o, p).Rendered, ask(t, o, p, ours...).Rendered
				want, got := ignition(t, before), ignition(t, after)
				files, units := len(want.Storage.Files), len(want.Systemd.Units)
				// Ours come last: the names of the platform's MachineConfigs begin with 00 and 01.
				want.Storage.Files = append(want.Storage.Files, added.Storage.Files...)
				want.Systemd.Units = append(want.Systemd.Units, added.Systemd.Units...)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-platform and ours +rendered):\n%s", diff)
				}
				size := len(must1(json.Marshal(after))(t))
				t.Logf("%d files and %d units, with ours %d bytes", files, units, size)
				if files < 10 || units < 10 || size > operatorLimit/2 {
					t.Errorf("%d files and %d units in %d bytes", files, units, size)
				}
			})
		}
	})
}

// override returns a MachineConfig with one file in plain text.
func override(name, path, text string) string {
	return `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: ` + name + `
  labels: {machineconfiguration.openshift.io/role: master}
spec:
  config:
    ignition: {version: 3.4.0}
    storage: {files: [{path: ` + path + `, mode: 0644, overwrite: true, contents: {source: "data:,` + text + `"}}]}
`
}

// compressedConfig returns the MachineConfig of a configuration that the renderer compresses.
func compressedConfig(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	large := "mode: \"\"\n" + strings.Repeat("# a comment of an administrator\n", 4<<10)
	must(t, os.WriteFile(filepath.Join(dir, "my.yaml"), []byte(large), 0o600))
	tool(t, dir, "render", "--image", "registry.example.com/a@sha256:"+strings.Repeat("0", 64), "--config", "my.yaml",
		"--output-dir", "rendered")
	text := machineConfigs(t, filepath.Join(dir, "rendered"))[1]
	if !strings.Contains(text, "compression: gzip") {
		t.Fatalf("the configuration is not compressed:\n%.2000s", text)
	}
	return text
}

// TestOverride: preflight names the MachineConfig that replaces our configuration, which one takes
// precedence, and whether the release of the cluster renders contents that no node can read.
func TestOverride(t *testing.T) {
	t.Parallel()
	const path = "/etc/http01-proxyd/config.yaml"
	plain, compressed := ourConfigs(t)[1], compressedConfig(t)
	for name, tt := range map[string]struct {
		name string // of the other MachineConfig
		ours string
		wins bool // the other one
	}{
		"a later one":                {"99-master-site", plain, true},
		"an earlier one":             {"50-master-site", plain, false},
		"a later one, compressed":    {"99-master-site", compressed, true},
		"an earlier one, compressed": {"50-master-site", compressed, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachRelease(t, func(t *testing.T, release oracle.Release, o *oracle.Operator) {
				t.Helper()
				other := override(tt.name, path, "other%0A")
				answer := must1(o.Ask(t.Context(), oracle.Request{MachineConfigs: []string{tt.ours, other}}))(t)
				got := answer.Contents[path]
				broken := got.Error != ""
				if !broken && (got.Text == "other\n") != tt.wins {
					t.Errorf("the nodes get %.100q, the other one takes precedence: %t", got.Text, tt.wins)
				}
				dir := t.TempDir()
				for file, text := range map[string]string{
					"ours.yaml": tt.ours, "other.yaml": other,
					"version.yaml": "apiVersion: config.openshift.io/v1\nkind: ClusterVersion\nmetadata: {name: version}\n" +
						"status: {history: [{state: Completed, version: " + string(release) + ".1}]}\n",
				} {
					must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
				}
				found := preflight(t, dir, "ours.yaml", "other.yaml", "version.yaml")
				first := "98-master-http01-proxyd-config takes precedence"
				if tt.wins {
					first = tt.name + " takes precedence"
				}
				if text := found["machineconfig-overlaps"]; !strings.Contains(text, tt.name) ||
					!strings.Contains(text, path) || !strings.Contains(text, first) {
					t.Errorf("no %q in %q", first, text)
				}
				if _, predicted := found["machineconfig-compressed"]; predicted != broken {
					t.Errorf("unreadable contents: predicted %t, rendered %t", predicted, broken)
				}
				if want := tt.wins && tt.ours == compressed && release == oracle.OpenShift419; broken != want {
					t.Errorf("unreadable contents: %q, want %t", got.Error, want)
				}
			})
		})
	}
}
