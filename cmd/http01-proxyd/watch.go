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

// watch prints the status repeatedly until ctx ends.
func watch(ctx context.Context, f statusFlags, out io.Writer) error {
	switch {
	case f.out.Format == cli.JSON:
		return f.repeat(ctx, func(r report.Report) error { return report.WriteJSON(out, r.Document(), false) })
	case f.out.Format == cli.YAML:
		return f.repeat(ctx, func(r report.Report) error { return f.writeAfter("---\n", out, r) })
	case !cli.IsTerminal(out) || os.Getenv("TERM") == "dumb":
		separator := ""
		return f.repeat(ctx, func(r report.Report) error {
			defer func() { separator = "\n" }()
			return f.writeAfter(separator, out, r)
		})
	}
	screen, host := screen{out}, hostName()
	draw := func(r report.Report) error { return f.draw(screen, host, r, time.Now()) }
	return errors.Join(screen.scroll(), f.repeat(ctx, draw), screen.write("\r\n"))
}

// repeat fetches and shows reports. A service that does not answer is also shown, because
// it may be starting. A missing permission is an error: waiting does not change it.
func (f statusFlags) repeat(ctx context.Context, show func(report.Report) error) error {
	next := time.NewTicker(f.interval)
	defer next.Stop()
	var missingSince time.Time // zero while the service answers
	for {
		current, err := client.Fetch(ctx, f.socket)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			missingSince = time.Time{}
		case errors.Is(err, fs.ErrPermission):
			return err
		default:
			if missingSince.IsZero() {
				missingSince = time.Now()
			}
			current = report.ServiceUnreachable(missingSince, err)
		}
		if err := show(current); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
	}
}

// writeAfter writes a report after a separator.
func (f statusFlags) writeAfter(separator string, out io.Writer, current report.Report) error {
	if _, err := io.WriteString(out, separator); err != nil {
		return err
	}
	return f.write(out, current)
}

// draw repaints the screen with a title and the report.
func (f statusFlags) draw(out screen, host string, current report.Report, now time.Time) error {
	view := f.out.View(out.out)
	view.Width, _ = out.size()
	var text strings.Builder
	title := fmt.Sprintf("%s  http01-proxyd on %s, every %v; Ctrl-C ends", now.Format(time.TimeOnly), host, f.interval)
	text.WriteString(printable.Line(title) + "\n\n")
	if err := terminal.Report(current, now).Write(&text, view); err != nil {
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
