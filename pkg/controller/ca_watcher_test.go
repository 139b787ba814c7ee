// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// testCAs makes CAs by name, of one key.
type testCAs struct {
	t   *testing.T
	key *ecdsa.PrivateKey
}

func newTestCAs(t *testing.T) *testCAs {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return &testCAs{t, key}
}

// pem is the PEM of these; one whose name begins with "old" has expired.
func (b *testCAs) pem(names ...string) string {
	b.t.Helper()
	var text strings.Builder
	for i, name := range names {
		c := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: true,
		}
		if strings.HasPrefix(name, "old") {
			c.NotAfter = time.Now().Add(-time.Hour)
		}
		der, err := x509.CreateCertificate(rand.Reader, c, c, b.key.Public(), b.key)
		must(b.t, err)
		text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return text.String()
}

// caWatcherTest is a truster at work, and what it has told.
type caWatcherTest struct {
	*caWatcher
	t      *testing.T
	dir    string
	config config.Config
	log    *nstest.Log

	mu       sync.Mutex
	received []string // About, of each
}

func newCAWatcherTest(t *testing.T, dir string) *caWatcherTest {
	t.Helper()
	w := &caWatcherTest{t: t, dir: dir, config: config.Default(), log: &nstest.Log{}}
	w.config.Upstream.TrustedCA = filepath.Join(dir, "ca-bundle.crt")
	board := report.NewTracker("test", time.Now(), func(_, _ report.Condition) {})
	o := Options{
		Log: slog.New(slog.NewTextHandler(w.log, nil)), StateDir: filepath.Join(dir, "state"), SystemCABundles: []string{filepath.Join(dir, "system.crt")},
		timing: timing{FollowAgain: time.Hour}, // so that no look at that interval hides a lost hint
	}
	var err error
	if w.caWatcher, err = newCAWatcher(o, board, w.receive); err != nil {
		t.Fatal(err)
	}
	return w
}

// start configures it and has it run.
func (w *caWatcherTest) start() *caWatcherTest {
	w.configure(w.config)
	tasks := newTasks(w.t.Context())
	tasks.start("files", w.files.Run)
	tasks.start("trust", w.run)
	w.t.Cleanup(func() {
		if err := tasks.wait(); err != nil {
			w.t.Error(err)
		}
	})
	return w
}

func (w *caWatcherTest) receive(t *ingress.CABundle) {
	w.mu.Lock()
	defer w.mu.Unlock()
	about := "none"
	if t != nil {
		about = strings.ReplaceAll(t.Description, w.dir+"/", "")
	}
	w.received = append(w.received, about)
}

func (w *caWatcherTest) write(name, text string) {
	w.t.Helper()
	must(w.t, os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600))
}

func (w *caWatcherTest) replaceFile(name, text string) {
	w.t.Helper()
	replace(w.t, filepath.Join(w.dir, name), text)
}

// replacements writes a file in one step, by a rename.
func replace(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path+".new", []byte(text), 0o600))
	must(t, os.Rename(path+".new", path))
}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *caWatcherTest) expectReceived(want ...string) {
	w.t.Helper()
	var told []string
	if !nstest.Poll(func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		told = slices.Clone(w.received)
		return slices.Equal(told, want)
	}) {
		w.t.Fatalf("the gate is told (-want +got):\n%s", cmp.Diff(want, told))
	}
}

// awaitReport waits for a report on trust.
func (w *caWatcherTest) awaitReport(what string, is func(report.Trust, report.Condition) bool) {
	w.t.Helper()
	var r report.Report
	if !nstest.Poll(func() bool {
		r = w.tracker.Report(report.Table{})
		return len(r.Conditions) == 2 && is(r.Trust, r.Conditions[1])
	}) {
		w.t.Fatalf("not %s: %+v, %+v", what, r.Trust, r.Conditions)
	}
}

func (w *caWatcherTest) awaitReason(reason report.Reason, condition string) {
	w.t.Helper()
	w.awaitReport(string(reason), func(_ report.Trust, c report.Condition) bool {
		return c.Type == report.TrustConditionType && c.Reason == reason && c.Status == condition
	})
}

