// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/flood"
)

// Validation is a CA that requests a challenge from the API VIPs repeatedly.
type Validation struct {
	solver *Solver
	cas    []*Process // one for each family
}

// Validate lets a CA on the internet request the challenge of a name through the API VIPs and the
// router until End. In each interval it sends one request from each of ten addresses of each family.
// The calling program must begin with flood.Main.
func (l *Lab) Validate(ctx context.Context, name string, every time.Duration) (*Validation, error) {
	if err := l.routeFlood(ctx); err != nil {
		return nil, err
	}
	solver, ca, err := l.solveRepeatedly(ctx, name)
	if err != nil {
		return nil, err
	}
	ca.Every = every
	const addresses = 10
	ca.Perspectives = flood.Range{First: netip.MustParseAddr("198.19.0.1"), Count: addresses}
	other := ca
	other.Server = netip.AddrPortFrom(l.API.V6, 80)
	other.Perspectives.First = netip.MustParseAddr("fd4e:5f2a:9c0f::1")
	v := &Validation{solver: solver}
	if v.cas, err = l.floodClients([]string{ca.Environment(), other.Environment()}); err != nil {
		_, ended := v.End(context.WithoutCancel(ctx))
		return nil, errors.Join(err, ended)
	}
	return v, nil
}

// End ends the CA after its last responses. It returns the reports by family: IPv4, IPv6.
func (v *Validation) End(ctx context.Context) (all []flood.CAReport, err error) {
	for _, p := range v.cas {
		report, ended := endClient[flood.CAReport](ctx, p)
		all, err = append(all, report), errors.Join(err, ended)
	}
	err = errors.Join(err, killRemaining(v.cas), v.solver.Remove(ctx))
	v.cas = nil
	return all, err
}
