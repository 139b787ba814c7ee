// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/status"
)

// The line that readiness comes with stands: what the line was before cannot
// follow it, however the two ways to say it are scheduled.
func TestNoOlderLineFollows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	defer both.Wait() // once the socket is closed, nobody waits for its reader
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)

	a := &announcer{log: slog.New(slog.DiscardHandler), board: status.NewBoard("test", time.Now(), func(status.Condition, status.Condition) {})}
	const looks = 5000
	look := func(n int) {
		a.board.SetLook(status.Look{Reason: status.NotRequired, Message: fmt.Sprintf("look %d", n)}, time.Now())
	}
	look(0)
	over := make(chan struct{})
	both.Go(func() {
		defer close(over)
		for n := 1; n <= looks; n++ {
			look(n)
			a.Ready()
		}
	})
	both.Go(func() {
		for last := ""; ; last = a.refresh(last) {
			select {
			case <-over:
				return
			default:
			}
		}
	})

	var told []int
	deadline := time.Now().Add(time.Minute)
	for len(told) == 0 || told[len(told)-1] < looks {
		if err := socket.SetReadDeadline(deadline); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 4096)
		n, err := socket.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the last of %d lines was not told within a minute", looks)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, line, _ := strings.Cut(string(buffer[:n]), "STATUS=")
		var number int
		if _, err := fmt.Sscanf(line, "NotRequired: look %d", &number); err != nil {
			t.Fatalf("%q: %v", buffer[:n], err)
		}
		if len(told) > 0 && number < told[len(told)-1] {
			t.Fatalf("look %d is told after look %d", number, told[len(told)-1])
		}
		told = append(told, number)
	}
}
