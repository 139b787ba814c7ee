// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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
	if got := s.awaitNotification("READY=1"); !strings.Contains(got, "STATUS=Standby: not on this host: "+vip) {
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
		return r.Challenges.Total == 1 && r.Challenges.Rejected[report.NotChallenge] == 1 && len(r.Upstreams) == 1 && r.Upstreams[0].Reachable
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
	s.awaitNotification("STATUS=Serving: holds " + vip + ", upstream " + ingressAddr + ":80, 1 challenge, last 200 ")
	s.stop()
}

// TestReloadIsInForce: after READY=1 every connection is answered by the new configuration,
// also if its egress proxy has a name that must be resolved first.
func TestReloadIsInForce(t *testing.T) {
	s := startService(t, writeKey, explicit)
	s.awaitReason(report.Serving)
	for i, want := range []int{400, 200, 400} {
		hosts := map[int]string{200: vip, 400: "other.example.com"}[want]
		s.configure(fmt.Sprintf("%shosts: ['%s']\negressProxy: {upstream: auto, noProxy: %s, httpProxy: 'http://proxy%d.test:3128'}\n", explicit, hosts, ingressAddr, i))
		s.awaitNotification("RELOADING=1")
		s.awaitNotification("READY=1")
		if code, _ := request(t, token); code != want {
			t.Errorf("reload %d: %d, want %d", i, code, want)
		}
	}
	s.stop()
}

func TestWithoutCapNetAdmin(t *testing.T) {
	addNetwork(t, writeKey)
	addVIP(t)
	s := newService(t, explicit)
	s.start(nil, "setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin")
	s.awaitNotification("READY=1\nSTATUS=NftablesUnavailable: ")
	r := s.awaitReason(report.NftablesUnavailable)
	if !strings.Contains(r.Condition().Message, "CAP_NET_ADMIN") {
		t.Errorf("message %q does not name the capability", r.Condition().Message)
	}
	if conn, err := net.DialTimeout("tcp", vip+":8888", nstest.Timeout); err == nil {
		conn.Close()
		t.Error("the internal port is open without a table")
	}
	s.stop()
}

func TestStartWithInvalidConfig(t *testing.T) {
	addNetwork(t, writeKey)
	addVIP(t)
	s := newService(t, "")
	s.configure("newKey: 1\n")
	s.start(nil)
	s.awaitNotification("READY=1\nSTATUS=InvalidConfig: ")
	if r := s.awaitReason(report.InvalidConfig); r.Table.Present || r.Config.Source != "none" {
		t.Errorf("without a last accepted configuration: %+v", r)
	}
	s.configure(explicit)
	s.awaitReason(report.Serving)
	s.stop()

	again := newService(t, "newKey: 1\n")
	must(t, os.Rename(filepath.Join(s.dir, "state"), filepath.Join(again.dir, "state")))
	again.start(nil)
	again.awaitNotification("READY=1")
	r := again.await("last accepted in force", func(r report.Report) bool {
		return r.Condition().Reason == report.InvalidConfig && r.Config.Source == "last-accepted" && len(r.Table.Elements) == 1
	})
	if !strings.Contains(r.Condition().Message, `unknown key "newKey"`) {
		t.Errorf("message %q", r.Condition().Message)
	}
	checkAnswered(t, "with the last accepted configuration")
	again.stop()
}

// sendChallenge returns the connection of a client that has sent a challenge.
func sendChallenge(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", vip+":80", nstest.Timeout)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: api.example.com\r\n\r\n", token)
	return conn
}

func TestStopDrains(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	s := startService(t, func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-answer
		writeKey(w, r)
	}, explicit)
	s.awaitNotification("READY=1")
	conn := sendChallenge(t)
	<-asked
	s.signal(syscall.SIGTERM)
	s.awaitNotification("STOPPING=1")
	if !nstest.Poll(func() bool {
		other, err := net.DialTimeout("tcp", vip+":80", nstest.Timeout)
		if err == nil {
			other.Close()
		}
		return err != nil
	}) {
		t.Error("new connections are still accepted")
	}
	close(answer)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("the challenge in flight: %v", err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "token.thumbprint" {
		t.Errorf("the challenge in flight: %q, %v", body, err)
	}
	s.awaitExit()
}

func TestStopCutsOffAfterDrainTimeout(t *testing.T) {
	asked := make(chan struct{})
	s := startService(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}, explicit+"upstream: {timeout: 60s}\n", serviceTiming+`={"DrainTimeout": 100000000}`)
	s.awaitNotification("READY=1")
	sendChallenge(t)
	<-asked
	begin := time.Now()
	s.stop()
	t.Logf("stopped after %v", time.Since(begin).Round(time.Millisecond))
	s.awaitLog("requests in flight were cut off")
	if strings.Contains(s.log.String(), "the proxy process does not answer") {
		t.Error("the process has not cut the request off itself")
	}
}

func TestTwoInstances(t *testing.T) {
	first := startService(t, writeKey, explicit)
	first.awaitNotification("READY=1")
	second := newService(t, explicit+"mode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\n")
	second.start(nil)
	r := second.awaitReason(report.NftablesUnavailable)
	if want := fmt.Sprintf("belongs to process %d", first.cmd.Process.Pid); !strings.Contains(r.Condition().Message, want) {
		t.Errorf("message %q does not name the table's owner", r.Condition().Message)
	}
	checkAnswered(t, "through the first instance")
	first.signal(syscall.SIGKILL)
	if err := <-first.exited; err == nil {
		t.Error("SIGKILL leaves exit code 0")
	}
	second.awaitReason(report.Serving)
	checkAnswered(t, "through the second instance after the first was killed")
	second.stop()
}
