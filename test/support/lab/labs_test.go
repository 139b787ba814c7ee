// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// exitInterrupted is the exit status that a shell reports for a program that Ctrl-C ended.
const exitInterrupted = 130

// processLabs has the labs of this process. A signal must not leave a running or starting
// lab behind. `go test` waits for this process.
type processLabs struct {
	ctx context.Context // ends with the first signal

	starting sync.RWMutex // read-locked while a lab starts
	mu       sync.Mutex
	live     []*Lab
}

// testLabs creates the labs of all tests.
var testLabs processLabs

// closeOnSignal has the first signal end the process after its labs were removed.
func (s *processLabs) closeOnSignal() {
	s.ctx, _ = signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	go func() {
		<-s.ctx.Done()
		// Never unlocked: no further lab starts.
		s.starting.Lock()
		if err := s.close(); err != nil {
			fmt.Fprintln(os.Stderr, "remove the labs:", err)
		}
		os.Exit(exitInterrupted)
	}()
}

// newLab is New. The returned lab may be closed before close is called.
func (s *processLabs) newLab() (*Lab, error) {
	s.starting.RLock()
	defer s.starting.RUnlock()
	l, err := New(s.ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = append(s.live, l)
	return l, nil
}

// close removes every lab.
func (s *processLabs) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, l := range s.live {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
