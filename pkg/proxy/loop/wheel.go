// SPDX-License-Identifier: Apache-2.0

package loop

import "time"

const (
	// tick is the resolution of deadlines. They bound the wait for late peers, and they never
	// fire early.
	tick = 4 * time.Millisecond
	// slots is the size of the wheel: 2 s. A timer beyond stays for another round.
	slots = 512
)

// Timer calls Expired once, on the thread of its loop. It begins stopped.
type Timer struct {
	Expired func()

	node Node[Timer]
	tick int64
}

// wheel holds timers in slots by their tick. Setting, moving and stopping one takes
// constant time and allocates nothing.
type wheel struct {
	slots [slots]List[Timer]
	begin time.Time
	last  int64 // the tick until which timers fired
}

func (w *wheel) tickOf(t time.Time) int64 { return int64(t.Sub(w.begin) / tick) }

// SetTimer makes t expire at a time or shortly after, in place of the time that was set
// before. A time that has passed is the next round.
func (l *Loop) SetTimer(t *Timer, at time.Time) {
	l.StopTimer(t)
	w := &l.timers
	t.tick = max(w.tickOf(at)+1, w.last+1)
	w.slots[t.tick%slots].PushBack(&t.node, t)
}

// StopTimer stops a timer, if it is set.
func (*Loop) StopTimer(t *Timer) { t.node.Remove() }

// advance calls the functions of all timers until now.
func (w *wheel) advance(now time.Time) {
	until := w.tickOf(now)
	for w.last = max(w.last, until-slots); w.last < until; {
		w.last++ // before its timers fire, which can set others
		w.fire(&w.slots[w.last%slots], until)
	}
}

// fire calls the functions of the timers of a slot, which can set and stop others.
func (w *wheel) fire(slot *List[Timer], until int64) {
	var due List[Timer]
	for t := slot.First(); t != nil; t = slot.First() {
		t.node.Remove()
		due.PushBack(&t.node, t)
	}
	for t := due.First(); t != nil; t = due.First() {
		t.node.Remove()
		if t.tick > until {
			slot.PushBack(&t.node, t)
			continue
		}
		t.Expired()
	}
}

// next returns the time until the next timer may fire, at most limit.
func (w *wheel) next(now time.Time, limit time.Duration) time.Duration {
	for i := range min(int64(limit/tick), slots) {
		if w.slots[(w.last+1+i)%slots].First() != nil {
			return max(0, min(limit, w.begin.Add(time.Duration(w.last+1+i)*tick).Sub(now)))
		}
	}
	return limit
}
