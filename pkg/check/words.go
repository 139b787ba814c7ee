// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/probe"
	"github.com/http01-proxyd/http01-proxyd/pkg/upstream"
)

// words says in a few how a page was answered.
func words(f probe.Fetch) string {
	cause := upstream.Cause(f.Cause)
	switch cause {
	case "":
		text := fmt.Sprintf("status %d", f.Status)
		if f.Server != "" {
			text += fmt.Sprintf(" by %q", f.Server)
		}
		return text
	case upstream.Refused:
		return "it refuses connections"
	case upstream.ConnectTimeout:
		return "it does not reply to connection attempts"
	case upstream.ClosedWithoutAnswer:
		return "it closes connections without an answer"
	case upstream.Reset:
		return "it resets connections"
	case upstream.AnswerTimeout:
		return "it accepts connections and does not answer in time"
	default:
		return fmt.Sprintf("%s (%s)", strings.ReplaceAll(f.Cause, "-", " "), f.Detail)
	}
}
