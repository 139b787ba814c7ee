// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/beevik/ntp"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// queryClock queries an NTP server, and again when no reply arrives.
func queryClock(ctx context.Context, q *protocol.ClockRequest) (*protocol.ClockResult, error) {
	o := ntp.QueryOptions{Timeout: time.Second, Dialer: func(_, remote string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", remote)
	}}
	for {
		response, err := ntp.QueryWithOptions(q.Addr.String(), o)
		if err == nil {
			err = response.Validate()
		}
		if err == nil {
			return &protocol.ClockResult{Offset: response.ClockOffset}, nil
		}
		if deadline, bounded := ctx.Deadline(); ctx.Err() != nil || !bounded || time.Until(deadline) < o.Timeout {
			return nil, fmt.Errorf("query %v: %w", q.Addr, err)
		}
	}
}
