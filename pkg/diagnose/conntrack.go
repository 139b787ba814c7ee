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
	nearlyFull = 90 // percent
	// sample is how long drops are counted.
	sample = 500 * time.Millisecond
)

// connections is what the kernel's table of connections has to say.
type connections struct {
	count, max uint64
	dropped    uint64 // since the boot, for want of room
}

func checkConntrack(ctx context.Context, _ *host) Result {
	before, err := readConnections()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fine("the kernel keeps no table of connections yet")
	case err != nil:
		return skipped("%v", err)
	}
	timer := time.NewTimer(sample)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	after, err := readConnections()
	if err != nil {
		return skipped("%v", err)
	}
	return judgeConnections(before, after)
}

// judgeConnections judges two looks that are a sample apart.
func judgeConnections(before, after connections) Result {
	values := []string{
		"count", strconv.FormatUint(after.count, 10), "max", strconv.FormatUint(after.max, 10),
		"dropped", strconv.FormatUint(after.dropped-before.dropped, 10), "time", sample.String(),
	}
	switch {
	case after.dropped > before.dropped:
		return found([]findings.Finding{findings.Find(findings.ConntrackDrops, values...)}, "")
	case after.max > 0 && after.count*100 >= after.max*nearlyFull:
		return found([]findings.Finding{findings.Find(findings.ConntrackFull, values...)}, "")
	}
	text := fmt.Sprintf("%d of %d connections are in use", after.count, after.max)
	if after.dropped > 0 {
		text += fmt.Sprintf("; %d packets were dropped for want of room since the boot, none now", after.dropped)
	}
	return fine("%s", text)
}

func readConnections() (c connections, err error) {
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
	c.dropped, err = countDropped(f)
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

// countDropped adds the column "drop" of all processors, which counts the packets
// that began a connection for which there was no room (nf_conntrack_standalone.c).
// Its numbers are hexadecimal.
func countDropped(statistics io.Reader) (uint64, error) {
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
