// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	apiPort     = 6443
	metricsPort = 9645
)

// readSecret returns the certificate in the Secret and verifies its chain and its key.
func (r *Rehearsal) readSecret(ctx context.Context) (*x509.Certificate, *x509.CertPool, error) {
	data, err := r.readSecretData(ctx)
	if err != nil {
		return nil, nil, err
	}
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, nil, fmt.Errorf("read the certificate of the Secret: %w", err)
	}
	root, err := r.lab.Internet.Root(ctx)
	if err != nil {
		return nil, nil, err
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(root)) {
		return nil, nil, errors.New("the CA's root is not PEM")
	}
	between.AppendCertsFromPEM(data[corev1.TLSCertKey])
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{
		DNSName: r.apiName(), Roots: roots,
		Intermediates: between,
	}); err != nil {
		return nil, nil, fmt.Errorf("verify the certificate of the Secret: %w", err)
	}
	return pair.Leaf, roots, nil
}

// verifySecret verifies the certificate in the Secret and keeps its serial number.
func (r *Rehearsal) verifySecret(ctx context.Context) (string, error) {
	leaf, _, err := r.readSecret(ctx)
	if err != nil {
		return "", err
	}
	r.serial = leaf.SerialNumber.Text(16)
	return fmt.Sprintf("the Secret verifies for %s, serial %s, until %s", r.apiName(), r.serial,
		leaf.NotAfter.Format(time.TimeOnly)), nil
}

// serve has the API servers present the certificate of the Secret.
func (r *Rehearsal) serve(ctx context.Context) (string, error) {
	r.cluster.ServeSecret(cluster.ConfigNamespace, certificateName)
	return r.presented(ctx, "first")
}

func (r *Rehearsal) serveRenewed(ctx context.Context) (string, error) {
	return r.presented(ctx, "second")
}

// presented waits until the API server on each API VIP presents the certificate of the
// Secret, and until the metrics and the journal of the holder have it. The service reads
// certificates every hour and when its list of names changes, so the name of a round is
// added to the list.
func (r *Rehearsal) presented(ctx context.Context, round string) (string, error) {
	leaf, roots, err := r.readSecret(ctx)
	if err != nil {
		return "", err
	}
	var vips []string
	for _, vip := range r.lab.API.Both() {
		if err := r.awaitPresented(ctx, netip.AddrPortFrom(vip, apiPort).String(), roots); err != nil {
			return "", err
		}
		vips = append(vips, vip.String())
	}
	holder, err := r.holder(ctx)
	if err != nil {
		return "", err
	}
	for _, m := range r.lab.ControlPlane {
		hosts := fmt.Sprintf("hosts: [%s, %s.%s]\n", r.apiName(), round, r.lab.Domain)
		if err := m.WriteConfig(r.config(m, hosts)); err != nil {
			return "", err
		}
	}
	series := fmt.Sprintf(`http01_proxy_api_certificate_not_after_timestamp_seconds{name=%q} `, r.apiName())
	metric, err := r.awaitMetric(ctx, holder, series, float64(leaf.NotAfter.Unix()))
	if err != nil {
		return "", err
	}
	var line string
	err = lab.Eventually(ctx, "the certificate in the journal", func(context.Context) error {
		line, err = certificateLine(r.services[holder.Index].Log, r.apiName(), leaf)
		return err
	})
	return fmt.Sprintf("serial %s for SNI %s on %s\nmetric: %s\njournal: %s", r.serial, r.apiName(),
		strings.Join(vips, " and "), metric, line), err
}

// awaitPresented waits until a server presents the certificate with the current serial
// number for the API's name, and verifies it.
func (r *Rehearsal) awaitPresented(ctx context.Context, address string, roots *x509.CertPool) error {
	return lab.Within(ctx, issueLimit, "the certificate on "+address, func(ctx context.Context) error {
		conn, err := r.lab.Gateway.Dial(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		client := tls.Client(conn, &tls.Config{ServerName: r.apiName(), RootCAs: roots, MinVersion: tls.VersionTLS12})
		if err := client.HandshakeContext(ctx); err != nil {
			return err
		}
		if got := client.ConnectionState().PeerCertificates[0].SerialNumber.Text(16); got != r.serial {
			return fmt.Errorf("it presents %s, want %s", got, r.serial)
		}
		return nil
	})
}

// awaitMetric waits until a metric of the service on a node has a value, and returns its
// line.
func (r *Rehearsal) awaitMetric(ctx context.Context, m *lab.ControlPlaneNode, series string,
	want float64,
) (found string, err error) {
	url := "http://" + netip.AddrPortFrom(m.Addresses.Both()[0], metricsPort).String() + "/metrics"
	err = lab.Eventually(ctx, "the metric of the certificate", func(ctx context.Context) error {
		answer, err := r.lab.Gateway.Get(ctx, url)
		if err != nil {
			return err
		}
		for line := range strings.Lines(answer.Body) {
			text, is := strings.CutPrefix(line, series)
			if !is {
				continue
			}
			var value float64
			if _, err := fmt.Sscan(text, &value); err != nil {
				return err
			}
			if value != want {
				return fmt.Errorf("%s is %v, want %v", series, value, want)
			}
			found = strings.TrimSpace(line)
			return nil
		}
		return fmt.Errorf("no %s", series)
	})
	return found, err
}

// certificateLine returns the text of the journal's entry about a certificate.
func certificateLine(path, name string, leaf *x509.Certificate) (string, error) {
	log, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the service's log: %w", err)
	}
	until := "not_after=" + leaf.NotAfter.UTC().Format("2006-01-02T15:04:05")
	for line := range strings.Lines(string(log)) {
		if m := message.FindStringSubmatch(line); m != nil && strings.Contains(line, "event=certificate") &&
			strings.Contains(m[1], name) && strings.Contains(line, until) {
			return strings.ReplaceAll(m[1], `\"`, `"`), nil
		}
	}
	return "", fmt.Errorf("no entry about the certificate that has %s", until)
}
