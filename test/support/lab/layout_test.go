// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"testing"
)

// TestLayoutCheck holds that unsupported layouts are rejected.
func TestLayoutCheck(t *testing.T) {
	for name, tt := range map[string]struct {
		layout Layout
		ok     bool
	}{
		"the lab's own":                    {Layout{}, true},
		"compact with an arbiter":          {Layout{ControlPlaneNodes: 2, Arbiter: true, Compact: true}, true},
		"four control-plane nodes":         {Layout{ControlPlaneNodes: 4}, false},
		"ingress on no control-plane node": {Layout{ControlPlaneNodes: 2, IngressOn: 2}, false},
		"more VIPs than router ids":        {Layout{VIPs: maxVIPs + 1}, false},
		"an arbiter under multicast":       {Layout{Arbiter: true, Multicast: true}, false},
		"use_vmac upon a bond":             {Layout{Link: LinkBond, VMAC: true}, false},
		"use_vmac with multicast is fine":  {Layout{VMAC: true, Multicast: true}, true},
	} {
		if err := tt.layout.check(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKernelHas holds that the kernel has bridges, which every lab needs.
func TestKernelHas(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	for _, k := range []Link{LinkPlain, LinkBridge} {
		if has, err := KernelHas(t.Context(), k); !has || err != nil {
			t.Errorf("%q: %t, %v", k.kind(), has, err)
		}
	}
	for _, k := range []Link{LinkBond, LinkVLAN} {
		if has, err := KernelHas(t.Context(), k); err != nil {
			t.Errorf("%q: %t, %v", k.kind(), has, err)
		}
	}
}
