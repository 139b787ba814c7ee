// SPDX-License-Identifier: Apache-2.0

// Package chaos tests that the host is in the right state within a second of the last fault.
//
// A generator draws sequences of faults from a seed. A walk injects each fault into a rig
// (test/support/rig): a host with a fresh service under a fake systemd. Then it compares the
// host with a pure model (package model): the table as nft lists it, the listening sockets, the
// state from the status socket, and the files. The model knows only the inputs of the generator,
// and nothing that the service reports. Where the service documents a bound above one second, the
// model uses that bound and names its source.
//
// Meanwhile, honest validators send requests from several addresses. The model attributes each
// failed request to a fault that affects its VIP at that time; otherwise the request counts as
// lost. Once the host agrees with the model, each served VIP must answer every later request.
// Attackers use their own addresses. They send endless heads or nothing, reset connections,
// leave them half-open, and do not read responses, of a few bytes or of 64 KiB, which block the
// proxy process. Every few seconds, one address floods each VIP. TestFlood in test/support/lab
// (50,000 connections), and TestAbuse, TestSlowReader and TestHonestClientsDuringFlood in
// pkg/proxy/server test larger attacks.
//
// The last accepted configuration must be exact, or an earlier one where a write may have failed
// or is not due. The other files of the state directory are known and complete; only a fault
// during a write may leave a temporary file. The service never changes its input files, and adds
// none beside them, because a MachineConfig owns them. Truncation cuts a file at a per mille of
// its length; TestTruncated in pkg/host/keepalived tests each byte.
//
// A failing sequence is printed as a test. A seed repeats faults and pauses, but not each
// interleaving of overlapping faults: -only SEED -times N injects one sequence several times.
//
// The connection tracking table is filled for the host alone (test/support/conntrack): the
// kernel compares nf_conntrack_max, which is read-only here (Linux 6.18: EACCES), with the
// entries of one namespace. Filling it with UDP takes 64 MiB if the limit is 262,144;
// conntrack.Open fails above 1,048,576. TestConntrackFull shows that connections are dropped.
//
// In some sequences each fsync of the service takes five seconds (test/support/slowsync).
// TestFlap, TestOverflow, TestConntrackFull, TestForeignOwner, TestFewDescriptorsController,
// TestControllerStandsStill, TestProberStandsStill and TestVIPArrivesDuringRestart inject one
// fault each, and examine more.
//
// The generator does not draw the following:
//
//   - VIPs that keepalived moves between hosts: the rig contains one host, where a move is a
//     removal and an addition. test/support/lab moves VIPs, test/support/cluster between
//     hosts that boot.
//   - daemon-reload, the watchdog, the memory limit: systemd is a fake here. test/support/host
//     (TestWatchdog, TestKills, TestRestarts, and TestHostileResources for MemoryMax).
//   - firewalld: each host would need its own bus and firewalld. pkg/host/nftables
//     (TestFirewalld) runs the real one, with its reload.
//   - a start of the controller without descriptors: the unit sets the limit for the whole life
//     of the process. FewDescriptorsController needs a controller that is ready.
//   - clock steps: no namespace changes CLOCK_REALTIME (time_namespaces(7)). test/suites/clock
//     (TestSteps) steps the clock of a QEMU machine by an hour and ten years, both directions.
//   - another owner of the table: it can exist only while no process of the service runs.
//     TestForeignOwner here, pkg/host/nftables.
//   - SIGSTOP of the proxy process for ten seconds: the service replaces it after eight, so
//     HangProxy is the same fault.
//   - wrong or slow DNS: a silent name server is drawn, and nothing that the model compares
//     depends on DNS (TestVIPMoveDoesNotWait in test/support/lab).
//   - the conditions of a CA bundle or proxy.env: bad files are drawn, and must not change the
//     table, the sockets and the state. test/suites/ingress compares the conditions.
package chaos
