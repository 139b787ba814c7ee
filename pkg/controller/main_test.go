// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	answers "github.com/http01-proxyd/http01-proxyd/pkg/prober/network"
)

// serviceDir, if it is set, makes this test binary the service itself, with all files in
// that directory: signals, exit codes and capabilities belong to a process.
const serviceDir = "HTTP01_PROXYD_TEST_SERVICE"

// serviceTiming has a timing as JSON, see Options.SetTiming.
const serviceTiming = "HTTP01_PROXYD_TEST_TIMING"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		if run, is := children()[os.Args[1]]; is {
			os.Exit(runChild(run))
		}
	}
	if dir := os.Getenv(serviceDir); dir != "" {
		os.Exit(runService(dir))
	}
	nstest.Main(m)
}

// children are the commands that the service starts.
func children() map[string]func(context.Context, *wire.Child) error {
	return map[string]func(context.Context, *wire.Child) error{
		child.Proxy: runProxy, child.Exporter: exporter.RunConfined, child.Prober: answers.RunConfined,
	}
}

func runChild(run func(context.Context, *wire.Child) error) int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	conn, err := child.Connect()
	if err == nil {
		err = run(context.Background(), conn)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runService(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	log, flush := systemd.NewLogger()
	defer flush()
	options := controller.Options{
		HostPaths: config.HostPaths{
			ConfigPath:          dir + "/config.yaml",
			APIServerURLFile:    dir + "/apiserver-url.env",
			StateDir:            dir + "/state",
			StatusSocket:        dir + "/status.sock",
			ManifestDir:         dir + "/manifests",
			DisabledManifestDir: dir + "/disabled-manifests",
			ResolvConf:          dir + "/resolv.conf",
			HostsFile:           dir + "/hosts",
		},
		SystemCABundles: []string{dir + "/system.crt"},
		Version:         "test",
		Log:             log,
		Reload:          reload,
	}
	err := options.SetTiming(os.Getenv(serviceTiming))
	if err == nil {
		err = controller.Run(ctx, options)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
