// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Behaviours of the ingress.
const (
	IngressRefused = "refused"
	IngressSilent  = "silent"
	IngressResets  = "resets"
	IngressDribble = "dribble"
	IngressLarge   = "large"
)

const (
	// largeToken is a token with a response of LargeBody bytes.
	largeToken = "large"
	// LargeBody is the most that is forwarded (pkg/proxy/upstream: maxBody).
	LargeBody = 64 << 10
)

// Ingress is the router in front of the solvers: it answers a challenge with its token. It
// is safe for concurrent use.
type Ingress struct {
	rig *Rig

	mu        sync.Mutex // not held during I/O
	mode      string
	changed   chan struct{} // closed when mode changes
	listeners []net.Listener
	conns     map[net.Conn]bool
	requests  int
	handlers  sync.WaitGroup
}

// StartIngress starts the ingress.
func (r *Rig) StartIngress(ctx context.Context) (*Ingress, error) {
	in := &Ingress{rig: r, changed: make(chan struct{}), conns: make(map[net.Conn]bool)}
	return in, in.listen(ctx)
}

func (in *Ingress) listen(ctx context.Context) error {
	for _, a := range IngressVIPs() {
		var l net.Listener
		// A process that this one is just starting can hold the last socket until it executes
		// its program.
		err := lab.Eventually(ctx, "a free port for the ingress", func(ctx context.Context) (err error) {
			l, err = in.rig.Outside.Listen(ctx, netip.AddrPortFrom(a, 80).String())
			return err
		})
		if err != nil {
			return err
		}
		in.mu.Lock()
		in.listeners = append(in.listeners, l)
		in.mu.Unlock()
		in.handlers.Add(1)
		go in.accept(l)
	}
	return nil
}

// Close ends all connections.
func (in *Ingress) Close() {
	in.stop()
	in.handlers.Wait()
}

// stop closes the listeners and all connections.
func (in *Ingress) stop() {
	in.mu.Lock()
	listeners := in.listeners
	in.listeners = nil
	var conns []net.Conn
	for c := range in.conns {
		conns = append(conns, c)
	}
	close(in.changed)
	in.changed = make(chan struct{})
	in.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
	}
	for _, c := range conns {
		_ = c.Close()
	}
}

// Set changes the behaviour. Connections end, as at a restart of the router.
func (in *Ingress) Set(ctx context.Context, mode string) error {
	in.stop()
	in.mu.Lock()
	in.mode = mode
	in.mu.Unlock()
	if mode == IngressRefused {
		return nil
	}
	return in.listen(ctx)
}

func (in *Ingress) accept(l net.Listener) {
	defer in.handlers.Done()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		in.mu.Lock()
		in.conns[c] = true
		mode, changed := in.mode, in.changed
		in.mu.Unlock()
		in.handlers.Add(1)
		go func() {
			defer in.handlers.Done()
			_ = in.serve(c, mode, changed)
			_ = c.Close()
			in.mu.Lock()
			delete(in.conns, c)
			in.mu.Unlock()
		}()
	}
}

// AwaitRequest waits until the ingress receives a request.
func (in *Ingress) AwaitRequest(ctx context.Context) error {
	return lab.Eventually(ctx, "a request at the ingress", func(context.Context) error {
		in.mu.Lock()
		defer in.mu.Unlock()
		if in.requests == 0 {
			return errNoRequest
		}
		return nil
	})
}

var errNoRequest = errors.New("it has received none")

var errReset = errors.New("reset")

// serve answers the requests of one connection.
func (in *Ingress) serve(c net.Conn, mode string, changed <-chan struct{}) error {
	reader := bufio.NewReader(c)
	for {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return err
		}
		in.mu.Lock()
		in.requests++
		in.mu.Unlock()
		token := request.URL.Path[strings.LastIndexByte(request.URL.Path, '/')+1:]
		answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(token),
			token)
		if token == largeToken {
			answer = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", LargeBody, strings.Repeat("x", LargeBody))
		}
		switch mode {
		case IngressSilent:
			<-changed
			return nil
		case IngressResets:
			reset(c)
			return errReset
		case IngressLarge:
			answer = "HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\n" + strings.Repeat("x", 65537)
		case IngressDribble:
			for i := range len(answer) {
				if _, err := c.Write([]byte{answer[i]}); err != nil {
					return err
				}
				<-time.After(time.Millisecond)
			}
			continue
		}
		if _, err := c.Write([]byte(answer)); err != nil {
			return err
		}
	}
}
