// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func TestClientKindOf(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]report.ClientKind{
		"": report.OtherClient, "curl/7.88.1": report.OtherClient, "my cert-manager": report.OtherClient,
		"cert-manager-challenges/v1.21.2 (linux/amd64) cert-manager/0123abc":                      report.CertManager,
		"Mozilla/5.0 (compatible; Let's Encrypt validation server; +https://www.letsencrypt.org)": report.LetsEncrypt,
		"Google-Certificates-Bridge": report.Google,
		"Sectigo DCV":                report.Sectigo, "acme.sectigo.com/v2/OV": report.Sectigo,
		"acme.zerossl.com/v2/DV90": report.ZeroSSL, "acme.example.com/v2/DV": report.OtherClient,
		"DigiCert DCV Bot/1.1": report.DigiCert, "DigiCert DCV/1.1": report.DigiCert, "DigiCert": report.OtherClient,
		"LetsEncrypt-Pebble-VA (linux; amd64)": report.Pebble,
		report.CheckUserAgent:                  report.CheckClient,
		"Go-http-client/1.1":                   report.StepCA,
	} {
		if got := clientKindOf([]byte(agent)); got != want {
			t.Errorf("%q: %s, want %s", agent, got, want)
		}
		if !want.Known() {
			t.Errorf("%s is not of the set", want)
		}
	}
}
