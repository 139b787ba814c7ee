// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/pkg/check"
)

// Exit codes of check.
const (
	problemsFound command.Exit = 1
	couldNotRun   command.Exit = 2
	nothingToDo   command.Exit = 3
)

func checkCommand() command.Command {
	return command.Command{
		Name:    "check",
		Summary: "find out why challenges fail",
		Help: `Look at this host, and from it at the network, and say why challenges fail and
what to do about it. It changes nothing, and works with or without the service
running. Without root it says what it could not look at.

Exit codes: 0 all is well, 1 there are problems, 2 it could not run, 3 this is no
node with VIPs and there is nothing to check.

Examples:
  http01-proxyd check
  http01-proxyd check --name api.cluster.example.com -o json`,
		Setup: func(flags *flag.FlagSet) func(context.Context, command.Streams) error {
			o := check.Options{}
			flags.StringVar(&o.ConfigPath, "config", defaultConfig, "configuration `FILE` of the service")
			flags.StringVar(&o.StatusSocket, "status-socket", defaultSocket, "unix `SOCKET` of the service")
			flags.StringVar(&o.Manifests, "manifests", defaultManifests, "kubelet's `DIR` of static pods, keepalived's among them")
			flags.StringVar(&o.DisabledManifests, "disabled-manifests", defaultDisabledManifests,
				"`DIR` where keepalived's lies instead when the VIPs are user-managed")
			flags.StringVar(&o.StateDir, "state-dir", defaultState, "`DIR` that keeps the service's last accepted configuration")
			flags.StringVar(&o.ProxyEnv, "proxy-env", "/etc/mco/proxy.env", "`FILE` with the cluster's egress proxy")
			flags.StringVar(&o.Name, "name", "", "`NAME` of the API; else the configuration's hosts or those of the serving certificate")
			flags.StringVar(&o.Token, "token", "", "`TOKEN` of a challenge to follow hop by hop")
			format := flags.String("output", "text", "output `FORMAT`: text or json")
			flags.StringVar(format, "o", "text", "short for --output `FORMAT`")
			return func(ctx context.Context, s command.Streams) error {
				if *format != "text" && *format != "json" {
					return command.UsageError(fmt.Sprintf("output format %q: use text or json", *format))
				}
				report, err := check.Run(ctx, o, func(int, int) {})
				if err != nil {
					fmt.Fprintln(s.Err, err)
					return couldNotRun
				}
				if *format == "json" {
					e := json.NewEncoder(s.Out)
					e.SetIndent("", "  ")
					err = e.Encode(report)
				} else {
					err = report.WriteText(s.Out, command.Colour(s.Out))
				}
				if err == nil && report.Outcome == check.Failed {
					return problemsFound
				}
				return err
			}
		},
	}
}
