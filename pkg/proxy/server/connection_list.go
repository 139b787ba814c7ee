// SPDX-License-Identifier: Apache-2.0

package server

// listNode is the place of a connection in a list. It is part of the connection, so
// that insertion, moves and removal neither allocate nor search.
type listNode struct {
	prev, next *listNode
	connection *connection
}

// connectionList holds connections in the order of insertion. It is a ring through
// root, which has no connection.
type connectionList struct{ root listNode }

func newConnectionList() *connectionList {
	l := new(connectionList)
	l.root.prev, l.root.next = &l.root, &l.root
	return l
}

// oldest returns the connection that was inserted first, or nil.
func (l *connectionList) oldest() *connection { return l.root.next.connection }

func (l *connectionList) pushBack(e *listNode) {
	e.prev, e.next = l.root.prev, &l.root
	e.prev.next, e.next.prev = e, e
}

// forEach calls visit, which must not change the list.
func (l *connectionList) forEach(visit func(*connection)) {
	for e := l.root.next; e != &l.root; e = e.next {
		visit(e.connection)
	}
}

// remove takes the node out of its list, if it is in one.
func (e *listNode) remove() {
	if e.next == nil {
		return
	}
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}
