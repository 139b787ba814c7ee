// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync/atomic"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// causeSnapshot holds the settings that were sent to the proxy process: they complete the
// failures that the process reports.
type causeSnapshot struct{ context atomic.Pointer[cause.Context] }

func newCauseSnapshot() *causeSnapshot {
	s := &causeSnapshot{}
	s.set(cause.Context{})
	return s
}

func (s *causeSnapshot) set(c cause.Context) { s.context.Store(&c) }

func (s *causeSnapshot) get() cause.Context { return *s.context.Load() }
