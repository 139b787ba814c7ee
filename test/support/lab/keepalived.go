// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"text/template"

	"golang.org/x/sys/unix"
)

//go:embed keepalived.conf.tmpl
var keepalivedTemplate string

// Priorities and router IDs. For the ingress the worker's priority is above the priority of the
// control-plane nodes, as in OpenShift, where the routers' health decides.
const (
	apiPriority         = 42 // of the first node; one less for each that follows
	controlPlaneIngress = 20
	workerIngress       = 40
	arbiterIngress      = 10
	apiRouterID         = 57 // two more for each further VIP
	ingressRouterID     = 58
)

// VRRPInstance is one block of keepalived.conf.
type VRRPInstance struct {
	Name     string
	RouterID int
	Priority int
	Source   netip.Addr
	Peers    []netip.Addr // none with multicast
	VMAC     string       // name of the macvlan for the VIP; empty for none
	VIP      netip.Addr
	Password string
}

// keepalived runs the real keepalived on one node.
type keepalived struct {
	node      *Node
	link      string // source link of its packets
	instances []VRRPInstance

	mu      sync.Mutex
	process *Process
}

// RenderKeepalived returns a keepalived.conf with addresses on a link.
func RenderKeepalived(link string, instances []VRRPInstance) ([]byte, error) {
	tmpl, err := template.New("keepalived.conf").Parse(keepalivedTemplate)
	if err != nil {
		return nil, fmt.Errorf("parse keepalived's template: %w", err)
	}
	var text bytes.Buffer
	err = tmpl.Execute(&text, struct {
		Interface string
		Instances []VRRPInstance
	}{link, instances})
	if err != nil {
		return nil, fmt.Errorf("render keepalived.conf: %w", err)
	}
	return text.Bytes(), nil
}

// WriteKeepalivedConfig writes keepalived.conf for the topology.
func (k *keepalived) WriteKeepalivedConfig() error {
	text, err := RenderKeepalived(k.link, k.instances)
	if err != nil {
		return err
	}
	return writeFile(k.node.KeepalivedConfig(), text)
}

// StartKeepalived writes keepalived.conf and starts keepalived with the
// arguments of OpenShift's static pod. It does not wait for a VIP.
//
// A killed keepalived leaves its pid files. If another process has its pid now, keepalived ends with "daemon is
// already running". A new container starts without these files.
func (k *keepalived) StartKeepalived(context.Context) error {
	if err := k.WriteKeepalivedConfig(); err != nil {
		return err
	}
	pid, vrrpPID := filepath.Join(k.node.Dir, "keepalived.pid"), filepath.Join(k.node.Dir, "vrrp.pid")
	for _, file := range []string{pid, vrrpPID} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a pid file of keepalived: %w", err)
		}
	}
	p, err := k.node.Start(Command{
		Name: "keepalived",
		Path: "keepalived",
		Args: []string{
			"--dont-fork", "--vrrp", "--log-detail", "--log-console",
			"--use-file", k.node.KeepalivedConfig(),
			"--pid", pid, "--vrrp_pid", vrrpPID,
		},
	})
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.process = p
	return nil
}

// StopKeepalived stops keepalived with SIGTERM, as on a drained node. It releases its VIPs.
func (k *keepalived) StopKeepalived(ctx context.Context) error {
	p, err := k.takeProcess()
	if err != nil {
		return err
	}
	err = p.Stop(ctx)
	// A new keepalived process handles no signals and holds no VIP yet.
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == unix.SIGTERM {
		return nil
	}
	return err
}

// takeProcess removes and returns the running process.
func (k *keepalived) takeProcess() (*Process, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.process
	k.process = nil
	if p == nil {
		return nil, fmt.Errorf("keepalived is not running on %s", k.node.Name)
	}
	return p, nil
}

// KillKeepalived sends SIGKILL to keepalived's parent and child, as the out-of-memory
// killer does. The VIPs remain on the link.
func (k *keepalived) KillKeepalived(ctx context.Context) error {
	p, err := k.takeProcess()
	if err != nil {
		return err
	}
	below := Children(p.PID())
	// The parent first: it would restart the child.
	if err := p.Signal(unix.SIGSTOP); err != nil {
		return err
	}
	if err := killPIDs(below); err != nil {
		return err
	}
	return p.Kill(ctx)
}

// ReloadKeepalived makes keepalived reload its file.
func (k *keepalived) ReloadKeepalived() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process == nil {
		return fmt.Errorf("keepalived is not running on %s", k.node.Name)
	}
	return k.process.Signal(unix.SIGHUP)
}

func (k *keepalived) running() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.process != nil
}

// Renumber gives API and ingress other VIPs in a cluster with one VIP of each kind and
// family, and reloads every keepalived.
func (l *Lab) Renumber(api, ingress Pair) error {
	l.API, l.Ingress = api, ingress
	var all []*keepalived
	for _, m := range l.vrrp() {
		m.instances = controlPlaneInstances(l.Topology, m.Index)
		if m == l.Arbiter {
			m.instances = arbiterInstances(l.Topology)
		}
		all = append(all, &m.keepalived)
	}
	if l.Worker != nil {
		l.Worker.instances = workerInstances(l.Topology)
		all = append(all, &l.Worker.keepalived)
	}
	for _, k := range all {
		if err := k.WriteKeepalivedConfig(); err != nil {
			return err
		}
		if err := k.ReloadKeepalived(); err != nil {
			return err
		}
	}
	return nil
}
