// SPDX-License-Identifier: Apache-2.0

package server

// element is a conversation's place in a list. It lies in the conversation, so
// that going in, going on and going out allocate nothing and search nothing.
type element struct {
	prev, next *element
	of         *conversation
}

// list has conversations in the order in which they came in. It is a ring
// through root, which is of none.
type list struct{ root element }

func newList() *list {
	l := new(list)
	l.root.prev, l.root.next = &l.root, &l.root
	return l
}

// first is the one that came in first, or nil.
func (l *list) first() *conversation { return l.root.next.of }

func (l *list) push(e *element) {
	e.prev, e.next = l.root.prev, &l.root
	e.prev.next, e.next.prev = e, e
}

// each calls do, which must not change the list.
func (l *list) each(do func(*conversation)) {
	for e := l.root.next; e != &l.root; e = e.next {
		do(e.of)
	}
}

// leave takes the element out of the list that it is in, if any.
func (e *element) leave() {
	if e.next == nil {
		return
	}
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}
