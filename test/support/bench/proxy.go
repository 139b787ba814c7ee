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

// proxy is one program that serves challenges on the VIP.
type proxy struct {
	key    string // for --proxies
	name   string // as in the table
	prefix bool   // it forwards only the challenge prefix
	start  func(context.Context, *rig) (*runningProxy, error)
	detail func(context.Context, *rig) (string, error) // program and version; nil for a variant
}

// runningProxy is a running proxy.
type runningProxy struct {
	pid  int // root of the proxy's processes; 0 for the kernel's DNAT
	live func() error
	stop func(context.Context) error
}

// serviceKey is the key of the service as it runs on a node.
const serviceKey = "http01-proxyd"

// availableProxies returns all proxies that the options allow, with the reference first.
func (o Options) availableProxies() []proxy {
	all := []proxy{
		{"haproxy", "HAProxy", true, startHAProxy(runtime.NumCPU(), false), versionOf("haproxy", "-v")},
		// When clients and upstream share the cores, one thread can be faster.
		{"haproxy-1", "HAProxy, one thread", true, startHAProxy(1, false), nil},
		{"haproxy-tls", "HAProxy, TLS to nginx", true, startHAProxy(runtime.NumCPU(), true), nil},
		{"nginx", "nginx", true, startNginx, versionOf("nginx", "-v")},
		{serviceKey, "http01-proxyd", true, startService(variant{}), serviceVersion(variant{})},
		{serviceKey + "-nginx", "http01-proxyd, nginx as upstream", true, startService(variant{nginx: true}), nil},
		{serviceKey + "-tls", "http01-proxyd, TLS to nginx", true, startService(variant{nginx: true, secure: true}), nil},
		{
			serviceKey + "-before", "http01-proxyd before", true,
			startService(variant{before: true}), serviceVersion(variant{before: true}),
		},
		{
			serviceKey + "-tls-before", "http01-proxyd before, TLS to nginx", true,
			startService(variant{before: true, nginx: true, secure: true}), nil,
		},
		{"dnat", "kernel DNAT + masquerade", false, startDNAT, versionOf("nft", "--version")},
	}
	if o.Before == "" {
		all = slices.DeleteFunc(all, func(d proxy) bool { return strings.HasSuffix(d.key, "-before") })
	}
	return all
}

// selectedProxies returns the selected proxies in the order of availableProxies.
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
			return nil, fmt.Errorf("unknown proxy %q: choose from %s", key, strings.Join(known, ", "))
		}
	}
	return out, nil
}

// startProxy starts a proxy and waits until it answers.
func (r *rig) startProxy(ctx context.Context, d proxy) (*runningProxy, error) {
	t, err := d.start(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", d.name, err)
	}
	err = lab.Eventually(ctx, d.name, func(ctx context.Context) error {
		return errors.Join(t.live(), r.checkChallenge(ctx, r.vip))
	})
	if err == nil && d.prefix {
		// A proxy that does less work cannot be compared.
		err = r.checkAnswer(ctx, r.vip, "/", "HTTP/1.1 4", "is allowed")
	}
	if err != nil {
		return nil, errors.Join(err, t.stop(context.WithoutCancel(ctx)))
	}
	return t, nil
}

// startProgram starts a proxy that is a separate program.
func (r *rig) startProgram(name, path string, args ...string) (*runningProxy, error) {
	p, err := r.front.Start(lab.Command{Name: name, Path: path, Args: args})
	if err != nil {
		return nil, err
	}
	return &runningProxy{pid: p.PID(), live: p.Alive, stop: func(ctx context.Context) error {
		return ignoreExitStatus(p.Stop(ctx))
	}}, nil
}

// ignoreExitStatus ignores a nonzero exit status of a stopped proxy. A proxy that does not
// exit is an error.
func ignoreExitStatus(err error) error {
	var status interface{ ExitCode() int }
	if errors.As(err, &status) {
		return nil
	}
	return err
}
