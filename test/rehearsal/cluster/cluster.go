// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/cert-manager/cert-manager/pkg/client/clientset/versioned"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/configagent"
	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/nodeagent"
	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/routeagent"
	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/servingagent"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
)

const (
	// IngressClass is the class of OpenShift's default IngressController.
	IngressClass = "openshift-default"
	// ConfigNamespace is the namespace of the API server's Secrets.
	ConfigNamespace = "openshift-config"
	// OperandNamespace is the namespace of the operand of Red Hat's operator.
	OperandNamespace = "cert-manager"

	maxAPIServers = 2
	// token authenticates every client.
	token = "rehearsal"
)

// Cluster is a Kubernetes API with cert-manager.
type Cluster struct {
	Lab         *lab.Lab
	Kube        kubernetes.Interface
	CertManager versioned.Interface
	Config      *rest.Config // of the first API server
	APIServers  []*APIServer

	// Trust has the certificate in PEM of the CA that issued the API servers' own
	// certificates.
	Trust []byte

	acmeTrust     []byte // CA of an ACME server, in PEM; nil for none
	authorization string // mode of the API servers

	log    *slog.Logger
	logs   *os.File
	agents *errgroup.Group
	ctx    context.Context // of the agents, until Close
	stop   context.CancelFunc
	// stopServing stops the agent of ServeSecret.
	stopServing context.CancelFunc
}

// Option changes a cluster before it starts.
type Option func(*Cluster)

// TrustACME makes cert-manager trust a CA, in PEM, like the CAs of its image.
func TrustACME(pem []byte) Option { return func(c *Cluster) { c.acmeTrust = pem } }

// WithRBAC limits all users to the rights of their roles, as in OpenShift. Otherwise each user has all rights.
func WithRBAC() Option { return func(c *Cluster) { c.authorization = "RBAC" } }

// Start starts the programs and agents in a lab. The caller must Close the cluster before
// the lab.
func Start(ctx context.Context, l *lab.Lab, p Programs, options ...Option) (*Cluster, error) {
	return begin(ctx, l, options, func(c *Cluster) error { return c.start(ctx, p) })
}

// StartAPI starts only etcd and an API server, on one node of a lab. The caller must Close the cluster
// before the lab.
func StartAPI(ctx context.Context, l *lab.Lab, node *lab.Node, p Programs, options ...Option) (*Cluster, error) {
	return begin(ctx, l, options, func(c *Cluster) error { return c.startAPIServers(ctx, p, node) })
}

func begin(ctx context.Context, l *lab.Lab, options []Option, start func(*Cluster) error) (*Cluster, error) {
	c := &Cluster{Lab: l, authorization: "AlwaysAllow"}
	for _, o := range options {
		o(c)
	}
	var err error
	if c.logs, err = os.Create(filepath.Join(l.Dir, "agents.log")); err != nil {
		return nil, fmt.Errorf("create the log of the agents: %w", err)
	}
	c.log = slog.New(slog.NewTextHandler(c.logs, nil))
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	c.agents, c.ctx = errgroup.WithContext(running)
	if err := start(c); err != nil {
		return nil, errors.Join(fmt.Errorf("start the cluster: %w", err), c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, p Programs) error {
	var nodes []*lab.Node
	for _, m := range c.Lab.ControlPlane[:min(len(c.Lab.ControlPlane), maxAPIServers)] {
		nodes = append(nodes, m.Node)
	}
	if err := c.startAPIServers(ctx, p, nodes...); err != nil {
		return err
	}
	if err := c.createObjects(ctx, p.CRDs); err != nil {
		return err
	}
	c.run("nodeagent", func(log *slog.Logger) func(context.Context) error {
		return nodeagent.New(c.Kube, c.Lab.Routers[0].Node, p.Solver, log).Run
	})
	c.run("routeagent", func(log *slog.Logger) func(context.Context) error {
		return routeagent.New(c.Kube, c.Lab.Routers, routeagent.ReloadInterval, log).Run
	})
	return c.startCertManager(p.CertManager)
}

// run runs an agent until Close.
func (c *Cluster) run(name string, build func(*slog.Logger) func(context.Context) error) {
	agent := build(c.log.With(slog.String("agent", name)))
	c.agents.Go(func() error {
		if err := agent(c.ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// ServeSecret has the API servers present the certificate in a Secret for the API's name, instead
// of the one before.
func (c *Cluster) ServeSecret(namespace, name string) {
	if c.stopServing != nil {
		c.stopServing()
	}
	serving, stop := context.WithCancel(c.ctx)
	c.stopServing = stop
	var files []servingagent.Files
	for _, a := range c.APIServers {
		files = append(files, a.named)
	}
	c.run("servingagent", func(log *slog.Logger) func(context.Context) error {
		agent := servingagent.New(c.Kube, namespace, name, files, log)
		return func(context.Context) error { return agent.Run(serving) }
	})
}

// Operate has an agent act as OpenShift's operators for the objects of the tutorial. install
// rolls MachineConfigs out.
func (c *Cluster) Operate(ctx context.Context, install func(context.Context) error) error {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("create the client of the API: %w", err)
	}
	operator, err := oracle.Load(ctx, oracle.Newest)
	if err != nil {
		return err
	}
	c.run("configagent", func(log *slog.Logger) func(context.Context) error {
		return configagent.New(client, operator, configagent.Cluster{
			API: "api." + c.Lab.Domain, Install: install, Present: c.ServeSecret,
		}, log).Run
	})
	return nil
}

// createObjects creates cert-manager's CRDs from the files of a pattern, namespaces and the IngressClass.
func (c *Cluster) createObjects(ctx context.Context, crds string) error {
	if err := c.CreateCRDs(ctx, crds); err != nil {
		return err
	}
	if err := c.awaitCertManager(ctx); err != nil {
		return err
	}
	for _, name := range []string{OperandNamespace, ConfigNamespace} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := c.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create the namespace %s: %w", name, err)
		}
	}
	class := &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{Name: IngressClass},
		Spec:       networkingv1.IngressClassSpec{Controller: "openshift.io/ingress-to-route"},
	}
	if _, err := c.Kube.NetworkingV1().IngressClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the IngressClass: %w", err)
	}
	return nil
}

// Logs returns the last lines of the output of the lab's programs and of the agents.
func (c *Cluster) Logs() string {
	text, err := os.ReadFile(c.logs.Name())
	if err != nil {
		return c.Lab.Logs()
	}
	return c.Lab.Logs() + "--- agents\n" + string(text[max(0, len(text)-8<<10):])
}

// Close stops the agents. The lab stops the programs.
func (c *Cluster) Close() error {
	c.stop()
	return errors.Join(c.agents.Wait(), c.logs.Close())
}
