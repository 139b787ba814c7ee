// SPDX-License-Identifier: Apache-2.0

package statussocket

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

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	timeout    = 5 * time.Second // of one client
	maxClients = 8               // concurrent ones; others wait in the backlog
	// minInterval is the time between two reports under load. For each one, the proxy process
	// sends up to two messages, of which package wire permits it 1000 in a second.
	minInterval = 5 * time.Millisecond
)

// Listen creates the status socket and its directory. Only root and the user of the
// service may connect, because the report contains the names of certificates. It replaces
// the socket of a process that was killed. A socket of a running process is an error.
func Listen(ctx context.Context, path string) (*net.UnixListener, error) {
	//nolint:gosec // a /run directory is world-readable; the socket in it is not
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("cannot create the directory of the status socket: %w", err)
	}
	if err := removeStaleSocket(ctx, path); err != nil {
		return nil, err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the status socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot set the mode of the status socket: %w", err), ln.Close())
	}
	return ln, nil
}

// removeStaleSocket removes a socket that no process listens on.
func removeStaleSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read the status socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("cannot listen on %s: it is not a socket: specify another --status-socket", path)
	}
	dialer := net.Dialer{Timeout: timeout}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("cannot listen on %s: another instance may be running: "+
			"stop it, or specify another --status-socket", path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("cannot remove the status socket of an earlier process: %w", err)
	}
	return nil
}

// Serve writes one report to each client until ctx ends. It then closes the listener, which
// removes the socket, and waits for its clients. It reads nothing from a client. If a
// report cannot be encoded, it calls failed and closes the connection.
func Serve(ctx context.Context, ln *net.UnixListener, current func() report.Report, failed func(error)) error {
	defer ln.Close()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() }) // ends Accept
	defer stop()
	slots := make(chan struct{}, maxClients)
	var clients sync.WaitGroup
	defer clients.Wait() // a deadline bounds each one
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := ln.Accept()
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("cannot accept connections on the status socket: %w", err)
		case err != nil: // file descriptors may be exhausted temporarily
			<-slots
			<-time.After(time.Second)
			continue
		}
		clients.Go(func() {
			defer func() { <-slots }()
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(timeout))
			r := current()
			r.Time = time.Now().UTC().Truncate(time.Millisecond)
			line, err := json.Marshal(r)
			if err != nil {
				failed(err)
				return
			}
			_, _ = conn.Write(append(line, '\n'))
		})
		<-time.After(minInterval)
	}
}
