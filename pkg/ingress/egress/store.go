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

// maxStored limits the stored configuration: its CA bundle may be large.
const maxStored = 8 << 20

// maxStoredAddresses limits the file of addresses: at most two proxies have a name.
const maxStoredAddresses = 64 << 10

// Store keeps the accepted configuration in the state directory: after a restart it is
// in force until another one is accepted. It also keeps the addresses of the proxies'
// names, which are used until the names are resolved again.
type Store struct{ path, addresses string }

// NewStore returns a store in dir.
func NewStore(dir string) Store {
	return Store{filepath.Join(dir, "accepted-egress-proxy.json"), filepath.Join(dir, "egress-proxy-addresses.json")}
}

// storedConfiguration is the stored form, with credentials. Only the service's user and
// root can read the file.
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

// Load returns the stored configuration, or fs.ErrNotExist.
func (k Store) Load() (Configuration, time.Time, error) {
	from, err := load[storedConfiguration](k.path, maxStored)
	if err != nil {
		return Configuration{}, time.Time{}, err
	}
	s, err := FromConfiguration(from.HTTPProxy, from.HTTPSProxy, from.NoProxy)
	if err != nil {
		return Configuration{}, time.Time{}, fmt.Errorf("%s: %w", k.path, err)
	}
	s.Source = from.Source
	return Configuration{s, from.Endpoints, from.Roots, from.About}, from.At, nil
}

// Save replaces the stored configuration atomically.
func (k Store) Save(s Configuration, at time.Time) error {
	return save(k.path, "accepted egress proxy", storedConfiguration{
		withCredentials(s.Settings.http), withCredentials(s.Settings.https), s.Settings.NoProxy, s.Settings.Source, s.Endpoints, s.Roots, s.RootsDescription, at.UTC(),
	})
}

// LoadAddresses returns the stored addresses by name, or fs.ErrNotExist.
func (k Store) LoadAddresses() (map[string][]netip.Addr, error) {
	return load[map[string][]netip.Addr](k.addresses, maxStoredAddresses)
}

// SaveAddresses replaces the stored addresses atomically.
func (k Store) SaveAddresses(all map[string][]netip.Addr) error {
	return save(k.addresses, "addresses of the egress proxy", all)
}

func load[T any](path string, limit int) (value T, err error) {
	text, err := textfile.Read(path, limit)
	if err == nil && json.Unmarshal(text, &value) != nil {
		// The error of the parser may quote the file.
		err = fmt.Errorf("%s was not written by this service: ignored", path)
	}
	return value, err
}

func save(path, what string, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		err = textfile.Replace(path, text)
	}
	if err != nil {
		return fmt.Errorf("cannot save the %s: %w", what, err)
	}
	return nil
}
