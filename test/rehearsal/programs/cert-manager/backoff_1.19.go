// SPDX-License-Identifier: Apache-2.0

//go:build certmanager1.19

package main

import (
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/spf13/pflag"
)

// addBackoffFlags adds nothing: the delays after failures are fixed in cert-manager 1.19.
func addBackoffFlags(*pflag.FlagSet, *controller.ContextOptions) {}
