// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// sampler measures the resources of the service's processes. One goroutine owns it.
type sampler struct {
	series []*Series
	byName map[string]*Series
}

// processes returns the ones that are sampled. The prober ends at each failover, once a minute,
// because the host has no VIP then: no series of one process can show growth.
func processes() []string { return []string{"controller", "proxy", "exporter"} }

// newSampler returns a sampler whose series are empty: one that stays empty fails the run.
func newSampler() *sampler {
	s := &sampler{byName: make(map[string]*Series)}
	for _, process := range processes() {
		// RSS contains pages of the program too, and the anonymous memory does not.
		s.declare("RSS of the "+process, "MiB", false)
		s.declare("anonymous memory of the "+process, "MiB", false)
		s.declare("Pss of the "+process, "MiB", false)
		s.declare("descriptors of the "+process, "", false)
		s.declare("threads of the "+process, "", false)
	}
	s.declare("state directory", "KiB", false)
	s.declare("journal", "KiB", true)
	return s
}

func (s *sampler) declare(name, unit string, grows bool) {
	series := &Series{Name: name, Unit: unit, Grows: grows}
	s.byName[name] = series
	s.series = append(s.series, series)
}

func (s *sampler) add(at time.Duration, name string, value float64) {
	s.byName[name].Add(at.Hours(), value)
}

func (s *sampler) list() []Series {
	list := make([]Series, len(s.series))
	for i, one := range s.series {
		list[i] = *one
	}
	return list
}

// take adds a sample of each series.
func (s *sampler) take(at time.Duration, l *life) error {
	const mib, kib = 1 << 20, 1 << 10
	for _, process := range processes() {
		pid := l.PID()
		if process != "controller" {
			pid = l.Child(process)
		}
		if pid == 0 {
			continue // between two processes
		}
		f, err := lab.FootprintOfProcess(pid)
		threads, threadsErr := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if errors.Join(err, threadsErr) != nil {
			continue // it has just started or exited
		}
		s.add(at, "RSS of the "+process, float64(f.RSS)/mib)
		s.add(at, "anonymous memory of the "+process, float64(f.Anonymous)/mib)
		s.add(at, "Pss of the "+process, float64(f.PSS)/mib)
		s.add(at, "descriptors of the "+process, float64(f.Descriptors))
		s.add(at, "threads of the "+process, float64(len(threads)))
	}
	state, err := treeBytes(l.StateDir())
	if err != nil {
		return err
	}
	s.add(at, "state directory", float64(state)/kib)
	journal, err := os.Stat(filepath.Join(l.Host.Dir, "http01-proxyd.log"))
	if err != nil {
		return fmt.Errorf("read the size of the journal: %w", err)
	}
	s.add(at, "journal", float64(journal.Size())/kib)
	return nil
}

// treeBytes returns the size of all files in a directory.
func treeBytes(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && (entry.IsDir() || strings.HasSuffix(path, ".tmp")) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file that was just renamed
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
