// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"net/netip"
	"strings"
)

// keywords that this package has to know.
const (
	kwInstance = "vrrp_instance"
	kwVIPs     = "virtual_ipaddress"
	kwExcluded = "virtual_ipaddress_excluded"
	kwPeers    = "unicast_peer"
)

// result is what parsing found, whether or not an error ended it.
type result struct {
	instances []Instance
	ignored   []Note
	torn      bool // see lines.torn
}

// blockKind is what a block means here.
type blockKind uint8

const (
	blockOther blockKind = iota
	blockInstance
	blockVIPs
	blockExcluded
	blockPeers
)

// block is an open block.
type block struct {
	kind   blockKind
	opener line
}

// parser follows the blocks of a configuration.
type parser struct {
	lines   *lines
	blocks  []block
	opener  *line // the last line, while a brace may follow it
	current *instance
	result  result
	seen    map[string]bool // instance names
}

// instance is the vrrp_instance that is being read.
type instance struct {
	Instance
	family family // of its VRRP adverts; addresses of another one are ignored
	seen   map[netip.Addr]bool
}

// parse reads a configuration. It does no input or output but through include,
// and its answer depends on nothing else than its arguments.
func parse(root source, configID string, include includer) (result, error) {
	p := &parser{lines: newLines(root, configID, include), seen: make(map[string]bool)}
	err := p.run()
	p.result.torn = p.lines.torn
	if err != nil {
		p.result.instances = nil
	}
	return p.result, err
}

func (p *parser) run() error {
	for {
		l, ok, err := p.lines.next()
		if err != nil {
			return err
		}
		if !ok {
			return p.finish()
		}
		switch l.text {
		case "{":
			err = p.openBlock(l)
		case "}":
			err = p.closeBlock(l)
		default:
			err = p.statement(l)
		}
		if err != nil {
			return err
		}
	}
}

// finish judges the end of the configuration.
func (p *parser) finish() error {
	switch n := len(p.blocks); {
	case p.lines.empty:
		return incompletef(p.lines.end, "nothing is in the file")
	case p.lines.defining != "":
		return incompletef(p.lines.end, "the file ends inside the definition of $%s", p.lines.defining)
	case p.opener != nil && p.kindOf(*p.opener) != blockOther:
		return incompletef(p.lines.end, "the file ends where the { of %q is due", p.opener.text)
	case n > 0:
		top := p.blocks[n-1]
		return incompletef(p.lines.end, "the file ends inside the block %q of line %d: its } is missing", top.opener.text, top.opener.pos.Line)
	}
	return nil
}

// statement takes a line that is no brace.
func (p *parser) statement(l line) error {
	if err := p.needNoBrace(l.pos); err != nil {
		return err
	}
	p.opener = &l
	if p.current == nil || len(p.blocks) == 0 {
		return nil
	}
	w := words(l.text)
	if len(w) == 0 {
		return nil
	}
	switch p.blocks[len(p.blocks)-1].kind {
	case blockInstance:
		p.current.setting(w)
	case blockPeers:
		p.current.bindTo(w[0].text)
	case blockVIPs, blockExcluded:
		return p.address(l, w)
	case blockOther:
	}
	return nil
}

// needNoBrace refuses a line at pos where the brace of the one before is due.
// Keepalived would go on, with its next closing brace ending the wrong block.
func (p *parser) needNoBrace(pos Pos) error {
	if p.opener != nil && p.kindOf(*p.opener) != blockOther {
		return faultf(pos, "expected the { of %q from line %d: add it", p.opener.text, p.opener.pos.Line)
	}
	return nil
}

// kindOf tells which kind of block a line opens where it stands.
func (p *parser) kindOf(l line) blockKind {
	w := words(l.text)
	if len(w) == 0 {
		return blockOther
	}
	if len(p.blocks) == 0 {
		if w[0].text == kwInstance {
			return blockInstance
		}
		return blockOther
	}
	if p.current == nil || p.blocks[len(p.blocks)-1].kind != blockInstance {
		return blockOther
	}
	switch w[0].text {
	case kwVIPs:
		return blockVIPs
	case kwExcluded:
		return blockExcluded
	case kwPeers:
		return blockPeers
	default:
		return blockOther
	}
}

