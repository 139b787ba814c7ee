// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	operatorv1alpha1 "github.com/http01-proxyd/http01-proxyd/pkg/apis/operator/v1alpha1"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Limits of the input, far above real sizes.
const (
	maxReport    = 4 << 20
	maxCondition = 64 << 10 // its message has at most 32 KiB
	maxHosts     = 1000
)

// defaultMaxAge is the maximal age of a report. Hosts are queried one after another,
// and monitoring queries them again within minutes.
const defaultMaxAge = 5 * time.Minute

// The kinds of document that condition prints.
const (
	kindClusterCondition = "ClusterCondition"
	kindHTTP01Proxy      = "HTTP01Proxy"
)

// conditionFlags are the flags of condition.
type conditionFlags struct {
	format, kind, previous, expect string
	maxAge                         time.Duration
}

func conditionCommand() *cobra.Command {
	var f conditionFlags
	c := &cobra.Command{
		Use: "condition status-HOST.json...", Short: "combine stored reports of the hosts into one condition of the cluster",
		Args: cobra.ArbitraryArgs,
		Long: `Combine the output of "http01-proxyd status -o json" of each host into one condition
HTTP01ChallengeProxyReady. Its form is Kubernetes' metav1.Condition. A file is named
after its host: status-HOST.json. To query the hosts as well, use "oc http01 status".

True      One host, or with BGP each holder, serves each API VIP (Serving), or no VIP
          must be held (NotRequired).
False     VIPHeldTwice, VIPNotHeld, or the reason and message of a host. That host
          holds a VIP without serving it, or found no VIP.
Unknown   A host has not answered (NotReachable), or its report is older than
          --max-age, and no problem is known.

The age of a report comes from the time in it, or else from its file. The message also
names hosts that are not ready, and differences in versions and API VIPs. It names hosts
whose clock is more than a minute ahead; for these, the file provides the age. It ends
with the number of hosts that have reported. Hosts without a report are missed only with
--expect. lastTransitionTime is the time of the change in the hosts' reports; with
--previous it stays while the status is the same.

--kind HTTP01Proxy prints the status of an HTTP01Proxy (operator.openshift.io/v1alpha1)
with two conditions. Ready is the condition above. Degraded is True if Ready is False,
or if a host that holds no VIP could not serve one. It is False while the service is
starting or disabled.

The exit code is 0 if the condition is True, 3 if it is False and 4 if it is Unknown.
With any other code, no condition was printed.`,
		Example: `  for node in master0 master1 master2; do
    oc debug -q "node/$node" -- chroot /host http01-proxyd status -o json > "status-$node.json"
  done
  oc http01 condition --expect 3 status-*.json
  oc http01 condition -o text --previous condition.json status-*.json
  oc http01 condition --previous condition.json status-*.json > condition.new || code=$?
  case ${code:-0} in 0|3|4) mv condition.new condition.json ;; *) false ;; esac

  # the conditions Ready and Degraded of an HTTP01Proxy
  oc http01 condition --kind HTTP01Proxy -o yaml --expect 3 status-*.json`,
		RunE: func(c *cobra.Command, files []string) error {
			if err := f.validate(files); err != nil {
				return err
			}
			status, err := f.run(c.OutOrStdout(), files, time.Now())
			switch {
			case err != nil:
				return indentProblems(err)
			case status == "False":
				return cli.ExitCode(cli.Unhealthy)
			case status != "True":
				return cli.ExitCode(cli.Unknown)
			}
			return nil
		},
	}
	flags := c.Flags()
	cli.OutputFlag(c, &f.format, cli.JSON, cli.YAML, cli.Text)
	cli.ChoiceFlag(c, &f.kind, "kind", "", "KIND", "kind of the document", kindClusterCondition, kindHTTP01Proxy)
	flags.StringVar(&f.expect, "expect", "", "`HOSTS` whose reports are expected: their number, or their names separated by commas; default: those with a report")
	flags.DurationVar(&f.maxAge, "max-age", defaultMaxAge, "maximal age of a report as a `DURATION`, such as 90s; 0 accepts any age")
	flags.StringVar(&f.previous, "previous", "", "`FILE` with the output of an earlier run, in json or yaml, which may be missing; default: none")
	return c
}

