// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
)

// eyes read the host and keep what they saw last.
type eyes struct {
	log               *slog.Logger
	addresses         Addresses
	files             Files
	manifests         string
	disabledManifests string
	routes            string
	units             string
	stateDir          string
	usual             string

	configuration configuration
	keepalived    *keepalived.Reader
	keepalivedAt  string             // the path that keepalived reads
	kept          *microshift.Keeper // nil until MicroShift is looked for
	microShift    *microshift.Reader
	microShiftAt  string      // the directory that microShift reads
	node          nodeAddress // of MicroShift's
	sight         sight
	said          map[string]string // the last complaint about each thing
}

func newEyes(parts Parts) eyes {
	return eyes{
		log:               parts.Log,
		addresses:         parts.Addresses,
		files:             parts.Files,
		manifests:         parts.Manifests,
		disabledManifests: parts.DisabledManifests,
		routes:            parts.Routes,
		units:             parts.Units,
		stateDir:          parts.StateDir,
		usual:             parts.MicroShift,
		configuration: configuration{
			path:     parts.ConfigPath,
			accepted: config.NewAccepted(parts.StateDir),
			log:      parts.Log,
		},
		said: make(map[string]string),
	}
}

// readFiles reads what the configuration in force points to and watches it.
// It returns after how long to read again without a hint; 0 is no wish.
func (e *eyes) readFiles(now time.Time) time.Duration {
	c := e.configuration.config
	e.sight.config, e.sight.configKnown = c, e.configuration.known
	watch := []string{e.configuration.path}
	defer func() { e.files.Watch(watch...) }()
	if !e.sight.configKnown || !c.Enabled() {
		return 0
	}
	also, again := e.readMicroShift(now)
	watch = append(watch, also...)
	if c.VIPs.Explicit() {
		return again
	}
	if e.keepalivedAt != c.VIPs.KeepalivedConfig {
		e.keepalivedAt = c.VIPs.KeepalivedConfig
		e.keepalived = keepalived.NewReader(e.keepalivedAt)
	}
	e.sight.keepalived = e.keepalived.Read(now)
	files := e.sight.keepalived.Discovery.Files
	e.readManifests()
	e.complainAboutKeepalived(e.sight.keepalived)
	watch = append(watch, e.keepalivedAt, keepalived.ManifestPath(e.manifests), keepalived.ManifestPath(e.disabledManifests))
	watch = append(watch, files...)
	return soonest(again, e.sight.keepalived.RetryAfter)
}

// readManifests looks at keepalived's static pod: where it lies, and, when a
// node's keepalived.conf lacks the ingress, which ingress VIPs it names.
func (e *eyes) readManifests() {
	managed, err := keepalived.UserManaged(e.disabledManifests)
	e.complain("user-managed", "cannot tell whether the VIPs are user-managed; taking it that they are not", err)
	e.sight.userManaged = managed
	e.sight.staticPod = ""
	if path := keepalived.ManifestPath(e.manifests); there(path) {
		e.sight.staticPod = path
	}

	vips := &e.sight.keepalived.Discovery.VIPs
	*vips, err = vips.Complete(e.manifests)
	e.complain("manifest", "cannot take the missing ingress VIPs from keepalived's static pod", err)
}

// there reports whether something is at path. What cannot be looked at counts as
// absent, and the look at the disabled static pods complains of that.
func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// complainAboutKeepalived says what of keepalived.conf is not taken as it
// stands.
func (e *eyes) complainAboutKeepalived(answer keepalived.Answer) {
	var stale error
	if answer.Stale {
		stale = answer.Err
	}
	what := "the last good VIPs of keepalived.conf stay in force"
	if vips := answer.Discovery.VIPs; len(vips.API) == 0 || len(vips.Ingress) == 0 {
		what = "keepalived.conf is not taken as it stands, and has given no VIPs to serve before"
	}
	e.complain("keepalived", what, stale)
	var ignored error
	if notes := answer.Discovery.Ignored; len(notes) > 0 {
		ignored = errors.New(notes[0].String())
		if len(notes) > 1 {
			ignored = fmt.Errorf("%w, and %d more like it", ignored, len(notes)-1)
		}
	}
	e.complain("keepalived-ignored", "a part of keepalived.conf is passed over, as keepalived does", ignored)
}

// complain logs an error when it is another one than last time.
func (e *eyes) complain(about, message string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != e.said[about] && err != nil {
		e.log.Warn(message, slog.String("event", about), slog.Any("error", err))
	}
	e.said[about] = text
}

// look takes a snapshot of the addresses and returns the whole sight. When
// the snapshot fails, the last one stands.
func (e *eyes) look() (sight, error) {
	found, err := e.addresses.Snapshot()
	if err != nil {
		return e.sight, fmt.Errorf("list this host's addresses: %w", err)
	}
	links, err := e.links(found)
	if err != nil {
		return e.sight, err
	}
	e.sight.addresses = ForOwnership(found, links)
	if err := e.lookAtMicroShift(links, found); err != nil {
		return e.sight, err
	}
	return e.sight, nil
}

// links lists the host's links where something hangs on their names: a host may have
// hundreds, of which nothing is asked at each change of an address otherwise.
func (e *eyes) links(found []address.Address) ([]address.Link, error) {
	if !e.sight.microShift.Present && !NeedLinks(found, e.sight.knownInternal()) {
		return nil, nil
	}
	return e.addresses.Links()
}

// ForOwnership is what a decision needs of the addresses.
func ForOwnership(found []address.Address, links []address.Link) []ownership.Address {
	names := make(map[uint32]string, len(links))
	for _, l := range links {
		names[l.Index] = l.Name
	}
	out := make([]ownership.Address, len(found))
	for i, a := range found {
		out[i] = ownership.Address{IP: a.IP, Bits: a.Bits, Link: names[a.Link], Tentative: a.Tentative, DADFailed: a.DADFailed}
	}
	return out
}
