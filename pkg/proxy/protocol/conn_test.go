// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func newTestPair(t *testing.T) (keeper, gate *Conn) {
	t.Helper()
	keeper, far, err := NewPair()
	if err != nil {
		t.Fatal(err)
	}
	gate, err = FromFiles(far)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = keeper.Close()
		_ = gate.Close()
	})
	return keeper, gate
}

// Whatever the size of a message, it arrives whole, and the descriptor with it.
func TestCommands(t *testing.T) {
	t.Parallel()
	keeper, gate := newTestPair(t)
	keeper.writeTimeout = time.Minute // with the race detector megabytes take seconds to decode
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	many := make([]string, 4000)
	for i := range many {
		many[i] = strings.Repeat("a", 60)
	}
	orders := []Command{
		{Trust: &ingress.CABundle{Roots: [][]byte{make([]byte, 100<<10)}}},
		{Egress: &ingress.Egress{
			ProxyCAs: ingress.CABundle{Roots: [][]byte{make([]byte, (trust.MaxSystem+trust.MaxBundle)*3/4)}}, AdditionalCAs: ingress.CABundle{Roots: [][]byte{make([]byte, trust.MaxSystem*3/4)}},
		}},
		{Configure: &Configure{Hosts: many, HeadTimeout: time.Second, Upstream: ingress.FromConfig(config.Default().Upstream, []netip.Addr{netip.MustParseAddr("192.0.2.6")})}},
		{Listen: &Listen{Port: 8888}},
		{Drain: &Drain{Budget: time.Second}},
	}
	sent := make(chan error, 1)
	go func() {
		for _, o := range orders {
			fd := -1
			if o.Listen != nil {
				fd = int(file.Fd())
			}
			if err := keeper.Send(o, fd); err != nil {
				_ = keeper.Close()
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for _, want := range orders {
		got, fd, err := gate.ReceiveCommand()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(bytes.Equal)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if (fd >= 0) != (want.Listen != nil) {
			t.Errorf("descriptor %d with %+v", fd, want)
		}
		if fd < 0 {
			continue
		}
		if listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); listening != 1 || err != nil {
			t.Errorf("what came listens: %d, %v", listening, err)
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 || err != nil {
			t.Errorf("what came is inherited: %d, %v", flags, err)
		}
		_ = unix.Close(fd)
	}
	if err := errors.Join(<-sent, keeper.Close()); err != nil {
		t.Error(err)
	}
	if _, _, err := gate.ReceiveCommand(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}

// What does not come from a gate of ours ends the connection.
func TestInvalidEvents(t *testing.T) {
	t.Parallel()
	framed := func(text string) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	}
	for name, bytes := range map[string][]byte{
		"longer than any word": binary.BigEndian.AppendUint32(nil, maxEvent+1),
		"cut in the length":    {0, 0},
		"cut in the text":      framed(`{"alive":{}}`)[:8],
		"no JSON":              framed("alive"),
		"an unknown word":      framed(`{"order":{}}`),
		"a port out of range":  framed(`{"gone":{"port":65536}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keeper, gate := newTestPair(t)
			if _, err := gate.pipe.Write(bytes); err != nil {
				t.Fatal(err)
			}
			_ = gate.Close()
			if w, err := keeper.ReceiveEvent(); err == nil {
				t.Errorf("taken as %+v", w)
			}
		})
	}
}

// A child can have no descriptor wait for the controller: neither its pipe nor its
// end of the socket carries one there.
func TestNoDescriptorReachesTheController(t *testing.T) {
	keeper, gate := newTestPair(t)
	if err := gate.Send(Event{Heartbeat: &Heartbeat{}}, 1); err == nil {
		t.Error("a child's message takes a descriptor")
	}
	if _, _, err := gate.socket.WriteMsgUnix([]byte{0}, unix.UnixRights(1), nil); !errors.Is(err, unix.EPIPE) {
		t.Errorf("over the socket: %v, want EPIPE", err)
	}
	raw, err := gate.pipe.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var sent error
	_ = raw.Control(func(fd uintptr) { sent = unix.Sendmsg(int(fd), []byte{0}, unix.UnixRights(1), nil, 0) })
	if !errors.Is(sent, unix.ENOTSOCK) {
		t.Errorf("over the pipe: %v, want ENOTSOCK", sent)
	}
	if err := gate.Send(Event{Heartbeat: &Heartbeat{}}, -1); err != nil {
		t.Fatal(err)
	}
	if w, err := keeper.ReceiveEvent(); err != nil || w.Heartbeat == nil {
		t.Errorf("after that: %+v, %v", w, err)
	}
}

// A peer that does not read holds nobody up: the controller's command is queued at
// once, and the child's end is reported to whoever receives.
func TestPeerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	keeper, gate := newTestPair(t)
	if keeper.writeTimeout != sendTimeout || gate.writeTimeout != sendTimeout {
		t.Errorf("a connection waits %v and %v", keeper.writeTimeout, gate.writeTimeout)
	}
	keeper.writeTimeout, gate.writeTimeout = time.Millisecond, time.Millisecond
	big := Command{Configure: &Configure{Hosts: []string{strings.Repeat("a", 1<<20)}}} // more than the socket's buffer holds
	if err := keeper.Send(big, 1); err != nil {
		t.Errorf("queue a command: %v", err)
	}
	if _, err := keeper.ReceiveEvent(); !errors.Is(err, errNotReading) {
		t.Errorf("receive: %v", err)
	}
	if err := keeper.Send(big, 1); !errors.Is(err, errNotReading) {
		t.Errorf("the next command: %v", err)
	}
	if err := gate.Send(strings.Repeat("a", maxEvent/2), -1); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a message: %v", err)
	}
}

// The queue is bounded in commands and in bytes; the descriptors in it are closed with
// it.
func TestOverflow(t *testing.T) {
	for name, command := range map[string]Command{
		"commands": {Flush: &Flush{}},
		"bytes":    {Configure: &Configure{Hosts: []string{strings.Repeat("a", maxCommand-1000)}}},
	} {
		t.Run(name, func(t *testing.T) {
			keeper, _ := newTestPair(t)
			before := openDescriptors(t)
			if err := keeper.Send(Command{Configure: &Configure{Hosts: []string{strings.Repeat("a", 1<<20)}}}, 1); err != nil {
				t.Fatal(err)
			}
			queued := 0
			var err error
			for ; err == nil && queued <= maxQueued+1; queued++ {
				err = keeper.Send(command, 1)
			}
			if !errors.Is(err, errNotReading) {
				t.Errorf("after %d commands: %v", queued, err)
			}
			if _, err := keeper.ReceiveEvent(); !errors.Is(err, errNotReading) {
				t.Errorf("receive: %v", err)
			}
			_ = keeper.Close()
			nstest.Await(t, "the descriptors are closed", func() bool { return openDescriptors(t) <= before })
		})
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// What a message decodes to is bounded before it is decoded: 65,000 empty challenges
// have 192 KiB as text and 20 MiB as structs.
func TestManyValues(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"challenges": `{"news":{"challenges":[` + strings.Repeat("{},", maxValues) + `{}]}}`,
		"refusals":   `{"news":{"refused":[` + strings.Repeat("{},", maxValues) + `{}]}}`,
		"depth":      strings.Repeat("[", maxValues+1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keeper, gate := newTestPair(t)
			if _, err := gate.pipe.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)); err != nil {
				t.Fatal(err)
			}
			if _, err := keeper.ReceiveEvent(); err == nil || !strings.Contains(err.Error(), "values") {
				t.Errorf("received: %v", err)
			}
		})
	}
	for text, want := range map[string]int{``: 0, `{}`: 1, `[1,2,3]`: 3, `"a,b{[\",["`: 0, `{"a\\":[{},{}]}`: 5} {
		if got := countValues([]byte(text)); got != want {
			t.Errorf("%s has %d values, want %d", text, got, want)
		}
	}
}

// The largest news that a gate tells pass.
func TestLargestStats(t *testing.T) {
	t.Parallel()
	keeper, gate := newTestPair(t)
	n := &Stats{UpstreamFailed: true, AcceptFailures: 1}
	for range MaxChallenges {
		name := strings.Repeat("a", 253)
		n.Challenges = append(n.Challenges, Challenge{
			Challenge: report.Challenge{Host: name},
			Failure:   &cause.Failure{Details: cause.Details{Names: []string{name, name, name, name}}, Others: make([]cause.OtherFailure, cause.MaxOthers)},
		})
	}
	n.Sums, n.Refused = make([]report.ForwardedCount, MaxRequestSums), make([]report.RefusalCount, maxRefusalSums)
	sent := make(chan error, 1)
	go func() { sent <- gate.Send(Event{Stats: n}, -1) }()
	if w, err := keeper.ReceiveEvent(); err != nil || len(w.Stats.Challenges) != MaxChallenges {
		t.Errorf("received: %v", err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// A flood of messages ends the connection.
func TestBudget(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, length := range map[string]int{"messages": 20, "bytes": maxEvent} {
		var b rateBudget
		count := 0
		for b.spend(length, now) == nil {
			count++
		}
		if want := min(maxPerSecond, maxBytesPerSecond/length); count != want {
			t.Errorf("%s: %d in a second, want %d", name, count, want)
		}
		if err := b.spend(length, now.Add(time.Second)); err != nil {
			t.Errorf("%s: in the next second: %v", name, err)
		}
	}
}

func TestInvalidStats(t *testing.T) {
	t.Parallel()
	good := Challenge{Challenge: report.Challenge{Method: "GET", Host: "api.example.com", TokenPrefix: "evaGxfAD", ClientKind: report.CertManager, Outcome: report.Answered, Status: 200}}
	with := func(change func(*Challenge)) Stats {
		c := good
		change(&c)
		return Stats{Challenges: []Challenge{good, c}}
	}
	for name, tt := range map[string]struct {
		news Stats
		ok   bool
	}{
		"good":                {with(func(*Challenge) {}), true},
		"no host":             {with(func(c *Challenge) { c.Host = "" }), true},
		"a line break":        {with(func(c *Challenge) { c.Host = "a\nb" }), false},
		"an escape":           {with(func(c *Challenge) { c.TokenPrefix = "\x1b[31m" }), false},
		"a long host":         {with(func(c *Challenge) { c.Host = strings.Repeat("a", 254) }), false},
		"a host and a port":   {with(func(c *Challenge) { c.Host = "api.example.com:8080" }), true},
		"IPv6 and a port":     {with(func(c *Challenge) { c.Host = "[2001:db8::5]:8080" }), true},
		"IPv6":                {with(func(c *Challenge) { c.Host = "[2001:db8::5]" }), true},
		"a host with a zone":  {with(func(c *Challenge) { c.Host = "[fe80::1%x]:80" }), false},
		"a sentence as host":  {with(func(c *Challenge) { c.Host = "mend it now" }), false},
		"another method":      {with(func(c *Challenge) { c.Method = "PUT" }), false},
		"a zone":              {with(func(c *Challenge) { c.VIP = netip.MustParseAddr("fe80::1%x\ny") }), false},
		"a client's zone":     {with(func(c *Challenge) { c.Client = netip.MustParseAddrPort("[fe80::1%x]:80") }), false},
		"an ingress's zone":   {with(func(c *Challenge) { c.Upstream = netip.MustParseAddrPort("[fe80::1%x]:80") }), false},
		"a long time":         {with(func(c *Challenge) { c.Duration = MaxRequestDuration + 1 }), false},
		"a failure":           {with(func(c *Challenge) { c.Failure = &cause.Failure{Cause: "refused"} }), true},
		"a failure of none":   {with(func(c *Challenge) { c.Failure = &cause.Failure{Cause: "mend it now"} }), false},
		"a whole token":       {with(func(c *Challenge) { c.TokenPrefix = "evaGxfADs" }), false},
		"a status of none":    {with(func(c *Challenge) { c.Status = -1 }), false},
		"a negative time":     {with(func(c *Challenge) { c.Duration = -1 }), false},
		"too many challenges": {Stats{Challenges: make([]Challenge, MaxChallenges+1)}, false},
		"an unknown asker":    {with(func(c *Challenge) { c.ClientKind = "curl" }), false},
		"an unknown outcome":  {with(func(c *Challenge) { c.Outcome = "fine" }), false},
		"a sum":               {Stats{Sums: []report.ForwardedCount{{ClientKind: report.Pebble, Outcome: report.UpstreamError, Cause: "refused", Bucket: report.FirstBucket, Count: 1, TotalDuration: 1}}}, true},
		"too many at once":    {Stats{Sums: []report.ForwardedCount{{ClientKind: report.Pebble, Outcome: report.UpstreamError, Bucket: report.FirstBucket, Count: maxCount + 1}}}, false},
		"a sum of nobody":     {Stats{Sums: []report.ForwardedCount{{Outcome: report.UpstreamError, Bucket: report.FirstBucket, Count: 1}}}, false},
		"a sum of nothing":    {Stats{Sums: []report.ForwardedCount{{ClientKind: report.Pebble, Outcome: "not-challenge", Bucket: report.FirstBucket, Count: 1}}}, false},
		"a bucket of none":    {Stats{Sums: []report.ForwardedCount{{ClientKind: report.Pebble, Outcome: report.UpstreamError, Bucket: 1000}}}, false},
		"a long cause":        {Stats{Sums: []report.ForwardedCount{{ClientKind: report.Pebble, Outcome: report.UpstreamError, Bucket: report.FirstBucket, Count: 1, Cause: "mend it now"}}}, false},
		"a sum of an hour":    {Stats{Sums: []report.ForwardedCount{{ClientKind: report.Pebble, Outcome: report.UpstreamError, Bucket: report.LastBucket, Count: 1, TotalDuration: time.Hour}}}, false},
		"a sum in no bucket":  {Stats{Sums: []report.ForwardedCount{{ClientKind: report.Pebble, Outcome: report.UpstreamError, Bucket: 0, Count: 1, TotalDuration: time.Minute}}}, false},
		"the end of a bucket": {Stats{Sums: []report.ForwardedCount{{ClientKind: report.Pebble, Outcome: report.UpstreamError, Bucket: 0, Count: 3, TotalDuration: 3 * time.Second}}}, true},
		"too many sums":       {Stats{Sums: make([]report.ForwardedCount, MaxRequestSums+1)}, false},
		"a refusal":           {refusalStats(report.Evicted, report.OtherClient), true},
		"a refusal of one":    {refusalStats(report.ForeignHost, report.CertManager), true},
		"a refusal of nobody": {refusalStats(report.ForeignHost, "curl"), false},
		"a refusal unread":    {refusalStats(report.Evicted, report.CertManager), false},
		"a kind of refusal":   {refusalStats("evicted2", report.OtherClient), false},
		"a complaint":         {Stats{LastAcceptErrno: maxErrno + 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := tt.news.Validate(); (err == nil) != tt.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func refusalStats(why report.Refusal, asker report.ClientKind) Stats {
	return Stats{Refused: []report.RefusalCount{{Refusal: why, ClientKind: asker, Count: 1}}}
}

// A message that is too large is refused whole: the connection goes on.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	keeper, gate := newTestPair(t)
	if err := keeper.Send(strings.Repeat("a", maxCommand), -1); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	if err := keeper.Send("b", -1); err != nil {
		t.Fatal(err)
	}
	var got string
	if _, err := gate.Receive(&got); err != nil || got != "b" {
		t.Fatalf("got %q, %v", got, err)
	}
}
