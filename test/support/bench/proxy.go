// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// proxy is one way to serve challenges on the VIP.
type proxy struct {
	key    string // for --doors and the chart
	name   string // as in the table
	prefix bool   // it lets the challenges' prefix through and nothing else
	start  func(context.Context, *rig) (*turn, error)
	detail func(context.Context, *rig) (string, error) // program and version; nil for a variant
}

// measureRound is a front door that runs.
type turn struct {
	pid  int // of the process whose descendants are the front door; 0 for the kernel's
	live func() error
	stop func(context.Context) error
}

// serviceKey is the key of the service as it runs on a node.
const serviceKey = "http01-proxyd"

// availableProxies lists all that these options allow, the reference first.
func (o Options) availableProxies() []proxy {
	all := []proxy{
		{"haproxy", "HAProxy", true, startHAProxy(runtime.NumCPU()), versionOf("haproxy", "-v")},
		// Where clients and upstream share the cores, one thread can do better.
		{"haproxy-1", "HAProxy, one thread", true, startHAProxy(1), nil},
		{"nginx", "nginx", true, startNginx, versionOf("nginx", "-v")},
		{serviceKey, "http01-proxyd", true, startService(variant{}), serviceVersion(variant{})},
		{serviceKey + "-tls", "http01-proxyd, TLS to the upstream", true, startService(variant{secure: true}), nil},
		{serviceKey + "-before", "http01-proxyd before", true, startService(variant{before: true}), serviceVersion(variant{before: true})},
		{"caddy", "Caddy", true, startCaddy, caddyVersion},
		{"poc", "proof of concept", true, startPoC, pocVersion},
		{"dnat", "kernel DNAT + masquerade", false, startDNAT, versionOf("nft", "--version")},
	}
	if o.Before == "" {
		all = slices.DeleteFunc(all, func(d proxy) bool { return d.key == serviceKey+"-before" })
	}
	return all
}

// selectedProxies are the doors that are asked for, in the order of doors.
func (o Options) selectedProxies() ([]proxy, error) {
	keys := o.Proxies
	if len(keys) == 0 {
		return o.availableProxies(), nil
	}
	var out []proxy
	var known []string
	for _, d := range o.availableProxies() {
		known = append(known, d.key)
		if slices.Contains(keys, d.key) {
			out = append(out, d)
		}
	}
	for _, key := range keys {
		if !slices.Contains(known, key) {
			return nil, fmt.Errorf("there is no front door %q: choose from %s", key, strings.Join(known, ", "))
		}
	}
	return out, nil
}

// startProxy starts a front door and waits until it does its work.
func (r *rig) startProxy(ctx context.Context, d proxy) (*turn, error) {
	t, err := d.start(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", d.name, err)
	}
	err = lab.Eventually(ctx, d.name, func(ctx context.Context) error {
		return errors.Join(t.live(), r.checkChallenge(ctx, r.vip))
	})
	if err == nil && d.prefix {
		// A door that does less work than the others would be no comparison.
		err = r.checkAnswer(ctx, r.vip, "/", "HTTP/1.1 4", "is allowed")
	}
	if err != nil {
		return nil, errors.Join(err, t.stop(context.WithoutCancel(ctx)))
	}
	return t, nil
}

// startProgram starts a front door that is a program of its own.
func (r *rig) startProgram(name, path string, args ...string) (*turn, error) {
	p, err := r.front.Start(lab.Command{Name: name, Path: path, Args: args})
	if err != nil {
		return nil, err
	}
	return &turn{pid: p.PID(), live: p.Alive, stop: func(ctx context.Context) error {
		return ignoreExitStatus(p.Stop(ctx))
	}}, nil
}

// ignoreExitStatus forgives a front door that exits with another status than 0 when it
// is told to end; one that does not end is an error.
func ignoreExitStatus(err error) error {
	var status interface{ ExitCode() int }
	if errors.As(err, &status) {
		return nil
	}
	return err
}
