// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"hash/fnv"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// clientKindOf returns the kind of client that a User-Agent names. The result
// serves the journal and the metrics. The field can be forged and never affects
// handling.
func clientKindOf(agent []byte) report.ClientKind {
	switch {
	case bytes.HasPrefix(agent, []byte("cert-manager")): // cert-manager, pkg/util/useragent.go (RestConfigWithUserAgent)
		return report.CertManager
	case bytes.Contains(agent, []byte("Let's Encrypt validation server")): // boulder, va/va.go
		return report.LetsEncrypt
	// No other CA publishes its source. These agents come from logs of web servers: monperrus/crawler-user-agents,
	// regexes/bots.yml of matomo-org/device-detector, and rules of gateways. ACME requests of Sectigo and ZeroSSL, which
	// uses Sectigo's service, contain the URL of the CA's directory.
	case bytes.HasPrefix(agent, []byte("Google-Certificates-Bridge")):
		return report.Google
	case bytes.HasPrefix(agent, []byte("Sectigo DCV")), bytes.HasPrefix(agent, []byte("acme.sectigo.com/")):
		return report.Sectigo
	case bytes.HasPrefix(agent, []byte("acme.zerossl.com/")):
		return report.ZeroSSL
	case bytes.HasPrefix(agent, []byte("DigiCert DCV")): // "DigiCert DCV Bot/1.1" and "DigiCert DCV/1.1"
		return report.DigiCert
	case bytes.HasPrefix(agent, []byte("LetsEncrypt-Pebble-VA")): // pebble, va/va.go
		return report.Pebble
	case bytes.HasPrefix(agent, []byte("Go-http-client/")): // step-ca sends only Go's default (acme/client.go)
		return report.StepCA
	case bytes.HasPrefix(agent, []byte(report.CheckUserAgent)):
		return report.CheckClient
	default:
		return report.OtherClient
	}
}

// tokenHash identifies a token without storing it (FNV-1a). A client can make two
// tokens collide; the journal then treats them as one challenge.
func tokenHash(token []byte) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write(token)
	return hash.Sum64()
}
