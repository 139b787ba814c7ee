// SPDX-License-Identifier: Apache-2.0

// Package viptest sends test requests to the API VIPs that other hosts hold. The proxy
// process links it: the proxy is idle on such a host and can connect.
package viptest
