// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync/atomic"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// causeSnapshot holds the settings that were sent to the proxy process: they complete the
// failures that the process reports.
type causeSnapshot struct{ atomic.Pointer[cause.Context] }

func (s *causeSnapshot) get() cause.Context {
	if c := s.Load(); c != nil {
		return *c
	}
	return cause.Context{}
}
