// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// testCAs creates CAs by name, with one key.
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

// pem returns these CAs as PEM. One whose name begins with "old" has expired.
func (c *testCAs) pem(names ...string) string {
	c.t.Helper()
	var text strings.Builder
	for i, name := range names {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
			IsCA: true,
		}
		if strings.HasPrefix(name, "old") {
			template.NotAfter = time.Now().Add(-time.Hour)
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, c.key.Public(), c.key)
		must(c.t, err)
		text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return text.String()
}

// watcherTest is a running watcher, and what it passed on.
type watcherTest struct {
	t     *testing.T
	dir   string
	path  string // of the bundle
	paths chan string
	log   *nstest.Log

	mu       sync.Mutex
	report   report.Trust
	received []string // descriptions of the CAs, without repetitions
}

func newWatcherTest(t *testing.T, dir string) *watcherTest {
	t.Helper()
	return &watcherTest{
		t: t, dir: dir, path: filepath.Join(dir, "ca-bundle.crt"), paths: make(chan string),
		log: &nstest.Log{},
	}
}

// saveNow is a state writer that writes immediately.
func saveNow(_, _ string, write func() error) { _ = write() }

// start runs the watcher with its path until the end of the test.
func (w *watcherTest) start() *watcherTest {
	w.t.Helper()
	watcher, err := New(Options{
		Log: slog.New(slog.NewTextHandler(w.log, nil)), StateDir: filepath.Join(w.dir, "state"),
		SystemCABundles: []string{filepath.Join(w.dir, "system.crt")},
		ReadInterval:    time.Hour, // so that no read at that interval hides a lost file event
		StallTimeout:    nstest.Timeout, Save: saveNow,
	})
	must(w.t, err)
	ctx, stop := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = watcher.Run(ctx, w.paths, w.receive) })
	w.t.Cleanup(func() {
		stop()
		running.Wait()
	})
	w.paths <- w.path
	return w
}

func (w *watcherTest) receive(out Output) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report = out.Report
	description := "none"
	if out.CAs != nil {
		description = strings.ReplaceAll(out.CAs.Description, w.dir+"/", "")
	}
	if n := len(w.received); n == 0 || w.received[n-1] != description {
		w.received = append(w.received, description)
	}
}

func (w *watcherTest) write(name, text string) {
	w.t.Helper()
	must(w.t, os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600))
}

// replaceBundle writes the bundle in one step, by a rename.
func (w *watcherTest) replaceBundle(text string) {
	w.t.Helper()
	w.write("new", text)
	must(w.t, os.Rename(filepath.Join(w.dir, "new"), filepath.Join(w.dir, "ca-bundle.crt")))
}

// must ends the test after an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *watcherTest) expectReceived(want ...string) {
	w.t.Helper()
	var received []string
	if !nstest.Poll(func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		received = slices.Clone(w.received)
		return slices.Equal(received, want)
	}) {
		w.t.Fatalf("the CAs passed on (-want +got):\n%s", cmp.Diff(want, received))
	}
}

// awaitReport waits for a report about the CAs.
func (w *watcherTest) awaitReport(what string, matches func(report.Trust, report.Reason) bool) {
	w.t.Helper()
	var r report.Trust
	if !nstest.Poll(func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		r = w.report
		reason, _ := r.Evaluate()
		return matches(r, reason)
	}) {
		w.t.Fatalf("not %s: %+v", what, r)
	}
}

func (w *watcherTest) awaitReason(want report.Reason) {
	w.t.Helper()
	w.awaitReport(string(want), func(_ report.Trust, reason report.Reason) bool { return reason == want })
}

