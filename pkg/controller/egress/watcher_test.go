// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	answers "github.com/http01-proxyd/http01-proxyd/pkg/prober/network"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestMain also runs the prober process.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == child.Prober {
		conn, err := child.Connect()
		if err == nil {
			err = answers.RunConfined(context.Background(), conn)
		}
		if err != nil {
			os.Exit(1)
		}
		return
	}
	nstest.Main(m)
}

// watcherTest is a watcher with real files and a real prober process, and what it passed on.
type watcherTest struct {
	*Watcher

	t          *testing.T
	dir        string
	config     config.Config
	generation uint64
	inputs     chan Input
	dialFailed chan struct{}
	log        *nstest.Log
	stop       func() // what start started

	observe func(Output) // called with each output, if set

	mu   sync.Mutex
	last Output
}

func newWatcherTest(t *testing.T, dir string) *watcherTest {
	t.Helper()
	nstest.Require(t)
	w := &watcherTest{
		t: t, dir: dir, config: config.Default(), inputs: make(chan Input), dialFailed: make(chan struct{}),
		log: &nstest.Log{},
	}
	w.config.EgressProxy.File = filepath.Join(dir, "proxy.env")
	w.config.EgressProxy.TrustedCA = filepath.Join(dir, "proxy-ca.crt")
	w.config.EgressProxy.Upstream = config.EgressAuto
	w.config.VIPs.API = []netip.Addr{netip.MustParseAddr("192.0.2.5")}
	w.config.VIPs.Ingress = []netip.Addr{netip.MustParseAddr("198.51.100.6")}
	var err error
	w.Watcher, err = New(Options{
		Log: slog.New(slog.NewTextHandler(w.log, nil)), SystemCABundles: []string{filepath.Join(dir, "system.crt")},
		StateDir: filepath.Join(dir, "state"), ResolvConf: filepath.Join(dir, "resolv.conf"),
		HostsFile:        filepath.Join(dir, "hosts"),
		APIServerURLFile: filepath.Join(dir, "apiserver-url.env"), StallTimeout: nstest.Timeout, Save: saveNow,
	})
	must(t, err)
	return w
}

// saveNow is a state writer that writes immediately.
func saveNow(_, _ string, write func() error) { _ = write() }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// configure makes the running watcher take the configuration.
func (w *watcherTest) configure(addrs ...netip.Addr) {
	w.generation++
	w.inputs <- Input{
		Generation: w.generation, Config: w.config, Ingress: append(addrs, w.config.VIPs.Ingress...)[:1], Observed: true,
		Subnets: []netip.Prefix{netip.MustParsePrefix("203.0.113.11/24"), netip.MustParsePrefix("127.0.0.1/8")},
	}
}

func (w *watcherTest) setLast(out Output) {
	if w.observe != nil {
		w.observe(out)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = out
}

func (w *watcherTest) lastDecision() Output {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

func (w *watcherTest) lastRoutes() ingress.Egress { return w.lastDecision().Egress }

// start runs the watcher with its configuration.
func (w *watcherTest) start() *watcherTest {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx, w.inputs, w.dialFailed, w.setLast) })
	w.stop = func() {
		stop()
		running.Wait()
	}
	w.t.Cleanup(w.stop)
	w.configure()
	return w
}

func (w *watcherTest) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	must(w.t, os.WriteFile(path+".new", []byte(text), 0o600))
	must(w.t, os.Rename(path+".new", path))
}

func (w *watcherTest) status() report.EgressProxy { return w.lastDecision().Report }

func (w *watcherTest) reason() report.Reason {
	reason, _ := w.status().Evaluate()
	return reason
}

// await waits until the condition has this reason and ok holds.
func (w *watcherTest) await(reason report.Reason, ok func(report.EgressProxy) bool) report.EgressProxy {
	w.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); <-tick.C {
		if s := w.status(); s.Upstream != "" && w.reason() == reason && (ok == nil || ok(s)) {
			return s
		}
	}
	w.t.Fatalf("the reason is not %s:\n%+v\n%+v\n%s", reason, w.reason(), w.status(), w.log.String())
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
func (w *watcherTest) checkNoCredentials() {
	w.t.Helper()
	text, err := json.Marshal(w.status())
	must(w.t, err)
	texts := string(text) + w.log.String() + fmt.Sprintf("%v %+v %#v", w.lastRoutes(), w.lastRoutes(), w.status())
	for _, hidden := range []string{"us%65r", "user:", "p%40ss", "p@ss", "w%25rd", "dXNlcjpw"} {
		if strings.Contains(texts, hidden) {
			w.t.Errorf("%s is visible: %s", hidden, texts)
		}
	}
}

