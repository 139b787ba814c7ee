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
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/reconcile"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// egressWatcherTest is an egress watcher with real files and a real prober process, and the
// routes that it has passed on.
type egressWatcherTest struct {
	*egressWatcher

	t          *testing.T
	dir        string
	config     config.Config
	generation uint64
	log        *nstest.Log
	stop       func() // what start has started

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
	o := Options{
		Log: slog.New(slog.NewTextHandler(w.log, nil)), SystemCABundles: []string{filepath.Join(dir, "system.crt")},
		HostPaths:        config.HostPaths{StateDir: filepath.Join(dir, "state"), ResolvConf: filepath.Join(dir, "resolv.conf"), HostsFile: filepath.Join(dir, "hosts")},
		APIServerURLFile: filepath.Join(dir, "apiserver-url.env"),
	}
	var err error
	w.egressWatcher, err = newEgressWatcher(o, newTestTracker(), saveNow, w.setLast)
	must(t, err)
	w.observe(reconcile.Observation{Addresses: []ownership.Address{{IP: netip.MustParseAddr("203.0.113.11"), Bits: 24}, {IP: netip.MustParseAddr("127.0.0.1"), Bits: 8}}}, time.Now())
	return w
}

// settings returns the settings of the reconcile loop.
func (w *egressWatcherTest) newSettings(ingress ...netip.Addr) proxySettings {
	w.generation++
	return proxySettings{generation: w.generation, config: w.config, ingress: ingress, serving: true}
}

// configure has the running watcher take the configuration.
func (w *egressWatcherTest) configure() {
	w.settings.put(w.newSettings(w.config.VIPs.Ingress...))
}

func (w *egressWatcherTest) setLast(s proxySettings) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = s.egress
}

func (w *egressWatcherTest) lastRoutes() ingress.Egress {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// start runs the watcher with its configuration.
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
	w.configure()
	return w
}

func (w *egressWatcherTest) write(name, text string) {
	w.t.Helper()
	replace(w.t, filepath.Join(w.dir, name), text)
}

func (w *egressWatcherTest) status() report.EgressProxy {
	return w.tracker.Report(report.Table{}).EgressProxy
}

