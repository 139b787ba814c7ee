// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// requestTimeout is the timeout of a CA's request: ten seconds for Let's Encrypt (boulder
// va/http.go).
const requestTimeout = 10 * time.Second

// CA is a CA that validates one name repeatedly. In each turn all of its perspectives send
// a request, each from its own address.
type CA struct {
	Perspectives Range
	Server       netip.AddrPort
	Host, Path   string
	Want         string // expected body of the answer
	Every        time.Duration
}

// CAReport contains the results of a CA.
type CAReport struct {
	Requests, Lost int
	Refused        int      // of the lost ones: refused connections
	Errors         []string // of the first lost requests
	P50, P99, Max  time.Duration
}

const maxErrors = 5

func (c CA) run(ctx context.Context) CAReport {
	var mu sync.Mutex
	var report CAReport
	var took []time.Duration
	var all sync.WaitGroup
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	for ctx.Err() == nil {
		for i := range c.Perspectives.Count {
			all.Go(func() {
				begin := time.Now()
				err := c.request(c.Perspectives.at(i))
				mu.Lock()
				defer mu.Unlock()
				report.Requests++
				took = append(took, time.Since(begin))
				if err == nil {
					return
				}
				if errors.Is(err, unix.ECONNREFUSED) {
					report.Refused++
				}
				if report.Lost++; len(report.Errors) < maxErrors {
					report.Errors = append(report.Errors, err.Error())
				}
			})
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	all.Wait() // each ends within requestTimeout
	slices.Sort(took)
	if n := len(took); n > 0 {
		report.P50, report.P99, report.Max = took[n/2], took[n*99/100], took[n-1]
	}
	return report
}

// bindAnyAddress lets a socket bind an IPv6 address that only a route makes local (see Hostile).
func bindAnyAddress(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1) })
	return errors.Join(err, set)
}

// request sends one request as a validator does. It does not use the run's context: started
// requests must complete.
func (c CA) request(from netip.Addr) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	begin := time.Now()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Control: bindAnyAddress}
	conn, err := dialer.DialContext(ctx, "tcp", c.Server.String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(begin.Add(requestTimeout)); err != nil {
		return fmt.Errorf("set the deadline of the request: %w", err)
	}
	if _, err := fmt.Fprintf(conn,
		"GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: flood\r\nAccept: */*\r\nConnection: close\r\n\r\n", c.Path,
		c.Host); err != nil {
		return fmt.Errorf("send the request after %v: %w", time.Since(begin), err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return fmt.Errorf("read the answer after %v: %w", time.Since(begin), err)
	}
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	if !strings.HasPrefix(head, "HTTP/1.1 200 ") || body != c.Want {
		return fmt.Errorf("answered %.200q", answer)
	}
	return nil
}
