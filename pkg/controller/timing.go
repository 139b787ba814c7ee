// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"time"
)

// timing holds the waits of the service that tests change. Zero means the default.
type timing struct {
	GateSilence     time.Duration // after which a gate is replaced
	ExporterBackOff time.Duration // before an exporter is followed by the second one
	ExpiryTick      time.Duration // between two looks for a change of what the expiry watch looks at
	FollowAgain     time.Duration // between two looks at the files of CAs that no hint causes
	ServingEvery    time.Duration // between two requests of the service's own
	ServingAgain    time.Duration // after one that was not answered
	ServingWithin   time.Duration // for the answer
	Drain           time.Duration // for challenges in flight when the door closes; the default is that of package reconcile
}

// withDefaults returns the waits with the default for each that is zero.
func (t timing) withDefaults() timing {
	t.GateSilence = cmp.Or(t.GateSilence, proxySilenceLimit)
	t.ExporterBackOff = cmp.Or(t.ExporterBackOff, minExporterBackoff)
	t.ExpiryTick = cmp.Or(t.ExpiryTick, expiryCheckInterval)
	t.FollowAgain = cmp.Or(t.FollowAgain, caReadInterval)
	t.ServingEvery = cmp.Or(t.ServingEvery, livenessInterval)
	t.ServingAgain = cmp.Or(t.ServingAgain, livenessRetryInterval)
	t.ServingWithin = cmp.Or(t.ServingWithin, livenessTimeout)
	return t
}
