// SPDX-License-Identifier: Apache-2.0

// Package loop calls a function after each change of the objects that it depends on. The
// agents of the rehearsal use it.
package loop