func TestCABundleIsFollowed(t *testing.T) {
	t.Parallel()
	b := newTestCAs(t)
	w := newCAWatcherTest(t, t.TempDir())
	w.write("system.crt", b.pem("S1", "S2"))
	w.start()
	system := `the 2 CAs of this host, in system.crt ("CN=S1", "CN=S2")`
	w.expectReceived(system)
	w.awaitReason(report.SystemTrust, "True")
	w.replaceFile("ca-bundle.crt", b.pem("A"))
	a := `the CA of ca-bundle.crt ("CN=A")`
	w.expectReceived(system, a)
	w.awaitReport("the admin's", func(s report.Trust, c report.Condition) bool {
		return s.Kind == report.TrustAdmin && s.Certificates == 1 && cmp.Equal(s.Subjects, []string{"CN=A"}) && !s.Since.IsZero() && c.Reason == report.TrustInForce
	})
	w.write("ca-bundle.crt", "") // refused: the last good one stays, and nothing is sent
	w.awaitReason(report.TrustRefused, "False")
	w.awaitReport("last good", func(s report.Trust, _ report.Condition) bool {
		return s.Kind == report.TrustLastGood && s.Certificates == 1 && strings.HasPrefix(s.Error, s.Path+": it is empty")
	})
	w.write("ca-bundle.crt", b.pem("old1"))
	w.awaitReason(report.NoUsableCertificate, "False")
	w.replaceFile("ca-bundle.crt", b.pem("B", "old2"))
	both := `the CA of ca-bundle.crt ("CN=B")`
	w.expectReceived(system, a, both)
	if got := describeLeftOut(report.IgnoredCertificate{Reason: "x"}, 20, "/a.crt"); got != "the PEM block in line 20 of /a.crt" {
		t.Errorf("what has no subject is %s", got)
	}
	w.awaitReport("one left out", func(s report.Trust, c report.Condition) bool {
		return s.IgnoredTotal == 1 && s.Ignored[0].Subject == "CN=old2" && c.Status == "True"
	})
	must(t, os.Remove(filepath.Join(w.dir, "ca-bundle.crt")))
	w.expectReceived(system, a, both, system)
	w.awaitReason(report.SystemTrust, "True")
	w.write("system.crt", b.pem("S1"))
	w.expectReceived(system, a, both, system, `the CA of this host, in system.crt ("CN=S1")`)
	for text, n := range map[string]int{
		"event=trust ": 5, "event=trust-refused ": 2, "event=trust-left-out ": 2, `subject="CN=old1" serial=1 reason="it has expired on `: 1, `subject="CN=old2" serial=2 `: 1,
	} {
		// The last line is written after the gate has been told.
		if !nstest.Poll(func() bool { return w.log.Count(text) == n }) {
			t.Errorf("%d lines with %q, want %d:\n%s", w.log.Count(text), text, n, w.log.String())
		}
	}
}

// TestLastGoodCABundleAfterRestart: the last good bundle is found again.
func TestLastGoodCABundleAfterRestart(t *testing.T) {
	t.Parallel()
	b := newTestCAs(t)
	dir := t.TempDir()
	first := newCAWatcherTest(t, dir)
	first.write("ca-bundle.crt", b.pem("A"))
	first.configure(first.config)
	first.expectReceived(`the CA of ca-bundle.crt ("CN=A")`)
	first.write("ca-bundle.crt", "x")
	other := newCAWatcherTest(t, dir) // whose configuration names another file, which is refused
	other.config.Upstream.TrustedCA = filepath.Join(dir, "other.crt")
	other.write("other.crt", "x")
	other.configure(other.config)
	other.expectReceived(`the CA of ca-bundle.crt ("CN=A")`)
	other.awaitReport("that of the former file", func(s report.Trust, c report.Condition) bool {
		return s.Kind == report.TrustLastGood && s.Source == first.config.Upstream.TrustedCA && strings.Contains(c.Message, "; the last good text of "+s.Source+" (1 CA) stays in force")
	})
	second := newCAWatcherTest(t, dir).start()
	second.expectReceived(`the CA of ca-bundle.crt ("CN=A")`)
	second.awaitReason(report.TrustRefused, "False")
	must(t, os.RemoveAll(filepath.Join(dir, "state")))
	third := newCAWatcherTest(t, dir).start()
	third.awaitReason(report.NothingTrusted, "False")
	third.expectReceived("nothing of ca-bundle.crt")
	third.replaceFile("ca-bundle.crt", b.pem("B"))
	third.expectReceived("nothing of ca-bundle.crt", `the CA of ca-bundle.crt ("CN=B")`)
}

