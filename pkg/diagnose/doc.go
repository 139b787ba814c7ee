// SPDX-License-Identifier: Apache-2.0

// Package diagnose implements `http01-proxyd check`: it inspects this host and the
// network, and reports why challenges fail. It changes nothing. The texts come from
// package findings; child processes of package prober contact the network. Only `check` and
// `trace` link it.
//
// allChecks in checks.go lists the checks. Most packages below it evaluate what they
// get: checks.go passes it to them, observations.go collects what several checks use, and
// host.go reads this host once.
package diagnose
