// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/simulator"
)

const (
	nftTimeout = time.Second
	maxListing = 8 << 20
)

// ruleOrPolicy names a rule by its handle, or the policy.
func ruleOrPolicy(o simulator.Outcome) string {
	if o.Handle == 0 {
		return "the policy"
	}
	return fmt.Sprintf("rule %d", o.Handle)
}

// ruleText is a rule in nft syntax, if nft is installed.
func ruleText(ctx context.Context, o simulator.Outcome) string {
	if o.Handle == 0 {
		return "its policy is drop, and no rule accepts them"
	}
	if text := nftRuleText(ctx, o); text != "" {
		return fmt.Sprintf("%s (handle %d)", text, o.Handle)
	}
	return fmt.Sprintf("the rule with handle %d (nft -a list chain %s)", o.Handle, o.Chain())
}

// nftRuleText finds the rule in nft's listing of its chain.
func nftRuleText(ctx context.Context, o simulator.Outcome) string {
	chain := o.Chain()
	// nft parses its arguments as a script, so unusual names are skipped.
	name := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	if !name.MatchString(chain.Table.Name) || !name.MatchString(chain.Name) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, nftTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nft", "-s", "-a", "list", "chain", chain.Table.Family.String(), chain.Table.Name, chain.Name)
	cmd.WaitDelay = nftTimeout
	var out bytes.Buffer
	cmd.Stdout = &limitedWriter{&out, maxListing}
	if cmd.Run() != nil {
		return ""
	}
	return findRule(strings.Split(out.String(), "\n"), o.Handle)
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
