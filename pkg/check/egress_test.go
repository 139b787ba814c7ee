// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http/httpproxy"
)

func TestProxyOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]httpproxy.Config{
		"": {},
		"HTTP_PROXY=http://p:3128\nHTTPS_PROXY=http://p:3129\nNO_PROXY=a,b\n":          {HTTPProxy: "http://p:3128", HTTPSProxy: "http://p:3129", NoProxy: "a,b"},
		"# HTTP_PROXY=http://x\n; NO_PROXY=x\n\nno_proxy = 'a, b'\nhttp_proxy=\"p\"\n": {HTTPProxy: "p", NoProxy: "a, b"},
		"HTTP_PROXY=http://old\nHTTP_PROXY=\n":                                         {},
		"HTTP_PROXY=\"\nOTHER=1\nnonsense\n":                                           {HTTPProxy: `"`},
	} {
		if diff := cmp.Diff(want, *proxyOf(text), cmp.Comparer(func(a, b httpproxy.Config) bool { return a == b })); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
