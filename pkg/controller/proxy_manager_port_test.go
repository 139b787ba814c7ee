// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// TestProbePortFollowsScheme: the port of the scheme is looked at, or what the gate finds
// there would be about another one, and nothing would ever be known.
func TestProbePortFollowsScheme(t *testing.T) {
	t.Parallel()
	var looked []uint16
	d := &proxyManager{
		log: slog.New(slog.DiscardHandler), closing: make(map[uint16]chan struct{}),
		onUpstreamChange: func(_ []netip.Addr, port uint16) { looked = append(looked, port) },
	}
	c := config.Default()
	for _, scheme := range []config.Scheme{config.SchemeHTTP, config.SchemeHTTPS} {
		c.Upstream.Scheme = scheme
		d.Configure(c, []netip.Addr{netip.MustParseAddr("192.0.2.6")}, egressDecision{})
	}
	if len(looked) != 2 || looked[0] != 80 || looked[1] != 443 {
		t.Errorf("looks at %v", looked)
	}
}
