// SPDX-License-Identifier: Apache-2.0

package viptest

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/loop"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// timeout bounds a request. The kernel sends the SYN again after one second, which shows
	// whether this host's own rules drop it.
	timeout = 5 * time.Second
	// neighbourTime is shorter than the kernel's wait for a neighbour with an address, after
	// which it reports that there is none. It is longer than an ICMP error takes.
	neighbourTime = 2 * time.Second

	port         = 80
	socketBuffer = 4 << 10
)

// Test sends a test request to each VIP, at most [protocol.MaxTestedVIPs] at once. The results
// are in the order of the VIPs.
func Test(ctx context.Context, vips []netip.Addr) []protocol.VIPTested {
	return testAll(ctx, vips, timeout)
}

func testAll(ctx context.Context, vips []netip.Addr, timeout time.Duration) []protocol.VIPTested {
	results := make([]protocol.VIPTested, min(len(vips), protocol.MaxTestedVIPs))
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() { results[i] = test(ctx, vips[i], timeout) })
	}
	all.Wait()
	return results
}

func test(ctx context.Context, vip netip.Addr, timeout time.Duration) protocol.VIPTested {
	tested := protocol.VIPTested{VIP: vip, Result: report.VIPNotSent}
	begin := time.Now()
	fd, err := loop.Connect(netip.AddrPortFrom(vip, port), socketBuffer)
	if err != nil {
		return tested // an error at once is one of this host, such as a route
	}
	c := &connection{os.NewFile(uintptr(fd), "VIP test"), fd}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(begin) })()
	_ = c.SetDeadline(begin.Add(timeout)) // it can fail for a file that the poller does not know
	if tested.Result = c.await(begin); tested.Result == report.VIPAnswered {
		tested.Result, tested.Instance = c.exchange(vip)
	}
	return tested
}

// connection is a connection to a VIP. Package net would close the socket of a failed attempt,
// whose state shows where the packets went.
type connection struct {
	*os.File

	fd int
}

// await waits for the end of the handshake. [report.VIPAnswered] means that it is complete.
//
// The kernel counts each SYN that it sends again in tcpi_total_retrans, and in tcpi_retrans only
// if the SYN left this host: not if a rule in the output, postrouting or egress hook drops
// it (net/ipv4/tcp_output.c, tcp_retransmit_skb; measured on 6.18). If such a rule rejects it with
// an ICMP error, the kernel ignores the first one, which arrives within connect(2), and ends the
// attempt with the second SYN.
func (c *connection) await(begin time.Time) report.VIPTestResult {
	raw, err := c.SyscallConn()
	if err != nil {
		return report.VIPTimedOut
	}
	err = raw.Write(func(uintptr) bool {
		info := c.info()
		return info.State != unix.BPF_TCP_SYN_SENT
	})
	info := c.info()
	switch {
	case err == nil && info.State == unix.BPF_TCP_ESTABLISHED || info.State == unix.BPF_TCP_CLOSE_WAIT:
		return report.VIPAnswered
	case info.Total_retrans > 0 && info.Retrans == 0:
		return report.VIPNotSent
	case err != nil:
		return report.VIPTimedOut
	}
	if time.Since(begin) < neighbourTime {
		return report.VIPRefused // with a reset, or an ICMP error
	}
	return report.VIPTimedOut
}

// info returns the state of the socket; the zero value if it is not known.
func (c *connection) info() unix.TCPInfo {
	info, err := unix.GetsockoptTCPInfo(c.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return unix.TCPInfo{}
	}
	return *info
}

// exchange sends the request and judges the response.
func (c *connection) exchange(vip netip.Addr) (report.VIPTestResult, uint64) {
	host := vip.String()
	if vip.Is6() {
		host = "[" + host + "]"
	}
	_, err := c.WriteString("GET " + report.TestPath + " HTTP/1.1\r\nHost: " + host +
		"\r\nUser-Agent: " + report.TestUserAgent + "\r\nConnection: close\r\n\r\n")
	var response [maxResponse + 1]byte
	n := 0
	if err == nil {
		n, err = io.ReadFull(c, response[:])
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return report.VIPTimedOut, 0
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF): // a reset, or an end without a response
		return report.VIPReset, 0
	}
	if instance, ok := parseResponse(response[:n]); ok {
		return report.VIPAnswered, instance
	}
	return report.VIPOtherAnswer, 0
}
