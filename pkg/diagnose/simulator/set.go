// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import (
	"bytes"
	"slices"
)

// matchedElement is an element that the value is, or may be.
type matchedElement struct {
	element
	match
}

// lookup gives the elements that the value in a register hits: the one that it is
// for sure, or all that it may be. An element for whatever is in no other one
// comes last.
func (t set) lookup(r *registers, register uint32) []matchedElement {
	var hits []matchedElement
	var rest *element
	for e, m := range t.comparisons(r, register) {
		switch {
		case e.catchAll:
			rest = &e
		case m.mismatch:
		case m.uncertainty == 0 && !e.conditional:
			return []matchedElement{{e, m}}
		default:
			if e.conditional {
				m.uncertainty |= NotSimulated
			}
			hits = append(hits, matchedElement{e, m})
		}
	}
	if rest != nil {
		m := match{}
		for _, h := range hits {
			m.uncertainty |= h.uncertainty
		}
		hits = append(hits, matchedElement{*rest, m})
	}
	return hits
}

// comparisons compares the value with each element.
func (t set) comparisons(r *registers, register uint32) func(func(element, match) bool) {
	return func(yield func(element, match) bool) {
		elements := t.elements
		if t.interval && len(t.fieldLengths) == 0 {
			elements = joinIntervals(elements)
		}
		for _, e := range elements {
			if !yield(e, t.compare(r, register, e)) {
				return
			}
		}
	}
}

func (t set) compare(r *registers, register uint32, e element) match {
	value := r.load(register, len(e.key))
	switch {
	case e.catchAll:
		return match{}
	case len(t.fieldLengths) > 0 && e.keyEnd != nil:
		return t.compareFields(value, e)
	case t.interval:
		return value.inRange(e.key, e.keyEnd)
	default:
		return value.equals(e.key)
	}
}

// compareFields compares each part of a concatenation, which begins at a register of
// its own.
func (t set) compareFields(value maskedBytes, e element) match {
	all := match{}
	at := 0
	for _, n := range t.fieldLengths {
		if at+n > min(len(e.key), len(e.keyEnd)) {
			return match{uncertainty: NotSimulated}
		}
		m := value.window(at, n).inRange(e.key[at:at+n], e.keyEnd[at:at+n])
		if m.mismatch {
			return m
		}
		all.uncertainty |= m.uncertainty
		at += (n + registerSize - 1) / registerSize * registerSize
	}
	return all
}

// joinIntervals joins the beginnings and ends of intervals. An interval without an end
// reaches to the next beginning, or the last value.
func joinIntervals(elements []element) []element {
	sorted := slices.Clone(elements)
	slices.SortStableFunc(sorted, func(a, b element) int {
		if order := bytes.Compare(a.key, b.key); order != 0 {
			return order
		}
		if a.intervalEnd == b.intervalEnd {
			return 0
		}
		if a.intervalEnd { // an interval ends where the next one begins
			return -1
		}
		return 1
	})
	var out []element
	open := -1
	for _, e := range sorted {
		if e.catchAll || e.keyEnd != nil {
			out = append(out, e)
			continue
		}
		if open >= 0 {
			out[open].keyEnd = decrement(e.key)
			open = -1
		}
		if !e.intervalEnd {
			open = len(out)
			out = append(out, e)
		}
	}
	return out
}

// decrement is the value that is one less.
func decrement(key []byte) []byte {
	out := slices.Clone(key)
	for i := len(out) - 1; i >= 0; i-- {
		out[i]--
		if out[i] != 0xff {
			break
		}
	}
	return out
}
