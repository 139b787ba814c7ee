// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// maxThreads bounds the threads of all processes of the user, of which a process
	// of ours has some ten. It is half of the unit's TasksMax, so that the controller
	// can always start a thread.
	maxThreads = 512
	// maxThreadsSmall is the same for the exporter and the prober: whatever these take, the
	// proxy can start a thread.
	maxThreadsSmall = maxThreads / 2
	// runtimeReserve is what Go's runtime maps and does not touch, 60 to 100 MiB: it is in
	// the limit of the kernel, and not in GOMEMLIMIT.
	runtimeReserve = 128 << 20
	// oomScoreAdj has the kernel end a child before the controller when the unit's memory
	// runs out, whatever both have: it counts as half of that (proc(5), oom_score_adj).
	oomScoreAdj = 500
)

// applyLimits bounds what this process may have. What it takes up is gone with it.
func applyLimits(kind Kind) error {
	limits := map[int]uint64{unix.RLIMIT_NPROC: maxThreads}
	if kind != Proxy {
		limits[unix.RLIMIT_NPROC] = maxThreadsSmall
	}
	if memory := debug.SetMemoryLimit(-1); memory != math.MaxInt64 && !raceDetector {
		limits[unix.RLIMIT_DATA] = uint64(memory) + runtimeReserve //nolint:gosec // not negative
	}
	for resource, most := range limits {
		if err := lowerLimit(resource, most); err != nil {
			return fmt.Errorf("limit resource %d to %d: %w", resource, most, err)
		}
	}
	// No other process of this user can read its memory, and no program of root's its
	// core: it has none (prctl(2), PR_SET_DUMPABLE).
	err := errors.Join(raiseOOMScore(), unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	if err != nil {
		return fmt.Errorf("have this process ended first, and without a core: %w", err)
	}
	return nil
}

// raiseOOMScore raises the score to oomScoreAdj. A higher one stays, which only root may
// lower: that of a pod for `oc debug node` is 1000.
func raiseOOMScore() error {
	const path = "/proc/self/oom_score_adj"
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if now, err := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil && now >= oomScoreAdj {
		return nil
	}
	return os.WriteFile(path, strconv.AppendInt(nil, oomScoreAdj, 10), 0)
}

// lowerLimit lowers both limits of a resource; lower ones stay.
func lowerLimit(resource int, most uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(0, resource, nil, &now); err != nil {
		return err
	}
	next := unix.Rlimit{Cur: min(now.Cur, most), Max: min(now.Max, most)}
	return unix.Prlimit(0, resource, &next, nil)
}
