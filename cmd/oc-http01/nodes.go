// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
)

// defaultTimeout is the time for one node. A debug pod starts in seconds, unless its
// image must be pulled.
const defaultTimeout = 2 * time.Minute

// nodeFlags select the nodes of status, check and condition.
type nodeFlags struct {
	oc              nodes.OC
	names, selector string
	timeout         time.Duration
	out             cli.Output
}

func (f *nodeFlags) add(c *cobra.Command, formats ...string) {
	f.out.Add(c, formats...)
	f.addSelection(c)
}

// addSelection adds the flags of a command that prints no table.
func (f *nodeFlags) addSelection(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.names, "nodes", "",
		"`NAMES` of nodes, separated by commas (default: the nodes that --selector selects)")
	flags.StringVar(&f.selector, "selector", "",
		"`LABELS` of the nodes; default: node-role.kubernetes.io/control-plane")
	flags.DurationVar(&f.timeout, "timeout", defaultTimeout, "maximal `DURATION` for each node")
	flags.StringVar(&f.oc.Kubeconfig, "kubeconfig", "",
		"kubeconfig `FILE` for oc (default: the one that oc uses)")
	flags.StringVar(&f.oc.Context, "context", "", "`NAME` of the context in the kubeconfig; default: the current one")
}

// selection returns the selected nodes.
func (f *nodeFlags) selection() (nodes.Selection, error) {
	switch {
	case f.timeout <= 0:
		return nodes.Selection{}, cli.UsageError(fmt.Sprintf("invalid --timeout %v: give a duration, such as 90s", f.timeout))
	case f.names == "":
		return nodes.Selection{Selector: f.selector}, nil
	case f.selector != "":
		return nodes.Selection{}, cli.UsageError("--selector cannot be used with --nodes")
	}
	names := strings.Split(f.names, ",")
	for i, name := range names {
		switch {
		case strings.TrimSpace(name) != name:
			return nodes.Selection{}, cli.UsageError("--nodes: remove the blanks: " + strings.ReplaceAll(f.names, " ", ""))
		case name != strings.ToLower(name) && nodes.ValidName(strings.ToLower(name)):
			return nodes.Selection{}, cli.UsageError(fmt.Sprintf("--nodes: names of nodes are in lower case: %q", name))
		case !nodes.ValidName(name):
			return nodes.Selection{}, cli.UsageError(fmt.Sprintf("--nodes: %q is not the name of a node", name))
		case slices.Contains(names[:i], name):
			return nodes.Selection{}, cli.UsageError(fmt.Sprintf("--nodes: %s is listed twice", name))
		}
	}
	return nodes.Selection{Names: names}, nil
}

// list returns the selected nodes.
func (f *nodeFlags) list(ctx context.Context, errOut io.Writer) ([]nodes.Node, error) {
	selection, err := f.selection()
	if err != nil {
		return nil, err
	}
	selected, err := f.oc.List(ctx, f.timeout, selection)
	if err != nil {
		return nil, err
	}
	showProgress(errOut, "querying %d nodes, at most %v for each", len(selected), f.timeout)
	return selected, nil
}

// showProgress writes a line to a terminal.
func showProgress(errOut io.Writer, format string, values ...any) {
	if cli.IsTerminal(errOut) {
		fmt.Fprintf(errOut, format+"\n", values...)
	}
}

// commandWith is the command of the same name on a node, with the given ones of these flags.
func commandWith(c *cobra.Command, flags ...string) []string {
	command := []string{"http01-proxyd", c.Name(), "-o", "json"}
	for _, name := range flags {
		flag := c.Flags().Lookup(name)
		if !flag.Changed {
			continue
		}
		value := flag.Value.String()
		if list, is := flag.Value.(pflag.SliceValue); is {
			value = strings.Join(list.GetSlice(), ",")
		}
		command = append(command, "--"+name+"="+value)
	}
	return command
}

// runOnEach runs a command on the selected nodes.
func (f *nodeFlags) runOnEach(ctx context.Context, errOut io.Writer, command ...string) ([]nodes.Output, error) {
	selected, err := f.list(ctx, errOut)
	if err != nil {
		return nil, err
	}
	outputs := f.oc.RunOnEach(ctx, selected, f.timeout, command...)
	if ctx.Err() != nil {
		return nil, errors.New("interrupted")
	}
	return outputs, nil
}
