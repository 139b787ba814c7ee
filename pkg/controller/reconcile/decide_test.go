// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/staticpod"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

func parseConfig(t *testing.T, text string) config.Config {
	t.Helper()
	c, err := config.Parse("c.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func keepalivedVIPs(api, ingress []netip.Addr) keepalived.Snapshot {
	return keepalived.Snapshot{Known: true, Discovery: keepalived.Discovery{VIPs: keepalived.VIPs{
		API:     api,
		Ingress: ingress,
	}}}
}

func hostAddresses(texts ...string) []address.Address {
	var out []address.Address
	for _, a := range addrs(texts...) {
		out = append(out, address.Address{IP: a})
	}
	return out
}

func TestDecide(t *testing.T) {
	t.Parallel()
	const explicit = "vips: {api: [192.0.2.5], ingress: [192.0.2.6]}"
	dual := keepalivedVIPs(addrs("192.0.2.5", "2001:db8::5"), addrs("192.0.2.6", "2001:db8::6"))
	stale := dual
	stale.Stale, stale.Err = true, fmt.Errorf("k.conf:3:1: %w", keepalived.ErrIncomplete)
	orphaned := keepalivedVIPs(addrs("192.0.2.5"), nil)
	orphaned.Stale, orphaned.Err = true, stale.Err
	bgp := staticpod.Discovery{Present: true, VIPs: keepalived.VIPs{
		API:     addrs("192.0.2.5", "2001:db8::5"),
		Ingress: addrs("192.0.2.6", "2001:db8::6"),
	}}
	for name, tt := range map[string]struct {
		config   string
		refused  bool
		observed observation
		want     plan
	}{
		"configuration refused": {refused: true, want: plan{Plan: decision.Plan{Reason: report.InvalidConfig}}},
		"disabled": {
			config: `mode: ""`, observed: observation{files: files{keepalived: dual}, addresses: hostAddresses("192.0.2.5")},
			want: plan{Plan: decision.Plan{Reason: report.Disabled, Message: `mode is "": this host redirects no connections`}},
		},
		"explicit, held": {
			config: explicit, observed: observation{addresses: hostAddresses("192.0.2.1", "192.0.2.5")},
			want: plan{Plan: decision.Plan{
				Reason: report.Serving, Message: "holds 192.0.2.5", Serves: true,
				Decision: ownership.Decision{Held: addrs("192.0.2.5")}, Ingress: addrs("192.0.2.6"),
			}, port: 8888},
		},
		"explicit outranks keepalived.conf and user-managed": {
			config: explicit, observed: observation{
				files:     files{userManaged: true, keepalived: dual},
				addresses: hostAddresses("2001:db8::5"),
			},
			want: plan{Plan: decision.Plan{
				Reason: report.Standby, Message: "not on this host: 192.0.2.5", Serves: true,
				Decision: ownership.Decision{Standby: addrs("192.0.2.5")}, Ingress: addrs("192.0.2.6"),
			}, port: 8888},
		},
		"explicit, announced by BGP": {
			config:   "vips: {management: BGP, api: [192.0.2.5], ingress: [192.0.2.6]}",
			observed: observation{addresses: hostAddresses("192.0.2.5")},
			want: plan{Plan: decision.Plan{
				Reason: report.Serving, Message: "holds 192.0.2.5", Serves: true,
				Decision: ownership.Decision{Held: addrs("192.0.2.5")}, Ingress: addrs("192.0.2.6"),
			}, port: 8888, management: "BGP"},
		},
		"explicit, and kube-vip's static pods": {
			config: explicit, observed: observation{files: files{kubeVIP: bgp}},
			want: plan{Plan: decision.Plan{
				Reason: report.Standby, Message: "not on this host: 192.0.2.5", Serves: true,
				Decision: ownership.Decision{Standby: addrs("192.0.2.5")}, Ingress: addrs("192.0.2.6"),
			}, port: 8888, management: "BGP"},
		},
		"kube-vip's static pods outrank the disabled keepalived": {
			observed: observation{files: files{kubeVIP: bgp, userManaged: true}, addresses: hostAddresses("192.0.2.5",
				"192.0.2.6")},
			want: plan{Plan: decision.Plan{
				Reason: report.Serving, Message: "holds 192.0.2.5; not on this host: 2001:db8::5", Serves: true,
				Decision: ownership.Decision{Held: addrs("192.0.2.5"), Standby: addrs("2001:db8::5")},
				Ingress:  addrs("192.0.2.6", "2001:db8::6"),
			}, port: 8888, management: "BGP"},
		},
		"keepalived by configuration, beside kube-vip's static pods": {
			config: "vips: {management: Keepalived}",
			observed: observation{files: files{kubeVIP: bgp, keepalived: keepalivedVIPs(addrs("192.0.2.7"),
				addrs("192.0.2.8"))}},
			want: plan{Plan: decision.Plan{
				Reason: report.Standby, Message: "not on this host: 192.0.2.7", Serves: true,
				Decision: ownership.Decision{Standby: addrs("192.0.2.7")}, Ingress: addrs("192.0.2.8"),
			}, port: 8888},
		},
		"BGP by configuration, without static pods and VIPs": {
			config: "vips: {management: BGP}", observed: observation{files: files{keepalived: dual}},
			want: plan{Plan: decision.Plan{
				Reason:  report.NoVIPs,
				Message: "there is no static pod of kube-vip: set vips.api and vips.ingress in the configuration",
			}},
		},
		"a static pod of kube-vip that cannot be read": {
			observed: observation{files: files{
				kubeVIP:    staticpod.Discovery{Present: true},
				kubeVIPErr: errors.New("read m/kube-vip.yaml: no"),
			}},
			want: plan{Plan: decision.Plan{
				Reason:  report.NoVIPs,
				Message: "read m/kube-vip.yaml: no: correct the file, or set vips.api and vips.ingress in the configuration",
			}},
		},
		"one of kube-vip's static pods cannot be read": {
			observed: observation{files: files{kubeVIP: staticpod.Discovery{Present: true, VIPs: keepalived.VIPs{
				API:     addrs("192.0.2.5"),
				Ingress: addrs("192.0.2.6"),
			}}, kubeVIPErr: errors.New("read m/kube-vip.yaml: no")}},
			want: plan{Plan: decision.Plan{
				Reason: report.Standby, Serves: true,
				Message:  "not on this host: 192.0.2.5 (read m/kube-vip.yaml: no; the known VIPs stay in use)",
				Decision: ownership.Decision{Standby: addrs("192.0.2.5")}, Ingress: addrs("192.0.2.6"),
			}, port: 8888, management: "BGP"},
		},
		"kube-vip's static pods without an ingress VIP": {
			observed: observation{files: files{kubeVIP: staticpod.Discovery{
				Present: true,
				VIPs:    keepalived.VIPs{API: addrs("192.0.2.5")},
			}}},
			want: plan{Plan: decision.Plan{
				Reason: report.NoVIPs,
				Message: "kube-vip's static pods have API VIP 192.0.2.5 but no ingress VIP: set vips.api and vips.ingress in " +
					"the configuration",
			}},
		},
		"keepalived's static pod": {
			observed: observation{files: files{
				pod:    staticpod.Discovery{Present: true, VIPs: bgp.VIPs},
				podErr: errors.New("read m/keepalived.yaml: no"),
			}},
			want: plan{Plan: decision.Plan{
				Reason: report.Standby, Serves: true,
				Message:  "not on this host: 192.0.2.5, 2001:db8::5 (read m/keepalived.yaml: no; the last good VIPs stay in use)",
				Decision: ownership.Decision{Standby: addrs("192.0.2.5", "2001:db8::5")},
				Ingress:  addrs("192.0.2.6", "2001:db8::6"),
			}, port: 8888},
		},
		"a file that only keepalived can evaluate": {
			observed: observation{files: files{keepalived: keepalived.Snapshot{Err: fmt.Errorf("k.conf:1:1: $A: %w",
				keepalived.ErrUnsupported)}}},
			want: plan{Plan: decision.Plan{Reason: report.NoVIPs, Message: "k.conf:1:1: $A: set vips.api and vips.ingress"}},
		},
		"custom port": {
			config: explicit + "\nmode: CustomDeployment\ncustomDeployment: {internalPort: 9888}",
			want: plan{Plan: decision.Plan{
				Reason: report.Standby, Message: "not on this host: 192.0.2.5", Serves: true,
				Decision: ownership.Decision{Standby: addrs("192.0.2.5")}, Ingress: addrs("192.0.2.6"),
			}, port: 9888},
		},
		"dual stack, one VIP each on two hosts": {
			observed: observation{files: files{keepalived: dual}, addresses: hostAddresses("2001:db8::5")},
			want: plan{Plan: decision.Plan{
				Reason: report.Serving, Message: "holds 2001:db8::5; not on this host: 192.0.2.5", Serves: true,
				Decision: ownership.Decision{Held: addrs("2001:db8::5"), Standby: addrs("192.0.2.5")},
				Ingress:  addrs("192.0.2.6", "2001:db8::6"),
			}, port: 8888},
		},
		"last good VIPs": {
			observed: observation{files: files{keepalived: stale}, addresses: hostAddresses("192.0.2.5", "2001:db8::5")},
			want: plan{Plan: decision.Plan{
				Reason: report.Serving, Serves: true,
				Message: "holds 192.0.2.5, 2001:db8::5 (k.conf:3:1: " + keepalived.ErrIncomplete.Error() +
					"; the last good VIPs stay in use)",
				Decision: ownership.Decision{Held: addrs("192.0.2.5", "2001:db8::5")},
				Ingress:  addrs("192.0.2.6", "2001:db8::6"),
			}, port: 8888},
		},
		"API and ingress share an address": {
			observed: observation{
				files:     files{keepalived: keepalivedVIPs(addrs("192.0.2.5"), addrs("192.0.2.5"))},
				addresses: hostAddresses("192.0.2.5"),
			},
			want: plan{Plan: decision.Plan{
				Reason:   report.NotRequired,
				Message:  "API and ingress share 192.0.2.5, so the ingress serves its port 80",
				Decision: ownership.Decision{NotRequired: addrs("192.0.2.5")}, Ingress: addrs("192.0.2.5"),
			}, port: 8888},
		},
		"one family shares, the other does not": {
			observed: observation{files: files{keepalived: keepalivedVIPs(addrs("192.0.2.5", "2001:db8::5"),
				addrs("192.0.2.5", "2001:db8::6"))}, addresses: hostAddresses("192.0.2.5", "2001:db8::5")},
			want: plan{Plan: decision.Plan{
				Reason: report.Serving, Message: "holds 2001:db8::5", Serves: true,
				Decision: ownership.Decision{Held: addrs("2001:db8::5"), NotRequired: addrs("192.0.2.5")},
				Ingress:  addrs("192.0.2.5", "2001:db8::6"),
			}, port: 8888},
		},
		"no keepalived.conf": {
			observed: observation{files: files{keepalived: keepalived.Snapshot{Known: true, Err: fs.ErrNotExist}}},
			want: plan{Plan: decision.Plan{
				Reason: report.NotRequired,
				Message: "/etc/keepalived/keepalived.conf does not exist and no VIPs are configured: this platform has no " +
					"virtual IPs",
			}},
		},
		"keepalived's static pod without keepalived.conf": {
			observed: observation{files: files{staticPod: "/m/keepalived.yaml", keepalived: keepalived.Snapshot{
				Known: true,
				Err:   fs.ErrNotExist,
			}}},
			want: plan{Plan: decision.Plan{
				Reason: report.NoVIPs,
				Message: "/etc/keepalived/keepalived.conf does not exist, although keepalived's static pod does " +
					"(/m/keepalived.yaml): " +
					"find out why that pod has not written the file, or set vips.api and vips.ingress in the configuration",
			}},
		},
		"API VIP without any ingress VIP, and then half-written": {
			observed: observation{files: files{keepalived: orphaned}, addresses: hostAddresses("192.0.2.5")},
			want: plan{Plan: decision.Plan{
				Reason: report.NoVIPs,
				Message: "k.conf:3:1: " + keepalived.ErrIncomplete.Error() +
					": correct the file, or set vips.api and vips.ingress in the configuration",
			}},
		},
		"user-managed": {
			observed: observation{files: files{userManaged: true, keepalived: keepalived.Snapshot{
				Known: true,
				Err:   fs.ErrNotExist,
			}}},
			want: plan{Plan: decision.Plan{
				Reason: report.ExternalLoadBalancer,
				Message: "the VIPs are user-managed and never on a node: forward port 80 of the API address to the ingress on " +
					"that load balancer",
			}},
		},
		"no API instance": {
			observed: observation{files: files{keepalived: keepalived.Snapshot{
				Known: true,
				Err:   fmt.Errorf("k.conf: %w", keepalived.ErrNoAPIInstance),
			}}},
			want: plan{Plan: decision.Plan{
				Reason: report.NoVIPs,
				Message: "k.conf: " + keepalived.ErrNoAPIInstance.Error() +
					": correct the file, or set vips.api and vips.ingress in the configuration",
			}},
		},
		"nothing known yet": {
			observed: observation{files: files{keepalived: keepalived.Snapshot{Err: fmt.Errorf("k.conf: %w",
				keepalived.ErrIncomplete)}}},
			want: plan{Plan: decision.Plan{
				Reason: report.NoVIPs,
				Message: "k.conf: " + keepalived.ErrIncomplete.Error() +
					": correct the file, or set vips.api and vips.ingress in the configuration",
			}},
		},
		"instance without an address": {
			observed: observation{files: files{keepalived: keepalivedVIPs(nil, addrs("192.0.2.6"))}},
			want: plan{Plan: decision.Plan{
				Reason: report.NoVIPs,
				Message: "/etc/keepalived/keepalived.conf has no API VIP: correct the file, or set vips.api and vips.ingress in " +
					"the configuration",
			}},
		},
		"API VIP without any ingress VIP": {
			observed: observation{
				files:     files{keepalived: keepalivedVIPs(addrs("192.0.2.5"), nil)},
				addresses: hostAddresses("192.0.2.5"),
			},
			want: plan{Plan: decision.Plan{
				Reason: report.NoVIPs,
				Message: "/etc/keepalived/keepalived.conf has API VIP 192.0.2.5 but no ingress VIP: correct the file, or set " +
					"vips.api and vips.ingress in the configuration",
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tt.observed
			s.config, s.configKnown = parseConfig(t, tt.config), !tt.refused
			got := decide(s)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(plan{}), cmpopts.EquateComparable(netip.Addr{}),
				cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRetryDelayIsBounded(t *testing.T) {
	t.Parallel()
	last := retryDelay(0)
	if last != minRetryDelay {
		t.Errorf("the first retry is after %v", last)
	}
	for n := 1; n < 100; n++ {
		next := retryDelay(n)
		if next < last || next > maxRetryDelay {
			t.Fatalf("after %d failures: %v, before it %v", n, next, last)
		}
		last = next
	}
	if last != maxRetryDelay {
		t.Errorf("the longest delay is %v", last)
	}
}
