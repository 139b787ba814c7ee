// SPDX-License-Identifier: Apache-2.0

// Package docurl holds the URLs of the documents, for readers without a checkout: in units,
// alerts and messages on a host. Every program links it.
package docurl
