// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"net/http"
)

// SelfCheckPasses is how many consecutive correct answers cert-manager requires
// (pkg/issuer/acme/http, requiredPasses). It waits 2 s between them for routes to reach all
// routers; the lab runs one.
const SelfCheckPasses = 5

// SelfCheckAgent looks like cert-manager's User-Agent (pkg/util/useragent.go).
const SelfCheckAgent = "cert-manager-challenges/v1.21.2 (linux/amd64) " +
	"cert-manager/0000000000000000000000000000000000000000"

// selfCheck requests a challenge as cert-manager does before validation: from a client
// inside the cluster, and the body must equal the key byte for byte.
func (n *Node) selfCheck(ctx context.Context, name string, c *challenge) error {
	return Eventually(ctx, "the self check from "+n.Name, func(ctx context.Context) error {
		for range SelfCheckPasses {
			answer, err := n.GetAs(ctx, SelfCheckAgent, "http://"+name+acmePrefix+c.token)
			if err != nil {
				return err
			}
			if answer.Status != http.StatusOK {
				return fmt.Errorf("status %d: %.200s", answer.Status, answer.Body)
			}
			if answer.Body != c.key {
				return fmt.Errorf("body %q, want the key", answer.Body)
			}
		}
		return nil
	})
}
