// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
)

// firstSolverPort is the port of cert-manager's solver pods. Further solvers of a lab use
// the next ports, because they share the worker's address.
const firstSolverPort = 8089

// acmePrefix is the path prefix of challenges (RFC 8555 section 8.3).
const acmePrefix = "/.well-known/acme-challenge/"

// Solver is cert-manager's solver for one challenge with its route.
type Solver struct {
	Port int // on the node of the first router

	process *Process
	routes  []*Route // on every router
}

// Solve starts cert-manager's solver for one challenge of a name and routes its URL there.
// The caller must Remove it.
func (l *Lab) Solve(ctx context.Context, name, token, key string) (*Solver, error) {
	w := l.Routers[0]
	port := w.solverPort()
	p, err := w.Start(Command{
		Name: "solver-" + strconv.Itoa(port), Path: l.tools.Solver,
		Args: []string{
			"--listen-port", strconv.Itoa(port), "--domain", name, "--token", token, "--key", key,
		},
	})
	if err != nil {
		return nil, err
	}
	s := &Solver{Port: port, process: p}
	err = Eventually(ctx, "the solver", func(ctx context.Context) error {
		if err := p.Alive(); err != nil {
			return err
		}
		return w.healthy(ctx, port)
	})
	if err == nil {
		err = s.routeFrom(ctx, l.Routers, name, acmePrefix+token)
	}
	if err != nil {
		return nil, errors.Join(err, s.Remove(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// routeFrom makes each router route a path to the solver on the first router's node.
func (s *Solver) routeFrom(ctx context.Context, routers []*Worker, name, path string) error {
	to := netip.MustParseAddr("127.0.0.1")
	for _, w := range routers {
		r, err := w.AddRouteTo(ctx, name, path, to, s.Port)
		if err != nil {
			return err
		}
		s.routes = append(s.routes, r)
		to = routers[0].Addresses.first()
	}
	return nil
}

// Remove stops the solver and removes its routes.
func (s *Solver) Remove(ctx context.Context) error {
	var err error
	for _, r := range s.routes {
		err = errors.Join(err, r.Remove(ctx))
	}
	err = errors.Join(err, s.process.Kill(ctx))
	s.process.drop()
	return err
}

// healthy requests a solver's health check.
func (w *Worker) healthy(ctx context.Context, port int) error {
	answer, err := w.Get(ctx, fmt.Sprintf("http://127.0.0.1:%d/healthz", port))
	if err == nil && answer.Status != http.StatusOK {
		err = fmt.Errorf("the health check answered %d", answer.Status)
	}
	return err
}

func (w *Worker) solverPort() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.solvers++
	return firstSolverPort + w.solvers - 1
}
