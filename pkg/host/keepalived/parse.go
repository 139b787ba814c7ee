// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// role is the purpose of a VRRP instance, derived from its name. OpenShift names its instances
// <cluster>_API_<n> and <cluster>_INGRESS_<n>, where n numbers the address families.
type role uint8

const (
	roleOther role = iota
	roleAPI
	roleIngress
)

// roleOf derives the role from the end of an instance's name. The cluster name before it may
// contain any text, even _API_0. The number is decimal as a Go template prints it.
func roleOf(name string) (r role, index int) {
	digits := name[strings.LastIndexByte(name, '_')+1:]
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || digits != strconv.FormatUint(n, 10) {
		return roleOther, 0
	}
	switch prefix := strings.TrimSuffix(name, digits); {
	case strings.HasSuffix(prefix, "_API_"):
		return roleAPI, int(n)
	case strings.HasSuffix(prefix, "_INGRESS_"):
		return roleIngress, int(n)
	}
	return roleOther, 0
}

// instance is one vrrp_instance block.
type instance struct {
	name  string
	role  role
	index int
	addrs []netip.Addr // virtual_ipaddress and virtual_ipaddress_excluded, in file order; none for roleOther
}

type blockKind uint8

const (
	noBlock    blockKind = iota // outside all blocks
	blockOther                  // skipped
	blockInstance
	blockVIPs
)

type block struct {
	kind   blockKind
	header line
}

type parser struct {
	include   includer
	blocks    []block
	header    *line // the last line, while a brace may follow it
	instances []instance
	names     map[string]bool

	end            position // of the last line that was read
	blank          bool     // all files so far contain only white space
	missingNewline bool     // see reading.missingNewline
}

// parse parses a configuration. All its I/O goes through include, and the result depends only
// on the arguments.
func parse(root source, include includer) (reading, error) {
	p := &parser{include: include, names: make(map[string]bool), blank: true, end: position{root.path, 1, 1}}
	err := p.parseFile(root, 0)
	if err == nil {
		err = p.checkComplete()
	}
	r := reading{missingNewline: p.missingNewline}
	if err != nil {
		return r, err
	}
	r.VIPs = VIPs{API: collectVIPs(p.instances, roleAPI), Ingress: collectVIPs(p.instances, roleIngress)}
	if len(r.VIPs.API) == 0 {
		return r, fmt.Errorf("%s: %w", root.path, ErrNoAPIInstance)
	}
	return r, nil
}

func (p *parser) checkComplete() error {
	switch n := len(p.blocks); {
	case p.blank:
		return incompletef(p.end, "the file is empty")
	case p.header != nil && p.kindOf(*p.header) != blockOther:
		return incompletef(p.end, "the file ends before the { of %q", p.header.text)
	case n > 0:
		top := p.blocks[n-1].header
		return incompletef(p.end, "the file ends inside the block %q of line %d: its } is missing", top.text, top.at.line)
	}
	return nil
}

func (p *parser) parseFile(f source, depth int) error {
	for number, rest := 1, f.data; len(rest) > 0; number++ {
		raw, tail, complete := bytes.Cut(rest, []byte("\n"))
		rest = tail
		text := strings.TrimRight(string(raw), "\r")
		p.end = position{f.path, number, len(text) + 1}
		err := p.parseLine(text, position{f.path, number, 1}, depth)
		if fault := (*parseError)(nil); !complete && errors.As(err, &fault) && fault.at.file == f.path && fault.err == nil {
			fault.err = ErrIncomplete
		}
		if err != nil {
			return err
		}
		text, _ = stripComment(text)
		p.missingNewline = p.missingNewline || !complete && strings.Trim(text, blanks+"}") != ""
	}
	return nil
}

// parseLine parses a line of a file.
func (p *parser) parseLine(text string, at position, depth int) error {
	if i := strings.IndexByte(text, 0); i >= 0 {
		at.column += i
		return incompletef(at, "NUL byte found")
	}
	p.blank = p.blank && strings.Trim(text, blanks) == ""
	text, unterminated := stripComment(text)
	for {
		indent := len(text) - len(strings.TrimLeft(text, blanks))
		l := line{text: strings.TrimRight(text[indent:], blanks), at: at}
		l.at.column += indent
		switch {
		case unterminated:
			return syntaxErrorf(l.at, "unclosed double quote: close it on this line")
		case l.text == "":
			return nil
		}
		if err := l.rejectPreprocessor(); err != nil {
			return err
		}
		if match := includeLine.FindStringSubmatch(l.text); match != nil {
			return p.parseIncludes(l.at, strings.TrimLeft(match[1], blanks), depth)
		}
		head, rest := splitAtBrace(l.text)
		at.column += indent + len(head)
		text, l.text = rest, strings.TrimRight(head, blanks)
		if err := p.parseStatement(l); err != nil {
			return err
		}
	}
}

