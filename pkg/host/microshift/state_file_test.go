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

// savedState is a host whose service is started over and over.
type savedState struct {
	t                 *testing.T
	dir, units, state string
	now               time.Time
}

func newTestHost(t *testing.T) *savedState {
	t.Helper()
	return &savedState{t: t, dir: t.TempDir(), units: t.TempDir(), state: filepath.Join(t.TempDir(), "state"), now: time.Now()}
}

func (k *savedState) write(text string) {
	k.t.Helper()
	path := microshift.ConfigFile(k.dir)
	must(k.t, os.WriteFile(path, []byte(text), 0o600))
	old := time.Now().Add(-time.Hour) // before any start
	must(k.t, os.Chtimes(path, old, old))
}

// starts has MicroShift run by an invocation; "" is none.
func (k *savedState) starts(invocation string) {
	k.t.Helper()
	link := filepath.Join(k.units, "invocation:microshift.service")
	_ = os.Remove(link)
	if invocation == "" {
		return
	}
	must(k.t, os.Symlink(invocation, link))
	k.ticks(link)
}

// ticks goes on until what is written has a later time than a link: the kernel's clock
// for files stands still for some milliseconds.
func (k *savedState) ticks(link string) {
	k.t.Helper()
	was, err := os.Lstat(link)
	must(k.t, err)
	tick := filepath.Join(k.units, "tick")
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		must(k.t, os.WriteFile(tick, []byte(time.Now().String()), 0o600))
		if is, err := os.Stat(tick); err != nil {
			k.t.Fatal(err)
		} else if is.ModTime().After(was.ModTime()) {
			return
		}
	}
	k.t.Fatal("the clock for files stands still")
}

// run is a new process of the service, that looks at the host until nothing waits.
func (k *savedState) run() (*microshift.Reader, microshift.Snapshot) {
	k.t.Helper()
	r := microshift.NewReader(k.dir, k.units, microshift.NewStateFile(k.state))
	return r, k.look(r)
}

func (k *savedState) look(r *microshift.Reader) microshift.Snapshot {
	k.t.Helper()
	r.Read(k.now)
	k.now = k.now.Add(time.Minute)
	a := r.Read(k.now)
	must(k.t, r.Save())
	return a
}

func (k *savedState) is(when string, a microshift.Snapshot, node string, changed, broken bool) {
	k.t.Helper()
	want := ""
	if changed {
		want = microshift.ConfigFile(k.dir)
	}
	if !a.Known || a.Config.NodeIP != addr(node) || strings.Join(a.ChangedSinceStart, " ") != want || (a.Err != nil) != broken || a.RestoreErr != nil {
		k.t.Errorf("%s: %+v", when, a)
	}
}

// TestStateSurvivesRestarts: what MicroShift has read stays in force over the service's own
// restarts, until MicroShift is started anew.
func TestStateSurvivesRestarts(t *testing.T) {
	t.Parallel()
	k := newTestHost(t)
	k.write("node: {nodeIP: 192.0.2.1}\n")
	k.starts("1")
	r, a := k.run()
	k.is("at first", a, "192.0.2.1", false, false)
	k.write("node: {nodeIP: 192.0.2.2}\n")
	k.is("edited", k.look(r), "192.0.2.1", true, false)
	for range 2 {
		r, a = k.run()
		k.is("edited, and the service is another", a, "192.0.2.1", true, false)
	}
	k.write("node: {nodeIP: 192.0.2.1}\n")
	k.is("as it was", k.look(r), "192.0.2.1", false, false)
	k.write("node: [")
	k.is("broken", k.look(r), "192.0.2.1", false, true)
	r, a = k.run()
	k.is("broken, and the service is another", a, "192.0.2.1", false, true)
	k.write("node: {nodeIP: 192.0.2.3}\n")
	k.is("mended, and MicroShift has not read it", k.look(r), "192.0.2.1", true, false)
	k.starts("2")
	k.is("MicroShift is started", k.look(r), "192.0.2.3", false, false)
	_, a = k.run()
	k.is("and the service is another", a, "192.0.2.3", false, false)

	// It is started while the service is not there.
	k.write("node: {nodeIP: 192.0.2.4}\n")
	k.starts("3")
	_, a = k.run()
	k.is("started meanwhile", a, "192.0.2.4", false, false)
	k.write("node: {nodeIP: 192.0.2.5}\n")
	k.starts("")
	r, a = k.run()
	k.is("stopped meanwhile", a, "192.0.2.5", false, false)
	k.write("node: {nodeIP: 192.0.2.6}\n")
	k.is("edited while it is stopped", k.look(r), "192.0.2.6", false, false)
	_, a = k.run()
	k.is("that, and the service is another", a, "192.0.2.6", false, false)
}

