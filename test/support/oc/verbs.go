// SPDX-License-Identifier: Apache-2.0

package oc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	kindConfig = "MachineConfig"
	kindPolicy = "MachineConfiguration"
)

// defaultManager is the field manager of kubectl and oc (kubectl's pkg/cmd/apply/apply.go,
// FieldManagerClientSideApply and its default for --server-side).
const defaultManager = "kubectl"

// Run runs oc with arguments in a directory and returns its output.
func (c *Cluster) Run(ctx context.Context, dir string, args ...string) (string, error) {
	if len(args) == 0 {
		return "", errors.New("oc: a verb is missing")
	}
	// Commands on nodes run side by side.
	if args[0] != "debug" {
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	verbs := map[string]func(context.Context, string, []string) (string, error){
		"apply": c.apply, "delete": c.delete, "get": c.get, "debug": c.debug, "patch": c.patch,
		"replace": c.replace,
	}
	verb, known := verbs[args[0]]
	if !known {
		return "", fmt.Errorf("oc %s: no such verb in the documentation", args[0])
	}
	out, err := verb(ctx, dir, args[1:])
	if err != nil {
		return out, fmt.Errorf("oc %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// parse accepts flags before and after arguments, as oc does.
func parse(flags *flag.FlagSet, args []string) ([]string, error) {
	flags.SetOutput(io.Discard)
	var rest []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err //nolint:wrapcheck // Run adds the command
		}
		if flags.NArg() == 0 {
			return rest, nil
		}
		rest, args = append(rest, flags.Arg(0)), flags.Args()[1:]
	}
}

// parseAndRead is for verbs whose only argument is -f.
func parseAndRead(flags *flag.FlagSet, file *string, dir string, args []string) (map[object][]byte, error) {
	rest, err := parse(flags, args)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unexpected arguments %q", rest)
	}
	if err != nil {
		return nil, err
	}
	return read(dir, *file)
}

type object struct {
	Kind     string
	Metadata struct{ Name string }
}

// read reads the objects of -f: the files of a folder without its subfolders, with the
// extensions that oc accepts (cli-runtime's pkg/resource/builder.go).
func read(dir, name string) (map[object][]byte, error) {
	path := name
	if !filepath.IsAbs(name) {
		path = filepath.Join(dir, name)
	}
	files := []string{path}
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("read the files of -f: %w", err)
	} else if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("read the files of -f: %w", err)
		}
		files = nil
		for _, e := range entries {
			if !e.IsDir() && slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(e.Name())) {
				files = append(files, filepath.Join(path, e.Name()))
			}
		}
	}
	all := make(map[object][]byte, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the files of -f: %w", err)
		}
		var o object
		if err := yaml.Unmarshal(text, &o); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all[o] = text
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no object", path)
	}
	return all, nil
}

func (c *Cluster) apply(ctx context.Context, dir string, args []string) (string, error) {
	flags := flag.NewFlagSet("apply", flag.ContinueOnError)
	file := flags.String("f", "", "")
	server := flags.Bool("server-side", false, "")
	manager := flags.String("field-manager", defaultManager, "")
	objects, err := parseAndRead(flags, file, dir, args)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	changed := false
	for o, text := range objects {
		switch {
		case o.Kind == kindPolicy && *server:
			stored, err := c.validator.Apply(c.policy.applied, text, *manager, false)
			if err != nil {
				return "", err
			}
			if err := c.policy.apply(stored); err != nil {
				return "", err
			}
			fmt.Fprintln(&out, "machineconfiguration.operator.openshift.io/"+o.Metadata.Name, "serverside-applied")
		case o.Kind == kindConfig && !*server:
			if err := c.validator.MachineConfig(text); err != nil {
				return "", err
			}
			result := "unchanged"
			if !bytes.Equal(c.configs[o.Metadata.Name], text) {
				changed, result = true, "configured"
			}
			c.configs[o.Metadata.Name] = text
			fmt.Fprintln(&out, "machineconfig.machineconfiguration.openshift.io/"+o.Metadata.Name, result)
		default:
			return "", fmt.Errorf("the documentation does not apply a %s like this", o.Kind)
		}
	}
	if !changed {
		return out.String(), nil
	}
	return out.String(), c.rollOut(ctx)
}

// patch replaces lists of the policy, as another tool does. The operator observes the
// result later.
func (c *Cluster) patch(_ context.Context, dir string, args []string) (string, error) {
	flags := flag.NewFlagSet("patch", flag.ContinueOnError)
	kind := flags.String("type", "strategic", "")
	file := flags.String("patch-file", "", "")
	rest, err := parse(flags, args)
	if err != nil {
		return "", err
	}
	if !slices.Equal(rest, []string{"machineconfiguration", "cluster"}) || *kind != "merge" {
		return "", fmt.Errorf("no test patches %q with the type %s", rest, *kind)
	}
	text, err := os.ReadFile(filepath.Join(dir, *file))
	if err != nil {
		return "", fmt.Errorf("read the patch: %w", err)
	}
	stored, err := c.validator.MergePatch(c.policy.applied, text, "kubectl-patch")
	if err != nil {
		return "", err
	}
	return "machineconfiguration.operator.openshift.io/cluster patched\n", c.policy.apply(stored)
}

