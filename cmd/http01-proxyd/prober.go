// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/network"
)

func proberCommand() *cobra.Command {
	return childCommand(child.Prober, "query the network", network.RunConfined)
}
