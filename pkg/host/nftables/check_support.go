// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import "errors"

// CheckSupport finds out whether the kernel takes all that the table needs, and leaves
// nothing behind: each piece is removed in the batch that makes it. The error is
// ErrUnavailable, and names what is missing or why it cannot be tried.
func CheckSupport() (err error) {
	c, err := Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return c.checkSupport()
}

func (c *Conn) checkSupport() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	const act = "nftables cannot be used"
	if part := c.missingFeature(); part != "" {
		return &unavailableError{action: act, kind: ErrUnsupported, remediation: "the kernel lacks " + part}
	}
	if _, err := c.getTable(); err != nil {
		return c.explain(act, err)
	}
	return nil
}
