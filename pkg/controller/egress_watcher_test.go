// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// egressWatcherTest is an egressWatcher at work with real files and the real child, and what it
// has told the gate.
type egressWatcherTest struct {
	*egressWatcher
	t      *testing.T
	dir    string
	config config.Config
	log    *nstest.Log
	board  *report.Tracker
	stop   func() // of what begin has begun

	mu   sync.Mutex
	last ingress.Egress
}

func newEgressWatcherTest(t *testing.T, dir string) *egressWatcherTest {
	t.Helper()
	nstest.Require(t)
	w := &egressWatcherTest{t: t, dir: dir, config: config.Default(), log: &nstest.Log{}}
	w.config.EgressProxy.File = filepath.Join(dir, "proxy.env")
	w.config.EgressProxy.TrustedCA = filepath.Join(dir, "proxy-ca.crt")
	w.config.EgressProxy.Upstream = config.EgressAuto
	w.config.VIPs.API = []netip.Addr{netip.MustParseAddr("192.0.2.5")}
	w.config.VIPs.Ingress = []netip.Addr{netip.MustParseAddr("198.51.100.6")}
	w.board = report.NewTracker("test", time.Now(), func(_, _ report.Condition) {})
	o := Options{
		Log: slog.New(slog.NewTextHandler(w.log, nil)), StateDir: filepath.Join(dir, "state"), SystemCABundles: []string{filepath.Join(dir, "system.crt")},
		ResolvConf: filepath.Join(dir, "resolv.conf"), HostsFile: filepath.Join(dir, "hosts"), APIServerURLFile: filepath.Join(dir, "apiserver-url.env"),
	}
	own := func() ([]address.Address, error) {
		return []address.Address{{IP: netip.MustParseAddr("203.0.113.11"), Bits: 24}, {IP: netip.MustParseAddr("127.0.0.1"), Bits: 8}}, nil
	}
	var err error
	if w.egressWatcher, err = newEgressWatcher(o, w.board, own, w.setLastCommand); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *egressWatcherTest) setLastCommand(d egressDecision) {
	e := d.Egress
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = e
}

func (w *egressWatcherTest) lastCommand() ingress.Egress {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// start configures it, as the reconcile loop does, and has it run.
func (w *egressWatcherTest) start() *egressWatcherTest {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	tasks := newTasks(ctx)
	tasks.start("files", w.files.Run)
	tasks.start("egress", w.run)
	var once sync.Once
	w.stop = func() {
		once.Do(func() {
			stop()
			if err := tasks.wait(); err != nil {
				w.t.Error(err)
			}
		})
	}
	w.t.Cleanup(w.stop)
	w.configure(w.config)
	w.setIngress(w.config.VIPs.Ingress)
	return w
}

func (w *egressWatcherTest) write(name, text string) {
	w.t.Helper()
	replace(w.t, filepath.Join(w.dir, name), text)
}

func (w *egressWatcherTest) status() report.EgressProxy {
	return w.board.Report(report.Table{}).EgressProxy
}

func (w *egressWatcherTest) condition() report.Condition {
	for _, c := range w.board.Report(report.Table{}).Conditions {
		if c.Type == report.EgressConditionType {
			return c
		}
	}
	return report.Condition{}
}

// await waits until the condition has this reason and ok holds.
func (w *egressWatcherTest) await(reason report.Reason, ok func(report.EgressProxy) bool) report.EgressProxy {
	w.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); <-tick.C {
		if s := w.status(); w.condition().Reason == reason && (ok == nil || ok(s)) {
			return s
		}
	}
	w.t.Fatalf("it is no %s:\n%+v\n%+v\n%s", reason, w.condition(), w.status(), w.log.String())
	return report.EgressProxy{}
}

// strictProxy is a strict proxy: credentials, the absolute form, and names that it
// alone knows.
type strictProxy struct {
	mu          sync.Mutex
	unavailable bool
	requests    []string
}

func (g *strictProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests = append(g.requests, r.Method+" "+r.URL.String())
	switch {
	case r.Header.Get("Proxy-Authorization") != "Basic dXNlcjpwQHNzOnclcmQ=":
		http.Error(w, "", http.StatusProxyAuthRequired)
	case g.unavailable:
		http.Error(w, "", http.StatusServiceUnavailable)
	case r.URL.Host != "ready.test":
		http.Error(w, "", http.StatusForbidden)
	default:
		http.Redirect(w, r, "https://elsewhere.test/", http.StatusFound)
	}
}

