// SPDX-License-Identifier: Apache-2.0

package exporter_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSilentConnectionIsClosed: silent connections that occupy every slot end within the
// timeout for the head, and a scrape is answered then.
func TestSilentConnectionIsClosed(t *testing.T) {
	t.Parallel()
	c := startExporter(t, time.Minute, busyReport)
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
	if code, body := c.scrape(t); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	for _, conn := range silent {
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the silent connection reads %v, want EOF", err)
		}
	}
}
