// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// host is the host name of the requests, as in client.c.
const host = "api.lab.test"

// load is the result of one run of the client.
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

// parseLoad parses the output of client.c.
func parseLoad(text string) (load, error) {
	values := map[string]int{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != "bench" {
			continue
		}
		n, err := strconv.Atoi(words[2])
		if err != nil {
			return load{}, fmt.Errorf("read the client's %s: %w", words[1], err)
		}
		values[words[1]] = n
	}
	for _, name := range []string{
		"requests", "microseconds", "p50", "p99", "p999", "connect", "read", "status", "timeout",
	} {
		if _, ok := values[name]; !ok {
			return load{}, fmt.Errorf("the client did not print %s; it printed:\n%s", name, text)
		}
	}
	if values["microseconds"] == 0 {
		return load{}, fmt.Errorf("the client ran for no time; it printed:\n%s", text)
	}
	us := func(name string) time.Duration { return time.Duration(values[name]) * time.Microsecond }
	return load{
		requests: values["requests"], elapsed: us("microseconds"),
		p50: us("p50"), p99: us("p99"), p999: us("p999"),
		errors: values["connect"] + values["read"] + values["status"] + values["timeout"],
	}, nil
}

// runClient runs the client against a port of the VIP with a number of connections at a time.
// The row of the kernel's DNAT shows the limit of the client.
func (r *rig) runClient(ctx context.Context, port, connections int, length time.Duration, seed int) (load, error) {
	text, err := r.client.Run(ctx, r.programs[clientProgram], r.vip.String(), strconv.Itoa(port),
		strconv.Itoa(connections),
		strconv.FormatInt(length.Milliseconds(), 10), strconv.Itoa(seed))
	if err != nil {
		return load{}, fmt.Errorf("load %s: %w", r.vip, err)
	}
	return parseLoad(text)
}
