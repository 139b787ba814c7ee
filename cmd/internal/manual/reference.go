// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// guide returns the document that describes what a command does, if there is one. The
// reference links to it, and does not repeat the description of the help.
func guide(command string) string {
	switch command {
	case "check", "trace":
		return "../../troubleshooting.md#what-the-commands-do"
	case "status":
		return "../status.md"
	case "condition":
		return "../cluster-condition.md"
	case "preflight":
		return "../../install/machineconfig.md#before-a-change"
	case "render":
		return "../../install/machineconfig.md#1-render"
	default:
		return ""
	}
}

// reference is the document of a program. A flag that means the same for several commands
// is described once, with the commands that have it. The examples are in the help and in the man pages.
func reference(root *cobra.Command) string {
	var commands []*cobra.Command
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			commands = append(commands, c)
		}
	}
	common := commonFlags(commands)
	shared := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, flags := range common {
		shared.AddFlagSet(flags)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n<!-- Generated from the help -->\n\n%s\n\n%s\n", root.CommandPath(), root.Long,
		"`COMMAND --help` and the man pages also have descriptions and examples. The first format of `-o` is the default.")
	for _, c := range commands {
		fmt.Fprintf(&b, "\n## %s\n\n", c.CommandPath())
		if target := guide(c.Name()); target != "" {
			name := strings.TrimSuffix(path.Base(strings.Split(target, "#")[0]), ".md")
			fmt.Fprintf(&b, "%s%s. See [%s](%s).\n", strings.ToUpper(c.Short[:1]), c.Short[1:], name, target)
		} else {
			fmt.Fprintln(&b, c.Long)
		}
		if c.Use != c.Name() {
			fmt.Fprintf(&b, "\n```text\n%s\n```\n", c.UseLine())
		}
		own, formats := pflag.NewFlagSet("", pflag.ContinueOnError), ""
		c.Flags().VisitAll(func(f *pflag.Flag) {
			switch {
			case f.Hidden || f.Name == "help" || shared.Lookup(f.Name) != nil:
			case f.Name == "output":
				formats = strings.TrimPrefix(f.Usage, "format of the output: ")
			default:
				own.AddFlag(f)
			}
		})
		if own.HasFlags() {
			fmt.Fprintf(&b, "\n```text\n%s```\n", own.FlagUsages())
		}
		if formats != "" {
			fmt.Fprintf(&b, "\n`-o`: %s\n", formats)
		}
	}
	b.WriteString("\n## Flags of several commands\n\n```text\n")
	for _, names := range slices.Sorted(maps.Keys(common)) {
		fmt.Fprintf(&b, "%s:\n%s", names, common[names].FlagUsages())
	}
	b.WriteString("```\n")
	return b.String()
}

// commonFlags returns the flags that several commands have, with the same description in
// each command that has them. The keys are the names of these commands.
func commonFlags(commands []*cobra.Command) map[string]*pflag.FlagSet {
	uses := make(map[string][]*pflag.Flag)
	users := make(map[string][]string)
	for _, c := range commands {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			uses[f.Name] = append(uses[f.Name], f)
			users[f.Name] = append(users[f.Name], c.Name())
		})
	}
	common := make(map[string]*pflag.FlagSet)
	for name, flags := range uses {
		differs := func(f *pflag.Flag) bool { return f.Usage != flags[0].Usage || f.DefValue != flags[0].DefValue }
		if name == "help" || name == "output" || flags[0].Hidden || len(flags) == 1 || slices.ContainsFunc(flags, differs) {
			continue
		}
		names := strings.Join(users[name], ", ")
		if common[names] == nil {
			common[names] = pflag.NewFlagSet("", pflag.ContinueOnError)
		}
		common[names].AddFlag(flags[0])
	}
	return common
}
