// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bufio"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
)

// These constants bound what is reported of a child's standard error. A crash of Go's runtime,
// or a report of the race detector, is shorter.
const (
	maxLine      = 512 // bytes; the rest of a longer line is dropped
	maxLines     = 200 // in each outputWindow
	outputWindow = 10 * time.Minute
	drainTimeout = 100 * time.Millisecond // for text in the pipe after the end of the child
	dropDelay    = time.Millisecond       // after each dropped line, or part of one, to save processor time
)

// Output receives the standard error of the child processes of one kind. Their text is
// not trusted: characters that are not printable become spaces, and lines beyond maxLines
// in an outputWindow, of all processes together, are dropped.
type Output struct {
	report func(line string)

	mu          sync.Mutex
	windowStart time.Time
	count       int
}

// NewOutput calls report with each line, bounded and printable.
func NewOutput(report func(line string)) *Output { return &Output{report: report} }

// reportLine reports a line, or returns that it was dropped.
func (o *Output) reportLine(line string) (dropped bool) {
	o.mu.Lock()
	if now := time.Now(); now.Sub(o.windowStart) >= outputWindow {
		o.windowStart, o.count = now, 0
	}
	o.count++
	dropped = o.count > maxLines
	o.mu.Unlock()
	if !dropped && line != "" {
		o.report(line)
	}
	return dropped
}

// forwardLines reports the lines of a child's standard error until the child ends.
func (o *Output) forwardLines(read *os.File, process *sandbox.Process) {
	defer read.Close()
	go func() {
		<-process.Done()
		_ = read.SetReadDeadline(time.Now().Add(drainTimeout))
	}()
	lines := bufio.NewReaderSize(read, maxLine)
	for {
		line, err := nextLine(lines)
		if err != nil && line == "" {
			break
		}
		if o.reportLine(line) {
			<-time.After(dropDelay)
		}
	}
}

// nextLine reads a line and returns its beginning in printable form. An empty line is "".
func nextLine(lines *bufio.Reader) (string, error) {
	text, err := lines.ReadSlice('\n')
	line := printable.Line(strings.ToValidUTF8(strings.TrimSpace(string(text)), " "))
	for errors.Is(err, bufio.ErrBufferFull) {
		<-time.After(dropDelay) // a line may be endless
		_, err = lines.ReadSlice('\n')
	}
	return line, err
}
