// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// maxDescriptors bounds the descriptors of the exporter and the prober, and with them the
	// memory of the kernel that they can use: for sockets, and for each descriptor that an
	// epoll instance watches. The exporter accepts at most 128 connections, and the prober 64
	// requests.
	maxDescriptors = 256
	// runtimeReserve covers the 60 to 100 MiB that Go's runtime maps and does not touch: they
	// count for the kernel's limit, but not for GOMEMLIMIT.
	runtimeReserve = 128 << 20
	// addressReserve covers the addresses that Go's runtime reserves without memory: about 2
	// GiB in a child process. The limit bounds mappings that are no data, and their page
	// tables.
	addressReserve = 4 << 30
)

// applyLimits starts the threads of this process and limits its resources.
func applyLimits(kind Kind) error {
	threads, oomScoreAdj := kind.limits()
	StartThreads(threads)
	limits := map[int]uint64{}
	if kind != Proxy {
		limits[unix.RLIMIT_NOFILE] = maxDescriptors
	}
	if memory := debug.SetMemoryLimit(-1); memory != math.MaxInt64 && !raceDetector {
		data := uint64(memory) + runtimeReserve //nolint:gosec // not negative
		limits[unix.RLIMIT_DATA], limits[unix.RLIMIT_AS] = data, data+addressReserve
	}
	for resource, limit := range limits {
		if err := lowerLimit(resource, limit); err != nil {
			return fmt.Errorf("limit resource %d to %d: %w", resource, limit, err)
		}
	}
	// Other processes of this user cannot read the memory of this process, and the kernel
	// writes no core dump (prctl(2), PR_SET_DUMPABLE).
	err := errors.Join(raiseOOMScore(oomScoreAdj), unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	if err != nil {
		return fmt.Errorf("raise oom_score_adj and disable core dumps: %w", err)
	}
	return nil
}

// limits returns the threads that wait for work when a child process of this kind starts,
// and its oom_score_adj.
//
// The threads are twice what was measured on a machine with far too few processors. The process
// cannot start more: the filter denies clone(2). A limit of the kernel would count the threads
// of all processes with the user ID on the host, including a pod's (RLIMIT_NPROC,
// getrlimit(2)).
//
// The score is the part of the available memory, in thousandths, that the kernel adds to what
// the process uses when it chooses which process to end (proc(5)). The controller's score is 0.
// Up to a MemoryMax= of 512 MiB, each difference is more than an honest process can use beyond
// one of the kind that ends before it. So the exporter ends first, and then the prober, also
// when one of them takes memory that the kernel counts for no process, such as socket buffers.
func (k Kind) limits() (threads, oomScoreAdj int) {
	switch k {
	case Exporter:
		return 16, 1000
	case Prober:
		return 16, 950
	default:
		return 32, 200
	}
}

// StartThreads starts threads of Go's runtime, so that n wait for work. The runtime keeps
// them and starts another one only when none waits.
func StartThreads(n int) {
	var started, ended sync.WaitGroup
	started.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread() // no other goroutine uses this thread meanwhile
			defer runtime.UnlockOSThread()
			started.Done()
			started.Wait()
		})
	}
	ended.Wait()
}

// raiseOOMScore raises the score. It keeps a higher one, which only root may lower: a pod of
// `oc debug node` has 1000.
func raiseOOMScore(score int) error {
	const path = "/proc/self/oom_score_adj"
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if now, err := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil && now >= score {
		return nil
	}
	return os.WriteFile(path, strconv.AppendInt(nil, int64(score), 10), 0)
}

// lowerLimit lowers both limits of a resource. It keeps lower limits.
func lowerLimit(resource int, limit uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(0, resource, nil, &now); err != nil {
		return err
	}
	next := unix.Rlimit{Cur: min(now.Cur, limit), Max: min(now.Max, limit)}
	return unix.Prlimit(0, resource, &next, nil)
}
