// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Errors to be recognised with errors.Is. Whatever is one of the next three is
// ErrUnavailable too.
var (
	// ErrUnavailable: the kernel did not take the table, or could not be asked.
	ErrUnavailable = errors.New("nftables is unavailable")
	// ErrPermission: this process lacks CAP_NET_ADMIN.
	ErrPermission = errors.New("CAP_NET_ADMIN is missing")
	// ErrOwned: another living process owns a table of our name.
	ErrOwned = errors.New("the table has another owner")
	// ErrUnsupported: the kernel has no nf_tables or lacks a part of it.
	ErrUnsupported = errors.New("the kernel lacks a part of nf_tables")
	// ErrDiffers: Verify found something else than what was applied.
	ErrDiffers = errors.New("the table in the kernel is not the one that was applied")
)

// unavailableError is an error that is ErrUnavailable and, when kind is set,
// also that.
type unavailableError struct {
	action      string // what was tried
	kind        error  // ErrPermission, ErrOwned, ErrUnsupported, or nil
	remediation string // why it failed and what to do; may be empty
	cause       error  // may be nil
}

func (e *unavailableError) Error() string {
	text := e.action
	if e.remediation != "" {
		text += ": " + e.remediation
	}
	if e.cause != nil {
		text += fmt.Sprintf(" (%v)", e.cause)
	}
	return text
}

func (e *unavailableError) Is(target error) bool {
	return target == ErrUnavailable || (e.kind != nil && target == e.kind)
}

func (e *unavailableError) Unwrap() error { return e.cause }

// ownerError says that the kernel knows another owner of the table.
type ownerError struct{ port uint32 }

func (e *ownerError) Error() string {
	return "its owner is " + describeOwner(e.port)
}

func newOwnerError(port uint32) error { return &ownerError{port: port} }

// explain says what err, from act, means for the operator, after asking the
// kernel about it where needed.
func (c *Conn) explain(act string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM) && hasNetAdmin():
		if t, lookErr := c.getTable(); lookErr == nil && t != nil && t.Owner != 0 && t.Owner != c.sock.port {
			err = newOwnerError(t.Owner)
		}
	case isUnsupported(err):
		if part := c.missingFeature(); part != "" {
			return &unavailableError{
				action: act, kind: ErrUnsupported, cause: err,
				remediation: "the kernel lacks " + part,
			}
		}
	}
	return explain(act, err)
}

// explain is the part of Conn.explain that needs no connection.
func explain(act string, err error) error {
	e := &unavailableError{action: act, cause: err}
	var owner *ownerError
	switch {
	case errors.As(err, &owner):
		e.kind = ErrOwned
		e.remediation = fmt.Sprintf("the table belongs to %s: stop that process first, only one can serve a host", describeOwner(owner.port))
		e.cause = nil
	case (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)) && !hasNetAdmin():
		e.kind = ErrPermission
		e.remediation = "this process has no CAP_NET_ADMIN in its effective set: run it as root, " +
			"or give its unit AmbientCapabilities=CAP_NET_ADMIN and let CapabilityBoundingSet= contain it"
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT):
		e.kind = ErrUnsupported
		e.remediation = "no netfilter netlink socket can be had: the kernel needs CONFIG_NETFILTER_NETLINK (modprobe nfnetlink), " +
			"and the unit's RestrictAddressFamilies= has to contain AF_NETLINK"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		e.remediation = "no file descriptor is left: raise LimitNOFILE= of the unit"
	}
	return e
}

// isUnsupported tells the errors with which the kernel refuses what it does not
// know: an unknown subsystem, family or flag, and an expression, chain type or set
// type whose module is not there (nfnetlink.c, nf_tables_api.c).
func isUnsupported(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) ||
		errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EAFNOSUPPORT)
}

// hasNetAdmin reports whether CAP_NET_ADMIN is in the effective set. When that
// cannot be found out it says yes, so that no one is sent after a capability
// that is there.
func hasNetAdmin() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return true
	}
	return data[0].Effective&(1<<unix.CAP_NET_ADMIN) != 0
}
