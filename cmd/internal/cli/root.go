// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
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
	groups = append(groups, Group{"Other commands", []*cobra.Command{versionCommand(), completionCommand()}})
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.Title, Title: g.Title + ":"})
		for _, c := range g.Commands {
			c.GroupID = g.Title
		}
		root.AddCommand(g.Commands...)
	}
	root.SetHelpCommandGroupID(groups[len(groups)-1].Title)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SuggestionsMinimumDistance = 2 // cobra's own default is not set for SuggestionsFor
	root.SilenceErrors, root.SilenceUsage = true, true
	addHelp(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return UsageError(err.Error()) })
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return validateFlags(c) }
	printVersion := root.Flags().Bool("version", false, "print the version")
	root.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		suggestion := ""
		if names := c.SuggestionsFor(args[0]); len(names) > 0 {
			suggestion = ", did you mean " + strings.Join(names, " or ") + "?"
		}
		return fmt.Errorf("unknown command %q%s", args[0], suggestion)
	}
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *printVersion {
			return writeVersion(c, Text)
		}
		c.SetOut(c.ErrOrStderr())
		return errors.Join(c.Help(), ExitCode(Usage))
	}
	for _, c := range append(root.Commands(), root) {
		completeCommand(c)
	}
	return root
}

// completeCommand makes errors of the arguments usage errors. A shell completes file names
// as the values of flags.
func completeCommand(c *cobra.Command) {
	args := c.Args
	if args == nil {
		args = cobra.NoArgs
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
}

// addHelp adds the exit codes to cobra's help of the root command. Unlike cobra's own, the
// command "help" fails for an unknown command.
func addHelp(root *cobra.Command) {
	write := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		write(c, args)
		if c == root {
			fmt.Fprintf(c.OutOrStdout(), "\n%s\n", ExitCodes)
		}
	})
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Short, help.Long = "print the help of a command", "Print the help of a command."
	help.Args = cobra.ArbitraryArgs
	help.Run, help.RunE = nil, func(_ *cobra.Command, args []string) error {
		described, unknown, _ := root.Find(args)
		if len(unknown) > 0 {
			return root.Args(root, unknown)
		}
		return described.Help()
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
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
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
