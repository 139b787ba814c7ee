// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Names and paths. RFC 5737 and RFC 4193 reserve these networks.
const (
	unit           = "http01-proxyd.service"
	unitPath       = "/etc/systemd/system/http01-proxyd.service"
	companion      = "http01-proxyd-table.service"
	companionPath  = "/etc/systemd/system/" + companion
	binaryPath     = "/usr/local/bin/http01-proxyd"
	configPath     = "/etc/http01-proxyd/config.yaml"
	keepalivedConf = "/etc/keepalived/keepalived.conf"
	dropIn         = "/etc/systemd/system/http01-proxyd.service.d/50-test.conf"
	bridge         = "br0"
)

// pair is one address of each family.
type pair [2]netip.Addr

func address(host int) pair {
	return pair{
		netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", host)),
		netip.MustParseAddr(fmt.Sprintf("fd4e:5f2a:9c01:1::%d", host)),
	}
}

func (p pair) onLink() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(p[0], 24), netip.PrefixFrom(p[1], 64)}
}

// testbed is a booted control-plane host and a worker, with this process as a client on their
// network.
type testbed struct {
	cell             *host.Cell
	api, ingress     pair // the VIPs
	client           pair
	nodeIP, workerIP pair

	node, worker *host.Host
	router       *router
}

func newTestbed(ctx context.Context, c *host.Cell, tree, binary string) (*testbed, error) {
	s := &testbed{
		cell: c, api: address(5), ingress: address(6), client: address(100), nodeIP: address(11),
		workerIP: address(21),
	}
	if err := c.AddBridge(ctx, bridge, s.client.onLink()...); err != nil {
		return nil, err
	}
	var err error
	if s.node, err = c.NewHost(host.Options{
		Name: "master", Tree: tree, Bridge: bridge,
		Addresses: s.nodeIP.onLink(),
	}); err != nil {
		return nil, err
	}
	if s.worker, err = c.NewHost(host.Options{
		Name: "worker", Tree: tree, Bridge: bridge,
		Addresses: s.workerIP.onLink(),
	}); err != nil {
		return nil, err
	}
	err = errors.Join(
		s.node.Install(binary, binaryPath, 0o755),
		s.node.Install(filepath.Join(host.Repository(), "systemd", unit), unitPath, 0o644),
		s.node.Install(filepath.Join(host.Repository(), "systemd", companion), companionPath, 0o644),
		s.worker.WriteFile(keepalivedConf, s.workerKeepalived(), 0o644),
	)
	if err != nil {
		return nil, err
	}
	// Others may have more than units get by default (TestProcessesOfSameUser).
	err = s.node.WriteFile("/etc/systemd/system.conf.d/50-limits.conf",
		"[Manager]\nDefaultLimitNPROC=500\nDefaultLimitSIGPENDING=1000\n", 0o644)
	if err != nil {
		return nil, err
	}
	group, both := errgroup.WithContext(ctx)
	group.Go(func() error { return s.node.Boot(both) })
	group.Go(func() error { return s.worker.Boot(both) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	s.router, err = newRouter(ctx, s.worker)
	return s, err
}

func (s *testbed) close(ctx context.Context) error {
	return errors.Join(s.router.stop(), s.node.PowerOff(ctx), s.worker.PowerOff(ctx), s.node.Close(ctx),
		s.worker.Close(ctx))
}

// instance is one block of keepalived.conf.
func instance(name string, id, priority int, own, peer, vip netip.Addr) lab.VRRPInstance {
	return lab.VRRPInstance{
		Name: name, RouterID: id, Priority: priority, Source: own, Peers: []netip.Addr{peer}, VIP: vip,
		Password: "lab_vip",
	}
}

// keepalivedConf has both VIPs. The worker's instances have a higher priority for the
// ingress.
func (s *testbed) keepalivedConf() string {
	var all []lab.VRRPInstance
	for i := range 2 {
		all = append(all,
			instance(fmt.Sprintf("lab_API_%d", i), 57, 40, s.nodeIP[i], s.workerIP[i], s.api[i]),
			instance(fmt.Sprintf("lab_INGRESS_%d", i), 58, 20, s.nodeIP[i], s.workerIP[i], s.ingress[i]))
	}
	return render(all)
}

func (s *testbed) workerKeepalived() string {
	var all []lab.VRRPInstance
	for i := range 2 {
		all = append(all, instance(fmt.Sprintf("lab_INGRESS_%d", i), 58, 40, s.workerIP[i], s.nodeIP[i], s.ingress[i]))
	}
	return render(all)
}

func render(instances []lab.VRRPInstance) string {
	text, err := lab.RenderKeepalived(host.Link, instances)
	if err != nil {
		panic(err)
	}
	return string(text)
}
