// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
)

const (
	// maxMicroShiftNames bounds the names for which a MicroShift's API server is asked.
	maxMicroShiftNames = 8
	maxNamedFile       = 256 << 10
	// defaultBaseDomain is the one that MicroShift has where none is given, and that nobody
	// has in the DNS.
	defaultBaseDomain = "example.com"
)

// externalName is a name, or an address, by which clients outside call MicroShift's API
// server.
type externalName struct {
	name           string
	hasCertificate bool // apiServer.namedCertificates has a certificate for it
}

// externalNames are all that are known of, once each, and why others are not. Those of
// the API server's own certificate are as MicroShift has them (certSetup in
// pkg/cmd/init.go).
func (h *host) externalNames() (all []externalName, why error) {
	add := func(name string, named bool) {
		name = strings.ToLower(name)
		_, notAddress := netip.ParseAddr(name)
		// A wildcard cannot be asked for, and localhost is not outside.
		if notAddress != nil && !config.IsHostName(name) || name == "localhost" {
			return
		}
		i := slices.IndexFunc(all, func(e externalName) bool { return e.name == name })
		if i < 0 {
			all = append(all, externalName{name, named})
		}
	}
	c := h.microShiftState.Config
	for _, n := range c.NamedCertificates {
		names, err := certificateNames(n)
		if err != nil {
			why = err
		}
		for _, name := range names {
			add(name, true)
		}
	}
	for _, name := range h.names {
		add(name, false)
	}
	for _, name := range h.config.Hosts {
		add(name, false)
	}
	for _, name := range c.SubjectAltNames {
		add(name, false)
	}
	if c.HostnameOverride != "" {
		add(c.HostnameOverride, false)
	} else {
		add(h.name, false)
	}
	add(apiPrefix+c.BaseDomain, false)
	return all, why
}

// certificateNames are those for which a named certificate counts: the given ones, else its
// own (getCertificateNames of k8s.io/apiserver).
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
		return nil, fmt.Errorf("%s holds no certificate in PEM", n.CertPath)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", n.CertPath, err)
	}
	return leaf.DNSNames, nil
}

// microShiftChallengeNames are those of the API for which a challenge is likely: others of a
// MicroShift are in no DNS as a rule.
func (h *host) microShiftChallengeNames() []string {
	var names []string
	add := func(more ...string) {
		for _, name := range more {
			if name = strings.ToLower(name); config.IsHostName(name) && strings.Contains(name, ".") && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	c := h.microShiftState.Config
	for _, n := range c.NamedCertificates {
		if found, err := certificateNames(n); err == nil {
			add(found...)
		}
	}
	add(c.SubjectAltNames...)
	if c.BaseDomain != defaultBaseDomain && c.BaseDomain != "" {
		add(apiPrefix + c.BaseDomain)
	}
	return withoutAddresses(names)
}
