// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

const (
	nearlyFullPercent = 90 // percent
	// sampleTime is the time during which drops are counted.
	sampleTime = 500 * time.Millisecond
)

// conntrackStats are counters of the kernel's connection tracking.
type conntrackStats struct {
	count, max uint64
	dropped    uint64 // since boot, because the table was full
}

func checkConntrack(ctx context.Context, _ *host) Result {
	before, err := readConntrackStats()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return okResult("the kernel has no connection tracking table yet")
	case err != nil:
		return skippedResult("%v", err)
	}
	timer := time.NewTimer(sampleTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	after, err := readConntrackStats()
	if err != nil {
		return skippedResult("%v", err)
	}
	return judgeConntrack(before, after)
}

// judgeConntrack compares two readings that are sampleTime apart.
func judgeConntrack(before, after conntrackStats) Result {
	values := findings.Values{
		"count": strconv.FormatUint(after.count, 10), "max": strconv.FormatUint(after.max, 10),
		"dropped": strconv.FormatUint(after.dropped-before.dropped, 10), "time": sampleTime.String(),
	}
	switch {
	case after.dropped > before.dropped:
		return findingsResult([]findings.Finding{findings.New(findings.ConntrackDrops, values)}, "")
	case after.max > 0 && after.count*100 >= after.max*nearlyFullPercent:
		return findingsResult([]findings.Finding{findings.New(findings.ConntrackFull, values)}, "")
	}
	text := fmt.Sprintf("%d of %d connections are in use", after.count, after.max)
	if after.dropped > 0 {
		text += fmt.Sprintf("; the full table dropped %d packets since boot, none now", after.dropped)
	}
	return okResult("%s", text)
}

func readConntrackStats() (c conntrackStats, err error) {
	const dir = "/proc/sys/net/netfilter/"
	if c.count, err = readNumber(dir + "nf_conntrack_count"); err != nil {
		return c, err
	}
	if c.max, err = readNumber(dir + "nf_conntrack_max"); err != nil {
		return c, err
	}
	f, err := os.Open("/proc/thread-self/net/stat/nf_conntrack")
	if errors.Is(err, fs.ErrNotExist) { // CONFIG_NF_CONNTRACK_PROCFS
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read connection tracking statistics: %w", err)
	}
	defer func() { _ = f.Close() }()
	c.dropped, err = sumDropped(f)
	return c, err
}

func readNumber(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read connection tracking usage: %w", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read connection tracking usage: %w", err)
	}
	return n, nil
}

// sumDropped adds the column "drop" of all processors. It counts packets of new
// connections that did not fit into the table (nf_conntrack_standalone.c). Its numbers
// are hexadecimal.
func sumDropped(statistics io.Reader) (uint64, error) {
	lines := bufio.NewScanner(io.LimitReader(statistics, 1<<20))
	lines.Scan()
	at := -1
	for i, name := range strings.Fields(lines.Text()) {
		if name == "drop" {
			at = i
		}
	}
	var sum uint64
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if at < 0 || at >= len(fields) {
			return 0, errors.New("read connection tracking statistics: no column \"drop\"")
		}
		n, err := strconv.ParseUint(fields[at], 16, 64)
		if err != nil {
			return 0, fmt.Errorf("read connection tracking statistics: %w", err)
		}
		sum += n
	}
	return sum, lines.Err()
}
