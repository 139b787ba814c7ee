// SPDX-License-Identifier: Apache-2.0

//go:build linux

package address

import (
	"errors"
	"fmt"
	"sync"
)

// maxDumps bounds how often a dump is repeated that changes came into. A dump
// takes well under a millisecond; a host whose addresses change faster than that
// for so long gets an error, and the next change wakes the reader.
const maxDumps = 16

// errInterrupted says that addresses changed while they were being dumped, so
// that the dump may miss some, untouched ones too.
var errInterrupted = errors.New("the addresses changed during the dump")

// dumper reads all addresses over a socket of its own. It is safe for
// concurrent use.
type dumper struct {
	mu   sync.Mutex
	conn *dumpConn // nil until first use, and after an error
}

// snapshot dumps until a dump is consistent, at most maxDumps times.
func (d *dumper) snapshot() ([]Address, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return retryInterrupted(d.dump)
}

// retryInterrupted calls dump again as long as it was interrupted, at most maxDumps times.
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
	return nil, fmt.Errorf("read the addresses of this host: %w", err)
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
		// Replies may still be queued, and would be taken for those of the next
		// request.
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

// List returns every address of the host once, for who does not watch them.
func List() ([]Address, error) {
	var d dumper
	list, err := d.snapshot()
	return list, errors.Join(err, d.close())
}
