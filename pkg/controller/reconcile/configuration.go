// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// configuration is the configuration in force: the file's, or the last good
// one when the file is refused.
type configuration struct {
	path     string
	accepted config.LastAccepted
	save     func(event, name string, write func() error)
	log      *slog.Logger

	active    config.Config
	hasActive bool   // there is one in force
	source    string // where it came from
	err       error  // why the file is refused

	readOnce       bool     // at the file, once at least
	evaluated      *content // what was judged last; nil while an earlier run's copy stands in
	unsettled      *content // what the last look found, if that has not settled
	unsettledSince time.Time
}

// The values of status.Config.Source.
const (
	sourceFile     = "file"
	sourceDefault  = "default"
	sourceAccepted = "last-accepted"
	sourceNone     = "none"
)

const (
	// settleDelay is how long a changed file must have had the same text before it
	// counts: a file that is written in place is cut short for a moment, and a
	// part of a configuration is a valid one.
	settleDelay = 100 * time.Millisecond
	// settleDelayEmpty is the same for a file that is there and empty, which would
	// undo every setting.
	settleDelayEmpty = 2 * time.Second
)

// content is what a look at the file found.
type content struct {
	text      string
	absent    bool
	readError string // the read error
}

// withLock reads the file and reports whether there is a text to take. While a
// changed file settles it says after how long to look again. asked says that
// the admin has asked for a reload, who knows that the file is complete.
func (c *configuration) read(now time.Time, asked bool) (changed bool, again time.Duration) {
	text, err := config.Read(c.path)
	found := content{text: string(text), absent: text == nil && err == nil}
	if err != nil {
		found.readError = err.Error()
	}
	first := !c.readOnce
	c.readOnce = true
	if c.evaluated != nil && *c.evaluated == found {
		c.unsettled = nil
		return false, 0
	}
	if !asked && !c.immediate(first, found) {
		if c.unsettled == nil || *c.unsettled != found {
			c.unsettled, c.unsettledSince = &found, now
		}
		if wait := found.settleDelay() - now.Sub(c.unsettledSince); wait > 0 {
			return false, wait
		}
	}
	c.evaluated, c.err, c.unsettled = &found, err, nil
	return true, 0
}

// immediate holds for what the first look finds, so that a start waits for
// nothing. But an empty file may be what a power cut has left: if an earlier
// run has accepted a configuration, that one stands in until it is clear.
func (c *configuration) immediate(first bool, found content) bool {
	if !first {
		return false
	}
	if found.settleDelay() == settleDelayEmpty {
		c.loadLastAccepted()
	}
	return !c.hasActive
}

func (c content) settleDelay() time.Duration {
	if c.text == "" && c.readError == "" && !c.absent {
		return settleDelayEmpty
	}
	return settleDelay
}

// evaluate judges what look has found and puts it in force if it is good. That
// it is refused, the state says.
func (c *configuration) evaluate() {
	var next config.Config
	if c.err == nil {
		next, c.err = config.Parse(c.path, []byte(c.evaluated.text))
	}
	if c.err == nil {
		c.accept(next)
		return
	}
	if !c.hasActive {
		c.loadLastAccepted()
	}
}

func (c *configuration) accept(next config.Config) {
	switch {
	case !c.hasActive: // the start; the state says the rest
	case c.evaluated.absent:
		c.log.Info(fmt.Sprintf("there is no %s any more: the defaults are in force", c.path), slog.String("event", "config"))
	default:
		c.log.Info("a new configuration is in force: "+c.path, slog.String("event", "config"))
	}
	c.active, c.hasActive, c.source = next, true, sourceFile
	if c.evaluated.absent {
		c.source = sourceDefault
	}
	// The copy is for the next start. If it cannot be saved, the configuration is in force
	// nevertheless.
	text := []byte(c.evaluated.text)
	c.save("config", "last accepted configuration", func() error { return c.accepted.Save(text) })
}

// loadLastAccepted takes the last accepted configuration of an earlier run.
func (c *configuration) loadLastAccepted() {
	last, err := c.accepted.Load()
	switch {
	case err == nil:
		c.active, c.hasActive, c.source = last, true, sourceAccepted
	case !errors.Is(err, fs.ErrNotExist):
		c.log.Warn("the last accepted configuration cannot be used either",
			slog.String("event", "config"), slog.Any("error", err))
	}
}

// logUnchanged answers an admin who has asked for a reload.
func (c *configuration) logUnchanged() {
	if c.err != nil {
		c.log.Error(fmt.Sprintf("reload: %s has not changed and is refused", c.path), slog.String("event", "config"), slog.Any("error", c.err))
		return
	}
	c.log.Info(fmt.Sprintf("reload: %s has not changed", c.path), slog.String("event", "config"))
}

// reloadResult is how a reload counts.
func (c *configuration) reloadResult(changed bool) string {
	switch {
	case !changed:
		return report.ReloadUnchanged
	case c.err != nil:
		return report.ReloadRefused
	default:
		return report.ReloadAccepted
	}
}

func (c *configuration) report() report.Config {
	r := report.Config{Source: c.source, Path: c.path}
	if c.err != nil {
		r.Source, r.Error = sourceAccepted, c.err.Error()
	}
	if !c.hasActive {
		r.Source = sourceNone
	}
	return r
}
