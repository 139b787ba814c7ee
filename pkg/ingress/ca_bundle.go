// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"bytes"
	"fmt"
	"slices"
)

// CABundle is a set of trusted CAs.
type CABundle struct {
	Roots       [][]byte `json:"roots"` // certificates in DER; empty: nothing is trusted
	Description string   `json:"-"`     // the source of the CAs in one line, for findings, which only the controller renders
}

// Equal reports whether both contain the same CAs with the same description.
func (b CABundle) Equal(other CABundle) bool {
	return b.Description == other.Description && slices.EqualFunc(b.Roots, other.Roots, bytes.Equal)
}

// Union returns the CAs of both, without duplicates.
func (b CABundle) Union(other CABundle) CABundle {
	more := slices.DeleteFunc(slices.Clone(other.Roots), func(der []byte) bool {
		return slices.ContainsFunc(b.Roots, func(root []byte) bool { return bytes.Equal(root, der) })
	})
	switch {
	case len(more) == 0:
		return b
	case len(b.Roots) == 0:
		return other
	default:
		return CABundle{Roots: slices.Concat(b.Roots, more), Description: b.Description + " and " + other.Description}
	}
}

// DescribeCAs returns a description for a number of CAs and their owner. It is empty for 0.
func DescribeCAs(number int, owner string) string {
	switch number {
	case 0:
		return ""
	case 1:
		return "the 1 CA of " + owner
	default:
		return fmt.Sprintf("the %d CAs of %s", number, owner)
	}
}
