// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/reconcile"
)

// Client is the proxy as the reconcile loop sees it. It belongs to the goroutine of
// that loop. On the path from an address event to the rule it compares values and waits
// for nobody: a new configuration is put into a mailbox, and a port that is open already
// is found in a snapshot.
type Client struct {
	supervisor *Supervisor
	start      func(Settings)

	last    Settings
	serving bool // by the last settings
}

// NewClient returns a client of s. start takes new settings, which the supervisor gets when they are
// complete.
func NewClient(s *Supervisor, start func(Settings)) *Client {
	return &Client{supervisor: s, start: start}
}

var _ reconcile.Proxy = (*Client)(nil)

// Configure implements reconcile.Proxy.
func (p *Client) Configure(c config.Config, ingress []netip.Addr) {
	if p.serving && slices.Equal(p.last.Ingress, ingress) && reflect.DeepEqual(p.last.Config, c) {
		return
	}
	p.serving, p.last = true, Settings{Generation: p.last.Generation + 1, Config: c, Ingress: slices.Clone(ingress)}
	p.start(p.last)
}

// SettingsApplied returns a function that waits until the proxy uses the latest settings, or
// its context ends. Without a listener there is nothing to wait for.
func (p *Client) SettingsApplied() func(context.Context) {
	generation := p.last.Generation
	if !p.serving {
		return func(context.Context) {}
	}
	return func(ctx context.Context) { p.supervisor.awaitSettings(ctx, generation) }
}

// Open implements reconcile.Proxy. The socket listens on every address, because VIPs come
// and go; the table keeps all but redirected connections away from it.
func (p *Client) Open(port uint16) error {
	if slices.Contains(p.supervisor.openPorts(), port) {
		return nil
	}
	err, answered := query(p.supervisor, func(reply chan<- error) { reply <- p.supervisor.openPort(port) })
	if !answered {
		return errors.New("cannot listen: the proxy supervisor has stopped")
	}
	return err
}

// CloseExcept implements reconcile.Proxy.
func (p *Client) CloseExcept(port uint16, redirected bool) {
	if ports := p.supervisor.openPorts(); len(ports) == 1 && ports[0] == port {
		return
	}
	query(p.supervisor, func(reply chan<- struct{}) { p.supervisor.closeOthers(port, redirected, reply) })
}

// Close implements reconcile.Proxy. The sockets stay open until the requests in flight
// end: a process that starts meanwhile serves their backlogs.
func (p *Client) Close() {
	p.serving = false
	p.supervisor.drain(p.last.Generation)
	query(p.supervisor, p.supervisor.closeAllPorts)
}

// HandOver implements reconcile.Proxy. The descriptor store keeps the sockets: later
// connections are queued there until the next process starts.
func (p *Client) HandOver() <-chan struct{} {
	p.supervisor.submit(func() { p.supervisor.keep = true })
	ended, generation := make(chan struct{}), p.last.Generation
	go func() {
		defer close(ended)
		p.supervisor.drain(generation)
	}()
	return ended
}
