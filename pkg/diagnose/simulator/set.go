// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import (
	"bytes"
	"slices"
)

// hit is an element that the value is, or may be.
type hit struct {
	element
	match
}

// find gives the elements that the value in a register hits: the one that it is
// for sure, or all that it may be. An element for whatever is in no other one
// comes last.
func (t set) find(r *registers, register uint32) []hit {
	var hits []hit
	var rest *element
	for e, m := range t.tried(r, register) {
		switch {
		case e.catchAll:
			rest = &e
		case m.no:
		case m.why == 0 && !e.unsure:
			return []hit{{e, m}}
		default:
			if e.unsure {
				m.why |= Opaque
			}
			hits = append(hits, hit{e, m})
		}
	}
	if rest != nil {
		m := match{}
		for _, h := range hits {
			m.why |= h.why
		}
		hits = append(hits, hit{*rest, m})
	}
	return hits
}

// tried compares the value with each element.
func (t set) tried(r *registers, register uint32) func(func(element, match) bool) {
	return func(yield func(element, match) bool) {
		elements := t.elements
		if t.interval && len(t.fields) == 0 {
			elements = ranges(elements)
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
	case len(t.fields) > 0 && e.end != nil:
		return t.fieldwise(value, e)
	case t.interval:
		return value.within(e.key, e.end)
	default:
		return value.equals(e.key)
	}
}

// fieldwise compares each part of a concatenation, which begins at a register of
// its own.
func (t set) fieldwise(value bits, e element) match {
	all := match{}
	at := 0
	for _, n := range t.fields {
		if at+n > min(len(e.key), len(e.end)) {
			return match{why: Opaque}
		}
		m := value.part(at, n).within(e.key[at:at+n], e.end[at:at+n])
		if m.no {
			return m
		}
		all.why |= m.why
		at += (n + wordSize - 1) / wordSize * wordSize
	}
	return all
}

// ranges joins the beginnings and ends of intervals. An interval without an end
// reaches to the next beginning, or the last value.
func ranges(elements []element) []element {
	sorted := slices.Clone(elements)
	slices.SortStableFunc(sorted, func(a, b element) int {
		if order := bytes.Compare(a.key, b.key); order != 0 {
			return order
		}
		if a.last == b.last {
			return 0
		}
		if a.last { // an interval ends where the next one begins
			return -1
		}
		return 1
	})
	var out []element
	open := -1
	for _, e := range sorted {
		if e.catchAll || e.end != nil {
			out = append(out, e)
			continue
		}
		if open >= 0 {
			out[open].end = before(e.key)
			open = -1
		}
		if !e.last {
			open = len(out)
			out = append(out, e)
		}
	}
	return out
}

// before is the value that is one less.
func before(key []byte) []byte {
	out := slices.Clone(key)
	for i := len(out) - 1; i >= 0; i-- {
		out[i]--
		if out[i] != 0xff {
			break
		}
	}
	return out
}
