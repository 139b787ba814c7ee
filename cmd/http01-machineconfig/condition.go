// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Limits of the input, far above real sizes.
const (
	maxReport    = 4 << 20
	maxCondition = 64 << 10 // its message has at most 32 KiB
	maxHosts     = 1000
)

// The exit codes of condition.
const (
	exitNotTrue     command.ExitCode = 1
	exitNoCondition command.ExitCode = 3
)

// defaultMaxAge is the maximal age of a report. Hosts are queried one after another,
// and monitoring queries them again within minutes.
const defaultMaxAge = 5 * time.Minute

// conditionFlags are the flags of condition.
type conditionFlags struct {
	format, previous, hosts string
	maxAge                  time.Duration
}

func conditionCommand() command.Command {
	return command.Command{
		Name:    "condition",
		Summary: "combine the reports of the hosts into one condition of the cluster",
		Files:   "status-HOST.json...",
		Help: `Combine the output of "http01-proxyd status -o json" of each host into one
condition HTTP01ChallengeProxyReady, in the form of Kubernetes' metav1.Condition.
A file is named after its host: status-HOST.json.

True      every API VIP is held and served by exactly one host (Serving), or no
          VIP must be held (NotRequired)
False     VIPHeldTwice, VIPNotHeld, or the reason and the message of a host that
          holds a VIP without serving it, or that found no VIP
Unknown   a host has not answered (NotReachable), or its report is older than
          --max-age, and no problem is known

The age of a report comes from the time in it, or else from its file. The message also
names hosts that are not ready, differences in versions and API VIPs, and hosts whose
clock is more than a minute ahead; for these, the file provides the age. The message
ends with the number of hosts that have reported. Hosts without a report are missed
only with --hosts. lastTransitionTime is the time of the change in the hosts' reports;
with --previous it stays while the status is the same.

Exit codes: 0 True, 1 False or Unknown, 2 the command line is wrong, 3 failure. A
condition is printed with the codes 0 and 1 only.

Examples:
  for node in master0 master1 master2; do
    oc debug -q "node/$node" -- chroot /host http01-proxyd status -o json > "status-$node.json"
  done
  http01-machineconfig condition --hosts 3 status-*.json
  http01-machineconfig condition -o text --previous condition.json status-*.json
  http01-machineconfig condition --previous condition.json status-*.json > condition.new ||
    test $? -eq 1 && mv condition.new condition.json`,
		Setup: func(flags *flag.FlagSet) func(context.Context, command.Streams) error {
			var f conditionFlags
			flags.StringVar(&f.format, "output", "json", "`FORMAT` of the condition: json, yaml or text")
			flags.StringVar(&f.format, "o", "json", "short for --output `FORMAT`")
			flags.StringVar(&f.previous, "previous", "", "`FILE` with the output of an earlier run, in json or yaml, which may be missing; default: none")
			flags.StringVar(&f.hosts, "hosts", "", "number of `HOSTS`, or their names separated by commas; default: the hosts with a report")
			flags.DurationVar(&f.maxAge, "max-age", defaultMaxAge, "maximal age of a report as a `DURATION`, such as 90s; 0 accepts any age")
			return func(_ context.Context, s command.Streams) error {
				if err := f.validate(flags.Args()); err != nil {
					return err
				}
				status, err := f.run(s.Out, flags.Args(), time.Now())
				switch {
				case err != nil:
					fmt.Fprintf(s.Err, "http01-machineconfig condition: %v\n", indentProblems(err))
					return exitNoCondition
				case status != "True":
					return exitNotTrue
				}
				return nil
			}
		},
	}
}

func (f conditionFlags) validate(files []string) error {
	switch {
	case f.format != "json" && f.format != "yaml" && f.format != "text":
		return command.UsageError(fmt.Sprintf("output format %q: use json, yaml or text", f.format))
	case len(files) == 0:
		return command.UsageError("no report given: name the files of the hosts")
	case f.maxAge < 0:
		return command.UsageError(fmt.Sprintf("invalid --max-age %v: give a maximal age, such as 5m, or 0 for any age", f.maxAge))
	case len(files) > maxHosts:
		return command.UsageError(fmt.Sprintf("%d reports: give at most %d", len(files), maxHosts))
	}
	seen := make(map[string]string)
	for _, file := range files {
		name := hostName(file)
		switch other, again := seen[name]; {
		case file == stdin:
			return command.UsageError("reports cannot be read from standard input: write each to a file named after its host, status-HOST.json")
		case strings.HasPrefix(file, "-"):
			return command.UsageError(file + " comes after a file: give flags first")
		case isPattern(file):
			return command.UsageError(fmt.Sprintf("no file matches %s: write the report of each host to status-HOST.json first", file))
		case again:
			return command.UsageError(fmt.Sprintf("%s and %s are both reports of the host %s", other, file, name))
		}
		seen[name] = file
	}
	_, err := f.expectedHosts(slices.Sorted(maps.Keys(seen)))
	return err
}

// expectedHosts parses --hosts. A report of a host that is not listed is an error: it
// may be a file of a former host.
func (f conditionFlags) expectedHosts(reported []string) (condition.Expectation, error) {
	if f.hosts == "" {
		return condition.Expectation{}, nil
	}
	if count, err := strconv.Atoi(f.hosts); err == nil {
		switch {
		case count < 1 || count > maxHosts:
			return condition.Expectation{}, command.UsageError(fmt.Sprintf("--hosts %d: give 1 to %d, or names", count, maxHosts))
		case count < len(reported):
			return condition.Expectation{}, command.UsageError(fmt.Sprintf("--hosts %d, but %d reports: remove those of former hosts", count, len(reported)))
		}
		return condition.Expectation{Count: count}, nil
	}
	names := strings.Split(f.hosts, ",")
	if len(names) > maxHosts {
		return condition.Expectation{}, command.UsageError(fmt.Sprintf("--hosts has %d names: give at most %d", len(names), maxHosts))
	}
	slices.Sort(names)
	if slices.Contains(names, "") || len(slices.Compact(slices.Clone(names))) < len(names) {
		return condition.Expectation{}, command.UsageError("--hosts has an empty or duplicate name: give each host once, separated by commas")
	}
	for _, name := range reported {
		if !slices.Contains(names, name) {
			return condition.Expectation{}, command.UsageError(fmt.Sprintf("there is a report of %s, which is not in --hosts: add the host, or remove the file", name))
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
	c := condition.Aggregate(hosts, expected, previous, now)
	return c.Status, writeCondition(out, c, f.format)
}

func writeCondition(w io.Writer, c report.Condition, format string) error {
	var text []byte
	var err error
	switch format {
	case "text":
		text = fmt.Appendf(nil, "%s=%s (%s) since %s: %s\n", c.Type, c.Status, c.Reason, c.LastTransitionTime.Format(time.RFC3339), printable.Line(c.Message))
	case "yaml":
		text, err = yaml.Dump(map[string]string{
			"type": c.Type, "status": c.Status, "reason": string(c.Reason), "message": c.Message,
			"lastTransitionTime": c.LastTransitionTime.Format(time.RFC3339),
		}, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	default:
		text, err = json.MarshalIndent(c, "", "  ")
		text = append(text, '\n')
	}
	if err == nil {
		_, err = w.Write(text)
	}
	if err != nil {
		return fmt.Errorf("cannot print the condition: %w", err)
	}
	return nil
}
