// SPDX-License-Identifier: Apache-2.0

// Package messageid owns the kinds of journal entries: the stable MESSAGE_ID of
// each, and the journal catalog that explains them in `journalctl -x`.
package messageid

import (
	"fmt"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/docurl"
)

// Message is one kind of journal entry.
type Message struct {
	Event   string // the field EVENT
	ID      string // the field MESSAGE_ID: 128 bits in hexadecimal
	Subject string // one line; @FIELD@ stands for a field of the entry
	Text    string // what it means and what to do; may be empty
}

// All lists the messages.
func All() []Message { return all() }

// ID is the MESSAGE_ID of an event, empty for one that is not known.
func ID(event string) string {
	list := all()
	if i := slices.IndexFunc(list, func(m Message) bool { return m.Event == event }); i >= 0 {
		return list[i].ID
	}
	return ""
}

// Catalog is the text of the journal catalog
// (https://systemd.io/CATALOG, "Message Catalog Developer Documentation").
func Catalog() string {
	var b strings.Builder
	b.WriteString("# SPDX-License-Identifier: Apache-2.0\n# Generated from pkg/findings/messageid: make docs.\n")
	for _, m := range all() {
		fmt.Fprintf(&b, "\n-- %s\nSubject: %s\nDefined-By: http01-proxyd\nSupport: https://github.com/http01-proxyd/http01-proxyd/issues\n"+
			"Documentation: %s\n", m.ID, m.Subject, docurl.Troubleshooting)
		if m.Text != "" {
			fmt.Fprintf(&b, "\n%s\n", m.Text)
		}
	}
	return b.String()
}
