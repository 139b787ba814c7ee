// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// watch shows the status again and again until ctx ends, which is how it is
// meant to end. That the service does not answer is one more thing to show: it
// may be on its way. Only that one may not ask does not change by waiting.
func watch(ctx context.Context, f statusFlags, out io.Writer) error {
	w := &watcher{statusFlags: f, out: out, host: hostName()}
	show := w.printText
	switch {
	case f.format == "json":
		show = w.printJSON
	case inPlace(out):
		return w.inPlace(ctx)
	}
	return w.run(ctx, show, nil)
}

type watcher struct {
	statusFlags

	out  io.Writer
	host string

	last    report.Report // of the service; without a condition before the first
	asked   time.Time     // when it told that
	missing time.Time     // since when it has not answered; zero when it does
	why     error
	shown   bool
}

// run asks and shows. A signal shows what is known once more; nil as a channel
// never comes.
func (w *watcher) run(ctx context.Context, show func(time.Time) error, again <-chan os.Signal) error {
	next := time.NewTicker(w.interval)
	defer next.Stop()
	for {
		if err := w.ask(ctx); err != nil {
			return err
		}
		for waiting := true; waiting; {
			if ctx.Err() != nil {
				return nil
			}
			if err := show(time.Now()); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-next.C:
				waiting = false
			case s := <-again:
				if s == unix.SIGTSTP {
					if err := w.pause(); err != nil {
						return err
					}
				}
			}
		}
	}
}

// ask asks the service once. The error is one that waiting does not mend.
func (w *watcher) ask(ctx context.Context) error {
	report, err := report.Fetch(ctx, w.socket)
	now := time.Now()
	switch {
	case err == nil:
		w.last, w.asked, w.missing, w.why = report, now, time.Time{}, nil
	case errors.Is(err, fs.ErrPermission):
		return err
	default:
		if w.missing.IsZero() {
			w.missing = now
		}
		w.why = err
	}
	return nil
}

// report is what the service tells, or that it does not.
func (w *watcher) report() report.Report {
	if w.why != nil {
		return report.ServiceUnreachable(w.missing, w.why)
	}
	return w.last
}

func (w *watcher) printJSON(time.Time) error { return w.report().WriteJSON(w.out, false) }

// printText prints a block, and an empty line between blocks.
func (w *watcher) printText(now time.Time) error {
	var text strings.Builder
	if w.shown {
		text.WriteByte('\n')
	}
	w.shown = true
	if err := w.report().WriteText(&text, now, w.view(0, 0)); err != nil {
		return err
	}
	_, err := io.WriteString(w.out, text.String())
	return err
}

func (w *watcher) view(columns, rows int) report.View {
	return report.View{Colour: command.Colour(w.out), Width: columns, Height: rows}
}

// inPlace is the watch in a terminal, which is as it was before when it ends.
func (w *watcher) inPlace(ctx context.Context) (err error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGWINCH, unix.SIGTSTP)
	defer signal.Stop(signals)
	terminal := screen{w.out}
	if err := terminal.enter(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, terminal.leave()) }()
	return w.run(ctx, func(now time.Time) error { return w.draw(terminal, now) }, signals)
}

// pause stops the process as Ctrl-Z does, with the terminal as it was, and
// returns when it goes on. The leader of a session has nobody who would continue
// it, and stays.
func (w *watcher) pause() error {
	if leader, err := unix.Getsid(0); err != nil || leader == unix.Getpid() {
		return nil
	}
	terminal := screen{w.out}
	if err := terminal.leave(); err != nil {
		return err
	}
	// To this very thread: the signal has come before the call returns.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGSTOP); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return terminal.enter()
}

// draw puts a title, and what is known, onto the screen. While the service does
// not answer, what it told last stays in sight.
func (w *watcher) draw(terminal screen, now time.Time) error {
	columns, rows := terminal.size()
	var text strings.Builder
	title := fmt.Sprintf("%s  http01-proxyd on %s, every %s; Ctrl-C ends", now.Format(time.TimeOnly), w.host, brief(w.interval))
	text.WriteString(report.OneLine(title) + "\n\n")
	view := w.view(columns, rows)
	if w.why != nil {
		if err := w.report().WriteText(&text, now, view); err != nil {
			return err
		}
		fmt.Fprintf(&text, "\nnot reachable since %s", w.missing.Format(time.TimeOnly))
		if w.asked.IsZero() {
			text.WriteByte('\n')
			return terminal.draw(text.String())
		}
		fmt.Fprintf(&text, "; what it told at %s:\n\n", w.asked.Format(time.TimeOnly))
	}
	view.Height = max(1, rows-strings.Count(text.String(), "\n"))
	if err := w.last.WriteText(&text, now, view); err != nil {
		return err
	}
	return terminal.draw(text.String())
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "this host"
	}
	return name
}
