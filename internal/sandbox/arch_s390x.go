// SPDX-License-Identifier: Apache-2.0

package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_S390X

// cloneFlags is the argument of clone(2) that has the flags: CONFIG_CLONE_BACKWARDS2.
const cloneFlags = 1

// The numbers of socketcall(2) (linux/net.h).
const (
	callSocket      = 1
	callConnect     = 3
	callGetsockname = 6
	callGetpeername = 7
	callSendto      = 11
	callRecvfrom    = 12
	callShutdown    = 13
	callSetsockopt  = 14
	callGetsockopt  = 15
	callRecvmsg     = 17
	callAccept4     = 18
)

// architectureCalls are the calls that the others do not have. Packages syscall and
// unix make nearly all calls for sockets by socketcall(2) here. Its arguments are
// behind a pointer, where no filter sees them: on this architecture a child can make
// sockets of every family and type, and set every option.
func architectureCalls() []allowedCall {
	const why, only = "the calls for sockets, on s390x", "the numbers of the calls above; their arguments cannot be seen"
	always := []uint32{callGetsockname, callGetpeername, callRecvfrom, callShutdown, callSetsockopt, callGetsockopt, callRecvmsg}
	of := func(kind Kind, more ...uint32) allowedCall {
		return allowedCall{"socketcall", unix.SYS_SOCKETCALL, kind, why, only, []argumentCheck{{0, fullMask, append(more, always...)}}, nil}
	}
	return []allowedCall{
		of(Proxy, callSocket, callConnect, callAccept4),
		of(Exporter, callAccept4),
		of(Prober, callSocket, callConnect, callSendto),
	}
}
