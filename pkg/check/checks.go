// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/catalogue"
)

const (
	local  = 2 * time.Second  // a check that looks at this host
	remote = 10 * time.Second // one that asks the network
)

// checks are all there are, in the order in which they are printed.
func checks() []check {
	return []check{
		{"config", local, checkConfig},
	}
}

func checkConfig(_ context.Context, h *host) Result {
	if h.configErr != nil {
		return found([]catalogue.Finding{catalogue.Find(catalogue.ConfigRefused, "problem", h.configErr.Error())}, "")
	}
	return fine("%s", h.ConfigPath)
}
