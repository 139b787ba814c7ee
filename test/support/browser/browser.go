// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"
)

// Browser is one running Chromium.
type Browser struct {
	command *exec.Cmd
	dir     string // its home and profile
	to      *os.File
	from    *os.File
	done    chan struct{} // closed when no further message arrives

	mu      sync.Mutex
	last    int // ID of the last command
	waiting map[int]chan message
	events  map[string]func(method string, parameters json.RawMessage) // by session
}

// message is a command, its response, or an event.
type message struct {
	ID         int             `json:"id,omitempty"`
	Session    string          `json:"sessionId,omitempty"`
	Method     string          `json:"method,omitempty"`
	Parameters json.RawMessage `json:"params,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Start starts Chromium without a network, and with a new profile below dir. It ends when
// the pipe is closed, at the latest with this process.
func Start(dir string) (*Browser, error) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		if program, err = exec.LookPath("chromium-browser"); err != nil {
			return nil, fmt.Errorf("find Chromium: %w: run test/install-packages all", err)
		}
	}
	commands, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create the pipe to Chromium: %w", err)
	}
	from, responses, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create the pipe from Chromium: %w", err), commands.Close(), to.Close())
	}
	// The flags keep it from background requests. Its sandbox needs another user than root.
	c := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", //nolint:noctx // Close ends it
		"--disable-component-update", "--disable-sync", "--disable-breakpad", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--remote-debugging-pipe",
		"--user-data-dir="+dir+"/profile", "about:blank")
	c.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir, "XDG_CONFIG_HOME="+dir, "XDG_CACHE_HOME="+dir, "TZ=UTC")
	c.ExtraFiles = []*os.File{commands, responses} // descriptors 3 and 4 of --remote-debugging-pipe
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Cloneflags: unix.CLONE_NEWNET}
	err = c.Start()
	err = errors.Join(err, commands.Close(), responses.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start Chromium: %w", err), to.Close(), from.Close())
	}
	b := &Browser{
		command: c, dir: dir, to: to, from: from, done: make(chan struct{}),
		waiting: map[int]chan message{}, events: map[string]func(string, json.RawMessage){},
	}
	go b.read()
	return b, nil
}

// Close ends Chromium with all its processes.
func (b *Browser) Close() error {
	err := unix.Kill(-b.command.Process.Pid, unix.SIGKILL)
	_ = b.command.Wait() // killed
	return errors.Join(err, b.to.Close(), b.from.Close())
}

// read passes responses and events on. A message ends with a zero byte.
func (b *Browser) read() {
	defer close(b.done)
	r := bufio.NewReader(b.from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			return
		}
		b.mu.Lock()
		response, event := b.waiting[m.ID], b.events[m.Session]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		switch {
		case response != nil:
			response <- m
		case event != nil && m.Method != "":
			event(m.Method, m.Parameters)
		}
	}
}

// call runs a command and decodes its result, unless result is nil.
func (b *Browser) call(ctx context.Context, session, method string, parameters, result any) error {
	text, err := json.Marshal(parameters)
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	response := make(chan message, 1)
	b.mu.Lock()
	b.last++
	m := message{ID: b.last, Session: session, Method: method, Parameters: text}
	b.waiting[m.ID] = response
	b.mu.Unlock()
	if text, err = json.Marshal(m); err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		return fmt.Errorf("send %s to Chromium: %w", method, err)
	}
	select {
	case m = <-response:
	case <-b.done:
		return fmt.Errorf("%s: Chromium has ended", method)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
	if m.Error != nil {
		return fmt.Errorf("%s: %s", method, m.Error.Message)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("decode the result of %s: %w", method, err)
	}
	return nil
}
