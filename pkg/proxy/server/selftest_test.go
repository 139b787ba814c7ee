// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// TestSelfTestIsNotCounted: only the first request with the announced token at the announced
// VIP is recorded as a self-test. It gets the response that every other request gets.
func TestSelfTestIsNotCounted(t *testing.T) {
	f := startServer(t, testSettings(), startIngress(t, answerAll))
	const token = "TOKENOFASELFTESTTOKENOFASE"
	request := func(path string) {
		t.Helper()
		text := "GET /.well-known/acme-challenge/" + path +
			" HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: http01-proxyd-check\r\n\r\n"
		if got := roundTrip(t, f.addr, text); !strings.HasSuffix(got, "token.key") {
			t.Errorf("%s: %q", path, got)
		}
	}
	announce := func(id uint64, vip string) {
		f.AnnounceSelfTest(protocol.SelfTest{ID: id, VIP: netip.MustParseAddr(vip), Token: token})
	}
	expect := func(what string, challenges int, selfTests ...uint64) {
		t.Helper()
		recorded := func() bool {
			f.rec.mu.Lock()
			defer f.rec.mu.Unlock()
			return len(f.rec.challenges)+len(f.rec.selfTests) >= challenges+len(selfTests)
		}
		nstest.Await(t, what, recorded)
		f.rec.mu.Lock()
		defer f.rec.mu.Unlock()
		if len(f.rec.challenges) != challenges || len(f.rec.selfTests) != len(selfTests) || len(f.rec.rejections) != 0 {
			t.Errorf("%s: challenges %+v, self-tests %+v", what, f.rec.challenges, f.rec.selfTests)
			return
		}
		for i, id := range selfTests {
			if got := f.rec.selfTests[i]; got.ID != id || got.Status != 200 || got.Failure != nil || !got.Upstream.IsValid() {
				t.Errorf("%s: %+v", what, got)
			}
		}
	}
	request(token)
	expect("without an announcement", 1)
	announce(1, "127.0.0.1")
	request("another-token")
	request(token + "x")
	request(token + "/x")
	expect("other tokens", 4)
	request(token + "?a=b")
	expect("the token", 4, 1)
	request(token)
	expect("the token again", 5, 1)
	announce(2, "127.0.0.2")
	request(token)
	expect("at another VIP", 6, 1)
	announce(3, "127.0.0.1")
	request(token)
	expect("a later announcement", 6, 1, 3)
}
