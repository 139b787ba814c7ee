// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
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

// listing has the lines of each chain as nft lists them, by family, table and chain.
type listing map[string][]string

// rule returns a rule in nft syntax; empty if it is not listed.
func (l listing) rule(s report.TraceStep) string { return findRule(l[ChainName(s)], s.Handle) }

// listRules lists all rules. Listing one chain takes longer where its table has large sets,
// because nft fetches their elements.
func listRules(ctx context.Context) (listing, error) {
	l := make(listing)
	ctx, cancel := context.WithTimeout(ctx, nftTimeout)
	defer cancel()
	text, err := runNFT(ctx, "-t", "-s", "-a", "list", "ruleset")
	if err != nil {
		return nil, err
	}
	table, chain := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "table ") && len(fields) >= 3:
			table = fields[1] + " " + fields[2]
		case strings.HasPrefix(line, "\tchain ") && len(fields) >= 2:
			chain = table + " " + fields[1]
		case line == "\t}":
			chain = ""
		case chain != "":
			l[chain] = append(l[chain], line)
		}
	}
	return l, nil
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

// findRule finds a rule in nft's listing by its handle, and returns it as one line. A rule
// with an anonymous chain, which nft does not nest, takes several lines. Its handle is in the
// last one.
func findRule(listing []string, handle uint64) string {
	end := fmt.Sprintf(" # handle %d", handle)
	last := slices.IndexFunc(listing, func(line string) bool { return strings.HasSuffix(line, end) })
	if last < 0 {
		return ""
	}
	rule := strings.TrimSpace(strings.TrimSuffix(listing[last], end))
	if rule != "}" {
		return rule
	}
	first := last - 1
	for first >= 0 && !strings.HasSuffix(listing[first], "{") {
		first--
	}
	if first < 0 {
		return ""
	}
	var inner []string
	for _, line := range listing[first+1 : last] {
		inner = append(inner, strings.TrimSpace(line))
	}
	return strings.TrimSpace(listing[first]) + " " + strings.Join(inner, "; ") + "; " + rule
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
