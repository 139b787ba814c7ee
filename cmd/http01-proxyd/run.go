// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
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

func runCommand() command.Command {
	return command.Command{
		Name:    "run",
		Summary: "run the service in the foreground, as the unit does",
		Help: `Run the service in the foreground until SIGTERM or SIGINT. It needs the
capability CAP_NET_ADMIN. SIGHUP reloads the configuration; so does changing it.

Examples:
  # as the unit does
  http01-proxyd run

  # a second instance beside it, in a network namespace of its own
  ip netns exec lab http01-proxyd run --config /tmp/lab/config.yaml \
    --state-dir /tmp/lab/state --status-socket /tmp/lab/status.sock \
    --manifests /tmp/lab/manifests --disabled-manifests /tmp/lab/disabled-manifests`,
		Setup: func(flags *flag.FlagSet) func(context.Context, command.Streams) error {
			o := controller.Options{Version: command.Version(), SystemCABundles: trust.SystemFiles()}
			flags.StringVar(&o.ConfigPath, "config", defaultConfig, "configuration `FILE`; absent means the defaults")
			flags.StringVar(&o.StateDir, "state-dir", defaultState, "`DIR` of what was accepted last; its parent has to be there")
			flags.StringVar(&o.StatusSocket, "status-socket", defaultSocket, "unix `SOCKET` that \"http01-proxyd status\" asks")
			flags.StringVar(&o.Manifests, "manifests", defaultManifests, "kubelet's `DIR` of static pods, keepalived's among them")
			flags.StringVar(&o.DisabledManifests, "disabled-manifests", defaultDisabledManifests,
				"`DIR` where keepalived's lies instead when the VIPs are user-managed")
			flags.StringVar(&o.APIServerURLFile, "apiserver-url", defaultAPIServerURL,
				"`FILE` that names the API, for the expiry watch without hosts")
			flags.StringVar(&o.ResolvConf, "resolv-conf", defaultResolvConf, "`FILE` that names the DNS servers")
			flags.StringVar(&o.HostsFile, "hosts", defaultHosts, "`FILE` of names and addresses, which comes before the DNS")
			return func(ctx context.Context, _ command.Streams) error {
				if err := makeAbsolute(&o.ConfigPath, &o.StateDir, &o.StatusSocket, &o.Manifests, &o.DisabledManifests, &o.APIServerURLFile, &o.ResolvConf, &o.HostsFile); err != nil {
					return err
				}
				if err := requireParent(flags, "state-dir", o.StateDir); err != nil {
					return err
				}
				if err := requireParent(flags, "status-socket", filepath.Dir(o.StatusSocket)); err != nil {
					return err
				}
				reload := make(chan os.Signal, 1)
				signal.Notify(reload, syscall.SIGHUP)
				defer signal.Stop(reload)
				if os.Getenv("GOGC") == "" {
					debug.SetGCPercent(gcPercent)
				}
				if os.Getenv("GOMEMLIMIT") != "" { // of all processes together
					debug.SetMemoryLimit(child.ControllerMemory)
				}
				if err := sandbox.BecomeSubreaper(); err != nil {
					return err
				}
				log, flush := systemd.NewLogger()
				defer flush()
				o.Reload, o.Log = reload, log
				return controller.Run(ctx, o)
			}
		},
	}
}

// requireParent refuses a directory of a given flag whose parent does not exist either:
// that is probably a typing error, and root could create it unnoticed. systemd creates
// the directories of the unit.
func requireParent(flags *flag.FlagSet, name, dir string) error {
	given := false
	flags.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if !given {
		return nil
	}
	for _, d := range []string{filepath.Dir(dir), dir} {
		info, err := os.Stat(d)
		switch {
		case errors.Is(err, fs.ErrNotExist) && d == dir: // it will be made
		case errors.Is(err, fs.ErrNotExist):
			return command.UsageError(fmt.Sprintf("--%s: there is no %s: make it first, or give another", name, d))
		case err != nil:
			return fmt.Errorf("look at the directory of --%s: %w", name, err)
		case !info.IsDir():
			return command.UsageError(fmt.Sprintf("--%s: %s is no directory: give another", name, d))
		}
	}
	return nil
}

// makeAbsolute makes paths absolute: messages contain them, and files are watched by
// them.
func makeAbsolute(paths ...*string) error {
	for _, path := range paths {
		whole, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("find out where %s is: %w", *path, err)
		}
		*path = whole
	}
	return nil
}
