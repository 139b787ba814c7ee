// SPDX-License-Identifier: Apache-2.0

package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_S390X

// Numbers of socketcall(2) (linux/net.h).
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

// architectureCalls returns the calls of this architecture only. Packages syscall and
// unix make nearly all calls for sockets with socketcall(2). A pointer leads to its
// arguments, which no filter can read: on s390x a child can create sockets of every
// family and type, and set every option.
func architectureCalls() []allowedCall {
	const reason, restriction = "the calls for sockets, on s390x",
		"the numbers of the calls above; a filter cannot read their arguments"
	always := []uint32{callGetsockname, callGetpeername, callSetsockopt, callGetsockopt, callRecvmsg}
	of := func(kind Kind, more ...uint32) allowedCall {
		return allowedCall{
			"socketcall", unix.SYS_SOCKETCALL, kind, reason, restriction,
			[]argumentCheck{{0, fullMask, append(more, always...)}},
			nil,
		}
	}
	return []allowedCall{
		of(Proxy, callSocket, callConnect, callAccept4, callRecvfrom, callShutdown),
		of(Exporter, callAccept4, callShutdown),
		of(Prober, callSocket, callConnect, callSendto, callRecvfrom),
	}
}
