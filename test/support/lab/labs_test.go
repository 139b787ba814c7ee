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

// exitInterrupted is how a shell reports a program that Ctrl-C ended.
const exitInterrupted = 130

// processLabs are those that this process has brought up: a signal must leave none of
// them behind, nor one that is on its way. `go test` waits for us.
type processLabs struct {
	ctx context.Context // ends with the first signal

	starting sync.RWMutex // read-locked while a lab comes up
	mu       sync.Mutex
	live     []*Lab
}

// testLabs is what every test takes its labs from.
var testLabs processLabs

// closeOnSignal makes the first signal end the process, once its labs are gone.
func (s *processLabs) closeOnSignal() {
	s.ctx, _ = signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	go func() {
		<-s.ctx.Done()
		// Never unlocked: no further lab comes up.
		s.starting.Lock()
		if err := s.close(); err != nil {
			fmt.Fprintln(os.Stderr, "remove the labs:", err)
		}
		os.Exit(exitInterrupted)
	}()
}

// newLab is New; what it returns may be closed earlier than close does.
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
