// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

//go:embed haproxy.cfg.tmpl
var haproxyTemplate string

//go:embed nginx.conf.tmpl
var nginxTemplate string

//go:embed dnat.nft.tmpl
var dnatTemplate string

// startHAProxy runs HAProxy. secure means TLS to nginx.
func startHAProxy(threads int, secure bool) func(context.Context, *rig) (*runningProxy, error) {
	return func(_ context.Context, r *rig) (*runningProxy, error) {
		server := r.upstream.String() + ":80"
		if secure {
			server = fmt.Sprintf("%s:443 ssl verify required ca-file %s verifyhost %s sni str(%s)", r.nginx, r.trust, host, host)
		}
		text := strings.NewReplacer("{{ .Threads }}", strconv.Itoa(threads), "{{ .Server }}", server).Replace(haproxyTemplate)
		config, err := r.write(r.front, "haproxy.cfg", text)
		if err != nil {
			return nil, err
		}
		return r.startProgram("haproxy", "haproxy", "-db", "-f", config)
	}
}

func startNginx(_ context.Context, r *rig) (*runningProxy, error) {
	config, err := r.write(r.front, "nginx.conf", nginxTemplate)
	if err != nil {
		return nil, err
	}
	return r.startProgram("nginx", "nginx", "-c", config, "-g", "daemon off;")
}

// startDNAT redirects port 80 to the ingress with DNAT in the kernel, as a MachineConfig
// with nftables rules would.
func startDNAT(ctx context.Context, r *rig) (*runningProxy, error) {
	rules, err := r.write(r.front, "dnat.nft", dnatTemplate)
	if err != nil {
		return nil, err
	}
	if _, err := r.front.Run(ctx, "nft", "-f", rules); err != nil {
		return nil, fmt.Errorf("load the rules: %w", err)
	}
	return &runningProxy{live: func() error { return nil }, stop: func(ctx context.Context) error {
		_, err := r.front.Run(ctx, "nft", "delete", "table", "ip", "bench_dnat")
		return err
	}}, nil
}

// versionOf returns the first line that a program prints, whatever its exit status.
func versionOf(program string, args ...string) func(context.Context, *rig) (string, error) {
	return func(ctx context.Context, _ *rig) (string, error) {
		text, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
		line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
		if line == "" {
			return "", fmt.Errorf("%s %s printed no version: %w", program, strings.Join(args, " "), err)
		}
		return line, nil
	}
}
