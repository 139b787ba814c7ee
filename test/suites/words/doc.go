// SPDX-License-Identifier: Apache-2.0

// Package words checks the size of the repository, and the rules of .vale/http01 in all comments
// and string literals of Go, in scripts, units, YAML and JSON files. `make lint-words` runs the
// same rules over Markdown and rendered texts.
package words
