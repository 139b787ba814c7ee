// SPDX-License-Identifier: Apache-2.0

// Package bench compares proxies for HTTP-01 challenges on the same work and measures the
// effect of the service's table on the API. It runs in the namespaces of a lab. master0
// holds the API VIP and runs one proxy at a time; its neighbour pod0 runs the clients and
// the upstream.
package bench
