// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// fakeOC lists two nodes. master0 prints a good document, and master1 the one of the attack.
const fakeOC = `#!/bin/sh
dir=${0%/*}
case "$1 $3" in
"get "*) echo '{"kind": "List", "items": [{"metadata": {"name": "master0"}}, {"metadata": {"name": "master1"}}]}' ;;
"debug node/master0") case "$*" in *" trace "*) exec cat "$dir/attack" ;; *) exec cat "$dir/good" ;; esac ;;
"debug node/master1") exec cat "$dir/attack" ;;
esac
`

// measureVariable makes this program run another one, and print the peak of its memory in KiB.
// The kernel counts the memory of the process that starts a program for the program too, and
// the tests use much memory.
const measureVariable = "HTTP01_PROXYD_MEASURE"

func measure(program string, args ...string) {
	const far = 8 << 30 // above the limit of the test, and less than a machine has
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: far, Max: far}); err != nil {
		panic(err)
	}
	c := exec.CommandContext(context.Background(), program, args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stdout
	_ = c.Run() // the exit code reports the state of the cluster
	fmt.Fprint(os.Stderr, c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
}

// TestHostileNodes: a node that answers the administrator's tool takes at most 64 MiB of memory there, and
// the answers of the other nodes are shown.
func TestHostileNodes(t *testing.T) {
	tool, err := lab.BuildCommand(t.Context(), "oc-http01")
	must(t, err)
	const condition = `{"type": "HTTP01ChallengeProxyReady", "status": "True", "reason": "Serving", "message": "m", ` +
		`"lastTransitionTime": "2026-01-02T03:04:05Z"}`
	const status, check = `{"kind": "Status", "conditions": [` + condition, `{"kind": "Check", "outcome": "ok", "checks": [`
	const holder = status + `], "vips": [{"address": "192.0.2.5", "state": "Held"}]}`
	self, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "oc"), []byte(fakeOC), 0o700))
	run := func(good, attack string, args ...string) (peak int64, output string) {
		must(t, os.WriteFile(filepath.Join(dir, "good"), []byte(good), 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "attack"), []byte(attack), 0o600))
		c := exec.CommandContext(t.Context(), self, append([]string{tool}, args...)...)
		c.Env = append(os.Environ(), "PATH="+dir+":/usr/bin:/bin", "GOGC=100", measureVariable+"=1")
		var out, measured bytes.Buffer
		c.Stdout, c.Stderr = &out, &measured
		must(t, c.Run())
		peak, err := strconv.ParseInt(measured.String(), 10, 64)
		must(t, err)
		return peak, out.String()
	}
	honest, _ := run(holder, holder, "status", "-o", "html")

	list := func(value string, size int) string { return value + strings.Repeat(","+value, size/(1+len(value))-1) }
	numbered := func(form string, n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(form, i)
		}
		return strings.Join(all, ",")
	}
	const below, above = 1000 << 10, 4 << 20 // of 1 MiB
	attacks := map[string]map[string]string{
		"status": {
			"requests": status + `], "traffic": {"requests": [` +
				numbered(`{"outcome": "%[1]x", "clientKind": "%[1]x", "count": 1}`, 10000) + "]}}",
			"keys":   status + `], "challenges": {"rejected": {` + numbered(`"%x": 1`, 60000) + "}}}",
			"text":   status + `], "certificates": [{"error": "` + strings.Repeat("'", below) + `"}]}`,
			"zone":   status + `], "vips": [{"address": "fe80::1%` + strings.Repeat("z", below-9000) + `"}` + strings.Repeat(`,{"address": "fe80::1", "state": "Held"}`, 90) + "]}",
			"lines":  strings.Repeat("a\n", below/2),
			"starts": strings.Repeat("{\"a\":\n", 100) + "[" + list("1", below),
		},
		"check": {
			"checks": check + list(`{"name": "a"}`, below) + "]}",
			"empty":  `{"kind": "Check", "outcome": "ok", "incomplete": [` + list(`""`, below) + "]}",
			"long":   `{"kind": "Check", "outcome": "ok", "incomplete": [` + list(`""`, above) + "]}",
		},
		"trace": {
			"packets": `{"kind": "Trace", "packets": [` + list("{}", 2*below) + "]}",
			"steps": `{"kind": "Trace", "packets": [{"steps": [{"chain": "` + strings.Repeat("x", below) + `"},` +
				list("{}", below-1000) + "]}]}",
		},
	}
	for _, name := range []string{"certificates", "conditions", "history", "upstreams", "selfTests", "vipTests"} {
		begin := status + `], "` + name + `": [`
		if name == "conditions" {
			begin = status + ","
		}
		attacks["status"][name] = begin + list("{}", below) + "]}"
		attacks["status"]["long "+name] = begin + list("{}", above) + "]}"
	}
	highest := honest
	for command, documents := range attacks {
		formats, good := []string{"wide", "json", "yaml"}, holder
		switch command {
		case "status":
			formats = []string{"wide", "json", "html"}
		case "check":
			formats, good = []string{"text", "json"}, check+"]}"
		}
		for name, document := range documents {
			for _, format := range formats {
				peak, out := run(good, document, command, "-o", format)
				highest = max(highest, peak)
				if most := honest + 64<<10; peak > most {
					t.Errorf("%s -o %s, %s: %d KiB, more than %d", command, format, name, peak, most)
				}
				if !strings.Contains(out, "master0") {
					t.Errorf("%s -o %s, %s: the other node is not shown: %.2000s", command, format, name, out)
				}
			}
		}
	}
	t.Logf("an honest node takes %d KiB, a hostile one at most %d", honest, highest)
}
