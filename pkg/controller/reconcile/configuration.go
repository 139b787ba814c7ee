// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// configuration is the configuration file and the active configuration: from the file, or the
// last good one while the file is rejected.
type configuration struct {
	path     string
	accepted config.LastAccepted
	save     func(event, name string, write func() error)
	log      *slog.Logger

	file     settled.File[content, config.Config]
	readOnce bool
	source   string // of the active configuration
}

// The values of report.Config.Source.
const (
	sourceFile     = "file"
	sourceDefault  = "default"
	sourceAccepted = "last-accepted"
	sourceNone     = "none"
)

// content is the result of reading the file.
type content struct {
	text      string
	absent    bool
	readError string
}

// active returns the active configuration, if there is one.
func (c *configuration) active() (config.Config, bool) { return c.file.Value() }

// err returns why the file is rejected, or nil.
func (c *configuration) err() error { return c.file.Err() }

// read reads the file. If its content is new and settled, read evaluates it and reports
// changed. retry is the delay of the next read while the content settles. With reload the
// administrator requests a reload, so the file is complete, unless it is empty: a program that
// writes the file in place truncates it first, at any moment.
func (c *configuration) read(now time.Time, reload bool) (changed bool, retry time.Duration) {
	text, err := config.Read(c.path)
	found := content{text: string(text), absent: text == nil && err == nil}
	if err != nil {
		found.readError = err.Error()
	}
	delay := found.settleDelay()
	if reload && !found.empty() || c.immediate(found) {
		delay = 0
	}
	c.readOnce = true
	if retry = c.file.Wait(found, delay, now); retry > 0 || c.file.Is(found) {
		return false, retry
	}
	c.evaluate(found, err)
	return true, 0
}

// immediate reports whether a content takes effect without delay: the first one does, so
// that a start does not wait. An empty file, however, can be the result of a power
// failure. If an earlier process accepted a configuration, that configuration is active until
// the empty file settles.
func (c *configuration) immediate(found content) bool {
	if c.readOnce {
		return false
	}
	if found.empty() {
		c.loadLastAccepted()
	}
	_, known := c.active()
	return !known
}

// empty reports whether the file exists and is empty.
func (c content) empty() bool { return c.text == "" && c.readError == "" && !c.absent }

// settleDelay returns how long the content must stay the same. A file that is written in
// place is incomplete for a moment, and an incomplete configuration can be valid. An empty
// file removes every setting.
func (c content) settleDelay() time.Duration {
	if c.empty() {
		return settled.LossDelay
	}
	return settled.ChangeDelay
}

// evaluate parses a settled content. A valid one becomes active; the state reports an
// invalid one.
func (c *configuration) evaluate(found content, err error) {
	_, known := c.active()
	var next config.Config
	if err == nil {
		next, err = config.Parse(c.path, []byte(found.text))
	}
	c.file.Take(found, next, err)
	switch {
	case err == nil:
		c.accept(found, known)
	case !known:
		c.loadLastAccepted()
	}
}

// accept logs and saves a configuration that became active. known is false at the
// start, of which the state is enough.
func (c *configuration) accept(found content, known bool) {
	switch {
	case !known:
	case found.absent:
		c.log.Info(c.path+" no longer exists: the defaults are active", slog.String("event", "config"))
	default:
		c.log.Info("new configuration active: "+c.path, slog.String("event", "config"))
	}
	c.source = sourceFile
	if found.absent {
		c.source = sourceDefault
	}
	// The copy is for the next start. If it cannot be saved, the configuration is active
	// nevertheless.
	text := []byte(found.text)
	c.save("config", "last accepted configuration", func() error { return c.accepted.Save(text) })
}

// loadLastAccepted makes the last accepted configuration of an earlier process active.
func (c *configuration) loadLastAccepted() {
	last, err := c.accepted.Load()
	switch {
	case err == nil:
		c.file.Restore(last)
		c.source = sourceAccepted
	case !errors.Is(err, fs.ErrNotExist):
		c.log.Warn("cannot use the last accepted configuration either",
			slog.String("event", "config"), slog.Any("error", err))
	}
}

// reloadResult returns the result of a reload for its counter. It logs a requested reload of an
// unchanged file.
func (c *configuration) reloadResult(changed bool) string {
	switch {
	case !changed:
		text := "reload: " + c.path + " has not changed"
		if c.file.Pending() {
			text = fmt.Sprintf("reload: %s is empty; the defaults become active if it is still empty after %v",
				c.path, settled.LossDelay)
		}
		c.log.Info(text, slog.String("event", "config"))
		return report.ReloadUnchanged
	case c.err() != nil:
		return report.ReloadRejected
	default:
		return report.ReloadAccepted
	}
}

func (c *configuration) report() report.Config {
	r := report.Config{Source: c.source, Path: c.path}
	if err := c.err(); err != nil {
		r.Source, r.Error = sourceAccepted, err.Error()
	}
	if _, known := c.active(); !known {
		r.Source = sourceNone
	}
	return r
}