// replace replaces the policy, as another tool does. The operator observes the result later.
func (c *Cluster) replace(_ context.Context, dir string, args []string) (string, error) {
	flags := flag.NewFlagSet("replace", flag.ContinueOnError)
	file := flags.String("f", "", "")
	objects, err := parseAndRead(flags, file, dir, args)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for o, text := range objects {
		if o.Kind != kindPolicy {
			return "", fmt.Errorf("no test replaces a %s", o.Kind)
		}
		stored, err := c.validator.Put(c.policy.applied, text, "kubectl-replace")
		if err != nil {
			return "", err
		}
		if err := c.policy.apply(stored); err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "machineconfiguration.operator.openshift.io/%s replaced\n", o.Metadata.Name)
	}
	return out.String(), nil
}

func (c *Cluster) delete(ctx context.Context, dir string, args []string) (string, error) {
	flags := flag.NewFlagSet("delete", flag.ContinueOnError)
	file := flags.String("f", "", "")
	objects, err := parseAndRead(flags, file, dir, args)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for o := range objects {
		if _, there := c.configs[o.Metadata.Name]; o.Kind != kindConfig || !there {
			return "", fmt.Errorf("%s %s is not in the cluster", o.Kind, o.Metadata.Name)
		}
		delete(c.configs, o.Metadata.Name)
		fmt.Fprintf(&out, "machineconfig.machineconfiguration.openshift.io %q deleted\n", o.Metadata.Name)
	}
	return out.String(), c.rollOut(ctx)
}

func (c *Cluster) get(ctx context.Context, _ string, args []string) (string, error) {
	flags := flag.NewFlagSet("get", flag.ContinueOnError)
	format := flags.String("o", "", "")
	flags.StringVar(format, "output", "", "")
	selector := flags.String("selector", "", "")
	rest, err := parse(flags, args)
	if err != nil {
		return "", err
	}
	if len(rest) > 0 && rest[0] == "nodes" && *format == "json" {
		return c.getNodes(*selector, rest[1:])
	}
	if out, found, err := c.getLists(ctx, rest, *selector, *format); found {
		return out, err
	}
	if !slices.Equal(rest, []string{"machineconfiguration", "cluster"}) {
		return "", fmt.Errorf("the documentation does not get %q", rest)
	}
	o, err := c.policy.get(ctx)
	if err != nil {
		return "", err
	}
	return printObject(o, *format)
}

// getNodes returns a List of the nodes with a label or with these names. All nodes are of
// the control plane.
func (c *Cluster) getNodes(selector string, names []string) (string, error) {
	items := []any{}
	for _, n := range c.nodes {
		if len(names) == 0 && selector == ControlPlaneLabel || slices.Contains(names, n.Name) {
			items = append(items, map[string]any{
				"apiVersion": "v1", "kind": "Node",
				"metadata": map[string]any{"name": n.Name, "labels": map[string]any{ControlPlaneLabel: ""}},
				"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
			})
		}
	}
	if len(names) > len(items) {
		return "", fmt.Errorf("not all of the nodes %q exist", names)
	}
	text, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, "", "    ")
	return string(text) + "\n", err
}

// ControlPlaneLabel is the label of the nodes.
const ControlPlaneLabel = "node-role.kubernetes.io/control-plane"

// debug runs a command on a node: oc debug node/NAME -- chroot /host COMMAND. The command gets
// no standard input, even with --tty=false, so a coordinated check runs alone.
func (c *Cluster) debug(ctx context.Context, _ string, args []string) (string, error) {
	flags := flag.NewFlagSet("debug", flag.ContinueOnError)
	_ = flags.Bool("quiet", false, "")
	_ = flags.Bool("q", false, "")
	_ = flags.Bool("tty", false, "")
	end := slices.Index(args, "--")
	if end < 0 {
		return "", errors.New("give node/NAME -- chroot /host COMMAND")
	}
	rest, err := parse(flags, args[:end])
	if err != nil {
		return "", err
	}
	command := args[end+1:]
	if len(rest) != 1 || len(command) < 3 || command[0] != "chroot" || command[1] != "/host" {
		return "", errors.New("give node/NAME -- chroot /host COMMAND")
	}
	n, err := c.node(strings.TrimPrefix(rest[0], "node/"))
	if err != nil {
		return "", err
	}
	return n.Daemon.Machine.Run(ctx, command[2], command[3:]...) //nolint:wrapcheck // Run adds the command
}
