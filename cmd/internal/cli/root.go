// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Annotations of a root command for its man pages.
const (
	ManSection     = "section"
	ManEnvironment = "environment" // "variable: meaning" lines
	ManFiles       = "files"       // "path: purpose" lines; the configuration file is first
	ManSignals     = "signals"     // "signal: effect" lines
)

// OtherProgram is an annotation of a root command: the name of the other program and its commands, such as
// "oc http01: render preflight".
const OtherProgram = "other"

// Group is a list of commands with a title in the help.
type Group struct {
	Title    string
	Commands []*cobra.Command
}

// Root completes the root command of a binary: it adds the groups and
// "version" to cobra's own commands, and sets help and errors of all commands. A command
// without Args takes no argument.
func Root(root *cobra.Command, groups ...Group) *cobra.Command {
	groups = append(groups, Group{"Other commands", []*cobra.Command{versionCommand()}})
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.Title, Title: g.Title + ":"})
		for _, c := range g.Commands {
			c.GroupID = g.Title
		}
		root.AddCommand(g.Commands...)
	}
	root.SetHelpCommandGroupID(groups[len(groups)-1].Title)
	root.SetCompletionCommandGroupID(groups[len(groups)-1].Title)
	root.SilenceErrors, root.SilenceUsage = true, true
	addExitCodes(root)
	root.SetFlagErrorFunc(describeFlagError)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return validateFlags(c) }
	printVersion := root.Flags().Bool("version", false, "print the version")
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
		args = noArguments
	}
	c.Args = func(c *cobra.Command, given []string) error {
		if err := args(c, given); err != nil {
			return UsageError(err.Error())
		}
		return nil
	}
	c.InitDefaultHelpFlag()
	c.Flags().Lookup("help").Usage = "print this help"
}

// addExitCodes adds the exit codes to cobra's help of the root command.
func addExitCodes(root *cobra.Command) {
	write := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		write(c, args)
		if c == root {
			fmt.Fprintf(c.OutOrStdout(), "\n%s\n", ExitCodes)
		}
	})
}
