// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// This file makes each child process of the service attack its protocol at random. It is
// built into the program with -overlay. Argv[0] of the service and its children is
// "http01-fuzz:SEED", or "http01-fuzz:SEED:START" to repeat one process. Beside its work,
// a process performs acts that its seed chooses, and starts again with others after the
// controller has replaced it.
func init() {
	fields := strings.Split(os.Args[0], ":")
	if fields[0] != "http01-fuzz" || len(os.Args) != 2 || os.Args[1] == "run" {
		return
	}
	start := uint64(os.Getpid())
	seed, _ := strconv.ParseUint(fields[1], 10, 64)
	if len(fields) == 3 {
		start, _ = strconv.ParseUint(fields[2], 10, 64)
	}
	kind := fnv.New64a()
	_, _ = kind.Write([]byte(os.Args[1]))
	f := &fuzzer{rand.New(rand.NewPCG(seed, start^kind.Sum64()))}
	go func() {
		for _, err := os.Open("/proc/self/status"); !errors.Is(err, unix.EPERM); _, err = os.Open("/proc/self/status") {
			time.Sleep(time.Millisecond)
		}
		fmt.Fprintf(os.Stderr, "FUZZ: seed %d start %d\n", seed, start)
		time.Sleep(time.Duration(f.IntN(1500)) * time.Millisecond)
		for range 1 + f.IntN(40) {
			f.act()
		}
		fmt.Fprintln(os.Stderr, "FUZZ: over")
	}()
}

// marker is in each text that a process composes.
const marker = "F1EA5A17"

type fuzzer struct{ *rand.Rand }

// act performs one act. The last ones usually end the process.
func (f *fuzzer) act() {
	switch f.IntN(24) {
	case 0, 1, 2:
		f.write(f.frame(f.message()))
	case 3, 4:
		f.write(f.frame(f.mutate(f.message())))
	case 5:
		f.write(f.bytes(f.IntN(4096)))
	case 6: // a length without its text
		f.write(binary.BigEndian.AppendUint32(nil, f.Uint32()))
	case 7: // a truncated message
		framed := f.frame(f.message())
		f.write(framed[:f.IntN(len(framed))])
	case 8: // byte by byte
		for _, b := range f.frame(f.message()) {
			f.write([]byte{b})
		}
	case 9: // flood
		one := f.frame(f.message())
		for range f.IntN(3000) {
			f.write(one)
		}
	case 10: // large
		f.write(f.frame([]byte(`{"stats":{"x":"` + marker + strings.Repeat("a", f.IntN(400<<10)) + `"}}`)))
	case 11: // deep and wide
		n := f.IntN(20000)
		f.write(f.frame([]byte(`{"stats":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)))
	case 12: // a stream without an end
		fd := f.descriptor()
		for range f.IntN(200) {
			_, _ = unix.Write(fd, f.bytes(4096))
		}
	case 13: // descriptors, and bytes in the wrong direction
		_ = unix.Sendmsg(3, f.bytes(8), unix.UnixRights(0), nil, 0)
		_, _ = unix.Write(f.IntN(20), f.frame(f.message()))
	case 14: // steals commands from the process's own reader
		buf := make([]byte, 1+f.IntN(64))
		_, _, _, _, _ = unix.Recvmsg(f.IntN(20), buf, make([]byte, 64), unix.MSG_DONTWAIT)
	case 15:
		fmt.Fprintf(os.Stderr, "%s\x1b[31m\r%s\u202e\n", marker, f.bytes(f.IntN(600)))
	case 16:
		time.Sleep(time.Duration(f.IntN(3000)) * time.Millisecond)
	case 17: // options and shutdown of sockets that it shares
		fd := f.IntN(20)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, f.IntN(80), f.IntN(1<<16))
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, f.IntN(40), f.IntN(1<<16))
		_ = unix.Shutdown(fd, f.IntN(3))
	case 18: // takes clients and ignores them
		for range f.IntN(50) {
			_, _, _ = unix.Accept4(f.IntN(20), unix.SOCK_NONBLOCK)
		}
	case 19:
		_ = unix.Close(f.IntN(20))
	case 20: // stops itself: no other process can
		_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
	case 21:
		unix.Exit(f.IntN(256))
	case 22: // busy
		for end := time.Now().Add(time.Duration(f.IntN(2000)) * time.Millisecond); time.Now().Before(end); {
		}
	case 23:
		panic(marker + "\x1b[2J")
	}
}

// message returns a message that is nearly one of a protocol.
func (f *fuzzer) message() []byte {
	all := []string{
		`{"heartbeat":{}}`, `{"flushed":{}}`, `{"drained":{}}`, `{"stopped":{"port":8888}}`, `{"ready":{}}`, `{"request":{"id":1}}`,
		`{"ingressProbed":{"results":[{"addr":"192.0.2.1"}]}}`, `{"ingressProbed":{"results":[]}}`,
		`{"stats":{}}`, `{"stats":{"challenges":[{"method":"GET","clientKind":"other","outcome":"failed","host":"` + marker + `"}]}}`,
		`{"stats":{"acceptFailures":1,"lastAcceptErrno":24}}`, `{"stats":{"sums":[{"clientKind":"other","outcome":"failed","count":1}]}}`,
		`{"id":1,"error":{"reason":"` + marker + `"}}`, `{"id":1,"lookup":{"text":"` + marker + `"}}`, `{"id":2,"certificate":{}}`, `{"id":3,"fetch":{}}`,
		`{"heartbeat":{},"flushed":{}}`, `{}`, `null`, `[]`, `"` + marker + `"`, `{"` + marker + `":{}}`,
	}
	return []byte(all[f.IntN(len(all))])
}

// mutate changes some bytes, or a number, or inserts text.
func (f *fuzzer) mutate(text []byte) []byte {
	switch s := string(text); f.IntN(4) {
	case 0:
		for range 1 + f.IntN(4) {
			text[f.IntN(len(text))] = byte(f.Uint32())
		}
		return text
	case 1:
		return []byte(strings.ReplaceAll(s, "1", strconv.FormatUint(f.Uint64(), 10)))
	case 2:
		return []byte(strings.ReplaceAll(s, "{}", `{"`+marker+`":"\u001b[31m"}`))
	default:
		at := f.IntN(len(s))
		return []byte(s[:at] + s + s[at:])
	}
}

func (f *fuzzer) frame(text []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

func (f *fuzzer) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(f.Uint32())
	}
	return b
}

// descriptor returns the pipe of events.
func (f *fuzzer) descriptor() int {
	for fd := 3; fd < 64; fd++ {
		var s unix.Stat_t
		if unix.Fstat(fd, &s) != nil || s.Mode&unix.S_IFMT != unix.S_IFIFO {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil && flags&unix.O_ACCMODE == unix.O_WRONLY {
			return fd
		}
	}
	return -1
}

// write writes all bytes, unless the controller does not read them.
func (f *fuzzer) write(text []byte) {
	fd := f.descriptor()
	for tries := 0; len(text) > 0 && tries < 100; tries++ {
		n, err := unix.Write(fd, text)
		if errors.Is(err, unix.EAGAIN) {
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil {
			return
		}
		text = text[n:]
	}
}
