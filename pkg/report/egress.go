// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"time"
)

// EgressConditionType is the type of the condition of the egress proxy.
const EgressConditionType = "EgressProxyReady"

// The reasons of that condition.
const (
	EgressAccepted Reason = "Accepted" // True: an ingress address is reached through the proxy
	// True: the proxy is accepted, and every ingress address is reached directly
	EgressDirect        Reason = "Direct"
	EgressNotConfigured Reason = "NotConfigured" // True: no proxy is configured
	EgressNotReady      Reason = "NotReady"      // False: not all readiness endpoints have answered through the proxy
	EgressInvalid       Reason = "InvalidProxy"  // False: the file or the CA bundle is rejected
)

// EgressProxy is the state of the cluster-wide egress proxy: the configured settings and the
// accepted ones. It contains no credentials. The zero value means that the settings were not
// read yet.
type EgressProxy struct {
	Upstream     string           `json:"upstream"`          // egressProxy.upstream: never or auto
	Spec         EgressSetting    `json:"spec,omitzero"`     // the configured settings; absent while they are rejected
	Accepted     EgressSetting    `json:"accepted,omitzero"` // the active settings; absent: no request uses a proxy
	AcceptedAt   time.Time        `json:"acceptedAt,omitzero"`
	NoProxy      string           `json:"noProxy"`           // the active list, with the automatic entries
	Routes       []EgressRoute    `json:"routes"`            // the ingress addresses that are reached through the proxy
	Since        time.Time        `json:"since,omitzero"`    // when Spec was read first
	Pending      bool             `json:"pending"`           // Spec is not accepted yet
	Message      string           `json:"message,omitempty"` // why Spec is not accepted yet, or is rejected
	InvalidInput EgressInput      `json:"invalidInput,omitempty"`
	InvalidFile  string           `json:"invalidFile,omitempty"` // the path of that input
	NextCheck    time.Time        `json:"nextCheck,omitzero"`    // of the readiness endpoints
	Endpoints    []EgressEndpoint `json:"readinessEndpoints"`    // of Spec
}

// EgressInput is the input of the egress settings that is rejected.
type EgressInput string

// The inputs.
const (
	EgressInputFile      EgressInput = "file"
	EgressInputTrustedCA EgressInput = "trustedCA"
)

// EgressSetting is a set of egress settings.
type EgressSetting struct {
	HTTPProxy  string `json:"httpProxy"` // without credentials
	HTTPSProxy string `json:"httpsProxy"`
	NoProxy    string `json:"noProxy"` // without the automatic entries
	Source     string `json:"source"`  // a file, or "configuration"
	TrustedCAs int    `json:"trustedCAs"`
}

// IsDirect reports whether no proxy is set.
func (s EgressSetting) IsDirect() bool { return s.HTTPProxy == "" && s.HTTPSProxy == "" }

// EgressRoute is the route to an ingress address through the proxy.
type EgressRoute struct {
	Ingress   string   `json:"ingress"`
	Proxy     string   `json:"proxy"`
	Addresses []string `json:"addresses"` // of the proxy; empty while its name cannot be resolved
	Error     string   `json:"error,omitempty"`
}

// EgressEndpoint is the result of the last request to a readiness endpoint.
type EgressEndpoint struct {
	URL     string    `json:"url"`
	OK      bool      `json:"ok"`
	Error   string    `json:"error,omitempty"`
	Checked time.Time `json:"checked,omitzero"` // zero: no request yet
}

// Evaluate returns the reason and message of the condition.
func (e EgressProxy) Evaluate() (reason Reason, message string) {
	switch {
	case e.InvalidInput != "":
		return EgressInvalid, fmt.Sprintf("the configured egress proxy is rejected: %s; %s", e.Message, e.describeAccepted())
	case e.Pending:
		why := e.Message
		if why == "" {
			why = "the requests to its readiness endpoints are running"
		}
		return EgressNotReady, fmt.Sprintf("%s is not accepted yet: %s; %s", e.Spec.describe(), why, e.describeAccepted())
	case e.Accepted.IsDirect():
		return EgressNotConfigured, "no egress proxy is configured"
	case len(e.Routes) > 0:
		return EgressAccepted, e.describeAccepted()
	default:
		return EgressDirect, e.describeAccepted()
	}
}

// describeAccepted describes the accepted settings and the routes through the proxy.
func (e EgressProxy) describeAccepted() string {
	if e.Accepted.IsDirect() {
		return "no proxy is in use"
	}
	text := e.Accepted.describe() + " is in use"
	switch {
	case len(e.Routes) > 0:
		routes := make([]string, len(e.Routes))
		for i, r := range e.Routes {
			routes[i] = r.Ingress + " through " + r.Proxy
			if r.Error != "" {
				routes[i] += " (" + r.Error + ")"
			}
		}
		return text + ": " + strings.Join(routes, ", ")
	case e.Upstream == "never":
		return text + ", and the ingress is reached directly (egressProxy.upstream is never)"
	default:
		return text + ", and the ingress is reached directly (it is in the no-proxy set, or the proxy is not for this scheme)"
	}
}

func (s EgressSetting) describe() string {
	if s.IsDirect() {
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
	return fmt.Sprintf("%s (from %s)", text, s.Source)
}
