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
	"time"

	"golang.org/x/sys/unix"
)

// ServiceOptions configures a service on a node.
type ServiceOptions struct {
	Binary string // path of http01-proxyd
	Config string // text of the configuration file; the lab's default when empty
	Keep   bool   // keep the configuration file, or its absence
	Env    []string
	Wrap   []string // a command that starts the service, such as setpriv with its arguments

	// Store keeps the service's descriptors for its next process, so that a restart is one of
	// the unit; nil for a service without systemd.
	Store *DescriptorStore
}

// Service is one running http01-proxyd on a node.
type Service struct {
	*Process
	Notifications *Notifications

	node   *Node
	binary string
}

// serviceFile returns the path of a file of the node's service.
func (n *Node) serviceFile(name string) string { return filepath.Join(n.Dir, "service", name) }

// KeepalivedConfig returns the path of the node's keepalived.conf, which may not exist.
func (n *Node) KeepalivedConfig() string {
	return filepath.Join(n.Dir, "keepalived", "keepalived.conf")
}

// DisabledManifests returns the directory that replaces /etc/kubernetes/disabled-manifests.
func (n *Node) DisabledManifests() string { return n.serviceFile("disabled-manifests") }

// Manifests returns the directory that replaces /etc/kubernetes/manifests.
func (n *Node) Manifests() string { return n.serviceFile("manifests") }

// APIServerURL returns the file that replaces /etc/kubernetes/apiserver-url.env and contains
// the API's name. By default it does not exist.
func (n *Node) APIServerURL() string { return n.serviceFile("apiserver-url.env") }

// StatusSocket returns the socket that the node's service reports its status on.
func (n *Node) StatusSocket() string { return n.serviceFile("status.sock") }

// ProxyEnv returns the file that replaces /etc/mco/proxy.env. By default it does not exist.
func (n *Node) ProxyEnv() string { return n.serviceFile("proxy.env") }

// TestInterval is the interval of the tests between hosts in a lab, the shortest possible one.
const TestInterval = time.Second

// DefaultConfig returns a configuration with all defaults, the node's keepalived.conf, and frequent
// tests between hosts: check waits for them.
func (n *Node) DefaultConfig() string { return n.TestConfig(TestInterval) }

// TestConfig is DefaultConfig with another interval of the tests between hosts; 0: none.
func (n *Node) TestConfig(interval time.Duration) string {
	return fmt.Sprintf("vips:\n  keepalivedConfig: %s\n  testInterval: %v\n", n.KeepalivedConfig(), interval)
}

// WriteConfig replaces the service's configuration file by rename, as an editor or the
// machine-config-daemon does.
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

// WriteAPIServerURL writes the file of APIServerURL as the machine-config-operator does.
func (n *Node) WriteAPIServerURL(internalName string) error {
	return writeFile(n.APIServerURL(), []byte(APIServerURLText(internalName)))
}

// APIServerURLText returns the text of the machine-config-operator's
// /etc/kubernetes/apiserver-url.env.
func APIServerURLText(internalName string) string {
	return fmt.Sprintf("KUBERNETES_SERVICE_HOST='%s'\nKUBERNETES_SERVICE_PORT='%s'\n", internalName, apiPort)
}

// UseDNS makes services that start later on the node use the lab's DNS.
func (n *Node) UseDNS() error {
	var text strings.Builder
	for _, server := range n.lab.DNS() {
		fmt.Fprintf(&text, "nameserver %s\n", server)
	}
	return n.WriteHostFile("resolv.conf", text.String())
}

// WithDNS returns a command that makes a program use the lab's DNS, after UseDNS on the node.
// The program keeps its process ID.
func (n *Node) WithDNS(c Command) Command {
	c.Args = slices.Concat([]string{
		"--mount", "--", "sh", "-c", `mount --bind "$1" /etc/resolv.conf && shift && exec "$@"`,
		"sh", n.HostFile("resolv.conf"), c.Path,
	}, c.Args)
	c.Path = "unshare"
	return c
}

// LaunchService starts the service without waiting for it.
func (n *Node) LaunchService(o ServiceOptions) (*Service, error) {
	o.Store.awaitLast()
	if err := os.MkdirAll(n.DisabledManifests(), 0o750); err != nil {
		return nil, fmt.Errorf("create the service's directory: %w", err)
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
	notifications, err := ListenNotify(n.serviceFile(""), "notify.sock", o.Store)
	if err != nil {
		return nil, err
	}
	command := append(slices.Clone(o.Wrap),
		o.Binary, "run",
		"--config", n.serviceFile("config.yaml"),
		"--state-dir", n.serviceFile("state"),
		"--status-socket", n.StatusSocket(),
		"--manifests", n.Manifests(),
		"--disabled-manifests", n.DisabledManifests(),
		"--apiserver-url", n.APIServerURL())
	// Older services without this flag are run for comparison.
	if _, err := os.Stat(n.HostFile("resolv.conf")); err == nil {
		command = append(command, "--resolv-conf", n.HostFile("resolv.conf"))
	}
	start := Command{
		Name: "http01-proxyd",
		Path: command[0], Args: command[1:],
		Env: append([]string{"NOTIFY_SOCKET=" + notifications.Path}, o.Env...),

		TimerSlack: unitTimerSlack,
	}
	o.Store.Pass(&start)
	p, err := n.Start(start)
	if err != nil {
		return nil, errors.Join(err, notifications.Close())
	}
	if o.Store != nil {
		o.Store.source = notifications
	}
	s := &Service{Process: p, Notifications: notifications, node: n, binary: o.Binary}
	go func() {
		<-p.Exited()
		_ = notifications.Drain()
		_ = notifications.Close()
	}()
	return s, nil
}

// StartService starts the service and waits for READY=1.
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

// StatusJSON returns the output of the status command as JSON.
func (s *Service) StatusJSON(ctx context.Context) (string, error) {
	return s.node.Run(ctx, s.binary, "status", "--status-socket", s.node.StatusSocket(), "-o", "json")
}

// StatusText returns the output of the status command as text.
func (s *Service) StatusText(ctx context.Context) (string, error) { return s.Show(ctx) }

// Show returns the output of the status command with flags.
func (s *Service) Show(ctx context.Context, flags ...string) (string, error) {
	return s.node.Run(ctx, s.binary, append([]string{"status", "--status-socket", s.node.StatusSocket()}, flags...)...)
}

// Status queries the service with its status command.
func (s *Service) Status(ctx context.Context) (Status, error) {
	text, err := s.StatusJSON(ctx)
	if err != nil {
		return Status{}, err
	}
	return ParseStatus(text)
}

// Await waits until check returns nil for the status.
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

// AwaitReason waits until the condition reports a reason.
func (s *Service) AwaitReason(ctx context.Context, reason string) (Status, error) {
	return s.AwaitCondition(ctx, readyCondition, reason)
}

// AwaitCondition waits until the condition of a type reports a reason.
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

// KillChildren sends SIGKILL to the service's child processes.
func (s *Service) KillChildren() error { return killPIDs(Children(s.PID())) }

// Child returns the process ID of the service's child process of a name, such as proxy.
func (s *Service) Child(name string) (int, error) {
	for _, pid := range Children(s.PID()) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if args := strings.Split(string(line), "\x00"); err == nil && len(args) > 1 && args[1] == name {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("the service on %s has no process %s", s.node.Name, name)
}
