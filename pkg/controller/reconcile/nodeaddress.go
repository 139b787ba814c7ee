// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
)

// nodeAddressTimeout is how long MicroShift waits for an address on the link of a default
// route before it uses an address of another link.
const nodeAddressTimeout = 10 * time.Second

// nodeAddressWait records since when the node has no address on that link.
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