func (f conditionFlags) validate(files []string) error {
	switch {
	case len(files) == 0:
		return cli.UsageError("no report given: name the files of the hosts")
	case f.maxAge < 0:
		return cli.UsageError(fmt.Sprintf("invalid --max-age %v: give a maximal age, such as 5m, or 0 for any age", f.maxAge))
	case len(files) > maxHosts:
		return cli.UsageError(fmt.Sprintf("%d reports: give at most %d", len(files), maxHosts))
	}
	seen := make(map[string]string)
	for _, file := range files {
		name := hostName(file)
		switch other, again := seen[name]; {
		case file == stdin:
			return cli.UsageError("reports cannot be read from standard input: write each to a file named after its host, status-HOST.json")
		case isPattern(file):
			return cli.UsageError(fmt.Sprintf("no file matches %s: write the report of each host to status-HOST.json first", file))
		case again:
			return cli.UsageError(fmt.Sprintf("%s and %s are both reports of the host %s", other, file, name))
		}
		seen[name] = file
	}
	_, err := f.expectedHosts(slices.Sorted(maps.Keys(seen)))
	return err
}

// expectedHosts parses --expect. A report of a host that is not listed is an error: it
// may be a file of a former host.
func (f conditionFlags) expectedHosts(reported []string) (condition.Expectation, error) {
	if f.expect == "" {
		return condition.Expectation{}, nil
	}
	if count, err := strconv.Atoi(f.expect); err == nil {
		switch {
		case count < 1 || count > maxHosts:
			return condition.Expectation{}, cli.UsageError(fmt.Sprintf("--expect %d: give 1 to %d, or names", count, maxHosts))
		case count < len(reported):
			return condition.Expectation{}, cli.UsageError(fmt.Sprintf("--expect %d, but %d reports: remove those of former hosts", count, len(reported)))
		}
		return condition.Expectation{Count: count}, nil
	}
	names := strings.Split(f.expect, ",")
	if len(names) > maxHosts {
		return condition.Expectation{}, cli.UsageError(fmt.Sprintf("--expect has %d names: give at most %d", len(names), maxHosts))
	}
	slices.Sort(names)
	if slices.Contains(names, "") || len(slices.Compact(slices.Clone(names))) < len(names) {
		return condition.Expectation{}, cli.UsageError("--expect has an empty or duplicate name: give each host once, separated by commas")
	}
	for _, name := range reported {
		if !slices.Contains(names, name) {
			return condition.Expectation{}, cli.UsageError(fmt.Sprintf("there is a report of %s, which is not in --expect: add the host, or remove the file", name))
		}
	}
	return condition.Expectation{Names: names}, nil
}

// run prints the condition and returns its status.
func (f conditionFlags) run(out io.Writer, files []string, now time.Time) (string, error) {
	previous, err := f.readPrevious()
	if err != nil {
		return "", err
	}
	hosts := make([]condition.HostReport, 0, len(files))
	reported := make([]string, 0, len(files))
	for _, file := range files {
		h := readHostReport(file)
		hosts, reported = append(hosts, h), append(reported, h.Name)
	}
	expected, err := f.expectedHosts(reported)
	if err != nil {
		return "", err
	}
	expected.MaxAge = f.maxAge
	if f.kind == kindHTTP01Proxy {
		all := condition.AggregateHTTP01Proxy(hosts, expected, previous, now)
		return all[0].Status, f.print(out, all, newHTTP01Proxy(all))
	}
	var before *report.Condition
	if len(previous) > 0 {
		before = &previous[0]
	}
	c := condition.Aggregate(hosts, expected, before, now)
	return c.Status, f.print(out, []report.Condition{c}, report.ClusterCondition{Header: report.NewHeader(kindClusterCondition), Condition: c})
}

// http01Proxy is an HTTP01Proxy with its status alone. Without a spec, an API server
// rejects it if it is applied as the whole object, which could enable another proxy.
type http01Proxy struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   http01ProxyMeta   `json:"metadata"`
	Status     http01ProxyStatus `json:"status"`
}

type http01ProxyMeta struct {
	Name string `json:"name"`
}

type http01ProxyStatus struct {
	Conditions []report.Condition `json:"conditions"`
}

func newHTTP01Proxy(conditions []report.Condition) http01Proxy {
	return http01Proxy{"operator.openshift.io/v1alpha1", kindHTTP01Proxy, http01ProxyMeta{operatorv1alpha1.NameCluster}, http01ProxyStatus{conditions}}
}

// print writes each condition as a line of text, or the document.
func (f conditionFlags) print(w io.Writer, conditions []report.Condition, document any) error {
	var err error
	if f.format == cli.Text {
		for _, c := range conditions {
			_, lineErr := fmt.Fprintf(w, "%s=%s (%s) since %s: %s\n", c.Type, c.Status, c.Reason, c.LastTransitionTime.Format(time.RFC3339), c.Message)
			err = errors.Join(err, lineErr)
		}
	} else {
		err = cli.WriteDocument(w, f.format, document)
	}
	if err != nil {
		return fmt.Errorf("cannot print the condition: %w", err)
	}
	return nil
}
