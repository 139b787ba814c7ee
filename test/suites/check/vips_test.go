// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// configFor returns the configuration for another keepalived.conf.
func configFor(path string) string { return fmt.Sprintf("vips:\n  keepalivedConfig: %s\n", path) }

const vrrpInstance = `vrrp_instance %s {
    state BACKUP
    interface br-ex
    virtual_router_id 57
    priority 40
    virtual_ipaddress {
        %s
    }
}
`

// TestKeepalivedConf makes the service read incomplete and unusual files.
func TestKeepalivedConf(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	whole, err := os.ReadFile(n.KeepalivedConfig())
	must(t, err)
	path := filepath.Join(n.Dir, "other", "keepalived.conf")
	// Without the static pod, a host with ingress VIPs only is a worker.
	writeTestFile(t, filepath.Join(n.Manifests(), "kube-apiserver-pod.yaml"), "spec: {}\n")
	for _, tt := range []struct {
		name, text, reason, id string
		texts                  string
	}{
		{
			"half-written", strings.TrimSuffix(strings.TrimSpace(string(whole)), "}"), "NoVIPs", "keepalived-config-unreadable",
			path,
		},
		{"empty", "\n", "NoVIPs", "keepalived-config-unreadable", path},
		{
			"without API instance", fmt.Sprintf(vrrpInstance, "lab_INGRESS_0", "192.0.2.6/32"), "NoVIPs",
			"keepalived-no-api-instance", path,
		},
		{
			"without ingress", fmt.Sprintf(vrrpInstance+vrrpInstance, "lab_API_0", c.API.V4, "lab_API_1", c.API.V6), "NoVIPs",
			"ingress-vip-missing",
			fmt.Sprintf("contains the API VIP %s and %s but no ingress VIP", c.API.V4, c.API.V6),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			writeTestFile(t, path, tt.text)
			c.configure(configFor(path), tt.reason)
			r := c.expectFindings(n, []string{tt.id})
			c.expectText(r, tt.id, tt.texts)
			c.configure(n.DefaultConfig(), "Serving")
		})
	}
	t.Run("a directory", func(t *testing.T) {
		must(t, os.MkdirAll(path, 0o750))
		t.Cleanup(func() { must(t, os.Remove(path)) })
		c.configure(configFor(path), "NoVIPs")
		c.expectFindings(n, []string{"keepalived-config-unreadable"})
		c.configure(n.DefaultConfig(), "Serving")
	})
	t.Run("absent", func(t *testing.T) {
		writeTestFile(t, filepath.Join(n.Manifests(), "keepalived.yaml"), "spec: {}\n")
		c.configure(configFor(path), "NoVIPs")
		r := c.expectFindings(n, []string{"keepalived-config-missing"})
		c.expectText(r, "keepalived-config-missing", path, n.Manifests())
		c.configure(n.DefaultConfig(), "Serving")
	})
}

// TestStaticPod makes the service take the VIPs from keepalived's static pod, as on OpenShift.
func TestStaticPod(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	manifest := filepath.Join(n.Manifests(), "keepalived.yaml")
	writeTestFile(t, manifest,
		fmt.Sprintf("spec: {containers: [{command: [dynkeepalived, --api-vips, '%s,%s', --ingress-vips, '%s,%s']}]}\n",
			c.API.V4, c.API.V6, c.Ingress.V4, c.Ingress.V6))
	writeTestFile(t, filepath.Join(n.Manifests(), "kube-apiserver-pod.yaml"), "spec: {}\n")
	c.configure(configFor(filepath.Join(n.Dir, "absent.conf")), "Serving")
	if r := c.expectFindings(n, []string{}); !strings.Contains(r.Check("vips").Text, manifest) {
		t.Errorf("vips: %s", r.Check("vips").Text)
	}
}