func (p *parser) openBlock(l line) error {
	if p.opener == nil {
		return faultf(l.pos, "unexpected {: no keyword is before it")
	}
	if len(p.blocks) == maxNesting {
		return faultf(l.pos, "blocks are nested more than %d deep", maxNesting)
	}
	if n := len(p.blocks); n > 0 {
		switch p.blocks[n-1].kind {
		case blockVIPs, blockExcluded, blockPeers:
			return faultf(l.pos, "unexpected { inside %q of line %d: is a } missing before it?", p.blocks[n-1].opener.text, p.blocks[n-1].opener.pos.Line)
		case blockOther, blockInstance:
		}
	}
	b := block{kind: p.kindOf(*p.opener), opener: *p.opener}
	p.opener = nil
	if b.kind == blockInstance {
		if err := p.begin(b.opener); err != nil {
			return err
		}
	}
	p.blocks = append(p.blocks, b)
	return nil
}

func (p *parser) closeBlock(l line) error {
	if err := p.needNoBrace(l.pos); err != nil {
		return err
	}
	p.opener = nil
	n := len(p.blocks)
	if n == 0 {
		return faultf(l.pos, "unexpected }: no block is open; take it away or add the { that is missing before it")
	}
	b := p.blocks[n-1]
	p.blocks = p.blocks[:n-1]
	if b.kind == blockInstance && p.current != nil {
		p.result.instances = append(p.result.instances, p.current.Instance)
		p.current = nil
	}
	return nil
}

// begin starts an instance. Keepalived skips one without a name of one word,
// and one whose name it has met before (vrrp_handler of vrrp_parser.c).
func (p *parser) begin(l line) error {
	w := words(l.text)
	if len(w) != 2 {
		p.ignore(l.pos, "a vrrp_instance needs a name of one word: keepalived skips this one")
		return nil
	}
	name := w[1].text
	if p.seen[name] {
		p.ignore(l.pos, "a vrrp_instance "+quote(name)+" is there already: keepalived skips this one")
		return nil
	}
	if len(p.seen) == maxInstances {
		return faultf(l.pos, "more than %d instances", maxInstances)
	}
	p.seen[name] = true
	p.current = &instance{Instance: Instance{Name: name, Pos: l.pos}, seen: make(map[netip.Addr]bool)}
	p.current.Role, p.current.Index = roleOf(name)
	return nil
}

// address takes one line of a virtual_ipaddress block.
func (p *parser) address(l line, w []word) error {
	in := p.current
	if addrText, _, _ := strings.Cut(w[0].text, "/"); addrText == "" {
		return nil // OpenShift renders the VIP that a family lacks as "/128 label vip"
	}
	pos, text := l.at(w[0].at), quote(w[0].text)
	addr, reason := parseVIP(w[0].text)
	if refusal := in.refuses(addr); refusal != "" {
		return faultf(pos, "%s: %s %s", in.Name, text, refusal)
	}
	if reason == "" {
		reason = badTail(addr, w[1:])
	}
	if reason == "" && p.blocks[len(p.blocks)-1].kind == blockVIPs && !in.bind(familyOf(addr)) {
		reason = "it is not of the instance's address family"
	}
	if reason != "" {
		p.ignore(pos, in.Name+": keepalived leaves "+text+" out: "+reason)
		return nil
	}
	if !in.seen[addr] {
		in.seen[addr] = true
		in.Addrs = append(in.Addrs, addr)
	}
	return nil
}

func (p *parser) ignore(pos Pos, text string) {
	if len(p.result.ignored) < maxNotes {
		p.result.ignored = append(p.result.ignored, Note{Pos: pos, Text: text})
	}
}

// vips picks the addresses of one role: by index, then by place in the file.
func vips(instances []Instance, role Role) []netip.Addr {
	var picked []Instance
	for _, in := range instances {
		if in.Role == role {
			picked = append(picked, in)
		}
	}
	sortByIndex(picked)
	var out []netip.Addr
	seen := make(map[netip.Addr]bool)
	for _, in := range picked {
		for _, a := range in.Addrs {
			if !seen[a] {
				seen[a] = true
				out = append(out, a)
			}
		}
	}
	return out
}
