// SPDX-License-Identifier: Apache-2.0

package vips

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/staticpod"
)

// Source is where the VIPs come from.
type Source struct {
	Config     config.VIPs
	Manifests  ManifestDirs
	ConfigPath string
	AddressErr error // why the addresses of this host are unknown
	Privileged bool
}

// Check evaluates the VIPs that this host detected, except on MicroShift.
func (v VIPs) Check(s Source) result.Result {
	if f, bad := v.Fault(s); bad {
		return result.Of(f)
	}
	var matches []findings.Finding
	if len(v.Internal) > 0 {
		values := findings.Values{"vip": result.JoinAddresses(v.Internal)}
		matches = append(matches, findings.New(findings.MicroShiftInternalAddressAsVIP, values))
	}
	switch {
	case errors.Is(v.Err, ErrInternalVIP):
		return result.Of(matches...)
	case v.Err != nil:
		return result.Skip("%v", v.Err)
	case len(v.NotRequired) > 0:
		shared := findings.New(findings.VIPsShared, findings.Values{"vip": result.JoinAddresses(v.NotRequired)})
		return result.Of(append(matches, shared)...)
	case s.AddressErr != nil:
		return result.Skip("%v", s.AddressErr)
	}
	where := s.Config.KeepalivedConfig
	switch {
	case s.Config.Explicit():
		where = s.ConfigPath
	case v.BGP:
		where = "kube-vip's static pods in " + s.Manifests.Active
	case v.StaticPod:
		where = staticpod.KeepalivedPath(s.Manifests.Active)
	}
	var parts []string
	if len(v.Held) > 0 {
		parts = append(parts, "holds "+result.JoinAddresses(v.Held))
	}
	if len(v.Standby) > 0 {
		parts = append(parts, "not on this host: "+result.JoinAddresses(v.Standby))
	}
	return result.PassUnless(matches, "%s; ingress %s (from %s)",
		strings.Join(parts, ", "), result.JoinAddresses(v.Ingress), where)
}

// Fault is the reason for missing VIPs, if it is a fault of keepalived, kube-vip or their
// files.
func (v VIPs) Fault(s Source) (f findings.Finding, bad bool) {
	var id findings.ID
	manifest := staticpod.KeepalivedPath(s.Manifests.Active)
	switch err := v.Err; {
	case err == nil, errors.Is(err, ErrNoNode), errors.Is(err, ErrWorker), errors.Is(err, ErrInternalVIP),
		errors.Is(err, fs.ErrPermission) && !s.Privileged:
		return f, false
	case errors.Is(err, ErrKubeVIP):
		id = findings.KubeVIPUnusable
	case errors.Is(err, ErrUserManaged):
		id, manifest = findings.VIPsUserManaged, staticpod.KeepalivedPath(s.Manifests.Disabled)
	case errors.Is(err, ErrNoIngressVIP):
		id = findings.IngressVIPMissing
	case errors.Is(err, fs.ErrNotExist):
		id = findings.KeepalivedConfigMissing
	case errors.Is(err, keepalived.ErrNoAPIInstance):
		id = findings.KeepalivedNoAPIInstance
	default:
		id = findings.KeepalivedConfigUnreadable
	}
	return findings.New(id, findings.Values{
		"path": s.Config.KeepalivedConfig, "manifest": manifest, "manifests": s.Manifests.Active,
		"error": fmt.Sprint(v.Err), "vip": result.JoinAddresses(v.API),
	}), true
}
