// SPDX-License-Identifier: Apache-2.0

package mcd

import (
	"fmt"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/ignition/v2/config/v3_5/types"
)

// Rendered is the rendered configuration of a pool. The zero value is a host without
// MachineConfigs. It is immutable.
type Rendered struct {
	Name string // rendered-master-HASH; equal contents give equal names

	ignition types.Config
	host     hostSpec
}

// hostSpec holds the fields of a MachineConfig besides Ignition. Each change needs a reboot
// (pkg/daemon/update.go, calculatePostConfigChangeNodeDisruptionAction).
type hostSpec struct {
	image     string // other than the image of the release
	arguments string // of the kernel
}

// imageOverridden annotates a rendered configuration whose image is not the release's
// (pkg/controller/common/constants.go, OSImageURLOverriddenKey).
const imageOverridden = "machineconfiguration.openshift.io/os-image-url-overridden"

// Read reads a rendered configuration.
func Read(config *mcfgv1.MachineConfig) (Rendered, error) {
	parsed, report, err := v3_5.ParseCompatibleVersion(config.Spec.Config.Raw)
	if err != nil {
		return Rendered{}, fmt.Errorf("parse the Ignition config of %s: %w: %s", config.Name, err, report)
	}
	for _, u := range parsed.Systemd.Units {
		if u.Contents == nil {
			return Rendered{}, fmt.Errorf("unit %s has no contents", u.Name)
		}
	}
	r := Rendered{Name: config.Name, ignition: parsed}
	r.host.arguments = strings.Join(config.Spec.KernelArguments, " ")
	if config.Annotations[imageOverridden] != "" {
		r.host.image = config.Spec.OSImageURL
	}
	return r, nil
}
