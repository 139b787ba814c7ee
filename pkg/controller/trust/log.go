// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// caLog is what was logged about the current file.
type caLog struct {
	ignored map[report.IgnoredCertificate]bool
	message string
}

// logChange logs what changed. otherCAs means that other CAs are trusted.
func (l *caLog) logChange(log *slog.Logger, t report.Trust, otherCAs bool) {
	l.logIgnored(log, t)
	_, message := t.Evaluate()
	if message == l.message && !otherCAs {
		return
	}
	l.message = message
	level, event := slog.LevelInfo, "trust"
	if t.Error != "" {
		level, event = slog.LevelError, "trust-rejected"
	}
	log.Log(context.Background(), level, "CAs for TLS to the ingress: "+message,
		slog.String("event", event), slog.String("path", t.Path),
		slog.String("source", t.Source), slog.Int("count", t.Certificates), slog.Int("ignored", t.IgnoredTotal))
}

// logIgnored logs each certificate of the report once for as long as it is ignored. The message
// about the trusted certificates contains the total number.
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
