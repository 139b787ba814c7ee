// SPDX-License-Identifier: Apache-2.0

//go:build certmanager1.20

package main

import (
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/spf13/pflag"
)

// addBackoffFlags adds the flag of the delay after the first failure. The longest one is fixed in cert-manager 1.20.
func addBackoffFlags(f *pflag.FlagSet, o *controller.ContextOptions) {
	f.DurationVar(&o.CertificateRequestMinimumBackoffDuration, "certificate-request-minimum-backoff-duration", time.Hour,
		"delay after the first failure")
}
