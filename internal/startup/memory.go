// SPDX-License-Identifier: Apache-2.0

package startup

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// delay is the time from the begin of a process until it has started, with the first checks
// of the controller. A process that takes longer only maps a few pages again.
const delay = 2 * time.Second

// ReleaseMemory returns, once and soon, what only the start needs: garbage, and pages of the
// program. The initialization of several hundred packages is spread over the whole program,
// and for each page that it touches the kernel maps 15 others. They would stay mapped, and
// therefore in memory. Those that are used later are mapped again, usually from the page
// cache.
//
// It reads /proc at once. Call it before the process restricts itself. Without /proc it
// only returns garbage: nobody depends on the rest.
func ReleaseMemory() {
	program, _ := readProgram()
	time.AfterFunc(delay, func() { release(program) })
}

func release(program []mapping) {
	debug.FreeOSMemory()
	for _, m := range program {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
	}
}

// DisableHugePages has the kernel use small pages for this process and its children
// (PR_SET_THP_DISABLE, prctl(2)). RHEL's default is a huge page for the first byte of each
// 2 MiB. The runtime of Go touches a few bytes in many of them. A kernel that cannot do it
// has no such pages.
func DisableHugePages() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) }

// mapping is a part of the address space.
type mapping struct{ start, end uintptr }

// readProgram returns the mappings of this program's file that the process has not changed.
func readProgram() ([]mapping, error) {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("cannot read the path of the program: %w", err)
	}
	text, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil, fmt.Errorf("cannot read the mappings of the process: %w", err)
	}
	defer text.Close()
	program, err := parseMappings(text, path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the mappings of the process: %w", err)
	}
	return program, nil
}

// parseMappings returns the mappings of a file that are not writable and have no anonymous
// page, in the format of /proc/PID/smaps (proc_pid_smaps(5)). MADV_DONTNEED would undo the
// relocations that a loader made in such a page.
func parseMappings(smaps io.Reader, path string) (found []mapping, err error) {
	var current mapping
	matches := false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		line := lines.Text()
		words := strings.Fields(line)
		switch {
		case len(words) >= 5 && !strings.HasSuffix(words[0], ":"):
			if _, err := fmt.Sscanf(words[0], "%x-%x", &current.start, &current.end); err != nil {
				return nil, fmt.Errorf("parse %q: %w", line, err)
			}
			matches = strings.HasSuffix(line, " "+path) && !strings.Contains(words[1], "w")
		case matches && len(words) == 3 && words[0] == "Anonymous:" && words[1] == "0":
			found = append(found, current)
		}
	}
	return found, lines.Err()
}
