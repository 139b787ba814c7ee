// SPDX-License-Identifier: Apache-2.0

// Package viptest tests port 80 of each API VIP that this host does not hold, and decides what
// the results mean. The controller process links it; the proxy process sends the requests.
//
// This host is a client outside the holder: a firewall, a duplicate address, a wrong route or
// a holder without the service shows here weeks before a renewal. Three failures in a row are a
// finding. What anybody may cause, or what one host cannot know, is no finding:
//
//	situation                          | what the tests see                    | result
//	a VIP moves to another host        | XXYY, perhaps one failure             | answered, no finding
//	a VIP moves there and back         | XYYX                                  | answered, no finding
//	the holder's service restarts      | XXYY, perhaps a refused connection    | answered, no finding
//	the holder is drained or reboots   | some failures until the VIP moves     | fewer than three: no finding
//	a cluster with one host            | the host holds each VIP               | no test
//	BGP: several hosts hold the VIP    | XYXY                                  | answered: several hosts may answer
//	MicroShift                         | no other host can hold the address    | no test
//	this host's own output, postrouting| a SYN that was sent again has not left| not-sent: vip-test-not-sent, which
//	or egress chain drops or rejects   | this host                             | blames this host
//	this host has no route, or one that| connect(2) fails at once              | not-sent: vip-test-not-sent
//	is unreachable or a blackhole      |                                       |
//	this host's output chain rejects   | a reset, as from the holder           | refused: the kernel shows no
//	with a TCP reset                   |                                       | difference; the message blames nobody
//	this host's input chain drops the  | timed out, as by a drop on the holder | timed-out: the message blames nobody
//	reply                              |                                       |
//	an older release on the holder     | the response without an instance ID   | answered
//	no service on the holder yet, in   | refused                               | vip-unreachable-from-here: no client
//	the rollout of the installation    |                                       | is served there
//	a hostile proxy process here       | results that are not true             | it may raise a finding of this host.
//	                                   |                                       | A finding ends only when a prober
//	                                   |                                       | process gets an answer too. While two
//	                                   |                                       | hosts answer, it gets one: the proxy
//	                                   |                                       | process can end vip-two-hosts
//	a hostile proxy process here that  | no result                             | a finding stays; a result without one
//	answers for other VIPs, or not     |                                       | is dropped after some intervals
//	the proxy process here is replaced | no result                             | the same
//	a duplicate VIP                    | XYXY within 30 s                      | two-hosts: vip-two-hosts
//	a duplicate VIP whose hosts answer | XX…YY…XX                              | answered, no finding: it is
//	in turns of more than 10 s         |                                       | like a VIP that moves
//	one of two hosts stops answering   | XYXY, then failures                   | vip-two-hosts until the third failure
//	this host gains the VIP during a   | its own service answers               | the result and all before it are
//	test, also for a moment            |                                       | dropped
//
// X and Y are the instance IDs in the responses: each start of a service creates a new one.
package viptest
