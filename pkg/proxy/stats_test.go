// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// TestDeliveryFailures: the keeper looks at the way at once for what may be wrong with all
// of it, and not for what one name or one answer has.
func TestDeliveryFailures(t *testing.T) {
	t.Parallel()
	want := map[upstream.Cause]bool{
		upstream.Refused: true, upstream.ConnectTimeout: true, upstream.Unreachable: true,
		upstream.EgressUnreachable: true, upstream.EgressTLS: true, upstream.EgressAuth: true, upstream.EgressDenied: true,
	}
	for _, cause := range upstream.Causes() {
		if got := isDeliveryFailure(string(cause)); got != want[cause] {
			t.Errorf("%s: %v", cause, got)
		}
	}
}
