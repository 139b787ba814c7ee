// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

type parseResult struct {
	instances      []Instance
	ignored        []IgnoredEntry
	missingNewline bool // see preprocessor.missingNewline
}

type blockKind uint8

const (
	blockOther blockKind = iota
	blockInstance
	blockVIPs
	blockExcluded
	blockPeers
	noBlock // outside all blocks
)

func instanceBlock(keyword string) blockKind {
	switch keyword {
	case "virtual_ipaddress":
		return blockVIPs
	case "virtual_ipaddress_excluded":
		return blockExcluded
	case "unicast_peer":
		return blockPeers
	default:
		return blockOther
	}
}

type block struct {
	kind   blockKind
	header line
}

type parser struct {
	input         *preprocessor
	blocks        []block
	header        *line // the last line, while a brace may follow it
	current       *instanceState
	result        parseResult
	instanceNames map[string]bool
}

type instanceState struct {
	Instance
	family family // of its VRRP adverts; addresses of other families are ignored
	seen   map[netip.Addr]bool
}

// parse parses a configuration. All its I/O goes through include, and the result depends only
// on the arguments.
func parse(root source, configID string, include includer) (parseResult, error) {
	p := &parser{input: newPreprocessor(root, configID, include), instanceNames: make(map[string]bool)}
	err := p.run()
	p.result.missingNewline = p.input.missingNewline
	if err != nil {
		p.result.instances = nil
	}
	return p.result, err
}

func (p *parser) run() error {
	for {
		l, ok, err := p.input.next()
		if err != nil {
			return err
		}
		if !ok {
			return p.checkComplete()
		}
		switch l.text {
		case "{":
			err = p.openBlock(l)
		case "}":
			err = p.closeBlock(l)
		default:
			err = p.parseStatement(l)
		}
		if err != nil {
			return err
		}
	}
}

func (p *parser) checkComplete() error {
	switch n := len(p.blocks); {
	case p.input.blank:
		return incompletef(p.input.end, "the file is empty")
	case p.input.defining != "":
		return incompletef(p.input.end, "the file ends inside the definition of $%s", p.input.defining)
	case p.header != nil && p.blockKindOf(*p.header) != blockOther:
		return incompletef(p.input.end, "the file ends before the { of %q", p.header.text)
	case n > 0:
		top := p.blocks[n-1]
		return incompletef(p.input.end, "the file ends inside the block %q of line %d: its } is missing", top.header.text, top.header.pos.Line)
	}
	return nil
}

func (p *parser) parseStatement(l line) error {
	if err := p.rejectMissingBrace(l.pos); err != nil {
		return err
	}
	p.header = &l
	w := tokenize(l.text)
	if p.current == nil || len(w) == 0 {
		return nil
	}
	switch p.inside() {
	case blockInstance:
		p.current.applySetting(w)
	case blockPeers:
		p.current.acceptFamilyOf(w[0].text)
	case blockVIPs, blockExcluded:
		return p.parseAddress(l, w)
	case blockOther, noBlock:
	}
	return nil
}

func (p *parser) inside() blockKind {
	if n := len(p.blocks); n > 0 {
		return p.blocks[n-1].kind
	}
	return noBlock
}

// rejectMissingBrace rejects a line at pos if the previous line requires an opening brace.
// keepalived would continue, and its next closing brace would end the wrong block.
func (p *parser) rejectMissingBrace(pos Pos) error {
	if p.header != nil && p.blockKindOf(*p.header) != blockOther {
		return syntaxErrorf(pos, "expected the { of %q from line %d: add it", p.header.text, p.header.pos.Line)
	}
	return nil
}

// blockKindOf returns the kind of block that a line opens at the current position.
func (p *parser) blockKindOf(l line) blockKind {
	w := tokenize(l.text)
	switch inside := p.inside(); {
	case len(w) == 0:
	case inside == noBlock && w[0].text == "vrrp_instance":
		return blockInstance
	case inside == blockInstance && p.current != nil:
		return instanceBlock(w[0].text)
	}
	return blockOther
}

