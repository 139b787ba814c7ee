// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

//go:embed nginx-upstream.conf.tmpl
var nginxUpstreamTemplate string

//go:embed node.nft
var nodeRules string

// answer is the upstream's answer, as long as a key authorization.
const answer = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0.9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI"

// rig holds the nodes and settings of the benchmark.
type rig struct {
	Options

	lab      *lab.Lab
	front    *lab.Node          // holds the VIP and runs the proxy
	client   *lab.Node          // neighbour with the clients and the upstream
	vip      netip.Addr         // the API VIP
	upstream netip.Addr         // in place of the ingress VIP
	nginx    netip.Addr         // of an upstream that also serves TLS
	programs map[string]string  // compiled programs by folder
	accepted map[variant]string // configurations that the service accepted
	trust    string             // path of the upstream's CA certificate
}

// extraConnections is the number of connections that proxies accept beyond the memory test's
// connections.
const extraConnections = 1000

// maxOpen is the limit on connections of every proxy. Without the memory test it is the same:
// tables of this size are allocated at the start, so that figures would not be comparable.
func (o Options) maxOpen() int { return max(o.HalfHeads, Full().HalfHeads) + extraConnections }

// newRig prepares the lab's master0 and its pod. keepalived is stopped, so that VIPs do not
// move and only the proxy loads the node.
func newRig(ctx context.Context, l *lab.Lab, o Options) (*rig, error) {
	r := &rig{
		Options: o, lab: l, front: l.ControlPlane[0].Node, client: l.Pods[0],
		vip: l.API.V4, upstream: netip.MustParseAddr("10.128.0.60"), nginx: netip.MustParseAddr("10.128.0.61"),
		programs: map[string]string{}, accepted: map[variant]string{},
	}
	// keepalived without CPU time would move the VIP under load.
	for _, m := range l.ControlPlane {
		if err := m.StopKeepalived(ctx); err != nil {
			return nil, fmt.Errorf("stop keepalived: %w", err)
		}
	}
	for _, place := range []struct {
		node    *lab.Node
		address netip.Addr
		link    string
	}{{r.front, r.vip, "pods"}, {r.client, r.upstream, "eth0"}, {r.client, r.nginx, "eth0"}} {
		_, err := place.node.Run(ctx, "ip", "address", "add", place.address.String()+"/32", "dev", place.link)
		if err != nil {
			return nil, err
		}
	}
	for _, n := range []*lab.Node{r.front, r.client} {
		if err := manyConnections(n); err != nil {
			return nil, err
		}
	}
	if _, err := r.front.Input(ctx, nodeRules, "nft", "-f", "-"); err != nil {
		return nil, fmt.Errorf("load the node's own table: %w", err)
	}
	if err := r.compileLean(ctx); err != nil {
		return nil, err
	}
	return r, r.startUpstreams(ctx)
}

// manyConnections keeps closed connections in TIME_WAIT from using up the ports, and raises
// the limit of the listen backlog.
func manyConnections(n *lab.Node) error {
	return n.InNamespace(func() error {
		for key, value := range map[string]string{
			"ipv4/ip_local_port_range": "1024 65535",
			// Connections must not use a port that a server listens on later.
			"ipv4/ip_local_reserved_ports": fmt.Sprintf("%d,%d,%d", servicePort, apiPort, redirectedTo),
			"ipv4/tcp_tw_reuse":            "1",
			"core/somaxconn":               "4096",
			"ipv4/tcp_max_syn_backlog":     "8192",
			"ipv4/tcp_max_tw_buckets":      "8192",
		} {
			if err := os.WriteFile(filepath.Join("/proc/sys/net", key), []byte(value), 0o600); err != nil {
				return fmt.Errorf("set sysctl on %s: %w", n.Name, err)
			}
		}
		return nil
	})
}

func (r *rig) startUpstreams(ctx context.Context) error {
	if err := r.writeIdentity(); err != nil {
		return err
	}
	config, err := r.write(r.client, "nginx-upstream.conf", nginxUpstreamTemplate)
	if err != nil {
		return err
	}
	for at, c := range map[netip.Addr]lab.Command{
		r.upstream: {Name: "upstream", Path: r.programs[upstreamProgram], Args: []string{r.upstream.String(), "80", answer}},
		r.nginx:    {Name: "nginx-upstream", Path: "nginx", Args: []string{"-c", config, "-g", "daemon off;"}},
	} {
		p, err := r.client.Start(c)
		if err != nil {
			return err
		}
		err = lab.Eventually(ctx, c.Name, func(ctx context.Context) error {
			return errors.Join(p.Alive(), r.checkChallenge(ctx, at))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeIdentity writes the upstream's certificate, signed by a CA of the benchmark.
func (r *rig) writeIdentity() error {
	root, err := lab.NewAuthority("Bench CA")
	if err != nil {
		return err
	}
	identity, err := root.Issue(lab.ServerCertificate{Names: []string{host}})
	if err != nil {
		return err
	}
	r.trust = filepath.Join(r.front.Dir, "bench-ca.crt")
	for path, text := range map[string][]byte{
		r.trust: root.Certificate(),
		filepath.Join(r.client.Dir, "upstream.crt"): identity.Chain,
		filepath.Join(r.client.Dir, "upstream.key"): identity.Key,
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return fmt.Errorf("write the upstream's certificate: %w", err)
		}
	}
	return nil
}

// write renders a configuration template and returns the path of the file.
func (r *rig) write(n *lab.Node, name, text string) (string, error) {
	tmpl, err := template.New(name).Parse(text)
	if err != nil {
		return "", fmt.Errorf("parse the template of %s: %w", name, err)
	}
	var out strings.Builder
	err = tmpl.Execute(&out, map[string]any{
		"VIP": r.vip, "Upstream": r.upstream, "Nginx": r.nginx, "Dir": n.Dir, "Answer": answer, "Open": r.maxOpen(),
	})
	if err != nil {
		return "", fmt.Errorf("render %s: %w", name, err)
	}
	path := filepath.Join(n.Dir, name)
	if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return path, nil
}

// checkChallenge requests a challenge once and checks the answer.
func (r *rig) checkChallenge(ctx context.Context, at netip.Addr) error {
	return r.checkAnswer(ctx, at, "/.well-known/acme-challenge/probe", "HTTP/1.1 200 ", answer)
}

func (r *rig) checkAnswer(ctx context.Context, at netip.Addr, path, begin, contained string) error {
	text, err := r.client.Raw(ctx, netip.AddrPortFrom(at, 80).String(),
		"GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
	if err == nil && (!strings.HasPrefix(text, begin) || !strings.Contains(text, contained)) {
		err = fmt.Errorf("GET %s from %s: answer %.300q", path, at, text)
	}
	return err
}