// parseIncludes parses the files that an include line names. The rest of the line, including
// quotes, is the pattern.
func (p *parser) parseIncludes(at position, pattern string, depth int) error {
	if depth == maxIncludeDepth {
		return syntaxErrorf(at, "include %s: nested more than %d deep: does a file include itself?", pattern, maxIncludeDepth)
	}
	dir := pattern[:strings.LastIndexByte(pattern, '/')+1]
	if strings.ContainsAny(pattern, `{}$\`) || strings.ContainsAny(dir, "*?[") {
		return unsupported(at, "the pattern of include "+pattern)
	}
	sources, err := p.include(at.file, pattern)
	if err != nil {
		return &parseError{at: at, text: "include " + pattern, err: err}
	}
	for _, s := range sources {
		if err := p.parseFile(s, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) parseStatement(l line) error {
	if l.text == "{" {
		return p.openBlock(l)
	}
	if h := p.header; h != nil && p.kindOf(*h) != blockOther {
		// keepalived would continue, and its next closing brace would end the wrong block.
		return syntaxErrorf(l.at, "expected the { of %q from line %d: add it", h.text, h.at.line)
	}
	if l.text == "}" {
		if len(p.blocks) == 0 {
			return syntaxErrorf(l.at, "unexpected }: no block is open; remove it or add the missing {")
		}
		p.header, p.blocks = nil, p.blocks[:len(p.blocks)-1]
		return nil
	}
	p.header = &l
	if p.inside() != blockVIPs {
		return nil
	}
	return p.parseAddress(l)
}

func (p *parser) inside() blockKind {
	if n := len(p.blocks); n > 0 {
		return p.blocks[n-1].kind
	}
	return noBlock
}

// kindOf returns the kind of block that a line opens at the current position.
func (p *parser) kindOf(header line) blockKind {
	keyword := ""
	if w := header.tokenize(); len(w) > 0 {
		keyword = w[0].text
	}
	switch inside := p.inside(); {
	case inside == noBlock && keyword == "vrrp_instance":
		return blockInstance
	case inside == blockInstance && (keyword == "virtual_ipaddress" || keyword == "virtual_ipaddress_excluded"):
		return blockVIPs
	}
	return blockOther
}

func (p *parser) openBlock(l line) error {
	if p.header == nil {
		return syntaxErrorf(l.at, "unexpected {: no keyword precedes it")
	}
	b := block{kind: p.kindOf(*p.header), header: *p.header}
	p.header, p.blocks = nil, append(p.blocks, b)
	if b.kind == blockInstance {
		return p.beginInstance(b.header)
	}
	return nil
}

// beginInstance starts an instance. keepalived skips one whose name is missing, has several
// words, or is already in use (vrrp_handler of vrrp_parser.c).
func (p *parser) beginInstance(l line) error {
	w := l.tokenize()
	switch {
	case len(w) != 2:
		return syntaxErrorf(l.at, "a vrrp_instance requires a name of one word")
	case p.names[w[1].text]:
		return syntaxErrorf(l.at, "duplicate vrrp_instance %q", w[1].text)
	case strings.Contains(w[1].text, "$"):
		return unsupported(w[1].at, "the definition "+w[1].text)
	}
	in := instance{name: w[1].text}
	in.role, in.index = roleOf(in.name)
	p.names[in.name] = true
	p.instances = append(p.instances, in)
	return nil
}

// parseAddress parses ADDRESS or ADDRESS/MASK, and options, which are not read.
func (p *parser) parseAddress(l line) error {
	in := &p.instances[len(p.instances)-1]
	w := l.tokenize()
	if len(w) == 0 || in.role == roleOther {
		return nil
	}
	text, _, _ := strings.Cut(w[0].text, "/")
	if text == "" {
		return nil // OpenShift renders the missing VIP of a family as "/128 label vip"
	}
	if strings.Contains(text, "$") {
		return unsupported(w[0].at, "the definition "+text)
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" || addr.Is4In6() || addr.IsUnspecified() || addr.IsMulticast() {
		return syntaxErrorf(w[0].at, "%s: %q is not the address of a VIP", in.name, w[0].text)
	}
	in.addrs = append(in.addrs, addr)
	return nil
}

// collectVIPs returns the addresses of one role, each once, by index and then by position in
// the file.
func collectVIPs(instances []instance, r role) []netip.Addr {
	instances = slices.DeleteFunc(slices.Clone(instances), func(in instance) bool { return in.role != r })
	slices.SortStableFunc(instances, func(a, b instance) int { return cmp.Compare(a.index, b.index) })
	var out []netip.Addr
	for _, in := range instances {
		for _, a := range in.addrs {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}
