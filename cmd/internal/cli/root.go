// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Annotations of a root command for its man pages.
const (
	ManSection = "section"
	ManFiles   = "files" // "path: purpose" lines
)

// Group is a list of commands with a title in the help.
type Group struct {
	Title    string
	Commands []*cobra.Command
}

// Root completes the root command of a binary: it adds the groups, "version",
// "completion" and "help", and sets help and errors of all commands. A command without
// Args takes no argument.
func Root(root *cobra.Command, groups ...Group) *cobra.Command {
	groups = append(groups, Group{"Other commands", []*cobra.Command{versionCommand(), completionCommand(), helpCommand()}})
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.Title, Title: g.Title + ":"})
		for _, c := range g.Commands {
			c.GroupID = g.Title
		}
		root.AddCommand(g.Commands...)
	}
	root.SetHelpCommandGroupID(groups[len(groups)-1].Title)
	root.CompletionOptions.DisableDefaultCmd = true
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SuggestionsMinimumDistance = 2 // cobra's own default is not set for SuggestionsFor
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { writeHelp(c.OutOrStdout(), c) })
	root.SetUsageFunc(func(c *cobra.Command) error { writeHelp(c.ErrOrStderr(), c); return nil })
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return describeFlagError(err) })
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return validateFlags(c) }
	printVersion := root.Flags().Bool("version", false, "print the version")
	root.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(c, args[0])
	}
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *printVersion {
			return writeVersion(c, Text)
		}
		writeHelp(c.ErrOrStderr(), c)
		return ExitCode(Usage)
	}
	for _, c := range append(root.Commands(), root) {
		completeCommand(c)
	}
	return root
}

// completeCommand makes errors of the arguments usage errors, and completes the values
// of flags: files for FILE and SOCKET, folders for DIR.
func completeCommand(c *cobra.Command) {
	args := c.Args
	if args == nil {
		args = noArguments
	}
	c.Args = func(c *cobra.Command, given []string) error {
		if err := args(c, given); err != nil {
			return UsageError(err.Error())
		}
		return nil
	}
	c.Example = strings.ReplaceAll(c.Example, "PROGRAM", c.Root().Name())
	c.InitDefaultHelpFlag()
	c.Flags().Lookup("help").Usage = "print this help"
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, is := c.GetFlagCompletionFunc(f.Name); is || f.NoOptDefVal != "" {
			return
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		switch kind, _ := pflag.UnquoteUsage(f); kind {
		case "DIR":
			directive = cobra.ShellCompDirectiveFilterDirs
		case "FILE", "SOCKET":
			directive = cobra.ShellCompDirectiveDefault
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(nil, directive)) // fails for unknown flags only
	})
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("takes no argument, got %q", args[0])
}

func unknownCommand(root *cobra.Command, name string) error {
	return UsageError(fmt.Sprintf("unknown command %q%s", name, didYouMean(root.SuggestionsFor(name))))
}

// didYouMean returns the suggestions as the end of a message.
func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ", did you mean " + strings.Join(names, " or ") + "?"
}

// Suggestion ends the message for a misspelt value with the similar ones of the valid
// values; it is empty without such values.
func Suggestion(given string, valid []string) string {
	// cobra compares commands only.
	all := &cobra.Command{}
	for _, v := range valid {
		all.AddCommand(&cobra.Command{Use: v, Run: func(*cobra.Command, []string) {}})
	}
	all.SuggestionsMinimumDistance = max(2, len(given)/3)
	return didYouMean(all.SuggestionsFor(given))
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "print the help of a command",
		Long: "Print the help of a command.",
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, other := range c.Root().Commands() {
				if len(args) == 0 && other.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(other.Name(), other.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			described := c.Root()
			if len(args) > 0 {
				for _, other := range c.Root().Commands() {
					if other.Name() == args[0] {
						return other.Help()
					}
				}
				return unknownCommand(described, args[0])
			}
			return described.Help()
		},
	}
}

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "print the completion script of a shell",
		Long: `Print the script that completes commands, flags and values in a shell. The packages
install these scripts.`,
		Example: `  # for this session of bash
  source <(PROGRAM completion bash)

  # for all users, where no package has installed it
  PROGRAM completion bash > /usr/share/bash-completion/completions/PROGRAM
  PROGRAM completion zsh > /usr/share/zsh/site-functions/_PROGRAM
  PROGRAM completion fish > /usr/share/fish/vendor_completions.d/PROGRAM.fish`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(c.ValidArgs, args[0]) {
				return fmt.Errorf("takes one argument: %s", oneOf(c.ValidArgs))
			}
			return nil
		},
		ValidArgs: []cobra.Completion{"bash", "zsh", "fish", "powershell"},
		RunE: func(c *cobra.Command, args []string) error {
			out, root := c.OutOrStdout(), c.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			default:
				return root.GenPowerShellCompletionWithDesc(out)
			}
		},
	}
}

// flagGroup annotates the group of a flag in the help.
const flagGroup = "group"

// Advanced lists flags under "Advanced flags" in the help.
func Advanced(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		if err := flags.SetAnnotation(name, flagGroup, []string{"Advanced"}); err != nil {
			panic(err) // no such flag
		}
	}
}

// helpWidth is the width of the flags in the help.
const helpWidth = 100

// writeHelp writes the description, the usage, the examples, the commands and the flags.
// cobra's own help requires text/template, which keeps the linker from removing unused
// methods.
func writeHelp(w io.Writer, c *cobra.Command) {
	usage := c.UseLine()
	if c.HasAvailableSubCommands() {
		usage = c.CommandPath() + " COMMAND [flags]"
	}
	fmt.Fprintf(w, "%s\n\nUsage:\n  %s\n", c.Long, usage)
	if c.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	for _, g := range c.Groups() {
		fmt.Fprintf(w, "\n%s\n", g.Title)
		for _, child := range c.Commands() {
			if child.GroupID == g.ID && child.IsAvailableCommand() {
				fmt.Fprintf(w, "  %-*s %s\n", child.NamePadding(), child.Name(), child.Short)
			}
		}
	}
	groups := map[string]*pflag.FlagSet{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		group := strings.Join(f.Annotations[flagGroup], "")
		if groups[group] == nil {
			groups[group] = pflag.NewFlagSet("", pflag.ContinueOnError)
		}
		groups[group].AddFlag(f)
	})
	for _, g := range []struct{ key, title string }{{"", "Flags"}, {"Advanced", "Advanced flags"}} {
		if flags := groups[g.key]; flags != nil {
			fmt.Fprintf(w, "\n%s:\n%s", g.title, flags.FlagUsagesWrapped(helpWidth))
		}
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n%s\n\n\"%s COMMAND --help\" describes a command.\n", ExitCodes, c.CommandPath())
	}
}
