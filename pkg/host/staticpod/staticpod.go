// SPDX-License-Identifier: Apache-2.0

package staticpod

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
)

const (
	// maxFileBytes is far above the manifests of OpenShift, which take at most 8 KiB.
	maxFileBytes = 256 << 10
	maxVIPs      = 32
)

// Discovery is what the static pods of one kind contain.
type Discovery struct {
	// Present means that there is a manifest of keepalived, or one of a kube-vip whose VIP several
	// hosts can hold at once.
	Present bool
	VIPs    keepalived.VIPs
	Tables  map[netip.Addr]uint32 // the routing table with the route of a VIP, in kube-vip's routing table mode
}

// manifest is the part of a pod's manifest that contains VIPs.
type manifest struct {
	Metadata struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Spec struct {
		InitContainers []container `yaml:"initContainers"`
		Containers     []container `yaml:"containers"`
	} `yaml:"spec"`
}

type container struct {
	Command []string `yaml:"command"`
	Args    []string `yaml:"args"`
	Env     []struct {
		Name  string `yaml:"name"`
		Value string `yaml:"value"`
	} `yaml:"env"`
}

// readPods reads the static pods of a program in dir, a manifest directory of the kubelet. An absent dir
// is not an error. Present is valid with an error, too. matches reports whether a file is a manifest of the
// program.
func readPods(
	program, dir string, matches func(file string) bool, addPod func(*Discovery, manifest) error,
) (d Discovery, err error) {
	entries, err := textfile.Within(dir, func() ([]os.DirEntry, error) { return os.ReadDir(dir) })
	if errors.Is(err, fs.ErrNotExist) {
		return Discovery{}, nil
	}
	if err != nil {
		return Discovery{}, fmt.Errorf("list the static pods in %s, which this service must be able to read: %w", dir, err)
	}
	var problems []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !matches(e.Name()) { // the kubelet ignores names that begin with a dot
			continue
		}
		if len(d.VIPs.API)+len(d.VIPs.Ingress) >= maxVIPs {
			problems = append(problems, fmt.Errorf("%s has more than %d VIPs in static pods of %s", dir, maxVIPs, program))
			break
		}
		path := filepath.Join(dir, e.Name())
		var pod manifest
		text, err := textfile.Read(path, maxFileBytes)
		if err == nil {
			err = yaml.Load(text, &pod)
		}
		if err == nil {
			err = addPod(&d, pod)
		}
		if err != nil {
			d.Present = true
			problems = append(problems, fmt.Errorf("read %s's static pod %s: %w", program, path, err))
		}
	}
	return d, errors.Join(problems...)
}

// parseVIP parses the VIP that a setting of a pod contains.
func parseVIP(setting, value string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(value)
	if err != nil || addr.Zone() != "" || addr.Is4In6() || !addr.IsGlobalUnicast() {
		return netip.Addr{}, fmt.Errorf("%s is %.100q, which is not a VIP", setting, value)
	}
	return addr, nil
}

// Reader keeps the last good content of the static pods, so that a manifest that is replaced
// or removed for a moment removes no VIP. It is not safe for concurrent use.
type Reader struct {
	read func(dir string) (Discovery, error)
	dir  string
	file settled.File[string, Discovery]
}

// Read reads the static pods again. now is the current time of one monotonic clock. It returns
// the active Discovery: with an error, the last good one. retry is the delay of the next read
// without an event; 0: none.
func (r *Reader) Read(now time.Time) (d Discovery, retry time.Duration, err error) {
	found, err := r.read(r.dir)
	last, _ := r.file.Value()
	delay := time.Duration(0)
	if last.Present && (err != nil || found.VIPs.FewerThan(last.VIPs)) {
		delay = settled.LossDelay
	}
	content := fmt.Sprint(found, err)
	if wait := r.file.Wait(content, delay, now); wait > 0 {
		return last, wait, r.file.Err()
	}
	r.file.Take(content, found, err)
	if err == nil || !last.Present {
		return found, 0, err
	}
	return last, 0, err
}
