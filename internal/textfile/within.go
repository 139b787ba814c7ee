// SPDX-License-Identifier: Apache-2.0

package textfile

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Timeout is how long an access to a file may take. Normally it takes some milliseconds. It is
// less than the time after which a watcher of files reports a stall.
const Timeout = 5 * time.Second

// ErrHangs reports that an access to a file did not return in time.
var ErrHangs = errors.New("check its file system")

// maxHung bounds the accesses that hang: each one keeps a thread.
const maxHung = 64

// hung are the paths with an access that has not returned within Timeout.
var hung = struct { //nolint:gochecknoglobals // the whole process shares its threads
	sync.Mutex
	paths map[string]bool
}{paths: make(map[string]bool)}

// Within runs an access to a path, and waits for at most Timeout: a file system whose server
// does not respond can block it without limit. Until it returns, no other access to this path
// starts.
func Within[T any](path string, access func() (T, error)) (value T, err error) {
	hung.Lock()
	refused := hung.paths[path] || len(hung.paths) >= maxHung
	hung.Unlock()
	if refused {
		return value, hangs(path)
	}
	returned := make(chan struct{})
	var got T
	var gotErr error
	go func() {
		got, gotErr = access()
		hung.Lock()
		defer hung.Unlock()
		delete(hung.paths, path)
		close(returned)
	}()
	limit := time.NewTimer(Timeout)
	defer limit.Stop()
	select {
	case <-returned:
		return got, gotErr
	case <-limit.C:
	}
	hung.Lock()
	defer hung.Unlock()
	select {
	case <-returned: // after a pause of this process
		return got, gotErr
	default:
		hung.paths[path] = true
		return value, hangs(path)
	}
}

func hangs(path string) error {
	return fmt.Errorf("reading %s has not finished after %v: %w", path, Timeout, ErrHangs)
}
