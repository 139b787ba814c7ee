// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"text/template"

	"github.com/google/go-cmp/cmp"
)

//go:embed frr.conf.tmpl
var frrTemplate string

// The private AS numbers of RFC 6996 that OpenShift's development environment uses.
const (
	nodesAS   = 64512
	gatewayAS = 64513
)

// VIPTable is the routing table in which kube-vip keeps a route to each VIP of the node.
const VIPTable = 198

// vipProtocol is the protocol of these routes.
const vipProtocol = 248

// BGP announces the VIPs of a lab without keepalived, as OpenShift does with vipManagement
// BGP: FRR on each node with VIPs announces them to FRR on the gateway, which distributes the
// connections over all of these nodes (ECMP). The VIPs are on a network of their own, so that
// nobody reaches them without BGP.
//
// OpenShift's FRR announces the routes in routing table 198. FRR before version 9 cannot do
// that for IPv6, so here it announces the addresses, which kube-vip adds and removes together
// with these routes.
type BGP struct {
	lab    *Lab
	bgpd   map[string]*Process // by node name
	routes map[netip.Addr][]*Node
}

// StartBGP moves the VIPs of a lab without keepalived to their own network, starts FRR, and
// writes the manifests of kube-vip's static pods. No node holds a VIP yet.
func (l *Lab) StartBGP(ctx context.Context) (*BGP, error) {
	if !l.layout.NoVIPs || l.Worker == nil {
		return nil, errors.New("BGP needs a lab without keepalived and with a worker")
	}
	if _, err := exec.LookPath(frrProgram("bgpd")); err != nil {
		return nil, fmt.Errorf("FRR is missing: run test/install-packages all: %w", err)
	}
	l.API, l.Ingress = outside(5), outside(7)
	b := &BGP{lab: l, bgpd: map[string]*Process{}, routes: map[netip.Addr][]*Node{}}
	// Without ports in the hash, all connections of a client take one path.
	err := l.Gateway.writeSysctls(map[string]string{
		"ipv4/fib_multipath_hash_policy": "1",
		"ipv6/fib_multipath_hash_policy": "1",
	})
	if err != nil {
		return nil, err
	}
	nodes := []*Node{l.Gateway, l.Worker.Node}
	for _, m := range l.ControlPlane {
		nodes = append(nodes, m.Node)
	}
	for _, n := range nodes {
		if err := b.writeManifests(n); err != nil {
			return nil, err
		}
		if err := b.startFRR(n); err != nil {
			return nil, err
		}
	}
	for _, n := range nodes[1:] {
		if err := b.awaitSession(ctx, n); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// frrProgram returns the path of a daemon of FRR, which is in no directory of PATH.
func frrProgram(name string) string {
	for _, dir := range []string{"/usr/lib/frr", "/usr/libexec/frr"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name)
		}
	}
	return name
}

// frrDir returns the directory of FRR's sockets on a node.
func frrDir(n *Node) string { return filepath.Join(n.Dir, "frr") }

// writeManifests writes the static pods of kube-vip for a node, and disables keepalived.
func (b *BGP) writeManifests(n *Node) error {
	if n == b.lab.Gateway {
		return nil
	}
	api := b.lab.API
	if n == b.lab.Worker.Node {
		api = Pair{}
	}
	for path, text := range n.KubeVIPPods(api, b.lab.Ingress) {
		if err := writeFile(path, []byte(text)); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(n.DisabledManifests(), "keepalived.yaml"), []byte("kind: Pod\n"))
}

// KubeVIPPods returns the manifests of kube-vip's static pods on a node by path, with the file
// names of the machine-config-operator (pull request 6326).
func (n *Node) KubeVIPPods(api, ingress Pair) map[string]string {
	all := map[string]string{}
	for name, vip := range map[string]netip.Addr{
		"0010-kube-vip-api": api.V4, "0011-kube-vip-api-secondary": api.V6,
		"0020-kube-vip-ingress": ingress.V4, "0021-kube-vip-ingress-secondary": ingress.V6,
	} {
		if vip.IsValid() {
			all[filepath.Join(n.Manifests(), name+".yaml")] = KubeVIPManifest(name[len("0010-"):], vip.String())
		}
	}
	return all
}

