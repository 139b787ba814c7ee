// SPDX-License-Identifier: Apache-2.0

// A rendered configuration, from the operator's own code, as the replay applies it. The fields besides files
// and units need CoreOS.

package mcd

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/vincent-petithory/dataurl"
)

// Rendered is the rendered configuration of a pool, which the operator's own code renders
// (test/support/oracle). The zero value is a host without MachineConfigs. It is immutable.
type Rendered struct {
	Name string // rendered-master-HASH

	files map[string]file
	units map[string]types.Unit
	host  hostSpec
}

type file struct {
	content string
	mode    fs.FileMode
}

// hostSpec holds the fields of a MachineConfig besides Ignition. Each change needs a reboot
// (pkg/daemon/update.go, calculatePostConfigChangeNodeDisruptionAction). Only CoreOS can apply them.
type hostSpec struct {
	image     string // other than the image of the release
	arguments string // of the kernel
}

// imageOverridden annotates a rendered configuration whose image is not the release's
// (pkg/controller/common/constants.go, OSImageURLOverriddenKey).
const imageOverridden = "machineconfiguration.openshift.io/os-image-url-overridden"

const defaultMode fs.FileMode = 0o644 // pkg/daemon/update.go, defaultFilePermissions

// Read reads a rendered configuration.
func Read(config *mcfgv1.MachineConfig) (Rendered, error) {
	parsed, report, err := v3_5.ParseCompatibleVersion(config.Spec.Config.Raw)
	if err != nil {
		return Rendered{}, fmt.Errorf("parse the Ignition config of %s: %w: %s", config.Name, err, report)
	}
	r := Rendered{Name: config.Name, files: map[string]file{}, units: map[string]types.Unit{}}
	for _, f := range parsed.Storage.Files {
		if r.files[f.Path], err = readFile(f); err != nil {
			return Rendered{}, err
		}
	}
	for _, u := range parsed.Systemd.Units {
		if u.Contents == nil {
			return Rendered{}, fmt.Errorf("unit %s has no contents", u.Name)
		}
		r.units[u.Name] = u
	}
	r.host.arguments = strings.Join(config.Spec.KernelArguments, " ")
	if config.Annotations[imageOverridden] != "" {
		r.host.image = config.Spec.OSImageURL
	}
	return r, nil
}

func readFile(f types.File) (file, error) {
	read := file{mode: defaultMode}
	if f.Mode != nil {
		read.mode = fs.FileMode(*f.Mode & int(fs.ModePerm))
	}
	if f.Contents.Source == nil {
		return read, fmt.Errorf("%s has no contents", f.Path)
	}
	url, err := dataurl.DecodeString(*f.Contents.Source)
	if err != nil {
		return read, fmt.Errorf("decode the contents of %s: %w", f.Path, err)
	}
	data := io.Reader(bytes.NewReader(url.Data))
	// Ignition knows only this one (Resource.Compression).
	if c := f.Contents.Compression; err == nil && c != nil && *c == "gzip" {
		data, err = gzip.NewReader(data)
	}
	if err != nil {
		return read, fmt.Errorf("decode the contents of %s: %w", f.Path, err)
	}
	text, err := io.ReadAll(data)
	if err != nil {
		return read, fmt.Errorf("decode the contents of %s: %w", f.Path, err)
	}
	read.content = string(text)
	return read, nil
}
