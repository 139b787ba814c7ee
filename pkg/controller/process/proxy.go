// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/mailbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// Proxy is a proxy process, and the connection to it.
type Proxy struct {
	*child.Process

	// The last results of commands.
	tested  *mailbox.Mailbox[[]protocol.VIPTested]
	probed  *mailbox.Mailbox[[]protocol.Reachability]
	drained *mailbox.Mailbox[int] // connections that were closed

	lastEvent atomic.Pointer[time.Time]

	mu      sync.Mutex      // not held during I/O
	flushes []chan struct{} // not answered yet, the oldest first
}

// StartProxy starts a process. It does not wait until the process works.
func StartProxy(output *child.Output) (*Proxy, error) {
	process, err := child.Start(child.Proxy, output)
	if err != nil {
		return nil, err
	}
	return newProxy(process), nil
}

func newProxy(process *child.Process) *Proxy {
	return &Proxy{
		Process: process,
		tested:  mailbox.New[[]protocol.VIPTested](),
		probed:  mailbox.New[[]protocol.Reachability](),
		drained: mailbox.New[int](),
	}
}

// maxUnanswered bounds the commands that a process did not answer yet. Reports and self-tests
// send at most 20 a second to a process that does not answer, and a process that sends nothing
// at all is replaced after SilenceLimit: a working one does not reach it.
const maxUnanswered = 256

// request sends a command that [protocol.Flushed] answers. The result is closed then: the
// process handled all earlier commands, and its statistics are recorded. It is never closed if
// maxUnanswered commands wait already.
func (p *Proxy) request(c protocol.Command) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	answered := make(chan struct{})
	if len(p.flushes) >= maxUnanswered {
		return answered
	}
	p.flushes = append(p.flushes, answered)
	if p.Send(c, -1) != nil { // which only queues it
		_ = p.Kill()
	}
	return answered
}

func (p *Proxy) recordFlushed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.flushes) > 0 {
		close(p.flushes[0])
		p.flushes = p.flushes[1:]
	}
}

// answersNothing reports whether maxUnanswered commands wait for an answer.
func (p *Proxy) answersNothing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.flushes) >= maxUnanswered
}

func (p *Proxy) recordEvent(now time.Time) { p.lastEvent.Store(&now) }

// silence returns the time since the process last sent something.
func (p *Proxy) silence(now time.Time) time.Duration { return now.Sub(*p.lastEvent.Load()) }

// NewOutput logs the lines of the standard error of a kind of child process.
func NewOutput(log *slog.Logger, kind string) *child.Output {
	return child.NewOutput(func(line string) {
		log.Warn(fmt.Sprintf("the %s process wrote to its standard error: %s", kind, line),
			slog.String("event", "child-output"))
	})
}

// proxyStartTimeout is how long a proxy process may take to send its first event.
const proxyStartTimeout = 5 * time.Second

// AwaitAlive returns when the process sent its first heartbeat.
func (p *Proxy) AwaitAlive() error {
	late := time.AfterFunc(proxyStartTimeout, p.KillAndClose) // which ends Receive
	var event protocol.Event
	err := p.Receive(&event)
	switch {
	case !late.Stop():
		err = fmt.Errorf("no event within %v", proxyStartTimeout)
	case err == nil && event.Heartbeat == nil:
		err = errors.New("its first event is not a heartbeat")
	case err == nil:
		return nil
	}
	p.KillAndClose()
	return fmt.Errorf("cannot start the proxy process (the lines before this one are its output): %w",
		errors.Join(err, p.Err()))
}
