// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
)

// caAnchorDirs are the directories of CAs of which distributions make what a host trusts
// (update-ca-trust(8), update-ca-certificates(8)).
func caAnchorDirs() []string {
	return []string{
		"/etc/pki/ca-trust/source/anchors", "/usr/share/pki/ca-trust-source/anchors", "/etc/pki/trust/anchors", "/usr/local/share/ca-certificates",
	}
}

// readCAs reads what is trusted for the proxy and beyond it, and what that is.
//
// On OpenShift the file is always there, empty as long as the cluster has no such
// bundle, and for root alone, which this service is not
// (templates/common/_base/files/additional-trust-bundle.yaml of the
// machine-config-operator). Its CAs are then found among those that the host trusts,
// where the machine-config-daemon puts them. It needs mu.
func (e *egressWatcher) readCAs(now time.Time, hinted bool) (roots [][]byte, about string, err error) {
	_, again := e.system.Refresh(now, hinted)
	e.readWithin(now, again)
	if e.caFileEmpty(now) {
		return nil, "", nil
	}
	_, again = e.ca.Refresh(now, hinted)
	e.readWithin(now, again)
	switch err := e.ca.Err(); {
	case err == nil:
		roots = certificateDERs(e.ca.Roots())
		return roots, ingress.DescribeCAs(len(roots), "egressProxy.trustedCA"), nil
	case !errors.Is(err, fs.ErrPermission) || !slices.Contains(e.anchorDirs, filepath.Dir(e.ca.Path())):
		return nil, "", err
	}
	roots = e.systemRoots()
	return roots, ingress.DescribeCAs(len(roots), "this host, among them those of egressProxy.trustedCA"), nil
}

// emptySettleTime is how long a file of CAs has to be empty before it counts as none:
// it may be amid its replacement.
const emptySettleTime = time.Second

// caFileEmpty reports whether the file of CAs is empty, which is none. It needs mu.
func (e *egressWatcher) caFileEmpty(now time.Time) bool {
	if !egress.IsBlank(e.ca.Path()) {
		e.emptySince = time.Time{}
		return false
	}
	if e.emptySince.IsZero() || now.Before(e.emptySince) {
		e.emptySince = now
	}
	if wait := emptySettleTime - now.Sub(e.emptySince); wait > 0 && len(e.ca.Roots()) > 0 {
		e.readWithin(now, wait)
		return false
	}
	e.ca = trust.NewSource(e.ca.Path(), trust.LastGoodCopy{})
	return true
}

func certificateDERs(list []trust.Certificate) [][]byte {
	var all [][]byte
	for _, c := range list {
		all = append(all, c.DER)
	}
	return all
}

// systemRoots are what this host trusts. It needs mu.
func (e *egressWatcher) systemRoots() [][]byte {
	if at := e.system.Source(); at != nil {
		return certificateDERs(at.Roots())
	}
	return nil
}
