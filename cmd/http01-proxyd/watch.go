// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

// watch prints the status repeatedly until ctx ends. A service that does not answer is
// also shown, because it may be starting. A missing permission is an error: waiting
// does not change it.
func watch(ctx context.Context, f statusFlags, out io.Writer) error {
	w := &watcher{statusFlags: f, out: out, host: hostName()}
	switch {
	case f.out.Format == cli.JSON || f.out.Format == cli.YAML:
		return w.run(ctx, w.printDocument)
	case !cli.IsTerminal(out) || os.Getenv("TERM") == "dumb":
		return w.run(ctx, w.printText)
	}
	screen := screen{out}
	draw := func(now time.Time) error { return w.draw(screen, now) }
	return errors.Join(screen.scroll(), w.run(ctx, draw), screen.write("\r\n"))
}

type watcher struct {
	statusFlags

	out  io.Writer
	host string

	last         report.Report // the last report, without a condition before the first one
	lastFetched  time.Time     // time of the last report
	missingSince time.Time     // zero while the service answers
	fetchError   error
	shown        bool
}

// run fetches and shows reports.
func (w *watcher) run(ctx context.Context, show func(time.Time) error) error {
	next := time.NewTicker(w.interval)
	defer next.Stop()
	for {
		if err := w.fetch(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := show(time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
	}
}

// fetch requests one report. It returns only errors that are permanent.
func (w *watcher) fetch(ctx context.Context) error {
	report, err := client.Fetch(ctx, w.socket)
	now := time.Now()
	switch {
	case err == nil:
		w.last, w.lastFetched, w.missingSince, w.fetchError = report, now, time.Time{}, nil
	case errors.Is(err, fs.ErrPermission):
		return err
	default:
		if w.missingSince.IsZero() {
			w.missingSince = now
		}
		w.fetchError = err
	}
	return nil
}

// report returns the last report, or one that describes the missing service.
func (w *watcher) report() report.Report {
	if w.fetchError != nil {
		return report.ServiceUnreachable(w.missingSince, w.fetchError)
	}
	return w.last
}

// printDocument prints a line of JSON, or a document of a YAML stream.
func (w *watcher) printDocument(time.Time) error {
	if w.statusFlags.out.Format == cli.JSON {
		return report.WriteJSON(w.out, w.report().Document(), false)
	}
	if _, err := io.WriteString(w.out, "---\n"); err != nil {
		return err
	}
	return w.write(w.out, w.report())
}

// printText prints a block, with an empty line between blocks.
func (w *watcher) printText(now time.Time) error {
	var text strings.Builder
	if w.shown {
		text.WriteByte('\n')
	}
	w.shown = true
	if err := terminal.Report(w.report(), now).Write(&text, w.statusFlags.out.View(w.out)); err != nil {
		return err
	}
	_, err := io.WriteString(w.out, text.String())
	return err
}

// draw repaints the screen with a title and the report. While the service does not
// answer, its last report stays on the screen.
func (w *watcher) draw(out screen, now time.Time) error {
	view := w.statusFlags.out.View(w.out)
	view.Width, _ = out.size()
	var text strings.Builder
	title := fmt.Sprintf("%s  http01-proxyd on %s, every %s; Ctrl-C ends",
		now.Format(time.TimeOnly), w.host, shortDuration(w.interval))
	text.WriteString(printable.Line(title) + "\n\n")
	if w.fetchError != nil {
		if err := terminal.Report(w.report(), now).Write(&text, view); err != nil {
			return err
		}
		fmt.Fprintf(&text, "\nnot reachable since %s", w.missingSince.Format(time.TimeOnly))
		if w.lastFetched.IsZero() {
			text.WriteByte('\n')
			return out.draw(text.String())
		}
		fmt.Fprintf(&text, "; last report, of %s:\n\n", w.lastFetched.Format(time.TimeOnly))
	}
	if err := terminal.Report(w.last, now).Write(&text, view); err != nil {
		return err
	}
	return out.draw(text.String())
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "this host"
	}
	return name
}
