// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/suites/hostile/matrix"
	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestSandboxMatrix starts the shipped unit with child processes that try each act of the
// matrix: with the unit's sandbox alone, with Landlock, and with the filter too.
func TestSandboxMatrix(t *testing.T) {
	s := newService(t, true)
	binary, err := lab.BuildServiceWith(t.Context(), "../../suites/hostile/testdata/matrix.go")
	s.requireNoError(err)
	const path = "/usr/local/bin/http01-proxyd-matrix"
	s.requireNoError(s.node.Install(binary, path, 0o755))
	t.Cleanup(func() { s.requireNoError(s.node.RemoveFile(path)) })
	s.systemctl("start", "podman.socket")
	s.runOnCleanup("systemctl", "stop", "podman.socket")
	// An API server that does not answer: the prober that reads its certificate stays.
	listener, err := s.node.Listen(t.Context(), ":6443")
	s.requireNoError(err)
	t.Cleanup(func() { s.requireNoError(listener.Close()) })
	s.configure("metrics:\n  listenAddress: 127.0.0.1:9645\n")
	s.override("ExecStart=\nExecStart=@" + path + " http01-proxyd:matrix run")
	s.systemctl("start", unit)

	got := make(map[string]map[string]matrix.Outcomes)
	s.until("the results of all processes", func(ctx context.Context) error {
		entries, err := s.node.Journal(ctx, unit, s.before)
		if err != nil {
			return err
		}
		got = matrixResults(entries)
		for _, process := range matrix.Processes() {
			if len(got[process]) < len(matrix.Acts()) {
				return fmt.Errorf("%s: %d results", process, len(got[process]))
			}
		}
		return nil
	})
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		abi = 0
	}
	// As go-landlock: version 5 without the fix of signals between threads (erratum 2).
	if errata, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0,
		unix.LANDLOCK_CREATE_RULESET_ERRATA); abi > 5 && (errno != 0 || errata&2 == 0) {
		abi = 5
	}
	for i, process := range matrix.Processes() {
		want := make(map[string]matrix.Outcomes)
		for _, act := range matrix.Acts() {
			want[act.Name] = act.Outcomes(i, int(abi))
		}
		if diff := cmp.Diff(want, got[process]); diff != "" {
			t.Errorf("%s with Landlock %d (-want +got):\n%s", process, abi, diff)
		}
	}
}

// matrixLine is what a child process reports about one act.
var matrixLine = regexp.MustCompile(
	`the (\w+)(?: process)? wrote(?: to its standard error)?: MATRIX: (.+): (\w+) (\w+) (\w+)$`)

// matrixResults returns the outcomes by process and act that are in the journal.
func matrixResults(entries []host.Entry) map[string]map[string]matrix.Outcomes {
	results := make(map[string]map[string]matrix.Outcomes)
	for _, e := range entries {
		m := matrixLine.FindStringSubmatch(e["MESSAGE"])
		if m == nil {
			continue
		}
		if results[m[1]] == nil {
			results[m[1]] = make(map[string]matrix.Outcomes)
		}
		results[m[1]][m[2]] = matrix.Outcomes{Unit: m[3], Landlock: m[4], Filter: m[5]}
	}
	return results
}
