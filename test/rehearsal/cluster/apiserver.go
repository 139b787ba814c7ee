// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/cert-manager/cert-manager/pkg/client/clientset/versioned"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/servingagent"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// etcdPort and apiPort are the ports of an OpenShift control-plane node.
const (
	etcdPort = 2379
	apiPort  = 6443
)

// APIServer is a kube-apiserver on a control-plane node.
type APIServer struct {
	*lab.Process

	Node  *lab.Node
	named servingagent.Files // the certificate for the API's name
}

// Present has the API server present a certificate for the API's name.
func (a *APIServer) Present(certificate, key []byte) error { return a.named.Write(certificate, key) }

// first returns the node's first address, which is of the primary family.
func first(n *lab.Node) netip.Addr { return n.Addresses.Both()[0] }

func at(address netip.Addr, port uint16) string {
	return netip.AddrPortFrom(address, port).String()
}

// startAPIServers starts etcd on the first node and an API server on each one, and waits until
// they are ready.
func (c *Cluster) startAPIServers(ctx context.Context, p Programs, nodes ...*lab.Node) error {
	authority, err := lab.NewAuthority("kube-apiserver-lb-signer")
	if err != nil {
		return err
	}
	c.Trust = authority.Certificate()
	etcd, err := c.startEtcd(p.Etcd, nodes[0], authority)
	if err != nil {
		return err
	}
	key, err := signingKey()
	if err != nil {
		return err
	}
	for _, n := range nodes {
		a, err := c.startAPIServer(p.APIServer, n, etcd, authority, key)
		if err != nil {
			return err
		}
		c.APIServers = append(c.APIServers, a)
	}
	for _, a := range c.APIServers {
		if err := a.awaitReady(ctx, c.config(a.Node)); err != nil {
			return err
		}
	}
	for _, n := range c.Lab.ControlPlane {
		if err := c.startBalancer(n); err != nil {
			return err
		}
	}
	c.Config = c.config(nodes[0])
	if c.Kube, err = kubernetes.NewForConfig(c.Config); err != nil {
		return fmt.Errorf("create the client of the API: %w", err)
	}
	if c.CertManager, err = versioned.NewForConfig(c.Config); err != nil {
		return fmt.Errorf("create the client of cert-manager's API: %w", err)
	}
	return nil
}

// config returns the configuration of a client that connects from inside the lab.
func (c *Cluster) config(n *lab.Node) *rest.Config {
	return &rest.Config{
		Host: "https://" + at(first(n), apiPort), BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.Trust},
		Dial:            c.Lab.Gateway.Dial,
		QPS:             -1, // the API server limits clients
	}
}

// startEtcd starts etcd on a node and returns its URL.
func (c *Cluster) startEtcd(path string, n *lab.Node, authority *lab.Authority) (string, error) {
	identity, err := authority.Issue(lab.ServerCertificate{Addresses: n.Addresses.Both()})
	if err != nil {
		return "", err
	}
	dir := filepath.Join(n.Dir, "etcd")
	files := servingagent.Files{Certificate: filepath.Join(n.Dir, "etcd.crt"), Key: filepath.Join(n.Dir, "etcd.key")}
	if err := files.Write(identity.Chain, identity.Key); err != nil {
		return "", err
	}
	url, peer := "https://"+at(first(n), etcdPort), "http://127.0.0.1:2380"
	_, err = n.Start(lab.Command{Name: "etcd", Path: path, Args: []string{
		"--data-dir=" + dir, "--listen-client-urls=" + url, "--advertise-client-urls=" + url,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		"--cert-file=" + files.Certificate, "--key-file=" + files.Key,
		// The data is gone with the lab.
		"--unsafe-no-fsync",
		"--log-level=warn",
	}})
	return url, err
}

// startAPIServer starts kube-apiserver on a node. It listens on every address, as on a
// control-plane node of OpenShift.
func (c *Cluster) startAPIServer(path string, n *lab.Node, etcd string, authority *lab.Authority,
	key []byte,
) (*APIServer, error) {
	dir := filepath.Join(n.Dir, "kube-apiserver")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create the directory of the API server: %w", err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	own := servingagent.Files{Certificate: file("own.crt"), Key: file("own.key")}
	a := &APIServer{Node: n, named: servingagent.Files{Certificate: file("named.crt"), Key: file("named.key")}}
	name := "api." + c.Lab.Domain
	for _, one := range []struct {
		files servingagent.Files
		of    lab.ServerCertificate
	}{
		{own, lab.ServerCertificate{Names: []string{"kubernetes", "api-int." + c.Lab.Domain}, Addresses: n.Addresses.Both()}},
		{a.named, lab.ServerCertificate{Names: []string{name}}},
	} {
		identity, err := authority.Issue(one.of)
		if err != nil {
			return nil, err
		}
		if err := one.files.Write(identity.Chain, identity.Key); err != nil {
			return nil, err
		}
	}
	for path, text := range map[string][]byte{
		"ca.crt": authority.Certificate(), "service-account.key": key,
		"tokens.csv": []byte(token + ",admin,admin,system:masters\n"),
	} {
		if err := os.WriteFile(file(path), text, 0o600); err != nil {
			return nil, fmt.Errorf("write a file of the API server: %w", err)
		}
	}
	address, every, services := first(n), "0.0.0.0", "172.30.0.0/16"
	if address.Is6() {
		services = "fd02::/112"
	}
	if len(n.Addresses.Both()) == 2 || address.Is6() {
		every = "::"
	}
	var err error
	a.Process, err = n.Start(lab.Command{Name: "kube-apiserver", Path: path, Args: []string{
		"--etcd-servers=" + etcd, "--etcd-cafile=" + file("ca.crt"),
		"--bind-address=" + every, "--advertise-address=" + address.String(), fmt.Sprintf("--secure-port=%d", apiPort),
		"--tls-cert-file=" + own.Certificate, "--tls-private-key-file=" + own.Key,
		"--tls-sni-cert-key=" + a.named.Certificate + "," + a.named.Key + ":" + name,
		"--cert-dir=" + dir, "--service-cluster-ip-range=" + services,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + file("service-account.key"),
		"--service-account-signing-key-file=" + file("service-account.key"),
		"--token-auth-file=" + file("tokens.csv"), "--authorization-mode=" + c.authorization,
		"--disable-admission-plugins=ServiceAccount",
		"--allow-privileged=true", // as in OpenShift
		"--profiling=false", "--v=1",
	}})
	return a, err
}

// awaitReady waits until the API server is ready.
func (a *APIServer) awaitReady(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create the client of the API: %w", err)
	}
	return lab.Eventually(ctx, "the API server on "+a.Node.Name, func(ctx context.Context) error {
		if err := a.Alive(); err != nil {
			return err
		}
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// signingKey returns the key for ServiceAccount tokens in PEM.
func signingKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
