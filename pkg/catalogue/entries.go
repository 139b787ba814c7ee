// SPDX-License-Identifier: Apache-2.0

package catalogue

// What goes wrong with the configuration.
const (
	ConfigRefused ID = "config-refused"
)

func entries() []Entry {
	return []Entry{
		{
			ID: ConfigRefused, Check: "config", Level: Problem,
			Symptom: "The state is `InvalidConfig`; a change of the configuration has no effect.",
			Says:    "the configuration is refused: {problem}",
			Mend:    "correct the file; the service takes it up by itself",
		},
	}
}
