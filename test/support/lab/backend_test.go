// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// slowBackend is a backend that answers when the test releases it.
type slowBackend struct {
	entered chan struct{} // one value per received request
	release chan struct{} // closed to release all answers
}

// backendBody is longer than one segment, so that truncation is detected.
var backendBody = strings.Repeat("0123456789abcdef", 512)

// startSlowBackend routes the challenge path of a host to a backend behind the router.
func startSlowBackend(t *testing.T, l *Lab, host string) *slowBackend {
	t.Helper()
	s := &slowBackend{entered: make(chan struct{}, 64), release: make(chan struct{})}
	listener, err := l.Worker.Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	stop := Serve(listener, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.entered <- struct{}{}
		select {
		case <-s.release:
			_, _ = w.Write([]byte(backendBody))
		case <-r.Context().Done():
		}
	}))
	route, err := l.Worker.AddRoute(t.Context(), host, "/.well-known/acme-challenge", listener.Addr().(*net.TCPAddr).Port)
	must(t, err)
	t.Cleanup(func() {
		must(t, route.Remove(context.Background()))
		must(t, stop())
	})
	return s
}

// awaitRequest waits until the backend receives a request.
func (s *slowBackend) awaitRequest(t *testing.T) {
	t.Helper()
	must(t, Eventually(t.Context(), "a request at the backend", func(ctx context.Context) error {
		select {
		case <-s.entered:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}))
}

// challengeReply is the result of a request.
type challengeReply struct {
	text string
	err  error
}

// sendChallenge sends a challenge request for a host to a VIP from the internet in the
// background.
func sendChallenge(t *testing.T, l *Lab, vip netip.Addr, host string) <-chan challengeReply {
	t.Helper()
	out := make(chan challengeReply, 1)
	go func() {
		text, err := l.Internet.Raw(t.Context(), web(vip), challengeRequest(host, "token-of-the-test"))
		out <- challengeReply{text, err}
	}()
	return out
}

func web(vip netip.Addr) string { return netip.AddrPortFrom(vip, 80).String() }

func challengeRequest(host, token string) string {
	return "GET /.well-known/acme-challenge/" + token + " HTTP/1.1\r\nHost: " + host +
		"\r\nAccept: */*\r\nConnection: close\r\n\r\n"
}

// expectComplete fails the test unless the request got the backend's whole answer.
func (r challengeReply) expectComplete(t *testing.T) {
	t.Helper()
	if r.err != nil {
		t.Fatalf("request in flight: %v", r.err)
	}
	response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(r.text)), nil)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || string(body) != backendBody {
		t.Fatalf("request in flight got %d with %d bytes, %v: %.300q", response.StatusCode, len(body), err, r.text)
	}
}
