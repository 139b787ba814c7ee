// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cmacme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// issuerLimit bounds the registration of an account, also beside other Certificates.
const issuerLimit = 4 * time.Minute

// startCertManager starts cert-manager's controllers in the network of a pod.
func (c *Cluster) startCertManager(path string) error {
	pod := c.Lab.Pods[0]
	kubeconfig := filepath.Join(pod.Dir, "kubeconfig")
	if err := c.WriteKubeconfig(kubeconfig, c.Config.Host); err != nil {
		return err
	}
	if err := pod.UseDNS(); err != nil {
		return err
	}
	var servers []string
	for _, address := range c.Lab.DNS() {
		servers = append(servers, at(address, 53))
	}
	command := pod.WithDNS(lab.Command{Name: "cert-manager", Path: path, Args: []string{
		"--kubeconfig=" + kubeconfig,
		"--cluster-resource-namespace=" + OperandNamespace,
		"--acme-http01-solver-nameservers=" + strings.Join(servers, ","),
		// Red Hat's operator sets it: OpenShift's router does not support paths of type
		// Exact (cert-manager-operator, deployment_overrides_validation.go).
		"--feature-gates=ACMEHTTP01IngressPathTypeExact=false",
		"--v=4",
	}})
	if c.acmeTrust != nil {
		roots := filepath.Join(pod.Dir, "roots.pem")
		if err := os.WriteFile(roots, c.acmeTrust, 0o600); err != nil {
			return fmt.Errorf("write the CAs of cert-manager: %w", err)
		}
		command.Env = append(command.Env, "SSL_CERT_FILE="+roots)
	}
	_, err := pod.Start(command)
	return err
}

// WriteKubeconfig writes a kubeconfig for a URL of the API. It trusts only the CA of the API
// servers' own certificates.
func (c *Cluster) WriteKubeconfig(path, url string) error {
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"lab": {Server: url, CertificateAuthorityData: c.Trust}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"admin": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"admin": {Cluster: "lab", AuthInfo: "admin"}},
		CurrentContext: "admin",
	}, path); err != nil {
		return fmt.Errorf("write a kubeconfig: %w", err)
	}
	return nil
}

// CreateIssuer creates a ClusterIssuer for the lab's CA, with a change unless it is nil, and
// waits until its account is registered.
func (c *Cluster) CreateIssuer(ctx context.Context, name string, change func(*cmacme.ACMEIssuer)) error {
	url, trust := c.Lab.Internet.Directory()
	class := IngressClass
	acme := &cmacme.ACMEIssuer{
		Server: url, CABundle: trust,
		PrivateKey: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: AccountSecret(name)}},
		Solvers: []cmacme.ACMEChallengeSolver{{HTTP01: &cmacme.ACMEChallengeSolverHTTP01{
			Ingress: &cmacme.ACMEChallengeSolverHTTP01Ingress{IngressClassName: &class},
		}}},
	}
	if change != nil {
		change(acme)
	}
	issuers := c.CertManager.CertmanagerV1().ClusterIssuers()
	if _, err := issuers.Create(ctx, &cmapi.ClusterIssuer{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: cmapi.IssuerSpec{IssuerConfig: cmapi.IssuerConfig{ACME: acme}},
	}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the ClusterIssuer %s: %w", name, err)
	}
	return lab.Within(ctx, issuerLimit, "the ClusterIssuer "+name, func(ctx context.Context) error {
		issuer, err := issuers.Get(ctx, name, metav1.GetOptions{})
		if err == nil && !IsReady(issuer) {
			err = fmt.Errorf("its status is %+v", issuer.Status)
		}
		return err
	})
}

// AccountSecret is the name of the Secret in OperandNamespace with the key of an issuer's
// account.
func AccountSecret(issuer string) string { return issuer + "-account" }

// IsReady reports whether the account of a ClusterIssuer is registered.
func IsReady(issuer *cmapi.ClusterIssuer) bool {
	return slices.ContainsFunc(issuer.Status.Conditions, func(c cmapi.IssuerCondition) bool {
		return c.Type == cmapi.IssuerConditionReady && c.Status == cmmeta.ConditionTrue
	})
}

// CreateCRDs creates the CRDs in files, by patterns of their paths.
func (c *Cluster) CreateCRDs(ctx context.Context, patterns ...string) error {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("create the client of the API: %w", err)
	}
	crds := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions",
	})
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			return errors.Join(fmt.Errorf("no CRDs in %s", pattern), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("read a CRD: %w", err)
			}
			crd := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(text, &crd.Object); err != nil {
				return fmt.Errorf("parse the CRD %s: %w", file, err)
			}
			if _, err := crds.Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create the CRD %s: %w", crd.GetName(), err)
			}
		}
	}
	return nil
}

// awaitCertManager waits until the API servers serve cert-manager's API.
func (c *Cluster) awaitCertManager(ctx context.Context) error {
	return lab.Eventually(ctx, "cert-manager's API", func(ctx context.Context) error {
		_, issuers := c.CertManager.CertmanagerV1().ClusterIssuers().List(ctx, metav1.ListOptions{})
		_, certificates := c.CertManager.CertmanagerV1().Certificates("").List(ctx, metav1.ListOptions{})
		_, requests := c.CertManager.CertmanagerV1().CertificateRequests("").List(ctx, metav1.ListOptions{})
		_, orders := c.CertManager.AcmeV1().Orders("").List(ctx, metav1.ListOptions{})
		_, challenges := c.CertManager.AcmeV1().Challenges("").List(ctx, metav1.ListOptions{})
		return errors.Join(issuers, certificates, requests, orders, challenges)
	})
}

// Module returns the folder of a module that a Go module in a folder of test requires, with flags of the go
// command. The module is downloaded if necessary.
func Module(ctx context.Context, folder, module string, flags ...string) (string, error) {
	in, err := lab.ModuleFolder(folder)
	if err != nil {
		return "", err
	}
	args := slices.Concat([]string{"-C", in, "mod", "download", "-json"}, flags, []string{module})
	out, err := lab.Output(ctx, nil, "", "go", args...)
	if err != nil {
		return "", fmt.Errorf("find the files of %s: %w", module, err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return "", fmt.Errorf("read the folder of %s: %w", module, err)
	}
	return found.Dir, nil
}
