// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
)

// observer reads the state of the host and keeps the last one.
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
	keepalivedPath  string                // the file of keepalived
	microShiftState *microshift.StateFile // nil before the first readMicroShift
	microShift      *microshift.Reader
	microShiftDir   string          // the directory of microShift
	nodeAddressWait nodeAddressWait // of MicroShift
	observation     observation
	logged          map[string]string // the last error by subject
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

// readFiles reads and watches the files that the active configuration refers to. It
// returns the delay of the next read without an event; 0: none.
func (e *observer) readFiles(now time.Time) time.Duration {
	c, known := e.configuration.active()
	e.observation.config, e.observation.configKnown = c, known
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

// readManifests reads keepalived's static pod: its path and, if keepalived.conf of a node
// has no ingress VIPs, its ingress VIPs.
func (e *observer) readManifests() {
	managed, err := keepalived.UserManaged(e.disabledStaticPodDir)
	e.logOnChange("user-managed", "cannot detect whether the VIPs are user-managed; assuming that they are not", err)
	e.observation.userManaged = managed
	e.observation.staticPod = ""
	if path := keepalived.StaticPodPath(e.staticPodDir); exists(path) {
		e.observation.staticPod = path
	}

	vips := &e.observation.keepalived.Discovery.VIPs
	*vips, err = vips.CompleteFromStaticPod(e.staticPodDir)
	e.logOnChange("manifest", "cannot read the ingress VIPs, which keepalived.conf lacks, from keepalived's static pod", err)
}

// exists reports whether path exists. An error counts as absent; reading the disabled
// static pods logs it.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// logKeepalivedProblems logs why keepalived.conf, or a part of it, is not used.
func (e *observer) logKeepalivedProblems(answer keepalived.Snapshot) {
	var stale error
	if answer.Stale {
		stale = answer.Err
	}
	what := "the last good VIPs of keepalived.conf stay in use"
	if vips := answer.Discovery.VIPs; len(vips.API) == 0 || len(vips.Ingress) == 0 {
		what = "keepalived.conf is not used, and there are no last good VIPs"
	}
	e.logOnChange("keepalived", what, stale)
	var ignored error
	if notes := answer.Discovery.Ignored; len(notes) > 0 {
		ignored = errors.New(notes[0].String())
		if len(notes) > 1 {
			ignored = fmt.Errorf("%w, and %d more", ignored, len(notes)-1)
		}
	}
	e.logOnChange("keepalived-ignored", "a part of keepalived.conf is ignored, as by keepalived", ignored)
}

// logOnChange logs an error about a subject if it differs from the last one.
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

// observe reads the addresses and returns the observation. If they cannot be read, the
// last ones stay.
func (e *observer) observe() (observation, error) {
	found, err := e.addresses.Snapshot()
	if err != nil {
		return e.observation, fmt.Errorf("cannot list the addresses of this host: %w", err)
	}
	links, err := e.links(found)
	if err != nil {
		return e.observation, err
	}
	e.observation.addresses = ownership.FromAddresses(found, links)
	if err := e.computeMicroShift(links, found); err != nil {
		return e.observation, err
	}
	return e.observation, nil
}

// links returns the links of the host if their names are needed. A host may have hundreds
// of links, so they are not read for every change of an address.
func (e *observer) links(found []address.Address) ([]address.Link, error) {
	if !e.observation.microShift.Present && !decision.NeedsLinkNames(found, e.observation.knownInternal()) {
		return nil, nil
	}
	return e.addresses.Links()
}
