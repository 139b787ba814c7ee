// SPDX-License-Identifier: Apache-2.0

// Package client owns the client of the status socket. The commands link it.
package client
