// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/sandbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
)

// The bounds of what is reported of a child's standard error. A crash of Go's
// runtime, or a report of the race detector, has fewer lines.
const (
	maxLine        = 512 // bytes; the rest of a longer line is dropped
	maxLines       = 200 // in each outputWindow
	outputWindow   = 10 * time.Minute
	lastOutputTime = 100 * time.Millisecond // for what is in the pipe at the end of the child
	dropPause      = time.Millisecond       // after each dropped line: dropping them takes next to no processor time
)

// relay reports the lines of a child's standard error until the child ends. Its text
// is as little to be trusted as the child: control characters and whatever makes text
// look like another become spaces, and what is more than maxLines is counted.
func relay(read *os.File, process *sandbox.Process, report func(line string)) {
	defer read.Close()
	go func() {
		<-process.Ended()
		_ = read.SetReadDeadline(time.Now().Add(lastOutputTime))
	}()
	lines := bufio.NewReaderSize(read, maxLine)
	var since time.Time
	count, dropped := 0, 0
	for {
		line, err := nextLine(lines)
		if now := time.Now(); now.Sub(since) >= outputWindow {
			since, count = now, 0
		}
		switch count++; {
		case line == "":
		case count > maxLines:
			dropped++
			<-time.After(dropPause)
		default:
			report(line)
		}
		if err != nil {
			break
		}
	}
	if dropped > 0 {
		report(fmt.Sprintf("(%d more lines were dropped)", dropped))
	}
}

// nextLine reads a line, of which it returns the beginning, clean; "" for an empty
// one.
func nextLine(lines *bufio.Reader) (string, error) {
	text, err := lines.ReadSlice('\n')
	line := status.OneLine(strings.ToValidUTF8(strings.TrimSpace(string(text)), " "))
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = lines.ReadSlice('\n')
	}
	return line, err
}
