// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"time"
)

// EgressConditionType is the type of the condition that tells whether the egress
// proxy that is asked for is the one that is in force.
const EgressConditionType = "EgressProxyReady"

// The reasons of that condition.
const (
	EgressAccepted      Reason = "Accepted"      // True: an ingress address is reached through it
	EgressDirect        Reason = "Direct"        // True: it is accepted, and every ingress address is reached directly
	EgressNotConfigured Reason = "NotConfigured" // True: there is no proxy
	EgressNotReady      Reason = "NotReady"      // False: not all readiness endpoints have answered through it
	EgressInvalid       Reason = "InvalidProxy"  // False: the file, or the CA bundle, is refused
)

// EgressProxy is the cluster-wide egress proxy: what is asked for, and what is in
// force. No text of it holds credentials. The zero value: nobody has looked yet.
type EgressProxy struct {
	Upstream   string           `json:"upstream"`          // egressProxy.upstream: never or auto
	Spec       EgressSetting    `json:"spec,omitzero"`     // asked for; absent while that is refused
	Accepted   EgressSetting    `json:"accepted,omitzero"` // in force; absent: none is, so that nothing goes through a proxy
	AcceptedAt time.Time        `json:"acceptedAt,omitzero"`
	NoProxy    string           `json:"noProxy"`        // in force, with the automatic entries
	Through    []EgressThrough  `json:"through"`        // the ingress addresses that are reached through it
	Since      time.Time        `json:"since,omitzero"` // what is asked for is as it is
	Pending    bool             `json:"pending"`        // spec waits for its acceptance
	Why        string           `json:"why,omitempty"`  // spec is not accepted yet, or is refused
	RefusedBy  EgressRefusal    `json:"refusedBy,omitempty"`
	NextTry    time.Time        `json:"nextTry,omitzero"`   // of the readiness endpoints
	Endpoints  []EgressEndpoint `json:"readinessEndpoints"` // of spec
}

// EgressRefusal says what of that which is asked for is refused.
type EgressRefusal string

// What may be.
const (
	EgressFileRefused EgressRefusal = "file"
	EgressCARefused   EgressRefusal = "trustedCA"
)

// EgressSetting is what can be accepted.
type EgressSetting struct {
	HTTPProxy  string `json:"httpProxy"` // without credentials
	HTTPSProxy string `json:"httpsProxy"`
	NoProxy    string `json:"noProxy"` // the admin's
	Source     string `json:"source"`  // a file, or "configuration"
	TrustedCAs int    `json:"trustedCAs"`
}

// none reports whether no proxy is set.
func (s EgressSetting) none() bool { return s.HTTPProxy == "" && s.HTTPSProxy == "" }

// EgressThrough is the way to an ingress address.
type EgressThrough struct {
	Ingress   string   `json:"ingress"`
	Proxy     string   `json:"proxy"`
	Addresses []string `json:"addresses"` // of the proxy; none while its name is not resolved
	Error     string   `json:"error,omitempty"`
}

// EgressEndpoint is what came of the last question to a readiness endpoint.
type EgressEndpoint struct {
	URL     string    `json:"url"`
	OK      bool      `json:"ok"`
	Error   string    `json:"error,omitempty"`
	Checked time.Time `json:"checked,omitzero"` // zero: not asked yet
}

// SetEgress takes what is so of the egress proxy.
func (b *Board) SetEgress(e EgressProxy, now time.Time) {
	reason, message := e.judge()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.egress = e
	b.setAspect(EgressConditionType, reason != EgressNotReady && reason != EgressInvalid, reason, message, now)
}

// report makes lists of what is none, as JSON's readers want them.
func (e EgressProxy) report() EgressProxy {
	e.Through = append([]EgressThrough{}, e.Through...)
	e.Endpoints = append([]EgressEndpoint{}, e.Endpoints...)
	return e
}

// judge gives the condition's reason and message.
func (e EgressProxy) judge() (reason Reason, message string) {
	switch {
	case e.RefusedBy != "":
		return EgressInvalid, fmt.Sprintf("what is asked for is refused: %s; %s", e.Why, e.inForce())
	case e.Pending:
		why := e.Why
		if why == "" {
			why = "its readiness endpoints are being asked"
		}
		return EgressNotReady, fmt.Sprintf("%s is not accepted yet: %s; %s", e.Spec.describe(), why, e.inForce())
	case e.Accepted.none():
		return EgressNotConfigured, "there is no egress proxy"
	case len(e.Through) > 0:
		return EgressAccepted, e.inForce()
	default:
		return EgressDirect, e.inForce()
	}
}

// inForce says what is accepted and what goes through it.
func (e EgressProxy) inForce() string {
	if e.Accepted.none() {
		return "no proxy is in force"
	}
	text := e.Accepted.describe() + " is in force"
	switch {
	case len(e.Through) > 0:
		ways := make([]string, len(e.Through))
		for i, t := range e.Through {
			ways[i] = t.Ingress + " through " + t.Proxy
			if t.Error != "" {
				ways[i] += " (" + t.Error + ")"
			}
		}
		return text + ": " + strings.Join(ways, ", ")
	case e.Upstream == "never":
		return text + ", and the ingress is reached directly (egressProxy.upstream is never)"
	default:
		return text + ", and the ingress is reached directly (no proxy leads there)"
	}
}

func (s EgressSetting) describe() string {
	if s.none() {
		return "no proxy"
	}
	text := s.HTTPProxy
	switch {
	case s.HTTPProxy == "":
		text = s.HTTPSProxy + " for https"
	case s.HTTPSProxy == "":
		text += " for http"
	case s.HTTPSProxy != s.HTTPProxy:
		text += ", " + s.HTTPSProxy + " for https"
	}
	return fmt.Sprintf("%s (of %s)", text, s.Source)
}

func (e EgressProxy) describe(now time.Time) (mark span, text string) {
	reason, message := e.judge()
	switch reason {
	case EgressNotConfigured:
		return span{"-", faint}, message
	case EgressNotReady:
		message += "; asked for " + Age(now.Sub(e.Since)) + " ago"
		if !e.NextTry.IsZero() {
			message += ", next try in " + Age(max(0, e.NextTry.Sub(now)))
		}
		return poor(), message
	case EgressInvalid:
		return bad(), message
	default:
		for _, t := range e.Through {
			if t.Error != "" {
				return poor(), message
			}
		}
		return good(), message
	}
}