// TestStateUsedWhileFilesAreBroken: a start that finds files broken goes on with the last good ones,
// whoever has read them.
func TestStateUsedWhileFilesAreBroken(t *testing.T) {
	t.Parallel()
	for _, invocation := range []string{"", "2"} {
		k := newTestHost(t)
		k.starts("1")
		k.write("node: {nodeIP: 192.0.2.1}\n")
		_, _ = k.run()
		k.write("node: [")
		k.starts(invocation)
		_, a := k.run()
		k.is("broken", a, "192.0.2.1", false, true)
		r, a := k.run()
		k.is("broken, and once more", a, "192.0.2.1", false, true)
		k.write("node: {nodeIP: 192.0.2.2}\n")
		k.is("mended", k.look(r), "192.0.2.2", false, false)
	}
}

// TestModifiedSinceStartSurvivesRestart: files that may not have been read are told of by the next process.
func TestModifiedSinceStartSurvivesRestart(t *testing.T) {
	t.Parallel()
	k := newTestHost(t)
	k.starts("1")
	path := microshift.ConfigFile(k.dir)
	must(t, os.WriteFile(path, []byte("node: {nodeIP: 192.0.2.1}\n"), 0o600))
	later := time.Now().Add(time.Hour)
	must(t, os.Chtimes(path, later, later))
	for _, when := range []string{"at first", "again"} {
		_, a := k.run()
		k.is(when, a, "192.0.2.1", true, false)
	}
}

// TestStateFile: what is kept is of one directory, for the service's eyes alone, and
// what is none of ours is passed over with a word.
func TestStateFile(t *testing.T) {
	t.Parallel()
	k := newTestHost(t)
	k.starts("1")
	const all = `
node: {nodeIP: 192.0.2.1, nodeIPv6: "2001:db8::1"}
network: {clusterNetwork: [10.42.0.0/16, "fd01::/48"], serviceNetwork: [172.30.0.0/16, "fd02::/112"]}
apiServer: {subjectAltNames: [a.example], namedCertificates: [{certPath: /c, keyPath: /k, names: [b.example]}]}
dns: {baseDomain: edge.test}
ingress: {listenAddress: [192.0.2.7, eth0], ports: {http: 8080}}
`
	k.write(all)
	_, before := k.run()
	path := filepath.Join(k.state, "microshift-in-force.json")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	_, after := k.run()
	if a, b := fmt.Sprintf("%+v", before.Config), fmt.Sprintf("%+v", after.Config); a != b {
		t.Errorf("before %s\nafter %s", a, b)
	}
	if got := fmt.Sprint(microshift.NewStateFile(k.state).InternalAddresses()); got != "[172.31.0.0 fd02::1:0]" {
		t.Errorf("internal: %s", got)
	}

	other := *k
	other.dir = t.TempDir()
	other.write("node: {nodeIP: 192.0.2.9}\n")
	_, a := other.run()
	other.is("another directory", a, "192.0.2.9", false, false)

	k.write("node: {nodeIP: 192.0.2.3}\n")
	for name, text := range map[string]string{
		"cut short": `{"directory": "`, "empty": "", "no sum": `{"directory": "` + k.dir + `", "start": "1"}`,
		"long": strings.Repeat(" ", 8<<20),
	} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		a := microshift.NewReader(k.dir, k.units, microshift.NewStateFile(k.state)).Read(k.now)
		if a.RestoreErr == nil || !strings.Contains(a.RestoreErr.Error(), path) || a.Config.NodeIP != addr("192.0.2.3") {
			t.Errorf("%s: %+v", name, a)
		}
		if microshift.NewStateFile(k.state).InternalAddresses() != nil {
			t.Errorf("%s: internal addresses", name)
		}
	}
	must(t, os.RemoveAll(k.dir))
	must(t, os.Remove(path))
	if _, a := k.run(); a.Present {
		t.Errorf("%+v", a)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a host without MicroShift's directory is kept")
	}
}
