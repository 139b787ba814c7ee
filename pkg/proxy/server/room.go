// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// maxLeaving bounds the connections that were told to leave and have not yet:
	// they still hold a descriptor and memory.
	maxLeaving = 256
	// chances is how many connections are looked at for one that its client keeps
	// waiting.
	chances = 8
	// catchUp is what the conversations get when it is they who are late, and not
	// their clients: the accept loop has come too far ahead of them.
	catchUp = time.Millisecond
	// grace is what every client gets for its head, slots or no slots. A validator's
	// comes with the handshake's last packet; so short a time slows a flood down
	// that takes all of the default's slots 50 times a second, and no smaller one.
	grace = 20 * time.Millisecond
)

// admission is what becomes of a new connection.
type admission struct {
	refused  bool            // its source has too many
	changed  <-chan struct{} // closed when there may be room
	patience time.Duration   // for that; 0 when c is in
}

// admit takes c in, which is new, where need be in the place of another:
//
// A source at its bound makes room for its newest connection with the one of its
// own that has waited longest for its head. Refusing the newest instead would be
// cheaper, and would let whoever floods from behind an address lock out all who
// share it, a CA behind the same translator among them. A validator sends its
// head with the handshake's last packet: the newest connection is the most likely
// to be one, and the one that is still without a head the least. The newest is
// refused only when no connection of its source is waited for.
//
// When all slots are taken, the same holds for all connections. When none of them
// is waited for, since all are being answered, c has to wait.
//
// unbounded takes c in without any of that.
func (l *live) admit(c *conversation, unbounded bool) admission {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !unbounded {
		if a, in := l.makeRoom(c); !in {
			return a
		}
	}
	l.n++
	if l.perSource > 0 {
		l.join(c)
	}
	l.put(c, reading)
	return admission{}
}

// makeRoom needs mu.
func (l *live) makeRoom(c *conversation) (a admission, made bool) {
	var own *source
	if l.perSource > 0 {
		own = l.sources[originOf(c.client.Addr())]
	}
	crowded := own != nil && own.n-own.leaving >= l.perSource
	if !crowded && l.n-l.leaving < l.limit {
		return admission{}, true
	}
	if l.leaving >= maxLeaving {
		return admission{changed: l.wait(), patience: acceptWait}, false
	}
	if crowded {
		old, _ := l.idlest(own.lingering, own.reading, c.since)
		if old == nil {
			return admission{refused: true}, false
		}
		l.evict(old, report.SourceLimit)
	}
	// Two for one, so that a limit that was lowered is reached.
	for range 2 {
		if l.n-l.leaving < l.limit {
			return admission{}, true
		}
		old, wait := l.idlest(l.lingering, l.reading, c.since.Add(-grace))
		if old == nil {
			return admission{changed: l.wait(), patience: wait}, false
		}
		l.evict(old, report.Evicted)
	}
	return admission{}, true
}

// idlest returns the connection whose client has the least to lose: that has its
// answer, or else that has been waited for longest. A head that lies unread is not
// waited for, its goroutine is behind: such a connection goes to the end. When
// there is none that came before the given time, wait is how long that will be so
// if nothing changes. It needs mu.
func (l *live) idlest(lingering, waiting *list, before time.Time) (c *conversation, wait time.Duration) {
	if c := lingering.first(); c != nil {
		return c, 0
	}
	for range chances {
		c := waiting.first()
		if c == nil {
			return nil, acceptWait
		}
		if young := c.since.Sub(before); young > 0 {
			return nil, young
		}
		if !c.tcp.Unread() {
			return c, 0
		}
		l.put(c, reading)
	}
	return nil, catchUp
}

// evict has c leave: the wait for its client ends now. Its goroutine does the
// rest, so that this never waits for it. It needs mu.
func (l *live) evict(c *conversation, why report.Refusal) {
	l.put(c, leaving)
	c.why = why
	l.leaving++
	if c.source != nil {
		c.source.leaving++
	}
	_ = c.tcp.SetReadDeadline(time.Unix(1, 0))
}

// left needs mu.
func (l *live) left(c *conversation) {
	l.leaving--
	if c.source != nil {
		c.source.leaving--
	}
}
