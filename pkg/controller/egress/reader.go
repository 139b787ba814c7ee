// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/filewatch"
	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/apiname"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// caAnchorDirs returns the directories of CAs from which distributions make the bundle that
// a host trusts (update-ca-trust(8), update-ca-certificates(8)).
func caAnchorDirs() []string {
	return []string{
		"/etc/pki/ca-trust/source/anchors", "/usr/share/pki/ca-trust-source/anchors",
		"/etc/pki/trust/anchors", "/usr/local/share/ca-certificates",
	}
}

// contents is what the files and the configuration request: an immutable value.
type contents struct {
	of      config.EgressProxy
	request egress.Configuration
	invalid report.EgressInput // what err is about
	err     error              // why the request is rejected

	systemRoots   [][]byte // the CAs that this host trusts
	clusterDomain string   // empty: unknown
}

// reader reads the files. One goroutine at a time uses it, and no other goroutine waits for it,
// because a file system can hang.
type reader struct {
	watch            *filewatch.Watcher
	apiServerURLFile string
	anchorDirs       []string // of files that are a part of what the host trusts

	of     config.EgressProxy
	file   *egress.File
	ca     *trust.Source
	system *trust.System
}

// read reads everything. It returns also the delay of the next read; 0: fileReadInterval.
func (r *reader) read(of config.EgressProxy, now time.Time) (c contents, next time.Duration) {
	if r.file == nil || r.of.File != of.File {
		r.file = egress.NewFile(of.File)
	}
	if r.ca == nil || r.of.TrustedCA != of.TrustedCA {
		r.ca = trust.NewSource(of.TrustedCA, trust.LastGoodCopy{})
	}
	r.of, c.of = of, of
	r.watch.Watch(append([]string{of.File, of.TrustedCA}, r.system.Paths()...)...)
	next = r.system.Refresh(now)
	if source := r.system.Source(); source != nil {
		c.systemRoots = trust.DER(source.Roots())
	}
	if name, err := apiname.Read(r.apiServerURLFile); err == nil {
		c.clusterDomain = strings.TrimPrefix(name, "api.")
	}
	if of.Inline() {
		c.request.Settings, c.err = egress.FromConfiguration(of.HTTPProxy, of.HTTPSProxy, of.NoProxy)
	} else {
		next = settled.ShorterWait(next, r.file.Refresh(now))
		c.request.Settings, c.err = r.file.Settings()
	}
	switch {
	case c.err != nil:
		c.invalid = report.EgressInputFile
	case !c.request.Settings.IsEmpty():
		c.request.Endpoints = of.ReadinessEndpoints
		var wait time.Duration
		if wait, c.err = r.readCAs(&c, now); c.err != nil {
			c.invalid = report.EgressInputTrustedCA
		}
		next = settled.ShorterWait(next, wait)
	}
	return c, next
}

// readCAs reads the CAs for connections to the proxy and through it.
//
// On OpenShift the file always exists. It is empty while the cluster has no such bundle. Only
// root can read it, so this service cannot
// (templates/common/_base/files/additional-trust-bundle.yaml of the machine-config-operator).
// Its CAs are then among those that the host trusts, where the machine-config-daemon adds them.
func (r *reader) readCAs(c *contents, now time.Time) (next time.Duration, err error) {
	if egress.IsBlank(r.ca.Path()) {
		return 0, nil
	}
	next = r.ca.Refresh(now)
	owner := "egressProxy.trustedCA"
	switch err := r.ca.Err(); {
	case err == nil:
		c.request.Roots = trust.DER(r.ca.Roots())
	case errors.Is(err, fs.ErrPermission) && slices.Contains(r.anchorDirs, filepath.Dir(r.ca.Path())):
		c.request.Roots, owner = c.systemRoots, "this host, including those of egressProxy.trustedCA"
	default:
		return next, err
	}
	c.request.RootsDescription = ingress.DescribeCAs(len(c.request.Roots), owner)
	return next, nil
}
