// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Footprint is the memory and the descriptors of a process and its children.
type Footprint struct {
	RSS, Anonymous, PSS int // bytes; anonymous pages are a part of RSS
	Descriptors         int
}

// String formats the footprint.
func (f Footprint) String() string {
	const mib = 1 << 20
	return fmt.Sprintf("RSS %.1f MiB (of it anonymous %.1f MiB), PSS %.1f MiB, %d descriptors",
		float64(f.RSS)/mib, float64(f.Anonymous)/mib, float64(f.PSS)/mib, f.Descriptors)
}

// Footprint adds up the service and its children.
func (s *Service) Footprint() (Footprint, error) { return FootprintOf(s.PID()) }

// FootprintOf adds up a process and its children. A child that exits meanwhile, such as the
// prober, counts as nothing.
func FootprintOf(pid int) (Footprint, error) {
	sum, err := FootprintOfProcess(pid)
	if err != nil {
		return sum, err
	}
	for _, child := range Children(pid) {
		one, err := FootprintOfProcess(child)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
			continue
		case err != nil:
			return sum, err
		}
		sum = Footprint{sum.RSS + one.RSS, sum.Anonymous + one.Anonymous, sum.PSS + one.PSS, sum.Descriptors +
			one.Descriptors}
	}
	return sum, nil
}

// FootprintOfProcess returns the footprint of one process: Rss and Pss of smaps_rollup, and
// fd, from proc(5).
func FootprintOfProcess(pid int) (Footprint, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	rollup, err := os.ReadFile(dir + "/smaps_rollup")
	if err != nil {
		return Footprint{}, fmt.Errorf("read the service's memory: %w", err)
	}
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return Footprint{}, fmt.Errorf("count the service's descriptors: %w", err)
	}
	size := func(name string) int { return sizeOf(string(rollup), name) }
	return Footprint{RSS: size("Rss:"), Anonymous: size("Anonymous:"), PSS: size("Pss:"), Descriptors: len(fds)}, nil
}

// Children returns the child processes of all threads of pid.
func Children(pid int) (all []int) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	for _, thread := range threads {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		if err != nil {
			continue // the thread ended
		}
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// sizeOf returns the value of a line such as "Pss:   123 kB" in bytes.
func sizeOf(text, name string) int {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == name {
			if n, err := strconv.Atoi(fields[1]); err == nil {
				return n << 10
			}
		}
	}
	return 0
}

// watchFootprint samples the footprint until the returned function is called, which returns
// the maxima.
func watchFootprint(ctx context.Context, pid int) (peak func() (Footprint, error)) {
	ctx, stop := context.WithCancel(ctx)
	type outcome struct {
		most Footprint
		err  error
	}
	result := make(chan outcome, 1)
	go func() {
		var o outcome
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil && o.err == nil {
			var now Footprint
			now, o.err = FootprintOf(pid)
			o.most = Footprint{
				max(o.most.RSS, now.RSS), max(o.most.Anonymous, now.Anonymous), max(o.most.PSS, now.PSS),
				max(o.most.Descriptors, now.Descriptors),
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		result <- o
	}()
	return func() (Footprint, error) {
		stop()
		o := <-result
		return o.most, o.err
	}
}
