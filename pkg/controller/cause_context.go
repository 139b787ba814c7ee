// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// causeContext is what this process knows by itself of a failure that the gate reports: what
// it has ordered.
func (d *proxyManager) causeContext() cause.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return ingress.CauseContext(&ingress.Upstream{VerifyNames: d.config.Upstream.VerifyNames}, d.cas, &d.egress.Egress)
}

// drainMessage says what a drain could not end in time.
func drainMessage(connections int) string {
	if connections == 0 {
		return ""
	}
	return fmt.Sprintf("closed %d connections unfinished", connections)
}
