// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// staticPodFile is the name of keepalived's static pod in a manifest directory of the
// kubelet.
const staticPodFile = "keepalived.yaml"

// StaticPodPath returns the path of keepalived's static pod in dir.
func StaticPodPath(dir string) string { return filepath.Join(dir, staticPodFile) }

// UserManaged reports whether OpenShift has disabled keepalived because the cluster's
// loadBalancer.type is UserManaged. In that case the static pod is in dir
// (/etc/kubernetes/disabled-manifests). An absent dir is not an error.
func UserManaged(dir string) (bool, error) {
	path := StaticPodPath(dir)
	switch _, err := os.Lstat(path); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return false, fmt.Errorf("check for keepalived's disabled static pod in %s, which this service must be able to search: %w", dir, err)
	}
}

// StaticPodIngress reads the ingress VIPs that OpenShift passes to keepalived's static pod:
// the value of --ingress-vips in dir/keepalived.yaml (machine-config-operator
// templates/common/on-prem/files/keepalived.yaml). The list contains the VIPs of the whole
// cluster in the cluster's order. A node's keepalived.conf only contains the instances that
// the node takes part in
// (templates/master/00-master/on-prem/files/keepalived-keepalived.yaml). The error for an
// absent manifest wraps fs.ErrNotExist.
func StaticPodIngress(dir string) ([]netip.Addr, error) {
	path := StaticPodPath(dir)
	data, err := textfile.Read(path, maxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("read keepalived's static pod: %w", err)
	}
	vips, err := parseStaticPod(data)
	if err != nil {
		return nil, fmt.Errorf("read keepalived's static pod: %s: %w", path, err)
	}
	return vips, nil
}

type podManifest struct {
	Spec struct {
		InitContainers []container `yaml:"initContainers"`
		Containers     []container `yaml:"containers"`
	} `yaml:"spec"`
}

type container struct {
	Command []string `yaml:"command"`
	Args    []string `yaml:"args"`
}

func parseStaticPod(data []byte) ([]netip.Addr, error) {
	var p podManifest
	if err := yaml.Load(data, &p); err != nil {
		return nil, err
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		vips, err := flagAddresses(slices.Concat(c.Command, c.Args), "--ingress-vips")
		if err != nil || len(vips) > 0 {
			return vips, err
		}
	}
	return nil, nil
}

// flagAddresses returns the addresses in a flag's value: a comma-separated list in the next
// argument or after an equals sign.
func flagAddresses(args []string, flag string) ([]netip.Addr, error) {
	for i, arg := range args {
		value, joined := strings.CutPrefix(arg, flag+"=")
		if !joined {
			if arg != flag || i+1 == len(args) {
				continue
			}
			value = args[i+1]
		}
		return parseAddressList(flag, value)
	}
	return nil, nil
}

func parseAddressList(flag, value string) ([]netip.Addr, error) {
	var out []netip.Addr
	for text := range strings.SplitSeq(value, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" || addr.Is4In6() || !addr.IsGlobalUnicast() {
			return nil, fmt.Errorf("%s contains %q, which is not a VIP", flag, text)
		}
		out = append(out, addr)
	}
	return out, nil
}

// CompleteFromStaticPod returns v with its missing ingress VIPs added from keepalived's
// static pod in dir. Without a static pod it returns v. v is returned together with an error,
// too.
func (v VIPs) CompleteFromStaticPod(dir string) (VIPs, error) {
	if !v.LacksIngress() {
		return v, nil
	}
	others, err := StaticPodIngress(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // not OpenShift's keepalived
	}
	return v.WithMissingIngress(others), err
}

// WithMissingIngress returns v with the addresses of others added for each family in which v
// has an API VIP and no ingress VIP.
func (v VIPs) WithMissingIngress(others []netip.Addr) VIPs {
	out := VIPs{API: v.API, Ingress: slices.Clone(v.Ingress)}
	for _, f := range []family{familyIPv4, familyIPv6} {
		if len(ofFamily(v.API, f)) == 0 || len(ofFamily(v.Ingress, f)) > 0 {
			continue
		}
		out.Ingress = append(out.Ingress, ofFamily(others, f)...)
	}
	return out
}

// LacksIngress reports whether an API VIP has no ingress VIP of its family.
func (v VIPs) LacksIngress() bool {
	return slices.ContainsFunc(v.API, func(a netip.Addr) bool { return len(ofFamily(v.Ingress, familyOf(a))) == 0 })
}
