// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/registry"
)

// treeVariable passes the tree that Prepare returned into the cell.
const treeVariable = "HTTP01_CLUSTER_TREE"

// Cluster is a lab with booted control-plane hosts. Its methods may be called from several
// goroutines.
type Cluster struct {
	Lab          *lab.Lab     // without control-plane nodes and pods of its own
	ControlPlane []*host.Host // the address of host i is lab.ControlPlaneAddresses(i)
	Registry     *registry.Registry

	cell *host.Cell
}

// Prepare does what needs the machine's own network: it creates the tree of the hosts in
// the directory cache and builds the lab's programs when they are missing. The returned
// environment is for the inside of the cell (host.Enclose).
func Prepare(ctx context.Context, cache string) ([]string, error) {
	tree, err := host.Tree(ctx, cache)
	if err != nil {
		return nil, err
	}
	if _, err := lab.Build(ctx); err != nil {
		return nil, err
	}
	return []string{treeVariable + "=" + tree}, nil
}

// New brings up a cluster in a cell after Prepare. When it returns, every host runs with no
// failed unit, host 0 holds the API VIPs, the CA and the registry are ready, and no file of
// http01-proxyd is on a host. A cell can contain one cluster. The caller must Close it.
func New(ctx context.Context, cell *host.Cell) (*Cluster, error) {
	c := &Cluster{cell: cell}
	if err := c.up(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("bring the cluster up: %w", err), c.Close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *Cluster) up(ctx context.Context) error {
	var err error
	if c.Lab, err = lab.New(ctx, lab.WithoutControlPlane(), lab.WithEgress()); err != nil {
		return err
	}
	if c.Registry, err = registry.New(ctx, c.Lab, "registry"); err != nil {
		return err
	}
	for i := range lab.ControlPlaneNodes {
		m, err := c.newControlPlaneHost(i)
		if m != nil {
			c.ControlPlane = append(c.ControlPlane, m)
		}
		if err != nil {
			return err
		}
	}
	if err := c.Each(ctx, func(ctx context.Context, _ int, m *host.Host) error { return m.Boot(ctx) }); err != nil {
		return err
	}
	if err := c.AwaitVIPs(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, c.Diagnosis(ctx))
	}
	return nil
}

// newControlPlaneHost creates a control-plane host. It returns the host with an error too, for Close.
func (c *Cluster) newControlPlaneHost(i int) (*host.Host, error) {
	namespace, bridge := c.Lab.Switch()
	m, err := c.cell.NewHost(host.Options{
		Name: fmt.Sprintf("master%d", i), Tree: os.Getenv(treeVariable),
		Namespace: namespace, Bridge: bridge,
		Addresses: c.Lab.ControlPlaneAddresses(i), Routers: c.Lab.Gateway.Addresses.Both(), DNS: c.Lab.DNS(),
	})
	if err != nil {
		return m, err
	}
	keepalived, err := c.Lab.ControlPlaneKeepalived(i, host.Link)
	if err != nil {
		return m, err
	}
	authfile, err := c.Registry.Authfile()
	if err != nil {
		return m, err
	}
	return m, errors.Join(
		m.WriteFile("/etc/keepalived/keepalived.conf", keepalived, 0o644),
		// The arguments of OpenShift's static pod without those for its log.
		m.WriteFile("/etc/default/keepalived", "DAEMON_ARGS=\"--vrrp --log-detail\"\n", 0o644),
		m.WriteFile("/var/lib/kubelet/config.json", authfile, 0o600),
		m.WriteFile(c.Registry.TrustPath(), c.Registry.CA(), 0o644),
	)
}

// Close powers off every host without a shutdown and removes the lab.
func (c *Cluster) Close(ctx context.Context) error {
	// Concurrently, because ending a host takes time. A host that does not end must not
	// keep the others running.
	ends := make(chan error, len(c.ControlPlane))
	for _, m := range c.ControlPlane {
		go func() { ends <- m.Close(ctx) }()
	}
	var err error
	for range c.ControlPlane {
		err = errors.Join(err, <-ends)
	}
	if c.Registry != nil {
		err = errors.Join(err, c.Registry.Close())
	}
	if c.Lab != nil {
		err = errors.Join(err, c.Lab.Close())
	}
	return err
}

// Diagnosis returns every host's journal and the output of the lab's programs for the log
// of a failed test.
func (c *Cluster) Diagnosis(ctx context.Context) string {
	var text strings.Builder
	for _, m := range c.ControlPlane {
		text.WriteString(m.Diagnosis(ctx))
	}
	text.WriteString(c.Lab.Logs())
	return text.String()
}

// Each runs act for all control-plane hosts concurrently.
func (c *Cluster) Each(ctx context.Context, act func(ctx context.Context, i int, m *host.Host) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, m := range c.ControlPlane {
		group.Go(func() error { return act(ctx, i, m) })
	}
	return group.Wait()
}

// On returns the running control-plane hosts.
func (c *Cluster) On() []*host.Host {
	return slices.DeleteFunc(slices.Clone(c.ControlPlane), func(m *host.Host) bool { return !m.On() })
}
