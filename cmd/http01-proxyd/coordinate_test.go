// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCoordinate: what the lines of the coordinator release, and that the check waits for no
// other than it announced.
func TestCoordinate(t *testing.T) {
	t.Parallel()
	closed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	const begin, limit = time.Second, time.Minute
	type state struct{ Trace, Test, End bool }
	for name, tt := range map[string]struct {
		lines  string
		silent bool // the input stays open
		alone  bool
		want   state
	}{
		"closed":                 {"", false, true, state{}},
		"silent":                 {"", true, true, state{}},
		"another program":        {"hello\n", true, true, state{}},
		"begin":                  {"begin\n", true, false, state{}},
		"a holder":               {"begin\ntrace\n", true, false, state{Trace: true}},
		"the test":               {"begin\ntrace\ntest\n", true, false, state{Trace: true, Test: true}},
		"the end":                {"begin\ntrace\ntest\nend\n", true, false, state{true, true, true}},
		"no holder":              {"begin\ntest\n", true, false, state{Trace: true, Test: true}},
		"the end alone":          {"begin\nend\n", true, false, state{true, true, true}},
		"the coordinator leaves": {"begin\n", false, false, state{Trace: true, Test: true}},
		"a repeated line":        {"begin\n" + strings.Repeat("trace\n", 2), true, false, state{Trace: true, Test: true}},
		"an unknown line":        {"begin\nstop\nend\n", true, false, state{Trace: true, Test: true}},
		"a long line": {
			"begin\n" + strings.Repeat("x", 100) + "end\n", true, false,
			state{Trace: true, Test: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				in, w := io.Pipe()
				go func() {
					_, _ = io.WriteString(w, tt.lines)
					if !tt.silent {
						w.Close()
					}
				}()
				defer in.Close()
				var out strings.Builder
				c := coordinate(in, &out, begin, limit)
				if (c == nil) != tt.alone {
					t.Fatalf("%+v", c)
				}
				if c == nil {
					return
				}
				synctest.Wait()
				if got := (state{closed(c.Trace), closed(c.Test), closed(c.End)}); got != tt.want {
					t.Errorf("%+v, want %+v", got, tt.want)
				}
				<-time.After(limit)
				synctest.Wait()
				if !closed(c.Trace) || !closed(c.Test) || closed(c.End) != tt.want.End {
					t.Error("the check waits longer than the coordinator has announced")
				}
				c.Started([]netip.Addr{netip.MustParseAddr("192.0.2.5")})
				c.Tracing()
				if diff := cmp.Diff("{\"kind\":\"CheckStarted\",\"holds\":[\"192.0.2.5\"]}\n{\"kind\":\"CheckTracing\"}\n",
					out.String()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}
