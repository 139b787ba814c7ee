// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/apiname"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/staticpod"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// files is what one read found: an immutable value.
type files struct {
	read        bool          // false: nothing was read yet
	config      config.Config // the active one
	configKnown bool          // false: the file is rejected and there is no last good one
	configErr   error         // why the file is rejected
	configState report.Config
	reload      string // the result of a reload; empty: the configuration did not change

	userManaged     bool                // keepalived's static pod is in kubelet's directory of disabled ones
	staticPod       string              // the path of keepalived's static pod; empty if it does not exist
	pod             staticpod.Discovery // keepalived's static pod
	podErr          error               // why pod is not the content of the static pod
	keepalived      keepalived.Snapshot // unless the static pod configures the VIPs
	kubeVIP         staticpod.Discovery
	kubeVIPErr      error // why kubeVIP is incomplete or not the content of the static pods
	microShiftDir   string
	microShiftFiles microshift.Snapshot
	apiNames        []string // of the API, as far as they are known
	apiNamesErr     error    // why they are not known
	acceptedHosts   report.AcceptedHosts
}

// isBGP reports whether kube-vip manages the VIPs, so that several hosts hold them at once.
func (f files) isBGP() bool { return f.kubeVIP.Selected(f.config.VIPs.Management) }

// fileReader reads the configuration and the files that it refers to. One goroutine at a time uses it. The
// reconcile loop does not wait for it: a file system can hang.
type fileReader struct {
	watch                        Files
	manifests, disabledManifests string
	unitsDir                     string
	errors                       changedErrors

	configuration  configuration
	keepalived     *keepalived.Reader
	keepalivedPath string // the file of keepalived
	keepalivedPod  *staticpod.Reader
	kubeVIP        *staticpod.Reader
	microShift     *microshift.Reader
	apiName        settled.Content[apiNameContent]
	names          apiname.Sources
	found          files
}

// apiNameContent is the result of reading the API's name.
type apiNameContent struct{ name, problem string }

func newFileReader(parts Dependencies) *fileReader {
	return &fileReader{
		watch: parts.Files, manifests: parts.ManifestDir, disabledManifests: parts.DisabledManifestDir,
		unitsDir: parts.UnitsDir, errors: newChangedErrors(parts.Log), names: apiname.Sources{Path: parts.APIServerURLFile},
		keepalivedPod: staticpod.NewKeepalivedReader(parts.ManifestDir),
		kubeVIP:       staticpod.NewKubeVIPReader(parts.ManifestDir),
		configuration: configuration{
			path: parts.ConfigPath, accepted: config.NewLastAccepted(parts.StateDir), save: parts.Save, log: parts.Log,
		},
	}
}

// read reads the configuration and the files that it refers to. next is the delay of the next read without
// an event; 0: none. With reload the administrator requests it.
func (r *fileReader) read(now time.Time, reload bool) (found files, next time.Duration) {
	changed, settling := r.configuration.read(now, reload)
	r.found.reload = ""
	if changed || reload {
		r.found.reload = r.configuration.reloadResult(changed)
	}
	r.found.configErr, r.found.configState = r.configuration.err(), r.configuration.report()
	next = settled.ShorterWait(settling, r.readOthers(now))
	r.found.read = true
	return r.found, next
}

// readOthers reads and watches the files that the active configuration refers to. It
// returns the delay of the next read without an event; 0: none.
func (r *fileReader) readOthers(now time.Time) time.Duration {
	c, known := r.configuration.active()
	r.found.config, r.found.configKnown = c, known
	watch := []string{r.configuration.path}
	defer func() { r.watch.Watch(watch...) }()
	r.found.acceptedHosts = report.AcceptedHosts{}
	if !r.found.configKnown || !c.Enabled() {
		return 0
	}
	paths, retry := r.readMicroShift(now)
	watch = append(watch, paths...)
	retry = settled.ShorterWait(retry, r.readAPINames(now))
	retry = settled.ShorterWait(retry, r.readKubeVIP(now))
	watch = append(watch, r.names.Path, r.manifests)
	if c.VIPs.Explicit() || r.found.isBGP() {
		return retry
	}
	retry = settled.ShorterWait(retry, r.readKeepalivedPod(now))
	watch = append(watch, staticpod.KeepalivedPath(r.manifests), staticpod.KeepalivedPath(r.disabledManifests))
	if r.found.pod.HasVIPs() {
		r.found.keepalived = keepalived.Snapshot{}
		return retry
	}
	if r.keepalivedPath != c.VIPs.KeepalivedConfig {
		r.keepalivedPath = c.VIPs.KeepalivedConfig
		r.keepalived = keepalived.NewReader(r.keepalivedPath)
	}
	r.found.keepalived = r.keepalived.Read(now)
	var stale error
	if r.found.keepalived.Stale {
		stale = r.found.keepalived.Err
	}
	r.errors.logOnChange("keepalived", "keepalived.conf is not used; the known VIPs stay in use", stale)
	watch = append(watch, r.keepalivedPath)
	watch = append(watch, r.found.keepalived.Discovery.Files...)
	return settled.ShorterWait(retry, r.found.keepalived.RetryAfter)
}

