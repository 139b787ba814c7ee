// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
)

// caAnchorDirs returns the directories of CAs from which distributions make the bundle that
// a host trusts (update-ca-trust(8), update-ca-certificates(8)).
func caAnchorDirs() []string {
	return []string{
		"/etc/pki/ca-trust/source/anchors", "/usr/share/pki/ca-trust-source/anchors", "/etc/pki/trust/anchors", "/usr/local/share/ca-certificates",
	}
}

// readCAs reads the CAs for connections to the proxy and through it, and describes them.
//
// On OpenShift the file always exists. It is empty while the cluster has no such bundle,
// and only root can read it, which this service cannot
// (templates/common/_base/files/additional-trust-bundle.yaml of the
// machine-config-operator). Its CAs are then among those that the host trusts, where the
// machine-config-daemon adds them.
func (w *egressWatcher) readCAs(now time.Time, fileEvent bool) (roots [][]byte, description string, err error) {
	_, retry := w.system.Refresh(now, fileEvent)
	w.readWithin(now, retry)
	if w.caFileEmpty(now) {
		return nil, "", nil
	}
	_, retry = w.ca.Refresh(now, fileEvent)
	w.readWithin(now, retry)
	switch err := w.ca.Err(); {
	case err == nil:
		if certificates := w.ca.Roots(); len(certificates) > 0 {
			roots = trust.DER(certificates)
		}
		return roots, ingress.DescribeCAs(len(roots), "egressProxy.trustedCA"), nil
	case !errors.Is(err, fs.ErrPermission) || !slices.Contains(w.anchorDirs, filepath.Dir(w.ca.Path())):
		return nil, "", err
	}
	roots = w.systemRoots()
	return roots, ingress.DescribeCAs(len(roots), "this host, including those of egressProxy.trustedCA"), nil
}

// caFileEmpty reports whether the file of CAs is empty, which means no CAs.
func (w *egressWatcher) caFileEmpty(now time.Time) bool {
	if !egress.IsBlank(w.ca.Path()) {
		w.emptySince = time.Time{}
		return false
	}
	if w.emptySince.IsZero() || now.Before(w.emptySince) {
		w.emptySince = now
	}
	if wait := settled.RejectedDelay - now.Sub(w.emptySince); wait > 0 && len(w.ca.Roots()) > 0 {
		w.readWithin(now, wait)
		return false
	}
	w.ca = trust.NewSource(w.ca.Path(), trust.LastGoodCopy{})
	return true
}

// systemRoots returns the CAs that this host trusts.
func (w *egressWatcher) systemRoots() [][]byte {
	if source := w.system.Source(); source != nil {
		return trust.DER(source.Roots())
	}
	return nil
}
