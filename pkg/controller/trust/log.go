// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"fmt"
	"log/slog"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// caLog is what was logged about the current file.
type caLog struct {
	ignored   map[report.IgnoredCertificate]bool
	lastError string
}

// logChange logs what has changed.
func (l *caLog) logChange(log *slog.Logger, t report.Trust, fresh bool) {
	l.logIgnored(log, t)
	switch {
	case t.Error != "" && t.Error != l.lastError:
		_, message := t.Evaluate()
		log.Error(message, slog.String("event", "trust-rejected"), slog.String("path", t.Path),
			slog.Int("count", t.Certificates))
	case t.Error != "":
	case fresh || l.lastError != "":
		log.Info("trusted for TLS to the ingress: "+caMessage(t), slog.String("event", "trust"),
			slog.String("path", t.Path), slog.String("source", t.Source),
			slog.Int("count", t.Certificates), slog.Int("ignored", t.IgnoredTotal))
	}
	l.lastError = t.Error
}

func caMessage(t report.Trust) string {
	_, message := t.Evaluate()
	if t.Kind == report.TrustAdmin && t.IgnoredTotal > 0 {
		message += fmt.Sprintf("; ignored certificates: %d", t.IgnoredTotal)
	}
	return message
}

// logIgnored logs each certificate of the report once for as long as it is ignored. The message
// about the trusted ones has the number of all.
func (l *caLog) logIgnored(log *slog.Logger, t report.Trust) {
	if t.IgnoredTotal == 0 && t.Error != "" {
		return // the file cannot be assessed: the log can become correct again
	}
	now := make(map[report.IgnoredCertificate]bool, len(t.Ignored))
	for _, c := range t.Ignored {
		key := c
		key.Line = 0 // it can move within the file
		now[key] = true
		if l.ignored[key] {
			continue
		}
		log.Warn(fmt.Sprintf("ignored in %s: %v", t.Path, c),
			slog.String("event", "trust-ignored"), slog.String("path", t.Path), slog.String("subject", c.Subject),
			slog.String("serial", c.Serial), slog.String("reason", c.Reason))
	}
	l.ignored = now
}
