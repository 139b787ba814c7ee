// SPDX-License-Identifier: Apache-2.0

package catalogue

import "slices"

// What goes wrong with the configuration.
const (
	ConfigRefused ID = "config-refused"
)

// entries joins what the files of this package have, in the order of the checks.
func entries() []Entry {
	return slices.Concat(configEntries(), ingressEntries(), routeEntries())
}

func configEntries() []Entry {
	return []Entry{
		{
			ID: ConfigRefused, Check: "config", Level: Problem,
			Symptom: "The state is `InvalidConfig`; a change of the configuration has no effect.",
			Says:    "the configuration is refused: {problem}",
			Mend:    "correct the file; the service takes it up by itself",
		},
	}
}
