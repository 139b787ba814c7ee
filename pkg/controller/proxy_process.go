// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// proxyProcess is a gate that was started, and the connection to it.
type proxyProcess struct{ *child.Process }

func startProxy(output *child.Output) (*proxyProcess, error) {
	process, err := child.Start(child.Proxy, output)
	if err != nil {
		return nil, err
	}
	return &proxyProcess{process}, nil
}

// newChildOutput logs the lines of the standard error of a kind of child, as the child's.
func newChildOutput(log *slog.Logger, who string) *child.Output {
	return child.NewOutput(func(line string) {
		log.Warn(fmt.Sprintf("the %s wrote to its standard error: %s", who, line), slog.String("event", "child-output"))
	})
}

// proxyStartTimeout is how long a gate may take to say its first word.
const proxyStartTimeout = 5 * time.Second

// awaitAlive returns when the gate is at work.
func (g *proxyProcess) awaitAlive() error {
	first := make(chan error, 1)
	go func() {
		var word protocol.Event
		err := g.Receive(&word)
		if err == nil && word.Heartbeat == nil {
			err = errors.New("its first word is not that it is alive")
		}
		first <- err
	}()
	var err error
	select {
	case err = <-first:
	case <-time.After(proxyStartTimeout):
		err = fmt.Errorf("it has said nothing for %v", proxyStartTimeout)
	}
	if err == nil {
		return nil
	}
	g.KillAndClose()
	err = errors.Join(err, g.Err())
	return fmt.Errorf("the gate, which is to answer the clients, does not get to work: %w; the lines before this one say what it wrote, if anything", err)
}
