// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ServiceOptions says how the service is to run on a node.
type ServiceOptions struct {
	Binary string // the http01-proxyd to run
	Config string // text of its configuration file; the lab's default when empty
	Keep   bool   // leave the configuration file as it is, or absent
	Env    []string
	Wrap   []string // a command that is to start the service, such as setpriv with its arguments
}

// Service is one http01-proxyd that runs on a node.
type Service struct {
	*Process
	Notifications *Notifications

	node   *Node
	binary string
}

// serviceFile is the path of one of the files of the node's service.
func (n *Node) serviceFile(name string) string { return filepath.Join(n.Dir, "service", name) }

// KeepalivedConfig is where the node's keepalived.conf is, or would be.
func (n *Node) KeepalivedConfig() string {
	return filepath.Join(n.Dir, "keepalived", "keepalived.conf")
}

// DisabledManifests is the directory that stands for kubelet's
// /etc/kubernetes/disabled-manifests.
func (n *Node) DisabledManifests() string { return n.serviceFile("disabled-manifests") }

// Manifests is the directory that stands for kubelet's /etc/kubernetes/manifests.
func (n *Node) Manifests() string { return n.serviceFile("manifests") }

// APIServerURL stands for /etc/kubernetes/apiserver-url.env, which tells the API's
// name; it is absent unless somebody writes it.
func (n *Node) APIServerURL() string { return n.serviceFile("apiserver-url.env") }

// ProxyEnv stands for /etc/mco/proxy.env, which is absent as a rule.
func (n *Node) ProxyEnv() string { return n.serviceFile("proxy.env") }

// DefaultConfig is the configuration of a service in the lab: all defaults,
// with the node's own keepalived.conf.
func (n *Node) DefaultConfig() string {
	return fmt.Sprintf("vips:\n  keepalivedConfig: %s\n", n.KeepalivedConfig())
}

// WriteConfig replaces the service's configuration file as an editor or the
// machine-config-daemon does: a new file, renamed over the old one.
func (n *Node) WriteConfig(text string) error {
	next := n.serviceFile("config.yaml.new")
	if err := writeFile(next, []byte(text)); err != nil {
		return err
	}
	if err := os.Rename(next, n.serviceFile("config.yaml")); err != nil {
		return fmt.Errorf("replace the configuration: %w", err)
	}
	return nil
}

// WriteAPIServerURL writes it, as the machine-config-operator does.
func (n *Node) WriteAPIServerURL(internalName string) error {
	return writeFile(n.APIServerURL(), []byte(APIServerURLText(internalName)))
}

// APIServerURLText is what the machine-config-operator puts into
// /etc/kubernetes/apiserver-url.env.
func APIServerURLText(internalName string) string {
	return fmt.Sprintf("KUBERNETES_SERVICE_HOST='%s'\nKUBERNETES_SERVICE_PORT='%s'\n", internalName, apiPort)
}

// UseDNS has services that start on the node from now on ask the lab's DNS.
func (n *Node) UseDNS() error {
	var text strings.Builder
	for _, server := range n.lab.DNS() {
		fmt.Fprintf(&text, "nameserver %s\n", server)
	}
	return n.WriteHostFile("resolv.conf", text.String())
}

