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

// answering is the time that is left for an answer to come back, on a busy host too,
// and at most a tenth of the whole.
const answering = time.Second

// Command is the program's command that the child runs.
const Command = "probe"

// Client asks a child. Its methods may be called from many goroutines.
type Client struct {
	process *child.Process

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan Answer
	broken  error // why there will be no more answers
}

// Start starts a child to ask.
func Start() (*Client, error) {
	process, err := child.Start(Command, child.NewOutput(func(line string) {
		fmt.Fprintf(os.Stderr, "http01-proxyd: the prober wrote: %s\n", line)
	}))
	if err != nil {
		return nil, err
	}
	c := &Client{process: process, waiting: make(map[uint64]chan Answer)}
	go c.receive()
	return c, nil
}

// Close ends the child. Questions that are not answered end with an error.
func (c *Client) Close() { c.process.End() }

// Ask asks q, whose ID and Budget it sets, and waits for the answer until ctx
// ends; ctx has a deadline.
func (c *Client) Ask(ctx context.Context, q Question) (Answer, error) {
	answer := make(chan Answer, 1)
	id, err := c.send(ctx, q, answer)
	defer c.forget(id)
	if err != nil {
		return Answer{}, err
	}
	select {
	case a, is := <-answer:
		if !is {
			return Answer{}, c.why()
		}
		if a.Error != nil {
			return a, *a.Error
		}
		if !a.answers(q) {
			return Answer{}, errors.New("ask the network: the process that does it has answered another question")
		}
		if q.Fetch != nil {
			a.Fetch.Context = q.Fetch.context()
		}
		return a, nil
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("ask the network: %w", context.Cause(ctx))
	}
}

// send returns the ID of the question; 0 when it was not sent at all.
func (c *Client) send(ctx context.Context, q Question, answer chan Answer) (id uint64, err error) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return 0, errors.New("ask the network: the question has no deadline")
	}
	left := time.Until(deadline)
	// The child's answer, be it that the time was too short, still has to come back.
	q.Budget = left - min(left/10, answering)
	c.mu.Lock()
	if c.broken != nil {
		c.mu.Unlock()
		return 0, c.why()
	}
	c.last++
	q.ID = c.last
	c.waiting[q.ID] = answer
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
	delete(c.waiting, id)
}

func (c *Client) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("ask the network: the process that does it has ended: %w", c.broken)
}

func (c *Client) receive() {
	for {
		var a Answer
		_, err := c.process.Receive(&a)
		if err == nil {
			err = a.Check()
		} else {
			err = cause.Of(err) // a decoder's error quotes what the child has sent
		}
		c.mu.Lock()
		if err != nil {
			c.broken = err
			for id, answer := range c.waiting {
				close(answer)
				delete(c.waiting, id)
			}
			c.mu.Unlock()
			c.process.End() // it may have answered what no child of ours does
			return
		}
		if answer := c.waiting[a.ID]; answer != nil {
			delete(c.waiting, a.ID)
			answer <- a.Tamed()
		}
		c.mu.Unlock()
	}
}
