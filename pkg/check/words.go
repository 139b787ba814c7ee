// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/http01-proxyd/http01-proxyd/pkg/probe"
	"github.com/http01-proxyd/http01-proxyd/pkg/upstream"
)

// words says in a few how a page was answered.
func words(f probe.Fetch) string {
	if f.Cause != "" {
		return upstream.Cause(f.Cause).Says("it", f.Detail, f.Proxy)
	}
	text := fmt.Sprintf("status %d", f.Status)
	if f.Server != "" {
		text += fmt.Sprintf(" by %q", f.Server)
	}
	return text
}
