// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCountCalls counts the calls of a real process and of a child that it starts later.
func TestCountCalls(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: tracepoints")
	}
	points, err := findTracepoints(t.TempDir())
	must(t, err)
	// The shell reads one byte at a time from a pipe, and head reads once.
	shell := exec.CommandContext(t.Context(), "sh", "-c", "read line; head -c 1 /dev/zero; read line || :")
	input, err := shell.StdinPipe()
	must(t, err)
	output, err := shell.StdoutPipe()
	must(t, err)
	must(t, shell.Start())
	counter, err := countCalls(points, shell.Process.Pid)
	must(t, err)
	defer func() { must(t, counter.close()) }()
	_, err = io.WriteString(input, "eight b\n")
	must(t, err)
	_, err = io.ReadFull(output, make([]byte, 1)) // head has written
	must(t, err)
	must(t, input.Close())
	must(t, shell.Wait())
	got, err := counter.read()
	must(t, err)
	// The dynamic loader of head reads too. head writes once.
	if got["write"] != 1 || got["read"] < 9 || got["accept4"] != 0 || got[allCalls] < got["read"]+got["write"] {
		t.Errorf("%v", got)
	}
}

func TestCallsPerRequest(t *testing.T) {
	before := calls{allCalls: 1000, "read": 400, "write": 200, "futex": 1, "close": 50}
	after := calls{allCalls: 1700, "read": 600, "write": 300, "futex": 2, "close": 350}
	got := callsPerRequest(before, after, 100)
	if diff := cmp.Diff(calls{allCalls: 7, "read": 2, "write": 1, "futex": 0.01, "close": 3}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text := got.describe(); text != "close 3.00, read 2.00, write 1.00, other 1.00" {
		t.Errorf("%q", text)
	}
	if got := callsPerRequest(before, after, 0); len(got) != 0 {
		t.Errorf("without requests: %v", got)
	}
}
