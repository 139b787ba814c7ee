// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy"
)

func proxyCommand() *cobra.Command {
	return childCommand(child.Proxy, "serve clients", proxy.RunConfined)
}