func TestCABundleIsFollowed(t *testing.T) {
	t.Parallel()
	cas := newTestCAs(t)
	w := newWatcherTest(t, t.TempDir())
	w.write("system.crt", cas.pem("S1", "S2"))
	w.start()
	system := `the 2 CAs of this host, in system.crt ("CN=S1", "CN=S2")`
	w.expectReceived(system)
	w.awaitReason(report.SystemTrust)
	w.replaceBundle(cas.pem("A"))
	a := `the CA of ca-bundle.crt ("CN=A")`
	w.expectReceived(system, a)
	w.awaitReport("the administrator's bundle", func(s report.Trust, reason report.Reason) bool {
		return s.Kind == report.TrustAdmin && s.Certificates == 1 && cmp.Equal(s.Subjects, []string{"CN=A"}) &&
			!s.Since.IsZero() && reason == report.TrustLoaded
	})
	w.write("ca-bundle.crt", "") // invalid: the last good CAs stay, and nothing is passed on
	w.awaitReason(report.TrustRejected)
	w.awaitReport("last good", func(s report.Trust, _ report.Reason) bool {
		return s.Kind == report.TrustLastGood && s.Certificates == 1 &&
			strings.HasPrefix(s.Error, s.Path+": the file is empty")
	})
	w.write("ca-bundle.crt", cas.pem("old1"))
	w.awaitReason(report.NoUsableCertificate)
	w.replaceBundle(cas.pem("B", "old2"))
	both := `the CA of ca-bundle.crt ("CN=B")`
	w.expectReceived(system, a, both)
	w.awaitReport("one ignored certificate", func(s report.Trust, reason report.Reason) bool {
		return s.IgnoredTotal == 1 && s.Ignored[0].Subject == "CN=old2" && reason == report.TrustLoaded
	})
	must(t, os.Remove(filepath.Join(w.dir, "ca-bundle.crt")))
	w.expectReceived(system, a, both, system)
	w.awaitReason(report.SystemTrust)
	w.write("system.crt", cas.pem("S1"))
	w.expectReceived(system, a, both, system, `the CA of this host, in system.crt ("CN=S1")`)
	for text, n := range map[string]int{
		"event=trust ": 5, "event=trust-rejected ": 2, "event=trust-ignored ": 2, `subject="CN=old1" serial=1 reason="`: 1,
		`subject="CN=old2" serial=2 `: 1,
	} {
		// The last line is written after the CAs are passed on.
		if !nstest.Poll(func() bool { return w.log.Count(text) == n }) {
			t.Errorf("%d lines with %q, want %d:\n%s", w.log.Count(text), text, n, w.log.String())
		}
	}
}

// The last good CAs are available after a restart.
func TestLastGoodCABundleAfterRestart(t *testing.T) {
	t.Parallel()
	cas := newTestCAs(t)
	dir := t.TempDir()
	first := newWatcherTest(t, dir)
	first.write("ca-bundle.crt", cas.pem("A"))
	first.start()
	first.expectReceived(`the CA of ca-bundle.crt ("CN=A")`)
	first.write("ca-bundle.crt", "x")
	other := newWatcherTest(t, dir) // whose configuration names another, invalid file
	other.path = filepath.Join(dir, "other.crt")
	other.write("other.crt", "x")
	other.start()
	other.expectReceived(`the CA of other.crt ("CN=A")`)
	other.awaitReport("the last good content", func(s report.Trust, _ report.Reason) bool {
		return s.Kind == report.TrustLastGood
	})
	second := newWatcherTest(t, dir).start()
	second.expectReceived(`the CA of ca-bundle.crt ("CN=A")`)
	second.awaitReason(report.TrustRejected)
	must(t, os.RemoveAll(filepath.Join(dir, "state")))
	third := newWatcherTest(t, dir).start()
	third.awaitReason(report.NothingTrusted)
	third.expectReceived("no CA of ca-bundle.crt")
	third.replaceBundle(cas.pem("B"))
	third.expectReceived("no CA of ca-bundle.crt", `the CA of ca-bundle.crt ("CN=B")`)
}

func TestCABundleIsReadOnlyForTLS(t *testing.T) {
	t.Parallel()
	cas := newTestCAs(t)
	w := newWatcherTest(t, t.TempDir())
	w.write("ca-bundle.crt", cas.pem("A"))
	bundle := w.path
	w.path = ""
	w.start()
	w.expectReceived("none")
	w.awaitReason(report.NotRequired)
	w.paths <- bundle
	w.expectReceived("none", `the CA of ca-bundle.crt ("CN=A")`)
	w.paths <- bundle
	w.write("other.crt", cas.pem("B"))
	w.paths <- filepath.Join(w.dir, "other.crt")
	w.expectReceived("none", `the CA of ca-bundle.crt ("CN=A")`, `the CA of other.crt ("CN=B")`)
}

// Each ignored certificate is logged once, and not more than 20 of them.
func TestIgnoredCertificateIsLoggedOnce(t *testing.T) {
	t.Parallel()
	cas := newTestCAs(t)
	old := make([]string, 30)
	for i := range old {
		old[i] = fmt.Sprintf("old%d", i)
	}
	w := newWatcherTest(t, t.TempDir())
	text := cas.pem(old...) + cas.pem("A")
	w.write("ca-bundle.crt", text)
	w.start()
	w.expectReceived(`the CA of ca-bundle.crt ("CN=A")`)
	w.replaceBundle("# the same, and others\n" + text + cas.pem("B"))
	w.expectReceived(`the CA of ca-bundle.crt ("CN=A")`, `the 2 CAs of ca-bundle.crt ("CN=A", "CN=B")`)
	if n := w.log.Count("event=trust-ignored "); n != 20 {
		t.Errorf("%d lines, want 20", n)
	}
}
