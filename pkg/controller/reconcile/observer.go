// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
)

// observer combines the addresses of this host with the last contents of the files.
type observer struct {
	source       Addresses
	defaultLinks func() (v4, v6 []uint32, err error)
	observation  observation
}

// setFiles takes the contents of the files.
func (o *observer) setFiles(f files) {
	if f.microShiftDir != o.observation.microShiftDir {
		o.observation.microShift = decision.State{}
	}
	o.observation.files = f
	o.observation.microShift.Snapshot = f.microShiftFiles
}

// observe reads the addresses and returns the observation. If they cannot be read, the
// last ones stay.
func (o *observer) observe() (observation, error) {
	found, err := o.source.Snapshot()
	if err != nil {
		return o.observation, fmt.Errorf("cannot list the addresses of this host: %w", err)
	}
	links, err := o.links(found)
	if err != nil {
		return o.observation, err
	}
	o.observation.addresses = address.NameLinks(found, links)
	if err := o.computeMicroShift(links, found); err != nil {
		return o.observation, err
	}
	return o.observation, nil
}

// links returns the links of the host if their names are needed. There may be hundreds of
// links, so they are not read for every change of an address.
func (o *observer) links(found []address.Address) ([]address.Link, error) {
	if !o.observation.microShift.Present && !decision.NeedsLinkNames(found, o.observation.rememberedInternal) {
		return nil, nil
	}
	return o.source.Links()
}
