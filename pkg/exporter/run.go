// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// The bounds of one scrape. Connections are not kept alive: an idle one would take
// one of few places for nothing.
const (
	maxConnections = 16
	maxHeaderBytes = 8 << 10
	readTimeout    = 5 * time.Second
	writeTimeout   = 10 * time.Second
)

// gcPercent lets the garbage of some scrapes gather, and not of a hundred: a process
// that has next to nothing to do is to be small.
const gcPercent = 25

// RunConfined is Run after giving up every system call that it does not need.
func RunConfined(ctx context.Context, conn *protocol.Conn) error {
	if err := sandbox.Confine(sandbox.Exporter); err != nil {
		return fmt.Errorf("confine the exporter: %w", err)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	return Run(ctx, conn)
}

// Run serves metrics on the socket that comes over the connection to the keeper,
// until that ends, and returns nil then.
func Run(ctx context.Context, conn *protocol.Conn) error {
	return run(ctx, conn, reportTimeout)
}

// run is Run with another patience with the keeper.
func run(ctx context.Context, conn *protocol.Conn, patience time.Duration) error {
	ln, err := receiveListener(conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, r := newReportSource(conn, patience), newLimitListener(ln, maxConnections)
	server := &http.Server{
		Handler:                      handler{s},
		ConnState:                    r.connState,
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		Protocols:                    new(http.Protocols),
		// What goes wrong with a connection is the client's to see. The journal is
		// the service's.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	server.Protocols.SetHTTP1(true)
	server.SetKeepAlivesEnabled(false)
	ended := make(chan error, 1)
	go func() {
		ended <- s.receive()
		_ = server.Close()
	}()
	// The socket is listening already: who connects is served.
	if err := conn.Send(protocol.ReportRequest{ID: protocol.ReadyID}, -1); err != nil {
		return fmt.Errorf("tell the service that metrics are served: %w", err)
	}
	if err := server.Serve(r); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return <-ended
}

// receiveListener takes the listening socket, which is the keeper's first word.
func receiveListener(conn *protocol.Conn) (net.Listener, error) {
	var o protocol.ExporterCommand
	fd, err := conn.Receive(&o)
	if err != nil {
		return nil, fmt.Errorf("wait for the listening socket: %w", err)
	}
	if fd < 0 {
		return nil, errors.New("wait for the listening socket: none came")
	}
	file := os.NewFile(uintptr(fd), "metrics")
	ln, err := net.FileListener(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("take the listening socket: %w", err)
	}
	return ln, nil
}
