// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// detail is longer than a line of any terminal in these tests.
var detail = strings.Repeat("the router has no route for this name; ", 6) + "end of the detail"

// reports returns reports with 20 challenges, and counts the requests.
func reports() func() report.Report {
	var asked atomic.Int64
	b := tracker.New("v1", time.Now(), func(_, _ report.Condition) {})
	b.SetReconcileResult(tracker.ReconcileResult{Reason: report.Serving, Message: "holds 192.0.2.5"}, time.Now())
	for i := range 20 {
		b.RecordChallenge(report.Challenge{
			Time: time.Now(), ClientKind: report.CertManager, Host: "api" + strconv.Itoa(i) + ".example.com", Status: 503,
			Cause: "response-status", Detail: detail,
		})
	}
	return func() report.Report {
		r := b.Report(report.Table{})
		r.Conditions[0].Message = "request " + strconv.FormatInt(asked.Add(1), 10) + " of this test"
		return r
	}
}

const anyColour = "\x1b[3"

// TestStatusOnTerminal: colours and wrapped lines are for terminals only.
func TestStatusOnTerminal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		terminal     bool
		env          []string
		flags        string
		colour, fits bool
	}{
		"terminal":       {true, nil, "", true, true},
		"NO_COLOR":       {true, []string{"NO_COLOR=1"}, "", false, true},
		"dumb terminal":  {true, []string{"TERM=dumb"}, "", false, true},
		"no colour":      {true, nil, "--color never", false, true},
		"wide":           {true, nil, "-o wide", true, false},
		"pipe":           {false, nil, "", false, false},
		"colour in pipe": {false, []string{"NO_COLOR=1"}, "--color=always", true, false},
		"width in pipe":  {false, nil, "--width 100", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			defer s.start(reports())()
			var p *pty
			if tt.terminal {
				p = newPTY(t)
			}
			code, out := launch(t, p, tt.env, append(strings.Fields(tt.flags), "--status-socket", s.path)...).exit()
			if code != cli.OK {
				t.Errorf("exit code %d", code)
			}
			if got := strings.Contains(out, anyColour); got != tt.colour || (!tt.colour && strings.Contains(out, "\x1b")) {
				t.Errorf("colours: %v, want %v:\n%q", got, tt.colour, out)
			}
			if wide := strings.Contains(tt.flags, "wide"); wide != strings.Contains(out, "api0.example.com") ||
				!strings.Contains(out, "api19.example.com") {
				t.Errorf("the last challenge, and all of them with -o wide, have to be there:\n%s", out)
			}
			if got := strings.Contains(out, detail); got == tt.fits {
				t.Errorf("a whole detail in one line: %v\n%s", got, out)
			}
		})
	}
}

// TestWatchOnTerminal: the terminal is in its normal state after every signal. The service
// may stop and start again, and a new size is used at the next interval.
func TestWatchOnTerminal(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]os.Signal{"Ctrl-C": unix.SIGINT, "terminated": unix.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			stop := s.start(reports())
			terminal := newPTY(t)
			w := launch(t, terminal, nil, "--status-socket", s.path, "--watch", "--interval", "200ms")
			at := w.await(0, "request 2 of")
			at = w.await(at, "request 3 of")
			stop()
			at = w.await(at, "NotRunning")
			defer s.start(reports())()
			at = w.await(at, "request 2 of")
			terminal.resize(60, 12)
			at = w.await(at, " more lines")
			terminal.resize(200, 60)
			w.await(at, "api18.example.com")
			w.signal(end)
			code, out := w.exit()
			if code != cli.OK {
				t.Errorf("exit code %d", code)
			}
			if drawn := strings.Count(out, cli.DisableWrap); drawn < 5 || strings.Count(out, cli.EnableWrap) != drawn {
				t.Errorf("drawn %d times, restored %d times", drawn, strings.Count(out, cli.EnableWrap))
			}
			if !strings.HasPrefix(strings.TrimLeft(out, "\r\n"), cli.DisableWrap+cli.CursorHome) ||
				!strings.HasSuffix(out, cli.EnableWrap+"\r\r\n") {
				t.Errorf("it begins with %.40q and ends with %q", out, out[max(0, len(out)-40):])
			}
			if strings.Contains(out, "\x1b[2J") || strings.Contains(out, cli.CursorHome+cli.ClearBelow) {
				t.Error("it flickers: the screen is emptied before it is drawn")
			}
		})
	}
}

