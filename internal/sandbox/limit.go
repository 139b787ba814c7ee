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
	// maxThreads limits the threads of all processes of the user. A process of this
	// program has some ten. The limit is half of the unit's TasksMax, so that the
	// controller can always start a thread.
	maxThreads = 512
	// maxThreadsSmall is the limit for the exporter and the prober. The proxy can start
	// a thread even when one of them has used it up.
	maxThreadsSmall = maxThreads / 2
	// runtimeReserve covers the 60 to 100 MiB that Go's runtime maps and does not touch:
	// they count in the kernel's limit, and not in GOMEMLIMIT.
	runtimeReserve = 128 << 20
	// oomScoreAdj makes the kernel end a child before the controller when the unit's
	// memory runs out. It counts as half of that memory (proc(5), oom_score_adj).
	oomScoreAdj = 500
)

// applyLimits limits the resources of this process.
func applyLimits(kind Kind) error {
	limits := map[int]uint64{unix.RLIMIT_NPROC: maxThreads}
	if kind != Proxy {
		limits[unix.RLIMIT_NPROC] = maxThreadsSmall
	}
	if memory := debug.SetMemoryLimit(-1); memory != math.MaxInt64 && !raceDetector {
		limits[unix.RLIMIT_DATA] = uint64(memory) + runtimeReserve //nolint:gosec // not negative
	}
	for resource, limit := range limits {
		if err := lowerLimit(resource, limit); err != nil {
			return fmt.Errorf("limit resource %d to %d: %w", resource, limit, err)
		}
	}
	// No other process of this user can read the memory of this process, and no core of
	// it is written (prctl(2), PR_SET_DUMPABLE).
	err := errors.Join(raiseOOMScore(), unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	if err != nil {
		return fmt.Errorf("have this process ended first, and without a core: %w", err)
	}
	return nil
}

// raiseOOMScore raises the score to oomScoreAdj. It keeps a higher score, which only
// root may lower: a pod of `oc debug node` has 1000.
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

// lowerLimit lowers both limits of a resource. It keeps lower limits.
func lowerLimit(resource int, most uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(0, resource, nil, &now); err != nil {
		return err
	}
	next := unix.Rlimit{Cur: min(now.Cur, most), Max: min(now.Max, most)}
	return unix.Prlimit(0, resource, &next, nil)
}
