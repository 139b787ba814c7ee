// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
)

// configuration is the configuration in force: the file's, or the last good
// one when the file is refused.
type configuration struct {
	path     string
	accepted config.Accepted
	log      *slog.Logger

	config config.Config
	known  bool   // there is one in force
	source string // where it came from
	err    error  // why the file is refused

	seen bool   // the file has been looked at
	text []byte // what stood in it
	fail string // the read error then
}

// The values of status.Config.Source.
const (
	sourceFile     = "file"
	sourceDefault  = "default"
	sourceAccepted = "last-accepted"
	sourceNone     = "none"
)

// changed reads the file and reports whether it differs from the last look.
func (c *configuration) changed() bool {
	text, err := config.Read(c.path)
	fail := ""
	if err != nil {
		fail = err.Error()
	}
	if c.seen && bytes.Equal(text, c.text) && fail == c.fail {
		return false
	}
	c.seen, c.text, c.fail, c.err = true, text, fail, err
	return true
}

// take judges what changed has read and puts it in force if it is good. That
// it is refused, the state says.
func (c *configuration) take() {
	var next config.Config
	if c.err == nil {
		next, c.err = config.Parse(c.path, c.text)
	}
	if c.err == nil {
		c.accept(next)
		return
	}
	if !c.known {
		c.fallBack()
	}
}

func (c *configuration) accept(next config.Config) {
	if c.known {
		c.log.Info("a new configuration is in force", slog.String("event", "config"), slog.String("path", c.path))
	}
	c.config, c.known, c.source = next, true, sourceFile
	if len(c.text) == 0 {
		c.source = sourceDefault
	}
	// The copy serves a later start; failing to keep it must not stop a good
	// configuration now.
	if err := c.accepted.Save(c.text); err != nil {
		c.log.Warn("a later start with a refused configuration would find no last good one",
			slog.String("event", "config"), slog.Any("error", err))
	}
}

// fallBack takes the last accepted configuration of an earlier run.
func (c *configuration) fallBack() {
	last, err := c.accepted.Load()
	switch {
	case err == nil:
		c.config, c.known, c.source = last, true, sourceAccepted
	case !errors.Is(err, fs.ErrNotExist):
		c.log.Warn("the last accepted configuration cannot be used either",
			slog.String("event", "config"), slog.Any("error", err))
	}
}

func (c *configuration) report() status.Config {
	r := status.Config{Source: c.source, Path: c.path}
	if !c.known {
		r.Source = sourceNone
	}
	if c.err != nil {
		r.Error = c.err.Error()
	}
	return r
}
