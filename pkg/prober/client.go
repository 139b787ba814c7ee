// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// responseMargin is the time remaining for the response to come back, also on a busy host:
// at most a tenth of the whole.
const responseMargin = time.Second

// traceTimeout bounds the wait for a process that does not return the events that it read.
const traceTimeout = 5 * time.Second

// Client sends requests to a prober process. It is safe for concurrent use.
type Client struct {
	process *child.Process

	mu      sync.Mutex
	lastID  uint64
	pending map[uint64]chan protocol.Response
	err     error // why the connection ended
}

// Start starts a prober process.
func Start() (*Client, error) {
	process, err := child.Start(child.Prober, child.NewOutput(func(line string) {
		fmt.Fprintf(os.Stderr, "http01-proxyd: the prober wrote: %s\n", line)
	}))
	if err != nil {
		return nil, err
	}
	c := &Client{process: process, pending: make(map[uint64]chan protocol.Response)}
	go c.receive()
	return c, nil
}

// Close ends the process. Pending requests return an error.
func (c *Client) Close() { c.process.KillAndClose() }

// Ended reports whether the process ended: every further request returns an error.
func (c *Client) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil
}

// Query sends a request, whose ID and Timeout it sets, and waits for the response until ctx
// ends. ctx must carry a deadline.
func (c *Client) Query(ctx context.Context, q protocol.Request) (protocol.Response, error) {
	return c.query(ctx, q, -1)
}

// ReadTrace reads events of the kernel's packet trace from a netlink socket, which stays open.
// It returns soon after the first event, or without any after wait. When ctx ends earlier, the
// events that the process read are lost.
func (c *Client) ReadTrace(ctx context.Context, socket int, wait time.Duration) (*protocol.TraceResult, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+traceTimeout)
	defer cancel()
	r, err := c.query(ctx, protocol.Request{Trace: &protocol.TraceRequest{Wait: wait}}, socket)
	return r.Trace, err
}

// query is Query with a descriptor, or -1.
func (c *Client) query(ctx context.Context, q protocol.Request, fd int) (protocol.Response, error) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return protocol.Response{}, errors.New("query the prober: the request has no deadline")
	}
	// The response must arrive before the deadline, also when it reports a timeout.
	remaining := time.Until(deadline)
	q.Timeout = remaining - min(remaining/10, responseMargin)
	response := make(chan protocol.Response, 1)
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return protocol.Response{}, c.connectionError()
	}
	c.lastID++
	q.ID = c.lastID
	c.pending[q.ID] = response
	c.mu.Unlock()
	defer c.dropPending(q.ID)
	if err := c.process.Send(q, fd); err != nil {
		return protocol.Response{}, fmt.Errorf("query the prober: %w", err)
	}
	select {
	case r, open := <-response:
		switch {
		case !open:
			return protocol.Response{}, c.connectionError()
		case r.Error != nil:
			return r, *r.Error
		case !r.Matches(&q):
			return protocol.Response{}, errors.New("query the prober: its response is for another kind of request")
		case r.Fetch != nil:
			r.Fetch.Context = q.Fetch.CauseContext()
		}
		return r, nil
	case <-ctx.Done():
		return protocol.Response{}, fmt.Errorf("query the prober: %w", context.Cause(ctx))
	}
}

func (c *Client) dropPending(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

func (c *Client) connectionError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("query the prober: its process has ended: %w", c.err)
}

func (c *Client) receive() {
	for {
		var r protocol.Response
		err := c.process.Receive(&r)
		c.mu.Lock()
		if err != nil {
			c.err = err
			for id, response := range c.pending {
				close(response)
				delete(c.pending, id)
			}
			c.mu.Unlock()
			c.process.KillAndClose() // the process may have been taken over
			return
		}
		if response := c.pending[r.ID]; response != nil {
			delete(c.pending, r.ID)
			r.Sanitize()
			response <- r
		}
		c.mu.Unlock()
	}
}

// APIPort is the port of an API server.
const APIPort = 6443

const (
	// certificateTimeout bounds one handshake.
	certificateTimeout = 5 * time.Second
	// check requests as many certificates: one round suffices when servers are silent.
	maxConcurrentCertificates = 16
)

// CertificateResult is the result of a request: a certificate or an error.
type CertificateResult struct {
	protocol.CertificateRequest

	Certificate *protocol.Certificate
	Err         error
	CheckedAt   time.Time // time of the response
}

// Certificates sends several requests concurrently, each with a timeout of 5 s.
func (c *Client) Certificates(ctx context.Context, requests []protocol.CertificateRequest) []CertificateResult {
	results := make([]CertificateResult, len(requests))
	var group errgroup.Group
	group.SetLimit(maxConcurrentCertificates)
	for i, q := range requests {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, certificateTimeout)
			defer cancel()
			r, err := c.Query(ctx, protocol.Request{Certificate: &q})
			results[i] = CertificateResult{CertificateRequest: q, Err: err, CheckedAt: time.Now()}
			if err == nil {
				results[i].Certificate = r.Certificate
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	return results
}

// Lookup queries one DNS server for the addresses of a name until ctx ends. The addresses of one
// family are sufficient. It is the query function of a resolver with the files of this host
// (pkg/host/resolve).
func (c *Client) Lookup(ctx context.Context, server netip.AddrPort, name string) ([]netip.Addr, error) {
	r, err := c.Query(ctx, protocol.Request{Lookup: &protocol.LookupRequest{Server: server, Name: name}})
	if err != nil {
		return nil, err
	}
	v4, v6 := r.Lookup.Records[0], r.Lookup.Records[1]
	found := slices.Concat(v4.Addresses, v6.Addresses)
	switch failure := cmp.Or(v4.Failure, v6.Failure); {
	case len(found) > 0 || failure == "":
		return found, nil
	case failure == protocol.ServerSilent:
		return nil, errors.New("does not answer")
	default:
		return nil, errors.New("answers with an error")
	}
}
