// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	deepest  = 16      // jumps in each other, NFT_JUMP_STACK_SIZE
	maxRules = 100_000 // that one packet is compared with
)

var errEndless = errors.New("the rulesets are too large to follow a packet through")

// Kind is what becomes of a packet in a base chain.
type Kind uint8

// The kinds.
const (
	Accepted  Kind = iota // the next base chain sees it
	Dropped               // or rejected
	Caught                // a nat rule has changed its destination
	Untracked             // a rule has taken it from connection tracking, so that no nat rule sees it
)

// Outcome is what becomes of a packet, and where.
type Outcome struct {
	Kind   Kind
	Base   Chain
	In     string // the chain of the rule, which the base chain has jumped to
	Handle uint64 // of the rule; 0: it is the base chain's policy
	Why    Why
}

// Place is the chain that has the rule or the policy.
func (o Outcome) Place() Chain {
	place := o.Base
	place.Name = o.In
	return place
}

// walk is the way through one base chain.
type walk struct {
	state

	base      Chain
	depth     int
	left      int
	outcomes  []Outcome
	untracked []Outcome // rules that take it from connection tracking, whatever becomes of it then
}

// follow gives what becomes of a packet in a base chain: one outcome that is
// certain, or all those that are possible; and the rules that may take it from
// connection tracking.
func follow(r Ruleset, base Chain, p Packet) (outcomes, untracked []Outcome, err error) {
	w := &walk{state: state{packet: p, hook: base.Hook, table: base.Table, rules: r}, base: base, left: maxRules}
	done, err := w.chain(base.Name, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("follow a packet through chain %s: %w", base, err)
	}
	if done.through {
		kind := Accepted
		if base.Drops {
			kind = Dropped
		}
		w.end(kind, base.Name, 0, done.taken)
	}
	return w.outcomes, w.untracked, nil
}

func (w *walk) end(kind Kind, in string, handle uint64, why Why) {
	w.outcomes = append(w.outcomes, Outcome{Kind: kind, Base: w.base, In: in, Handle: handle, Why: why})
}

// passage is how a chain was passed.
type passage struct {
	through bool // it may come out at the end, or by a return
	taken   Why  // why it may not, since an earlier rule may have decided
}

// chain follows the packet through one chain, in which it arrives for the reasons
// of entry.
func (w *walk) chain(name string, entry Why) (passage, error) {
	if w.depth++; w.depth > deepest {
		return passage{}, errEndless
	}
	defer func() { w.depth-- }()
	rules, err := w.rules.rules(w.table, name)
	if err != nil {
		return passage{}, err
	}
	c := course{walk: w, name: name, entry: entry}
	for _, r := range rules {
		if w.left--; w.left < 0 {
			return passage{}, errEndless
		}
		j, err := w.judge(r)
		if err != nil {
			return passage{}, err
		}
		if j.untracks {
			w.untracked = append(w.untracked, Outcome{Kind: Untracked, Base: w.base, In: name, Handle: r.Handle, Why: c.entry | c.taken | c.left | j.why})
		}
		for _, v := range j.verdicts {
			over, err := c.apply(r, v)
			if err != nil {
				return passage{}, err
			}
			if over {
				return passage{c.returned, c.taken}, nil
			}
		}
	}
	return passage{true, c.taken}, nil
}

// judgement is what a rule does to the packet.
type judgement struct {
	verdicts []possible // that it may come to; none, when it does not match or has none
	untracks bool
	why      Why // it may not untrack
}

func (w *walk) judge(r Rule) (judgement, error) {
	w.registers = registers{}
	var j judgement
	var why Why
	for _, x := range r.exprs {
		e, err := w.run(x)
		if err != nil || e.no {
			return j, err
		}
		why |= e.why
		if e.untracks {
			j.untracks, j.why = true, why
		}
		if e.verdicts != nil {
			for i := range e.verdicts {
				e.verdicts[i].why |= why
			}
			j.verdicts = e.verdicts
			return j, nil
		}
	}
	return j, nil
}

// course is the way through the rules of one chain.
type course struct {
	*walk

	name     string
	entry    Why  // why it may not have come into this chain
	taken    Why  // why it may be decided by now
	left     Why  // why it may have left this chain by now, undecided
	returned bool // it may have
}

// apply carries a verdict out; over means that nothing comes to the next rule.
func (c *course) apply(r Rule, v possible) (over bool, err error) {
	why := c.entry | c.taken | c.left | v.why
	certain := v.why == 0
	switch v.code {
	case unix.NFT_CONTINUE, unix.NFT_BREAK:
		return false, nil
	case unix.NFT_RETURN:
		c.returned = true
		c.left |= v.why
		return certain, nil
	case unix.NFT_JUMP:
		done, err := c.chain(v.chain, why)
		if err != nil {
			return false, err
		}
		c.pass(done, v.why)
		return certain && !done.through, nil
	case unix.NFT_GOTO:
		done, err := c.chain(v.chain, why)
		if err != nil {
			return false, err
		}
		c.pass(done, v.why)
		c.left |= v.why
		c.returned = c.returned || done.through
		return certain, nil
	}
	switch v.code & 0xff {
	case verdictAccept:
		c.end(Accepted, c.name, r.Handle, why)
	case verdictCaught:
		c.end(Caught, c.name, r.Handle, why)
	case verdictQueue:
		// A program decides.
		c.end(Accepted, c.name, r.Handle, why|Opaque)
		c.end(Dropped, c.name, r.Handle, why|Opaque)
	default:
		c.end(Dropped, c.name, r.Handle, why)
	}
	c.taken |= v.why
	return certain, nil
}

// pass takes over what another chain has done, to which it went for the reasons
// of why.
func (c *course) pass(done passage, why Why) {
	c.taken |= done.taken
	if !done.through {
		c.taken |= why
	}
}

// ending gives what keeps a packet from the next base chain. sure means that
// nothing lets it pass; found is false when nothing may keep it.
func ending(outcomes []Outcome) (o Outcome, sure, found bool) {
	keeps := func(o Outcome) bool { return o.Kind != Accepted }
	i := slices.IndexFunc(outcomes, keeps)
	if i < 0 {
		return Outcome{}, false, false
	}
	return outcomes[i], !slices.ContainsFunc(outcomes, func(o Outcome) bool { return !keeps(o) }), true
}
