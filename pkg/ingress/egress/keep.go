// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// maxKept bounds the kept setting: its CA bundle may be large.
const maxKept = 8 << 20

// maxKeptAddresses bounds the file of addresses: two proxies have a name.
const maxKeptAddresses = 64 << 10

// Keeper keeps the accepted setting in the state directory: after a restart it is
// in force while the endpoints of another are asked. Beside it are the addresses of
// the proxies' names, to be asked until these are resolved anew.
type Keeper struct{ path, addresses string }

// NewKeeper keeps it in dir.
func NewKeeper(dir string) Keeper {
	return Keeper{filepath.Join(dir, "accepted-egress-proxy.json"), filepath.Join(dir, "egress-proxy-addresses.json")}
}

// kept is how it is kept, with credentials: only the service's own user may read it,
// and root.
type kept struct {
	HTTPProxy  string    `json:"httpProxy"`
	HTTPSProxy string    `json:"httpsProxy"`
	NoProxy    string    `json:"noProxy"`
	Source     string    `json:"source"`
	Endpoints  []string  `json:"readinessEndpoints"`
	Roots      [][]byte  `json:"roots"`
	About      string    `json:"about"`
	At         time.Time `json:"at"`
}

// Load returns what was kept; without it the error is fs.ErrNotExist.
func (k Keeper) Load() (Setting, time.Time, error) {
	text, err := textfile.Read(k.path, maxKept)
	if err != nil {
		return Setting{}, time.Time{}, err
	}
	var from kept
	if json.Unmarshal(text, &from) != nil {
		// What the parser says may quote a part of the file.
		return Setting{}, time.Time{}, fmt.Errorf("%s is not what this service writes: it is passed over", k.path)
	}
	s, err := FromConfiguration(from.HTTPProxy, from.HTTPSProxy, from.NoProxy)
	if err != nil {
		return Setting{}, time.Time{}, fmt.Errorf("%s: %w", k.path, err)
	}
	s.Source = from.Source
	return Setting{s, from.Endpoints, from.Roots, from.About}, from.At, nil
}

// Save replaces what was kept atomically.
func (k Keeper) Save(s Setting, at time.Time) error {
	text, err := json.Marshal(kept{
		reveal(s.Settings.http), reveal(s.Settings.https), s.Settings.NoProxy, s.Settings.Source, s.Endpoints, s.Roots, s.About, at.UTC(),
	})
	if err == nil {
		err = textfile.Replace(k.path, text)
	}
	if err != nil {
		return fmt.Errorf("keep the accepted egress proxy: %w", err)
	}
	return nil
}

// Addresses are those of names that were kept; without any the error is
// fs.ErrNotExist.
func (k Keeper) Addresses() (map[string][]netip.Addr, error) {
	text, err := textfile.Read(k.addresses, maxKeptAddresses)
	if err != nil {
		return nil, err
	}
	var all map[string][]netip.Addr
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s is not what this service writes: it is passed over", k.addresses)
	}
	return all, nil
}

// SaveAddresses replaces those that were kept atomically.
func (k Keeper) SaveAddresses(all map[string][]netip.Addr) error {
	text, err := json.Marshal(all)
	if err == nil {
		err = textfile.Replace(k.addresses, text)
	}
	if err != nil {
		return fmt.Errorf("keep the addresses of the egress proxy: %w", err)
	}
	return nil
}
