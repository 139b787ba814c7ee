// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"os"
	"regexp"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// document is the document for operators.
const document = "../../../docs/microshift.md"

func (h *host) document() string {
	h.t.Helper()
	text, err := os.ReadFile(document)
	must(h.t, err)
	return string(text)
}

// expectDocumented expects that the document has a state as the service reports it.
func (h *host) expectDocumented(seen lab.Status) {
	h.t.Helper()
	message := strings.ReplaceAll(seen.Condition().Message, h.dir(), "/etc/microshift")
	if state := "`" + seen.Condition().Reason + ": " + message + "`"; !strings.Contains(h.document(), state) {
		h.t.Errorf("%s does not have the state %s", document, state)
	}
}

// expectPrinted expects that check printed the lines that the document shows, each from its
// beginning.
func (h *host) expectPrinted(text string) {
	h.t.Helper()
	name, err := os.Hostname()
	must(h.t, err)
	text = strings.NewReplacer(h.dir(), "/etc/microshift", " "+name+",", " edge,").Replace(text)
	block := regexp.MustCompile("(?ms)^```text\n(.*?)^```$").FindStringSubmatch(h.document())
	if block == nil {
		h.t.Fatalf("%s has no text block", document)
	}
	for line := range strings.Lines(block[1]) {
		if !strings.Contains("\n"+text, "\n"+strings.TrimRight(line, "\n")) {
			h.t.Errorf("check does not print %q:\n%s", line, text)
		}
	}
}
