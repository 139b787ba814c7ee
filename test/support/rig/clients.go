// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// clientTimeout is how long a CA waits for a challenge (Boulder gives one fetch ten seconds).
const clientTimeout = 10 * time.Second

// Failure is an honest request that was not answered with its token.
type Failure struct {
	VIP        netip.Addr
	Client     netip.Addr
	Start, End time.Time
	Err        error
	Aborted    bool // Pause is the cause of Err
}

// Clients are honest validators that send requests at a fixed rate to VIPs in turn, from
// several addresses. Close ends them.
type Clients struct {
	rig    *Rig
	want   func(netip.Addr) bool
	stop   context.CancelFunc
	wait   sync.WaitGroup
	sent   atomic.Int64
	nextID atomic.Int64

	mu       sync.Mutex
	failures []Failure
	answered map[netip.Addr]time.Time // the begin of the last request that was answered
	paused   bool
	round    context.Context // until the next Pause
	abort    context.CancelFunc
	running  int
	idle     *sync.Cond
}

// StartClients starts validators that send rate requests in each interval together, with at most
// parallel ones in flight: others are not sent meanwhile. Requests go to the VIPs
// that want accepts, and every strayth to any of them.
func (r *Rig) StartClients(ctx context.Context, vips []netip.Addr, rate int, interval time.Duration, parallel int,
	want func(netip.Addr) bool,
) *Clients {
	ctx, cancel := context.WithCancel(ctx)
	c := &Clients{rig: r, want: want, stop: cancel, answered: make(map[netip.Addr]time.Time)}
	c.idle = sync.NewCond(&c.mu)
	tickets := make(chan int)
	c.wait.Go(func() {
		defer close(tickets)
		tick := time.NewTicker(interval / time.Duration(rate))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			select {
			case tickets <- i:
			case <-ctx.Done():
				return
			}
		}
	})
	for range parallel {
		c.wait.Go(func() {
			// A thread in the namespace: with a literal address, the dial stays on it.
			_ = r.Outside.InNamespace(func() error {
				for i := range tickets {
					c.one(c.pick(vips, i), i/len(vips))
				}
				return nil
			})
		})
	}
	return c
}

// Close aborts the requests in flight and ends the clients.
func (c *Clients) Close() {
	c.stop()
	c.Pause()
	c.wait.Wait()
}

// stray is which part of the requests goes to any VIP.
const stray = 64

// pick returns the VIP of the i-th request, or the zero value.
func (c *Clients) pick(vips []netip.Addr, i int) netip.Addr {
	if i%stray == 0 {
		return vips[i/stray%len(vips)]
	}
	for k := range vips {
		if vip := vips[(i+k)%len(vips)]; c.want(vip) {
			return vip
		}
	}
	return netip.Addr{}
}

// Pause aborts the requests in flight and sends none until Resume.
func (c *Clients) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = true
	if c.abort != nil {
		c.abort()
	}
	for c.running > 0 {
		c.idle.Wait()
	}
}

// Resume ends a Pause.
func (c *Clients) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = false
	c.round, c.abort = context.WithCancel(context.Background())
}

// Sent returns the number of requests so far.
func (c *Clients) Sent() int64 { return c.sent.Load() }

// TakeFailures returns the failures since the last call.
func (c *Clients) TakeFailures() []Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	failures := c.failures
	c.failures = nil
	return failures
}

// LastAnswered returns when the last request to a VIP that was answered began.
func (c *Clients) LastAnswered(vip netip.Addr) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered[vip]
}

// RequestEach sends one request to each VIP, also if all parallel ones are in flight.
func (c *Clients) RequestEach(vips []netip.Addr) {
	for _, vip := range vips {
		c.wait.Go(func() {
			_ = c.rig.Outside.InNamespace(func() error {
				c.one(vip, 0)
				return nil
			})
		})
	}
}

func (c *Clients) one(vip netip.Addr, i int) {
	c.mu.Lock()
	if c.paused || c.round == nil || !vip.IsValid() {
		c.mu.Unlock()
		return
	}
	c.running++
	round := c.round
	c.mu.Unlock()
	c.sent.Add(1)
	f := Failure{VIP: vip, Client: clientAddress(i%(clients/2), vip), Start: time.Now()}
	f.Err = challenge(round, vip, f.Client, fmt.Sprintf("token-%d", c.nextID.Add(1)))
	f.End = time.Now()
	f.Aborted = round.Err() != nil && (errors.Is(f.Err, context.Canceled) || errors.Is(f.Err, os.ErrDeadlineExceeded))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case f.Err != nil:
		c.failures = append(c.failures, f)
	case f.Start.After(c.answered[vip]):
		c.answered[vip] = f.Start
	}
	if c.running--; c.running == 0 {
		c.idle.Broadcast()
	}
}

const challengePath = "/.well-known/acme-challenge/"

var errAnswer = errors.New("wrong answer")

// challenge requests a token on the thread of the caller.
func challenge(ctx context.Context, vip, from netip.Addr, token string) error {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), KeepAlive: -1}
	conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(vip, 80).String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := fmt.Fprintf(conn, "GET "+challengePath+
		"%s HTTP/1.1\r\nHost: api.lab.test\r\nUser-Agent: chaos\r\nAccept: */*\r\nConnection: close\r\n\r\n",
		token); err != nil {
		return fmt.Errorf("send the request: %w", err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	_ = response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK || string(body) != token {
		return fmt.Errorf("%w: status %d, body %.100q, %w", errAnswer, response.StatusCode, body, err)
	}
	return nil
}