func (g *strictProxy) setUnavailable(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unavailable = closed
}

func startStrictProxy(t *testing.T) (*strictProxy, string) {
	t.Helper()
	g := &strictProxy{}
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	return g, s.Listener.Addr().String()
}

const credentials = "us%65r:p%40ss%3Aw%25rd"

// checkNoCredentials looks whether credentials are anywhere that people look.
func (w *egressWatcherTest) checkNoCredentials() {
	w.t.Helper()
	text, err := json.Marshal(w.board.Report(report.Table{}))
	must(w.t, err)
	texts := string(text) + w.log.String() + fmt.Sprintf("%v %+v %#v", w.lastCommand(), w.lastCommand(), w.board.Report(report.Table{}))
	for _, hidden := range []string{"us%65r", "user:", "p%40ss", "p@ss", "w%25rd", "dXNlcjpw"} {
		if strings.Contains(texts, hidden) {
			w.t.Errorf("%s is shown: %s", hidden, texts)
		}
	}
}

// TestEgressLifecycle: from no proxy over one that is accepted at once to one that waits
// for its endpoint, and back; and what of it is there after a restart.
func TestEgressLifecycle(t *testing.T) {
	w := newEgressWatcherTest(t, t.TempDir()).start()
	g, addr := startStrictProxy(t)
	s := w.await(report.EgressNotConfigured, nil)
	if got := w.lastCommand(); len(got.Routes) != 0 || !strings.HasPrefix(s.NoProxy, "localhost,127.0.0.0/8,::1,.svc,.cluster.local,192.0.2.5,203.0.113.0/24") {
		t.Errorf("%v, %+v", got, s)
	}

	// A proxy without readiness endpoints counts at once, for both schemes.
	env := fmt.Sprintf("HTTP_PROXY=http://%s@%s\r\nHTTPS_PROXY='http://%s@%s'\r\nNO_PROXY=.example.test\r\n", credentials, addr, credentials, addr)
	w.write("proxy.env", env)
	s = w.await(report.EgressAccepted, nil)
	want := ingress.EgressProxy{Name: "127.0.0.1", Addrs: []netip.AddrPort{netip.MustParseAddrPort(addr)}, Authorization: ingress.NewSecret("Basic dXNlcjpwQHNzOnclcmQ=")}
	wanted := ingress.Egress{Routes: []ingress.EgressRoute{
		{Ingress: netip.MustParseAddrPort("198.51.100.6:80"), Proxy: want}, {Ingress: netip.MustParseAddrPort("198.51.100.6:443"), Proxy: want},
	}}
	if diff := cmp.Diff(wanted, w.lastCommand(), compareAddrs()); diff != "" {
		t.Errorf("the gate is told (-want +got):\n%s", diff)
	}
	if !strings.HasSuffix(s.NoProxy, ",.example.test") || s.Accepted.HTTPProxy != "http://xxxxx@"+addr || s.Accepted.Source != w.config.EgressProxy.File || len(s.Routes) != 2 {
		t.Errorf("%+v", s)
	}

	// A change with endpoints that do not answer changes nothing that is in force.
	g.setUnavailable(true)
	w.config.EgressProxy.ReadinessEndpoints = []string{"http://ready.test/healthz?token=t0ken"}
	w.configure(w.config)
	w.write("proxy.env", strings.ReplaceAll(env, "example.test", "other.test"))
	s = w.await(report.EgressNotReady, func(s report.EgressProxy) bool { return s.Message != "" && s.Spec.NoProxy == ".other.test" })
	if s.Message != "http://ready.test/healthz is not ready: the answer is 503, and not 2xx or 3xx: let its server answer so, or name another URL in egressProxy.readinessEndpoints" || s.NextCheck.IsZero() || s.Accepted.NoProxy != ".example.test" ||
		len(s.Endpoints) != 1 || s.Endpoints[0].OK || len(w.lastCommand().Routes) != 2 {
		t.Errorf("%+v", s)
	}
	g.setUnavailable(false)
	s = w.await(report.EgressAccepted, func(s report.EgressProxy) bool { return s.Accepted.NoProxy == ".other.test" })
	if !s.Endpoints[0].OK || s.Pending {
		t.Errorf("%+v", s)
	}
	g.mu.Lock()
	if !slices.Contains(g.requests, "GET http://ready.test/healthz?token=t0ken") {
		t.Errorf("the proxy was asked for %q", g.requests)
	}
	g.mu.Unlock()

	// A file that is refused changes nothing, and says where.
	w.write("proxy.env", "HTTP_PROXY=\"http://"+credentials)
	s = w.await(report.EgressInvalid, nil)
	if s.InvalidInput != report.EgressInputFile || !strings.Contains(s.Message, "proxy.env: line 1: ") || len(w.lastCommand().Routes) != 2 {
		t.Errorf("%+v", s)
	}

	if said := w.log.String(); !strings.Contains(said, "the egress proxy that is asked for is refused, and the last accepted one stays in force") || strings.Contains(said, "before this start") {
		t.Errorf("it says:\n%s", said)
	}

	// So does a bundle.
	w.write("proxy.env", env)
	w.await(report.EgressAccepted, nil)
	w.write("proxy-ca.crt", "-----BEGIN CERTIFICATE-----\nMII")
	s = w.await(report.EgressInvalid, nil)
	if s.InvalidInput != report.EgressInputTrustedCA || !strings.Contains(s.Message, "proxy-ca.crt") {
		t.Errorf("%+v", s)
	}
	w.write("proxy-ca.crt", newTestCAs(t).pem("Proxy CA"))
	s = w.await(report.EgressAccepted, func(s report.EgressProxy) bool { return s.Accepted.TrustedCAs == 1 })
	if got := w.lastCommand(); len(got.AdditionalCAs.Roots) != 1 || got.AdditionalCAs.Description != "the 1 CA of egressProxy.trustedCA" || len(got.ProxyCAs.Roots) != 0 {
		t.Errorf("%v, %+v", got.AdditionalCAs.Description, s)
	}
	w.checkNoCredentials()

	// After a restart it is in force at once, while another waits.
	g.setUnavailable(true)
	w.write("proxy.env", strings.ReplaceAll(env, "example.test", "third.test"))
	again := newEgressWatcherTest(t, w.dir)
	again.config = w.config
	again.start()
	if got := again.lastCommand(); len(got.Routes) != 2 || len(got.AdditionalCAs.Roots) != 1 {
		t.Errorf("after a restart: %v", got)
	}
	s = again.await(report.EgressNotReady, nil)
	if said := again.log.String(); strings.Contains(said, "the egress proxy is accepted") || !strings.Contains(said, "until then the last accepted one stays in force") ||
		!strings.Contains(said, "the egress proxy stays in force that was accepted before this start, at 20") {
		t.Errorf("after a restart it says:\n%s", said)
	}
	if s.Accepted.NoProxy != ".example.test" || s.Spec.NoProxy != ".third.test" {
		t.Errorf("%+v", s)
	}

	// Never means that the gate is told of none.
	again.config.EgressProxy.Upstream = config.EgressNever
	again.configure(again.config)
	again.setIngress(again.config.VIPs.Ingress)
	if got := again.lastCommand(); len(got.Routes) != 0 || len(got.AdditionalCAs.Roots) != 0 {
		t.Errorf("with never: %v", got)
	}
	// A removed file means no proxy, at once, whatever the endpoints say.
	must(t, os.Remove(filepath.Join(w.dir, "proxy.env")))
	again.await(report.EgressNotConfigured, nil)
	again.checkNoCredentials()
}

