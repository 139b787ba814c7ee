// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
)

// Reasons for missing VIPs, besides the errors of package keepalived.
var (
	// errVIPsUserManaged: a load balancer has the VIPs, never a node.
	errVIPsUserManaged = errors.New("the VIPs are user-managed")
	// errNoIngressVIP: there are API VIPs, but no ingress VIP.
	errNoIngressVIP = errors.New("no ingress VIP")
	// errNoNode: this host has no configuration of VIPs.
	errNoNode = errors.New("no keepalived.conf, no static pod of keepalived and no VIPs in the configuration")
	// errWorker: keepalived manages ingress VIPs here, and no API server runs here.
	errWorker = errors.New("a worker: keepalived.conf has only ingress VIPs, and no API server runs here")
)

const (
	// settleTimeout is the time in which an incomplete file must become complete.
	// keepalived.conf is not replaced atomically.
	settleTimeout = time.Second
	readInterval  = 100 * time.Millisecond
)

// findVIPs finds the VIPs like the service does.
func findVIPs(ctx context.Context, o Options, c config.VIPs) (keepalived.VIPs, error) {
	if c.Explicit() {
		return keepalived.VIPs{API: c.API, Ingress: c.Ingress}, nil
	}
	managed, err := keepalived.UserManaged(o.DisabledManifestDir)
	if err == nil && managed {
		return keepalived.VIPs{}, errVIPsUserManaged
	}
	found, err := readKeepalived(ctx, c.KeepalivedConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !keepalivedManifestExists(o.ManifestDir):
		return keepalived.VIPs{}, errNoNode
	case errors.Is(err, keepalived.ErrNoAPIInstance) && len(found.VIPs.Ingress) > 0 && hasNoAPIServer(o.ManifestDir):
		return keepalived.VIPs{}, errWorker
	case err != nil:
		return keepalived.VIPs{}, err
	}
	vips, err := found.VIPs.CompleteFromStaticPod(o.ManifestDir)
	if len(vips.Ingress) == 0 {
		return vips, errors.Join(errNoIngressVIP, err)
	}
	return vips, nil
}

func keepalivedManifestExists(dir string) bool {
	_, err := os.Lstat(keepalived.StaticPodPath(dir))
	return err == nil
}

// hasNoAPIServer reports whether the static pods are known and do not include
// kube-apiserver. kube-apiserver-pod.yaml is OpenShift's.
func hasNoAPIServer(dir string) bool {
	pods, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(pods, func(pod os.DirEntry) bool { return strings.HasPrefix(pod.Name(), "kube-apiserver") })
}

// readKeepalived reads the file again while it is incomplete.
func readKeepalived(ctx context.Context, path string) (keepalived.Discovery, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	tick := time.NewTicker(readInterval)
	defer tick.Stop()
	for {
		found, err := keepalived.Read(path)
		if !errors.Is(err, keepalived.ErrIncomplete) {
			return found, err
		}
		select {
		case <-ctx.Done():
			return found, err
		case <-tick.C:
		}
	}
}
