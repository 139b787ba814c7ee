// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Update is what a watch shows at a time.
type Update struct {
	Document any           // for JSON and YAML
	Text     terminal.Text // for a file, a pipe, and a terminal without cursor movement
	Screen   terminal.Text // for the whole screen of a terminal
}

// Watch shows updates until ctx ends, or next fails: on a terminal each replaces the one before. As
// JSON each is a line, and as YAML a document. Other text is separated by empty lines. Between the
// starts of two updates it waits at least the interval.
func (o *Output) Watch(
	ctx context.Context, out io.Writer, interval time.Duration, next func(context.Context) (Update, error),
) error {
	show := o.block(out)
	switch {
	case o.Format == JSON:
		show = func(u Update) error { return report.WriteJSON(out, u.Document, false) }
	case o.Format == YAML:
		show = func(u Update) error {
			_, err := io.WriteString(out, "---\n")
			return errors.Join(err, o.Write(out, u.Document, u.Text))
		}
	case IsTerminal(out) && os.Getenv("TERM") != "dumb":
		s := screen{out}
		scrolled := false
		defer func() {
			if scrolled {
				_ = s.write("\r\n")
			}
		}()
		show = func(u Update) error {
			if !scrolled {
				scrolled = true
				if err := s.scroll(); err != nil {
					return err
				}
			}
			return o.draw(s, u)
		}
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		u, err := next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = show(u)
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// block writes each update after an empty line, except the first.
func (o *Output) block(out io.Writer) func(Update) error {
	separator := ""
	return func(u Update) error {
		_, err := io.WriteString(out, separator)
		separator = "\n"
		return errors.Join(err, o.Write(out, u.Document, u.Text))
	}
}

// draw replaces the contents of the screen.
func (o *Output) draw(s screen, u Update) error {
	view := o.View(s.out)
	view.Width, view.Height = s.size()
	var text strings.Builder
	if err := u.Screen.Write(&text, view); err != nil {
		return err
	}
	return s.draw(text.String())
}
