// SPDX-License-Identifier: Apache-2.0

package page

import (
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// level is how a state is marked: by a colour and an icon, always beside its text.
type level string

// The levels, which are classes of the style sheet.
const (
	good    level = "good"
	warning level = "warning"
	bad     level = "bad"
	neutral level = "neutral"
)

// conditionLevel distinguishes success, states that somebody configured, and errors.
func conditionLevel(c report.Condition) level {
	switch {
	case c.Status == "True":
		return good
	case c.Reason == report.Starting || c.Reason == report.Disabled || c.Reason == report.ExternalLoadBalancer || c.Status != "False":
		return warning
	default:
		return bad
	}
}

// icon is the drawing of a level. The text beside it has the same meaning.
func icon(l level) element {
	outline, sign := "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Z", "M5 8h6"
	switch l {
	case good:
		sign = "M4.9 8.3l2.1 2.1 4.2-4.6"
	case warning:
		outline, sign = "M8 1.6 15.2 14.4H.8Z", "M8 6.2v3.8m0 2v.1"
	case bad:
		outline, sign = "M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1Z", "M5.6 5.6l4.8 4.8m0-4.8-4.8 4.8"
	case neutral:
	}
	return el("svg", class("icon "+string(l)), attr("viewBox", "0 0 16 16"), attr("aria-hidden", "true"),
		el("path", class("shape"), attr("d", outline)), el("path", class("sign"), attr("d", sign)))
}

// mark is an icon with its text.
func mark(l level, words string) element {
	return el("span", class("mark "+string(l)), icon(l), text(words))
}
