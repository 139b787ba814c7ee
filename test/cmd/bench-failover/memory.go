// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// memory is what a process holds, in bytes.
type memory struct {
	rss, anonymous, pss int
}

// memoryOf reads proc(5): VmRSS and RssAnon of status, Pss of smaps_rollup.
func memoryOf(pid int) (memory, error) {
	status, err := fields(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memory{}, err
	}
	rollup, err := fields(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return memory{}, err
	}
	return memory{rss: status["VmRSS"], anonymous: status["RssAnon"], pss: rollup["Pss"]}, nil
}

// fields reads the lines of the form "Name:   123 kB".
func fields(path string) (map[string]int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the service's memory: %w", err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		words := strings.Fields(rest)
		if len(words) != 2 || words[1] != "kB" {
			continue
		}
		if n, err := strconv.Atoi(words[0]); err == nil {
			out[name] = n * 1024
		}
	}
	return out, nil
}

func mib(bytes int) float64 { return float64(bytes) / (1 << 20) }
