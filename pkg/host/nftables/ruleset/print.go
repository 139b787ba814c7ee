// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"strings"
)

// String returns the whole table in the syntax of nft -f. It equals the output of nft list
// except for the names of priorities. It omits the owner flag: a table that nft -f owned
// would disappear when nft ends.
func (t Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s {\n", Name)
	for _, s := range t.Sets() {
		fmt.Fprintf(&b, "\tset %s {\n\t\ttype %s\n", s.Name, elementType(s.Family))
		if len(s.Elements) > 0 {
			fmt.Fprintf(&b, "\t\telements = { %s }\n", joinElements(s))
		}
		b.WriteString("\t}\n\n")
	}
	for i, c := range t.Chains() {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "\tchain %s {\n\t\ttype %s hook %s priority %d; policy accept;\n", c.Name, c.Type, c.Hook, c.Priority)
		for _, r := range c.Rules {
			fmt.Fprintf(&b, "\t\t%s\n", r)
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func elementType(f Family) string {
	if f == IPv4 {
		return "ipv4_addr"
	}
	return "ipv6_addr"
}

func joinElements(s Set) string {
	texts := make([]string, len(s.Elements))
	for i, a := range s.Elements {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}
