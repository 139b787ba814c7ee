// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"fmt"
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
// is described once. The examples are in the help and in the man pages.
func reference(root *cobra.Command) string {
	var commands []*cobra.Command
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			commands = append(commands, c)
		}
	}
	common := commonFlags(commands)
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
		own, shared := pflag.NewFlagSet("", pflag.ContinueOnError), []string(nil)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			switch {
			case f.Hidden || f.Name == "help":
			case f.Name == "output":
				shared = append(shared, "`-o` ("+strings.TrimPrefix(f.Usage, "format of the output: ")+")")
			case common.Lookup(f.Name) != nil:
				shared = append(shared, "`--"+f.Name+"`")
			default:
				own.AddFlag(f)
			}
		})
		if own.HasFlags() {
			fmt.Fprintf(&b, "\n```text\n%s```\n", own.FlagUsages())
		}
		if len(shared) > 0 {
			fmt.Fprintf(&b, "\n[Also](#flags-of-several-commands): %s\n", strings.Join(shared, ", "))
		}
	}
	fmt.Fprintf(&b, "\n## Flags of several commands\n\n```text\n%s```\n", common.FlagUsages())
	return b.String()
}

// commonFlags returns the flags that several commands have, with the same description in
// each command that has them.
func commonFlags(commands []*cobra.Command) *pflag.FlagSet {
	uses := make(map[string][]*pflag.Flag)
	for _, c := range commands {
		c.Flags().VisitAll(func(f *pflag.Flag) { uses[f.Name] = append(uses[f.Name], f) })
	}
	common := pflag.NewFlagSet("", pflag.ContinueOnError)
	for name, flags := range uses {
		differs := func(f *pflag.Flag) bool { return f.Usage != flags[0].Usage || f.DefValue != flags[0].DefValue }
		if name != "help" && !flags[0].Hidden && len(flags) > 1 && !slices.ContainsFunc(flags, differs) {
			common.AddFlag(flags[0])
		}
	}
	return common
}
