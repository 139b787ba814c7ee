// SPDX-License-Identifier: Apache-2.0

package daemon

import "time"

// timing holds the waits of the service that tests shorten.
type timing struct {
	GateSilence     time.Duration // after which a gate is replaced
	ExporterBackOff time.Duration // before an exporter is followed by the second one
	ExpiryTick      time.Duration // between two looks for a change of what the expiry watch looks at
	Drain           time.Duration // for challenges in flight when the door closes; 0: that of package reconcile
}

// serviceTiming returns the waits of the service.
func serviceTiming() timing {
	return timing{GateSilence: gateSilence, ExporterBackOff: minExporterBackOff, ExpiryTick: expiryTick}
}
