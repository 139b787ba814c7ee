// SPDX-License-Identifier: Apache-2.0

package messageid

import (
	"fmt"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/docurl"
)

// CatalogEntry describes one kind of journal entry.
type CatalogEntry struct {
	Event       string // the field EVENT
	ID          string // the field MESSAGE_ID: 128 bits in hexadecimal
	Subject     string // one line; @FIELD@ is replaced by a field of the entry
	Explanation string // meaning and necessary actions; may be empty
}

// All lists the entries of the catalog.
func All() []CatalogEntry { return catalogEntries() }

// MessageID is the MESSAGE_ID of an event, or empty for an unknown one.
func MessageID(event string) string {
	list := catalogEntries()
	if i := slices.IndexFunc(list, func(m CatalogEntry) bool { return m.Event == event }); i >= 0 {
		return list[i].ID
	}
	return ""
}

// RenderCatalog renders the journal catalog
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
