// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/http01-proxyd/http01-proxyd/internal/spelling"
)

// didYouMean returns a question with the name that is most like an unknown word; empty if none is.
func didYouMean(word, prefix string, names []string) string {
	if name := spelling.Nearest(word, names); name != "" {
		return ": did you mean " + prefix + name + "?"
	}
	return ""
}

// describeFlagError returns the error of a flag with what the user can write in its place.
func describeFlagError(c *cobra.Command, err error) error {
	if unknown, is := errors.AsType[*pflag.NotExistError](err); is && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		return UsageError(err.Error() + didYouMean(unknown.GetSpecifiedName(), "--", names))
	}
	if invalid, is := errors.AsType[*pflag.InvalidValueError](err); is {
		f := invalid.GetFlag()
		// The messages of Go's parsers do not say what to write.
		form, known := map[string]string{
			"bool": "use true or false", "int": "use a whole number",
			"duration": "use a number with a unit, such as 30s or 2m",
		}[f.Value.Type()]
		if known {
			return UsageError(fmt.Sprintf("invalid argument %q for \"--%s\" flag: %s", invalid.GetValue(), f.Name, form))
		}
	}
	return UsageError(err.Error())
}

// noArguments rejects arguments. An argument of a program is the name of a command, which may be misspelt.
func noArguments(c *cobra.Command, given []string) error {
	switch {
	case len(given) == 0:
		return nil
	case !c.HasSubCommands():
		return UsageError(fmt.Sprintf("unexpected argument %q", given[0]))
	}
	program, others, _ := strings.Cut(c.Annotations[OtherProgram], ": ")
	if slices.Contains(strings.Fields(others), given[0]) {
		return UsageError(fmt.Sprintf("unknown command %q: did you mean %s %s?", given[0], program, given[0]))
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return UsageError(fmt.Sprintf("unknown command %q", given[0]) + didYouMean(given[0], "", names))
}
