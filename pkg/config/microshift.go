// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"
)

// MicroShift says where MicroShift's configuration is, and what is done for it.
type MicroShift struct {
	Directory string // absolute path; empty: MicroShift is not looked at
	// ManageAdvertiseAddress has the internal address of the API server on lo
	// where MicroShift would put it, as long as nobody else has it.
	ManageAdvertiseAddress bool
}

func (p *parser) parseMicroShift(n *yaml.Node) {
	m := &p.config.MicroShift
	var manage *yaml.Node
	p.mapping(
		n, "microshift",
		key{"directory", p.pathOrNone(&m.Directory, "microshift.directory")},
		key{"manageAdvertiseAddress", func(n *yaml.Node) {
			manage = n
			p.boolean(&m.ManageAdvertiseAddress, "microshift.manageAdvertiseAddress")(n)
		}},
	)
	if m.ManageAdvertiseAddress && m.Directory == "" {
		p.problem(manage, "set it to false, or give microshift.directory", "microshift.manageAdvertiseAddress is true, and microshift.directory is empty")
	}
}

// pathOrNone sets an absolute path, or the empty text for none.
func (r *reader) pathOrNone(into *string, where string) func(*yaml.Node) {
	const mend = `give an absolute path, or "" for none`
	return func(n *yaml.Node) {
		text, ok := r.scalar(n, where, mend, "!!str")
		switch {
		case !ok:
		case text == "":
			*into = ""
		case !filepath.IsAbs(text) || strings.ContainsRune(text, 0):
			r.problem(n, mend, "%s is %s", where, quoteRedacted(text))
		default:
			*into = filepath.Clean(text)
		}
	}
}
