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
	// sampleTime is how long drops are counted.
	sampleTime = 500 * time.Millisecond
)

// conntrackStats is what the kernel's table of connections has to say.
type conntrackStats struct {
	count, max uint64
	dropped    uint64 // since the boot, for want of room
}

func checkConntrack(ctx context.Context, _ *host) Result {
	before, err := readConntrackStats()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return okResult("the kernel keeps no table of connections yet")
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

// judgeConntrack judges two looks that are a sample apart.
func judgeConntrack(before, after conntrackStats) Result {
	values := []string{
		"count", strconv.FormatUint(after.count, 10), "max", strconv.FormatUint(after.max, 10),
		"dropped", strconv.FormatUint(after.dropped-before.dropped, 10), "time", sampleTime.String(),
	}
	switch {
	case after.dropped > before.dropped:
		return findingsResult([]findings.Finding{findings.New(findings.ConntrackDrops, values...)}, "")
	case after.max > 0 && after.count*100 >= after.max*nearlyFullPercent:
		return findingsResult([]findings.Finding{findings.New(findings.ConntrackFull, values...)}, "")
	}
	text := fmt.Sprintf("%d of %d connections are in use", after.count, after.max)
	if after.dropped > 0 {
		text += fmt.Sprintf("; %d packets were dropped for want of room since the boot, none now", after.dropped)
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
		return c, fmt.Errorf("read the statistics of connections: %w", err)
	}
	defer func() { _ = f.Close() }()
	c.dropped, err = sumDropped(f)
	return c, err
}

func readNumber(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read how full the table of connections is: %w", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read how full the table of connections is: %w", err)
	}
	return n, nil
}

// sumDropped adds the column "drop" of all processors, which counts the packets
// that began a connection for which there was no room (nf_conntrack_standalone.c).
// Its numbers are hexadecimal.
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
			return 0, errors.New("read the statistics of connections: there is no column \"drop\"")
		}
		n, err := strconv.ParseUint(fields[at], 16, 64)
		if err != nil {
			return 0, fmt.Errorf("read the statistics of connections: %w", err)
		}
		sum += n
	}
	return sum, lines.Err()
}