func (w *egressWatcherTest) condition() report.Condition {
	for _, c := range w.tracker.Report(report.Table{}).Conditions {
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
	w.t.Fatalf("the reason is not %s:\n%+v\n%+v\n%s", reason, w.condition(), w.status(), w.log.String())
	return report.EgressProxy{}
}

// strictProxy is an egress proxy that requires credentials and the absolute form, and
// resolves names that no DNS server has.
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

func (g *strictProxy) setUnavailable(unavailable bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unavailable = unavailable
}

func startStrictProxy(t *testing.T) (*strictProxy, string) {
	t.Helper()
	g := &strictProxy{}
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	return g, s.Listener.Addr().String()
}

const credentials = "us%65r:p%40ss%3Aw%25rd"

// checkNoCredentials checks that no report and no log contains credentials.
func (w *egressWatcherTest) checkNoCredentials() {
	w.t.Helper()
	text, err := json.Marshal(w.tracker.Report(report.Table{}))
	must(w.t, err)
	texts := string(text) + w.log.String() + fmt.Sprintf("%v %+v %#v", w.lastRoutes(), w.lastRoutes(), w.tracker.Report(report.Table{}))
	for _, hidden := range []string{"us%65r", "user:", "p%40ss", "p@ss", "w%25rd", "dXNlcjpw"} {
		if strings.Contains(texts, hidden) {
			w.t.Errorf("%s is visible: %s", hidden, texts)
		}
	}
}

// TestEgressLifecycle goes from no proxy to one that is accepted immediately, to one whose
// endpoint is not ready, over a restart, and back to no proxy.
func TestEgressLifecycle(t *testing.T) {
	w := newEgressWatcherTest(t, t.TempDir()).start()
	g, addr := startStrictProxy(t)
	s := w.await(report.EgressNotConfigured, nil)
	if got := w.lastRoutes(); len(got.Routes) != 0 || !strings.HasPrefix(s.NoProxy, "localhost,127.0.0.0/8,::1,.svc,.cluster.local,192.0.2.5,203.0.113.0/24") {
		t.Errorf("%v, %+v", got, s)
	}

	// A proxy without readiness endpoints is accepted immediately, for both schemes.
	env := fmt.Sprintf("HTTP_PROXY=http://%s@%s\r\nHTTPS_PROXY='http://%s@%s'\r\nNO_PROXY=.example.test\r\n", credentials, addr, credentials, addr)
	w.write("proxy.env", env)
	s = w.await(report.EgressAccepted, nil)
	want := ingress.EgressProxy{Name: "127.0.0.1", Addrs: []netip.AddrPort{netip.MustParseAddrPort(addr)}, Authorization: ingress.NewSecret("Basic dXNlcjpwQHNzOnclcmQ=")}
	wanted := ingress.Egress{Routes: []ingress.EgressRoute{
		{Ingress: netip.MustParseAddrPort("198.51.100.6:80"), Proxy: want}, {Ingress: netip.MustParseAddrPort("198.51.100.6:443"), Proxy: want},
	}}
	if diff := cmp.Diff(wanted, w.lastRoutes(), compareAddrs()); diff != "" {
		t.Errorf("passed on (-want +got):\n%s", diff)
	}
	if !strings.HasSuffix(s.NoProxy, ",.example.test") || s.Accepted.HTTPProxy != "http://xxxxx@"+addr || s.Accepted.Source != w.config.EgressProxy.File || len(s.Routes) != 2 {
		t.Errorf("%+v", s)
	}

	// A change with endpoints that are not ready does not affect the settings in force.
	g.setUnavailable(true)
	w.config.EgressProxy.ReadinessEndpoints = []string{"http://ready.test/healthz?token=t0ken"}
	w.configure()
	w.write("proxy.env", strings.ReplaceAll(env, "example.test", "other.test"))
	s = w.await(report.EgressNotReady, func(s report.EgressProxy) bool { return s.Message != "" && s.Spec.NoProxy == ".other.test" })
	if s.Message != "http://ready.test/healthz is not ready: the response status is 503, not 2xx or 3xx: correct the endpoint's server, or name another URL in egressProxy.readinessEndpoints" || s.NextCheck.IsZero() || s.Accepted.NoProxy != ".example.test" ||
		len(s.Endpoints) != 1 || s.Endpoints[0].OK || len(w.lastRoutes().Routes) != 2 {
		t.Errorf("%+v", s)
	}
	g.setUnavailable(false)
	s = w.await(report.EgressAccepted, func(s report.EgressProxy) bool { return s.Accepted.NoProxy == ".other.test" })
	if !s.Endpoints[0].OK || s.Pending {
		t.Errorf("%+v", s)
	}
	g.mu.Lock()
	if !slices.Contains(g.requests, "GET http://ready.test/healthz?token=t0ken") {
		t.Errorf("the proxy got requests for %q", g.requests)
	}
	g.mu.Unlock()

	// An invalid file changes nothing, and the message has the line.
	w.write("proxy.env", "HTTP_PROXY=\"http://"+credentials)
	s = w.await(report.EgressInvalid, nil)
	if s.InvalidInput != report.EgressInputFile || !strings.Contains(s.Message, "proxy.env: line 1: ") || len(w.lastRoutes().Routes) != 2 {
		t.Errorf("%+v", s)
	}

	if text := w.log.String(); !strings.Contains(text, "the egress proxy settings are invalid; the last accepted settings stay in force") || strings.Contains(text, "before this start") {
		t.Errorf("the log has:\n%s", text)
	}

	// An invalid bundle changes nothing either.
	w.write("proxy.env", env)
	w.await(report.EgressAccepted, nil)
	w.write("proxy-ca.crt", "-----BEGIN CERTIFICATE-----\nMII")
	s = w.await(report.EgressInvalid, nil)
	if s.InvalidInput != report.EgressInputTrustedCA || !strings.Contains(s.Message, "proxy-ca.crt") {
		t.Errorf("%+v", s)
	}
	w.write("proxy-ca.crt", newTestCAs(t).pem("Proxy CA"))
	s = w.await(report.EgressAccepted, func(s report.EgressProxy) bool { return s.Accepted.TrustedCAs == 1 })
	if got := w.lastRoutes(); len(got.AdditionalCAs.Roots) != 1 || got.AdditionalCAs.Description != "the 1 CA of egressProxy.trustedCA" || len(got.ProxyCAs.Roots) != 0 {
		t.Errorf("%v, %+v", got.AdditionalCAs.Description, s)
	}
	w.checkNoCredentials()

	// After a restart the accepted settings are in force while new ones are probed. The clock
	// has gone back meanwhile: they were accepted later than now.
	g.setUnavailable(true)
	accepted, at, err := w.store.Load()
	must(t, err)
	must(t, w.store.Save(accepted, at.Add(time.Hour)))
	w.write("proxy.env", strings.ReplaceAll(env, "example.test", "third.test"))
	again := newEgressWatcherTest(t, w.dir)
	again.config = w.config
	again.start()
	s = again.await(report.EgressNotReady, nil)
	if got := again.lastRoutes(); len(got.Routes) != 2 || len(got.AdditionalCAs.Roots) != 1 {
		t.Errorf("after a restart: %v", got)
	}
	if text := again.log.String(); strings.Contains(text, "the egress proxy is accepted") || !strings.Contains(text, "until then the last accepted settings stay in force") ||
		!strings.Contains(text, "the egress proxy accepted before this start stays in force; accepted at 20") {
		t.Errorf("after a restart the log has:\n%s", text)
	}
	if s.Accepted.NoProxy != ".example.test" || s.Spec.NoProxy != ".third.test" {
		t.Errorf("%+v", s)
	}

	// With Never no route is passed on.
	again.config.EgressProxy.Upstream = config.EgressNever
	again.configure()
	nstest.Await(t, "no route with Never", func() bool {
		got := again.lastRoutes()
		return len(got.Routes) == 0 && len(got.AdditionalCAs.Roots) == 0
	})
	// A removed file means no proxy, whatever the endpoints answer.
	must(t, os.Remove(filepath.Join(w.dir, "proxy.env")))
	again.await(report.EgressNotConfigured, nil)
	again.checkNoCredentials()
}

// TestEgressCAFileForRootOnly has the file of OpenShift: it exists, it is empty or only
// root can read it, and its CAs are among those of the host.
func TestEgressCAFileForRootOnly(t *testing.T) {
	w := newEgressWatcherTest(t, t.TempDir())
	w.anchorDirs = []string{w.dir}
	w.write("proxy.env", "HTTP_PROXY=http://192.0.2.9:3128\n")
	w.write("system.crt", newTestCAs(t).pem("S1", "Proxy CA"))
	w.write("proxy-ca.crt", "")
	// Like the service: a thread without root's access to files.
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
	asNobody(func() { w.apply(w.newSettings(w.config.VIPs.Ingress...), time.Now()) })
	if s := w.status(); w.condition().Reason != report.EgressAccepted || s.Accepted.TrustedCAs != 0 || len(w.lastRoutes().AdditionalCAs.Roots) != 0 {
		t.Errorf("with an empty file: %+v", s)
	}
	w.write("proxy-ca.crt", newTestCAs(t).pem("Proxy CA"))
	asNobody(func() { w.readFiles(time.Now(), true) })
	if s, o := w.status(), w.lastRoutes(); s.Accepted.TrustedCAs != 2 || o.AdditionalCAs.Description != "the 2 CAs of this host, including those of egressProxy.trustedCA" || len(o.AdditionalCAs.Roots) != 2 {
		t.Errorf("with a file for root: %+v, %s, %s", s, o.AdditionalCAs.Description, w.log.String())
	}
	// The CAs of any other unreadable file are unknown.
	w.anchorDirs = nil
	asNobody(func() { w.readFiles(time.Now(), true) })
	if s := w.status(); w.condition().Reason != report.EgressInvalid || s.InvalidInput != report.EgressInputTrustedCA || !strings.Contains(s.Message, "permission denied") {
		t.Errorf("with another file for root: %+v", s)
	}
}

// TestEgressRoutesFollowProxyConfig checks that routes are passed on with the configuration
// that they belong to.
func TestEgressRoutesFollowProxyConfig(t *testing.T) {
	w := newEgressWatcherTest(t, t.TempDir())
	w.write("proxy.env", "HTTP_PROXY=http://192.0.2.9:3128\n")
	w.config.Upstream.FollowRedirects = false
	configure := func(ingress ...netip.Addr) { w.apply(w.newSettings(ingress...), time.Now()) }
	configure(w.config.VIPs.Ingress...)
	through := func(ingress, proxy string) {
		t.Helper()
		got := w.lastRoutes().Routes
		if len(got) != 1 || got[0].Ingress.String() != ingress || got[0].Proxy.Addrs[0].String() != proxy {
			t.Errorf("passed on %v, want %s through %s", got, ingress, proxy)
		}
	}
	through("198.51.100.6:80", "192.0.2.9:3128")
	w.config.Upstream.Port = 81
	w.config.EgressProxy.HTTPProxy = "http://192.0.2.9:3129"
	configure(w.config.VIPs.Ingress...)
	through("198.51.100.6:81", "192.0.2.9:3129")
	configure(netip.MustParseAddr("198.51.100.7"))
	through("198.51.100.7:81", "192.0.2.9:3129")
}

func compareAddrs() cmp.Option {
	return cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
}

// TestEgressProxyNameIsResolved has a prober process resolve the proxy's name. The
// addresses are passed on when they are found.
func TestEgressProxyNameIsResolved(t *testing.T) {
	w := newEgressWatcherTest(t, t.TempDir())
	w.write("proxy.env", "HTTP_PROXY=https://proxy.test\n")
	w.write("system.crt", newTestCAs(t).pem("S1", "S2"))
	w.write("proxy-ca.crt", newTestCAs(t).pem("Proxy CA"))
	w.config.Upstream.FollowRedirects = false
	w.start()
	s := w.await(report.EgressAccepted, func(s report.EgressProxy) bool { return s.Routes[0].Error != "" })
	if got := w.lastRoutes(); len(got.Routes) != 1 || len(got.Routes[0].Proxy.Addrs) != 0 || !got.Routes[0].Proxy.TLS {
		t.Errorf("a route without an address is missing: %v", got)
	}
	if got := w.lastRoutes().ProxyCAs; len(got.Roots) != 3 || got.Description != "the 1 CA of egressProxy.trustedCA and the 2 CAs of this host" {
		t.Errorf("CAs for TLS with the proxy: %d, %s", len(got.Roots), got.Description)
	}
	if got := w.lastRoutes().AdditionalCAs; len(got.Roots) != 1 || got.Description != "the 1 CA of egressProxy.trustedCA" {
		t.Errorf("CAs for TLS through the proxy: %d, %s", len(got.Roots), got.Description)
	}
	if !strings.Contains(s.Routes[0].Error, "no DNS server in") {
		t.Errorf("%+v", s)
	}
	startDNSServer(t, map[string]string{"proxy.test.": "198.51.100.99"}, nil)
	w.write("resolv.conf", "nameserver 127.0.0.1\n")
	w.await(report.EgressAccepted, func(s report.EgressProxy) bool {
		return slices.Equal(s.Routes[0].Addresses, []string{"198.51.100.99"}) && s.Routes[0].Error == ""
	})
	if got := w.lastRoutes().Routes[0].Proxy.Addrs; len(got) != 1 || got[0] != netip.MustParseAddrPort("198.51.100.99:443") {
		t.Errorf("passed on %v", got)
	}
	// A slow machine can add another reason: a timeout of the server.
	if text := w.log.String(); strings.Count(text, "no DNS server in") != 1 {
		t.Errorf("%d lines with the reason:\n%s", strings.Count(text, "no DNS server in"), text)
	}
	logged := make(map[string]bool)
	for _, value := range regexp.MustCompile(`\berror=("(?:[^"\\]|\\.)*"|\S+)`).FindAllString(w.log.String(), -1) {
		if logged[value] {
			t.Errorf("more than one line with %s:\n%s", value, w.log.String())
		}
		logged[value] = true
	}
}

// TestEgressProxyNameIsResolvedBeforeUse checks that a proxy is used with its address: at the
// start, after a change and after a restart without DNS. The previous proxy stays until then.
func TestEgressProxyNameIsResolvedBeforeUse(t *testing.T) {
	dir := t.TempDir()
	released := make(chan struct{})
	startDNSServer(t, map[string]string{"first.test.": "198.51.100.91", "second.test.": "198.51.100.92"}, map[string]<-chan struct{}{"second.test.": released})
	w := newEgressWatcherTest(t, dir)
	w.write("resolv.conf", "nameserver 127.0.0.1\n")
	w.write("proxy.env", "HTTP_PROXY=http://first.test:3128\n")
	w.config.Upstream.FollowRedirects = false
	w.start()
	expect := func(w *egressWatcherTest, name, addr string) {
		t.Helper()
		var got []ingress.EgressRoute
		if !nstest.Poll(func() bool { got = w.lastRoutes().Routes; return len(got) > 0 }) || len(got) != 1 || got[0].Proxy.Name != name ||
			!slices.Equal(got[0].Proxy.Addrs, []netip.AddrPort{netip.MustParseAddrPort(addr)}) {
			t.Errorf("passed on %v, want %s at %s", got, name, addr)
		}
	}
	expect(w, "first.test", "198.51.100.91:3128") // the first routes have the address
	w.write("proxy.env", "HTTP_PROXY=http://second.test:3128\n")
	w.await(report.EgressAccepted, func(s report.EgressProxy) bool { return s.Accepted.HTTPProxy == "http://second.test:3128" })
	expect(w, "first.test", "198.51.100.91:3128")
	close(released)
	w.await(report.EgressAccepted, func(s report.EgressProxy) bool {
		return slices.Equal(s.Routes[0].Addresses, []string{"198.51.100.92"})
	})
	expect(w, "second.test", "198.51.100.92:3128")
	w.stop()

	again := newEgressWatcherTest(t, dir)
	again.config = w.config
	again.write("resolv.conf", "nameserver 127.0.0.2\n") // no server
	again.start()
	expect(again, "second.test", "198.51.100.92:3128")
}

// startDNSServer starts a DNS server on port 53 of this namespace's loopback. It does not
// answer for a held name.
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
