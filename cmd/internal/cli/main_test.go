// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

// asTool makes the test binary run as the tool.
const asTool = "HTTP01_PROXYD_COMMAND_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		cli.Main(tool())
	}
	os.Exit(m.Run())
}

// waitCommand waits for the end of its context, and with --forever even longer.
func waitCommand() *cobra.Command {
	c := &cobra.Command{Use: "wait", Short: "stay until the end", Long: "Wait."}
	forever := c.Flags().Bool("forever", false, "and after it")
	c.RunE = func(c *cobra.Command, _ []string) error {
		fmt.Fprintln(c.OutOrStdout(), "waiting")
		<-c.Context().Done()
		fmt.Fprintln(c.OutOrStdout(), "stopping")
		if *forever { // until the test closes the input
			_, err := io.Copy(io.Discard, c.InOrStdin())
			return err
		}
		return nil
	}
	return c
}

// process is the tool in a separate process.
type process struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

// start runs a command line, at most until the end of the test.
func start(t *testing.T, args ...string) process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	c := process{cmd: exec.CommandContext(ctx, os.Args[0], args...)}
	c.cmd.Env = append(os.Environ(), asTool+"=1", "GORACE=atexit_sleep_ms=0")
	c.cmd.Stderr = os.Stderr
	if _, err := c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// expectOutput waits for a line.
func (c process) expectOutput(t *testing.T, want string) {
	t.Helper()
	if !c.out.Scan() || c.out.Text() != want {
		t.Fatalf("got %q, want %q", c.out.Text(), want)
	}
}

// signal sends a signal. A process that has already ended is ignored.
func (c process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

// TestMainExits: the process ends with the exit code of its command line.
func TestMainExits(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{"version": cli.OK, "breaking": cli.Failure, "paste": cli.Usage} {
		c := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(line)...)
		c.Env = append(os.Environ(), asTool+"=1")
		var exit *exec.ExitError
		if err := c.Run(); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := c.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: exit code %d, want %d", line, got, want)
		}
	}
}

// TestSignalStops: both signals end the context, and the command determines the exit
// code.
func TestSignalStops(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			c := start(t, "wait")
			c.expectOutput(t, "waiting")
			c.signal(t, s)
			c.expectOutput(t, "stopping")
			if err := c.cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSecondSignalKills: a second signal ends a command that does not stop. The first
// handler may still be active for a moment, so the test sends several.
func TestSecondSignalKills(t *testing.T) {
	t.Parallel()
	c := start(t, "wait", "--forever")
	c.expectOutput(t, "waiting")
	c.signal(t, syscall.SIGTERM)
	c.expectOutput(t, "stopping")
	ended := make(chan error, 1)
	go func() { ended <- c.cmd.Wait() }()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			c.signal(t, syscall.SIGTERM)
		case err := <-ended:
			status, _ := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !status.Signaled() || status.Signal() != syscall.SIGTERM {
				t.Errorf("it ended with %v", err)
			}
			return
		}
	}
}
