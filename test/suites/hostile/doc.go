// SPDX-License-Identifier: Apache-2.0

// Package hostile tests that whoever takes over a child process of the service has
// gained nothing: a build of the program whose child processes attack (testdata) runs
// in the lab, with the controller as it is shipped.
package hostile
