// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"io"
	"time"
)

// Options selects what is measured.
type Options struct {
	Binary      string        // the http01-proxyd to measure
	Before      string        // another binary to compare with; none when empty
	Proxies     []string      // keys of the proxies; all when empty
	Connections []int         // numbers of the client's connections, one run for each in every round
	Rounds      int           // number of rounds
	Cell        time.Duration // duration of one run of the client
	WarmUp      time.Duration // duration of the load before the first run
	HalfHeads   int           // open connections for the second memory figure; 0 skips memory
	Settle      time.Duration // delay before memory is read
	Pairs       int           // pairs with and without the table, at least two; 0 skips the API
	Side        time.Duration // duration of one side of a pair
	Progress    io.Writer     // progress output
}

// Full returns the options of `make bench`, which take half an hour.
func Full() Options {
	return Options{
		Connections: []int{1, 16, 64, 256},
		Rounds:      15,
		Cell:        2 * time.Second,
		WarmUp:      time.Second,
		HalfHeads:   10000,
		Settle:      3 * time.Second,
		Pairs:       1000,
		Side:        100 * time.Millisecond,
		Progress:    io.Discard,
	}
}

// Quick returns options for a developer who measures a change: the service, an earlier one if
// there is one, and its peers, in three minutes.
func Quick(before bool) Options {
	o := Full()
	o.Proxies = []string{"haproxy", "nginx", serviceKey}
	if before {
		o.Proxies = append(o.Proxies, serviceKey+"-before")
	}
	o.Connections = []int{goalConnections}
	o.Rounds, o.Cell, o.HalfHeads, o.Pairs = 15, time.Second, 0, 0
	return o
}

// Smoke returns options that run every part once for a test, without meaningful figures.
func Smoke() Options {
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
