// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReplaceable: a connection beyond the bound of its source replaces one of the same source. A
// connection beyond the bound of all replaces any. Clients that wait for this process are not replaced.
func TestReplaceable(t *testing.T) {
	t.Parallel()
	const arrived = answered + 1 // unread, but bytes have arrived
	late := make(map[*connection]bool)
	begin := time.Unix(0, 0) // all are accepted, and answered
	at := func(source string, stages ...int32) (all []*connection) {
		for _, s := range stages {
			client := &net.TCPAddr{IP: net.ParseIP(source), Port: 1}
			c := &connection{source: sourceOf(client), acceptedAt: begin}
			if late[c] = s == arrived; !late[c] {
				c.stage.Store(s)
			}
			all = append(all, c)
		}
		return all
	}
	one := func(source string, n int) []*connection { return at(source, slices.Repeat([]int32{unread}, n)...) }
	var sources []*connection // as many as connections may be open
	for i := range maxConnections {
		sources = append(sources, one(net.IPv4(192, 0, 2, byte(i)).String(), 1)...)
	}
	const inTime = answerTime - 1
	innocent := func(stages ...int32) []*connection {
		return at("192.0.2.1", append(slices.Repeat([]int32{arrived, requested}, maxPerSource/2), stages...)...)
	}
	readers := func(stages ...int32) []*connection {
		return at("192.0.2.1", append(slices.Repeat([]int32{requested, answered}, maxPerSource/2), stages...)...)
	}
	for name, tt := range map[string]struct {
		open  []*connection
		age   time.Duration // of all
		want  int           // index, or -1
		retry bool
	}{
		"one":                   {one("192.0.2.1", 1), minTime, -1, false},
		"a source at its bound": {one("192.0.2.1", maxPerSource), minTime, -1, false},
		"a source beyond it":    {slices.Concat(one("192.0.2.2", 3), one("192.0.2.1", maxPerSource+1)), minTime, 3, false},
		"one /64": {
			slices.Concat(one("192.0.2.2", 3), one("2001:db8::1", maxPerSource), one("2001:db8::2", 1)), minTime, 3, false,
		},
		"two of IPv6":      {slices.Concat(one("2001:db8::1", maxPerSource), one("2001:db8:0:1::1", 1)), minTime, -1, false},
		"mapped":           {slices.Concat(one("192.0.2.1", maxPerSource), one("::ffff:192.0.2.1", 1)), minTime, 0, false},
		"none is late yet": {one("192.0.2.1", maxPerSource+1), minTime - 1, -1, true},
		"one is late":      {innocent(partial, unread), minTime, maxPerSource, false},
		"only requests":    {innocent(unread), time.Hour, -1, true},
		"responses":        {readers(unread), inTime, -1, true},
		"not read":         {readers(unread), answerTime, 1, false},
		"and one is late":  {readers(partial, unread), answerTime, maxPerSource, false},
		"all bounds hold":  {sources, minTime, -1, false},
		"a source of each": {slices.Concat(sources, one("198.51.100.1", 1)), minTime, 0, false},
		"a source that is not the last one's": {
			slices.Concat(one("198.51.100.1", maxPerSource), sources[:maxPerSource+1]), minTime, 0, false,
		},
	} {
		got, retry := replaceable(tt.open, begin.Add(tt.age), func(c *connection) bool { return late[c] })
		if i := slices.Index(tt.open, got); i != tt.want || retry != tt.retry {
			t.Errorf("%s: %d, retry: %t; want %d, %t", name, i, retry, tt.want, tt.retry)
		}
	}
}

// TestContent: a client whose content is still expected can be replaced, whatever it requests.
func TestContent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{http.MethodGet, "/metrics", http.StatusRequestEntityTooLarge},
		{http.MethodPost, "/metrics", http.StatusNotFound},
		{http.MethodGet, "/", http.StatusNotFound},
	} {
		c := new(connection)
		c.stage.Store(requested)
		request := httptest.NewRequestWithContext(withConnection(t.Context(), c), tt.method, tt.path, strings.NewReader("x"))
		response := httptest.NewRecorder()
		handler{}.ServeHTTP(response, request)
		if stage := c.stage.Load(); stage != partial || response.Code != tt.status {
			t.Errorf("%s %s: stage %d, status %d; want %d, %d", tt.method, tt.path, stage, response.Code, partial, tt.status)
		}
	}
}
