// SPDX-License-Identifier: Apache-2.0

package staticpod

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// keepalivedFile is the name of the manifest of keepalived's static pod.
const keepalivedFile = "keepalived.yaml"

// KeepalivedPath returns the path of keepalived's static pod in dir.
func KeepalivedPath(dir string) string { return filepath.Join(dir, keepalivedFile) }

// ReadKeepalived reads keepalived's static pod in dir, a manifest directory of the kubelet.
func ReadKeepalived(dir string) (Discovery, error) {
	matches := func(file string) bool { return file == keepalivedFile }
	return readPods("keepalived", dir, matches, (*Discovery).addKeepalivedPod)
}

// NewKeepalivedReader returns a Reader of keepalived's static pod.
func NewKeepalivedReader(dir string) *Reader { return &Reader{read: ReadKeepalived, dir: dir} }

// UserManaged reports whether OpenShift disabled keepalived because the cluster's
// loadBalancer.type is UserManaged. In that case the static pod is in dir
// (/etc/kubernetes/disabled-manifests). An absent dir is not an error.
func UserManaged(dir string) (bool, error) {
	switch _, err := os.Lstat(KeepalivedPath(dir)); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return false, fmt.Errorf("check for keepalived's disabled static pod in %s, "+
			"which this service must be able to search: %w", dir, err)
	}
}

// HasVIPs reports whether the static pods configure API and ingress VIPs.
func (d Discovery) HasVIPs() bool { return len(d.VIPs.API) > 0 && len(d.VIPs.Ingress) > 0 }

// addKeepalivedPod reads the arguments of the containers that render keepalived.conf.
func (d *Discovery) addKeepalivedPod(pod manifest) (err error) {
	d.Present = true
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		args := slices.Concat(c.Command, c.Args)
		if d.VIPs.API, err = flagAddresses(args, "--api-vips"); err != nil {
			break
		}
		if d.VIPs.Ingress, err = flagAddresses(args, "--ingress-vips"); err != nil || d.HasVIPs() {
			break
		}
	}
	if err != nil || !d.HasVIPs() {
		d.VIPs.API, d.VIPs.Ingress = nil, nil
	}
	return err
}

// flagAddresses returns the addresses in a flag's value: a comma-separated list in the next
// argument or after an equals sign.
func flagAddresses(args []string, flag string) (addrs []netip.Addr, err error) {
	i := slices.IndexFunc(args, func(arg string) bool { return arg == flag || strings.HasPrefix(arg, flag+"=") })
	if i < 0 {
		return nil, nil
	}
	_, list, joined := strings.Cut(args[i], "=")
	if !joined && i+1 < len(args) {
		list = args[i+1]
	}
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		addr, err := parseVIP(flag, text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs, nil
}