// TestEgressCAFileForRootOnly: as on OpenShift, where the file is there, empty or for root
// alone, and its CAs are among those of the host.
func TestEgressCAFileForRootOnly(t *testing.T) {
	w := newEgressWatcherTest(t, t.TempDir())
	w.anchorDirs = []string{w.dir}
	w.write("proxy.env", "HTTP_PROXY=http://192.0.2.9:3128\n")
	w.write("system.crt", newTestCAs(t).pem("S1", "Proxy CA"))
	w.write("proxy-ca.crt", "")
	// As the service does: a thread whose file access is not root's.
	asNobody := func(f func()) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		become := func(uid int) {
			if _, err := unix.SetfsuidRetUid(uid); err != nil {
				t.Error(err)
			}
		}
		become(65534)
		defer become(0)
		f()
	}
	for name, mode := range map[string]os.FileMode{"..": 0o755, ".": 0o755, "proxy.env": 0o644, "system.crt": 0o644, "proxy-ca.crt": 0o600} {
		must(t, os.Chmod(filepath.Join(w.dir, name), mode))
	}
	asNobody(func() { w.configure(w.config); w.setIngress(w.config.VIPs.Ingress) })
	if s := w.status(); w.condition().Reason != report.EgressAccepted || s.Accepted.TrustedCAs != 0 || len(w.lastCommand().AdditionalCAs.Roots) != 0 {
		t.Errorf("with an empty file: %+v", s)
	}
	w.write("proxy-ca.crt", newTestCAs(t).pem("Proxy CA"))
	asNobody(w.onFileChange)
	if s, o := w.status(), w.lastCommand(); s.Accepted.TrustedCAs != 2 || o.AdditionalCAs.Description != "the 2 CAs of this host, among them those of egressProxy.trustedCA" || len(o.AdditionalCAs.Roots) != 2 {
		t.Errorf("with a file for root: %+v, %s, %s", s, o.AdditionalCAs.Description, w.log.String())
	}
	// Of a file that is no part of the host's trust nobody knows what is in it.
	w.anchorDirs = nil
	asNobody(w.onFileChange)
	if s := w.status(); w.condition().Reason != report.EgressInvalid || s.InvalidInput != report.EgressInputTrustedCA || !strings.Contains(s.Message, "permission denied") {
		t.Errorf("with another file for root: %+v", s)
	}
}

