// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/lab"
)

// found are the findings of check about the way to the ingress.
func (p *place) found(t *testing.T) []string {
	t.Helper()
	r, _, err := p.holder().Check(t.Context(), shared.binary, "--name", apiName)
	must(t, err)
	concerned := []string{"ingress-", "route-redirect", "egress-", "trust-"}
	return slices.DeleteFunc(r.IDs(), func(id string) bool {
		return !slices.ContainsFunc(concerned, func(kind string) bool { return strings.HasPrefix(id, kind) })
	})
}

// TestCheckOfWhatIsWell: where challenges get through, check has nothing to say
// of the way to the ingress. That there is no readiness endpoint is a warning.
func TestCheckOfWhatIsWell(t *testing.T) {
	p := at(t)
	for _, w := range ways(t) {
		if w.bump {
			continue // that there are forms which it cannot pass is no fault of check
		}
		t.Run(w.name, func(t *testing.T) {
			if !w.direct {
				p.proxy(t, w.proxy)
			}
			for _, f := range forms() {
				if f.plainWord() && !w.direct {
					continue // the configuration is refused
				}
				t.Run(f.name, func(t *testing.T) {
					p.router(t, lab.RouterOptions{ProxyProtocol: f.proxyWord, Secure: p.apps(t)})
					if f.redirects {
						redirectsToHTTPS(t, p)
					}
					s := p.serve(t, p.config(t, f, w))
					p.answers(t, s, "before-check", "HTTP/1.1 503 ")
					got := slices.DeleteFunc(p.found(t), func(id string) bool { return id == "egress-without-readiness" })
					if len(got) > 0 {
						t.Errorf("check finds %v where challenges get through", got)
					}
				})
			}
		})
	}
}
