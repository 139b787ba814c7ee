// SPDX-License-Identifier: Apache-2.0

// Package backoff rehearses the schedule of cert-manager after failed renewals, with
// cert-manager's own controllers and a fake clock. The policy that a renewal is due, the
// requests and the CA are the test's. The service's estimate of the attempts that
// are left is checked against the same schedule, pkg/report/testdata/schedule.txt.
package backoff
