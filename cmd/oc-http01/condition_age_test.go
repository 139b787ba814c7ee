// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

// holderReport is the report of a host that serves the VIP. Without a time it is a
// report of an earlier version.
func holderReport(reported time.Time) string {
	own := ""
	if !reported.IsZero() {
		own = fmt.Sprintf(`"time": %q, `, reported.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf(`{%s"conditions": [{"type": "HTTP01ChallengeProxyReady", "status": "True", "reason": "Serving", "message": "m",
"lastTransitionTime": "2026-01-02T03:04:05Z"}], "vips": [{"address": "192.0.2.5", "family": "IPv4", "state": "Held"}]}`, own)
}

// TestReportAge: the age of a report comes from its own time, or from its file if the
// time is missing or in the future.
func TestReportAge(t *testing.T) {
	t.Parallel()
	const good, ahead = "192.0.2.5 is held and served by m0; 1 host has reported\n", "192.0.2.5 is held and served by m0; the report of m0 is from "
	now := time.Now()
	old := func(by time.Duration) time.Time { return now.Add(-by) }
	for name, tt := range map[string]struct {
		reported, written time.Time
		flags             []string
		code              int
		want              string
	}{
		"new":                      {now, now, nil, cli.OK, ": " + good},
		"new, in an old file":      {now, old(time.Hour), nil, cli.OK, ": " + good},
		"old":                      {old(time.Hour + 2*time.Minute), now, nil, cli.Unknown, "=Unknown (NotReachable) since " + old(57*time.Minute).UTC().Format("2006-01-02T15:04") + "*: the report of m0 is from * ago: query the host again, *; 0 of 1 hosts have reported\n"},
		"of earlier":               {old(2 * time.Minute), now, nil, cli.OK, ": " + good},
		"of earlier, too old":      {old(2 * time.Minute), now, []string{"--max-age", "1m"}, cli.Unknown, ": the report of m0 is from *, 2m*s ago: query the host again, "},
		"old, and it may be":       {old(time.Hour), now, []string{"--max-age", "2h"}, cli.OK, ": " + good},
		"however old":              {old(900 * time.Hour), now, []string{"--max-age", "0"}, cli.OK, ": " + good},
		"of no time":               {time.Time{}, now, nil, cli.OK, ": " + good},
		"of no time, in an old":    {time.Time{}, old(time.Hour), nil, cli.Unknown, ": the report of m0 is from *, 1h0m*s ago: query the host again, "},
		"of later":                 {old(-time.Hour), now, nil, cli.OK, ": " + ahead + "*: its clock is ahead by *, or the clock of this machine is behind; 1 host has reported\n"},
		"of later, in an old file": {old(-time.Hour), old(time.Hour), nil, cli.Unknown, ": the report of m0 is from *, 1h0m*s ago: query the host again, *; the report of m0 is from *: its clock is ahead by *, "},
	} {
		path := filepath.Join(t.TempDir(), "status-m0.json")
		must(t, os.WriteFile(path, []byte(holderReport(tt.reported)), 0o600))
		must(t, os.Chtimes(path, tt.written, tt.written))
		got := runLine(t, "", append(append([]string{"condition", "-o", "text"}, tt.flags...), path)...)
		if got.code != tt.code || got.err != "" || !inOrder(got.out, tt.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// inOrder reports whether the text contains the pieces between the stars, in that
// order.
func inOrder(text, pieces string) bool {
	for piece := range strings.SplitSeq(pieces, "*") {
		_, rest, found := strings.Cut(text, piece)
		if !found {
			return false
		}
		text = rest
	}
	return true
}

// failingWriter behaves like a full disk.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// TestOutputFails: a condition that cannot be printed has a separate exit code.
func TestOutputFails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "status-m0.json")
	must(t, os.WriteFile(path, []byte(holderReport(time.Now())), 0o600))
	var reported strings.Builder
	code := cli.Execute(t.Context(), rootCommand(), []string{"condition", path}, cli.Streams{Out: failingWriter{}, Err: &reported})
	if want := "oc http01 condition: cannot print the condition: short write\n"; code != cli.Failure || reported.String() != want {
		t.Errorf("exit code %d: %s", code, &reported)
	}
}
