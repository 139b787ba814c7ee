// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"text/template"

	"golang.org/x/sys/unix"
)

//go:embed keepalived.conf.tmpl
var keepalivedTemplate string

// Priorities and router ids. The worker's is above the masters' for the
// ingress, as in OpenShift, where the routers' health decides.
const (
	apiPriority     = 42 // of master 0; one less for each that follows
	masterIngress   = 20
	workerIngress   = 40
	arbiterIngress  = 10
	apiRouterID     = 57 // two more for each further VIP
	ingressRouterID = 58
)

// VRRPInstance is one block of keepalived.conf.
type VRRPInstance struct {
	Name     string
	RouterID int
	Priority int
	Source   netip.Addr
	Peers    []netip.Addr // none: they are found by multicast
	VMAC     string       // the macvlan that the VIP goes onto; empty for none
	VIP      netip.Addr
	Password string
}

// keepalived runs the real keepalived on one node.
type keepalived struct {
	node      *Node
	link      string // whose address its packets come from
	instances []VRRPInstance

	mu      sync.Mutex
	process *Process
}

// RenderKeepalived is the text of a keepalived.conf whose addresses are on a
// link.
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

// WriteKeepalivedConfig writes keepalived.conf as the topology has it.
func (k *keepalived) WriteKeepalivedConfig() error {
	text, err := RenderKeepalived(k.link, k.instances)
	if err != nil {
		return err
	}
	return writeFile(k.node.KeepalivedConfig(), text)
}

// StartKeepalived writes keepalived.conf and starts keepalived with the
// arguments of OpenShift's static pod. It does not wait for a VIP.
func (k *keepalived) StartKeepalived(context.Context) error {
	if err := k.WriteKeepalivedConfig(); err != nil {
		return err
	}
	p, err := k.node.Start(Command{
		Name: "keepalived",
		Path: "keepalived",
		Args: []string{
			"--dont-fork", "--vrrp", "--log-detail", "--log-console",
			"--use-file", k.node.KeepalivedConfig(),
			"--pid", filepath.Join(k.node.Dir, "keepalived.pid"),
			"--vrrp_pid", filepath.Join(k.node.Dir, "vrrp.pid"),
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

// StopKeepalived ends keepalived with SIGTERM, as a node that is drained does:
// it gives its VIPs away.
func (k *keepalived) StopKeepalived(ctx context.Context) error {
	p, err := k.takeProcess()
	if err != nil {
		return err
	}
	err = p.Stop(ctx)
	// A keepalived that has just been started has no signal handler and no VIP yet.
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == unix.SIGTERM {
		return nil
	}
	return err
}

// record returns the process that runs, to be ended.
func (k *keepalived) takeProcess() (*Process, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.process
	k.process = nil
	if p == nil {
		return nil, fmt.Errorf("keepalived does not run on %s", k.node.Name)
	}
	return p, nil
}

// KillKeepalived kills keepalived hard, parent and child at once, as the kernel
// does that runs out of memory: it gives nothing away, so that the VIPs stay.
func (k *keepalived) KillKeepalived(ctx context.Context) error {
	p, err := k.takeProcess()
	if err != nil {
		return err
	}
	below := Children(p.PID())
	// The parent first: it would start another child.
	if err := p.Signal(unix.SIGSTOP); err != nil {
		return err
	}
	if err := killPIDs(below); err != nil {
		return err
	}
	return p.Kill(ctx)
}

// ReloadKeepalived makes keepalived read its file again.
func (k *keepalived) ReloadKeepalived() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process == nil {
		return fmt.Errorf("keepalived does not run on %s", k.node.Name)
	}
	return k.process.Signal(unix.SIGHUP)
}

func (k *keepalived) running() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.process != nil
}

// Renumber gives the API and the ingress other VIPs, in a cluster of one of
// each kind and family, and has every keepalived read that as it runs.
func (l *Lab) Renumber(api, ingress Pair) error {
	l.API, l.Ingress = api, ingress
	var all []*keepalived
	for _, m := range l.vrrp() {
		m.instances = masterInstances(l.Topology, m.Index)
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
