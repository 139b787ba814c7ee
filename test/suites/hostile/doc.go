// SPDX-License-Identifier: Apache-2.0

// Package hostile tests that a compromised child process of the service gains nothing. A
// build of the program whose child processes attack (testdata) runs in the lab with the
// shipped controller.
package hostile