// TestWatchToPipe: blocks with an empty line between them, without control sequences.
func TestWatchToPipe(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*pty{"pipe": nil, "dumb terminal": newPTY(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			stop := s.start(reports())
			w := launch(t, p, []string{"TERM=dumb"}, "--status-socket", s.path, "--watch", "--interval", "200ms")
			at := w.await(0, "request 2 of")
			stop()
			w.await(at, "✗ NotRunning for ")
			w.signal(unix.SIGTERM)
			code, out := w.exit()
			if code != cli.OK || strings.Contains(out, "\x1b") || strings.Contains(out, "\n\n\n") {
				t.Errorf("exit code %d:\n%q", code, out)
			}
			out = strings.ReplaceAll(out, "\r", "")
			if first, later := strings.HasPrefix(out, "State:"), strings.Count(out, "\n\nState:"); !first ||
				later != strings.Count(out, "State:")-1 {
				t.Errorf("the first block begins the output: %v; behind an empty line: %d:\n%s", first, later, out)
			}
		})
	}
}

// TestWatchYAML: a stream of documents.
func TestWatchYAML(t *testing.T) {
	t.Parallel()
	s := newService(t)
	defer s.start(reports())()
	w := launch(t, nil, nil, "--status-socket", s.path, "--watch", "--interval", "200ms", "-o", "yaml")
	w.await(0, "message: request 2 of")
	w.signal(unix.SIGTERM)
	code, out := w.exit()
	const begin = "---\napiVersion: "
	if code != cli.OK || !strings.HasPrefix(out, begin) || strings.Count(out, begin) != strings.Count(out,
		"kind: Status\n") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// TestWatchJSON: one line per update, of the same form with and without a service.
func TestWatchJSON(t *testing.T) {
	t.Parallel()
	s := newService(t)
	stop := s.start(reports())
	w := launch(t, nil, nil, "--status-socket", s.path, "--watch", "--interval", "200ms", "-o", "json")
	at := w.await(0, "request 2 of")
	stop()
	w.await(at, `"reason":"NotRunning"`)
	w.signal(unix.SIGTERM)
	code, out := w.exit()
	if code != cli.OK {
		t.Errorf("exit code %d", code)
	}
	var seen []string
	for line := range strings.Lines(out) {
		var fields map[string]json.RawMessage
		var r report.Report
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for _, list := range []string{"conditions", "vips", "upstreams"} {
			if string(fields[list])[0] != '[' {
				t.Errorf("%s is %s", list, fields[list])
			}
		}
		if c := r.Condition(); len(seen) == 0 || seen[len(seen)-1] != c.Status {
			seen = append(seen, c.Status)
		}
	}
	if got := strings.Join(seen, " "); got != "True Unknown" {
		t.Errorf("conditions: %s", got)
	}
}

// TestWatchBounds: limits of --interval, which requires --watch.
func TestWatchBounds(t *testing.T) {
	t.Parallel()
	nobody := filepath.Join(t.TempDir(), "none.sock")
	for line, want := range map[string]string{
		"-w --interval 100ms":   "use 200ms to 1h;",
		"-w --interval 1h0m1s":  "use 200ms to 1h;",
		"--interval 5s":         "--interval requires --watch",
		"-w --interval often":   `invalid argument "often" for "--interval"`,
		"-w -o prometheus":      "-o prometheus cannot be used with --watch",
		"-w --interval 5s -o x": "use text, wide, json, yaml, html or prometheus",
	} {
		var out, err strings.Builder
		args := append([]string{"status", "--status-socket", nobody}, strings.Fields(line)...)
		if code := cli.Execute(t.Context(), rootCommand(), args, cli.Streams{Out: &out, Err: &err}); code != cli.Usage ||
			!strings.Contains(err.String(), want) {
			t.Errorf("%s: exit code %d, %s", line, code, &err)
		}
	}
}
