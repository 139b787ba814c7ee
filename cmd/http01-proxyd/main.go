// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/network"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy"
)

func rootCommand() *cobra.Command {
	return cli.Root(&cobra.Command{
		Use:   "http01-proxyd",
		Short: "forwards ACME HTTP-01 challenges for the API VIP to the ingress",
		Annotations: map[string]string{cli.ManSection: "8", cli.ManFiles: strings.Join([]string{
			defaultConfig + ": the configuration",
			defaultState + ": the state of the service",
			defaultSocket + ": the socket of http01-proxyd status",
		}, "\n")},
		Long: `http01-proxyd forwards ACME HTTP-01 challenges for the API VIP to the ingress
routers. It answers all other requests to port 80 of that VIP with 400.`,
	},
		cli.Group{Title: "Diagnosis", Commands: []*cobra.Command{
			statusCommand(), checkCommand(), traceCommand(), explainCommand(),
		}},
		cli.Group{Title: "Service", Commands: []*cobra.Command{
			runCommand(), cleanupCommand(), installCommand(),
			childCommand(child.Proxy, "serve clients", proxy.RunConfined),
			childCommand(child.Prober, "query the network", network.RunConfined),
			childCommand(child.Exporter, "serve metrics", exporter.RunConfined),
		}},
	)
}
