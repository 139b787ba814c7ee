// SPDX-License-Identifier: Apache-2.0

// The commands of oc for that pool. They exist because it has no API server; all other commands of the
// documentation run with a real one.

package oc

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

const (
	kindConfig = "MachineConfig"
	kindPolicy = "MachineConfiguration"
)

// defaultManager is the field manager of kubectl and oc (kubectl's pkg/cmd/apply/apply.go,
// FieldManagerClientSideApply and its default for --server-side).
const defaultManager = "kubectl"

// command is a command of oc.
type command struct {
	names   string // arguments that are no flags
	dir     string // in which it runs
	file    string
	server  bool
	manager string
	output  string
}

func parse(dir string, args []string) (c command, err error) {
	c.dir = dir
	flags := flag.NewFlagSet("oc", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&c.file, "f", "", "")
	flags.StringVar(&c.output, "o", "", "")
	flags.BoolVar(&c.server, "server-side", false, "")
	flags.StringVar(&c.manager, "field-manager", defaultManager, "")
	_ = flags.Bool("ignore-not-found", false, "") // no test needs the error
	var names []string
	for { // flags can follow names
		if err := flags.Parse(args); err != nil {
			return c, err //nolint:wrapcheck // Run adds the command
		}
		if flags.NArg() == 0 {
			c.names = strings.Join(names, " ")
			return c, nil
		}
		names, args = append(names, flags.Arg(0)), flags.Args()[1:]
	}
}

// Run runs oc with arguments in a directory and returns its output. It supports only the verbs that
// apply.sh, the documentation of the OS image and the hook of Argo CD use: test/rehearsal/openshift
// runs all other commands with a real API server.
func (c *Cluster) Run(ctx context.Context, dir string, args ...string) (out string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(args) == 0 {
		return "", errors.New("oc: a verb is missing")
	}
	parsed, err := parse(dir, args[1:])
	if err != nil {
		return "", fmt.Errorf("oc %s: %w", strings.Join(args, " "), err)
	}
	switch args[0] {
	case "apply":
		out, err = c.apply(ctx, parsed)
	case "delete":
		out, err = c.delete(ctx, parsed)
	case "get":
		out, err = c.get(ctx, parsed)
	default:
		err = errors.New("no test needs this verb")
	}
	if err != nil {
		err = fmt.Errorf("oc %s: %w", strings.Join(args, " "), err)
	}
	return out, err
}

type object struct {
	Kind     string
	Metadata struct{ Name string }
}

// read reads the objects of -f: a file, or the files of a folder without its subfolders.
func (c command) read() (map[object][]byte, error) {
	path := c.file
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.dir, path)
	}
	files := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
			return nil, fmt.Errorf("list the files of -f: %w", err)
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
	if len(all) == 0 || c.names != "" {
		return nil, fmt.Errorf("%s contains %d objects, and %q is not examined", path, len(all), c.names)
	}
	return all, nil
}

func (c *Cluster) apply(ctx context.Context, what command) (string, error) {
	objects, err := what.read()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	changed := false
	for o, text := range objects {
		switch {
		case o.Kind == kindPolicy && what.server:
			stored, err := c.validator.Apply(c.policy.applied, text, what.manager, false)
			if err != nil {
				return "", err
			}
			if err := c.policy.apply(stored); err != nil {
				return "", err
			}
			fmt.Fprintln(&out, "machineconfiguration.operator.openshift.io/"+o.Metadata.Name, "serverside-applied")
		case o.Kind == kindConfig && !what.server:
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
			return "", fmt.Errorf("no test applies a %s like this", o.Kind)
		}
	}
	if !changed {
		return out.String(), nil
	}
	return out.String(), c.rollOut(ctx)
}

func (c *Cluster) delete(ctx context.Context, what command) (string, error) {
	objects, err := what.read()
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

func (c *Cluster) get(ctx context.Context, what command) (string, error) {
	kind, names, _ := strings.Cut(what.names, " ")
	var o map[string]any
	var err error
	switch {
	case what.names == "machineconfiguration cluster":
		o, err = c.policy.get(ctx)
	case what.names == "mcp master":
		o = c.pool()
	case what.names == "mcp":
		o = list(c.pool())
	case what.names == "machineconfigs" && what.output == "name":
		var text strings.Builder
		for _, name := range slices.Sorted(maps.Keys(c.configs)) {
			fmt.Fprintln(&text, "machineconfig.machineconfiguration.openshift.io/"+name)
		}
		return text.String(), nil
	case kind == "machineconfigs":
		o, err = c.machineConfigs(strings.Fields(names))
	default:
		err = fmt.Errorf("no test gets %q", what.names)
	}
	if err != nil || o == nil {
		return "", err
	}
	return printObject(o, what.output)
}

// machineConfigs returns the MachineConfigs with these names, which may include the pool's rendered one. It
// leaves out names that do not exist. oc prints a single object without a List.
func (c *Cluster) machineConfigs(names []string) (map[string]any, error) {
	var found []any
	for _, name := range names {
		text, exists := c.configs[name]
		if name == c.rendered {
			text, exists = c.contents, true
		}
		if !exists {
			continue
		}
		var o map[string]any
		if err := yaml.Unmarshal(text, &o); err != nil {
			return nil, fmt.Errorf("read a MachineConfig: %w", err)
		}
		found = append(found, o)
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		one, _ := found[0].(map[string]any)
		return one, nil
	}
	return list(found...), nil
}

func list(items ...any) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
}

// printObject prints an object as -o does.
func printObject(o map[string]any, format string) (string, error) {
	var got strings.Builder
	kind, expression, _ := strings.Cut(format, "=")
	switch kind {
	case "yaml":
		text, err := yaml.Marshal(o)
		return string(text), err //nolint:wrapcheck // Run adds the command
	case "go-template":
		parsed, err := template.New("get").Parse(expression)
		if err != nil {
			return "", fmt.Errorf("%s: %w", format, err)
		}
		err = parsed.Execute(&got, o)
		return got.String(), err //nolint:wrapcheck // Run adds the command
	case "jsonpath":
		path := jsonpath.New("get").AllowMissingKeys(true)
		if err := path.Parse(expression); err != nil {
			return "", fmt.Errorf("%s: %w", format, err)
		}
		err := path.Execute(&got, o)
		return got.String(), err //nolint:wrapcheck // Run adds the command
	}
	return "", fmt.Errorf("no test needs the format %q", format)
}
