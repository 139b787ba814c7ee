// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"
)

// memory is the memory of a proxy in bytes.
type memory struct {
	idle int
	half int // with open connections that sent half a request head
	open int // connections still open when half was read
}

// halfHead is an incomplete request head.
const halfHead = "GET /.well-known/acme-challenge/LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0 HTTP/1.1\r\n" +
	"Host: " + host + "\r\nUser-Agent: Mozilla/5.0 (compatible; Let's Enc"

// measureMemory measures the memory of every proxy.
func (r *rig) measureMemory(ctx context.Context, all []proxy) (map[string]memory, error) {
	out := map[string]memory{}
	for _, d := range all {
		m, err := r.memoryOf(ctx, d)
		if err != nil {
			return nil, fmt.Errorf("memory of %s: %w", d.name, err)
		}
		out[d.key] = m
		r.logf("memory of %s: idle %.1f MiB, with %d of %d connections %.1f MiB", d.name, mib(m.idle), m.open, r.HalfHeads,
			mib(m.half))
	}
	return out, nil
}

func (r *rig) memoryOf(ctx context.Context, d proxy) (m memory, err error) {
	t, err := r.startProxy(ctx, d)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, t.stop(context.WithoutCancel(ctx))) }()
	if t.pid == 0 {
		return m, nil
	}
	if err := wait(ctx, r.Settle); err != nil {
		return m, err
	}
	if m.idle, err = t.pss(); err != nil {
		return m, err
	}
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	// All connections are opened on one thread, because entering the namespace for each is
	// slow.
	err = r.client.InNamespace(func() error {
		conns, err = openHalf(ctx, netip.AddrPortFrom(r.vip, 80), r.HalfHeads)
		return err
	})
	if err != nil {
		return m, err
	}
	if err := wait(ctx, r.Settle); err != nil {
		return m, err
	}
	if m.half, err = t.pss(); err != nil {
		return m, err
	}
	m.open = stillOpen(conns)
	return m, nil
}

// openHalf opens connections and sends half a request head on each. It returns the open
// connections with an error too.
func openHalf(ctx context.Context, at netip.AddrPort, count int) ([]net.Conn, error) {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	var conns []net.Conn
	for i := range count {
		c, err := dialer.DialContext(ctx, "tcp", at.String())
		if err != nil {
			return conns, fmt.Errorf("open connection %d: %w", i+1, err)
		}
		conns = append(conns, c)
		if _, err := io.WriteString(c, halfHead); err != nil {
			return conns, fmt.Errorf("send half a request head on connection %d: %w", i+1, err)
		}
	}
	return conns, nil
}

// stillOpen counts the connections that the other end neither closed nor answered.
func stillOpen(conns []net.Conn) int {
	count := 0
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(time.Microsecond))
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			count++
		}
	}
	return count
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func mib(bytes int) float64 { return float64(bytes) / (1 << 20) }
