// SPDX-License-Identifier: Apache-2.0

// Package config owns the host's configuration file: what may stand in it,
// what it means when it is absent, and the copy of the last accepted one.
//
// Text becomes a validated Config in one step (Parse); nothing downstream
// checks a value again. The same code judges a file on the host and on the
// admin's machine, so both get the same messages.
package config
