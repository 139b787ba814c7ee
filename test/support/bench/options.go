// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"io"
	"time"
)

// Options says how much is measured.
type Options struct {
	Binary      string        // the http01-proxyd to measure
	Before      string        // another one, to compare with; none when empty
	Proxies     []string      // keys of the front doors; all when empty
	Connections []int         // wrk's connections, one cell of each round for each
	Rounds      int           // how often every front door has its turn
	Cell        time.Duration // length of one run of wrk, in whole seconds
	WarmUp      time.Duration // wrk before the first cell of a turn, in whole seconds
	HalfHeads   int           // open connections for the second figure of memory; 0 leaves memory out
	Settle      time.Duration // before memory is read
	Pairs       int           // with and without the table, at least two; 0 leaves the API out
	Side        time.Duration // length of one half of a pair
	Progress    io.Writer     // one line for each thing done
}

// Full is what `make bench` measures.
func Full() Options {
	return Options{
		Connections: []int{1, 16, 64, 256},
		Rounds:      7,
		Cell:        3 * time.Second,
		WarmUp:      time.Second,
		HalfHeads:   10000,
		Settle:      3 * time.Second,
		Pairs:       40,
		Side:        500 * time.Millisecond,
		Progress:    io.Discard,
	}
}

// Quick runs every part once, so that a test can.
func Quick() Options {
	return Options{
		Connections: []int{16},
		Rounds:      1,
		Cell:        time.Second,
		HalfHeads:   300,
		Settle:      100 * time.Millisecond,
		Pairs:       3,
		Side:        100 * time.Millisecond,
		Progress:    io.Discard,
	}
}
