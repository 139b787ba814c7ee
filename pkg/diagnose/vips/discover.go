// SPDX-License-Identifier: Apache-2.0

package vips

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/staticpod"
)

// These are reasons for missing VIPs, besides the errors of package keepalived.
var (
	// ErrUserManaged: a load balancer holds the VIPs, never a node.
	ErrUserManaged = errors.New("the VIPs are user-managed")
	// ErrNoIngressVIP: there are API VIPs, but no ingress VIP.
	ErrNoIngressVIP = errors.New("no ingress VIP")
	// ErrNoNode: no VIPs are configured on this host.
	ErrNoNode = errors.New("no keepalived.conf, no static pod of keepalived or kube-vip and no VIPs in the configuration")
	// ErrInternalVIP: all configured VIPs are internal addresses.
	ErrInternalVIP = errors.New("the only VIP is the internal address of MicroShift's API server")
	// ErrWorker: keepalived or kube-vip manages VIPs here, and no API server runs here.
	ErrWorker = errors.New("a worker: no API server runs here")
	// ErrKubeVIP: kube-vip's static pods lack VIPs or cannot be read.
	ErrKubeVIP = errors.New("kube-vip's static pods cannot be used")
)

// ManifestDirs are the kubelet's directories of static pods.
type ManifestDirs struct {
	Active   string
	Disabled string // contains keepalived's pod if the VIPs are user-managed
}

// Discover finds the VIPs like the service does.
func Discover(dirs ManifestDirs, c config.VIPs) (v VIPs) {
	pods, podsErr := staticpod.ReadKubeVIP(dirs.Active)
	if v.BGP = pods.Selected(c.Management); v.BGP {
		v.Tables = pods.Tables
	}
	switch {
	case c.Explicit():
		v.VIPs = keepalived.VIPs{API: c.API, Ingress: c.Ingress}
	case v.BGP:
		v.VIPs, v.Err = discoverKubeVIP(pods, podsErr, dirs.Active)
	default:
		v.discoverKeepalived(dirs, c)
	}
	return v
}

// discoverKubeVIP evaluates kube-vip's static pods.
func discoverKubeVIP(pods staticpod.Discovery, err error, dir string) (keepalived.VIPs, error) {
	switch {
	case err != nil:
		return pods.VIPs, fmt.Errorf("%w: %w", ErrKubeVIP, err)
	case len(pods.VIPs.API) == 0 && len(pods.VIPs.Ingress) > 0 && hasNoAPIServer(dir):
		return keepalived.VIPs{}, ErrWorker
	case pods.Missing() != nil:
		return pods.VIPs, fmt.Errorf("%w: %w", ErrKubeVIP, pods.Missing())
	}
	return pods.VIPs, nil
}

// discoverKeepalived evaluates keepalived's static pod or, if that names no VIPs,
// keepalived.conf.
func (v *VIPs) discoverKeepalived(dirs ManifestDirs, c config.VIPs) {
	if managed, err := staticpod.UserManaged(dirs.Disabled); err == nil && managed {
		v.Err = ErrUserManaged
		return
	}
	pod, podErr := staticpod.ReadKeepalived(dirs.Active)
	if pod.HasVIPs() {
		v.VIPs, v.StaticPod = pod.VIPs, true
		if hasNoAPIServer(dirs.Active) {
			v.VIPs, v.Err = keepalived.VIPs{}, ErrWorker
		}
		return
	}
	found, err := keepalived.Read(c.KeepalivedConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !pod.Present:
		v.Err = ErrNoNode
	case errors.Is(err, keepalived.ErrNoAPIInstance) && len(found.VIPs.Ingress) > 0 && hasNoAPIServer(dirs.Active):
		v.Err = ErrWorker
	case err != nil:
		v.Err = err
	case len(found.VIPs.Ingress) == 0:
		v.VIPs, v.Err = found.VIPs, errors.Join(ErrNoIngressVIP, podErr)
	default:
		v.VIPs = found.VIPs
	}
}

// hasNoAPIServer reports whether the static pods are known and do not include
// kube-apiserver. kube-apiserver-pod.yaml is OpenShift's.
func hasNoAPIServer(dir string) bool {
	pods, err := os.ReadDir(dir)
	isAPIServer := func(pod os.DirEntry) bool { return strings.HasPrefix(pod.Name(), "kube-apiserver") }
	return err == nil && !slices.ContainsFunc(pods, isAPIServer)
}