// TestLastGoodVIPs holds that the service and check continue with the last good VIPs.
func TestLastGoodVIPs(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	whole, err := os.ReadFile(n.KeepalivedConfig())
	must(t, err)
	path := filepath.Join(n.Dir, "other", "keepalived.conf")
	c.configure(configFor(path)+"hosts: ["+apiName+"]\n", "NotRequired")
	writeTestFile(t, path, string(whole))
	c.awaitReason(c.Services[0], "Serving")
	for name, text := range map[string]string{
		"half-written": strings.TrimSuffix(strings.TrimSpace(string(whole)), "}"),
		"empty":        "",
	} {
		t.Run(name, func(t *testing.T) {
			c := c.forSubtest(t)
			must(t, os.WriteFile(path, []byte(text), 0o600))
			_, err := c.Services[0].Await(t.Context(), "the last good VIPs", func(s lab.Status) error {
				if !strings.Contains(s.Condition().Message, "last good VIPs stay in use") {
					return errors.New(s.Condition().Message)
				}
				return nil
			})
			must(t, err)
			r := c.expectFindings(n, []string{"keepalived-config-unreadable"})
			for _, result := range r.Checks {
				if result.Name != "vips" && result.Outcome != "ok" {
					t.Errorf("%s: %s: %s", result.Name, result.Outcome, result.Text)
				}
			}
		})
	}
	c.configure(n.DefaultConfig(), "Serving")
}

func TestUserManaged(t *testing.T) {
	c := healthy(t, nil)
	writeTestFile(t, filepath.Join(c.holder().DisabledManifests(), "keepalived.yaml"), "spec: {}\n")
	c.awaitReason(c.Services[0], "ExternalLoadBalancer")
	r := c.expectFindings(c.holder(), []string{"vips-user-managed"})
	c.expectText(r, "vips-user-managed", "OpenShift has disabled keepalived ("+
		filepath.Join(c.holder().DisabledManifests(), "keepalived.yaml")+")")
}

// TestSharedVIPs has API and ingress share their addresses, as on a single node.
func TestSharedVIPs(t *testing.T) {
	c := healthy(t, nil)
	both := fmt.Sprintf(`["%s", "%s"]`, c.Ingress.V4, c.Ingress.V6)
	c.configure(fmt.Sprintf("vips:\n  api: %s\n  ingress: %s\n", both, both), "NotRequired")
	r := c.expectFindings(c.holder(), []string{"vips-shared"})
	c.expectText(r, "vips-shared", fmt.Sprintf("share %s and %s", c.Ingress.V4, c.Ingress.V6))
}

// TestNotAClusterNode holds that check has nothing to check on a host without VIPs, and
// that this is no failure.
func TestNotAClusterNode(t *testing.T) {
	c := healthy(t, nil)
	pod := c.Pods[0]
	must(t, pod.WriteConfig(configFor(filepath.Join(pod.Dir, "keepalived.conf"))))
	c.expectNothingToCheck(pod, "")
	if r, code := c.check(pod); code != 4 || r.Outcome != "nothing" || r.Checks == nil {
		t.Errorf("exit code %d: %+v", code, r)
	}
}

// expectNothingToCheck expects that check has nothing to check on a node, and that it
// prints why.
func (c *cluster) expectNothingToCheck(n *lab.Node, why string) {
	c.t.Helper()
	text, code, err := n.CheckText(c.t.Context(), shared.binary)
	must(c.t, err)
	if code != 4 || !strings.HasPrefix(text, "- Nothing to check: ") || !strings.Contains(text, why) ||
		strings.Contains(text, "✗") {
		c.t.Errorf("exit code %d: %s", code, text)
	}
}

// TestWorker holds that a worker with ingress VIPs only is no failure.
func TestWorker(t *testing.T) {
	c := healthy(t, nil)
	n := c.Worker.Node
	path := filepath.Join(n.Dir, "other", "keepalived.conf")
	writeTestFile(t, path, fmt.Sprintf(vrrpInstance, "lab_INGRESS_0", "192.0.2.6/32"))
	must(t, n.WriteConfig(configFor(path)))
	writeTestFile(t, filepath.Join(n.Manifests(), "keepalived.yaml"), "spec: {}\n")
	c.expectNothingToCheck(n, " is a worker, ")
	// The static pod of an API server makes it a control-plane node, which lacks its API
	// VIP.
	writeTestFile(t, filepath.Join(n.Manifests(), "kube-apiserver-pod.yaml"), "spec: {}\n")
	if r, code := c.check(n); code != 3 || !slices.Contains(r.IDs(), "keepalived-no-api-instance") {
		t.Errorf("exit code %d: %+v", code, r)
	}
}