func (p *parser) openBlock(l line) error {
	if p.header == nil {
		return syntaxErrorf(l.pos, "unexpected {: no keyword precedes it")
	}
	if len(p.blocks) == maxNesting {
		return syntaxErrorf(l.pos, "blocks are nested more than %d deep", maxNesting)
	}
	switch p.inside() {
	case blockVIPs, blockExcluded, blockPeers:
		top := p.blocks[len(p.blocks)-1].header
		return syntaxErrorf(l.pos, "unexpected { inside %q of line %d: is a } missing before it?", top.text, top.pos.Line)
	case blockOther, blockInstance, noBlock:
	}
	b := block{kind: p.blockKindOf(*p.header), header: *p.header}
	p.header = nil
	if b.kind == blockInstance {
		if err := p.beginInstance(b.header); err != nil {
			return err
		}
	}
	p.blocks = append(p.blocks, b)
	return nil
}

func (p *parser) closeBlock(l line) error {
	if err := p.rejectMissingBrace(l.pos); err != nil {
		return err
	}
	p.header = nil
	n := len(p.blocks)
	if n == 0 {
		return syntaxErrorf(l.pos, "unexpected }: no block is open; remove it or add the missing {")
	}
	b := p.blocks[n-1]
	p.blocks = p.blocks[:n-1]
	if b.kind == blockInstance && p.current != nil {
		p.result.instances = append(p.result.instances, p.current.Instance)
		p.current = nil
	}
	return nil
}

// beginInstance starts an instance. keepalived skips an instance whose name is missing, has
// several words, or is already in use (vrrp_handler of vrrp_parser.c).
func (p *parser) beginInstance(l line) error {
	w := tokenize(l.text)
	if len(w) != 2 {
		p.recordIgnored(l.pos, "a vrrp_instance requires a name of one word: keepalived skips this instance")
		return nil
	}
	name := w[1].text
	if p.instanceNames[name] {
		p.recordIgnored(l.pos, "duplicate vrrp_instance "+strconv.Quote(name)+": keepalived skips this instance")
		return nil
	}
	if len(p.instanceNames) == maxInstances {
		return syntaxErrorf(l.pos, "more than %d instances", maxInstances)
	}
	p.instanceNames[name] = true
	p.current = &instanceState{Instance: Instance{Name: name}, seen: make(map[netip.Addr]bool)}
	p.current.Role, p.current.Index = roleOf(name)
	return nil
}

func (p *parser) parseAddress(l line, w []token) error {
	in := p.current
	if addrText, _, _ := strings.Cut(w[0].text, "/"); addrText == "" {
		return nil // OpenShift renders the missing VIP of a family as "/128 label vip"
	}
	pos, text := l.position(w[0].offset), strconv.Quote(w[0].text)
	addr, reason := parseVIP(w[0].text)
	if rejection := in.rejectReason(addr); rejection != "" {
		return syntaxErrorf(pos, "%s: %s %s", in.Name, text, rejection)
	}
	if reason == "" {
		reason = checkAddressOptions(addr, w[1:])
	}
	if reason == "" && p.inside() == blockVIPs && !in.acceptFamily(familyOf(addr)) {
		reason = "it does not have the instance's address family"
	}
	if reason != "" {
		p.recordIgnored(pos, in.Name+": keepalived ignores "+text+": "+reason)
		return nil
	}
	if !in.seen[addr] {
		in.seen[addr] = true
		in.Addrs = append(in.Addrs, addr)
	}
	return nil
}

func (p *parser) recordIgnored(pos Pos, text string) {
	if len(p.result.ignored) < maxIgnored {
		p.result.ignored = append(p.result.ignored, IgnoredEntry{Pos: pos, Text: text})
	}
}

// collectVIPs returns the addresses of one role, by index and then by position in the file.
func collectVIPs(instances []Instance, role Role) []netip.Addr {
	var picked []Instance
	for _, in := range instances {
		if in.Role == role {
			picked = append(picked, in)
		}
	}
	slices.SortStableFunc(picked, func(a, b Instance) int { return cmp.Compare(a.Index, b.Index) })
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
