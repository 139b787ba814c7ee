// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"time"
)

// cert-manager's delay after a failed issuance: minRetryDelay, doubled after each further
// failure up to maxRetryDelay (cert-manager 1.21, pkg/controller/certificates/trigger and
// internal/apis/config/controller/v1alpha1/defaults.go).
const (
	minRetryDelay = time.Hour
	maxRetryDelay = 32 * time.Hour
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
// default or because an attempt has failed.
func (c Certificate) RenewalDue(now time.Time) bool {
	return c.renewedByCertManager() && (c.FailedRenewals > 0 || !now.Before(c.RenewalTime()))
}

// WithAttemptsLeft returns the certificate with the attempts that are left at a time, if
// its renewal is due.
func (c Certificate) WithAttemptsLeft(now time.Time) Certificate {
	c.MaxAttemptsLeft = nil
	if c.RenewalDue(now) {
		left := c.AttemptsLeft(now)
		c.MaxAttemptsLeft = &left
	}
	return c
}

// DescribeRenewal describes the failed attempts and those that are left, such as "2
// renewal attempts failed, cert-manager makes at most 4 more attempts by itself before the
// expiry". It is empty before the renewal is due.
func (c Certificate) DescribeRenewal() string {
	if c.MaxAttemptsLeft == nil {
		return ""
	}
	text := "its renewal is due"
	switch {
	case c.FailedRenewals == 1:
		text = "1 renewal attempt failed"
	case c.FailedRenewals > 1:
		text = fmt.Sprintf("%d renewal attempts failed", c.FailedRenewals)
	}
	return text + ", " + DescribeAttempts(*c.MaxAttemptsLeft)
}

// DescribeAttempts describes the number of automatic attempts that are left, at most.
func DescribeAttempts(left int) string {
	switch left {
	case 0:
		return "cert-manager makes no further attempt by itself before the expiry"
	case 1:
		return "cert-manager makes at most 1 more attempt by itself before the expiry"
	default:
		return fmt.Sprintf("cert-manager makes at most %d more attempts by itself before the expiry", left)
	}
}

// AttemptsLeft is the largest number of attempts that cert-manager starts by itself after
// now and before the certificate expires. The first attempt is the first failed one that
// was observed, or at the renewal time. Each attempt fails at once in this schedule; one
// that takes long leaves fewer.
func (c Certificate) AttemptsLeft(now time.Time) int {
	first := c.RenewalTime()
	if !c.FirstFailure.IsZero() {
		first = c.FirstFailure
	}
	n, at, delay := 0, first, minRetryDelay
	for ; delay < maxRetryDelay && at.Before(c.NotAfter); delay *= 2 {
		if at.After(now) {
			n++
		}
		at = at.Add(delay)
	}
	if late := now.Sub(at); late >= 0 {
		at = at.Add(late.Truncate(maxRetryDelay) + maxRetryDelay)
	}
	if left := c.NotAfter.Sub(at); left > 0 {
		n += int((left + maxRetryDelay - 1) / maxRetryDelay)
	}
	return n
}
