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
	maxJumpDepth = 16      // jumps in each other, NFT_JUMP_STACK_SIZE
	maxRules     = 100_000 // that one packet is compared with
)

var errRulesetTooLarge = errors.New("the rulesets are too large to follow a packet through")

// Kind is what becomes of a packet in a base chain.
type Kind uint8

// The kinds.
const (
	Accepted   Kind = iota // the next base chain sees it
	Dropped                // or rejected
	Translated             // a nat rule has changed its destination
	Untracked              // a rule has taken it from connection tracking, so that no nat rule sees it
)

// Outcome is what becomes of a packet, and where.
type Outcome struct {
	Kind        Kind
	BaseChain   Chain
	ChainName   string // the chain of the rule, which the base chain has jumped to
	Handle      uint64 // of the rule; 0: it is the base chain's policy
	Uncertainty Uncertainty
}

// Chain is the chain that has the rule or the policy.
func (o Outcome) Chain() Chain {
	place := o.BaseChain
	place.Name = o.ChainName
	return place
}

// baseChainWalk is the way through one base chain.
type baseChainWalk struct {
	evaluator

	base      Chain
	depth     int
	rulesLeft int
	outcomes  []Outcome
	untracked []Outcome // rules that take it from connection tracking, whatever becomes of it then
}

// simulate gives what becomes of a packet in a base chain: one outcome that is
// certain, or all those that are possible; and the rules that may take it from
// connection tracking.
func simulate(r Ruleset, base Chain, p Packet) (outcomes, untracked []Outcome, err error) {
	w := &baseChainWalk{evaluator: evaluator{packet: p, hook: base.Hook, table: base.Table, ruleset: r}, base: base, rulesLeft: maxRules}
	done, err := w.walkChain(base.Name, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("follow a packet through chain %s: %w", base, err)
	}
	if done.fallsThrough {
		kind := Accepted
		if base.PolicyDrop {
			kind = Dropped
		}
		w.addOutcome(kind, base.Name, 0, done.decided)
	}
	return w.outcomes, w.untracked, nil
}

func (w *baseChainWalk) addOutcome(kind Kind, in string, handle uint64, why Uncertainty) {
	w.outcomes = append(w.outcomes, Outcome{Kind: kind, BaseChain: w.base, ChainName: in, Handle: handle, Uncertainty: why})
}

// chainResult is how a chain was passed.
type chainResult struct {
	fallsThrough bool        // it may come out at the end, or by a return
	decided      Uncertainty // why it may not, since an earlier rule may have decided
}

// walkChain follows the packet through one chain, in which it arrives for the reasons
// of entry.
func (w *baseChainWalk) walkChain(name string, entry Uncertainty) (chainResult, error) {
	if w.depth++; w.depth > maxJumpDepth {
		return chainResult{}, errRulesetTooLarge
	}
	defer func() { w.depth-- }()
	rules, err := w.ruleset.chainRules(w.table, name)
	if err != nil {
		return chainResult{}, err
	}
	c := chainWalk{baseChainWalk: w, name: name, entered: entry}
	for _, r := range rules {
		if w.rulesLeft--; w.rulesLeft < 0 {
			return chainResult{}, errRulesetTooLarge
		}
		j, err := w.evaluateRule(r)
		if err != nil {
			return chainResult{}, err
		}
		if j.notrack {
			w.untracked = append(w.untracked, Outcome{Kind: Untracked, BaseChain: w.base, ChainName: name, Handle: r.Handle, Uncertainty: c.entered | c.decided | c.leftEarly | j.uncertainty})
		}
		for _, v := range j.verdicts {
			over, err := c.applyVerdict(r, v)
			if err != nil {
				return chainResult{}, err
			}
			if over {
				return chainResult{c.mayReturn, c.decided}, nil
			}
		}
	}
	return chainResult{true, c.decided}, nil
}

// ruleResult is what a rule does to the packet.
type ruleResult struct {
	verdicts    []possibleVerdict // that it may come to; none, when it does not match or has none
	notrack     bool
	uncertainty Uncertainty // it may not untrack
}

func (w *baseChainWalk) evaluateRule(r Rule) (ruleResult, error) {
	w.registers = registers{}
	var j ruleResult
	var why Uncertainty
	for _, x := range r.expressions {
		e, err := w.evaluate(x)
		if err != nil || e.mismatch {
			return j, err
		}
		why |= e.uncertainty
		if e.notrack {
			j.notrack, j.uncertainty = true, why
		}
		if e.verdicts != nil {
			for i := range e.verdicts {
				e.verdicts[i].uncertainty |= why
			}
			j.verdicts = e.verdicts
			return j, nil
		}
	}
	return j, nil
}

// chainWalk is the way through the rules of one chain.
type chainWalk struct {
	*baseChainWalk

	name      string
	entered   Uncertainty // why it may not have come into this chain
	decided   Uncertainty // why it may be decided by now
	leftEarly Uncertainty // why it may have left this chain by now, undecided
	mayReturn bool        // it may have
}

// applyVerdict carries a verdict out; over means that nothing comes to the next rule.
func (c *chainWalk) applyVerdict(r Rule, v possibleVerdict) (over bool, err error) {
	why := c.entered | c.decided | c.leftEarly | v.uncertainty
	certain := v.uncertainty == 0
	switch v.code {
	case unix.NFT_CONTINUE, unix.NFT_BREAK:
		return false, nil
	case unix.NFT_RETURN:
		c.mayReturn = true
		c.leftEarly |= v.uncertainty
		return certain, nil
	case unix.NFT_JUMP:
		done, err := c.walkChain(v.chain, why)
		if err != nil {
			return false, err
		}
		c.mergeResult(done, v.uncertainty)
		return certain && !done.fallsThrough, nil
	case unix.NFT_GOTO:
		done, err := c.walkChain(v.chain, why)
		if err != nil {
			return false, err
		}
		c.mergeResult(done, v.uncertainty)
		c.leftEarly |= v.uncertainty
		c.mayReturn = c.mayReturn || done.fallsThrough
		return certain, nil
	}
	switch v.code & 0xff {
	case verdictAccept:
		c.addOutcome(Accepted, c.name, r.Handle, why)
	case verdictTranslated:
		c.addOutcome(Translated, c.name, r.Handle, why)
	case verdictQueue:
		// A program decides.
		c.addOutcome(Accepted, c.name, r.Handle, why|NotSimulated)
		c.addOutcome(Dropped, c.name, r.Handle, why|NotSimulated)
	default:
		c.addOutcome(Dropped, c.name, r.Handle, why)
	}
	c.decided |= v.uncertainty
	return certain, nil
}

// mergeResult takes over what another chain has done, to which it went for the reasons
// of why.
func (c *chainWalk) mergeResult(done chainResult, why Uncertainty) {
	c.decided |= done.decided
	if !done.fallsThrough {
		c.decided |= why
	}
}

// blockingOutcome gives what keeps a packet from the next base chain. sure means that
// nothing lets it pass; found is false when nothing may keep it.
func blockingOutcome(outcomes []Outcome) (o Outcome, sure, found bool) {
	keeps := func(o Outcome) bool { return o.Kind != Accepted }
	i := slices.IndexFunc(outcomes, keeps)
	if i < 0 {
		return Outcome{}, false, false
	}
	return outcomes[i], !slices.ContainsFunc(outcomes, func(o Outcome) bool { return !keeps(o) }), true
}