// TestConfiguration writes an invalid configuration while the service continues with the
// last good one.
func TestConfiguration(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	for _, tt := range []struct {
		name, text, reason string
		ids, texts         []string
	}{
		{
			"one mistake", n.DefaultConfig() + "upstream:\n  prot: 80\n", "InvalidConfig",
			[]string{"config-invalid"},
			[]string{"config.yaml:5:3: ", `"prot"`, " The service reloads a corrected file automatically."},
		},
		{
			"two mistakes", n.DefaultConfig() + "upstream:\n  port: 99999\nhosts: [a b]\n", "InvalidConfig",
			[]string{"config-invalid", "config-invalid"},
			[]string{"config.yaml:5:9: "},
		},
		{
			"api-int in hosts", n.DefaultConfig() + "hosts: [" + apiName + ", " + internalName + "]\n", "Serving",
			[]string{"hosts-internal-name"},
			[]string{"config.yaml contains api-int.lab.test, by which the nodes reach the API."},
		},
		{"switched off", n.DefaultConfig() + "mode: \"\"\n", "Disabled", []string{"disabled"}, []string{"config.yaml"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Cleanup(func() { must(t, n.WriteConfig(n.DefaultConfig())) })
			c.configure(tt.text, tt.reason)
			r := c.expectFindings(n, tt.ids)
			c.expectText(r, tt.ids[0], tt.texts...)
			if tt.reason == "Disabled" {
				must(t, n.RunCommands(t.Context(), r.Commands("disabled")))
				c.awaitReason(c.Services[0], "Serving")
				c.expectFindings(n, []string{})
			}
		})
	}
	c.configure(n.DefaultConfig(), "Serving")
	t.Run("unreadable", func(t *testing.T) {
		r := c.expectFindings(n, []string{"config-unreadable"}, "--config", t.TempDir())
		c.expectText(r, "config-unreadable", "is not a regular file")
	})
	t.Run("a file of procfs that blocks", func(*testing.T) {
		r := c.expectFindings(n, []string{"config-unreadable"}, "--config", "/proc/kmsg")
		c.expectText(r, "config-unreadable", "is a file of the kernel")
	})
	t.Run("a file system that hangs", func(t *testing.T) {
		stalled := t.TempDir()
		file := filepath.Join(stalled, "file")
		for want, flags := range map[string][]string{
			file + " has not finished after 5s: check its file system": {"--config", file},
			"reading the files of this host has not returned within 8s: check their file systems": {
				"--config", file, "--state-dir", stalled, "--manifests", stalled, "--timeout", "8s",
			},
		} {
			text, err := n.Run(t.Context(), "sh",
				slices.Concat([]string{"-c", hungCheck, "sh", stalled, shared.binary, "check"}, n.CheckFlags(), flags)...)
			if err != nil || !strings.Contains(text, want) {
				t.Errorf("%v: %s\nlacks %q", err, text, want)
			}
		}
	})
}

// hungCheck runs a command while the server of a file system does not respond.
const hungCheck = `dir=$1; shift; exec 9<>/dev/fuse || exit 1
mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 stalled "$dir" || exit 1
timeout 60 "$@" 2>&1
[ $? != 124 ]; code=$?; umount -l "$dir"; exit $code`

// TestWithoutRoot checks that check without root lists what it could not check, and that its
// exit code then means neither a problem nor success.
func TestWithoutRoot(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	text, code := checkWithoutRoot(t, c, n)
	if code != 4 || !strings.Contains(text, "Run it as root to include all checks.") ||
		!strings.Contains(text, "- ruleset ") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// checkWithoutRoot runs check without root on world-readable files.
func checkWithoutRoot(t *testing.T, c *cluster, n *lab.Node) (text string, code int) {
	t.Helper()
	dir, err := os.MkdirTemp("", "http01-check-") //nolint:usetesting // not below a directory of root's alone
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	config := filepath.Join(dir, "config.yaml")
	vips := fmt.Sprintf("vips: {api: [%q, %q], ingress: [%q, %q]}\n", c.API.V4, c.API.V6, c.Ingress.V4, c.Ingress.V6)
	must(t, os.WriteFile(config, []byte(vips), 0o644))
	program, err := os.ReadFile(shared.binary)
	must(t, err)
	binary := filepath.Join(dir, "http01-proxyd")
	must(t, os.WriteFile(binary, program, 0o755))
	resolvers := filepath.Join(dir, "resolv.conf")
	must(t, os.WriteFile(resolvers, fmt.Appendf(nil, "nameserver %s\n", c.DNS()[0]), 0o644))
	command := append([]string{
		"--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", binary, "check",
	}, n.CheckFlags()...)
	out, err := n.Run(t.Context(), "setpriv", append(command, "--config", config, "--manifests", dir,
		"--disabled-manifests", dir,
		"--resolv-conf", resolvers, "--proxy-env", filepath.Join(dir, "proxy.env"), "--name", apiName)...)
	return out, exitCode(err)
}
