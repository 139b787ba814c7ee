// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// describeFetch describes a response in a few words.
func describeFetch(f protocol.FetchResult) string {
	if f.Cause != "" {
		return f.Failure(f.Cause, f.UpstreamAddr).Message("it", f.Context)
	}
	text := fmt.Sprintf("status %d", f.Status)
	if f.Server != "" {
		text += fmt.Sprintf(" by %q", f.Server)
	}
	return text
}
