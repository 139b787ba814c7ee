// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
)

const (
	maxNamedFile = 256 << 10
	// defaultBaseDomain is MicroShift's default, which is in no DNS.
	defaultBaseDomain = "example.com"
	apiPrefix         = "api."
)

// Name is a name or address that external clients use for MicroShift's API server.
type Name struct {
	Name           string
	HasCertificate bool // apiServer.namedCertificates lists a certificate for it
}

// ExternalNames are the known names, once each, and the reason for unknown ones. known are
// names from elsewhere, and hostName is the name of this host. MicroShift chooses the names of
// the API server's own certificate (certSetup in pkg/cmd/init.go).
func (s State) ExternalNames(hostName string, known []string) (all []Name, unreadable error) {
	add := func(name string, hasCertificate bool) {
		name = strings.ToLower(name)
		_, notAddress := netip.ParseAddr(name)
		// A wildcard cannot be queried, and localhost is not external.
		if notAddress != nil && !httpfield.IsHostName(name) || name == "localhost" {
			return
		}
		i := slices.IndexFunc(all, func(e Name) bool { return e.Name == name })
		if i < 0 {
			all = append(all, Name{name, hasCertificate})
		}
	}
	c := s.Config
	for _, n := range c.NamedCertificates {
		names, err := certificateNames(n)
		if err != nil {
			unreadable = err
		}
		for _, name := range names {
			add(name, true)
		}
	}
	own := []string{cmp.Or(c.HostnameOverride, hostName), apiPrefix + c.BaseDomain}
	for _, name := range slices.Concat(known, c.SubjectAltNames, own) {
		add(name, false)
	}
	return all, unreadable
}

// certificateNames are the names of a named certificate: the configured ones, otherwise
// its own (getCertificateNames of k8s.io/apiserver).
func certificateNames(n microshift.NamedCertificate) ([]string, error) {
	if len(n.Names) > 0 {
		return n.Names, nil
	}
	text, err := textfile.Read(n.CertPath, maxNamedFile)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s contains no PEM certificate", n.CertPath)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", n.CertPath, err)
	}
	return leaf.DNSNames, nil
}

// ChallengeNames are the names for which challenges may arrive. MicroShift's other names are
// usually not in DNS.
func (s State) ChallengeNames() (names []string) {
	all, _ := s.ExternalNames(s.Config.HostnameOverride, nil)
	for _, n := range all {
		_, notAddress := netip.ParseAddr(n.Name)
		isOther := n.Name == apiPrefix+defaultBaseDomain || strings.EqualFold(n.Name, s.Config.HostnameOverride)
		if notAddress != nil && strings.Contains(n.Name, ".") && !isOther {
			names = append(names, n.Name)
		}
	}
	return names
}
