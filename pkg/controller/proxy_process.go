// SPDX-License-Identifier: Apache-2.0

package controller

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

// proxyProcess is a proxy process, and the connection to it.
type proxyProcess struct {
	*child.Process

	// The last results of commands.
	tested  *mailbox.Mailbox[[]protocol.VIPTested]
	probed  *mailbox.Mailbox[[]protocol.Reachability]
	drained *mailbox.Mailbox[int] // connections that were closed

	lastEvent atomic.Pointer[time.Time]

	mu      sync.Mutex      // not held during I/O
	flushes []chan struct{} // that the process has not answered, the oldest first
}

func startProxy(output *child.Output) (*proxyProcess, error) {
	process, err := child.Start(child.Proxy, output)
	if err != nil {
		return nil, err
	}
	return newProxyProcess(process), nil
}

func newProxyProcess(process *child.Process) *proxyProcess {
	return &proxyProcess{
		Process: process,
		tested:  mailbox.New[[]protocol.VIPTested](),
		probed:  mailbox.New[[]protocol.Reachability](),
		drained: mailbox.New[int](),
	}
}

// maxUnanswered bounds the commands that a process has not answered. Reports and self-tests
// send at most 20 a second to a process that does not answer, and a process that sends
// nothing at all is replaced after proxySilenceLimit: a working one does not reach it.
const maxUnanswered = 256

// request sends a command that [protocol.Flushed] answers. The result is closed then: the process
// has handled all earlier commands, and its statistics are recorded. It is never closed if
// maxUnanswered commands wait already.
func (p *proxyProcess) request(c protocol.Command) <-chan struct{} {
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

func (p *proxyProcess) recordFlushed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.flushes) > 0 {
		close(p.flushes[0])
		p.flushes = p.flushes[1:]
	}
}

// answersNothing reports whether maxUnanswered commands wait for an answer.
func (p *proxyProcess) answersNothing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.flushes) >= maxUnanswered
}

func (p *proxyProcess) recordEvent(now time.Time) { p.lastEvent.Store(&now) }

// silence returns for how long the process has sent nothing.
func (p *proxyProcess) silence(now time.Time) time.Duration { return now.Sub(*p.lastEvent.Load()) }

// newChildOutput logs the lines of the standard error of a kind of child process.
func newChildOutput(log *slog.Logger, kind string) *child.Output {
	return child.NewOutput(func(line string) {
		log.Warn(fmt.Sprintf("the %s process wrote to its standard error: %s", kind, line),
			slog.String("event", "child-output"))
	})
}

// proxyStartTimeout is how long a proxy process may take to send its first event.
const proxyStartTimeout = 5 * time.Second

// awaitAlive returns when the process has sent its first heartbeat.
func (p *proxyProcess) awaitAlive() error {
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
	return fmt.Errorf("cannot start the proxy process; the lines before this one contain what it wrote: %w",
		errors.Join(err, p.Err()))
}
