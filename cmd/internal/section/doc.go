// SPDX-License-Identifier: Apache-2.0

// Package section has what a status shows, as sections of rows and tables. The text and
// the page of a status are drawn from it, so that they cannot differ.
package section