// KubeVIPManifest returns the manifest of a static pod of kube-vip for one VIP.
func KubeVIPManifest(name, vip string) string {
	return fmt.Sprintf(`---
kind: Pod
apiVersion: v1
metadata:
  name: %s
  namespace: openshift-kube-vip
spec:
  hostNetwork: true
  containers:
  - name: kube-vip
    args:
    - manager
    env:
    - name: address
      value: "%s"
    - name: vip_routingtable
      value: "true"
    - name: vip_routingtableid
      value: "%d"
`, name, vip, VIPTable)
}

// frrConfig is the data of FRR's configuration.
type frrConfig struct {
	Name       string
	AS, PeerAS int
	RouterID   netip.Addr
	Peers      []netip.Addr // none on the gateway, which accepts its peers from Networks
	Networks   []netip.Prefix
	Families   []string
	VIPs       []netip.Prefix
}

// PeersOf returns the peers of an address family.
func (c frrConfig) PeersOf(family string) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(c.Peers), func(a netip.Addr) bool { return a.Is4() != (family == "ipv4") })
}

func (b *BGP) startFRR(n *Node) error {
	l := b.lab
	c := frrConfig{
		Name: n.Name, AS: nodesAS, PeerAS: gatewayAS, RouterID: n.Addresses.V4,
		Peers: l.Gateway.Addresses.Both(), Families: []string{"ipv4", "ipv6"},
	}
	for _, vip := range slices.Concat(l.AllAPI(), l.AllIngress()) {
		c.VIPs = append(c.VIPs, netip.PrefixFrom(vip, vip.BitLen()))
	}
	if n == l.Gateway {
		c.AS, c.PeerAS, c.Peers = gatewayAS, nodesAS, nil
		for _, a := range n.Addresses.Both() {
			c.Networks = append(c.Networks, onLink(a).Masked())
		}
	}
	tmpl, err := template.New("frr.conf").Parse(frrTemplate)
	if err != nil {
		return fmt.Errorf("parse FRR's template: %w", err)
	}
	var text bytes.Buffer
	if err := tmpl.Execute(&text, c); err != nil {
		return fmt.Errorf("render FRR's configuration: %w", err)
	}
	if err := writeFile(filepath.Join(frrDir(n), "frr.conf"), text.Bytes()); err != nil {
		return err
	}
	if _, err := startDaemon(n, "zebra"); err != nil {
		return err
	}
	b.bgpd[n.Name], err = startDaemon(n, "bgpd")
	return err
}

// frrMounts prepares the mounts of a daemon, and starts it.
const frrMounts = `mount -t tmpfs none /var/tmp &&
sed 's/^frrvty:.*[^:]$/&,root/; s/^frrvty:.*:$/&root/' /etc/group >/var/tmp/group && mount --bind /var/tmp/group /etc/group &&
exec "$@"`

// startDaemon starts a daemon of FRR as root, which can use the node's directory. Its view of
// the file system contains another /var/tmp, where it would leave files, and another
// /etc/group: it runs only as a member of its vty group.
func startDaemon(n *Node, name string) (*Process, error) {
	dir := frrDir(n)
	args := []string{
		"--mount", "sh", "-c", frrMounts, name,
		frrProgram(name), "--user", "root", "--group", "root", "--vty_port", "0", "--vty_socket", dir,
		"--config_file", filepath.Join(dir, "frr.conf"), "--socket", filepath.Join(dir, "zserv.api"), "--pid_file",
		filepath.Join(dir, name+".pid"),
	}
	return n.Start(Command{Name: name, Path: "unshare", Args: args})
}

// awaitSession waits for a node's BGP sessions with the gateway.
func (b *BGP) awaitSession(ctx context.Context, n *Node) error {
	return Eventually(ctx, "the BGP sessions of "+n.Name, func(ctx context.Context) error {
		if err := b.bgpd[n.Name].Alive(); err != nil {
			return err
		}
		text, err := n.Run(ctx, "env", "HOME="+frrDir(n), "vtysh", "--vty_socket", frrDir(n), "-c",
			"show bgp summary established json")
		if err != nil {
			return err
		}
		var families map[string]struct {
			Peers map[string]any `json:"peers"`
		}
		if err := json.Unmarshal([]byte(text), &families); err != nil {
			return fmt.Errorf("read the sessions: %w: %.300s", err, text)
		}
		established := 0
		for _, f := range families {
			established += len(f.Peers)
		}
		if want := len(b.lab.Gateway.Addresses.Both()); established != want {
			return fmt.Errorf("%d sessions, want %d: %s", established, want, text)
		}
		return nil
	})
}

