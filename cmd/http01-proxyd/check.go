// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// The exit codes of check.
const (
	exitProblems      command.ExitCode = 1
	exitNotRun        command.ExitCode = 2
	exitNotApplicable command.ExitCode = 3
)

func checkCommand() command.Command {
	return command.Command{
		Name:    "check",
		Summary: "find out why challenges fail",
		Help: `Examine this host and, from it, the network, and report why challenges fail and
how to fix that. The command changes nothing, takes at most 15 s, and does not
require that the service runs. Some checks require root; without it the report
lists them as not checked.

Each check has a line: ✓ no problem found; ! a warning: challenges may fail later
or for some clients; ✗ a problem; - not checked, with the reason. On a terminal
the lines have colours unless NO_COLOR is set.

Exit codes: 0 no problem found, 1 problems found or the challenge of --token fails,
2 the check cannot run or the command line is wrong, 3 this host cannot hold the
API's virtual IP, such as a worker: nothing was checked.

Examples:
  http01-proxyd check
  http01-proxyd check --name api.cluster.example.com -o json
  http01-proxyd check -o json | jq '.checks[].findings // [] | .[].id'
  oc debug node/MASTER -- chroot /host http01-proxyd check`,
		Setup: func(flags *flag.FlagSet) func(context.Context, command.Streams) error {
			var o diagnose.Options
			flags.StringVar(&o.ConfigPath, "config", defaultConfig, "`FILE` with the configuration of the service")
			flags.StringVar(&o.StateDir, "state-dir", defaultState, "`DIR` with the state of the service")
			flags.StringVar(&o.StatusSocket, "status-socket", defaultSocket, "Unix `SOCKET` of the service")
			flags.StringVar(&o.ManifestDir, "manifests", defaultManifests, "`DIR` of the kubelet's static pods, with that of keepalived")
			flags.StringVar(&o.DisabledManifestDir, "disabled-manifests", defaultDisabledManifests,
				"`DIR` of keepalived's static pod when the VIPs are user-managed")
			flags.StringVar(&o.ProxyEnvFile, "proxy-env", "/etc/mco/proxy.env", "`FILE` with the egress proxy of the cluster")
			flags.StringVar(&o.ResolvConf, "resolv-conf", defaultResolvConf, "`FILE` with the DNS servers")
			flags.StringVar(&o.HostsFile, "hosts", defaultHosts, "`FILE` of names and addresses that takes precedence over DNS")
			flags.StringVar(&o.ChronyConf, "chrony-conf", "/etc/chrony.conf", "`FILE` with the time servers")
			flags.StringVar(&o.Kubeconfig, "kubeconfig", "/etc/kubernetes/kubeconfig", "`FILE` of this node with the URL of the API")
			flags.StringVar(&o.APIName, "name", "", "`NAME` of the API; default: from hosts, --kubeconfig or the serving certificate")
			flags.StringVar(&o.Token, "token", "", "`TOKEN` of an open challenge to trace; default: none")
			format := flags.String("output", "text", "`FORMAT` of the report: text or json")
			flags.StringVar(format, "o", "text", "short for --output `FORMAT`")
			return func(ctx context.Context, s command.Streams) error {
				if *format != "text" && *format != "json" {
					return command.UsageError(fmt.Sprintf("output format %q: use text or json", *format))
				}
				if err := o.Validate(); err != nil {
					return command.UsageError(err.Error())
				}
				if err := makeAbsolute(&o.ConfigPath, &o.StateDir, &o.StatusSocket, &o.ManifestDir, &o.DisabledManifestDir, &o.ProxyEnvFile,
					&o.ResolvConf, &o.HostsFile, &o.ChronyConf, &o.Kubeconfig); err != nil {
					return err
				}
				return runCheck(ctx, o, *format, s)
			}
		},
	}
}

func runCheck(ctx context.Context, o diagnose.Options, format string, s command.Streams) error {
	width, _ := command.TerminalSize(s.Err)
	line := progressLine{w: s.Err, width: width, on: command.IsTerminal(s.Err)}
	report, err := diagnose.Run(ctx, o, line.show)
	line.clear()
	if err != nil {
		fmt.Fprintf(s.Err, "http01-proxyd check: cannot run: %v\n", err)
		return exitNotRun
	}
	if err := writeReport(report, format, s.Out); err != nil {
		fmt.Fprintf(s.Err, "http01-proxyd check: write the report: %v\n", err)
		return exitNotRun
	}
	switch report.Outcome {
	case diagnose.Problem:
		return exitProblems
	case diagnose.NotApplicable:
		return exitNotApplicable
	default:
		return nil
	}
}

func writeReport(result diagnose.Report, format string, w io.Writer) error {
	if format == "json" {
		return report.WriteJSON(w, result, true)
	}
	width, _ := command.TerminalSize(w)
	return result.WriteText(w, diagnose.TextOptions{Colour: command.SupportsColour(w), Width: width})
}

// progressLine is one line on a terminal that is rewritten in place.
type progressLine struct {
	w     io.Writer
	width int
	on    bool
}

// show must not be called concurrently.
func (l progressLine) show(p diagnose.Progress) {
	if !l.on {
		return
	}
	text := fmt.Sprintf("checking: %d of %d", p.Done, p.Total)
	if len(p.Pending) > 0 {
		text += ", waiting for " + strings.Join(p.Pending, ", ")
	}
	// A line as wide as the terminal would wrap.
	if room := l.width - 1; l.width > 0 && len(text) > room {
		text = text[:max(0, room-3)] + "..."
	}
	fmt.Fprintf(l.w, "\r\x1b[K%s", text)
}

func (l progressLine) clear() {
	if l.on {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}
