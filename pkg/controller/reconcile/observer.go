// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/staticpod"
)

// observer reads the state of the host and keeps the last one.
type observer struct {
	Dependencies

	configuration  configuration
	keepalived     *keepalived.Reader
	keepalivedPath string // the file of keepalived
	keepalivedPod  *staticpod.Reader
	kubeVIP        *staticpod.Reader
	microShift     *microshift.Reader
	microShiftDir  string // the directory of microShift
	observation    observation
	logged         map[string]string // the last error by subject
}

func newObserver(parts Dependencies) observer {
	return observer{
		Dependencies:  parts,
		keepalivedPod: staticpod.NewKeepalivedReader(parts.ManifestDir),
		kubeVIP:       staticpod.NewKubeVIPReader(parts.ManifestDir),
		configuration: configuration{
			path: parts.ConfigPath, accepted: config.NewLastAccepted(parts.StateDir), save: parts.Save, log: parts.Log,
		},
		logged: make(map[string]string),
	}
}

// readFiles reads and watches the files that the active configuration refers to. It
// returns the delay of the next read without an event; 0: none.
func (o *observer) readFiles(now time.Time) time.Duration {
	c, known := o.configuration.active()
	o.observation.config, o.observation.configKnown = c, known
	watch := []string{o.configuration.path}
	defer func() { o.Files.Watch(watch...) }()
	if !o.observation.configKnown || !c.Enabled() {
		return 0
	}
	also, again := o.readMicroShift(now)
	watch = append(watch, also...)
	again = settled.ShorterWait(again, o.readKubeVIP(now))
	watch = append(watch, o.ManifestDir)
	if c.VIPs.Explicit() || o.observation.isBGP() {
		return again
	}
	again = settled.ShorterWait(again, o.readKeepalivedPod(now))
	watch = append(watch, staticpod.KeepalivedPath(o.ManifestDir), staticpod.KeepalivedPath(o.DisabledManifestDir))
	if o.observation.pod.HasVIPs() {
		o.observation.keepalived = keepalived.Snapshot{}
		return again
	}
	if o.keepalivedPath != c.VIPs.KeepalivedConfig {
		o.keepalivedPath = c.VIPs.KeepalivedConfig
		o.keepalived = keepalived.NewReader(o.keepalivedPath)
	}
	o.observation.keepalived = o.keepalived.Read(now)
	var stale error
	if o.observation.keepalived.Stale {
		stale = o.observation.keepalived.Err
	}
	o.logOnChange("keepalived", "keepalived.conf is not used; VIPs that are known stay in use", stale)
	watch = append(watch, o.keepalivedPath)
	watch = append(watch, o.observation.keepalived.Discovery.Files...)
	return settled.ShorterWait(again, o.observation.keepalived.RetryAfter)
}

// readKubeVIP reads kube-vip's static pods and returns the delay of the next read.
func (o *observer) readKubeVIP(now time.Time) (again time.Duration) {
	found, again, err := o.kubeVIP.Read(now)
	o.observation.kubeVIP, o.observation.kubeVIPErr = found, err
	o.logOnChange("kube-vip", "a static pod of kube-vip is not used; the VIPs that are known stay in use", err)
	return again
}

// readKeepalivedPod reads keepalived's static pod and returns the delay of the next read.
func (o *observer) readKeepalivedPod(now time.Time) (again time.Duration) {
	managed, err := staticpod.UserManaged(o.DisabledManifestDir)
	o.logOnChange("user-managed", "cannot detect whether the VIPs are user-managed; assuming that they are not", err)
	o.observation.userManaged = managed
	o.observation.pod, again, err = o.keepalivedPod.Read(now)
	o.observation.podErr = err
	o.logOnChange("manifest", "keepalived's static pod is not used; the VIPs that are known stay in use", err)
	o.observation.staticPod = ""
	if o.observation.pod.Present {
		o.observation.staticPod = staticpod.KeepalivedPath(o.ManifestDir)
	}
	return again
}

// logOnChange logs an error about a subject if it differs from the last one.
func (o *observer) logOnChange(about, message string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != o.logged[about] && err != nil {
		o.Log.Warn(message, slog.String("event", about), slog.Any("error", err))
	}
	o.logged[about] = text
}

// observe reads the addresses and returns the observation. If they cannot be read, the
// last ones stay.
func (o *observer) observe() (observation, error) {
	found, err := o.Addresses.Snapshot()
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

// links returns the links of the host if their names are needed. A host may have hundreds
// of links, so they are not read for every change of an address.
func (o *observer) links(found []address.Address) ([]address.Link, error) {
	if !o.observation.microShift.Present && !decision.NeedsLinkNames(found, o.observation.rememberedInternal) {
		return nil, nil
	}
	return o.Addresses.Links()
}
