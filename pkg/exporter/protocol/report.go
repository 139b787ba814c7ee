// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// NewReport returns the part of a report that becomes metrics. Messages, and the names of
// clients and certificate authorities, stay out of a process that reads from the network.
func NewReport(r report.Report) *report.Report {
	return &report.Report{
		Build:        r.Build,
		Conditions:   []report.Condition{{Type: report.ConditionType, Reason: r.Condition().Reason}},
		VIPs:         r.VIPs,
		Table:        r.Table,
		Traffic:      r.Traffic,
		Events:       r.Events,
		Certificates: mapEach(r.Certificates, func(c *report.Certificate) { c.Issuer, c.Serial, c.Error = "", "", "" }),
		Trust:        withoutNames(r.Trust),
		EgressProxy:  withoutAddresses(r.EgressProxy),
		SelfTests:    mapEach(r.SelfTests, func(t *report.SelfTest) { t.Error = "" }),
		VIPTests:     mapEach(r.VIPTests, func(t *report.VIPTest) { t.Error = "" }),
		TestRequests: report.TestRequests{Total: r.TestRequests.Total},
	}
}

// mapEach returns a copy with each element changed.
func mapEach[T any](all []T, change func(*T)) []T {
	all = slices.Clone(all)
	for i := range all {
		change(&all[i])
	}
	return all
}

// withoutAddresses removes the names of proxies and endpoints, and the addresses.
func withoutAddresses(e report.EgressProxy) report.EgressProxy {
	m := report.EgressProxy{
		Upstream: e.Upstream, Pending: e.Pending, InvalidInput: e.InvalidInput,
		Routes: make([]report.EgressRoute, len(e.Routes)),
	}
	for _, endpoint := range e.Endpoints {
		m.Endpoints = append(m.Endpoints, report.EgressEndpoint{OK: endpoint.OK})
	}
	return m
}

// withoutNames removes the names of certificates.
func withoutNames(t report.Trust) report.Trust {
	m := report.Trust{Kind: t.Kind, Certificates: t.Certificates, Since: t.Since, IgnoredTotal: t.IgnoredTotal}
	if t.Error != "" {
		m.Error = "rejected"
	}
	return m
}
