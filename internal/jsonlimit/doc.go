// SPDX-License-Identifier: Apache-2.0

// Package jsonlimit bounds the number of values in a JSON text of an untrusted sender before they are
// decoded. The processes that read messages link it, and the administrator's tool.
package jsonlimit
