// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/chain"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// The issuers with a name.
const (
	LetsEncrypt = "letsencrypt"
	Staging     = "letsencrypt-staging"
)

// namedIssuers returns the directories of the issuers with a name.
func namedIssuers() map[string]string {
	return map[string]string{LetsEncrypt: chain.LetsEncrypt, Staging: chain.LetsEncryptStaging}
}

// limits are the times of a profile, and the number of names in a certificate.
type limits struct {
	Duration, RenewBefore, MinBackoff string
	names                             int
}

// maxNames is the number of names that CAs accept in a certificate.
const maxNames = 100

// profiles returns the profiles of Let's Encrypt (https://letsencrypt.org/docs/profiles), and the
// empty one of every CA. The lifetime of classic gets shorter in 2027 and 2028, so renewBefore
// must fit 45 days too. With 160 hours, two attempts that fail with cert-manager's default of one
// hour already matter.
func profiles() map[string]limits {
	return map[string]limits{
		"":           {names: maxNames},
		"classic":    {"2160h", "720h", "", maxNames},
		"tlsserver":  {"1080h", "360h", "", 25},
		"shortlived": {"160h", "80h", "10m", 25},
	}
}

func problem(where, message, remediation string) error {
	return config.Problem{Where: where, Message: message, Remediation: remediation}
}

// all returns all names, each one once, the API's name first.
func (r Request) all() []string {
	var all []string
	for _, name := range append([]string{r.API}, r.Names...) {
		if name = strings.ToLower(name); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// check returns all problems of the request, with the field and the remediation.
func (r Request) check() error {
	problems := []error{r.checkEmail(), r.checkIssuer()}
	if r.API != "" && !r.accepts(r.API) {
		problems = append(problems, problem("hosts", "the service rejects challenges for "+r.API,
			"list the API's name in hosts of the configuration (--config FILE), together with all other names"))
	}
	if r.API == "" {
		problems = append(problems, problem("--certificate", "the API's name is not known",
			`give the domain of the cluster with --cluster-domain: `+
				`"oc get dns cluster -o jsonpath={.spec.baseDomain}" prints it`))
	}
	for _, name := range r.Names {
		problems = append(problems, r.checkName(strings.ToLower(name)))
	}
	if n, limit := len(r.all()), cmp.Or(profiles()[r.Profile].names, maxNames); n > limit {
		problems = append(problems, problem("--name", fmt.Sprintf("the certificate would have %d names", n),
			fmt.Sprintf("give at most %d, the API's name included", limit)))
	}
	return errors.Join(problems...)
}

func (r Request) checkEmail() error {
	if r.Email == "" {
		return nil
	}
	if a, err := mail.ParseAddress(r.Email); err == nil && a.Address == r.Email && printable(r.Email) {
		return nil
	}
	return problem(fmt.Sprintf("--email %q", r.Email), "not an e-mail address", "give one such as ops@example.com")
}

// printable reports whether a text consists of visible ASCII characters, which need no escape in YAML.
func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}

// issuer returns the name of an issuer that is given by the URL of its directory, and others as they are.
func (r Request) issuer() string {
	for name, directory := range namedIssuers() {
		if r.Issuer == directory {
			return name
		}
	}
	return r.Issuer
}

func (r Request) checkIssuer() error {
	_, named := namedIssuers()[r.issuer()]
	u, err := url.Parse(r.Issuer)
	if !named && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || !printable(r.Issuer)) {
		return problem(fmt.Sprintf("--issuer %q", r.Issuer), "not a known issuer",
			"give "+LetsEncrypt+", "+Staging+" or the https URL of an ACME directory")
	}
	if _, known := profiles()[r.Profile]; named && !known || !printable(r.Profile) {
		known := slices.Sorted(maps.Keys(profiles()))[1:]
		return problem(fmt.Sprintf("--profile %q", r.Profile), "not a profile of Let's Encrypt",
			"give "+strings.Join(known, ", ")+", or --issuer with the URL of a CA that has it")
	}
	return nil
}

// accepts reports whether the service accepts challenges for a name.
func (r Request) accepts(name string) bool {
	if len(r.Hosts) == 0 {
		return name == r.API
	}
	return slices.Contains(r.Hosts, name) || slices.Contains(r.Hosts, "*")
}

// checkName rejects a name that HTTP-01 cannot prove, or that the API must not present.
func (r Request) checkName(name string) error {
	where := fmt.Sprintf("--name %q", name)
	_, ipErr := netip.ParseAddr(name)
	switch {
	case strings.HasPrefix(name, "*."):
		return problem(where, "a wildcard, which no CA validates by HTTP-01", "give each name, or use DNS-01")
	case ipErr == nil:
		return problem(where, "an IP address", "give a DNS name that leads to the API VIP")
	case config.IsInternalAPIName(name):
		return problem(where, "the nodes trust only the cluster's own CA for this name", "remove it")
	case !httpfield.IsHostName(name) || !strings.Contains(name, ".") || strings.Contains(name, "_"):
		return problem(where, "not a DNS name", "give one such as kube.example.com, without a port and a final dot")
	case !r.accepts(name):
		return problem(where, "the service rejects challenges for this name",
			"list it in hosts of the configuration (--config FILE), together with all other names")
	}
	return nil
}
