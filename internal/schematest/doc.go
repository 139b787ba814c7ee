// SPDX-License-Identifier: Apache-2.0

// Package schematest compares the JSON schemas in docs/reference with the types and with the
// output of the commands. Only tests link it.
package schematest
