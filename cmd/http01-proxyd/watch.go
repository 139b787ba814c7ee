// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

// watch prints the status repeatedly until ctx ends. A service that does not answer is also shown,
// because it may be starting. A missing permission is an error: waiting does not change it.
func watch(ctx context.Context, f statusFlags, out io.Writer) error {
	host := hostName()
	var missingSince time.Time // zero while the service answers, and if it never did
	answered := false
	return f.out.Watch(ctx, out, f.interval, func(ctx context.Context) (cli.Update, error) {
		current, err := client.Fetch(ctx, f.socket)
		switch {
		case err == nil:
			missingSince, answered = time.Time{}, true
		case errors.Is(err, fs.ErrPermission):
			return cli.Update{}, err
		default:
			if missingSince.IsZero() && answered {
				missingSince = time.Now()
			}
			current = report.ServiceUnreachable(time.Now(), err)
			current.StateSince = missingSince
		}
		now := time.Now()
		title := fmt.Sprintf("%s  http01-proxyd on %s, every %v; Ctrl-C ends", now.Format(time.TimeOnly), host, f.interval)
		text := terminal.Report(current, now)
		return cli.Update{
			Document: verdict.Document(current, now), Text: text,
			Screen: terminal.Watch(title, text, section.Challenges(current.Challenges, now)),
		}, nil
	})
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "this host"
	}
	return name
}
