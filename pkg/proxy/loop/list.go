// SPDX-License-Identifier: Apache-2.0

package loop

// Node is the place of an owner in a [List]. It is part of the owner, so that insertion,
// moves and removal neither allocate nor search.
type Node[T any] struct {
	prev, next *Node[T]
	owner      *T
}

// List holds owners in the order of insertion. It is a ring through root, which belongs to no
// owner. The zero value is empty. A list must not be copied.
type List[T any] struct{ root Node[T] }

// First returns the owner that was inserted first, or nil.
func (l *List[T]) First() *T {
	if l.root.next == nil {
		return nil
	}
	return l.root.next.owner
}

// PushBack inserts the node of an owner, which must be in no list.
func (l *List[T]) PushBack(n *Node[T], owner *T) {
	if l.root.next == nil {
		l.root.prev, l.root.next = &l.root, &l.root
	}
	n.owner, n.prev, n.next = owner, l.root.prev, &l.root
	n.prev.next, n.next.prev = n, n
}

// Backward iterates over the owners, the last one first. The loop must not change the list, except
// that it may remove the owner that it gets.
func (l *List[T]) Backward(yield func(*T) bool) {
	for n := l.root.prev; n != nil && n.owner != nil; {
		owner := n.owner
		if n = n.prev; !yield(owner) {
			return
		}
	}
}

// IsListed reports whether the node is in a list.
func (n *Node[T]) IsListed() bool { return n.next != nil }

// Remove takes the node out of its list. It reports whether it was in one.
func (n *Node[T]) Remove() bool {
	if !n.IsListed() {
		return false
	}
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = nil, nil
	return true
}
