// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/page"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

func checkCommand() *cobra.Command {
	var o diagnose.Options
	var selection cli.CheckFlags
	var output cli.Output
	var list, quiet bool
	var coordinated time.Duration
	c := &cobra.Command{
		Use: "check", Short: "find out why challenges fail",
		Long: `Examine this host and, from it, the network, and report why challenges fail and
how to fix that. It changes no configuration, and does not require that the service
runs. Some checks require root; without it the report lists them as not checked.

Each check has a line: ✓ no problem found; ! a warning: challenges may fail later
or for some clients; ✗ a problem; - not checked, or a note, with the reason. A finding begins
with its ID in brackets, which "http01-proxyd explain ID" explains, and which the
journal has in CAUSE=. On a terminal the lines have colours unless NO_COLOR is set.
-o html writes a page for a browser without a network, with the results and the status
of the service.

The exit code is 3 if there is a problem or the challenge of --token fails. Without a
problem it is 4 if necessary checks could not run or end. It is also 4 on a host that
cannot hold the API's virtual IP, such as a worker. The check "config" runs there too.`,
		Example: `  http01-proxyd check
  http01-proxyd check --name api.cluster.example.com -o json
  http01-proxyd check --only dns,ruleset --quiet
  http01-proxyd check --only config --config FILE
  http01-proxyd check -o json | jq -r '.checks[].findings[].id'
  http01-proxyd check -o html > check.html
  oc debug node/NODE -- chroot /host http01-proxyd check`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := selection.Validate(); err != nil {
				return err
			}
			o.APIName, o.Token, o.Only = selection.Name, selection.Token, selection.Only
			if o.Timeout <= 0 {
				return cli.UsageError("--timeout: give a duration above 0, such as 5s")
			}
			out := checkWriter{output, quiet, o.StatusSocket, c.OutOrStdout()}
			if list && output.Format == cli.HTML {
				return cli.UsageError("-o html cannot be used with --list: a page shows results")
			}
			if list {
				return out.writeList(diagnose.List())
			}
			o.ConfigRequired = c.Flags().Changed("config")
			err := makeAbsolute(&o.ConfigPath, &o.StateDir, &o.StatusSocket, &o.ManifestDir, &o.DisabledManifestDir,
				&o.APIServerURLFile, &o.ProxyEnvFile, &o.ResolvConf, &o.HostsFile, &o.ChronyConf, &o.Kubeconfig)
			if err != nil {
				return err
			}
			if coordinated > 0 {
				o.Coordination = coordinate(c.InOrStdin(), c.OutOrStdout(), beginTimeout, coordinated)
			}
			return runCheck(c.Context(), o, out, c.ErrOrStderr())
		},
	}
	flags := c.Flags()
	addVIPSources(flags, &o.HostPaths)
	flags.StringVar(&o.ProxyEnvFile, "proxy-env", "/etc/mco/proxy.env", "`FILE` with the egress proxy of the cluster")
	addAPIServerURL(flags, &o.HostPaths)
	flags.StringVar(&o.ResolvConf, "resolv-conf", defaultResolvConf, "`FILE` with the DNS servers")
	flags.StringVar(&o.HostsFile, "hosts", defaultHosts, "`FILE` of names and addresses that takes precedence over DNS")
	flags.StringVar(&o.ChronyConf, "chrony-conf", "/etc/chrony.conf", "`FILE` with the time servers")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "/etc/kubernetes/kubeconfig",
		"`FILE` of this node with the URL of the API")
	selection.Add(c, "from hosts, --kubeconfig, --apiserver-url or the serving certificate")
	flags.BoolVarP(&list, "list", "l", false, "list the checks with one sentence each, and run none")
	flags.BoolVarP(&quiet, "quiet", "q", false, "print findings only; the exit code is the same")
	flags.DurationVar(&o.Timeout, "timeout", diagnose.DefaultTimeout,
		"end the run after this `DURATION`, and report the rest as not completed")
	flags.DurationVar(&coordinated, "coordinated", 0,
		"wait for lines of oc http01 check on standard input, at most this `DURATION` for each")
	_ = flags.MarkHidden("coordinated") // fails for unknown flags only
	output.Add(c, cli.Text, cli.Wide, cli.JSON, cli.YAML, cli.HTML)
	return c
}

// addVIPSources adds the flags for the files that contain the VIPs of this host.
func addVIPSources(flags *pflag.FlagSet, paths *config.HostPaths) {
	flags.StringVar(&paths.ConfigPath, "config", defaultConfig, "`FILE` with the configuration of the service")
	flags.StringVar(&paths.StateDir, "state-dir", defaultState, "`DIR` with the state of the service")
	flags.StringVar(&paths.StatusSocket, "status-socket", defaultSocket, "Unix `SOCKET` of the service")
	flags.StringVar(&paths.ManifestDir, "manifests", defaultManifests,
		"`DIR` of the kubelet's static pods, where the pod of keepalived or kube-vip is")
	flags.StringVar(&paths.DisabledManifestDir, "disabled-manifests", defaultDisabledManifests,
		"`DIR` of keepalived's static pod when the VIPs are user-managed")
}

func runCheck(ctx context.Context, o diagnose.Options, out checkWriter, errOut io.Writer) error {
	line := newProgressLine(errOut)
	line.show("checking")
	found, err := diagnose.Run(ctx, o, func(pending []string) {
		line.show("checking, waiting for " + cmp.Or(strings.Join(pending, ", "), "the last results"))
	})
	line.clear()
	if err != nil {
		return fmt.Errorf("cannot run: %w", err)
	}
	if err := out.write(ctx, found); err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	return cli.OfOutcome(found.Outcome)
}

// CheckList is the list of the checks as a document.
type CheckList struct {
	report.Header
	Checks []diagnose.Entry `json:"checks"` // in the order of the text
}

// checkWriter is where and how check writes its result.
type checkWriter struct {
	output cli.Output
	quiet  bool
	socket string // of the service
	w      io.Writer
}

func (out checkWriter) writeList(all []diagnose.Entry) error {
	if out.output.Format == cli.JSON || out.output.Format == cli.YAML {
		return cli.WriteDocument(out.w, out.output.Format, CheckList{report.NewHeader("CheckList"), all})
	}
	for _, e := range all {
		if _, err := fmt.Fprintf(out.w, "%-16s  %s\n", e.Name, e.About); err != nil {
			return err
		}
	}
	return nil
}

func (out checkWriter) write(ctx context.Context, r result.Report) error {
	if out.output.Format != cli.HTML {
		return out.output.Write(out.w, r.Document(), terminal.Check(r, out.quiet))
	}
	h := page.Host{Name: r.Host, Check: &r}
	status, err := client.Fetch(ctx, out.socket)
	if err != nil {
		h.Error = err.Error()
	}
	h.Status = status
	return writePage(out.w, h)
}

// progressLine is one line on a terminal that is rewritten in place.
type progressLine struct {
	w  io.Writer
	on bool
}

func newProgressLine(w io.Writer) progressLine { return progressLine{w, cli.IsTerminal(w)} }

func (l progressLine) show(text string) {
	if l.on {
		fmt.Fprint(l.w, "\r"+cli.ClearRight+cli.DisableWrap+text+cli.EnableWrap)
	}
}

func (l progressLine) clear() {
	if l.on {
		fmt.Fprint(l.w, "\r"+cli.ClearRight)
	}
}
