// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/trace"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

const nearlyFullPercent = 90

// stats are counters of the kernel's connection tracking.
type stats struct {
	count, max uint64
	dropped    uint64 // since boot, because the table was full
}

// sampleTime is the time between the two readings of a check, during which drops are
// counted.
const sampleTime = 500 * time.Millisecond

// Check checks whether the connection tracking table drops packets or is nearly full.
func Check(ctx context.Context) result.Result {
	before, err := read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return result.Pass("the kernel has no connection tracking table yet")
	case err != nil:
		return result.Skip("%v", err)
	}
	timer := time.NewTimer(sampleTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	after, err := read()
	if err != nil {
		return result.Skip("%v", err)
	}
	return judge(before, after)
}

// judge compares two readings that are sampleTime apart.
func judge(before, after stats) result.Result {
	values := findings.Values{
		"count": strconv.FormatUint(after.count, 10), "max": strconv.FormatUint(after.max, 10),
		"dropped": strconv.FormatUint(after.dropped-before.dropped, 10), "time": sampleTime.String(),
	}
	switch {
	case after.dropped > before.dropped:
		return result.Found(findings.ConntrackDrops, values)
	case after.max > 0 && after.count*100 >= after.max*nearlyFullPercent:
		return result.Found(findings.ConntrackFull, values)
	}
	text := fmt.Sprintf("%d of %d connections are in use", after.count, after.max)
	if after.dropped > 0 {
		text += fmt.Sprintf("; the full table dropped %d packets since boot, none now", after.dropped)
	}
	return result.Pass("%s", text)
}

// read reads the counters.
func read() (c stats, err error) {
	const dir = "/proc/sys/net/netfilter/"
	if c.count, err = readNumber(dir + "nf_conntrack_count"); err != nil {
		return c, err
	}
	if c.max, err = readNumber(dir + "nf_conntrack_max"); err != nil {
		return c, err
	}
	var known bool
	if c.dropped, known = trace.ConntrackDropped(); !known {
		return c, errors.New("cannot read the drops of connection tracking: /proc/net/stat/nf_conntrack does not have them")
	}
	return c, nil
}

func readNumber(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("cannot read connection tracking usage: %w", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cannot read connection tracking usage: %w", err)
	}
	return n, nil
}
