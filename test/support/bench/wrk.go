// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	_ "embed"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

//go:embed oneshot.lua
var oneshot string

// host is the host name of the requests, as in oneshot.lua.
const host = "api.lab.test"

// load is the result of one run of wrk.
type load struct {
	requests int           // answered, whatever the status
	elapsed  time.Duration // of the whole run
	p50, p99 time.Duration
	p999     time.Duration
	errors   int // connections refused or broken, timeouts, and statuses of 400 and above
}

// rate returns successful requests a second.
func (l load) rate() float64 { return float64(l.good()) / l.elapsed.Seconds() }

func (l load) p50ms() float64  { return ms(l.p50) }
func (l load) p99ms() float64  { return ms(l.p99) }
func (l load) p999ms() float64 { return ms(l.p999) }

func (l load) good() int { return max(l.requests-l.errors, 0) }

// parseLoad parses the output of oneshot.lua.
func parseLoad(text string) (load, error) {
	values := map[string]int{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != "bench" {
			continue
		}
		n, err := strconv.Atoi(words[2])
		if err != nil {
			return load{}, fmt.Errorf("read wrk's %s: %w", words[1], err)
		}
		values[words[1]] = n
	}
	for _, name := range []string{"requests", "microseconds", "p50", "p99", "p999", "connect", "read", "write", "status", "timeout"} {
		if _, ok := values[name]; !ok {
			return load{}, fmt.Errorf("wrk did not print %s; it printed:\n%s", name, text)
		}
	}
	if values["microseconds"] == 0 {
		return load{}, fmt.Errorf("wrk ran for no time; it printed:\n%s", text)
	}
	us := func(name string) time.Duration { return time.Duration(values[name]) * time.Microsecond }
	return load{
		requests: values["requests"], elapsed: us("microseconds"),
		p50: us("p50"), p99: us("p99"), p999: us("p999"),
		errors: values["connect"] + values["read"] + values["write"] + values["status"] + values["timeout"],
	}, nil
}

// runWrk runs wrk against an address from a node. The row of the kernel's DNAT shows the
// limit of the client.
func runWrk(ctx context.Context, n *lab.Node, script string, at netip.Addr, connections int, length time.Duration, seed int) (load, error) {
	text, err := n.Run(ctx, "wrk", "--threads", strconv.Itoa(min(connections, 2)), "--connections", strconv.Itoa(connections),
		"--duration", fmt.Sprintf("%ds", int(length.Seconds())), "--timeout", "10s",
		"--script", script, "http://"+at.String()+"/", "--", strconv.Itoa(seed))
	if err != nil {
		return load{}, fmt.Errorf("load %s: %w", at, err)
	}
	return parseLoad(text)
}
