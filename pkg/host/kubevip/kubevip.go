// SPDX-License-Identifier: Apache-2.0

package kubevip

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
)

const (
	// maxFileBytes is far above the manifests of OpenShift, which have 2 KiB.
	maxFileBytes = 256 << 10
	maxPods      = 32

	// defaultTable is kube-vip's default routing table for its routes
	// (vip_routingtableid).
	defaultTable = 198
)

// Discovery is what kube-vip's static pods on this host contain.
type Discovery struct {
	Present bool // a static pod of kube-vip whose VIP several hosts can hold at once
	VIPs    keepalived.VIPs
	Tables  map[netip.Addr]uint32 // the routing table with the route of a VIP, in kube-vip's routing table mode
}

// Selected reports whether kube-vip manages the VIPs, by the configuration or else by the
// static pods.
func (d Discovery) Selected(m config.Management) bool {
	return m == config.ManagementBGP || m == config.ManagementDetected && d.Present
}

// Missing returns which VIPs the static pods lack, or nil.
func (d Discovery) Missing() error {
	switch {
	case !d.Present:
		return errors.New("there is no static pod of kube-vip")
	case len(d.VIPs.API) == 0:
		return errors.New("kube-vip's static pods have no API VIP")
	case len(d.VIPs.Ingress) == 0:
		return fmt.Errorf("kube-vip's static pods have API VIP %v but no ingress VIP", d.VIPs.API[0])
	}
	return nil
}

// lacks reports whether d has fewer VIPs than an earlier content.
func (d Discovery) lacks(last Discovery) bool {
	return len(d.VIPs.API) < len(last.VIPs.API) || len(d.VIPs.Ingress) < len(last.VIPs.Ingress)
}

// Read reads the static pods in dir, a manifest directory of the kubelet. Their file names
// contain "kube-vip". An absent dir is not an error. Present is valid with an error, too.
func Read(dir string) (Discovery, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Discovery{}, nil
	}
	if err != nil {
		return Discovery{}, fmt.Errorf("list the static pods in %s, which this service must be able to read: %w", dir, err)
	}
	var d Discovery
	var problems []error
	for _, e := range entries {
		if !isManifest(e.Name()) {
			continue
		}
		if len(d.VIPs.API)+len(d.VIPs.Ingress) >= maxPods {
			problems = append(problems, fmt.Errorf("%s has more than %d static pods of kube-vip", dir, maxPods))
			break
		}
		path := filepath.Join(dir, e.Name())
		if err := d.readPod(path); err != nil {
			d.Present = true
			problems = append(problems, fmt.Errorf("read kube-vip's static pod %s: %w", path, err))
		}
	}
	return d, errors.Join(problems...)
}

// isManifest reports whether a file can be a manifest of kube-vip. The kubelet ignores
// names that begin with a dot.
func isManifest(name string) bool {
	return strings.Contains(name, "kube-vip") && !strings.HasPrefix(name, ".")
}

type podManifest struct {
	Metadata struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Spec struct {
		Containers []struct {
			Env []struct {
				Name  string `yaml:"name"`
				Value string `yaml:"value"`
			} `yaml:"env"`
		} `yaml:"containers"`
	} `yaml:"spec"`
}

func (d *Discovery) readPod(path string) error {
	text, err := textfile.Read(path, maxFileBytes)
	if err != nil {
		return err
	}
	var pod podManifest
	if err := yaml.Load(text, &pod); err != nil {
		return err
	}
	for _, c := range pod.Spec.Containers {
		env := make(map[string]string)
		for _, v := range c.Env {
			env[v.Name] = v.Value
		}
		inTable := enabled(env["vip_routingtable"])
		if !inTable && !enabled(env["bgp_enable"]) {
			continue // in ARP mode, one host holds the VIP
		}
		d.Present = true
		vip, err := parseVIP(env)
		if err != nil {
			return err
		}
		if inTable {
			if err := d.addTable(vip, env["vip_routingtableid"]); err != nil {
				return err
			}
		}
		list := &d.VIPs.API
		if strings.Contains(pod.Metadata.Name, "ingress") {
			list = &d.VIPs.Ingress
		}
		if !slices.Contains(*list, vip) {
			*list = append(*list, vip)
		}
	}
	return nil
}

// enabled reports whether a variable of kube-vip is true. kube-vip parses it in the same way.
func enabled(value string) bool {
	is, err := strconv.ParseBool(value)
	return err == nil && is
}

// parseVIP returns the VIP of a pod. Earlier versions of kube-vip have the variable vip_address.
func parseVIP(env map[string]string) (netip.Addr, error) {
	name := "address"
	if env[name] == "" && env["vip_address"] != "" {
		name = "vip_address"
	}
	addr, err := netip.ParseAddr(env[name])
	if err != nil || addr.Zone() != "" || addr.Is4In6() || !addr.IsGlobalUnicast() {
		return netip.Addr{}, fmt.Errorf("the variable %s is %.100q, which is not a VIP", name, env[name])
	}
	return addr, nil
}

func (d *Discovery) addTable(vip netip.Addr, value string) error {
	table := uint64(defaultTable)
	if value != "" {
		var err error
		if table, err = strconv.ParseUint(value, 10, 32); err != nil || table == 0 {
			return fmt.Errorf("the variable vip_routingtableid is %.100q, which is not the number of a routing table", value)
		}
	}
	if d.Tables == nil {
		d.Tables = make(map[netip.Addr]uint32)
	}
	d.Tables[vip] = uint32(table)
	return nil
}

// Reader keeps the last good content of the static pods, so that a manifest that is replaced
// or removed for a moment removes no VIP. It is not safe for concurrent use.
type Reader struct {
	dir  string
	file settled.File[string, Discovery]
}

// NewReader returns a Reader for a manifest directory of the kubelet.
func NewReader(dir string) *Reader { return &Reader{dir: dir} }

// Read reads the static pods again. now is the current time of one monotonic clock. The
// Discovery is the one in force: the last good one with an error. again is the delay of the
// next read without an event; 0: none.
func (r *Reader) Read(now time.Time) (d Discovery, again time.Duration, err error) {
	found, err := Read(r.dir)
	last, _ := r.file.Value()
	delay := time.Duration(0)
	if last.Present && (err != nil || found.lacks(last)) {
		delay = settled.LossDelay
	}
	if wait := r.file.Wait(fmt.Sprint(found, err), delay, now); wait > 0 {
		return last, wait, r.file.Err()
	}
	r.file.Take(fmt.Sprint(found, err), found, err)
	if err == nil || !last.Present {
		return found, 0, err
	}
	return last, 0, err
}
