// SPDX-License-Identifier: Apache-2.0

//go:build certmanager1.20

package main

import (
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/spf13/pflag"
)

// addBackoffFlags adds the flag of the delay after the first failure. The longest one is fixed in cert-manager 1.20.
func addBackoffFlags(f *pflag.FlagSet, o *controller.ContextOptions) {
	addMinimumBackoff(f, &o.CertificateRequestMinimumBackoffDuration)
}
