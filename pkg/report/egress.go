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
	Upstream     string           `json:"upstream"`          // egressProxy.upstream: never or auto
	Spec         EgressSetting    `json:"spec,omitzero"`     // asked for; absent while that is refused
	Accepted     EgressSetting    `json:"accepted,omitzero"` // in force; absent: none is, so that nothing goes through a proxy
	AcceptedAt   time.Time        `json:"acceptedAt,omitzero"`
	NoProxy      string           `json:"noProxy"`        // in force, with the automatic entries
	Routes       []EgressRoute    `json:"through"`        // the ingress addresses that are reached through it
	Since        time.Time        `json:"since,omitzero"` // what is asked for is as it is
	Pending      bool             `json:"pending"`        // spec waits for its acceptance
	Message      string           `json:"why,omitempty"`  // spec is not accepted yet, or is refused
	InvalidInput EgressInput      `json:"refusedBy,omitempty"`
	NextCheck    time.Time        `json:"nextTry,omitzero"`   // of the readiness endpoints
	Endpoints    []EgressEndpoint `json:"readinessEndpoints"` // of spec
}

// EgressInput says what of that which is asked for is refused.
type EgressInput string

// What may be.
const (
	EgressInputFile      EgressInput = "file"
	EgressInputTrustedCA EgressInput = "trustedCA"
)

// EgressSetting is what can be accepted.
type EgressSetting struct {
	HTTPProxy  string `json:"httpProxy"` // without credentials
	HTTPSProxy string `json:"httpsProxy"`
	NoProxy    string `json:"noProxy"` // the admin's
	Source     string `json:"source"`  // a file, or "configuration"
	TrustedCAs int    `json:"trustedCAs"`
}

// isDirect reports whether no proxy is set.
func (s EgressSetting) isDirect() bool { return s.HTTPProxy == "" && s.HTTPSProxy == "" }

// EgressRoute is the way to an ingress address.
type EgressRoute struct {
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
func (b *Tracker) SetEgress(e EgressProxy, now time.Time) {
	reason, message := e.evaluate()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.egress = e
	b.setPartCondition(EgressConditionType, reason != EgressNotReady && reason != EgressInvalid, reason, message, now)
}

// withEmptyLists makes lists of what is none, as JSON's readers want them.
func (e EgressProxy) withEmptyLists() EgressProxy {
	e.Routes = append([]EgressRoute{}, e.Routes...)
	e.Endpoints = append([]EgressEndpoint{}, e.Endpoints...)
	return e
}

// evaluate gives the condition's reason and message.
func (e EgressProxy) evaluate() (reason Reason, message string) {
	switch {
	case e.InvalidInput != "":
		return EgressInvalid, fmt.Sprintf("what is asked for is refused: %s; %s", e.Message, e.describeAccepted())
	case e.Pending:
		why := e.Message
		if why == "" {
			why = "its readiness endpoints are being asked"
		}
		return EgressNotReady, fmt.Sprintf("%s is not accepted yet: %s; %s", e.Spec.describe(), why, e.describeAccepted())
	case e.Accepted.isDirect():
		return EgressNotConfigured, "there is no egress proxy"
	case len(e.Routes) > 0:
		return EgressAccepted, e.describeAccepted()
	default:
		return EgressDirect, e.describeAccepted()
	}
}

// describeAccepted says what is accepted and what goes through it.
func (e EgressProxy) describeAccepted() string {
	if e.Accepted.isDirect() {
		return "no proxy is in force"
	}
	text := e.Accepted.describe() + " is in force"
	switch {
	case len(e.Routes) > 0:
		ways := make([]string, len(e.Routes))
		for i, t := range e.Routes {
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
	if s.isDirect() {
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
	reason, message := e.evaluate()
	switch reason {
	case EgressNotConfigured:
		return span{"-", faint}, message
	case EgressNotReady:
		message += "; asked for " + Age(now.Sub(e.Since)) + " ago"
		if !e.NextCheck.IsZero() {
			message += ", next try in " + Age(max(0, e.NextCheck.Sub(now)))
		}
		return markWarning(), message
	case EgressInvalid:
		return markError(), message
	default:
		for _, t := range e.Routes {
			if t.Error != "" {
				return markWarning(), message
			}
		}
		return markOK(), message
	}
}
