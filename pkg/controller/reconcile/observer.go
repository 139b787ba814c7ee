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

// observer read the host and keep what they saw last.
type observer struct {
	log                  *slog.Logger
	addresses            Addresses
	files                Files
	staticPodDir         string
	disabledStaticPodDir string
	procNetDir           string
	unitsDir             string
	stateDir             string
	defaultMicroShiftDir string

	configuration   configuration
	keepalived      *keepalived.Reader
	keepalivedPath  string                // the path that keepalived reads
	microShiftState *microshift.StateFile // nil until DefaultMicroShiftDir is looked for
	microShift      *microshift.Reader
	microShiftDir   string          // the directory that microShift reads
	nodeAddressWait nodeAddressWait // of DefaultMicroShiftDir's
	observation     observation
	logged          map[string]string // the last complaint about each thing
}

func newObserver(parts Dependencies) observer {
	return observer{
		log:                  parts.Log,
		addresses:            parts.Addresses,
		files:                parts.Files,
		staticPodDir:         parts.StaticPodDir,
		disabledStaticPodDir: parts.DisabledStaticPodDir,
		procNetDir:           parts.ProcNetDir,
		unitsDir:             parts.UnitsDir,
		stateDir:             parts.StateDir,
		defaultMicroShiftDir: parts.DefaultMicroShiftDir,
		configuration: configuration{
			path:     parts.ConfigPath,
			accepted: config.NewLastAccepted(parts.StateDir),
			save:     parts.Save,
			log:      parts.Log,
		},
		logged: make(map[string]string),
	}
}

// readFiles reads what the configuration in force points to and watches it.
// It returns after how long to read again without a hint; 0 is no wish.
func (e *observer) readFiles(now time.Time) time.Duration {
	c := e.configuration.active
	e.observation.config, e.observation.configKnown = c, e.configuration.hasActive
	watch := []string{e.configuration.path}
	defer func() { e.files.Watch(watch...) }()
	if !e.observation.configKnown || !c.Enabled() {
		return 0
	}
	also, again := e.readMicroShift(now)
	watch = append(watch, also...)
	if c.VIPs.Explicit() {
		return again
	}
	if e.keepalivedPath != c.VIPs.KeepalivedConfig {
		e.keepalivedPath = c.VIPs.KeepalivedConfig
		e.keepalived = keepalived.NewReader(e.keepalivedPath)
	}
	e.observation.keepalived = e.keepalived.Read(now)
	files := e.observation.keepalived.Discovery.Files
	e.readManifests()
	e.logKeepalivedProblems(e.observation.keepalived)
	watch = append(watch, e.keepalivedPath, keepalived.StaticPodPath(e.staticPodDir), keepalived.StaticPodPath(e.disabledStaticPodDir))
	watch = append(watch, files...)
	return ShorterWait(again, e.observation.keepalived.RetryAfter)
}

// readManifests looks at keepalived's static pod: where it lies, and, when a
// node's keepalived.conf lacks the ingress, which ingress VIPs it names.
func (e *observer) readManifests() {
	managed, err := keepalived.UserManaged(e.disabledStaticPodDir)
	e.logOnChange("user-managed", "cannot tell whether the VIPs are user-managed; taking it that they are not", err)
	e.observation.userManaged = managed
	e.observation.staticPod = ""
	if path := keepalived.StaticPodPath(e.staticPodDir); exists(path) {
		e.observation.staticPod = path
	}

	vips := &e.observation.keepalived.Discovery.VIPs
	*vips, err = vips.CompleteFromStaticPod(e.staticPodDir)
	e.logOnChange("manifest", "cannot take the missing ingress VIPs from keepalived's static pod", err)
}

// exists reports whether something is at path. What cannot be looked at counts as
// absent, and the look at the disabled static pods complains of that.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// logKeepalivedProblems says what of keepalived.conf is not taken as it
// stands.
func (e *observer) logKeepalivedProblems(answer keepalived.Snapshot) {
	var stale error
	if answer.Stale {
		stale = answer.Err
	}
	what := "the last good VIPs of keepalived.conf stay in force"
	if vips := answer.Discovery.VIPs; len(vips.API) == 0 || len(vips.Ingress) == 0 {
		what = "keepalived.conf is not taken as it stands, and has given no VIPs to serve before"
	}
	e.logOnChange("keepalived", what, stale)
	var ignored error
	if notes := answer.Discovery.Ignored; len(notes) > 0 {
		ignored = errors.New(notes[0].String())
		if len(notes) > 1 {
			ignored = fmt.Errorf("%w, and %d more like it", ignored, len(notes)-1)
		}
	}
	e.logOnChange("keepalived-ignored", "a part of keepalived.conf is passed over, as keepalived does", ignored)
}

// logOnChange logs an error when it is another one than last time.
func (e *observer) logOnChange(about, message string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != e.logged[about] && err != nil {
		e.log.Warn(message, slog.String("event", about), slog.Any("error", err))
	}
	e.logged[about] = text
}

// withLock takes a snapshot of the addresses and returns the whole sight. When
// the snapshot fails, the last one stands.
func (e *observer) observe() (observation, error) {
	found, err := e.addresses.Snapshot()
	if err != nil {
		return e.observation, fmt.Errorf("list this host's addresses: %w", err)
	}
	links, err := e.links(found)
	if err != nil {
		return e.observation, err
	}
	e.observation.addresses = OwnershipAddresses(found, links)
	if err := e.computeMicroShift(links, found); err != nil {
		return e.observation, err
	}
	return e.observation, nil
}

// links lists the host's links where something hangs on their names: a host may have
// hundreds, of which nothing is asked at each change of an address otherwise.
func (e *observer) links(found []address.Address) ([]address.Link, error) {
	if !e.observation.microShift.Present && !NeedsLinkNames(found, e.observation.knownInternal()) {
		return nil, nil
	}
	return e.addresses.Links()
}

// OwnershipAddresses is what a decision needs of the addresses.
func OwnershipAddresses(found []address.Address, links []address.Link) []ownership.Address {
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
