// SPDX-License-Identifier: Apache-2.0

package process

import (
	"sync/atomic"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// Causes holds the settings that were sent to the proxy process: they complete the
// failures that the process reports.
type Causes struct{ atomic.Pointer[cause.Context] }

// Get returns the zero value before the first settings.
func (s *Causes) Get() cause.Context {
	if c := s.Load(); c != nil {
		return *c
	}
	return cause.Context{}
}
