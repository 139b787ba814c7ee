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
	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/metrics"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/protocol"
)

// The bounds of one scrape. Connections are not kept alive: an idle connection would
// occupy one of few slots. A scraper sends its request immediately, so that the timeout
// for the head is short: it allows for one lost packet.
const (
	maxHeaderBytes    = 8 << 10
	readHeaderTimeout = 500 * time.Millisecond
	readTimeout       = 5 * time.Second
	writeTimeout      = 10 * time.Second
)

// gcPercent is the garbage collection target. The process is mostly idle: it needs little
// processor time, and must need little memory.
const gcPercent = 25

// RunConfined confines the process and serves metrics.
func RunConfined(ctx context.Context, conn *wire.Child) error {
	if err := sandbox.Confine(sandbox.Exporter); err != nil {
		return fmt.Errorf("confine the exporter: %w", err)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	return run(ctx, conn, reportTimeout)
}

// run serves metrics on the socket that the controller passes, until the connection to
// the controller ends. It returns nil then.
func run(ctx context.Context, conn *wire.Child, timeout time.Duration) error {
	ln, err := receiveListener(conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	source := newReportSource(conn, timeout)
	server := newServer(handler{source})
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	ended := make(chan error, 1)
	go func() {
		ended <- source.receive()
		_ = server.Close()
	}()
	// The kernel has queued connections since before this process started.
	if err := conn.Send(protocol.Event{Ready: &protocol.Ready{}}); err != nil {
		return fmt.Errorf("report that metrics are served: %w", err)
	}
	if err := server.Serve(&boundedListener{Listener: ln}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return <-ended
}

func newServer(handler http.Handler) *http.Server {
	server := &http.Server{
		Handler:                      handler,
		ReadHeaderTimeout:            readHeaderTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		Protocols:                    new(http.Protocols),
		// Errors of a connection concern its client, and not the journal.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	server.ConnContext = withConnection
	server.Protocols.SetHTTP1(true)
	server.SetKeepAlivesEnabled(false)
	return server
}

// receiveListener receives the listening socket, which comes with the first command.
func receiveListener(conn *wire.Child) (net.Listener, error) {
	var c protocol.Command
	fd, err := conn.Receive(&c)
	if err != nil {
		return nil, fmt.Errorf("receive the listening socket: %w", err)
	}
	if fd < 0 {
		return nil, errors.New("receive the listening socket: the first command has none")
	}
	file := os.NewFile(uintptr(fd), "metrics")
	ln, err := net.FileListener(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("open the listening socket: %w", err)
	}
	return ln, nil
}

type handler struct{ source *reportSource }

// ServeHTTP implements http.Handler. Nothing is compressed: a scrape has a few kilobytes,
// and a compressor takes a megabyte of memory.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hasContent := r.ContentLength != 0
	if hasContent { // net/http waits for it, also after the response
		setPartial(r.Context())
	}
	if r.Method != http.MethodGet || r.URL.Path != "/metrics" {
		http.NotFound(w, r)
		return
	}
	if hasContent {
		http.Error(w, "a request for metrics has no content", http.StatusRequestEntityTooLarge)
		return
	}
	text, err := h.source.text(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", metrics.ContentType)
	_, _ = io.WriteString(w, text)
}
