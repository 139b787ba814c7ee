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
	"github.com/http01-proxyd/http01-proxyd/test/support/soak"
)

// sampler measures the resources of the service's processes. One goroutine owns it.
type sampler struct {
	series []*soak.Series
	byName map[string]*soak.Series
}

func newSampler() *sampler { return &sampler{byName: make(map[string]*soak.Series)} }

func (s *sampler) add(at time.Duration, name, unit string, grows bool, value float64) {
	series := s.byName[name]
	if series == nil {
		series = &soak.Series{Name: name, Unit: unit, Grows: grows}
		s.byName[name] = series
		s.series = append(s.series, series)
	}
	series.Add(at.Hours(), value)
}

func (s *sampler) list() []soak.Series {
	list := make([]soak.Series, len(s.series))
	for i, one := range s.series {
		list[i] = *one
	}
	return list
}

// take adds a sample of each series. The prober lives for one question and is not sampled.
func (s *sampler) take(at time.Duration, l *life) error {
	const mib, kib = 1 << 20, 1 << 10
	for _, p := range []struct {
		name string
		pid  int
	}{{"controller", l.PID()}, {"proxy", l.Child("proxy")}, {"exporter", l.Child("exporter")}} {
		if p.pid == 0 {
			continue // between two processes
		}
		f, err := lab.FootprintOfProcess(p.pid)
		threads, threadsErr := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.pid))
		if err != nil || threadsErr != nil {
			continue // it has just exited
		}
		s.add(at, "RSS of the "+p.name, "MiB", false, float64(f.RSS)/mib)
		s.add(at, "Pss of the "+p.name, "MiB", false, float64(f.PSS)/mib)
		s.add(at, "descriptors of the "+p.name, "", false, float64(f.Descriptors))
		s.add(at, "threads of the "+p.name, "", false, float64(len(threads)))
	}
	state, err := treeBytes(l.StateDir())
	if err != nil {
		return err
	}
	s.add(at, "state directory", "KiB", false, float64(state)/kib)
	journal, err := os.Stat(filepath.Join(l.Host.Dir, "http01-proxyd.log"))
	if err != nil {
		return fmt.Errorf("read the size of the journal: %w", err)
	}
	s.add(at, "journal", "KiB", true, float64(journal.Size())/kib)
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
