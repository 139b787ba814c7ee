// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rtnl

import (
	"errors"
	"fmt"
	"time"

	"github.com/jsimonetti/rtnetlink/v2"
)

// timeout bounds all requests of one Do: the kernel answers within the system call.
const timeout = 2 * time.Second

// Do runs requests on a separate socket, for at most 2 s in all.
func Do(question func(*rtnetlink.Conn) error) (err error) {
	c, err := rtnetlink.Dial(nil)
	if err != nil {
		return fmt.Errorf("open a route netlink socket: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	return question(c)
}
