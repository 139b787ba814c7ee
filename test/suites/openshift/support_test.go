// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/ignition/v2/config/v3_5/types"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
)

// pairs of VIPs.
var (
	v4VIPs = vips{api: []string{"192.168.111.5"}, ingress: []string{"192.168.111.4"}, families: mcfgv1.IPFamiliesIPv4}
	v6VIPs = vips{
		api: []string{"fd2e:6f44:5dd8:c956::5"}, ingress: []string{"fd2e:6f44:5dd8:c956::4"}, families: mcfgv1.IPFamiliesIPv6,
	}
	dualVIPs = vips{
		api: append(v4VIPs.api, v6VIPs.api...), ingress: append(v4VIPs.ingress, v6VIPs.ingress...),
		families: mcfgv1.IPFamiliesDualStack,
	}
)

// vips are the VIPs of a cluster, IPv4 first.
type vips struct {
	api, ingress []string
	families     mcfgv1.IPFamiliesType
}

// platform is a kind of cluster.
type platform struct {
	kind         configv1.PlatformType
	topology     configv1.TopologyMode // default: HighlyAvailable
	vips         vips
	loadBalancer string // type; default: OpenShift's
}

// String names the platform in a test.
func (p platform) String() string {
	return strings.Trim(fmt.Sprintf("%s %s %s %s", p.kind, p.topology, p.vips.families, p.loadBalancer), " ")
}

// infrastructure returns the Infrastructure of a cluster.
func (p platform) infrastructure(t *testing.T) *configv1.Infrastructure {
	t.Helper()
	of := map[string]any{"apiServerInternalIPs": p.vips.api, "ingressIPs": p.vips.ingress}
	if p.loadBalancer != "" {
		of["loadBalancer"] = map[string]any{"type": p.loadBalancer}
	}
	status := map[string]any{"type": p.kind}
	if len(p.vips.api) > 0 {
		status[strings.ToLower(string(p.kind))] = of
	}
	topology := p.topology
	if topology == "" {
		topology = configv1.HighlyAvailableTopologyMode
	}
	text := must1(json.Marshal(map[string]any{"status": map[string]any{
		"platform": p.kind, "platformStatus": status, "controlPlaneTopology": topology, "infrastructureTopology": topology,
		"apiServerURL": "https://api.ostest.example.com:6443", "infrastructureName": "ostest",
		"apiServerInternalURI": "https://api-int.ostest.example.com:6443", "etcdDiscoveryDomain": "ostest.example.com",
	}}))(t)
	var infrastructure configv1.Infrastructure
	must(t, json.Unmarshal(text, &infrastructure))
	return &infrastructure
}

// onPrem returns the platforms with keepalived.
func onPrem() []configv1.PlatformType {
	return []configv1.PlatformType{
		configv1.BareMetalPlatformType, configv1.OpenStackPlatformType, configv1.VSpherePlatformType,
		configv1.NutanixPlatformType,
	}
}

// ask returns the operator's response for a platform.
func ask(t *testing.T, o *oracle.Operator, p platform, configs ...string) oracle.Response {
	t.Helper()
	return must1(o.Ask(t.Context(), oracle.Request{
		Infrastructure: p.infrastructure(t), IPFamilies: p.vips.families, MachineConfigs: configs,
	}))(t)
}

// eachRelease runs a test with the operator of each release.
func eachRelease(t *testing.T, test func(t *testing.T, release oracle.Release, o *oracle.Operator)) {
	t.Helper()
	for _, release := range oracle.Releases() {
		t.Run(string(release), func(t *testing.T) {
			t.Parallel()
			test(t, release, must1(oracle.Load(t.Context(), release))(t))
		})
	}
}

// repository is the root of the repository.
const repository = "../../.."

// ourConfigs returns the MachineConfigs of the example in the repository.
func ourConfigs(t *testing.T) (texts []string) {
	t.Helper()
	return machineConfigs(t, filepath.Join(repository, "machineconfigs"))
}

// machineConfigs returns the MachineConfigs in a folder, in the order of their names.
func machineConfigs(t *testing.T, dir string) (texts []string) {
	t.Helper()
	for _, name := range []string{"98-master-http01-proxyd", "98-master-http01-proxyd-config"} {
		texts = append(texts, string(must1(os.ReadFile(filepath.Join(dir, name+".yaml")))(t)))
	}
	return texts
}

var loadTool = sync.OnceValues(func() (string, error) {
	return lab.BuildCommand(context.Background(), "oc-http01")
})

// tool runs oc http01 in a folder. The error of a report with problems is ignored.
func tool(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), must1(loadTool())(t), args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 3 {
		err = nil
	}
	if err != nil {
		t.Fatalf("oc http01 %q: %v", args, err)
	}
	return string(out)
}

// preflight returns the IDs of preflight's findings and their messages.
func preflight(t *testing.T, dir string, files ...string) map[string]string {
	t.Helper()
	var report struct {
		Findings []struct{ ID, Message string }
	}
	must(t, json.Unmarshal([]byte(tool(t, dir, append([]string{"preflight", "-o", "json"}, files...)...)), &report))
	found := map[string]string{}
	for _, f := range report.Findings {
		found[f.ID] += f.Message + "\n"
	}
	return found
}

// ignition returns the Ignition config of a MachineConfig. The operator removes an empty compression.
func ignition(t *testing.T, c *mcfgv1.MachineConfig) types.Config {
	t.Helper()
	parsed, report, err := v3_5.ParseCompatibleVersion(c.Spec.Config.Raw)
	if err != nil {
		t.Fatalf("%s: %v: %s", c.Name, err, report)
	}
	for i := range parsed.Storage.Files {
		if contents := &parsed.Storage.Files[i].Contents; contents.Compression != nil && *contents.Compression == "" {
			contents.Compression = nil
		}
	}
	return parsed
}

// read returns a MachineConfig from YAML.
func read(t *testing.T, text string) *mcfgv1.MachineConfig {
	t.Helper()
	var c mcfgv1.MachineConfig
	must(t, yaml.Unmarshal([]byte(text), &c))
	return &c
}

// contents returns the contents of a file in the rendered configuration. A file that does not exist
// has none.
func contents(t *testing.T, a oracle.Response, path string) string {
	t.Helper()
	got := a.Contents[path]
	if got.Error != "" {
		t.Fatalf("%s: %s", path, got.Error)
	}
	return got.Text
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must1 returns the value of a call and ends the test on its error.
func must1[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}