// LaunchService starts the service and does not wait for it.
func (n *Node) LaunchService(o ServiceOptions) (*Service, error) {
	if err := os.MkdirAll(n.DisabledManifests(), 0o750); err != nil {
		return nil, fmt.Errorf("make the service's directory: %w", err)
	}
	if !o.Keep {
		text := o.Config
		if text == "" {
			text = n.DefaultConfig()
		}
		if err := n.WriteConfig(text); err != nil {
			return nil, err
		}
	}
	socket := n.serviceFile("notify.sock")
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the last notify socket: %w", err)
	}
	notifications, err := listenNotify(n.serviceFile(""), "notify.sock")
	if err != nil {
		return nil, err
	}
	command := append(slices.Clone(o.Wrap),
		o.Binary, "run",
		"--config", n.serviceFile("config.yaml"),
		"--state-dir", n.serviceFile("state"),
		"--status-socket", n.serviceFile("status.sock"),
		"--manifests", n.Manifests(),
		"--disabled-manifests", n.DisabledManifests(),
		"--apiserver-url", n.APIServerURL())
	// Services from before that flag are run too, for comparison.
	if _, err := os.Stat(n.HostFile("resolv.conf")); err == nil {
		command = append(command, "--resolv-conf", n.HostFile("resolv.conf"))
	}
	p, err := n.Start(Command{
		Name: "http01-proxyd",
		Path: command[0], Args: command[1:],
		Env: append([]string{"NOTIFY_SOCKET=" + notifications.Path}, o.Env...),
	})
	if err != nil {
		return nil, errors.Join(err, notifications.close())
	}
	s := &Service{Process: p, Notifications: notifications, node: n, binary: o.Binary}
	go func() {
		<-p.Exited()
		_ = notifications.close()
	}()
	return s, nil
}

// StartService starts the service and waits until it says READY=1.
func (n *Node) StartService(ctx context.Context, o ServiceOptions) (*Service, error) {
	s, err := n.LaunchService(o)
	if err != nil {
		return nil, err
	}
	if err := s.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, s.Kill(ctx))
	}
	return s, nil
}

// WaitReady waits for READY=1.
func (s *Service) WaitReady(ctx context.Context) error {
	return Eventually(ctx, "READY=1 from http01-proxyd on "+s.node.Name, func(context.Context) error {
		if s.Notifications.Count("READY=1") > 0 {
			return nil
		}
		if err := s.Alive(); err != nil {
			return err
		}
		return fmt.Errorf("so far: %q\n%s", s.Notifications.All(), s.Tail(20))
	})
}

// StatusJSON is what the status command prints.
func (s *Service) StatusJSON(ctx context.Context) (string, error) {
	return s.node.Run(ctx, s.binary, "status", "--status-socket", s.node.serviceFile("status.sock"), "-o", "json")
}

// StatusText is what the status command prints for people.
func (s *Service) StatusText(ctx context.Context) (string, error) { return s.Show(ctx) }

// Show is what the status command prints with flags.
func (s *Service) Show(ctx context.Context, flags ...string) (string, error) {
	return s.node.Run(ctx, s.binary, append([]string{"status", "--status-socket", s.node.serviceFile("status.sock")}, flags...)...)
}

// Status asks the service by its status command.
func (s *Service) Status(ctx context.Context) (Status, error) {
	text, err := s.StatusJSON(ctx)
	if err != nil {
		return Status{}, err
	}
	return ParseStatus(text)
}

// Await waits until the status is as check wants it; check returns what is
// still amiss.
func (s *Service) Await(ctx context.Context, what string, check func(Status) error) (Status, error) {
	var seen Status
	err := Eventually(ctx, what+" on "+s.node.Name, func(ctx context.Context) error {
		if err := s.Alive(); err != nil {
			return err
		}
		var err error
		if seen, err = s.Status(ctx); err != nil {
			return err
		}
		return check(seen)
	})
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, s.Tail(30))
	}
	return seen, err
}

// AwaitReason waits until the condition has a reason.
func (s *Service) AwaitReason(ctx context.Context, reason string) (Status, error) {
	return s.AwaitCondition(ctx, readyCondition, reason)
}

// AwaitCondition waits until the condition of a type has a reason.
func (s *Service) AwaitCondition(ctx context.Context, kind, reason string) (Status, error) {
	return s.Await(ctx, kind+" "+reason, func(seen Status) error {
		if c := seen.ConditionOf(kind); c.Reason != reason {
			return fmt.Errorf("%s is %s: %s", kind, c.Reason, c.Message)
		}
		return nil
	})
}

// Reload sends SIGHUP, as ExecReload of the unit does.
func (s *Service) Reload() error { return s.Signal(unix.SIGHUP) }

// KillChildren sends SIGKILL to the processes that the service has started.
func (s *Service) KillChildren() error { return killPIDs(Children(s.PID())) }
