// SPDX-License-Identifier: Apache-2.0

package server

// listNode is a conversation's place in a list. It lies in the conversation, so
// that going in, going on and going out allocate nothing and search nothing.
type listNode struct {
	prev, next *listNode
	connection *connection
}

// connectionList has conversations in the order in which they came in. It is a ring
// through root, which is of none.
type connectionList struct{ root listNode }

func newConnectionList() *connectionList {
	l := new(connectionList)
	l.root.prev, l.root.next = &l.root, &l.root
	return l
}

// oldest is the one that came in first, or nil.
func (l *connectionList) oldest() *connection { return l.root.next.connection }

func (l *connectionList) pushBack(e *listNode) {
	e.prev, e.next = l.root.prev, &l.root
	e.prev.next, e.next.prev = e, e
}

// forEach calls do, which must not change the list.
func (l *connectionList) forEach(do func(*connection)) {
	for e := l.root.next; e != &l.root; e = e.next {
		do(e.connection)
	}
}

// remove takes the element out of the list that it is in, if any.
func (e *listNode) remove() {
	if e.next == nil {
		return
	}
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}
