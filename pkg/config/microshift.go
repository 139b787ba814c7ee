// SPDX-License-Identifier: Apache-2.0

package config

import "go.yaml.in/yaml/v4"

// MicroShift is the support for MicroShift hosts.
type MicroShift struct {
	Directory string // absolute path of its configuration; empty: no MicroShift support
	// ManageAdvertiseAddress adds the internal address of the API server to lo, as
	// MicroShift does, if no link of this host has it.
	ManageAdvertiseAddress bool
}

func (p *parser) parseMicroShift(n *yaml.Node) {
	m := &p.config.MicroShift
	p.mapping(
		n, "microshift",
		key{"directory", p.pathOrNone(&m.Directory, "microshift.directory")},
		key{"manageAdvertiseAddress", p.boolean(&m.ManageAdvertiseAddress, "microshift.manageAdvertiseAddress")},
	)
	if m.ManageAdvertiseAddress && m.Directory == "" {
		p.problem(p.values["microshift.manageAdvertiseAddress"], "set it to false, or specify microshift.directory",
			"microshift.manageAdvertiseAddress is true, and microshift.directory is empty")
	}
}
