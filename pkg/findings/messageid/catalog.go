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

// CatalogEntry is one kind of journal entry.
type CatalogEntry struct {
	Event       string // the field EVENT
	ID          string // the field MESSAGE_ID: 128 bits in hexadecimal
	Subject     string // one line; @FIELD@ stands for a field of the entry
	Explanation string // what it means and what to do; may be empty
}

// All lists the messages.
func All() []CatalogEntry { return catalogEntries() }

// MessageID is the MESSAGE_ID of an event, empty for one that is not known.
func MessageID(event string) string {
	list := catalogEntries()
	if i := slices.IndexFunc(list, func(m CatalogEntry) bool { return m.Event == event }); i >= 0 {
		return list[i].ID
	}
	return ""
}

// RenderCatalog is the text of the journal catalog
// (https://systemd.io/CATALOG, "Message Catalog Developer Documentation").
func RenderCatalog() string {
	var b strings.Builder
	b.WriteString("# SPDX-License-Identifier: Apache-2.0\n# Generated from pkg/findings/messageid: make docs.\n")
	for _, m := range catalogEntries() {
		fmt.Fprintf(&b, "\n-- %s\nSubject: %s\nDefined-By: http01-proxyd\nSupport: https://github.com/http01-proxyd/http01-proxyd/issues\n"+
			"Documentation: %s\n", m.ID, m.Subject, docurl.Troubleshooting)
		if m.Explanation != "" {
			fmt.Fprintf(&b, "\n%s\n", m.Explanation)
		}
	}
	return b.String()
}
