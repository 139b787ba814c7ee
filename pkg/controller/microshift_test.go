// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	node     = "192.0.2.9"
	internal = "10.44.0.0"
)

// newMicroShiftHost configures a MicroShift host whose router has other addresses than the
// node. It returns a service and MicroShift's directory.
func newMicroShiftHost(t *testing.T, config string) (s *service, dir string) {
	t.Helper()
	addLink(t, "address add "+node+"/24 dev lan0", "address add "+ingressAddr+"/24 dev lan0", "route add default via 192.0.2.1")
	dir = t.TempDir()
	return newService(t, "vips: {keepalivedConfig: "+filepath.Join(dir, "none.conf")+"}\nmicroshift: {directory: "+dir+config+"}\n"), dir
}

// startRouter starts a router that answers with text at addr.
func startRouter(t *testing.T, addr, text string) {
	t.Helper()
	serve(t, addr, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// awaitResponse waits until the text at a URL is want. The report names the addresses of
// the router before the proxy process has read its settings.
func awaitResponse(t *testing.T, what, url, want string) {
	t.Helper()
	nstest.Await(t, what+": "+want, func() bool {
		_, got, _ := fetch(t, http.MethodGet, url)
		return got == want
	})
}

// checkResponse checks the text at a URL.
func checkResponse(t *testing.T, what, url, want string) {
	t.Helper()
	code, got, err := fetch(t, http.MethodGet, url)
	if err != nil && code == 0 {
		got = "no answer"
	}
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// writeFile writes a file, and creates its directory.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// TestMicroShift moves the router of a host. The internal address of the API server is never
// redirected.
func TestMicroShift(t *testing.T) {
	s, dir := newMicroShiftHost(t, "")
	nstest.Run(t, "ip", "address", "add", internal+"/32", "dev", "lo")
	t.Cleanup(func() { nstest.Run(withoutTestContext{t}, "ip", "address", "del", internal+"/32", "dev", "lo") })
	startRouter(t, node+":80", "the router itself")
	startRouter(t, ingressAddr+":80", "by address")
	startRouter(t, node+":8080", "by port")
	startRouter(t, internal+":80", "inside")
	s.start(nil)
	r := s.awaitReason(report.NotRequired)
	if c := r.Condition(); c.Message != "MicroShift's router serves port 80 of "+node+", according to its configuration" || r.Table.Present {
		t.Errorf("%+v, %+v", c, r.Table)
	}
	checkResponse(t, "the router's port 80", "http://"+node+"/", "the router itself")

	writeFile(t, filepath.Join(dir, "config.d", "10-ingress.yaml"), "ingress: {listenAddress: ["+ingressAddr+"]}\n")
	s.awaitReason(report.Serving)
	awaitResponse(t, "a challenge, router on another address", "http://"+node+token, "by address")
	checkResponse(t, "anything else", "http://"+node+"/", "Only /.well-known/acme-challenge/* is allowed")

	writeFile(t, filepath.Join(dir, "config.d", "20-port.yaml"), "ingress: {listenAddress: [], ports: {http: 8080}}\n")
	s.await("the other port", func(r report.Report) bool {
		return r.Condition().Reason == report.Serving && len(r.Upstreams) > 0 && r.Upstreams[0].Address.String() == node+":8080"
	})
	awaitResponse(t, "a challenge, router on another port", "http://"+node+token, "by port")
	checkResponse(t, "the internal address", "http://"+internal+token, "inside")

	writeFile(t, filepath.Join(dir, "config.yaml"), "ingress: {status: Removed}\n")
	s.await("no router", func(r report.Report) bool {
		return r.Condition().Reason == report.UpstreamUnreachable && !r.Table.Present
	})

	s.configure("vips: {api: [" + internal + "], ingress: [" + ingressAddr + "]}\nmicroshift: {directory: " + dir + "}\n")
	s.await("the internal address as a VIP", func(r report.Report) bool {
		return strings.Contains(r.Condition().Message, internal+" is the internal address")
	})
	checkResponse(t, "the internal address as a VIP", "http://"+internal+token, "inside")
	s.stop()
}

func loHas(t *testing.T, addr string) bool {
	t.Helper()
	return strings.Contains(nstest.Run(withoutTestContext{t}, "ip", "-o", "address", "show", "dev", "lo"), addr)
}

// awaitOnLo waits until addresses are on lo.
func awaitOnLo(t *testing.T, addrs ...string) {
	t.Helper()
	for _, addr := range addrs {
		nstest.Await(t, addr+" is on lo", func() bool { return loHas(t, addr) })
	}
}

// TestMicroShiftManaged checks that the internal address is on lo while the service runs.
func TestMicroShiftManaged(t *testing.T) {
	s, dir := newMicroShiftHost(t, ", manageAdvertiseAddress: true")
	s.start(nil)
	s.awaitReason(report.NotRequired)
	awaitOnLo(t, internal+"/32")
	writeFile(t, filepath.Join(dir, "config.yaml"), "network: {serviceNetwork: [172.30.0.0/16]}\n")
	if !nstest.Poll(func() bool { return loHas(t, "172.31.0.0/32") && !loHas(t, internal) }) {
		t.Error("the address does not follow the service network")
	}
	nstest.Run(t, "ip", "route", "add", "172.16.0.0/13", "via", "192.0.2.1")
	writeFile(t, filepath.Join(dir, "config.yaml"), "network: {serviceNetwork: [172.17.0.0/16]}\n")
	s.await("a collision", func(r report.Report) bool {
		return strings.Contains(r.Condition().Message, "the route 172.16.0.0/13 via lan0 covers it: configure another") && r.Condition().Reason == report.NotRequired
	})
	s.awaitLog("is not on lo")
	writeFile(t, filepath.Join(dir, "config.yaml"), "")
	awaitOnLo(t, internal+"/32")
	s.stop()
	if loHas(t, internal) {
		t.Error("the internal address was not removed from lo")
	}
}

const (
	node6     = "2001:db8::9"
	router6   = "2001:db8::20"
	internal6 = "fd02::1:0"
	dualStack = "network: {clusterNetwork: [10.42.0.0/16, fd01::/48], serviceNetwork: [10.43.0.0/16, fd02::/112]}\n"
	ipv6Only  = "network: {clusterNetwork: [fd01::/48], serviceNetwork: [fd02::/112]}\n"
)

// newDualStackMicroShiftHost adds IPv6 to the host.
func newDualStackMicroShiftHost(t *testing.T, config string) (s *service, dir string) {
	t.Helper()
	s, dir = newMicroShiftHost(t, config)
	for _, args := range []string{
		"address add " + node6 + "/64 dev lan0 nodad", "address add " + router6 + "/64 dev lan0 nodad", "-6 route add default via 2001:db8::1",
	} {
		nstest.Run(t, "ip", strings.Fields(args)...)
	}
	return s, dir
}

// TestMicroShiftFamilies has a dual stack with either family first, and IPv6 alone. The
// internal addresses are on lo and are not redirected.
func TestMicroShiftFamilies(t *testing.T) {
	for name, tt := range map[string]struct {
		config    string
		held      []string // addresses of challenges
		router    []string // addresses that challenges are forwarded to
		lo        []string
		notOnLo   string
		untouched []string
	}{
		"IPv4 first": {
			config: dualStack + "node: {nodeIPv6: '" + node6 + "'}\n",
			held:   []string{node, node6}, router: []string{ingressAddr, router6}, lo: []string{internal + "/32", internal6 + "/128"},
		},
		"IPv6 first": {
			config: "network: {clusterNetwork: [fd01::/48, 10.42.0.0/16], serviceNetwork: [fd02::/112, 10.43.0.0/16]}\n" +
				"node: {nodeIP: '" + node6 + "', nodeIPv6: '" + node6 + "'}\n",
			held: []string{node6}, router: []string{router6}, lo: []string{internal6 + "/128", internal + "/32"}, untouched: []string{node},
		},
		"IPv6 alone": {
			config: ipv6Only + "node: {nodeIP: '" + node6 + "'}\n",
			held:   []string{node6}, router: []string{router6}, lo: []string{internal6 + "/128"}, notOnLo: internal, untouched: []string{node},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newDualStackMicroShiftHost(t, ", manageAdvertiseAddress: true")
			quoted := "'" + strings.Join(tt.router, "', '") + "'"
			writeFile(t, filepath.Join(dir, "config.yaml"), tt.config+"ingress: {listenAddress: ["+quoted+"]}\n")
			for _, addr := range tt.router {
				startRouter(t, net.JoinHostPort(addr, "80"), "the router")
			}
			for _, addr := range tt.untouched {
				startRouter(t, net.JoinHostPort(addr, "80"), "another server")
			}
			s.start(nil)
			want := "holds " + strings.Join(tt.held, ", ") + " (MicroShift's node address)"
			s.await(want, func(r report.Report) bool {
				return r.Condition().Reason == report.Serving && r.Condition().Message == want
			})
			awaitOnLo(t, tt.lo...)
			for _, addr := range tt.lo {
				inside, _, _ := strings.Cut(addr, "/")
				checkResponse(t, addr, "http://"+net.JoinHostPort(inside, "80")+token, "no answer")
			}
			if tt.notOnLo != "" && loHas(t, tt.notOnLo) {
				t.Errorf("%s is on lo", tt.notOnLo)
			}
			for _, addr := range tt.held {
				checkResponse(t, "a challenge at "+addr, "http://"+net.JoinHostPort(addr, "80")+token, "the router")
				checkResponse(t, "anything else at "+addr, "http://"+net.JoinHostPort(addr, "80")+"/", "Only /.well-known/acme-challenge/* is allowed")
			}
			for _, addr := range tt.untouched {
				checkResponse(t, addr, "http://"+net.JoinHostPort(addr, "80")+token, "another server")
			}
			writeFile(t, filepath.Join(dir, "config.d", "10.yaml"), "ingress: {listenAddress: []}\n")
			s.awaitReason(report.NotRequired)
			s.stop()
			for _, addr := range tt.lo {
				if loHas(t, addr) {
					t.Errorf("%s was not removed from lo", addr)
				}
			}
		})
	}
}

// TestMicroShiftNodeAddressRequired checks that an address that MicroShift would use as the
// node's is not added to lo before the configuration has the node's.
func TestMicroShiftNodeAddressRequired(t *testing.T) {
	s, dir := newDualStackMicroShiftHost(t, ", manageAdvertiseAddress: true")
	writeFile(t, filepath.Join(dir, "config.yaml"), dualStack)
	s.start(nil)
	s.await("an address that is not added", func(r report.Report) bool {
		return strings.HasSuffix(r.Condition().Message, "the internal address of MicroShift's API server is not added to lo: "+
			"MicroShift would use it as the node address: set node.nodeIPv6 in MicroShift's configuration")
	})
	if loHas(t, internal) || loHas(t, internal6) {
		t.Error("an address is on lo")
	}
	writeFile(t, filepath.Join(dir, "config.yaml"), dualStack+"node: {nodeIPv6: '"+node6+"'}\n")
	awaitOnLo(t, internal+"/32", internal6+"/128")
	// An address that is removed, as MicroShift does when it stops, is added again.
	nstest.Run(t, "ip", "address", "del", internal+"/32", "dev", "lo")
	awaitOnLo(t, internal+"/32")
	s.stop()
}
