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
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
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
		Summary: "fold what the hosts report into one condition of the cluster",
		Files:   "status-HOST.json...",
		Help: `Fold what "http01-proxyd status -o json" has printed on each host into one
condition HTTP01ChallengeProxyReady, in the shape of Kubernetes' metav1.Condition.
A host is called as its file: status-HOST.json.

True      every API VIP is held and served by exactly one host (Serving), or none
          has to be (NotRequired)
False     VIPHeldTwice, VIPNotHeld, or the reason and the message of the host that
          holds a VIP and does not serve it, or that knows of no VIP
Unknown   a host has not answered (NotReachable), or its report is older than
          --max-age, and nothing is known to be wrong

A report is as old as it says itself, or else as its file. A host that does not matter
for this now, and is not ready, is named in the message; so are versions and API VIPs
that differ, and a host whose clock is ahead of the one here by more than a minute,
which makes nothing else of the condition: its report is then as old as its file. The
message ends with how many hosts have reported: of one that was not asked nothing is
known, unless --hosts says that it is there. lastTransitionTime is when the hosts came
to be so, by their own reports; with --previous it stays while the status does.

Exit codes: 0 True, 1 False or Unknown, 2 the command line is wrong, 3 failed. With 0
and 1 a condition was printed, with 2 and 3 none.

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
			flags.StringVar(&f.previous, "previous", "", "`FILE` with the condition that an earlier run has printed, in json or yaml; an absent one is none")
			flags.StringVar(&f.hosts, "hosts", "", "how many `HOSTS` there are, or their names with commas between: one without a report has not answered")
			flags.DurationVar(&f.maxAge, "max-age", defaultMaxAge, "`DURATION` that a report may be old, such as 90s: an older one does not count; 0: however old")
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
		return command.UsageError("no report is given: name the hosts' files")
	case f.maxAge < 0:
		return command.UsageError(fmt.Sprintf("--max-age %v: give how old a report may be, such as 5m, or 0 for however old", f.maxAge))
	case len(files) > maxHosts:
		return command.UsageError(fmt.Sprintf("%d reports: give at most %d", len(files), maxHosts))
	}
	seen := make(map[string]string)
	for _, file := range files {
		name := hostName(file)
		switch other, again := seen[name]; {
		case file == stdin:
			return command.UsageError("reports are not read from the standard input: write each into a file, called as its host: status-HOST.json")
		case strings.HasPrefix(file, "-"):
			return command.UsageError(file + " stands behind a file: flags come first")
		case isPattern(file):
			return command.UsageError(fmt.Sprintf("no file fits %s: write the hosts' reports first, each into status-HOST.json", file))
		case again:
			return command.UsageError(fmt.Sprintf("%s and %s are both of the host %s", other, file, name))
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
			return condition.Expectation{}, command.UsageError(fmt.Sprintf("--hosts %d, and %d reports: leave out those of hosts that are gone", count, len(reported)))
		}
		return condition.Expectation{Count: count}, nil
	}
	names := strings.Split(f.hosts, ",")
	if len(names) > maxHosts {
		return condition.Expectation{}, command.UsageError(fmt.Sprintf("--hosts names %d: give at most %d", len(names), maxHosts))
	}
	slices.Sort(names)
	if slices.Contains(names, "") || len(slices.Compact(slices.Clone(names))) < len(names) {
		return condition.Expectation{}, command.UsageError("--hosts has an empty name, or one twice: give each host once, with commas between")
	}
	for _, name := range reported {
		if !slices.Contains(names, name) {
			return condition.Expectation{}, command.UsageError(fmt.Sprintf("there is a report of %s, whom --hosts does not name: add it there, or leave the file out", name))
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

// printable replaces characters that would break the line or control the terminal: a
// host could send them.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

func writeCondition(w io.Writer, c report.Condition, format string) error {
	var text []byte
	var err error
	switch format {
	case "text":
		text = fmt.Appendf(nil, "%s=%s (%s) since %s: %s\n", c.Type, c.Status, c.Reason, c.LastTransitionTime.Format(time.RFC3339), printable(c.Message))
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
		return fmt.Errorf("print the condition: %w", err)
	}
	return nil
}
