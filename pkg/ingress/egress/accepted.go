// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// Configuration is the unit of acceptance: a change of any part requires a new check.
type Configuration struct {
	Settings         ProxySettings
	Endpoints        []string // URLs that must answer
	Roots            [][]byte // DER, of egressProxy.trustedCA
	RootsDescription string   // a description of Roots, ignored by Equal
}

// Equal reports whether both request the same.
func (s Configuration) Equal(o Configuration) bool {
	return s.Settings.Equal(o.Settings) && slices.Equal(s.Endpoints, o.Endpoints) &&
		slices.EqualFunc(s.Roots, o.Roots, bytes.Equal)
}

// maxStored limits the stored configuration: its CA bundle may be large.
const maxStored = 8 << 20

// Store keeps the accepted configuration in the state directory: after a restart it applies
// until another one is accepted.
type Store struct{ path string }

// NewStore returns a store in dir.
func NewStore(dir string) Store { return Store{filepath.Join(dir, "accepted-egress-proxy.json")} }

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

// Load returns the stored configuration, or fs.ErrNotExist. No error quotes the file.
func (k Store) Load() (Configuration, time.Time, error) {
	text, err := textfile.Read(k.path, maxStored)
	if err != nil {
		return Configuration{}, time.Time{}, err
	}
	var from storedConfiguration
	if json.Unmarshal(text, &from) != nil {
		return Configuration{}, time.Time{}, fmt.Errorf("%s was not written by this service: ignored", k.path)
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
	text, err := json.Marshal(storedConfiguration{
		HTTPProxy: withCredentials(s.Settings.http), HTTPSProxy: withCredentials(s.Settings.https),
		NoProxy: s.Settings.NoProxy, Source: s.Settings.Source,
		Endpoints: s.Endpoints, Roots: s.Roots, About: s.RootsDescription, At: at.UTC(),
	})
	if err == nil {
		err = textfile.Replace(k.path, text)
	}
	if err != nil {
		return fmt.Errorf("cannot save the accepted egress proxy: %w", err)
	}
	return nil
}
