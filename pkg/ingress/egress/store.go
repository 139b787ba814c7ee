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

// maxStored bounds the kept setting: its CA bundle may be large.
const maxStored = 8 << 20

// maxStoredAddresses bounds the file of addresses: two proxies have a name.
const maxStoredAddresses = 64 << 10

// Store keeps the accepted setting in the state directory: after a restart it is
// in force while the endpoints of another are asked. Beside it are the addresses of
// the proxies' names, to be asked until these are resolved anew.
type Store struct{ path, addresses string }

// NewStore keeps it in dir.
func NewStore(dir string) Store {
	return Store{filepath.Join(dir, "accepted-egress-proxy.json"), filepath.Join(dir, "egress-proxy-addresses.json")}
}

// storedConfiguration is how it is kept, with credentials: only the service's own user may read it,
// and root.
type storedConfiguration struct {
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
func (k Store) Load() (Configuration, time.Time, error) {
	text, err := textfile.Read(k.path, maxStored)
	if err != nil {
		return Configuration{}, time.Time{}, err
	}
	var from storedConfiguration
	if json.Unmarshal(text, &from) != nil {
		// What the parser says may quote a part of the file.
		return Configuration{}, time.Time{}, fmt.Errorf("%s is not what this service writes: it is passed over", k.path)
	}
	s, err := FromConfiguration(from.HTTPProxy, from.HTTPSProxy, from.NoProxy)
	if err != nil {
		return Configuration{}, time.Time{}, fmt.Errorf("%s: %w", k.path, err)
	}
	s.Source = from.Source
	return Configuration{s, from.Endpoints, from.Roots, from.About}, from.At, nil
}

// Save replaces what was kept atomically.
func (k Store) Save(s Configuration, at time.Time) error {
	text, err := json.Marshal(storedConfiguration{
		withCredentials(s.Settings.http), withCredentials(s.Settings.https), s.Settings.NoProxy, s.Settings.Source, s.Endpoints, s.Roots, s.RootsDescription, at.UTC(),
	})
	if err == nil {
		err = textfile.Replace(k.path, text)
	}
	if err != nil {
		return fmt.Errorf("keep the accepted egress proxy: %w", err)
	}
	return nil
}

// LoadAddresses are those of names that were kept; without any the error is
// fs.ErrNotExist.
func (k Store) LoadAddresses() (map[string][]netip.Addr, error) {
	text, err := textfile.Read(k.addresses, maxStoredAddresses)
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
func (k Store) SaveAddresses(all map[string][]netip.Addr) error {
	text, err := json.Marshal(all)
	if err == nil {
		err = textfile.Replace(k.addresses, text)
	}
	if err != nil {
		return fmt.Errorf("keep the addresses of the egress proxy: %w", err)
	}
	return nil
}
