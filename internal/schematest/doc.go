// SPDX-License-Identifier: Apache-2.0

// Package schematest holds the JSON schemas in docs/reference to the types and to the
// output of the commands. Only tests link it.
package schematest
