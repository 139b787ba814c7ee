// SPDX-License-Identifier: Apache-2.0

// Package expiry decides what is to be said of the certificates that the API server
// presents: how near their end is, measured by how long they live, and whether they
// have been renewed. It is pure; whoever asks the API server is elsewhere.
package expiry