// readAPINames reads the API's name, decides which names are accepted, and returns the delay of
// the next read. A name that is lost stays in use for a moment, because its file may be being
// replaced, and for as long as the content of the file is not usable. A missing file is no
// fault: it exists only on OpenShift.
func (r *fileReader) readAPINames(now time.Time) (retry time.Duration) {
	name, err := apiname.Read(r.names.Path)
	found, delay := apiNameContent{name: name}, settled.ChangeDelay
	if err != nil {
		found.problem, delay = err.Error(), settled.LossDelay
	}
	if _, known := r.apiName.Current(); !known {
		delay = 0
	}
	if retry = r.apiName.Wait(found, delay, now); retry == 0 {
		r.apiName.Accept(found)
		if r.names.Err = err; err == nil || errors.Is(err, fs.ErrNotExist) {
			r.names.Name = name
		}
	}
	r.names.MicroShiftDir, r.names.MicroShift = r.found.microShiftDir, r.found.microShiftFiles
	r.found.apiNames, _, r.found.apiNamesErr = r.names.Names()
	r.found.acceptedHosts = r.names.Accept(r.found.config, r.configuration.path)
	return retry
}

// readKubeVIP reads kube-vip's static pods and returns the delay of the next read.
func (r *fileReader) readKubeVIP(now time.Time) (retry time.Duration) {
	found, retry, err := r.kubeVIP.Read(now)
	r.found.kubeVIP, r.found.kubeVIPErr = found, err
	r.errors.logOnChange("kube-vip", "a static pod of kube-vip is not used; the known VIPs stay in use", err)
	return retry
}

// readKeepalivedPod reads keepalived's static pod and returns the delay of the next read.
func (r *fileReader) readKeepalivedPod(now time.Time) (retry time.Duration) {
	managed, err := staticpod.UserManaged(r.disabledManifests)
	r.errors.logOnChange("user-managed", "cannot detect whether the VIPs are user-managed; assuming that they are not",
		err)
	r.found.userManaged = managed
	r.found.pod, retry, err = r.keepalivedPod.Read(now)
	r.found.podErr = err
	r.errors.logOnChange("manifest", "keepalived's static pod is not used; the known VIPs stay in use", err)
	r.found.staticPod = ""
	if r.found.pod.Present {
		r.found.staticPod = staticpod.KeepalivedPath(r.manifests)
	}
	return retry
}

// readMicroShift reads MicroShift's configuration and returns the paths to watch.
func (r *fileReader) readMicroShift(now time.Time) (watch []string, retry time.Duration) {
	dir := r.found.config.MicroShift.Directory
	if dir == "" {
		r.microShift, r.found.microShiftDir, r.found.microShiftFiles = nil, "", microshift.Snapshot{}
		return nil, 0
	}
	if r.microShift == nil || r.found.microShiftDir != dir {
		r.microShift, r.found.microShiftDir = microshift.NewReader(dir, r.unitsDir), dir
	}
	r.found.microShiftFiles = r.microShift.Read(now)
	problem := r.found.microShiftFiles.Err
	if problem == nil {
		problem = decision.PendingRestart(r.found.microShiftFiles.Newer)
	}
	r.errors.logOnChange("microshift", "MicroShift does not use its configuration files as they are now", problem)
	return r.found.microShiftFiles.Watch, r.found.microShiftFiles.RetryAfter
}

// changedErrors logs errors once. One goroutine at a time uses it.
type changedErrors struct {
	log  *slog.Logger
	last map[string]string // by subject
}

func newChangedErrors(log *slog.Logger) changedErrors {
	return changedErrors{log, make(map[string]string)}
}

// logOnChange logs an error about a subject if it differs from the last one.
func (c changedErrors) logOnChange(about, message string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != c.last[about] && err != nil {
		c.log.Warn(message, slog.String("event", about), slog.Any("error", err))
	}
	c.last[about] = text
}
