// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// beginTimeout is the time in which the first line must arrive: the coordinator writes it
// before the pod starts, and oc passes it on when it reads the output of the pod. An earlier
// event would be lost.
const beginTimeout = 10 * time.Second

// Limits of the input.
const (
	maxLines = 4
	maxLine  = 64
)

// coordinate follows the lines of `oc http01 check` on in, and writes events to out. It returns
// nil if nobody coordinates this check. The coordinator must send each line within limit.
func coordinate(in io.Reader, out io.Writer, begin, limit time.Duration) *diagnose.Coordination {
	lines := make(chan string, maxLines)
	go readLines(in, lines)
	select {
	case line := <-lines:
		if line != report.CheckBegin {
			return nil
		}
	case <-time.After(begin):
		return nil
	}
	steps := []chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	go followLines(lines, limit, steps)
	send := func(kind string, holds []netip.Addr) {
		// A coordinator that left gets no document either.
		_ = report.WriteJSON(out, report.CheckEvent{Kind: kind, Holds: holds}, false)
	}
	return &diagnose.Coordination{
		Started: func(held []netip.Addr) { send(report.CheckStarted, held) },
		Tracing: func() { send(report.CheckTracing, nil) },
		Trace:   steps[0], Test: steps[1], End: steps[2],
	}
}

// followLines closes the channel of each line, and of the lines that were left out before it.
// At the end of the lines, or if one is late, unknown or repeated, it closes all but the last:
// the check must not wait for a coordinator that left.
func followLines(lines <-chan string, limit time.Duration, steps []chan struct{}) {
	order := []string{report.CheckTrace, report.CheckTest, report.CheckEnd}
	next := 0
	closeUpTo := func(last int) {
		for ; next <= last; next++ {
			close(steps[next])
		}
	}
	for next < len(order) {
		var line string
		select {
		case line = <-lines:
		case <-time.After(limit):
		}
		at := slices.Index(order, line)
		if at < next {
			break
		}
		closeUpTo(at)
	}
	closeUpTo(slices.Index(order, report.CheckTest))
}

// readLines sends lines until the input ends or exceeds a limit.
func readLines(in io.Reader, lines chan<- string) {
	defer close(lines)
	r := bufio.NewReaderSize(in, maxLine)
	for range maxLines {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		lines <- strings.TrimSuffix(string(line), "\n")
	}
}
