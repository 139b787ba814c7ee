// SPDX-License-Identifier: Apache-2.0

package staticpod

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
)

// kubeVIPPod has the structure of machine-config-operator's
// templates/master/00-master/on-prem/files/0010-kube-vip-api.yaml (pull request 6326).
const kubeVIPPod = `---
kind: Pod
apiVersion: v1
metadata:
  name: %s
  namespace: openshift-kube-vip
spec:
  hostNetwork: true
  containers:
  - name: kube-vip
    args:
    - manager
    env:
    - name: address
      value: "%s"
    - name: k8s_config_file
      value: "/etc/kubernetes/kubeconfig"
    - name: port
      value: "6443"
    - name: vip_leaderelection
      value: "true"
    - name: vip_routingtable
      value: "true"
    - name: vip_routingtableid
      value: "198"
    - name: vip_nodename
      valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
`

func pod(name, vip string) string { return fmt.Sprintf(kubeVIPPod, name, vip) }

func addrs(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// write replaces the files of a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	old, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range old {
		must(t, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

func equal(a, b Discovery) string {
	return cmp.Diff(a, b, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty())
}

// TestReadKeepalived covers OpenShift's static pod and broken ones.
func TestReadKeepalived(t *testing.T) {
	t.Parallel()
	// test/suites/openshift compares it with the pod that machine-config-operator renders.
	text, err := os.ReadFile("testdata/openshift-dual.yaml")
	must(t, err)
	half, _, _ := strings.Cut(string(text), "192.168.111.4")
	args := func(text string) string { return "spec: {containers: [{args: [" + text + "]}]}" }
	one := keepalived.VIPs{API: addrs("192.0.2.5"), Ingress: addrs("192.0.2.6")}
	for name, tt := range map[string]struct {
		text string
		want keepalived.VIPs
		err  string
	}{
		"OpenShift's": {string(text), keepalived.VIPs{
			API:     addrs("192.168.111.5", "fd2e:6f44:5dd8:c956::5"),
			Ingress: addrs("192.168.111.4", "fd2e:6f44:5dd8:c956::4"),
		}, ""},
		"equals signs":       {args("'--api-vips=192.0.2.5', '--ingress-vips=192.0.2.6'"), one, ""},
		"a VIP twice":        {args("'--api-vips=192.0.2.5, 192.0.2.5', '--ingress-vips', '192.0.2.6,'"), one, ""},
		"none":               {args("sleep"), keepalived.VIPs{}, ""},
		"flag without value": {args("'--api-vips=192.0.2.5', '--ingress-vips'"), keepalived.VIPs{}, ""},
		"no API VIP":         {args("'--ingress-vips=192.0.2.6'"), keepalived.VIPs{}, ""},
		"no address": {
			args("'--api-vips', 'a.example', '--ingress-vips=192.0.2.6'"),
			keepalived.VIPs{},
			`--api-vips is "a.example"`,
		},
		"loopback": {
			args("'--api-vips=192.0.2.5', '--ingress-vips=127.0.0.1'"),
			keepalived.VIPs{},
			`"127.0.0.1", which is not a VIP`,
		},
		"truncated":    {half, keepalived.VIPs{}, "keepalived.yaml: "},
		"another type": {"spec: {containers: 3}", keepalived.VIPs{}, "keepalived.yaml: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, map[string]string{"keepalived.yaml": tt.text, "keepalived.yaml.bak": "spec: ["})
			got, err := ReadKeepalived(dir)
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if diff := equal(Discovery{Present: true, VIPs: tt.want}, got); diff != "" ||
				got.HasVIPs() != (len(tt.want.API) > 0) {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got, err := ReadKeepalived(t.TempDir()); got.Present || err != nil {
		t.Errorf("absent: %+v, %v", got, err)
	}
}

// TestReadKubeVIP covers the static pods of OpenShift and of upstream's generator, and broken
// ones.
func TestReadKubeVIP(t *testing.T) {
	t.Parallel()
	const vip, other = "192.168.111.5", "fd2e:6f44:5dd8:c956::5"
	openShift := map[string]string{
		"0000-frr-k8s.yaml": "spec: [", "kube-apiserver-pod.yaml": "spec: [", "keepalived.yaml": "spec: [",
		".0010-kube-vip-api.yaml.swp":          "\x00",
		"0010-kube-vip-api.yaml":               pod("kube-vip-api", vip),
		"0011-kube-vip-api-secondary.yaml":     pod("kube-vip-api-secondary", other),
		"0020-kube-vip-ingress.yaml":           pod("kube-vip-ingress", "192.168.111.4"),
		"0021-kube-vip-ingress-secondary.yaml": pod("kube-vip-ingress-secondary", "fd2e:6f44:5dd8:c956::4"),
	}
	both := Discovery{
		Present: true,
		VIPs:    keepalived.VIPs{API: addrs(vip, other), Ingress: addrs("192.168.111.4", "fd2e:6f44:5dd8:c956::4")},
		Tables:  map[netip.Addr]uint32{},
	}
	for _, a := range append(both.VIPs.API, both.VIPs.Ingress...) {
		both.Tables[a] = 198
	}
	api := func(text string) map[string]string { return map[string]string{"kube-vip.yaml": text} }
	inTable := func(table uint32) Discovery {
		return Discovery{
			Present: true, VIPs: keepalived.VIPs{API: addrs(vip)},
			Tables: map[netip.Addr]uint32{addrs(vip)[0]: table},
		}
	}
	const byBGP = "metadata: {name: kube-vip}\nspec: {containers: [{env: [{name: vip_address, value: " + vip +
		"}, {name: bgp_enable, value: \"true\"}]}]}\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  Discovery
		err   string
	}{
		"OpenShift":          {openShift, both, ""},
		"none":               {map[string]string{"keepalived.yaml": "x"}, Discovery{}, ""},
		"kube-vip's own BGP": {api(byBGP), Discovery{Present: true, VIPs: keepalived.VIPs{API: addrs(vip)}}, ""},
		"ARP: one holder":    {api(strings.Replace(byBGP, "bgp_enable", "vip_arp", 1)), Discovery{}, ""},
		"off":                {api(strings.Replace(byBGP, `"true"`, `"false"`, 1)), Discovery{}, ""},
		"the default table": {
			api(strings.Replace(pod("kube-vip", vip), "vip_routingtableid", "x", 1)), inTable(198),
			"",
		},
		"another table": {api(strings.Replace(pod("kube-vip", vip), `"198"`, `"70000"`, 1)), inTable(70000), ""},
		"a name instead of a VIP": {
			api(pod("kube-vip", "api.example.com")),
			Discovery{Present: true},
			`the variable address is "api.example.com", which is not a VIP`,
		},
		"no VIP": {
			api(pod("kube-vip", "")),
			Discovery{Present: true},
			`the variable address is "", which is not a VIP`,
		},
		"a link-local address": {api(pod("kube-vip", "fe80::1")), Discovery{Present: true}, "which is not a VIP"},
		"no table": {
			api(strings.Replace(pod("kube-vip", vip), `"198"`, `"-1"`, 1)),
			Discovery{Present: true},
			`vip_routingtableid is "-1"`,
		},
		"not YAML":     {api("spec: ["), Discovery{Present: true}, "kube-vip.yaml: "},
		"another type": {api("spec: 1"), Discovery{Present: true}, "kube-vip.yaml: "},
		"too long":     {api(strings.Repeat("#", maxFileBytes+1)), Discovery{Present: true}, "longer than"},
		"the same VIP twice": {map[string]string{
			"a-kube-vip.yaml": pod("kube-vip", vip),
			"b-kube-vip.yaml": pod("kube-vip", vip),
		}, inTable(198), ""},
		"one of two is not usable": {
			map[string]string{"a-kube-vip.yaml": "spec: [", "b-kube-vip.yaml": pod("kube-vip", vip)},
			inTable(198), "a-kube-vip.yaml: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, tt.files)
			got, err := ReadKubeVIP(dir)
			if diff := equal(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
	if got, err := ReadKubeVIP(filepath.Join(t.TempDir(), "absent")); got.Present || err != nil {
		t.Errorf("an absent directory: %+v, %v", got, err)
	}
	many := map[string]string{}
	for i := range maxVIPs + 1 {
		many[fmt.Sprintf("%d-kube-vip.yaml", i)] = pod("kube-vip", fmt.Sprintf("192.0.2.%d", i+1))
	}
	dir := t.TempDir()
	write(t, dir, many)
	if got, err := ReadKubeVIP(dir); len(got.VIPs.API) != maxVIPs || err == nil || !strings.Contains(err.Error(),
		"more than 32") {
		t.Errorf("%d VIPs, %v", len(got.VIPs.API), err)
	}
}

// TestSelected: the configuration decides, and without it the static pods.
func TestSelected(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		management config.Management
		present    bool
		want       bool
	}{
		{config.ManagementDetected, false, false},
		{config.ManagementDetected, true, true},
		{config.ManagementKeepalived, true, false},
		{config.ManagementBGP, false, true},
	} {
		if got := (Discovery{Present: tt.present}).Selected(tt.management); got != tt.want {
			t.Errorf("%q, static pods %t: %t", tt.management, tt.present, got)
		}
	}
}

// TestReader: what adds a VIP takes effect at once, what removes one after it stayed, and
// what cannot be read never.
func TestReader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Unix(0, 0)
	r := NewKubeVIPReader(dir)
	expect := func(when string, vips int, failed bool, retry time.Duration) {
		t.Helper()
		got, wait, err := r.Read(now)
		if len(got.VIPs.API) != vips || got.Present != (vips > 0) || (err != nil) != failed || wait != retry {
			t.Errorf("%s: %+v, %v, %v", when, got, wait, err)
		}
	}
	first, second := pod("kube-vip-api", "192.0.2.5"), pod("kube-vip-api", "2001:db8::5")
	expect("none", 0, false, 0)
	write(t, dir, map[string]string{"1-kube-vip.yaml": "spec: ["})
	if got, _, err := r.Read(now); !got.Present || err == nil {
		t.Errorf("the first one is broken: %+v, %v", got, err)
	}
	write(t, dir, map[string]string{"1-kube-vip.yaml": first})
	expect("one", 1, false, 0)
	write(t, dir, map[string]string{"1-kube-vip.yaml": first, "2-kube-vip.yaml": second})
	expect("two", 2, false, 0)
	write(t, dir, map[string]string{"2-kube-vip.yaml": second})
	expect("one is removed", 2, false, settled.LossDelay)
	now = now.Add(time.Second)
	write(t, dir, map[string]string{"1-kube-vip.yaml": first, "2-kube-vip.yaml": second})
	expect("and returns", 2, false, 0)
	write(t, dir, map[string]string{"1-kube-vip.yaml": first[:40], "2-kube-vip.yaml": second})
	expect("one is incomplete", 2, false, settled.LossDelay)
	now = now.Add(settled.LossDelay)
	write(t, dir, map[string]string{"1-kube-vip.yaml": "spec: [", "2-kube-vip.yaml": second})
	expect("one is broken", 2, false, settled.LossDelay)
	now = now.Add(settled.LossDelay)
	expect("and stays broken", 2, true, 0)
	now = now.Add(time.Hour)
	expect("for an hour", 2, true, 0)
	write(t, dir, nil)
	expect("all are removed", 2, true, settled.LossDelay)
	now = now.Add(settled.LossDelay)
	expect("and stay removed", 0, false, 0)
}

func TestUserManaged(t *testing.T) {
	dir := t.TempDir()
	present := filepath.Join(dir, "present")
	must(t, os.Mkdir(present, 0o700))
	write(t, present, map[string]string{"keepalived.yaml": "kind: Pod\n"})
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	loop := filepath.Join(dir, "loop")
	must(t, os.Symlink(loop, loop))
	tests := []struct {
		name, dir string
		want      bool
		err       string
	}{
		{name: "present", dir: present, want: true},
		{name: "empty directory", dir: dir},
		{name: "no directory", dir: filepath.Join(dir, "absent")},
		{name: "not a directory", dir: filepath.Join(dir, "file"), err: "not a directory"},
		{name: "unreachable", dir: loop, err: "too many levels"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := UserManaged(tt.dir)
			if got != tt.want {
				t.Errorf("UserManaged = %v, want %v", got, tt.want)
			}
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
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
