// SPDX-License-Identifier: Apache-2.0

// Package statussocket owns the server of the status socket. The controller links it.
package statussocket
