// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// childMode makes the test binary a helper process in the network namespace of its parent.
const childMode = "HTTP01_PROXYD_NFTABLE_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childMode) {
	case "own":
		os.Exit(runTableOwner(Open, 7777, "192.0.2.7"))
	case "persist":
		os.Exit(runTableOwner(func() (*Conn, error) {
			c, _, err := OpenPersistent()
			return c, err
		}, 8888, "192.0.2.5"))
	case "no-capability":
		os.Exit(runWithoutCapability())
	}
	nstest.Main(m)
}

// runTableOwner installs a table and keeps it until its standard input ends.
func runTableOwner(open func() (*Conn, error), port uint16, vip string) int {
	c, err := open()
	if err == nil {
		err = c.Apply(ruleset.New(port, parseAddrs(vip)))
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("in place")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// runWithoutCapability prints the error of each call of a process without capabilities, one
// per line.
func runWithoutCapability() int {
	c, err := Open()
	if err != nil {
		fmt.Println("open:", err)
		return 1
	}
	for _, call := range []func() error{
		func() error { return c.Apply(ruleset.New(8888, parseAddrs("192.0.2.5"))) },
		c.Verify,
		c.Remove,
		func() error { _, err := c.State(); return err },
		func() error { _, err := Cleanup(); return err },
	} {
		fmt.Println(call())
	}
	return 0
}

// child is this binary in a child mode.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
}

func startChild(t *testing.T, mode string) *child {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), childMode+"="+mode)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	c := &child{cmd: cmd, stdin: stdin, lines: bufio.NewScanner(stdout)}
	t.Cleanup(c.kill)
	if !c.lines.Scan() || c.lines.Text() != "in place" {
		t.Fatalf("child: %q", c.lines.Text())
	}
	return c
}

// kill sends SIGKILL and waits until the kernel removes the process.
func (c *child) kill() {
	_ = c.cmd.Process.Signal(unix.SIGKILL)
	_ = c.cmd.Wait()
}

func parseAddrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, s := range texts {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}

// must ends the test with an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openConn returns a connection that is closed at the end of the test, which also removes its
// table.
func openConn(t testing.TB) *Conn {
	t.Helper()
	nstest.Require(t)
	c, err := Open()
	must(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

func apply(t testing.TB, c *Conn, table ruleset.Table) {
	t.Helper()
	must(t, c.Apply(table))
}

func verify(t testing.TB, c *Conn) {
	t.Helper()
	must(t, c.Verify())
}

func nft(t testing.TB, args ...string) string {
	t.Helper()
	return nstest.Run(t, "nft", args...)
}

// loadRuleset loads text with nft -f.
func loadRuleset(t testing.TB, text string) {
	t.Helper()
	nstest.RunWithInput(t, text, "nft", "-f", "-")
}

// listOtherTables lists the ruleset without our table.
func listOtherTables(t testing.TB) string {
	t.Helper()
	var keep []string
	ours := false
	for line := range strings.Lines(nft(t, "-s", "-a", "list", "ruleset")) {
		if strings.HasPrefix(line, "table ") {
			ours = strings.HasPrefix(line, "table inet "+ruleset.Name+" ")
		}
		if !ours {
			keep = append(keep, line)
		}
	}
	return strings.Join(keep, "")
}

// listTables returns the output of nft list tables.
func listTables(t testing.TB) string {
	t.Helper()
	return nft(t, "list", "tables")
}

// expectNoTable checks that our table does not exist.
func expectNoTable(t testing.TB, when string) {
	t.Helper()
	if strings.Contains(listTables(t), tableName) {
		t.Errorf("the table exists %s", when)
	}
}

// listTable returns nft's listing of our table.
func listTable(t testing.TB, flags ...string) string {
	t.Helper()
	return nft(t, append(flags, "list", "table", "inet", ruleset.Name)...)
}

// expectUnchanged checks that two listings are equal.
func expectUnchanged(t testing.TB, what, before, after string) {
	t.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("%s changed (-before +after):\n%s", what, diff)
	}
}

// generation returns the number that increases with each batch.
func generation(t testing.TB, c *Conn) uint32 {
	t.Helper()
	id, err := c.generation()
	must(t, err)
	return id
}
