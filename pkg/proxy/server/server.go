// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Settings are the bounds of the front door and the names that it answers for.
// All bounds but PerSource are positive.
type Settings struct {
	Hosts          []string      // canonical: lower case, no port, no trailing dot; empty: any name
	MaxConnections int           // in flight at once, over all listeners
	PerSource      int           // of these from one IPv4 address or IPv6 /64; 0 means any number
	HeadTimeout    time.Duration // from accept until the request head is complete
	Timeout        time.Duration // from then until the upstream's last byte
	HeadBytes      int           // of a request head
}

// Request is one challenge that is forwarded. What it refers to stays as it is
// until Exchange returns.
type Request struct {
	Deadline time.Time
	VIP      netip.AddrPort // what the client connected to, before the kernel led it here; its family is asked first
	Client   netip.AddrPort
	Head     []byte // one complete head of a GET or HEAD, in origin-form
	Host     string // in canonical form, without a port; empty when the client has named none
	Target   []byte // as in Head
	IsHead   bool   // the request is HEAD
	HTTP10   bool   // the client cannot read chunks
}

// Upstream asks the ingress.
type Upstream interface {
	// Exchange asks the ingress for r and writes the answer to client, all by the
	// deadline.
	//
	// It returns the status written to client, 0 when nothing was; the address
	// that was asked; and an error that implements [Finding] unless client.Write
	// failed.
	Exchange(r *Request, client io.Writer) (status int, from netip.AddrPort, err error)
}

// UpstreamError is an error of Upstream: what was wrong with an answer, or why there
// is none.
type UpstreamError interface {
	error
	// Label is the cause, of a fixed set.
	CauseID() string
	// Failure is the finding as it is reported to the controller.
	Failure() cause.Failure
	// Answer is the status and the one line that the client is told when nothing
	// was written to it.
	ClientAnswer() (status int, reason string)
	// Cut reports whether the client was written a part of an answer.
	Truncated() bool
}

// Recorder learns how each connection ended: exactly one call for each. It is
// called from many goroutines and must not block.
type Recorder interface {
	// Challenge is called for a request that was forwarded, with what was found at
	// the upstream, or nil.
	RecordChallenge(c report.Challenge, why *cause.Failure)
	// Refused is called for every other connection, with who seems to ask when
	// the request could be read, and else [status.OtherAsker].
	RecordRefusal(why report.Refusal, asker report.ClientKind)
}

// Server is the front door. It is safe for concurrent use.
type Server struct {
	upstream     Upstream
	recorder     Recorder
	settings     atomic.Pointer[activeSettings]
	connections  *connectionTable
	pool         connectionPool
	longBuffers  sync.Pool // of *[longBufferSize]byte
	acceptErrors acceptErrors
}

// activeSettings are accepted Settings, as a conversation needs them.
type activeSettings struct {
	Settings
	allowedHosts map[string]struct{}
}

func newActiveSettings(s Settings) *activeSettings {
	r := &activeSettings{Settings: s, allowedHosts: make(map[string]struct{}, len(s.Hosts))}
	for _, name := range s.Hosts {
		r.allowedHosts[name] = struct{}{}
	}
	return r
}

func (r *activeSettings) allowsHost(name []byte) bool {
	if len(r.allowedHosts) == 0 {
		return true
	}
	_, ok := r.allowedHosts[string(name)]
	return ok
}

// New returns a front door that forwards challenges to up.
func New(s Settings, up Upstream, rec Recorder) *Server {
	g := &Server{
		upstream:    up,
		recorder:    rec,
		longBuffers: sync.Pool{New: func() any { return new([longBufferSize]byte) }},
		connections: newConnectionTable(),
	}
	g.Update(s)
	return g
}

// Update puts settings in force for connections accepted from now on, and
// MaxConnections and PerSource at once; what is in flight then makes room as new
// connections come.
func (g *Server) Update(s Settings) {
	g.settings.Store(newActiveSettings(s))
	g.connections.setLimits(s.MaxConnections, s.PerSource)
}

// Stats is what the front door does now.
type Stats struct {
	Failures    uint64 // of accept, since New
	LastFailure error  // the last of them; nil when there was none
}

// Stats returns what the front door does now. A recent failure such as "too
// many open files" means that connections wait in the kernel's backlog.
func (g *Server) Stats() Stats {
	return g.acceptErrors.stats()
}

// drainHeadTimeout is how long a connection whose request is not complete may still
// take when the front door is drained.
const drainHeadTimeout = time.Second

// Drain waits until no connection is in flight. Those whose request head is not
// complete get a second more. When ctx ends, the connections that are left are
// closed, and their number is returned; an exchange of theirs with the
// upstream ends with the upstream's own bounds. Call it after Serve has
// returned, or new connections keep coming.
func (g *Server) Drain(ctx context.Context) (cut int) {
	g.connections.shortenHeadDeadlines(time.Now().Add(drainHeadTimeout))
	for {
		n, changed := g.connections.inFlight()
		if n == 0 {
			return 0
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return g.connections.closeAll()
		}
	}
}
