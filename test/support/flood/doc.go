// SPDX-License-Identifier: Apache-2.0

// Package flood owns the clients of a flood. Hostile clients are processes that open as many
// connections as their limit of descriptors allows. A CA requests a challenge from several
// perspectives meanwhile. A program that calls [Main] becomes one of them when its environment
// selects it. It prints its report after SIGTERM.
package flood
