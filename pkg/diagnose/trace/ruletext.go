// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	nftTimeout = 5 * time.Second // 100,000 rules take 3 s of CPU
	maxListing = 32 << 20        // some 200,000 rules
)

// ChainName is the chain whose rule or policy decided, as nft commands name it.
func ChainName(s report.TraceStep) string {
	chain := s.RuleChain
	if chain == "" {
		chain = s.Chain
	}
	return fmt.Sprintf("%s %s %s", s.Family, s.Table, chain)
}

// RuleText describes the rule or policy that decided.
func RuleText(s report.TraceStep) string {
	switch {
	case s.Handle == 0:
		return fmt.Sprintf("its policy is %s, and no rule accepts them", s.Verdict)
	case s.Rule == "":
		return fmt.Sprintf("the rule with handle %d (nft -a list chain %s)", s.Handle, ChainName(s))
	default:
		return fmt.Sprintf("%s (handle %d)", s.Rule, s.Handle)
	}
}

// listing holds the chains as nft lists them, by family, table and name.
type listing map[string]*chain

type chain struct {
	table string // with its family
	base  string // type, hook and priority of a base chain
	rules []rule
}

type rule struct {
	handle uint64
	text   string
}

// isOwn reports whether a chain is one of the service or of a trace.
func (c *chain) isOwn() bool {
	_, table, _ := strings.Cut(c.table, " ")
	return table == ownTable || isOwn(table)
}

// names returns the names of the chains for which is returns true, sorted.
func (l listing) names(is func(*chain) bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(l)), func(name string) bool { return !is(l[name]) })
}

// rule returns a rule in nft syntax; empty if it is not listed.
func (l listing) rule(s report.TraceStep) string {
	if c := l[ChainName(s)]; c != nil {
		for _, r := range c.rules {
			if r.handle == s.Handle {
				return r.text
			}
		}
	}
	return ""
}

// listRules lists all rules. Listing one chain takes longer if its table contains large sets,
// because nft fetches their elements.
func listRules(ctx context.Context) (listing, error) {
	ctx, cancel := context.WithTimeout(ctx, nftTimeout)
	defer cancel()
	text, err := runNFT(ctx, "-t", "-s", "-a", "list", "ruleset")
	return parseListing(text), err
}

// parseListing parses the output of nft. A rule with an anonymous chain, which nft does not nest,
// takes several lines; its handle is in the last one.
func parseListing(text string) listing {
	l := make(listing)
	table, begun := "", ""
	at := &chain{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		line, handle, hasHandle := strings.Cut(strings.TrimSuffix(line, "\n"), " # handle ")
		number, err := strconv.ParseUint(handle, 10, 64)
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "table ") && len(fields) >= 3:
			table = fields[1] + " " + fields[2]
		case strings.HasPrefix(line, "\tchain ") && len(fields) >= 2:
			at = &chain{table: table}
			l[table+" "+fields[1]] = at
		case !strings.HasPrefix(line, "\t\t"):
			at = &chain{}
		case strings.HasPrefix(text, "type "):
			at.base = text
		case hasHandle && err == nil:
			at.rules, begun = append(at.rules, rule{number, begun + text}), ""
		case strings.HasSuffix(text, "{"):
			begun = text + " "
		case begun != "":
			begun += text + "; "
		}
	}
	return l
}

// runNFT runs nft and returns its output, at most maxListing bytes.
func runNFT(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "nft", args...)
	cmd.WaitDelay = nftTimeout
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &limitedWriter{&out, maxListing}, &limitedWriter{&messages, maxListing}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("run nft %s: %w", strings.Join(args, " "), err)
	}
	return out.String(), nil
}

// limitedWriter accepts a limited number of bytes and rejects more.
type limitedWriter struct {
	to   io.Writer
	left int
}

func (l *limitedWriter) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, io.ErrShortWrite
	}
	return l.to.Write(b)
}
