// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"log/slog"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// logConnectionLimits says what to do about connections that had to make room in the last
// minute: nothing, unless they were wanted.
func logConnectionLimits(log *slog.Logger, refused map[report.Refusal]uint64) {
	if n := refused[report.SourceLimit]; n > 0 {
		log.Warn(fmt.Sprintf("%d connections were reset in the last minute: their source had more than limits.perSource, and they had sent no request; "+
			"if a load balancer or a masquerade in front hides the clients' addresses, set limits.perSource: 0", n),
			slog.String("event", "source-limit"), slog.Uint64("count", n))
	}
	if n := refused[report.Evicted]; n > 0 {
		log.Warn(fmt.Sprintf("%d connections without a request were reset in the last minute: all limits.maxConnections slots were taken and others came; "+
			"if these were wanted, raise it, and LimitNOFILE, MemoryMax and GOMEMLIMIT of the unit with it", n),
			slog.String("event", "evicted"), slog.Uint64("count", n))
	}
}
