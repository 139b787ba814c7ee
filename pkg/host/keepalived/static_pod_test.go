// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"errors"
	"io/fs"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// staticPod has the structure of machine-config-operator's
// templates/common/on-prem/files/keepalived.yaml.
const staticPod = `kind: Pod
apiVersion: v1
metadata:
  name: keepalived
  creationTimestamp:
spec:
  initContainers:
  - name: render-config-keepalived
    command:
    - runtimecfg
    - render
    - "/etc/kubernetes/kubeconfig"
    - "--api-vips"
    - "192.168.111.5,fd2e:6f44:5dd8:c956::5"
    - "--ingress-vips"
    - "192.168.111.4,fd2e:6f44:5dd8:c956::4"
    - "/config"
    - "--out-dir"
    - "/etc/keepalived"
  containers:
  - name: keepalived
    command:
    - /bin/bash
    - -c
    - |
      remove_vip "192.168.111.5"
  - name: keepalived-monitor
    command:
    - dynkeepalived
    - "--api-vips"
    - "192.168.111.5,fd2e:6f44:5dd8:c956::5"
    - "--ingress-vips"
    - "192.168.111.4,fd2e:6f44:5dd8:c956::4"
`

func vipAddrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

func TestStaticPodIngress(t *testing.T) {
	t.Parallel()
	half, _, _ := strings.Cut(staticPod, "192.168.111.4")
	for name, tt := range map[string]struct {
		text string
		want []netip.Addr
		err  string
	}{
		"OpenShift's": {staticPod, vipAddrs("192.168.111.4", "fd2e:6f44:5dd8:c956::4"), ""},
		"args with equals sign": {
			"spec: {containers: [{args: ['--api-vips=192.0.2.5', '--ingress-vips=192.0.2.6']}]}",
			vipAddrs("192.0.2.6"),
			"",
		},
		"none":                       {"spec: {containers: [{command: [sleep]}]}", nil, ""},
		"flag without value":         {"spec: {containers: [{command: ['--ingress-vips']}]}", nil, ""},
		"empty value":                {"spec: {containers: [{command: ['--ingress-vips', '']}]}", nil, ""},
		"no address":                 {"spec: {containers: [{command: ['--ingress-vips', 'a.example']}]}", nil, `--ingress-vips contains "a.example"`},
		"half-written":               {half, nil, "keepalived.yaml: "},
		"a list of other use":        {"spec: {containers: 3}", nil, "keepalived.yaml: "},
		"bad API VIPs do not matter": {"spec: {containers: [{args: ['--api-vips=x', '--ingress-vips=192.0.2.6']}]}", vipAddrs("192.0.2.6"), ""},
		"loopback":                   {"spec: {containers: [{args: ['--ingress-vips=127.0.0.1']}]}", nil, `"127.0.0.1", which is not a VIP`},
		"link-local":                 {"spec: {containers: [{args: ['--ingress-vips=fe80::1']}]}", nil, `"fe80::1", which is not a VIP`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, StaticPodPath(dir), tt.text)
			got, err := StaticPodIngress(dir)
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := StaticPodIngress(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent manifest: %v", err)
	}
}

func TestWithMissingIngress(t *testing.T) {
	t.Parallel()
	manifest := vipAddrs("192.0.2.4", "2001:db8::4")
	for name, tt := range map[string]struct {
		own   VIPs
		lacks bool
		want  []netip.Addr
	}{
		"complete":              {VIPs{API: vipAddrs("192.0.2.5"), Ingress: vipAddrs("192.0.2.6")}, false, vipAddrs("192.0.2.6")},
		"no ingress at all":     {VIPs{API: vipAddrs("192.0.2.5")}, true, vipAddrs("192.0.2.4")},
		"one family lacks":      {VIPs{API: vipAddrs("192.0.2.5", "2001:db8::5"), Ingress: vipAddrs("192.0.2.6")}, true, vipAddrs("192.0.2.6", "2001:db8::4")},
		"no API, nothing to do": {VIPs{}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.own.LacksIngress(); got != tt.lacks {
				t.Errorf("LacksIngress = %v", got)
			}
			if diff := cmp.Diff(tt.want, tt.own.WithMissingIngress(manifest).Ingress, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
