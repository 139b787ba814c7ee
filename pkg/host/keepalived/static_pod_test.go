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

func TestStaticPodIngress(t *testing.T) {
	t.Parallel()
	half, _, _ := strings.Cut(staticPod, "192.168.111.4")
	for name, tt := range map[string]struct {
		text string
		want []netip.Addr
		err  string
	}{
		"OpenShift's": {staticPod, parseAddrs("192.168.111.4", "fd2e:6f44:5dd8:c956::4"), ""},
		"args with equals sign": {
			"spec: {containers: [{args: ['--api-vips=192.0.2.5', '--ingress-vips=192.0.2.6']}]}",
			parseAddrs("192.0.2.6"),
			"",
		},
		"none":                       {"spec: {containers: [{command: [sleep]}]}", nil, ""},
		"flag without value":         {"spec: {containers: [{command: ['--ingress-vips']}]}", nil, ""},
		"empty value":                {"spec: {containers: [{command: ['--ingress-vips', '']}]}", nil, ""},
		"no address":                 {"spec: {containers: [{command: ['--ingress-vips', 'a.example']}]}", nil, `--ingress-vips contains "a.example"`},
		"truncated":                  {half, nil, "keepalived.yaml: "},
		"another type":               {"spec: {containers: 3}", nil, "keepalived.yaml: "},
		"bad API VIPs do not matter": {"spec: {containers: [{args: ['--api-vips=x', '--ingress-vips=192.0.2.6']}]}", parseAddrs("192.0.2.6"), ""},
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
	manifest := parseAddrs("192.0.2.4", "2001:db8::4")
	for name, tt := range map[string]struct {
		own   VIPs
		lacks bool
		want  []netip.Addr
	}{
		"complete":                 {VIPs{API: parseAddrs("192.0.2.5"), Ingress: parseAddrs("192.0.2.6")}, false, parseAddrs("192.0.2.6")},
		"no ingress at all":        {VIPs{API: parseAddrs("192.0.2.5")}, true, parseAddrs("192.0.2.4")},
		"no ingress of one family": {VIPs{API: parseAddrs("192.0.2.5", "2001:db8::5"), Ingress: parseAddrs("192.0.2.6")}, true, parseAddrs("192.0.2.6", "2001:db8::4")},
		"no API VIP":               {VIPs{}, false, nil},
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
