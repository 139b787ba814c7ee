// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// TestDeliveryFailures: the controller probes the upstream at once after a failure
// that may affect all requests, and not after one of a single name or answer.
func TestDeliveryFailures(t *testing.T) {
	t.Parallel()
	want := map[upstream.Cause]bool{
		upstream.Refused: true, upstream.ConnectTimeout: true, upstream.Unreachable: true,
		upstream.EgressUnreachable: true, upstream.EgressTLS: true, upstream.EgressAuth: true, upstream.EgressDenied: true,
	}
	for _, cause := range findings.Causes() {
		if got := isDeliveryFailure(cause); got != want[upstream.Cause(cause)] {
			t.Errorf("%s: %v", cause, got)
		}
	}
}
