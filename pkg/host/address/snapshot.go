// SPDX-License-Identifier: Apache-2.0

//go:build linux

package address

import (
	"errors"
	"fmt"
	"sync"
)

// maxDumps bounds how often an interrupted dump is repeated. A dump takes less than a
// millisecond. If addresses change faster for that long, the result is an error, and
// the next event causes another snapshot.
const maxDumps = 16

// errInterrupted means that addresses changed during the dump, so that the dump may
// lack addresses, including unchanged ones.
var errInterrupted = errors.New("the addresses changed during the dump")

// dumper dumps all addresses over its own socket. It is safe for concurrent use.
type dumper struct {
	mu   sync.Mutex
	conn *dumpConn // nil before the first use and after an error
}

// snapshot returns a consistent dump. It tries at most maxDumps times.
func (d *dumper) snapshot() ([]Address, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return retryInterrupted(d.dump)
}

// retryInterrupted calls dump until it is not interrupted, at most maxDumps times.
func retryInterrupted(dump func() ([]Address, error)) ([]Address, error) {
	var err error
	for range maxDumps {
		var list []Address
		if list, err = dump(); err == nil {
			return list, nil
		}
		if !errors.Is(err, errInterrupted) {
			break
		}
	}
	return nil, fmt.Errorf("cannot read the addresses of this host: %w", err)
}

func (d *dumper) dump() ([]Address, error) {
	if d.conn == nil {
		conn, err := openDumpConn()
		if err != nil {
			return nil, err
		}
		d.conn = conn
	}
	list, err := d.conn.dump()
	if err != nil && !errors.Is(err, errInterrupted) {
		// Queued replies would be read as replies to the next request.
		_ = d.conn.close()
		d.conn = nil
	}
	return list, err
}

func (d *dumper) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn == nil {
		return nil
	}
	err := d.conn.close()
	d.conn = nil
	return err
}

// List returns a snapshot of all addresses without a Watcher.
func List() ([]Address, error) {
	var d dumper
	list, err := d.snapshot()
	return list, errors.Join(err, d.close())
}
