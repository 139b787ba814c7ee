// SPDX-License-Identifier: Apache-2.0

package microshift_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
)

// testHost is a host on which the service is restarted repeatedly.
type testHost struct {
	t                 *testing.T
	dir, units, state string
	now               time.Time
}

func newTestHost(t *testing.T) *testHost {
	t.Helper()
	return &testHost{t: t, dir: t.TempDir(), units: t.TempDir(), state: filepath.Join(t.TempDir(), "state"), now: time.Now()}
}

func (h *testHost) write(text string) {
	h.t.Helper()
	path := microshift.ConfigFile(h.dir)
	must(h.t, os.WriteFile(path, []byte(text), 0o600))
	old := time.Now().Add(-time.Hour) // before every start
	must(h.t, os.Chtimes(path, old, old))
}

// setInvocation starts MicroShift with an invocation ID. "" means that it does not run.
func (h *testHost) setInvocation(invocation string) {
	h.t.Helper()
	link := filepath.Join(h.units, "invocation:microshift.service")
	_ = os.Remove(link)
	if invocation == "" {
		return
	}
	must(h.t, os.Symlink(invocation, link))
	h.awaitFileTime(link)
}

// awaitFileTime waits until a new file gets a later time than a link. The kernel's clock for
// file times has a resolution of some milliseconds.
func (h *testHost) awaitFileTime(link string) {
	h.t.Helper()
	before, err := os.Lstat(link)
	must(h.t, err)
	tick := filepath.Join(h.units, "tick")
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		must(h.t, os.WriteFile(tick, []byte(time.Now().String()), 0o600))
		if info, err := os.Stat(tick); err != nil {
			h.t.Fatal(err)
		} else if info.ModTime().After(before.ModTime()) {
			return
		}
	}
	h.t.Fatal("the clock for file times does not advance")
}

// startService starts a new process of the service and lets it read until the files have
// settled.
func (h *testHost) startService() (*microshift.Reader, microshift.Snapshot) {
	h.t.Helper()
	r := microshift.NewReader(h.dir, h.units, microshift.NewStateFile(h.state))
	return r, h.readUntilSettled(r)
}

func (h *testHost) readUntilSettled(r *microshift.Reader) microshift.Snapshot {
	h.t.Helper()
	r.Read(h.now)
	h.now = h.now.Add(time.Minute)
	a := r.Read(h.now)
	save(h.t, r)
	return a
}

// save writes the state file if that is necessary.
func save(t *testing.T, r *microshift.Reader) {
	t.Helper()
	if write := r.Unsaved(); write != nil {
		must(t, write())
	}
}

func (h *testHost) expect(when string, a microshift.Snapshot, node string, changed, broken bool) {
	h.t.Helper()
	want := ""
	if changed {
		want = microshift.ConfigFile(h.dir)
	}
	if !a.Known || a.Config.NodeIP != addr(node) || strings.Join(a.ChangedSinceStart, " ") != want || (a.Err != nil) != broken || a.RestoreErr != nil {
		h.t.Errorf("%s: %+v", when, a)
	}
}

// TestStateSurvivesRestarts: the configuration that MicroShift has read stays in force over
// restarts of this service, until MicroShift is started again.
func TestStateSurvivesRestarts(t *testing.T) {
	t.Parallel()
	h := newTestHost(t)
	h.write("node: {nodeIP: 192.0.2.1}\n")
	h.setInvocation("1")
	r, a := h.startService()
	h.expect("at first", a, "192.0.2.1", false, false)
	h.write("node: {nodeIP: 192.0.2.2}\n")
	h.expect("edited", h.readUntilSettled(r), "192.0.2.1", true, false)
	for range 2 {
		r, a = h.startService()
		h.expect("edited, after a restart of the service", a, "192.0.2.1", true, false)
	}
	h.write("node: {nodeIP: 192.0.2.1}\n")
	h.expect("restored", h.readUntilSettled(r), "192.0.2.1", false, false)
	h.write("node: [")
	h.expect("broken", h.readUntilSettled(r), "192.0.2.1", false, true)
	r, a = h.startService()
	h.expect("broken, after a restart of the service", a, "192.0.2.1", false, true)
	h.write("node: {nodeIP: 192.0.2.3}\n")
	h.expect("corrected, and MicroShift has not read it", h.readUntilSettled(r), "192.0.2.1", true, false)
	h.setInvocation("2")
	h.expect("MicroShift is started", h.readUntilSettled(r), "192.0.2.3", false, false)
	_, a = h.startService()
	h.expect("after a restart of the service", a, "192.0.2.3", false, false)

	// MicroShift is started while this service does not run.
	h.write("node: {nodeIP: 192.0.2.4}\n")
	h.setInvocation("3")
	_, a = h.startService()
	h.expect("started in the meantime", a, "192.0.2.4", false, false)
	h.write("node: {nodeIP: 192.0.2.5}\n")
	h.setInvocation("")
	r, a = h.startService()
	h.expect("stopped in the meantime", a, "192.0.2.5", false, false)
	h.write("node: {nodeIP: 192.0.2.6}\n")
	h.expect("edited while it is stopped", h.readUntilSettled(r), "192.0.2.6", false, false)
	_, a = h.startService()
	h.expect("edited while it is stopped, after a restart of the service", a, "192.0.2.6", false, false)
}

