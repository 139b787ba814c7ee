// SPDX-License-Identifier: Apache-2.0

package exporter_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/netutil"

	"github.com/http01-proxyd/http01-proxyd/pkg/exporter"
)

// TestSilentConnectionIsEvicted: a silent connection in the last slot ends long before the
// server's own timeout, and a scrape is answered.
func TestSilentConnectionIsEvicted(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Hour, ConnState: exporter.EvictSilent(1)}
	go func() { _ = server.Serve(netutil.LimitListener(ln, 1)) }()
	defer server.Close()
	silent, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	client := http.Client{Timeout: 30 * time.Second}
	resp, err := client.Get("http://" + ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// TestEvictsBeyondTheSlots: a slot is free before the state of its connection is reported, so
// that a connection more than there are slots can be open. The silent connection is evicted all
// the same.
func TestEvictsBeyondTheSlots(t *testing.T) {
	t.Parallel()
	changed := exporter.EvictSilent(1)
	near, far := net.Pipe()
	defer near.Close()
	ended, _ := net.Pipe()
	changed(ended, http.StateNew)
	changed(ended, http.StateActive)
	changed(near, http.StateNew) // the second one, before the end of the first is reported
	changed(ended, http.StateClosed)
	read := make(chan error, 1)
	go func() {
		_, err := near.Read(make([]byte, 1))
		read <- err
	}()
	select {
	case err := <-read:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the silent connection ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the silent connection was not evicted")
	}
	_ = far.Close()
}

// TestSilentConnectionIsClosed: silent connections that occupy every slot end within the
// timeout for the head, and a scrape is answered then.
func TestSilentConnectionIsClosed(t *testing.T) {
	t.Parallel()
	c := startExporter(t, busyReport)
	address := strings.TrimSuffix(strings.TrimPrefix(c.url, "http://"), "/metrics")
	silent := make([]net.Conn, 16)
	for i := range silent {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent[i] = conn
	}
	if code, _, body := c.scrape(t, ""); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	for _, conn := range silent {
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the silent connection reads %v, want EOF", err)
		}
	}
}
