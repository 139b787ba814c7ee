// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
)

// Default ports of the CA and of its DNS server.
const (
	acmePort          = "14000"
	caManagementPort  = "15000"
	dnsManagementPort = "8055"
	dnsPort           = "53"
	dohPort           = "8443"
)

// Internet is the node for everything outside the cluster: Pebble as the CA, which
// validates from here, and the DNS server of all nodes.
type Internet struct {
	*Node

	authority *Authority // of the CA's own web server
	trust     *x509.CertPool
	client    *http.Client

	mu      sync.Mutex
	account *account
}

func (i *Internet) at(port string) string {
	return net.JoinHostPort(i.Addresses.first().String(), port)
}

func (i *Internet) up(ctx context.Context) error {
	if err := i.writeCAFiles(); err != nil {
		return err
	}
	dns, err := i.Start(Command{Name: "dns", Path: i.lab.tools.DNS, Args: []string{
		"-http01", "", "-https01", "", "-tlsalpn01", "",
		"-doh", i.at(dohPort), "-doh-cert", i.file("pebble.crt"), "-doh-cert-key", i.file("pebble.key"),
		"-dnsserver", i.at(dnsPort), "-management", i.at(dnsManagementPort),
		"-defaultIPv4", "", "-defaultIPv6", "",
	}})
	if err != nil {
		return err
	}
	ca, err := i.Start(Command{
		Name: "pebble", Path: i.lab.tools.Pebble,
		Args: []string{"-config", i.file("pebble.json"), "-dnsserver", i.at(dnsPort)},
		// No randomness: by default Pebble sleeps before it validates, rejects valid nonces
		// and reuses authorizations.
		Env: []string{
			"PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0", "PEBBLE_AUTHZREUSE=0",
			// Pebble deadlocks when the certificate is stored while an order is displayed,
			// because the display takes a read lock twice (v2.10.1: wfe.go, Order and
			// orderForDisplay; ca.go, CompleteOrder). It does not occur without
			// parallelism.
			"GOMAXPROCS=1",
		},
	})
	if err != nil {
		return err
	}
	i.client = &http.Client{
		Timeout: dialTimeout,
		Transport: &http.Transport{
			DialContext:     i.Dial,
			TLSClientConfig: &tls.Config{RootCAs: i.trust, MinVersion: tls.VersionTLS12},
		},
	}
	return Eventually(ctx, "the CA and its DNS", func(ctx context.Context) error {
		for _, p := range []*Process{dns, ca} {
			if err := p.Alive(); err != nil {
				return err
			}
		}
		if err := i.probe(ctx, dnsManagementPort); err != nil {
			return err
		}
		_, err := i.roots(ctx)
		return err
	})
}

func (i *Internet) probe(ctx context.Context, port string) error {
	conn, err := i.Dial(ctx, "tcp", i.at(port))
	if err != nil {
		return err
	}
	return conn.Close()
}

func (i *Internet) file(name string) string { return filepath.Join(i.Dir, name) }

// Directory returns the URL of the CA's ACME directory, and the certificate in PEM of the CA
// that its web server's certificate comes from.
func (i *Internet) Directory() (url string, trust []byte) {
	return "https://" + i.at(acmePort) + "/dir", i.authority.Certificate()
}

func (i *Internet) writeCAFiles() error {
	root, err := NewAuthority("CA of " + i.Name)
	if err != nil {
		return err
	}
	i.authority, i.trust = root, root.Pool()
	web, err := root.Issue(ServerCertificate{Addresses: i.Addresses.Both()})
	if err != nil {
		return err
	}
	pebble := map[string]any{
		"listenAddress":           i.at(acmePort),
		"managementListenAddress": i.at(caManagementPort),
		"certificate":             i.file("pebble.crt"),
		"privateKey":              i.file("pebble.key"),
		"httpPort":                80,
		"tlsPort":                 443,
		"keyAlgorithm":            "ecdsa",
		"retryAfter":              map[string]int{"authz": 1, "order": 1},
	}
	if lifetime := i.lab.has.certificateLifetime; lifetime > 0 {
		pebble["profiles"] = map[string]any{"default": map[string]any{
			"description": "certificates of the lab", "validityPeriod": int(lifetime.Seconds()),
		}}
	}
	config, err := json.Marshal(map[string]any{"pebble": pebble})
	if err != nil {
		return fmt.Errorf("encode the CA's configuration: %w", err)
	}
	for name, text := range map[string][]byte{"pebble.json": config, "pebble.crt": web.Chain, "pebble.key": web.Key} {
		if err := os.WriteFile(i.file(name), text, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// SetName publishes the addresses of a name. Invalid ones are omitted, so that a name can be
// limited to one family.
func (i *Internet) SetName(ctx context.Context, name string, addresses Pair) error {
	fqdn := name + "."
	for _, record := range []struct {
		add, clear string
		address    netip.Addr
	}{
		{"/add-a", "/clear-a", addresses.V4},
		{"/add-aaaa", "/clear-aaaa", addresses.V6},
	} {
		if err := i.manage(ctx, record.clear, map[string]any{"host": fqdn}); err != nil {
			return err
		}
		if !record.address.IsValid() {
			continue
		}
		body := map[string]any{"host": fqdn, "addresses": []string{record.address.String()}}
		if err := i.manage(ctx, record.add, body); err != nil {
			return err
		}
	}
	return nil
}

// FailName makes the DNS server answer each query for a name with SERVFAIL.
func (i *Internet) FailName(ctx context.Context, name string) error {
	return i.manage(ctx, "/set-servfail", map[string]any{"host": name + "."})
}

// DNSOverHTTPS returns the address and port where the DNS server serves DNS over HTTPS. Its
// certificate is signed by the same CA as Directory's.
func (i *Internet) DNSOverHTTPS() string { return i.at(dohPort) }

// manage sends a request to the DNS server's management interface.
func (i *Internet) manage(ctx context.Context, path string, body map[string]any) error {
	url := "http://" + i.at(dnsManagementPort) + path
	if _, err := postJSON(ctx, i.client, url, body); err != nil {
		return fmt.Errorf("configure the DNS server: %w", err)
	}
	return nil
}

// Resolver returns a resolver that queries the lab's DNS from a node.
func (n *Node) Resolver() *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return n.Dial(ctx, network, n.lab.Internet.at(dnsPort))
		},
	}
}
