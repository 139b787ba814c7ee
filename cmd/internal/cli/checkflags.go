// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// CheckFlags select what check examines, on a host or on all nodes.
type CheckFlags struct {
	Name, Token string
	Only        []string
}

// Add adds the flags to a command.
func (f *CheckFlags) Add(c *cobra.Command, defaultName string) {
	flags := c.Flags()
	flags.StringVar(&f.Name, "name", "", "`NAME` of the API (default: "+defaultName+")")
	flags.StringVar(&f.Token, "token", "", "`TOKEN` of the open challenge to follow (default: none)")
	flags.StringSliceVar(&f.Only, "only", nil, "run only these `CHECKS`, separated by commas (default: all)")
}

// tokenForm is base64url (RFC 8555 section 8.3). A bound in it would make a program of 200 KiB,
// which every process would keep.
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// maxToken is longer than the token of any CA.
const maxToken = 256

// Validate rejects an unknown check, and a name or token that must not become part of a request.
func (f *CheckFlags) Validate() error {
	for _, one := range f.Only {
		if checks := findings.Checks(); !slices.Contains(checks, one) {
			hint := didYouMean(one, "", checks)
			if hint == "" {
				hint = ": use " + oneOf(checks)
			}
			return UsageError(fmt.Sprintf("--only: %q is not a check%s", one, hint))
		}
	}
	if fault := tokenFault(f.Token); f.Token != "" && fault != "" {
		return UsageError(fmt.Sprintf("--token %q: %s", f.Token, fault))
	}
	if f.Name == "" {
		return nil
	}
	return ValidateName("--name", f.Name)
}

// ValidateName rejects the value of a flag or an argument that is not the name of an API.
func ValidateName(label, name string) error {
	if fault := nameFault(name); fault != "" {
		return UsageError(fmt.Sprintf("%s %q: %s", label, name, fault))
	}
	return nil
}

func tokenFault(token string) string {
	before, _, isKey := strings.Cut(token, ".")
	switch {
	case len(token) <= maxToken && tokenForm.MatchString(token):
		return ""
	case isKey && len(before) <= maxToken && tokenForm.MatchString(before):
		return "this is the key: use the part before the dot"
	default:
		return "a token consists of letters, digits, - and _. " +
			`"oc get challenge -A -o custom-columns=TOKEN:.spec.token" prints it`
	}
}

func nameFault(name string) string {
	host := hostIn(name)
	_, err := netip.ParseAddr(host)
	switch {
	case err == nil:
		return fmt.Sprintf("an IP address, for which no challenge can succeed (see the finding %s): "+
			"use the DNS name of the API", findings.RouteMissingForAddress)
	case strings.HasPrefix(name, "*."):
		return "a wildcard, which no CA validates by HTTP-01: use a DNS-01 solver for it, " +
			"or one name, such as api.cluster.example.com"
	case httpfield.IsHostName(name):
		return ""
	case httpfield.IsHostName(host):
		return "use the host name alone, in lower case: " + host
	default:
		return "not a host name in lower case without port, such as api.cluster.example.com"
	}
}

// hostIn returns the host of a URL, or of a name with a port, in lower case.
func hostIn(text string) string {
	if !strings.Contains(text, "://") {
		if _, err := netip.ParseAddr(text); err == nil {
			return text
		}
		text = "//" + text
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(parsed.Hostname(), "."))
}