// Hold adds VIPs to a node, and their routes for FRR, as kube-vip does while the node's
// health check succeeds (pkg/cluster/service.go). It waits until the gateway uses them.
func (b *BGP) Hold(ctx context.Context, n *Node, vips ...netip.Addr) error {
	for _, vip := range vips {
		if err := AddVIP(ctx, n, vip); err != nil {
			return err
		}
		b.routes[vip] = append(b.routes[vip], n)
	}
	return b.AwaitRoutes(ctx)
}

// AddVIP adds a VIP and its route for FRR to a node.
func AddVIP(ctx context.Context, n *Node, vip netip.Addr) error {
	return n.vip(ctx, "add", vip)
}

// RemoveVIP removes what AddVIP added.
func RemoveVIP(ctx context.Context, n *Node, vip netip.Addr) error {
	return n.vip(ctx, "del", vip)
}

func (n *Node) vip(ctx context.Context, change string, vip netip.Addr) error {
	prefix := netip.PrefixFrom(vip, vip.BitLen()).String()
	address := []string{"address", change, prefix, "dev", uplink}
	if change == "add" {
		address = append(address, "preferred_lft", "0")
		if vip.Is6() {
			address = append(address, "nodad")
		}
	}
	_, err := n.Run(ctx, "ip", address...)
	if err == nil {
		_, err = n.Run(ctx, "ip", "route", change, prefix, "dev", uplink, "table", strconv.Itoa(VIPTable), "proto",
			strconv.Itoa(vipProtocol))
	}
	return err
}

// Release removes VIPs from a node, as kube-vip does when the health check fails, and waits
// until the gateway does not use them.
func (b *BGP) Release(ctx context.Context, n *Node, vips ...netip.Addr) error {
	for _, vip := range vips {
		if err := RemoveVIP(ctx, n, vip); err != nil {
			return err
		}
		b.forget(n, vip)
	}
	return b.AwaitRoutes(ctx)
}

func (b *BGP) forget(n *Node, vip netip.Addr) {
	b.routes[vip] = slices.DeleteFunc(b.routes[vip], func(m *Node) bool { return m == n })
}

// KillBGP kills FRR on a node, which keeps its VIPs, and waits until the gateway does not
// send connections there any more.
func (b *BGP) KillBGP(ctx context.Context, n *Node) error {
	if err := b.bgpd[n.Name].Kill(ctx); err != nil {
		return err
	}
	for vip := range b.routes {
		b.forget(n, vip)
	}
	return b.AwaitRoutes(ctx)
}

// AwaitRoutes waits until the gateway routes each VIP over exactly the nodes that announce it.
func (b *BGP) AwaitRoutes(ctx context.Context) error {
	for vip, nodes := range b.routes {
		var want []string
		for _, n := range nodes {
			want = append(want, n.Addresses.Like(vip).String())
		}
		slices.Sort(want)
		err := Eventually(ctx, fmt.Sprintf("the routes to %v over %v", vip, want), func(ctx context.Context) error {
			got, err := b.nextHops(ctx, vip)
			if diff := cmp.Diff(want, got); err == nil && diff != "" {
				err = fmt.Errorf("next hops (-want +got):\n%s", diff)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// nextHops returns the sorted next hops of the gateway's route to a VIP that BGP added.
func (b *BGP) nextHops(ctx context.Context, vip netip.Addr) ([]string, error) {
	text, err := b.lab.Gateway.Run(ctx, "env", "HOME="+frrDir(b.lab.Gateway), "vtysh", "--vty_socket",
		frrDir(b.lab.Gateway), "-c",
		fmt.Sprintf("show %s route %v json", map[bool]string{true: "ip", false: "ipv6"}[vip.Is4()],
			netip.PrefixFrom(vip, vip.BitLen())))
	if err != nil {
		return nil, err
	}
	var routes map[string][]struct {
		Protocol  string `json:"protocol"`
		Installed bool   `json:"installed"`
		NextHops  []struct {
			IP  string `json:"ip"`
			FIB bool   `json:"fib"`
		} `json:"nexthops"`
	}
	if err := json.Unmarshal([]byte(text), &routes); err != nil {
		return nil, fmt.Errorf("read the routes: %w: %.300s", err, text)
	}
	var all []string
	for _, list := range routes {
		for _, r := range list {
			for _, hop := range r.NextHops {
				if r.Protocol == "bgp" && r.Installed && hop.FIB {
					all = append(all, hop.IP)
				}
			}
		}
	}
	slices.Sort(all)
	return all, nil
}