// TestEgressRoutesFollowProxyConfig: what leads through the proxy is told anew with the
// configuration that it belongs to, and not before. The accepted proxy counts at once.
func TestEgressRoutesFollowProxyConfig(t *testing.T) {
	w := newEgressWatcherTest(t, t.TempDir())
	w.write("proxy.env", "HTTP_PROXY=http://192.0.2.9:3128\n")
	w.config.Upstream.FollowRedirects = false
	w.configure(w.config)
	w.setIngress(w.config.VIPs.Ingress)
	through := func(ingress, proxy string) {
		t.Helper()
		got := w.lastCommand().Routes
		if len(got) != 1 || got[0].Ingress.String() != ingress || got[0].Proxy.Addrs[0].String() != proxy {
			t.Errorf("the gate is told %v, want %s through %s", got, ingress, proxy)
		}
	}
	through("198.51.100.6:80", "192.0.2.9:3128")
	w.config.Upstream.Port = 81
	w.config.EgressProxy.HTTPProxy = "http://192.0.2.9:3129"
	w.configure(w.config)
	through("198.51.100.6:80", "192.0.2.9:3129")
	w.setIngress(w.config.VIPs.Ingress)
	through("198.51.100.6:81", "192.0.2.9:3129")
	w.setIngress([]netip.Addr{netip.MustParseAddr("198.51.100.7")})
	through("198.51.100.7:81", "192.0.2.9:3129")
}

func compareAddrs() cmp.Option {
	return cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
}

