// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
)

// nodeAddressTimeout is how long the node's address is waited for on a default route's
// link before another link's is taken, as DefaultMicroShiftDir does.
const nodeAddressTimeout = 10 * time.Second

// nodeAddressWait remembers since when the node's address is not there.
type nodeAddressWait struct{ since time.Time }

func (n *nodeAddressWait) compute(c microshift.Config, h microshift.Host, now time.Time) (microshift.Computed, error) {
	computed, err := c.Compute(h)
	switch {
	case !errors.Is(err, microshift.ErrNoNodeAddress):
		n.since = time.Time{}
	case n.since.IsZero():
		n.since = now
	case now.Sub(n.since) >= nodeAddressTimeout:
		h.AddressesSettled = true
		return c.Compute(h)
	}
	return computed, err
}
