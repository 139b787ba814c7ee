// SPDX-License-Identifier: Apache-2.0

// Package resolve finds the addresses of a name as this host does: in the hosts file, or with
// the DNS servers of resolv.conf (hosts(5), resolv.conf(5)). The controller and `check` link
// it. It does not use the network itself: the caller supplies the DNS query.
package resolve
