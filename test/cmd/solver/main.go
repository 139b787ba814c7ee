// SPDX-License-Identifier: Apache-2.0

// Command solver runs cert-manager's HTTP-01 solver for one challenge, as its acmesolver
// image does.
package main

import (
	"flag"
	"log/slog"
	"os"

	"github.com/cert-manager/cert-manager/pkg/issuer/acme/http/solver"
	"github.com/go-logr/logr"
)

func main() {
	s := &solver.HTTP01Solver{}
	flag.IntVar(&s.ListenPort, "listen-port", 8089, "port to listen on")
	flag.StringVar(&s.Domain, "domain", "", "domain name to verify")
	flag.StringVar(&s.Token, "token", "", "challenge token to verify against")
	flag.StringVar(&s.Key, "key", "", "challenge key to respond with")
	flag.Parse()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := s.Listen(logr.FromSlogHandler(logger.Handler())); err != nil {
		logger.Error("the solver exited", slog.Any("error", err))
		os.Exit(1)
	}
}
