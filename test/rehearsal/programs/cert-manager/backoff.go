// SPDX-License-Identifier: Apache-2.0

//go:build !certmanager1.19 && !certmanager1.20

package main

import (
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/spf13/pflag"
)

// addBackoffFlags adds the flags of the delays after failures. cert-manager 1.21 has both.
func addBackoffFlags(f *pflag.FlagSet, o *controller.ContextOptions) {
	addMinimumBackoff(f, &o.CertificateRequestMinimumBackoffDuration)
	f.DurationVar(&o.CertificateRequestMaximumBackoffDuration, "certificate-request-maximum-backoff-duration",
		32*time.Hour, "longest delay after a failure")
}
