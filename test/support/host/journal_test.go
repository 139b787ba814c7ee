// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
)

func TestJournal(t *testing.T) {
	s := startServing(t)
	tokens := s.challenge()
	var entries []host.Entry
	s.until("the challenges in the journal", func(context.Context) error {
		entries = nil
		for _, e := range s.journal() {
			if e["EVENT"] == "challenge-started" {
				entries = append(entries, e)
			}
		}
		if len(entries) < len(tokens) {
			return errors.New("not logged yet")
		}
		return nil
	})
	// A challenge is logged after its answer was sent, so the order can differ.
	slices.SortFunc(entries, func(a, b host.Entry) int {
		return cmp.Compare(tokenIndex(tokens, a), tokenIndex(tokens, b))
	})
	for i, e := range entries {
		client, err := netip.ParseAddrPort(e["CLIENT"])
		if err != nil || client.Addr() != s.client[i] {
			t.Errorf("CLIENT=%s, want a port of %v", e["CLIENT"], s.client[i])
		}
		got := make(map[string]string)
		for _, name := range []string{
			"EVENT", "MESSAGE_ID", "VIP", "HOST", "METHOD", "TOKEN_PREFIX", "STATUS", "UPSTREAM",
			"PRIORITY", "_SYSTEMD_UNIT",
		} {
			got[name] = e[name]
		}
		want := map[string]string{
			"EVENT": "challenge-started", "MESSAGE_ID": "5d32fe61985f44e7aa095ee82bb29976", "VIP": s.api[i].String(),
			"HOST": apiName, "METHOD": "GET",
			"TOKEN_PREFIX": tokens[i][:8], "STATUS": "200", "UPSTREAM": netip.AddrPortFrom(s.ingress[i], 80).String(),
			"PRIORITY": "6", "_SYSTEMD_UNIT": unit,
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("challenge %d (-want +got):\n%s", i, diff)
		}
		if !regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`).MatchString(e["DURATION_MS"]) {
			t.Errorf("DURATION_MS=%q", e["DURATION_MS"])
		}
		message := fmt.Sprintf(`^challenge %s… for "%s": .* from %s got 200 from %s in [0-9.]+ ms$`,
			tokens[i][:8], regexp.QuoteMeta(apiName), s.client[i], regexp.QuoteMeta(want["UPSTREAM"]))
		if !regexp.MustCompile(message).MatchString(e["MESSAGE"]) {
			t.Errorf("MESSAGE=%q, want %s", e["MESSAGE"], message)
		}
	}
	s.wantNoTokens(tokens)
	s.wantPlainMessages()
}

// tokenIndex returns the index of the token in an entry, or -1.
func tokenIndex(tokens []string, e host.Entry) int {
	return slices.IndexFunc(tokens, func(token string) bool { return token[:8] == e["TOKEN_PREFIX"] })
}

// wantNoTokens searches the whole journal, not only the unit's.
func (s *service) wantNoTokens(tokens []string) {
	s.t.Helper()
	all := s.run("journalctl", "--quiet", "--output=export", "--all")
	for _, token := range tokens {
		if !strings.Contains(all, token[:8]) {
			s.t.Errorf("token %s: its prefix is not in the journal", token)
		}
		if strings.Contains(all, token) {
			s.t.Errorf("the whole token %s is in the journal", token)
		}
	}
}

// wantPlainMessages expects messages without a time and a level, which journald adds.
func (s *service) wantPlainMessages() {
	s.t.Helper()
	stamped := regexp.MustCompile(`\d{4}[-/]\d{2}[-/]\d{2}|\d{2}:\d{2}:\d{2}[^:]|\b(time|level|msg)=`)
	own := 0
	for _, e := range s.journal() {
		if e["_SYSTEMD_UNIT"] != unit {
			continue
		}
		own++
		if stamped.MatchString(e["MESSAGE"]) {
			s.t.Errorf("a time or level in MESSAGE=%q", e["MESSAGE"])
		}
		if e["EVENT"] == "" {
			s.t.Errorf("an entry without EVENT: %q", e["MESSAGE"])
		}
	}
	if own == 0 {
		s.t.Error("no entry of the service")
	}
}
