// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
)

const (
	socketTimeout        = 5 * time.Second // one report, from connect to the last byte
	maxConcurrentClients = 8               // reports written at once; more wait in the backlog
)

// Listen makes the status socket, and its directory when that is absent. Only
// root and the service's own user may connect: who can ask learns which names
// get certificates. A socket that nobody answers on, left behind by a killed
// process, is replaced; one that somebody answers on is an error.
func Listen(ctx context.Context, path string) (*net.UnixListener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a /run directory is world-readable; the socket in it is not
		return nil, fmt.Errorf("make the status socket's directory: %w", err)
	}
	if err := removeStaleSocket(ctx, path); err != nil {
		return nil, err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on the status socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("close the status socket to others: %w", err), ln.Close())
	}
	return ln, nil
}

// removeStaleSocket removes a socket that nobody listens on.
func removeStaleSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the status socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("listen on %s: that is no socket: give another --status-socket", path)
	}
	conn, err := dial(ctx, path)
	if err == nil {
		_ = conn.Close()
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("listen on %s: another instance may be there: stop it, or give this one its own --status-socket", path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the status socket of an earlier run: %w", err)
	}
	return nil
}

// Serve writes one report to whoever connects, until ctx ends, and then closes
// the listener, which removes the socket. Nothing is read from a client. A report that
// cannot be encoded is given to failed, and the client gets the reason in its place.
func Serve(ctx context.Context, ln *net.UnixListener, report func() Report, failed func(error)) error {
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	slots := make(chan struct{}, maxConcurrentClients)
	var clients sync.WaitGroup
	defer clients.Wait() // each one has a deadline
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := ln.Accept()
		if err != nil {
			<-slots
			if ctx.Err() != nil {
				return nil
			}
			if !errors.Is(err, net.ErrClosed) && sleep(ctx, time.Second) {
				continue // descriptors have run out, say; the next second may be better
			}
			return fmt.Errorf("accept on the status socket: %w", err)
		}
		clients.Go(func() {
			defer func() { <-slots }()
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(socketTimeout))
			said := report()
			said.Time = time.Now().UTC().Truncate(time.Second)
			line, err := json.Marshal(said)
			if err != nil {
				failed(err)
				line, _ = json.Marshal(Response{Error: printable.Line(err.Error())}) // a string
			}
			_, _ = conn.Write(append(line, '\n'))
		})
	}
}

// sleep waits for d and reports whether ctx is still alive then.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func dial(ctx context.Context, path string) (net.Conn, error) {
	d := net.Dialer{Timeout: socketTimeout}
	return d.DialContext(ctx, "unix", path)
}
