// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// clientKindOf names who seems to ask, by what a User-Agent begins with or holds. It
// serves the journal and the metrics, and decides nothing: anybody can send it.
func clientKindOf(agent []byte) report.ClientKind {
	switch {
	case bytes.HasPrefix(agent, []byte("cert-manager")): // pkg/util/useragent.go, RestConfigWithUserAgent
		return report.CertManager
	case bytes.Contains(agent, []byte("Let's Encrypt validation server")): // boulder, va/va.go
		return report.LetsEncrypt
	case bytes.HasPrefix(agent, []byte("LetsEncrypt-Pebble-VA")): // pebble, va/va.go
		return report.Pebble
	case bytes.HasPrefix(agent, []byte("Go-http-client/")): // step-ca names itself no further (acme/client.go)
		return report.StepCA
	case bytes.HasPrefix(agent, []byte(report.CheckUserAgent)):
		return report.CheckClient
	default:
		return report.OtherClient
	}
}

// tokenHash tells tokens apart without holding them (FNV-1a). Who wants two tokens
// to be taken for one can have that: they are one story in the journal then.
func tokenHash(token []byte) uint64 {
	const (
		offset = 14695981039346656037
		prime  = 1099511628211
	)
	hash := uint64(offset)
	for _, b := range token {
		hash = (hash ^ uint64(b)) * prime
	}
	return hash
}
