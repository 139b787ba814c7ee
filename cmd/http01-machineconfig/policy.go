// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
)

// maxPolicy is above what etcd takes for one object.
const maxPolicy = 2 << 20

// policyFlags are the flags of policy.
type policyFlags struct {
	merge, remove           string
	release, force, layered bool
}

func policyCommand() command.Command {
	return command.Command{
		Name:    "policy",
		Summary: "print, merge or remove the entries of the NodeDisruptionPolicy",
		Help: `Print the entries that let the MachineConfigs change without a reboot, for
server-side apply; or put them into the cluster's object, or take them out of
it, without losing, reordering or rewriting what others have put there. What was
changed is told on standard error.

Examples:
  # server-side apply, under a field manager of its own
  http01-machineconfig policy | oc apply --server-side --field-manager=http01-proxyd -f -

  # the same offline; oc replace refuses an object that has changed meanwhile
  oc get machineconfiguration cluster -o yaml > current.yaml
  http01-machineconfig policy --merge current.yaml > merged.yaml
  oc replace -f merged.yaml

  # take the entries away again: applied ones, merged ones
  http01-machineconfig policy --release | oc apply --server-side --field-manager=http01-proxyd -f -
  oc get machineconfiguration cluster -o yaml | http01-machineconfig policy --remove - > without.yaml
  oc replace -f without.yaml`,
		Setup: func(flags *flag.FlagSet) func(context.Context, command.Streams) error {
			var f policyFlags
			flags.StringVar(&f.merge, "merge", "", "`FILE` (- is standard input) that holds the cluster's object in YAML or JSON: print it with our entries")
			flags.StringVar(&f.remove, "remove", "", "`FILE` (- is standard input): print it without our entries")
			flags.BoolVar(&f.release, "release", false, "print what gives up all entries of the field manager http01-proxyd")
			flags.BoolVar(&f.force, "force", false, "with --merge: replace entries that have our keys and other actions")
			flags.BoolVar(&f.layered, "layered", false, "the entries for hosts whose operating system image holds the binary")
			return func(_ context.Context, s command.Streams) error {
				if err := f.validate(); err != nil {
					return err
				}
				return indentProblems(f.run(s))
			}
		},
	}
}

func (f policyFlags) validate() error {
	ways := 0
	for _, way := range []bool{f.merge != "", f.remove != "", f.release} {
		if way {
			ways++
		}
	}
	switch {
	case ways > 1:
		return command.UsageError("use one of --merge, --remove and --release")
	case f.force && f.merge == "":
		return command.UsageError("--force goes with --merge only")
	case f.layered && f.release:
		return command.UsageError("--release gives up all entries: leave --layered out")
	}
	return nil
}

func (f policyFlags) run(s command.Streams) error {
	policy := disruption.InstallerPolicy()
	if f.layered {
		policy = disruption.LayeredPolicy()
	}
	var result disruption.Result
	var err error
	switch {
	case f.merge != "":
		result, err = f.edit(s, f.merge, func(name string, text []byte) (disruption.Result, error) {
			return policy.Merge(name, text, f.force)
		})
	case f.remove != "":
		result, err = f.edit(s, f.remove, policy.Remove)
	case f.release:
		result.Text, err = disruption.RemovalManifest()
	default:
		result.Text, err = policy.Manifest()
	}
	if err != nil {
		return err
	}
	if _, err := s.Out.Write(result.Text); err != nil {
		return fmt.Errorf("print the policy: %w", err)
	}
	return nil
}

// edit reads the cluster's object, changes it and tells what has changed.
func (f policyFlags) edit(s command.Streams, path string, change func(string, []byte) (disruption.Result, error)) (disruption.Result, error) {
	current, err := readInput(s.In, path, maxPolicy)
	if err != nil {
		return disruption.Result{}, err
	}
	result, err := change(current.Name, current.Text)
	if err != nil {
		return disruption.Result{}, err
	}
	for _, c := range result.Changes {
		fmt.Fprintln(s.Err, c)
	}
	if len(result.Changes) == 0 {
		fmt.Fprintln(s.Err, "nothing to change")
	}
	for _, w := range result.Warnings {
		fmt.Fprintln(s.Err, "warning: "+w)
	}
	return result, nil
}
