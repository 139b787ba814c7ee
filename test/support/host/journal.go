// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Entry is a journal entry with its fields by name. A field that is not text contains
// journalctl's JSON.
type Entry map[string]string

// Cursor is a position in a host's journal.
type Cursor string

// JournalEnd returns the position after the last entry.
func (h *Host) JournalEnd(ctx context.Context) (Cursor, error) {
	if _, err := h.Run(ctx, "journalctl", "--sync"); err != nil {
		return "", err
	}
	out, err := h.Run(ctx, "journalctl", "--quiet", "--lines=1", "--output=cat", "--show-cursor")
	if err != nil {
		return "", err
	}
	_, cursor, found := strings.Cut(out, "-- cursor: ")
	if !found {
		return "", fmt.Errorf("the journal of %s shows no cursor: %q", h.Name, out)
	}
	return Cursor(strings.TrimSpace(cursor)), nil
}

// Journal returns a unit's entries after a position, including systemd's about it.
func (h *Host) Journal(ctx context.Context, unit string, after Cursor) ([]Entry, error) {
	if _, err := h.Run(ctx, "journalctl", "--sync"); err != nil {
		return nil, err
	}
	out, err := h.Run(ctx, "journalctl", "--quiet", "--unit="+unit, "--output=json", "--all", "--after-cursor="+
		string(after))
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for line := range strings.Lines(out) {
		var raw map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &raw); err != nil {
			return nil, fmt.Errorf("read the journal of %s: %w: %.200s", h.Name, err, line)
		}
		entry := make(Entry, len(raw))
		for name, value := range raw {
			var text string
			if json.Unmarshal(value, &text) != nil {
				text = string(value)
			}
			entry[name] = text
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// Diagnosis returns the end of the journal, also of a host that is off, and of the console
// for the log of a failed test.
func (h *Host) Diagnosis(ctx context.Context) string {
	const lines = "--lines=400"
	journal, err := h.Run(ctx, "journalctl", "--no-pager", "--output=short-precise", lines)
	if err != nil {
		journal, err = run(ctx, "journalctl", "--no-pager", "--output=short-precise", lines, "--root="+h.Root)
	}
	if err != nil {
		journal += err.Error()
	}
	console, err := os.ReadFile(h.consolePath())
	if err != nil {
		console = []byte(err.Error())
	}
	if cut := len(console) - 2048; cut > 0 {
		console = console[cut:]
	}
	return fmt.Sprintf("journal of %s:\n%s\nconsole of %s:\n%s\n", h.Name, journal, h.Name, console)
}
