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
	maxJumpDepth = 16      // nested jumps, NFT_JUMP_STACK_SIZE
	maxRules     = 100_000 // that are evaluated for one packet
)

var errRulesetTooLarge = errors.New("the rulesets are too large to simulate a packet")

// Kind is the result of a base chain for a packet.
type Kind uint8

// The kinds.
const (
	Accepted   Kind = iota // the packet continues to the next base chain
	Dropped                // or rejected
	Translated             // a nat rule has changed its destination
	Untracked              // a rule has disabled connection tracking for it, so that no nat rule applies
)

// Outcome is the result of a base chain for a packet, and the rule that decided it.
type Outcome struct {
	Kind        Kind
	BaseChain   Chain
	ChainName   string // the chain of the rule, reached from the base chain by jumps
	Handle      uint64 // of the rule, or of the rule with the anonymous chain that decides; 0: the policy of the base chain
	Uncertainty Uncertainty
}

// Chain is the chain that has the rule or the policy.
func (o Outcome) Chain() Chain {
	place := o.BaseChain
	place.Name = o.ChainName
	return place
}

// baseChainWalk is the traversal of one base chain.
type baseChainWalk struct {
	evaluator

	base      Chain
	depth     int
	rulesLeft int
	outcomes  []Outcome
	untracked []Outcome // rules that disable connection tracking, whatever happens afterwards
}

// simulate returns the outcomes of a packet in a base chain: one that is certain, or
// all that are possible. It also returns the rules that may disable connection tracking
// for it.
func simulate(r Ruleset, base Chain, p Packet) (outcomes, untracked []Outcome, err error) {
	w := &baseChainWalk{evaluator: evaluator{packet: p, hook: base.Hook, table: base.Table, ruleset: r}, base: base, rulesLeft: maxRules}
	done, err := w.walkChain(chainEntry{chain: base.Name})
	if err != nil {
		return nil, nil, fmt.Errorf("cannot simulate a packet in chain %s: %w", base, err)
	}
	if done.fallsThrough {
		kind := Accepted
		if base.PolicyDrop {
			kind = Dropped
		}
		w.addOutcome(kind, place{chain: base.Name}, done.decided)
	}
	return w.outcomes, w.untracked, nil
}

func (w *baseChainWalk) addOutcome(kind Kind, at place, why Uncertainty) {
	w.outcomes = append(w.outcomes, Outcome{Kind: kind, BaseChain: w.base, ChainName: at.chain, Handle: at.handle, Uncertainty: why})
}

// place is a rule that nft can list.
type place struct {
	chain  string
	handle uint64
}

// chainEntry is how a packet enters a chain.
type chainEntry struct {
	chain       string
	from        place       // the rule that jumps to the chain; zero for a base chain
	uncertainty Uncertainty // of entering the chain
}

// chainResult is the result of traversing a chain.
type chainResult struct {
	fallsThrough bool        // the packet may reach the end of the chain or a return
	decided      Uncertainty // why an earlier rule may have decided already
}

// walkChain follows the packet through one chain.
func (w *baseChainWalk) walkChain(e chainEntry) (chainResult, error) {
	if w.depth++; w.depth > maxJumpDepth {
		return chainResult{}, errRulesetTooLarge
	}
	defer func() { w.depth-- }()
	rules, err := w.ruleset.chainRules(w.table, e.chain)
	if err != nil {
		return chainResult{}, err
	}
	c := chainWalk{baseChainWalk: w, chainEntry: e, anonymous: w.ruleset.isAnonymous(w.table, e.chain)}
	for _, r := range rules {
		if w.rulesLeft--; w.rulesLeft < 0 {
			return chainResult{}, errRulesetTooLarge
		}
		j, err := w.evaluateRule(r)
		if err != nil {
			return chainResult{}, err
		}
		if j.notrack {
			at := c.place(r)
			w.untracked = append(w.untracked, Outcome{Kind: Untracked, BaseChain: w.base, ChainName: at.chain, Handle: at.handle, Uncertainty: c.uncertainty | c.decided | c.leftEarly | j.uncertainty})
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

// ruleResult is the effect of a rule on the packet.
type ruleResult struct {
	verdicts    []possibleVerdict // possible verdicts; none if the rule does not match or has no verdict
	notrack     bool
	uncertainty Uncertainty // uncertainty of notrack
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

// chainWalk is the traversal of the rules of one chain.
type chainWalk struct {
	*baseChainWalk
	chainEntry

	anonymous bool
	decided   Uncertainty // uncertainty that a verdict was reached already
	leftEarly Uncertainty // uncertainty of having left this chain without a verdict
	mayReturn bool        // the packet may have returned from the chain
}

// place is the rule, or the rule with the anonymous chain that contains it.
func (c *chainWalk) place(r Rule) place {
	if c.anonymous {
		return c.from
	}
	return place{c.chain, r.Handle}
}

// applyVerdict applies a verdict. over means that no packet reaches the next rule.
func (c *chainWalk) applyVerdict(r Rule, v possibleVerdict) (over bool, err error) {
	why := c.uncertainty | c.decided | c.leftEarly | v.uncertainty
	certain := v.uncertainty == 0
	switch v.code {
	case unix.NFT_CONTINUE, unix.NFT_BREAK:
		return false, nil
	case unix.NFT_RETURN:
		c.mayReturn = true
		c.leftEarly |= v.uncertainty
		return certain, nil
	case unix.NFT_JUMP:
		done, err := c.walkChain(chainEntry{v.chain, c.place(r), why})
		if err != nil {
			return false, err
		}
		c.mergeResult(done, v.uncertainty)
		return certain && !done.fallsThrough, nil
	case unix.NFT_GOTO:
		done, err := c.walkChain(chainEntry{v.chain, c.place(r), why})
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
		c.addOutcome(Accepted, c.place(r), why)
	case verdictTranslated:
		c.addOutcome(Translated, c.place(r), why)
	case verdictQueue:
		// A user-space program decides.
		c.addOutcome(Accepted, c.place(r), why|NotSimulated)
		c.addOutcome(Dropped, c.place(r), why|NotSimulated)
	default:
		c.addOutcome(Dropped, c.place(r), why)
	}
	c.decided |= v.uncertainty
	return certain, nil
}

// mergeResult merges the result of a chain that was entered with an uncertainty.
func (c *chainWalk) mergeResult(done chainResult, why Uncertainty) {
	c.decided |= done.decided
	if !done.fallsThrough {
		c.decided |= why
	}
}

// blockingOutcome returns the outcome that keeps a packet from the next base chain.
// sure means that no outcome lets it pass; found is false if none blocks it.
func blockingOutcome(outcomes []Outcome) (o Outcome, sure, found bool) {
	keeps := func(o Outcome) bool { return o.Kind != Accepted }
	i := slices.IndexFunc(outcomes, keeps)
	if i < 0 {
		return Outcome{}, false, false
	}
	return outcomes[i], !slices.ContainsFunc(outcomes, func(o Outcome) bool { return !keeps(o) }), true
}
