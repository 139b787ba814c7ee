// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// responseMargin is the time that is left for an answer to come back, on a busy host too,
// and at most a tenth of the whole.
const responseMargin = time.Second

// Command is the program's command that the child runs.
const Command = "prober"

// Client asks a child. Its methods may be called from many goroutines.
type Client struct {
	process *child.Process

	mu      sync.Mutex
	lastID  uint64
	pending map[uint64]chan Response
	err     error // why there will be no more answers
}

// Start starts a child to ask.
func Start() (*Client, error) {
	process, err := child.Start(Command, child.NewOutput(func(line string) {
		fmt.Fprintf(os.Stderr, "http01-proxyd: the prober wrote: %s\n", line)
	}))
	if err != nil {
		return nil, err
	}
	c := &Client{process: process, pending: make(map[uint64]chan Response)}
	go c.receive()
	return c, nil
}

// Close ends the child. Questions that are not answered end with an error.
func (c *Client) Close() { c.process.KillAndClose() }

// Query asks q, whose ID and Budget it sets, and waits for the answer until ctx
// ends; ctx has a deadline.
func (c *Client) Query(ctx context.Context, q Request) (Response, error) {
	answer := make(chan Response, 1)
	id, err := c.send(ctx, q, answer)
	defer c.forget(id)
	if err != nil {
		return Response{}, err
	}
	select {
	case a, is := <-answer:
		if !is {
			return Response{}, c.connectionError()
		}
		if a.Error != nil {
			return a, *a.Error
		}
		if !a.matches(q) {
			return Response{}, errors.New("ask the network: the process that does it has answered another question")
		}
		if q.Fetch != nil {
			a.Fetch.Context = q.Fetch.causeContext()
		}
		return a, nil
	case <-ctx.Done():
		return Response{}, fmt.Errorf("ask the network: %w", context.Cause(ctx))
	}
}

// send returns the ID of the question; 0 when it was not sent at all.
func (c *Client) send(ctx context.Context, q Request, answer chan Response) (id uint64, err error) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return 0, errors.New("ask the network: the question has no deadline")
	}
	left := time.Until(deadline)
	// The child's answer, be it that the time was too short, still has to come back.
	q.Timeout = left - min(left/10, responseMargin)
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return 0, c.connectionError()
	}
	c.lastID++
	q.ID = c.lastID
	c.pending[q.ID] = answer
	c.mu.Unlock()
	if err := c.process.Send(q, -1); err != nil {
		return q.ID, fmt.Errorf("ask the network: %w", err)
	}
	return q.ID, nil
}

// forget drops a question for whose answer nobody waits.
func (c *Client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

func (c *Client) connectionError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("ask the network: the process that does it has ended: %w", c.err)
}

func (c *Client) receive() {
	for {
		var a Response
		_, err := c.process.Receive(&a)
		if err == nil {
			err = a.Validate()
		} else {
			err = cause.DetailsOf(err) // a decoder's error quotes what the child has sent
		}
		c.mu.Lock()
		if err != nil {
			c.err = err
			for id, answer := range c.pending {
				close(answer)
				delete(c.pending, id)
			}
			c.mu.Unlock()
			c.process.KillAndClose() // it may have answered what no child of ours does
			return
		}
		if answer := c.pending[a.ID]; answer != nil {
			delete(c.pending, a.ID)
			answer <- a.Sanitized()
		}
		c.mu.Unlock()
	}
}
