// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import (
	"bytes"
	"slices"
)

// matchedElement is an element that matches or may match.
type matchedElement struct {
	element
	match
}

// lookup returns the elements that match the value in a register: one certain match, or
// all possible ones. A catch-all element comes last.
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

// compareFields compares the fields of a concatenation. Each field starts at a register
// boundary.
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

// joinIntervals joins the starts and ends of intervals. An interval without an end
// reaches to the next start, or the last value.
func joinIntervals(elements []element) []element {
	sorted := slices.Clone(elements)
	slices.SortStableFunc(sorted, func(a, b element) int {
		if order := bytes.Compare(a.key, b.key); order != 0 {
			return order
		}
		if a.intervalEnd == b.intervalEnd {
			return 0
		}
		if a.intervalEnd { // an interval ends where the next one starts
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

// decrement is the value minus one.
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
