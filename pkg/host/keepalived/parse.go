// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// instanceName is the end of the name of an instance with VIPs. OpenShift names its instances
// <cluster>_API_<n> and <cluster>_INGRESS_<n>, where n numbers the address families. The cluster name
// may contain any text, even _API_0.
var instanceName = regexp.MustCompile(`_(API|INGRESS)_(0|[1-9]\d{0,4})$`)

// vip is an address of an instance with VIPs.
type vip struct {
	addr    netip.Addr
	ingress bool
	index   int
}

type blockKind uint8

const (
	blockOther    blockKind = iota // skipped
	blockInstance                  // a vrrp_instance whose name matches instanceName
	blockVIPs
)

type block struct {
	kind blockKind
	at   position
}

type parser struct {
	include  func(from, pattern string) ([]source, error)
	blocks   []block // that are open
	header   []token // the last statement, which a brace may follow
	instance vip     // without an address
	vips     []vip
}

// parse parses a configuration. All its I/O goes through include, which returns the files that an
// include line of a file names, and the result depends only on the arguments.
func parse(root source, include func(from, pattern string) ([]source, error)) (found VIPs, err error) {
	p := &parser{include: include}
	if strings.TrimSpace(root.text) == "" {
		return found, fmt.Errorf("%s: the file is empty: %w", root.path, ErrIncomplete)
	}
	if err := p.parseFile(root, 0); err != nil {
		return found, err
	}
	if n := len(p.blocks); n > 0 {
		return found, p.blocks[n-1].at.errorf("the block that begins here has no }: %w", ErrIncomplete)
	}
	slices.SortStableFunc(p.vips, func(a, b vip) int { return cmp.Compare(a.index, b.index) })
	for _, v := range p.vips {
		list := &found.API
		if v.ingress {
			list = &found.Ingress
		}
		if !slices.Contains(*list, v.addr) {
			*list = append(*list, v.addr)
		}
	}
	if len(found.API) == 0 {
		return found, fmt.Errorf("%s: %w", root.path, ErrNoAPIInstance)
	}
	return found, nil
}

func (p *parser) parseFile(f source, depth int) error {
	at := position{file: f.path}
	for text := range strings.Lines(f.text) {
		at.line++
		if strings.Contains(text, "\x00") {
			return at.errorf("NUL byte found: %w", ErrIncomplete)
		}
		line, closed := tokenize(text)
		err := at.errorf("unclosed double quote: close it on this line")
		if closed {
			err = p.parseLine(line, at, depth)
		}
		switch {
		case err != nil && !strings.HasSuffix(text, "\n"):
			return fmt.Errorf("%w: %w", err, ErrIncomplete)
		case err != nil:
			return err
		}
	}
	return nil
}

// parseLine parses the statements of a line, which braces separate.
func (p *parser) parseLine(line []token, at position, depth int) error {
	for len(line) > 0 {
		n := slices.IndexFunc(line, token.isBrace)
		switch n {
		case -1:
			n = len(line)
		case 0:
			n = 1
		}
		statement := line[:n]
		first := statement[0].text
		var err error
		switch {
		case statement[0].isBrace():
			err = p.parseBrace(first, at)
		case strings.HasPrefix(first, "@"):
			err = at.unsupported("the condition " + first)
		case strings.HasPrefix(first, "~"), strings.HasPrefix(first, "$"):
			err = at.unsupported("the definition " + first)
		case n < len(line) && strings.HasSuffix(statement[n-1].text, "$"):
			err = at.unsupported("a definition in ${}")
		case strings.TrimRight(first, "rmwba") == "include": // the letters change what keepalived logs
			return p.parseInclude(line[1:], at, depth)
		case p.inside() == blockVIPs:
			err = p.parseAddress(first, at)
		}
		if err != nil {
			return err
		}
		if !statement[0].isBrace() {
			p.header = statement
		}
		line = line[n:]
	}
	return nil
}

// parseInclude parses the files that an include line names.
func (p *parser) parseInclude(arguments []token, at position, depth int) error {
	var texts []string
	for _, a := range arguments {
		texts = append(texts, a.text)
	}
	pattern := strings.Join(texts, " ")
	dir := pattern[:strings.LastIndexByte(pattern, '/')+1]
	switch {
	case len(texts) != 1 || strings.Contains(pattern, "$") || strings.ContainsAny(dir, "*?["):
		return at.unsupported("the pattern of include " + pattern)
	case depth == maxIncludeDepth:
		return at.errorf("include %s: nested more than %d deep: does a file include itself?", pattern, maxIncludeDepth)
	}
	sources, err := p.include(at.file, pattern)
	if err != nil {
		return at.errorf("include %s: %w", pattern, err)
	}
	for _, s := range sources {
		if err := p.parseFile(s, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) inside() blockKind {
	if n := len(p.blocks); n > 0 {
		return p.blocks[n-1].kind
	}
	return blockOther
}

func (p *parser) parseBrace(brace string, at position) error {
	header, keyword := p.header, ""
	if len(header) > 0 {
		keyword = header[0].text
	}
	p.header = nil
	if brace == "}" {
		n := len(p.blocks) - 1
		if n < 0 {
			return at.errorf("unexpected }: no block is open; remove it or add the missing {")
		}
		p.blocks = p.blocks[:n]
		return nil
	}
	kind := blockOther
	switch {
	case keyword == "vrrp_instance" && len(p.blocks) == 0 && len(header) > 1:
		name := header[1].text
		if strings.Contains(name, "$") {
			return at.unsupported("the definition " + name)
		}
		if match := instanceName.FindStringSubmatch(name); match != nil {
			kind, p.instance.ingress = blockInstance, match[1] == "INGRESS"
			p.instance.index, _ = strconv.Atoi(match[2])
		}
	case p.inside() == blockInstance && (keyword == "virtual_ipaddress" || keyword == "virtual_ipaddress_excluded"):
		kind = blockVIPs
	}
	p.blocks = append(p.blocks, block{kind, at})
	return nil
}

// parseAddress parses ADDRESS or ADDRESS/MASK, without the options behind it.
func (p *parser) parseAddress(word string, at position) error {
	text, _, _ := strings.Cut(word, "/")
	if text == "" {
		return nil // OpenShift renders the missing VIP of a family as "/128 label vip"
	}
	if strings.Contains(text, "$") {
		return at.unsupported("the definition " + text)
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" || addr.Is4In6() || addr.IsUnspecified() || addr.IsMulticast() {
		return at.errorf("%q is not the address of a VIP", word)
	}
	v := p.instance
	v.addr = addr
	p.vips = append(p.vips, v)
	return nil
}

// token is a word, a quoted string without its quotes, or a brace.
type token struct {
	text   string
	quoted bool
}

func (t token) isBrace() bool { return !t.quoted && (t.text == "{" || t.text == "}") }

const whitespace = " \t\f\n\r\v"

// tokenize splits a line up to its comment: # and ! begin one outside double quotes. closed is false
// for a line that ends inside a quoted string.
func tokenize(line string) (tokens []token, closed bool) {
	for {
		line = strings.TrimLeft(line, whitespace)
		if line == "" || line[0] == '#' || line[0] == '!' {
			return tokens, true
		}
		n := 1
		switch line[0] {
		case '{', '}':
		case '"':
			text, rest, found := strings.Cut(line[1:], `"`)
			if !found {
				return nil, false
			}
			tokens, line = append(tokens, token{text, true}), rest
			continue
		default:
			if n = strings.IndexAny(line, whitespace+`"{}#!`); n < 0 {
				n = len(line)
			}
		}
		tokens, line = append(tokens, token{text: line[:n]}), line[n:]
	}
}
