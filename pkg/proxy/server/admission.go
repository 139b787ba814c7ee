// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// maxEvicted bounds the connections that were told to leave and have not yet:
	// they still hold a descriptor and memory.
	maxEvicted = 256
	// maxCandidates is how many connections are looked at for one that its client keeps
	// waiting.
	maxCandidates = 8
	// unreadRetryDelay is what the conversations get when it is they who are late, and not
	// their clients: the accept loop has come too far ahead of them.
	unreadRetryDelay = time.Millisecond
	// minHeadTime is what every client gets for its head, slots or no slots. A validator's
	// comes with the handshake's last packet; so short a time slows a flood down
	// that takes all of the default's slots 50 times a second, and no smaller one.
	minHeadTime = 20 * time.Millisecond
)

// admission is what becomes of a new connection.
type admission struct {
	refused bool            // its source has too many
	changed <-chan struct{} // closed when there may be room
	maxWait time.Duration   // for that; 0 when c is in
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
func (l *connectionTable) admit(c *connection, unbounded bool) admission {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !unbounded {
		if a, in := l.makeRoom(c); !in {
			return a
		}
	}
	l.count++
	if l.perSource > 0 {
		l.joinSource(c)
	}
	l.setStage(c, readingHead)
	return admission{}
}

// makeRoom needs mu.
func (l *connectionTable) makeRoom(c *connection) (a admission, made bool) {
	var own *source
	if l.perSource > 0 {
		own = l.sources[sourceKeyOf(c.client.Addr())]
	}
	crowded := own != nil && own.count-own.evicted >= l.perSource
	if !crowded && l.count-l.evicted < l.limit {
		return admission{}, true
	}
	if l.evicted >= maxEvicted {
		return admission{changed: l.changeSignal(), maxWait: acceptTimeout}, false
	}
	if crowded {
		old, _ := l.evictionCandidate(own.lingering, own.reading, c.acceptedAt)
		if old == nil {
			return admission{refused: true}, false
		}
		l.evict(old, report.SourceLimit)
	}
	// Two for one, so that a limit that was lowered is reached.
	for range 2 {
		if l.count-l.evicted < l.limit {
			return admission{}, true
		}
		old, wait := l.evictionCandidate(l.lingering, l.reading, c.acceptedAt.Add(-minHeadTime))
		if old == nil {
			return admission{changed: l.changeSignal(), maxWait: wait}, false
		}
		l.evict(old, report.Evicted)
	}
	return admission{}, true
}

// evictionCandidate returns the connection whose client has the least to lose: that has its
// answer, or else that has been waited for longest. A head that lies unread is not
// waited for, its goroutine is behind: such a connection goes to the end. When
// there is none that came before the given time, wait is how long that will be so
// if nothing changes. It needs mu.
func (l *connectionTable) evictionCandidate(lingering, waiting *connectionList, before time.Time) (c *connection, wait time.Duration) {
	if c := lingering.oldest(); c != nil {
		return c, 0
	}
	for range maxCandidates {
		c := waiting.oldest()
		if c == nil {
			return nil, acceptTimeout
		}
		if young := c.acceptedAt.Sub(before); young > 0 {
			return nil, young
		}
		if !c.tcp.HasUnread() {
			return c, 0
		}
		l.setStage(c, readingHead)
	}
	return nil, unreadRetryDelay
}

// evict has c leave: the wait for its client ends now. Its goroutine does the
// rest, so that this never waits for it. It needs mu.
func (l *connectionTable) evict(c *connection, why report.Refusal) {
	l.setStage(c, evicted)
	c.evictionReason = why
	l.evicted++
	if c.source != nil {
		c.source.evicted++
	}
	_ = c.tcp.SetReadDeadline(time.Unix(1, 0))
}

// uncountEvicted needs mu.
func (l *connectionTable) uncountEvicted(c *connection) {
	l.evicted--
	if c.source != nil {
		c.source.evicted--
	}
}
