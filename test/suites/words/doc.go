// SPDX-License-Identifier: Apache-2.0

// Package words holds the size of the repository, and the project's word list (.vale/http01) over the comments and
// string literals of all Go files, over scripts, units, YAML and JSON files. `make
// lint-words` runs the same list over Markdown and rendered texts.
package words
