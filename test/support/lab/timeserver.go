// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

const (
	ntpPort  = "123"
	ntpBytes = 48
	// ntpEpoch is the offset of NTP's epoch, 1900, from the Unix epoch in seconds (RFC 5905
	// section 6).
	ntpEpoch = 2208988800
)

// TimeServer answers SNTP with this machine's time and an offset. The clock of a single
// node cannot be changed, so the server's time is shifted.
type TimeServer struct {
	conn   net.PacketConn
	offset atomic.Int64
}

// ServeTime starts a time server on the node. The caller must Close it.
func (n *Node) ServeTime(ctx context.Context) (*TimeServer, error) {
	t := &TimeServer{}
	err := n.InNamespace(func() error {
		var err error
		t.conn, err = (&net.ListenConfig{}).ListenPacket(ctx, "udp", ":"+ntpPort)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen for NTP on %s: %w", n.Name, err)
	}
	go t.serve()
	return t, nil
}

// Shift sets the offset of the server's time.
func (t *TimeServer) Shift(offset time.Duration) { t.offset.Store(int64(offset)) }

// Close stops the server.
func (t *TimeServer) Close() error { return t.conn.Close() }

func (t *TimeServer) serve() {
	packet := make([]byte, 512)
	for {
		n, from, err := t.conn.ReadFrom(packet)
		if err != nil {
			return
		}
		if n < ntpBytes {
			continue
		}
		now := ntpTime(time.Now().Add(time.Duration(t.offset.Load())))
		answer := make([]byte, ntpBytes)
		answer[0] = 4<<3 | 4 // version 4, server
		answer[1] = 1        // stratum
		answer[2], answer[3] = 6, 0xec
		copy(answer[12:], "TEST")
		binary.BigEndian.PutUint64(answer[16:], now)
		copy(answer[24:32], packet[40:48]) // the client's transmit time, as origin
		binary.BigEndian.PutUint64(answer[32:], now)
		binary.BigEndian.PutUint64(answer[40:], now)
		_, _ = t.conn.WriteTo(answer, from)
	}
}

func ntpTime(t time.Time) uint64 {
	seconds := uint64(t.Unix() + ntpEpoch)                              //nolint:gosec // after 1900
	return seconds<<32 | uint64(t.Nanosecond())<<32/uint64(time.Second) //nolint:gosec // below a second
}
