// SPDX-License-Identifier: Apache-2.0

// Package diagnose looks at a host, and from it at the network, and finds out why
// challenges fail. It changes nothing. What it says is package catalogue's;
// whatever speaks with the network is asked through package probe.
package diagnose
