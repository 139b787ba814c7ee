// SPDX-License-Identifier: Apache-2.0

// Package chaos tests that the host is right within a second of the last fault, whatever
// the faults were.
//
// A generator draws sequences of faults from a seed. A walk injects each one into a rig
// (test/support/rig): a host with a fresh service under a fake systemd. Then it
// compares the host with a pure model (package model): the table by the real nft, the
// listening sockets, the state by the status socket, and the files. The model has the inputs
// that the generator has set, and nothing that the service reports. Where the documented bound
// of the service is longer than a second, the model has that bound and its source.
//
// Honest validators send requests from several addresses meanwhile. The model attributes
// each request that fails to a fault that affects its VIP at that time, or it counts as
// lost. When the host agrees, each VIP that is served must answer requests that begin after
// that, and no fault explains one that fails. Attackers with addresses of their own send
// heads that never end or nothing, reset connections before and within the head, and read no
// response: of a few bytes, and of 64 KiB, which blocks the write of the proxy process. They
// leave connections half-open, and flood each VIP from one address every few seconds.
// Larger attacks have tests of their own:
// TestFlood in test/support/lab (50,000 connections), and TestAbuse, TestSlowReader and
// TestHonestClientsDuringFlood in pkg/proxy/server.
//
// Of the files, the last accepted configuration has its exact content, or one of those before
// where a write can have failed or is not due. The others of the state directory are known and
// complete, and a temporary file remains only of a write that a fault
// has interrupted. The service changes none of its input files, and adds none beside them: on a
// node a MachineConfig owns them.
//
// A file is cut at a per mille of its length, and not at each byte: TestTruncated in
// pkg/host/keepalived has each byte.
//
// A failing sequence is printed as a test. Overlapping faults are a race, so a seed repeats
// the faults and their pauses, and not each interleaving: -only SEED -times N injects one
// sequence several times.
//
// A full connection tracking table is one of the host alone (test/support/conntrack):
// nf_conntrack_max is read-only in the host's network namespace (tried on Linux 6.18: EACCES),
// but the kernel compares it with the entries of one namespace. The fault adds so many entries
// of UDP: 64 MiB where the limit is 262,144. conntrack.Open returns an error where the limit is
// above 1,048,576. TestConntrackFull shows that connections are dropped.
//
// Some sequences have a slow disk: each fsync of the service takes five seconds
// (test/support/slowsync). TestFlap, TestOverflow, TestConntrackFull, TestForeignOwner,
// TestFewDescriptorsController, TestControllerStandsStill, TestProberStandsStill and
// TestVIPArrivesDuringRestart inject one fault each, and look closer.
//
// Not drawn here, with the reason and what tests it instead:
//
//   - keepalived, VIPs that move between hosts: the rig has one host, and a move is a
//     removal and an addition there. test/support/lab has real moves, test/support/cluster
//     those of hosts that boot.
//   - systemctl daemon-reload, the watchdog, the memory limit: they need systemd, which is
//     a fake here. test/support/host (TestWatchdog, TestKills, TestRestarts, and
//     TestHostileResources for MemoryMax).
//   - firewalld: each host would need a bus and a firewalld of its own. pkg/host/nftables
//     (TestFirewalld) has the real one, with its reload.
//   - a start of the controller without descriptors: the unit sets the limit for the whole life
//     of the process. FewDescriptorsController needs one that is ready.
//   - clock steps: no namespace changes CLOCK_REALTIME (time_namespaces(7)), and a step of the
//     machine would reach everything else on it. test/suites/clock (TestSteps) steps the clock
//     of a QEMU machine by an hour and ten years, forward and back.
//   - another owner of the table in a random sequence: it can exist only while no process of
//     the service runs. TestForeignOwner here, pkg/host/nftables.
//   - SIGSTOP of the proxy process for ten seconds: the service replaces it after eight, so
//     HangProxy is that fault.
//   - DNS that is wrong or slow: a silent name server is drawn, and nothing that the model
//     compares depends on DNS. test/support/lab (TestVIPMoveDoesNotWait) shows that.
//   - what a CA bundle or proxy.env means: bad ones are drawn here, and must change nothing
//     of the table, the sockets and the state. Their own conditions are not compared:
//     test/suites/ingress.
package chaos
