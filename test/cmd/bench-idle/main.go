// SPDX-License-Identifier: Apache-2.0

// Command bench-idle measures in a lab what the idle service costs on the holder of the VIPs
// and on standby, beside the lab's keepalived and HAProxy and an nginx that serves nothing. It
// prints results and asserts nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// settle is the time from the start of all programs to the measurement.
const settle = 20 * time.Second

// nginxConfig is an nginx with one worker and no traffic.
const nginxConfig = `daemon off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/nginx-body;
	proxy_temp_path %[1]s/nginx-proxy;
	fastcgi_temp_path %[1]s/nginx-fastcgi;
	uwsgi_temp_path %[1]s/nginx-uwsgi;
	scgi_temp_path %[1]s/nginx-scgi;
	server { listen 127.0.0.1:8081; }
}
`

func main() {
	binary := flag.String("binary", "", "path of the http01-proxyd to measure (default: built from the repository)")
	before := flag.String("before", "", "path of another http01-proxyd to measure first (default: none)")
	duration := flag.Duration("for", time.Minute, "duration of a measurement")
	flag.Parse()
	if err := lab.Run(*binary, func(ctx context.Context, l *lab.Lab, binary string) error {
		return run(ctx, l, []string{*before, binary}, *duration)
	}); err != nil {
		fmt.Fprintln(os.Stderr, "bench-idle:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, l *lab.Lab, binaries []string, duration time.Duration) error {
	if err := startNginx(l.ControlPlane[0].Node); err != nil {
		return err
	}
	for _, binary := range binaries {
		if binary == "" {
			continue
		}
		fmt.Println(binary)
		if err := measure(ctx, l, binary, duration); err != nil {
			return err
		}
	}
	return nil
}

func startNginx(n *lab.Node) error {
	path := filepath.Join(n.Dir, "nginx.conf")
	if err := os.WriteFile(path, fmt.Appendf(nil, nginxConfig, n.Dir), 0o600); err != nil {
		return fmt.Errorf("write the configuration of nginx: %w", err)
	}
	_, err := n.Start(lab.Command{Name: "nginx", Path: "nginx", Args: []string{"-c", path}})
	return err
}

// measure runs the service on each control-plane node with metrics and the default interval of
// the tests between hosts, and prints what each process costs.
func measure(ctx context.Context, l *lab.Lab, binary string, duration time.Duration) (err error) {
	for _, node := range l.ControlPlane {
		s, err := node.StartService(ctx, lab.ServiceOptions{
			Binary: binary, Env: lab.UnitEnvironment(),
			Config: node.TestConfig(15*time.Second) + "metrics:\n  listenAddress: :9645\n",
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Stop(context.WithoutCancel(ctx))) }()
	}
	if err := wait(ctx, settle); err != nil {
		return err
	}
	first, err := snapshot(ctx)
	if err != nil {
		return err
	}
	if err := wait(ctx, duration); err != nil {
		return err
	}
	last, err := snapshot(ctx)
	if err != nil {
		return err
	}
	printTable(first, last, duration)
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
