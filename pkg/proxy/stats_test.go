// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// TestDeliveryFailures: the controller probes the upstream at once after a failure
// that may affect all requests, and not after one of a single name or answer.
func TestDeliveryFailures(t *testing.T) {
	t.Parallel()
	want := map[findings.ID]bool{
		findings.IngressRefused: true, findings.IngressTimeout: true, findings.IngressUnreachable: true,
		findings.EgressUnreachable: true, findings.EgressTLS: true, findings.EgressAuth: true, findings.EgressDenied: true,
	}
	for _, cause := range findings.Causes() {
		if got := isDeliveryFailure(cause); got != want[findings.ID(cause)] {
			t.Errorf("%s: %v", cause, got)
		}
	}
}
