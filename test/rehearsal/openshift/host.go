// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
)

// unitFolder is where an image's units are.
const unitFolder = "/usr/lib/systemd/system"

// daemonService runs the daemon as its Pod does, with the host's files and systemd.
const daemonService = `[Unit]
Description=OpenShift's machine-config-daemon
[Service]
ExecStart=/usr/bin/machine-config-daemon start --node-name=%%H --root-mount=/ \
    --kubeconfig=/etc/kubernetes/kubeconfig --kubelet-healthz-enabled=false --payload-version=%s
Restart=always
RestartSec=5
KillMode=mixed
[Install]
WantedBy=multi-user.target
`

// neverStarts is a drop-in for units whose programs are missing.
const neverStarts = "[Unit]\nConditionPathExists=/run/openshift-runs-here\n"

// imageUnit stands in for a unit of the operating system image.
const imageUnit = `[Unit]
Description=Unit of the operating system image
[Service]
Type=oneshot
ExecStart=true
[Install]
WantedBy=multi-user.target
`

// prepareHost installs the daemon on a host, and what it expects of the operating system.
func (c *Cluster) prepareHost(ctx context.Context, _ int, m *host.Host) error {
	kubeconfig, err := c.kubeconfig()
	if err != nil {
		return err
	}
	units, err := c.units(ctx)
	if err != nil {
		return err
	}
	err = errors.Join(
		m.Install(c.programs.Daemon, "/usr/bin/machine-config-daemon", 0o755),
		m.WriteFile(filepath.Join(unitFolder, daemonUnit), fmt.Sprintf(daemonService, c.programs.Release), 0o644),
		// The daemon sets an option of the repository.
		m.WriteFile("/usr/bin/ostree", "#!/bin/sh\n", 0o755),
		// The daemon of 4.19 orders each reboot after it.
		m.WriteFile(filepath.Join(unitFolder, "ostree-finalize-staged.service"), imageUnit, 0o644),
		// OpenShift writes it without a MachineConfig. `check` recognises a control-plane node by it.
		m.WriteFile("/etc/kubernetes/manifests/kube-apiserver-pod.yaml", "spec: {}\n", 0o600),
		// The daemon uses the second one for the node's annotations.
		m.WriteFile("/etc/kubernetes/kubeconfig", kubeconfig, 0o600),
		m.WriteFile("/var/lib/kubelet/kubeconfig", kubeconfig, 0o600),
	)
	for name, written := range units {
		err = errors.Join(err, m.WriteFile(filepath.Join(unitFolder, name+".d", "fake.conf"), neverStarts, 0o644))
		if _, missing := os.Stat(filepath.Join(m.Root, unitFolder, name)); !written && errors.Is(missing, fs.ErrNotExist) {
			err = errors.Join(err, m.WriteFile(filepath.Join(unitFolder, name), imageUnit, 0o644))
		}
	}
	if err != nil {
		return err
	}
	_, err = m.Run(ctx, "systemctl", "daemon-reload")
	return err
}

func (c *Cluster) kubeconfig() (string, error) {
	path := filepath.Join(c.hosts.Lab.Gateway.Dir, "kubeconfig")
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	text, err := clientcmd.Write(*config)
	return string(text), err
}

// units returns the units of the pool's MachineConfigs, and whether a MachineConfig contains the unit file.
// Others are in the operating system image.
func (c *Cluster) units(ctx context.Context) (map[string]bool, error) {
	all, err := c.client.Resource(Resource("machineconfigs")).List(ctx, metav1.ListOptions{
		LabelSelector: annotations + "role=" + pool,
	})
	if err != nil {
		return nil, fmt.Errorf("list the MachineConfigs: %w", err)
	}
	units := map[string]bool{}
	for _, item := range all.Items {
		text, err := item.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encode a MachineConfig: %w", err)
		}
		var o struct {
			Spec struct {
				Config struct {
					Systemd struct {
						Units []struct {
							Name, Contents string
						}
					}
				}
			}
		}
		if err := json.Unmarshal(text, &o); err != nil {
			return nil, fmt.Errorf("read the units of %s: %w", item.GetName(), err)
		}
		for _, u := range o.Spec.Config.Systemd.Units {
			units[u.Name] = units[u.Name] || u.Contents != "" || !strings.HasSuffix(u.Name, ".service")
		}
	}
	if len(units) == 0 {
		return nil, errors.New("the MachineConfigs of the pool have no units")
	}
	return units, nil
}