func TestCABundleIsReadOnlyForTLS(t *testing.T) {
	t.Parallel()
	b := newTestCAs(t)
	w := newCAWatcherTest(t, t.TempDir())
	w.write("ca-bundle.crt", b.pem("A"))
	w.config.Upstream.FollowRedirects = false
	w.start()
	w.expectReceived("none")
	w.awaitReason(report.NotRequired, "True")
	w.config.Upstream.Scheme = config.SchemeHTTPS
	w.configure(w.config)
	w.expectReceived("none", `the CA of ca-bundle.crt ("CN=A")`)
	w.configure(w.config)
	w.write("other.crt", b.pem("B"))
	w.config.Upstream.TrustedCA = filepath.Join(w.dir, "other.crt")
	w.configure(w.config)
	w.expectReceived("none", `the CA of ca-bundle.crt ("CN=A")`, `the CA of other.crt ("CN=B")`)
}

// TestLeftOutCertificateIsLoggedOnce, and not more than 20 of them.
func TestLeftOutCertificateIsLoggedOnce(t *testing.T) {
	t.Parallel()
	b := newTestCAs(t)
	old := make([]string, 30)
	for i := range old {
		old[i] = fmt.Sprintf("old%d", i)
	}
	w := newCAWatcherTest(t, t.TempDir())
	text := b.pem(old...) + b.pem("A")
	w.write("ca-bundle.crt", text)
	w.start()
	w.expectReceived(`the CA of ca-bundle.crt ("CN=A")`)
	w.replaceFile("ca-bundle.crt", "# the same, and others\n"+text+b.pem("B"))
	w.expectReceived(`the CA of ca-bundle.crt ("CN=A")`, `the 2 CAs of ca-bundle.crt ("CN=A", "CN=B")`)
	if n := w.log.Count("event=trust-left-out "); n != 21 {
		t.Errorf("%d lines, want 20 and a sum", n)
	}
	if n := w.log.Count("10 more certificates of "); n != 1 {
		t.Errorf("%d sums:\n%s", n, w.log.String())
	}
}

// TestCABundleIsFollowedDuringEvents: after a rename, a write in place, and a flip of the link,
// amid a stream of events beside it.
func TestCABundleIsFollowedDuringEvents(t *testing.T) {
	t.Parallel()
	b := newTestCAs(t)
	w := newCAWatcherTest(t, t.TempDir())
	flip := func(text string) {
		t.Helper()
		version := filepath.Join(w.dir, fmt.Sprintf("v%d", time.Now().UnixNano()))
		must(t, os.Mkdir(version, 0o700))
		w.write(filepath.Base(version)+"/ca-bundle.crt", text)
		must(t, os.Symlink(filepath.Base(version), filepath.Join(w.dir, "..new")))
		must(t, os.Rename(filepath.Join(w.dir, "..new"), filepath.Join(w.dir, "..data")))
	}
	flip(b.pem("A"))
	must(t, os.Symlink("..data/ca-bundle.crt", filepath.Join(w.dir, "ca-bundle.crt")))
	w.start()
	stop := make(chan struct{})
	streaming := make(chan struct{})
	go func() { // a busy neighbour, whose events matter as much as a flip's
		defer close(streaming)
		tick := time.NewTicker(3 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				now := time.Now()
				_ = os.Chtimes(filepath.Join(w.dir, "..data/ca-bundle.crt"), now, now)
			}
		}
	}()
	want := []string{`the CA of ca-bundle.crt ("CN=A")`}
	for i := range 6 {
		name := fmt.Sprintf("N%d", i)
		text := b.pem(name)
		switch i % 3 {
		case 0:
			flip(text)
		case 1:
			w.write("ca-bundle.crt", text)
		default:
			w.replaceFile("..data/ca-bundle.crt", text)
		}
		want = append(want, fmt.Sprintf(`the CA of ca-bundle.crt ("CN=%s")`, name))
		w.expectReceived(want...)
	}
	close(stop)
	<-streaming
}

// newConnPair are both ends of a connection to a gate.
func newConnPair(t *testing.T) (near, gate *protocol.Conn) {
	t.Helper()
	near, far, err := protocol.NewPair()
	must(t, err)
	gate, err = protocol.FromFiles(far)
	must(t, err)
	t.Cleanup(func() {
		_ = near.Close()
		_ = gate.Close()
	})
	return near, gate
}

