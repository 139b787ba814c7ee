// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"time"
)

// The defaults of cert-manager's delay after a failed issuance: minRetryDelay, doubled after each
// further failure up to maxRetryDelay. Flags change the first one since 1.20, and the other since
// 1.21 (cert-manager, pkg/controller/certificates/trigger and
// internal/apis/config/controller/v1alpha1/defaults.go).
const (
	minRetryDelay = time.Hour
	maxRetryDelay = 32 * time.Hour
	shorterDelays = 5 // 1, 2, 4, 8 and 16 h
)

// clusterSigner begins the names of the CAs that sign the API server's own certificates in
// OpenShift and MicroShift.
const clusterSigner = "kube-apiserver-"

// renewedByCertManager reports whether cert-manager can be what renews the certificate. The
// API server presents one of the cluster's own to clients without SNI, and to all clients
// without namedCertificates.
func (c Certificate) renewedByCertManager() bool {
	return c.Name != "" && !c.NotAfter.IsZero() && !strings.HasPrefix(c.Issuer, clusterSigner)
}

// RenewalTime is when cert-manager renews the certificate by default: after two thirds of
// its lifetime (cert-manager, pkg/util/pki/renewaltime.go).
func (c Certificate) RenewalTime() time.Time {
	return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3).Truncate(time.Second)
}

// RenewalDue reports whether cert-manager should have begun to renew the certificate, by
// default or because an attempt failed.
func (c Certificate) RenewalDue(now time.Time) bool {
	return c.renewedByCertManager() && (c.FailedRenewals > 0 || !now.Before(c.RenewalTime()))
}

// WithAttemptsLeft returns the certificate with the attempts that are left at a time, if
// its renewal is due and it has not expired.
func (c Certificate) WithAttemptsLeft(now time.Time) Certificate {
	c.MaxAttemptsLeft = nil
	if c.RenewalDue(now) && now.Before(c.NotAfter) {
		left := c.AttemptsLeft(now)
		c.MaxAttemptsLeft = &left
	}
	return c
}

// DescribeRenewal describes the failed attempts that were observed and, before the certificate
// expires, an estimate of those that are left. It is empty before the renewal is due.
func (c Certificate) DescribeRenewal(now time.Time) string {
	var parts []string
	left := c.MaxAttemptsLeft
	switch {
	case c.FailedRenewals > 0:
		parts = append(parts, fmt.Sprintf("failed renewal attempts: %d", c.FailedRenewals))
	case left != nil && now.Before(c.NotAfter):
		parts = append(parts, "its renewal is due")
	}
	if left != nil && now.Before(c.NotAfter) {
		parts = append(parts, DescribeAttempts(*left))
	}
	return strings.Join(parts, ", ")
}

// DescribeAttempts describes an estimate of the automatic attempts that are left.
func DescribeAttempts(left int) string {
	return fmt.Sprintf("with cert-manager's defaults, further attempts before the expiry: at most %d", left)
}

// AttemptsLeft estimates how many attempts cert-manager starts at most by itself after now and
// before the certificate expires, with the defaults of its delays and the failures that this host
// observed: its own schedule is known to cert-manager alone.
func (c Certificate) AttemptsLeft(now time.Time) int {
	left := max(0, c.NotAfter.Sub(now))
	parts := func(delay time.Duration) int { return int((left + delay - 1) / delay) }
	return min(parts(minRetryDelay), parts(maxRetryDelay)+max(0, shorterDelays-c.FailedRenewals))
}
