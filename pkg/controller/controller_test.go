// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	vip         = "192.0.2.5"
	ingressAddr = "192.0.2.6"
	explicit    = "vips: {api: [" + vip + "], ingress: [" + ingressAddr + "]}\n"
	token       = "/.well-known/acme-challenge/evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"
)

// addLink adds a link with the addresses and routes of the ip commands.
func addLink(t testing.TB, commands ...string) {
	t.Helper()
	nstest.Require(t)
	nstest.Run(t, "ip", "link", "add", "lan0", "type", "veth", "peer", "name", "lan1")
	t.Cleanup(func() { nstest.Run(withoutTestContext{t}, "ip", "link", "del", "lan0") })
	for _, args := range append([]string{"link set lan0 up", "link set lan1 up"}, commands...) {
		nstest.Run(t, "ip", strings.Fields(args)...)
	}
}

// addNetwork adds a link with the address of the ingress, and an ingress that answers with
// handler.
func addNetwork(t testing.TB, handler http.HandlerFunc) {
	t.Helper()
	addLink(t, "addr add "+ingressAddr+"/32 dev lan0")
	if handler != nil {
		serve(t, ingressAddr+":80", handler)
	}
}

// listen listens until the test ends.
func listen(t testing.TB, addr string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// serve answers with handler at addr.
func serve(t testing.TB, addr string, handler http.HandlerFunc) {
	t.Helper()
	ln := listen(t, addr)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: nstest.Timeout}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { _ = server.Close() })
}

// startService starts the service on a host with a VIP and an ingress that answers with handler.
func startService(t *testing.T, handler http.HandlerFunc, config string, env ...string) *service {
	t.Helper()
	addNetwork(t, handler)
	addVIP(t)
	s := newService(t, config)
	s.start(env)
	return s
}

// withoutTestContext lets a cleanup run commands: the test's context has ended then.
type withoutTestContext struct{ testing.TB }

func (withoutTestContext) Context() context.Context { return context.Background() }

func addVIP(t testing.TB) {
	t.Helper()
	nstest.Run(t, "ip", "addr", "add", vip+"/32", "dev", "lan0")
}

func writeKey(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "token.thumbprint") }

// request makes one request to the VIP from this host, as a self check does.
func request(t *testing.T, path string) (code int, body string) {
	t.Helper()
	code, body, err := fetch(t, http.MethodGet, "http://"+vip+path)
	must(t, err)
	return code, body
}

// checkAnswered checks that a challenge is answered.
func checkAnswered(t *testing.T, when string) {
	t.Helper()
	if code, _ := request(t, token); code != 200 {
		t.Errorf("challenge %s: %d", when, code)
	}
}

func TestChallengeThroughTheVIP(t *testing.T) {
	addNetwork(t, writeKey)
	s := newService(t, explicit)
	s.start(nil)
	// The host has no CAs, which is a problem of the service as soon as it is known.
	const withoutCAs = ", with 1 problem: "
	if got := strings.Replace(s.awaitNotification("READY=1"), withoutCAs, ": ", 1); !strings.Contains(got,
		"STATUS=Standby: not on this host: "+vip) {
		t.Errorf("ready with %q", got)
	}
	addVIP(t)
	s.awaitReason(report.Serving)
	if code, body := request(t, token); code != 200 || body != "token.thumbprint" {
		t.Errorf("challenge: %d %q", code, body)
	}
	if code, body := request(t, "/"); code != 400 || body != "Only /.well-known/acme-challenge/* is allowed" {
		t.Errorf("anything else: %d %q", code, body)
	}
	r := s.await("one challenge, one rejection, ingress probed", func(r report.Report) bool {
		return r.Challenges.Total == 1 && r.Challenges.Rejected[report.NotChallenge] == 1 && len(r.Upstreams) == 1 &&
			r.Upstreams[0].Reachable
	})
	if !r.Table.Present || !r.Table.Owned || r.Table.Port != 8888 || len(r.Table.Elements) != 1 {
		t.Errorf("table %+v", r.Table)
	}
	if c := r.Challenges.Recent[0]; c.Status != 200 || c.TokenPrefix != "evaGxfAD" || c.VIP != vip {
		t.Errorf("challenge %+v", c)
	}
	s.awaitLog("token_prefix=evaGxfAD ")
	if log := s.log.String(); strings.Contains(log, "evaGxfADs") {
		t.Errorf("the log must contain the token's first 8 characters and no more:\n%s", log)
	}
	begin := "STATUS=Serving" + withoutCAs + "holds " + vip + "; accepts challenges for any name, because the API's name is " +
		"not known, No CA is trusted for TLS to the ingress: this host has no file of trusted CAs"
	const end = "[no-trusted-ca], upstream " + ingressAddr + ":80, 1 challenge, last 200"
	for !strings.HasSuffix(s.awaitNotification(begin), end) {
		continue
	}
	s.stop()
}

// TestReloadIsActive: after READY=1 every connection is answered by the new configuration,
// also if its egress proxy has a name that must be resolved first.
func TestReloadIsActive(t *testing.T) {
	s := startService(t, writeKey, explicit)
	s.awaitReason(report.Serving)
	for i, want := range []int{400, 200, 400} {
		hosts := map[int]string{200: vip, 400: "other.example.com"}[want]
		s.configure(
			fmt.Sprintf("%shosts: ['%s']\negressProxy: {upstream: auto, noProxy: %s, httpProxy: 'http://proxy%d.test:3128'}\n",
				explicit, hosts, ingressAddr, i))
		s.awaitNotification("RELOADING=1")
		s.awaitNotification("READY=1")
		if code, _ := request(t, token); code != want {
			t.Errorf("reload %d: %d, want %d", i, code, want)
		}
	}
	s.stop()
}