// TestStateUsedWhileFilesAreBroken: a start with invalid files keeps the last good
// configuration, which may have been read by another start.
func TestStateUsedWhileFilesAreBroken(t *testing.T) {
	t.Parallel()
	for _, invocation := range []string{"", "2"} {
		h := newTestHost(t)
		h.setInvocation("1")
		h.write("node: {nodeIP: 192.0.2.1}\n")
		_, _ = h.startService()
		h.write("node: [")
		h.setInvocation(invocation)
		_, a := h.startService()
		h.expect("broken", a, "192.0.2.1", false, true)
		r, a := h.startService()
		h.expect("broken, after two restarts", a, "192.0.2.1", false, true)
		h.write("node: {nodeIP: 192.0.2.2}\n")
		h.expect("corrected", h.readUntilSettled(r), "192.0.2.2", false, false)
	}
}

// TestModifiedSinceStartSurvivesRestart: the next process reports files that MicroShift may
// not have read.
func TestModifiedSinceStartSurvivesRestart(t *testing.T) {
	t.Parallel()
	h := newTestHost(t)
	h.setInvocation("1")
	path := microshift.ConfigFile(h.dir)
	must(t, os.WriteFile(path, []byte("node: {nodeIP: 192.0.2.1}\n"), 0o600))
	later := time.Now().Add(time.Hour)
	must(t, os.Chtimes(path, later, later))
	for _, when := range []string{"at first", "again"} {
		_, a := h.startService()
		h.expect(when, a, "192.0.2.1", true, false)
	}
}

// TestStateFile: the state belongs to one directory, only the service can read the file, and
// foreign content is ignored with an error.
func TestStateFile(t *testing.T) {
	t.Parallel()
	h := newTestHost(t)
	h.setInvocation("1")
	const all = `
node: {nodeIP: 192.0.2.1, nodeIPv6: "2001:db8::1"}
network: {clusterNetwork: [10.42.0.0/16, "fd01::/48"], serviceNetwork: [172.30.0.0/16, "fd02::/112"]}
apiServer: {subjectAltNames: [a.example], namedCertificates: [{certPath: /c, keyPath: /k, names: [b.example]}]}
dns: {baseDomain: edge.test}
ingress: {listenAddress: [192.0.2.7, eth0], ports: {http: 8080}}
`
	h.write(all)
	_, before := h.startService()
	path := filepath.Join(h.state, "microshift-in-force.json")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	_, after := h.startService()
	if a, b := fmt.Sprintf("%+v", before.Config), fmt.Sprintf("%+v", after.Config); a != b {
		t.Errorf("before %s\nafter %s", a, b)
	}
	if got := fmt.Sprint(microshift.NewStateFile(h.state).InternalAddresses()); got != "[172.31.0.0 fd02::1:0]" {
		t.Errorf("internal: %s", got)
	}

	other := *h
	other.dir = t.TempDir()
	other.write("node: {nodeIP: 192.0.2.9}\n")
	_, a := other.startService()
	other.expect("another directory", a, "192.0.2.9", false, false)

	h.write("node: {nodeIP: 192.0.2.3}\n")
	for name, text := range map[string]string{
		"truncated": `{"directory": "`, "empty": "", "no sum": `{"directory": "` + h.dir + `", "start": "1"}`,
		"long": strings.Repeat(" ", 8<<20),
	} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		a := microshift.NewReader(h.dir, h.units, microshift.NewStateFile(h.state)).Read(h.now)
		if a.RestoreErr == nil || !strings.Contains(a.RestoreErr.Error(), path) || a.Config.NodeIP != addr("192.0.2.3") {
			t.Errorf("%s: %+v", name, a)
		}
		if microshift.NewStateFile(h.state).InternalAddresses() != nil {
			t.Errorf("%s: internal addresses", name)
		}
	}
	must(t, os.RemoveAll(h.dir))
	must(t, os.Remove(path))
	if _, a := h.startService(); a.Present {
		t.Errorf("%+v", a)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a host without MicroShift's directory is saved")
	}
}
