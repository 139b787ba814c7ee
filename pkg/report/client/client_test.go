// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/statussocket"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

// startServer serves reports on a new socket until stop is called.
func startServer(t *testing.T, path string, current func() report.Report) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ln, err := statussocket.Listen(ctx, path)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- statussocket.Serve(ctx, ln, current, func(err error) { t.Logf("failed: %v", err) }) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// TestNoChangeAfterReport: the time of the report has the resolution of the changes in it, so that
// none of them happens after the report.
func TestNoChangeAfterReport(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "status.sock")
	var changed time.Time
	stop := startServer(t, path, func() report.Report {
		changed = time.Now().UTC().Truncate(time.Millisecond)
		return report.Report{History: []report.Change{{Time: changed, Condition: report.ConditionType, To: "Serving"}}}
	})
	got, err := client.Fetch(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got.Time.Before(changed) || !got.Time.Equal(got.Time.Truncate(time.Millisecond)) {
		t.Errorf("the report is from %v, and a change in it from %v", got.Time, changed)
	}
}

func TestFetchReturnsReport(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ingress := netip.MustParseAddrPort("192.0.2.6:80")
	want := report.Report{
		Version: "v1",
		Conditions: []report.Condition{report.Condition{Type: report.ConditionType}.Next(true, report.Serving,
			"holds 192.0.2.5", start)},
		VIPs: []report.VIP{{
			Address: netip.MustParseAddr("192.0.2.5"), Family: "IPv4", State: report.VIPHeld,
			Since: start,
		}},
		Table:     report.Table{Present: true, Owned: true, Port: 8888},
		Upstreams: []report.Upstream{{Address: ingress}},
		Challenges: report.Challenges{
			Total: 1, Rejected: map[report.Rejection]uint64{report.NotChallenge: 1},
			Recent: []report.RecentChallenge{report.Challenge{
				Time: start, Duration: 3 * time.Millisecond,
				Host: "api.example.com", Status: 200, Upstream: ingress,
			}.Recent()},
		},
	}.WithEmptyLists()
	path := filepath.Join(t.TempDir(), "run", "status.sock")
	stop := startServer(t, path, func() report.Report { return want })

	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the mode of the socket is %o: the report contains the names of certificates", mode)
	}
	got, err := client.Fetch(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if age := time.Since(got.Time); age < -time.Minute || age > time.Minute {
		t.Errorf("the time of the report is %v", got.Time)
	}
	got.Time = time.Time{}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}),
		cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-sent +received):\n%s", diff)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket was not removed: %v", err)
	}
}

func TestSilentClientsDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "status.sock")
	// Larger than a socket buffer, so that a write to a client that does not read blocks.
	big := strings.Repeat("x", 1<<20)
	stop := startServer(t, path, func() report.Report {
		return report.Report{Conditions: []report.Condition{{Type: report.ConditionType, Message: big}}}
	})
	for range 7 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	got, err := client.Fetch(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Condition().Message) != len(big) {
		t.Errorf("received %d bytes of the message", len(got.Condition().Message))
	}
	if err := stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// TestReportsArePaced: clients that read one report after another do not make the proxy process
// send more messages than its connection permits. That ended it.
func TestReportsArePaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "status.sock")
	var reports atomic.Int64
	begin := time.Now()
	stop := startServer(t, path, func() report.Report {
		reports.Add(1)
		return report.Report{}
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				if _, err := client.Fetch(t.Context(), path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	const perSecond = 250 // a quarter of the messages
	if n, most := reports.Load(), int64(time.Since(begin).Seconds()*perSecond)+1; n < 200 || n > most {
		t.Errorf("%d reports, want 200, and at most %d in this time", n, most)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestListenReplacesOnlyStaleSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "status.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false) // as after SIGKILL
	dead.Close()
	stop := startServer(t, path, func() report.Report { return report.Report{Version: "alive"} })
	if _, err := statussocket.Listen(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another instance") {
		t.Errorf("a second instance: %v", err)
	}
	if got, err := client.Fetch(t.Context(), path); err != nil || got.Version != "alive" {
		t.Errorf("the first instance after that: %+v, %v", got, err)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestListenKeepsOtherFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := statussocket.Listen(t.Context(), path); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestFetchWithoutService(t *testing.T) {
	t.Parallel()
	_, err := client.Fetch(t.Context(), filepath.Join(t.TempDir(), "no.sock"))
	if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, report.ErrNotRunning) {
		t.Errorf("got %v", err)
	}
}

// TestFetchInvalidReport: an invalid response is distinguished from a service that does not
// answer.
func TestFetchInvalidReport(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"nothing": "", "half of one": `{"version":"v`, "no JSON": "hello\n",
		"another type": `{"vips":1}`,
	} {
		path := filepath.Join(t.TempDir(), "status.sock")
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if conn, err := ln.Accept(); err == nil {
				_, _ = conn.Write([]byte(answer))
				_ = conn.Close()
			}
		}()
		if _, err := client.Fetch(t.Context(), path); !errors.Is(err, client.ErrInvalidReport) {
			t.Errorf("%s: %v", name, err)
		}
		_ = ln.Close()
	}
}
