// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import "errors"

// CheckSupport reports whether the kernel supports everything that the table requires. It
// leaves nothing in the kernel: each feature is deleted in the batch that adds it. The error
// is ErrUnavailable and names the missing feature or the reason why it could not be tested.
func CheckSupport() (err error) {
	c, err := Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return c.checkSupport()
}

func (c *Conn) checkSupport() error {
	const action = "nftables cannot be used"
	if missing := c.missingFeature(); missing != "" {
		return &unavailableError{action: action, kind: ErrUnsupported, remediation: "the kernel lacks " + missing}
	}
	if _, err := c.getTable(); err != nil {
		return c.explain(action, err)
	}
	return nil
}