// TestEgressProxyNameIsResolved: the proxy's name is resolved by a DNS server through the child,
// and the gate told anew when it is found.
func TestEgressProxyNameIsResolved(t *testing.T) {
	w := newEgressWatcherTest(t, t.TempDir())
	w.write("proxy.env", "HTTP_PROXY=https://proxy.test\n")
	w.write("system.crt", newTestCAs(t).pem("S1", "S2"))
	w.write("proxy-ca.crt", newTestCAs(t).pem("Proxy CA"))
	w.config.Upstream.FollowRedirects = false
	w.start()
	s := w.await(report.EgressAccepted, func(s report.EgressProxy) bool { return s.Routes[0].Error != "" })
	if got := w.lastCommand(); len(got.Routes) != 1 || len(got.Routes[0].Proxy.Addrs) != 0 || !got.Routes[0].Proxy.TLS {
		t.Errorf("an address that is not known goes directly: %v", got)
	}
	if got := w.lastCommand().ProxyCAs; len(got.Roots) != 3 || got.Description != "the 1 CA of egressProxy.trustedCA and the 2 CAs of this host" {
		t.Errorf("for TLS with the proxy these are trusted: %d, %s", len(got.Roots), got.Description)
	}
	if got := w.lastCommand().AdditionalCAs; len(got.Roots) != 1 || got.Description != "the 1 CA of egressProxy.trustedCA" {
		t.Errorf("for what comes through it these are trusted: %d, %s", len(got.Roots), got.Description)
	}
	if !strings.Contains(s.Routes[0].Error, "names no DNS server") {
		t.Errorf("%+v", s)
	}
	startDNSServer(t, map[string]string{"proxy.test.": "198.51.100.99"}, nil)
	w.write("resolv.conf", "nameserver 127.0.0.1\n")
	w.await(report.EgressAccepted, func(s report.EgressProxy) bool {
		return slices.Equal(s.Routes[0].Addresses, []string{"198.51.100.99"}) && s.Routes[0].Error == ""
	})
	if got := w.lastCommand().Routes[0].Proxy.Addrs; len(got) != 1 || got[0] != netip.MustParseAddrPort("198.51.100.99:443") {
		t.Errorf("the gate is told %v", got)
	}
	// A slow machine can add another reason: that the server has not answered in time.
	if text := w.log.String(); strings.Count(text, "names no DNS server") != 1 {
		t.Errorf("%d lines with the reason:\n%s", strings.Count(text, "names no DNS server"), text)
	}
	logged := make(map[string]bool)
	for _, value := range regexp.MustCompile(`\berror=("(?:[^"\\]|\\.)*"|\S+)`).FindAllString(w.log.String(), -1) {
		if logged[value] {
			t.Errorf("more than one line with %s:\n%s", value, w.log.String())
		}
		logged[value] = true
	}
}

// TestEgressProxyNameIsResolvedBeforeUse: the gate is told of a proxy with its address, at the
// start, after a change and after a restart without DNS; the one before stays until
// then.
func TestEgressProxyNameIsResolvedBeforeUse(t *testing.T) {
	dir := t.TempDir()
	released := make(chan struct{})
	startDNSServer(t, map[string]string{"first.test.": "198.51.100.91", "second.test.": "198.51.100.92"}, map[string]<-chan struct{}{"second.test.": released})
	w := newEgressWatcherTest(t, dir)
	w.write("resolv.conf", "nameserver 127.0.0.1\n")
	w.write("proxy.env", "HTTP_PROXY=http://first.test:3128\n")
	w.config.Upstream.FollowRedirects = false
	w.start()
	goes := func(w *egressWatcherTest, name, addr string) {
		t.Helper()
		got := w.lastCommand().Routes
		if len(got) != 1 || got[0].Proxy.Name != name || !slices.Equal(got[0].Proxy.Addrs, []netip.AddrPort{netip.MustParseAddrPort(addr)}) {
			t.Errorf("the gate is told %v, want %s at %s", got, name, addr)
		}
	}
	goes(w, "first.test", "198.51.100.91:3128") // before it is told of the ingress
	w.write("proxy.env", "HTTP_PROXY=http://second.test:3128\n")
	w.await(report.EgressAccepted, func(s report.EgressProxy) bool { return s.Accepted.HTTPProxy == "http://second.test:3128" })
	goes(w, "first.test", "198.51.100.91:3128")
	close(released)
	w.await(report.EgressAccepted, func(s report.EgressProxy) bool {
		return slices.Equal(s.Routes[0].Addresses, []string{"198.51.100.92"})
	})
	goes(w, "second.test", "198.51.100.92:3128")
	w.stop()

	again := newEgressWatcherTest(t, dir)
	again.config = w.config
	again.write("resolv.conf", "nameserver 127.0.0.2\n") // is none
	again.start()
	goes(again, "second.test", "198.51.100.92:3128")
}

// startDNSServer is a DNS server on port 53 of this namespace's loopback. It says nothing
// about a name that is held.
func startDNSServer(t *testing.T, names map[string]string, held map[string]<-chan struct{}) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:53")
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Additionals = true, nil
			if until := held[q.Name.String()]; until != nil {
				select {
				case <-until:
				default:
					continue
				}
			}
			if addr := names[q.Name.String()]; addr != "" && q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type}, Body: &dnsmessage.AResource{A: netip.MustParseAddr(addr).As4()},
				}}
			}
			if packed, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(packed, from)
			}
		}
	}()
}
