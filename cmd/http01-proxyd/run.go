// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
	"github.com/http01-proxyd/http01-proxyd/internal/startup"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
)

// Paths on a host of a cluster.
const (
	defaultConfig            = "/etc/http01-proxyd/config.yaml"
	defaultState             = "/var/lib/http01-proxyd/state"
	defaultSocket            = "/run/http01-proxyd/status.sock"
	defaultManifests         = "/etc/kubernetes/manifests"
	defaultDisabledManifests = "/etc/kubernetes/disabled-manifests"
	defaultAPIServerURL      = "/etc/kubernetes/apiserver-url.env"
	defaultResolvConf        = "/etc/resolv.conf"
	defaultHosts             = "/etc/hosts"
)

// gcPercent limits the garbage of status reports. The controller is idle most of the
// time, and a scrape or a status every few seconds would cost 5 MiB more. The proxy
// uses the default of the runtime.
const gcPercent = 50

// controllerThreads is the number of threads that wait for work once the controller runs. With
// them it continues when this host, or the unit, permits no more threads.
const controllerThreads = 16

func runCommand() *cobra.Command {
	o := controller.Options{Version: cli.Version(), SystemCABundles: trust.SystemFiles()}
	c := &cobra.Command{
		Use: "run", Short: "run the service in the foreground, as the unit does",
		Long: `Run the service in the foreground until SIGTERM or SIGINT. Requires
CAP_NET_ADMIN. SIGHUP, or a change of the file, reloads the configuration.`,
		Example: `  # as the unit does
  http01-proxyd run

  # a second instance, in a separate network namespace
  ip netns exec lab http01-proxyd run --config /tmp/lab/config.yaml \
    --state-dir /tmp/lab/state --status-socket /tmp/lab/status.sock \
    --manifests /tmp/lab/manifests --disabled-manifests /tmp/lab/disabled-manifests`,
		RunE: func(c *cobra.Command, _ []string) error {
			err := makeAbsolute(&o.ConfigPath, &o.StateDir, &o.StatusSocket, &o.ManifestDir, &o.DisabledManifestDir,
				&o.APIServerURLFile, &o.ResolvConf, &o.HostsFile)
			if err != nil {
				return err
			}
			reload := make(chan os.Signal, 1)
			signal.Notify(reload, syscall.SIGHUP)
			defer signal.Stop(reload)
			startup.DisableHugePages()
			startup.ReleaseMemory()
			runtime.GOMAXPROCS(1)
			sandbox.StartThreads(controllerThreads)
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(gcPercent)
			}
			if os.Getenv("GOMEMLIMIT") != "" { // the limit of all processes
				debug.SetMemoryLimit(child.ControllerMemory)
			}
			if err := sandbox.BecomeSubreaper(); err != nil {
				return err
			}
			log, flush := systemd.NewLogger()
			defer flush()
			o.Reload, o.Log = reload, log
			return controller.Run(c.Context(), o)
		},
	}
	flags := c.Flags()
	addVIPSources(flags, &o.HostPaths)
	addAPIServerURL(flags, &o.HostPaths)
	flags.StringVar(&o.ResolvConf, "resolv-conf", defaultResolvConf, "`FILE` with the DNS servers")
	flags.StringVar(&o.HostsFile, "hosts", defaultHosts, "`FILE` of names and addresses that takes precedence over DNS")
	return c
}

// addAPIServerURL adds the flag for the file with the name of the API.
func addAPIServerURL(flags *pflag.FlagSet, paths *config.HostPaths) {
	flags.StringVar(&paths.APIServerURLFile, "apiserver-url", defaultAPIServerURL,
		"`FILE` with the name of the API; without hosts, challenges are accepted for this name only")
}

// makeAbsolute makes paths absolute: messages contain them, and files are watched by
// them.
func makeAbsolute(paths ...*string) error {
	for _, path := range paths {
		whole, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("cannot make the path %s absolute: %w", *path, err)
		}
		*path = whole
	}
	return nil
}
