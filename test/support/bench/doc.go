// SPDX-License-Identifier: Apache-2.0

// Package bench compares front doors for HTTP-01 challenges on the same work,
// and measures what the service's table costs the API. All of it runs in the
// namespaces of a lab: master0 holds the API VIP and runs one front door at a
// time, its neighbour pod0 has the clients and the upstream.
package bench