// TestLifecycle goes from no proxy to one that is accepted immediately, to one whose
// endpoint is not ready, over a restart, and back to no proxy.
func TestLifecycle(t *testing.T) {
	w := newWatcherTest(t, t.TempDir()).start()
	g, addr := startStrictProxy(t)
	s := w.await(report.EgressNotConfigured, nil)
	if got := w.lastRoutes(); len(got.Routes) != 0 || !strings.HasPrefix(s.NoProxy,
		"localhost,127.0.0.0/8,::1,.svc,.cluster.local,192.0.2.5,203.0.113.0/24") {
		t.Errorf("%v, %+v", got, s)
	}

	// A proxy without readiness endpoints is accepted immediately, for both schemes.
	env := fmt.Sprintf("HTTP_PROXY=http://%s@%s\r\nHTTPS_PROXY='http://%s@%s'\r\nNO_PROXY=.example.test\r\n", credentials,
		addr, credentials, addr)
	w.write("proxy.env", env)
	s = w.await(report.EgressAccepted, nil)
	want := ingress.EgressProxy{
		Name: "127.0.0.1", Addrs: []netip.AddrPort{netip.MustParseAddrPort(addr)},
		Authorization: ingress.NewSecret("Basic dXNlcjpwQHNzOnclcmQ="),
	}
	wanted := ingress.Egress{Routes: []ingress.EgressRoute{
		{Ingress: netip.MustParseAddrPort("198.51.100.6:80"), Proxy: want},
		{Ingress: netip.MustParseAddrPort("198.51.100.6:443"), Proxy: want},
	}}
	if diff := cmp.Diff(wanted, w.lastRoutes(), compareAddrs()); diff != "" {
		t.Errorf("passed on (-want +got):\n%s", diff)
	}
	if !strings.HasSuffix(s.NoProxy, ",.example.test") || s.Accepted.HTTPProxy != "http://xxxxx@"+addr ||
		s.Accepted.Source != w.config.EgressProxy.File || len(s.Routes) != 2 {
		t.Errorf("%+v", s)
	}

	// A change with endpoints that are not ready does not affect the active settings.
	g.setUnavailable(true)
	w.config.EgressProxy.ReadinessEndpoints = []string{"http://ready.test/healthz?token=t0ken"}
	w.configure()
	w.write("proxy.env", strings.ReplaceAll(env, "example.test", "other.test"))
	s = w.await(report.EgressNotReady,
		func(s report.EgressProxy) bool { return s.Message != "" && s.Spec.NoProxy == ".other.test" })
	if s.Message != "http://ready.test/healthz is not ready: the response status is 503, not 2xx or 3xx: correct the "+
		"endpoint's server, or name another URL in egressProxy.readinessEndpoints" || s.NextCheck.IsZero() ||
		s.Accepted.NoProxy != ".example.test" ||
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
	if s.InvalidInput != report.EgressInputFile || !strings.Contains(s.Message, "proxy.env: line 1: ") ||
		len(w.lastRoutes().Routes) != 2 {
		t.Errorf("%+v", s)
	}

	for _, logged := range []string{
		"level=INFO msg=\"http://xxxxx@" + addr + " (from ", "level=WARN msg=\"http://xxxxx@" + addr + " (from ",
		"level=ERROR msg=\"the configured egress proxy is rejected: ",
	} {
		if text := w.log.String(); !strings.Contains(text, logged) {
			t.Errorf("the log lacks %s:\n%s", logged, text)
		}
	}

	// An invalid bundle changes nothing either.
	w.write("proxy.env", env)
	w.await(report.EgressAccepted, nil)
	w.write("proxy-ca.crt", "-----BEGIN CERTIFICATE-----\nMII")
	s = w.await(report.EgressInvalid, nil)
	if s.InvalidInput != report.EgressInputTrustedCA || !strings.Contains(s.Message, "proxy-ca.crt") {
		t.Errorf("%+v", s)
	}
	w.write("proxy-ca.crt", testCA(t, "Proxy CA"))
	s = w.await(report.EgressAccepted, func(s report.EgressProxy) bool { return s.Accepted.TrustedCAs == 1 })
	if got := w.lastRoutes(); len(got.AdditionalCAs.Roots) != 1 ||
		got.AdditionalCAs.Description != "the 1 CA of egressProxy.trustedCA" || len(got.ProxyCAs.Roots) != 0 {
		t.Errorf("%v, %+v", got.AdditionalCAs.Description, s)
	}
	w.checkNoCredentials()

	// After a restart the accepted settings apply while new ones are probed. The clock has gone
	// back meanwhile: they were accepted later than now.
	g.setUnavailable(true)
	accepted, at, err := w.store.Load()
	must(t, err)
	must(t, w.store.Save(accepted, at.Add(time.Hour)))
	w.write("proxy.env", strings.ReplaceAll(env, "example.test", "third.test"))
	again := newWatcherTest(t, w.dir)
	again.config = w.config
	again.start()
	s = again.await(report.EgressNotReady, nil)
	if got := again.lastRoutes(); len(got.Routes) != 2 || len(got.AdditionalCAs.Roots) != 1 {
		t.Errorf("after a restart: %v", got)
	}
	if text := again.log.String(); !strings.Contains(text, "is not accepted yet: ") ||
		!strings.Contains(text, " is in use: 198.51.100.6:80 through ") {
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

// TestCAFileForRootOnly uses the file of OpenShift: it exists, it is empty or only root can
// read it, and its CAs are among the host's.
func TestCAFileForRootOnly(t *testing.T) {
	w := newWatcherTest(t, t.TempDir())
	w.write("proxy.env", "HTTP_PROXY=http://192.0.2.9:3128\n")
	w.write("system.crt", testCA(t, "S1")+testCA(t, "Proxy CA"))
	w.write("proxy-ca.crt", "")
	for name, mode := range map[string]os.FileMode{"..": 0o755, ".": 0o755, "proxy.env": 0o644, "system.crt": 0o644} {
		must(t, os.Chmod(filepath.Join(w.dir, name), mode))
	}
	// Like the service: without root's access to files. A read runs in a thread of its own, and all threads
	// get this user.
	read := func() contents {
		must(t, syscall.Seteuid(65534))
		defer func() { must(t, syscall.Seteuid(0)) }()
		c, _ := w.reader.read(w.config.EgressProxy, time.Now())
		return c
	}
	w.reader.anchorDirs = []string{w.dir}
	if c := read(); c.err != nil || len(c.request.Roots) != 0 || c.request.Settings.IsEmpty() {
		t.Errorf("with an empty file: %+v", c)
	}
	w.write("proxy-ca.crt", testCA(t, "Proxy CA"))
	if c := read(); c.err != nil || len(c.request.Roots) != 2 ||
		c.request.RootsDescription != "the 2 CAs of this host, including those of egressProxy.trustedCA" {
		t.Errorf("with a file for root: %+v", c)
	}
	// The CAs of any other unreadable file are unknown.
	w.reader.anchorDirs = nil
	if c := read(); c.invalid != report.EgressInputTrustedCA || !errors.Is(c.err, fs.ErrPermission) {
		t.Errorf("with another file for root: %+v", c)
	}
}

// testCA returns a CA as PEM.
func testCA(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestRoutesFollowConfig checks that routes are passed on with the configuration that they belong
// to.
func TestRoutesFollowConfig(t *testing.T) {
	w := newWatcherTest(t, t.TempDir())
	w.write("proxy.env", "HTTP_PROXY=http://192.0.2.9:3128\n")
	w.config.Upstream.FollowRedirects = false
	w.start()
	through := func(ingress, proxy string) {
		t.Helper()
		var out Output
		if !nstest.Poll(func() bool {
			out = w.lastDecision()
			got := out.Egress.Routes
			return out.Generation == w.generation && out.Ready && len(got) == 1 &&
				got[0].Ingress.String() == ingress && got[0].Proxy.Addrs[0].String() == proxy
		}) {
			t.Errorf("passed on %+v, want %s through %s", out, ingress, proxy)
		}
	}
	through("198.51.100.6:80", "192.0.2.9:3128")
	w.config.Upstream.Port = 81
	w.config.EgressProxy.HTTPProxy = "http://192.0.2.9:3129"
	w.configure()
	through("198.51.100.6:81", "192.0.2.9:3129")
	w.configure(netip.MustParseAddr("198.51.100.7"))
	through("198.51.100.7:81", "192.0.2.9:3129")
}

func compareAddrs() cmp.Option {
	return cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
}

// TestNameIsResolved has a prober process resolve the proxy's name. The
// addresses are passed on when they are found.
func TestNameIsResolved(t *testing.T) {
	w := newWatcherTest(t, t.TempDir())
	w.write("proxy.env", "HTTP_PROXY=https://proxy.test\n")
	w.write("system.crt", testCA(t, "S1")+testCA(t, "S2"))
	w.write("proxy-ca.crt", testCA(t, "Proxy CA"))
	w.config.Upstream.FollowRedirects = false
	w.start()
	s := w.await(report.EgressAccepted, func(s report.EgressProxy) bool { return s.Routes[0].Error != "" })
	if got := w.lastRoutes(); len(got.Routes) != 1 || len(got.Routes[0].Proxy.Addrs) != 0 || !got.Routes[0].Proxy.TLS {
		t.Errorf("a route without an address is missing: %v", got)
	}
	if got := w.lastRoutes().ProxyCAs; len(got.Roots) != 3 ||
		got.Description != "the 1 CA of egressProxy.trustedCA and the 2 CAs of this host" {
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
	if got := w.lastRoutes().Routes[0].Proxy.Addrs; len(got) != 1 ||
		got[0] != netip.MustParseAddrPort("198.51.100.99:443") {
		t.Errorf("passed on %v", got)
	}
	// A slow machine can add another reason: a timeout of the server.
	if text := w.log.String(); strings.Count(text, "no DNS server in") != 1 ||
		!strings.Contains(text, "event=egress-resolve") {
		t.Errorf("%d lines with the reason:\n%s", strings.Count(text, "no DNS server in"), text)
	}
	logged := make(map[string]bool)
	for _, value := range regexp.MustCompile(`\bmsg=("(?:[^"\\]|\\.)*"|\S+)`).FindAllString(w.log.String(), -1) {
		if logged[value] {
			t.Errorf("more than one line with %s:\n%s", value, w.log.String())
		}
		logged[value] = true
	}
}

// TestNameIsResolvedBeforeUse checks that a proxy is used with its address: at the start, after a
// change, and after a failed connection. The previous proxy stays until then.
func TestNameIsResolvedBeforeUse(t *testing.T) {
	released := make(chan struct{})
	names := map[string]string{"first.test.": "198.51.100.91", "second.test.": "198.51.100.92"}
	startDNSServer(t, names, map[string]<-chan struct{}{"second.test.": released})
	w := newWatcherTest(t, t.TempDir())
	w.write("resolv.conf", "nameserver 127.0.0.1\n")
	w.write("proxy.env", "HTTP_PROXY=http://first.test:3128\n")
	w.config.Upstream.FollowRedirects = false
	w.start()
	expect := func(name, addr string) {
		t.Helper()
		var got []ingress.EgressRoute
		want := []netip.AddrPort{netip.MustParseAddrPort(addr)}
		if !nstest.Poll(func() bool {
			got = w.lastRoutes().Routes
			return len(got) == 1 && got[0].Proxy.Name == name && slices.Equal(got[0].Proxy.Addrs, want)
		}) {
			t.Errorf("passed on %v, want %s at %s", got, name, addr)
		}
	}
	expect("first.test", "198.51.100.91:3128")
	w.write("proxy.env", "HTTP_PROXY=http://second.test:3128\n")
	w.await(report.EgressAccepted,
		func(s report.EgressProxy) bool { return s.Accepted.HTTPProxy == "http://second.test:3128" })
	expect("first.test", "198.51.100.91:3128")
	close(released)
	expect("second.test", "198.51.100.92:3128")
	w.write("hosts", "198.51.100.93 second.test\n") // another address, which nothing reports
	w.dialFailed <- struct{}{}
	expect("second.test", "198.51.100.93:3128")
}

// TestFirstDecision checks that no decision is made before the proxy and the CAs of this host have been read:
// after an installation, after a restart and after a change of the configuration.
func TestFirstDecision(t *testing.T) {
	dir := t.TempDir()
	ready := make(chan Output, 100)
	run := func() *watcherTest {
		w := newWatcherTest(t, dir)
		w.config.Upstream.FollowRedirects = false
		w.observe = func(out Output) {
			if out.Ready {
				ready <- out
			}
		}
		return w.start()
	}
	expect := func(what string, generation uint64, routes int) {
		t.Helper()
		out := <-ready
		for out.Generation != generation {
			out = <-ready
		}
		if len(out.Egress.Routes) != routes || len(out.Egress.ProxyCAs.Roots) != routes {
			t.Errorf("the first decision %s: %+v", what, out.Egress)
		}
	}
	w := newWatcherTest(t, dir)
	w.write("system.crt", testCA(t, "S1"))
	w.write("proxy.env", "HTTP_PROXY=https://198.51.100.99:3128\n")
	w.write("none.env", "")
	w = run()
	expect("after an installation", 1, 1)
	w.await(report.EgressAccepted, nil)
	w.stop()
	for len(ready) > 0 {
		<-ready
	}
	w = run()
	expect("after a restart", 1, 1)
	file := w.config.EgressProxy.File
	w.config.EgressProxy.File = filepath.Join(dir, "none.env")
	w.configure()
	expect("with a file without a proxy", 2, 0)
	w.config.EgressProxy.File = file
	w.configure()
	expect("with the first file again", 3, 1)
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
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(addr).As4()},
				}}
			}
			if packed, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(packed, from)
			}
		}
	}()
}
