// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/keepalived"
)

// Why there are no VIPs, beside the errors of package keepalived.
var (
	// errUserManaged: a load balancer has them, and no node ever does.
	errUserManaged = errors.New("the VIPs are user-managed")
	// errNoIngress: there are API VIPs, and nowhere to lead them.
	errNoIngress = errors.New("no ingress VIP")
	// errNoNode: nothing on this host speaks of VIPs.
	errNoNode = errors.New("no keepalived.conf, no static pod of keepalived and no VIPs in the configuration")
)

const (
	// settleTime is how long a file that looks half-written may take to be whole:
	// keepalived.conf is not replaced at once.
	settleTime = time.Second
	readEvery  = 100 * time.Millisecond
)

// findVIPs finds the VIPs as the service would see them.
func findVIPs(ctx context.Context, o Options, c config.VIPs) (keepalived.VIPs, error) {
	if c.Explicit() {
		return keepalived.VIPs{API: c.API, Ingress: c.Ingress}, nil
	}
	managed, err := keepalived.UserManaged(o.DisabledManifests)
	if err == nil && managed {
		return keepalived.VIPs{}, errUserManaged
	}
	found, err := readKeepalived(ctx, c.KeepalivedConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !manifestThere(o.Manifests):
		return keepalived.VIPs{}, errNoNode
	case err != nil:
		return keepalived.VIPs{}, err
	}
	vips, err := found.VIPs.Complete(o.Manifests)
	if len(vips.Ingress) == 0 {
		return vips, errors.Join(errNoIngress, err)
	}
	return vips, nil
}

func manifestThere(dir string) bool {
	_, err := os.Lstat(keepalived.ManifestPath(dir))
	return err == nil
}

// readKeepalived reads the file again while it looks half-written.
func readKeepalived(ctx context.Context, path string) (keepalived.Discovery, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	tick := time.NewTicker(readEvery)
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