// newProxyManagerTest is a door whose gate is in the test's hand.
func newProxyManagerTest(t *testing.T) (d *proxyManager, near, gate *protocol.Conn, g *proxyProcess) {
	t.Helper()
	near, gate = newConnPair(t)
	// What runs does not matter: the test has its end of the connection.
	process, err := sandbox.Start(exec.CommandContext(t.Context(), "sleep", "600"))
	must(t, err)
	t.Cleanup(func() {
		_ = process.Kill()
		<-process.Done()
	})
	d = &proxyManager{log: slog.New(slog.DiscardHandler), onUpstreamChange: func([]netip.Addr, uint16) {}, closing: make(map[uint16]chan struct{})}
	return d, near, gate, &proxyProcess{&child.Process{Conn: near, Process: process}}
}

// TestEgressIsSentWithConfiguration: an egress decision takes effect together with the
// upstream settings that it was made for, and never before them.
func TestEgressIsSentWithConfiguration(t *testing.T) {
	t.Parallel()
	d, near, gate, g := newProxyManagerTest(t)
	decision := func(generation uint64, port uint16) egressDecision {
		return egressDecision{ingress.Egress{Routes: []ingress.EgressRoute{{Ingress: netip.AddrPortFrom(netip.MustParseAddr("198.51.100.6"), port)}}}, generation}
	}
	c := config.Default()
	d.attach(g)
	d.SetEgress(decision(1, 70)) // no configuration yet
	d.Configure(c, nil, decision(1, c.Upstream.Port))
	c.Upstream.Port = 81
	d.SetEgress(decision(2, 82)) // for the next configuration, and later than its decision
	d.Configure(c, nil, decision(2, 81))
	d.SetEgress(decision(2, 83)) // a change of the proxy alone
	d.SetEgress(decision(2, 83))
	d.Configure(c, nil, decision(2, 84)) // the same, with the same configuration
	d.Configure(c, nil, decision(2, 84))
	d.attach(g) // another process
	want := []string{"configure 80 egress 70", "configure 81 egress 82", "egress 83", "egress 84", "configure 81 egress 84"}
	expectCommands(t, near, gate, want, func(o protocol.Command) string {
		text := ""
		if o.Configure != nil {
			text = fmt.Sprint("configure ", o.Configure.Upstream.Port, " ")
		}
		if e := egressOf(&o); e != nil && len(e.Routes) > 0 {
			text += fmt.Sprint("egress ", e.Routes[0].Ingress.Port())
		}
		return text
	})
}

// expectCommands sends a last order, and checks those that the gate has received before. An
// order whose text is "" is left out.
func expectCommands(t *testing.T, near, gate *protocol.Conn, want []string, text func(protocol.Command) string) {
	t.Helper()
	must(t, near.Send(protocol.Command{ProbeIngress: &protocol.ProbeIngress{}}, -1))
	var all []string
	for {
		var o protocol.Command
		if _, err := gate.Receive(&o); err != nil || o.ProbeIngress != nil {
			break
		}
		if s := text(o); s != "" {
			all = append(all, s)
		}
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("the gate hears (-want +got):\n%s", diff)
	}
}

// TestTrustIsSentFirst: a gate hears of it before it is configured, and of the
// same once.
func TestTrustIsSentFirst(t *testing.T) {
	t.Parallel()
	d, near, gate, g := newProxyManagerTest(t)
	trusted := func(der byte) *ingress.CABundle {
		return &ingress.CABundle{Roots: [][]byte{{der}}, Description: "a CA"}
	}
	d.SetTrust(trusted(1))
	d.Configure(config.Default(), nil, egressDecision{})
	d.attach(g)
	d.SetTrust(trusted(1))
	d.SetTrust(trusted(2))
	d.SetTrust(nil)
	d.SetTrust(trusted(3))
	expectCommands(t, near, gate, []string{"trust [[1]]", "configure", "trust [[2]]", "trust [[3]]"}, func(o protocol.Command) string {
		switch {
		case o.Trust != nil:
			return fmt.Sprint("trust ", o.Trust.Roots)
		case o.Configure != nil:
			return "configure"
		}
		return ""
	})
}
