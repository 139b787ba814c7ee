// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestBatches: each change is one batch, which the kernel counts, and an unchanged table
// sends none.
func TestBatches(t *testing.T) {
	steps := []struct {
		name    string
		table   ruleset.Table
		batches uint32
	}{
		{"first", ruleset.New(8888, nil), 1},
		{"the same", ruleset.New(8888, nil), 0},
		{"a VIP", ruleset.New(8888, parseAddrs("192.0.2.5")), 1},
		{"the same VIP, mapped", ruleset.New(8888, parseAddrs("::ffff:192.0.2.5")), 0},
		{"the other family too", ruleset.New(8888, parseAddrs("192.0.2.5", "2001:db8::5")), 1},
		{"all VIPs replaced", ruleset.New(8888, parseAddrs("192.0.2.6", "192.0.2.7", "2001:db8::6")), 1},
		{"another port", ruleset.New(8889, parseAddrs("192.0.2.6", "192.0.2.7", "2001:db8::6")), 1},
		{"another port and VIP", ruleset.New(8888, parseAddrs("192.0.2.5")), 1},
		{"no VIP", ruleset.New(8888, nil), 1},
	}
	c := openConn(t)
	for _, s := range steps {
		before := generation(t, c)
		apply(t, c, s.table)
		if got := generation(t, c) - before; got != s.batches {
			t.Errorf("%s: %d batches, want %d", s.name, got, s.batches)
		}
		verify(t, c)
		printed := strings.Contains(listTable(t), fmt.Sprintf("dnat to :%d", s.table.Port()))
		if !printed {
			t.Errorf("%s: nft does not list port %d", s.name, s.table.Port())
		}
	}
}

// TestElementsKeepCounters: a change of elements keeps the rules and their counters.
func TestElementsKeepCounters(t *testing.T) {
	c := openConn(t)
	apply(t, c, ruleset.New(8888, parseAddrs("192.0.2.5")))
	before := nft(t, "-a", "list", "chain", "inet", ruleset.Name, "prerouting")
	apply(t, c, ruleset.New(8888, parseAddrs("192.0.2.6", "2001:db8::5")))
	expectUnchanged(t, "the rules", before, nft(t, "-a", "list", "chain", "inet", ruleset.Name, "prerouting"))
}

func TestOthersCannotChangeTable(t *testing.T) {
	c := openConn(t)
	apply(t, c, ruleset.New(8888, parseAddrs("192.0.2.5")))
	before := listTable(t, "-a")
	for _, args := range [][]string{
		{"delete", "table", "inet", ruleset.Name},
		{"flush", "table", "inet", ruleset.Name},
		{"add", "element", "inet", ruleset.Name, "api4", "{ 192.0.2.66 }"},
		{"add", "rule", "inet", ruleset.Name, "output", "drop"},
	} {
		if out, err := exec.CommandContext(t.Context(), "nft", args...).CombinedOutput(); err == nil {
			t.Errorf("nft %s succeeded: %s", strings.Join(args, " "), out)
		}
	}
	nft(t, "flush", "ruleset")
	expectUnchanged(t, "the table", before, listTable(t, "-a"))
	verify(t, c)
}

func TestTableEndsWithItsOwner(t *testing.T) {
	t.Run("SIGKILL", func(t *testing.T) {
		nstest.Require(t)
		owner := startChild(t, "own")
		if !strings.Contains(listTables(t), tableName) {
			t.Fatal("the child has no table")
		}
		owner.kill()
		expectNoTable(t, "after the end of its owner")
	})
	t.Run("Close", func(t *testing.T) {
		c := openConn(t)
		apply(t, c, ruleset.New(8888, parseAddrs("192.0.2.5")))
		must(t, c.Close())
		expectNoTable(t, "after Close")
		if err := c.Apply(ruleset.New(8888, nil)); !errors.Is(err, os.ErrClosed) {
			t.Errorf("Apply after Close = %v, want os.ErrClosed", err)
		}
	})
	t.Run("Remove", func(t *testing.T) {
		c := openConn(t)
		for range 2 { // with a table, and without
			must(t, c.Remove())
			verify(t, c)
			expectNoTable(t, "after Remove")
			apply(t, c, ruleset.New(8888, parseAddrs("192.0.2.5")))
			verify(t, c)
			must(t, c.Remove())
		}
	})
}

func TestApplyRequiresPort(t *testing.T) {
	c := openConn(t)
	if err := c.Apply(ruleset.Table{}); err == nil {
		t.Error("a table without a port was applied")
	}
	expectNoTable(t, "after an Apply that failed")
}

// leftoverTables returns functions that install tables of our name without an owner.
func leftoverTables() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"loaded by nft": func(t *testing.T) {
			t.Helper()
			loadRuleset(t, ruleset.New(8888, parseAddrs("192.0.2.66")).String())
		},
		"dormant, with foreign content": func(t *testing.T) {
			t.Helper()
			loadRuleset(t, "table inet "+ruleset.Name+
				" { flags dormant; chain x { type nat hook prerouting priority 7; }; map y { type ipv4_addr : verdict; }; }")
		},
		"orphaned by its owner": func(t *testing.T) {
			t.Helper()
			nft, err := nftables.New(nftables.AsLasting())
			must(t, err)
			nft.AddTable(tableRef(nftables.TableFlagOwner | nftables.TableFlagPersist))
			must(t, errors.Join(nft.Flush(), nft.CloseLasting()))
		},
	}
}

func TestLeftoverTable(t *testing.T) {
	for name, install := range leftoverTables() {
		t.Run(name, func(t *testing.T) {
			c := openConn(t)
			install(t)
			if s, err := c.State(); err != nil || !s.Present || s.OwnerPort != 0 {
				t.Errorf("State = %+v, %v; want a table without owner", s, err)
			}
			if err := c.Verify(); !errors.Is(err, ErrDiffers) {
				t.Errorf("Verify = %v, want ErrDiffers", err)
			}
			apply(t, c, ruleset.New(8888, parseAddrs("192.0.2.5")))
			verify(t, c)
		})
		t.Run("cleanup of one "+name, func(t *testing.T) {
			nstest.Require(t)
			install(t)
			for _, want := range []bool{true, false} {
				if removed, err := Cleanup(); err != nil || removed != want {
					t.Errorf("Cleanup = %v, %v; want %v", removed, err, want)
				}
			}
			expectNoTable(t, "after Cleanup")
		})
	}
}

func TestTableOfAnotherProcess(t *testing.T) {
	c := openConn(t)
	owner := startChild(t, "own")
	before := listTable(t, "-a")
	name := fmt.Sprintf("process %d (%s)", owner.cmd.Process.Pid, commOf(t, owner.cmd.Process.Pid))

	calls := map[string]func() error{
		"Apply":   func() error { return c.Apply(ruleset.New(8888, parseAddrs("192.0.2.5"))) },
		"Remove":  c.Remove,
		"Cleanup": func() error { _, err := Cleanup(); return err },
	}
	for call, do := range calls {
		err := do()
		if !strings.Contains(fmt.Sprint(err), "the table belongs to "+name) {
			t.Errorf("%s = %v, want %s", call, err, name)
		}
	}
	if s, err := c.State(); err != nil || s.OwnerPort == 0 || s.OwnerPort == c.NetlinkPort() || s.Port != 7777 {
		t.Errorf("State = %+v, %v; want port 7777 of %s", s, err, name)
	}
	expectUnchanged(t, "the table of the other process", before, listTable(t, "-a"))

	owner.kill()
	apply(t, c, ruleset.New(8888, parseAddrs("192.0.2.5")))
	verify(t, c)
}

func commOf(t *testing.T, pid int) string {
	t.Helper()
	comm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	must(t, err)
	return strings.TrimSpace(string(comm))
}

func TestDescribeOwner(t *testing.T) {
	first, second := openConn(t), openConn(t)
	if int(second.sock.port) == os.Getpid() {
		t.Fatal("the second socket has the pid as port id, so this tests nothing")
	}
	us := fmt.Sprintf("process %d (%s)", os.Getpid(), commOf(t, os.Getpid()))
	for name, tt := range map[string]struct {
		port uint32
		want string
	}{
		"the first socket of a process":              {first.sock.port, us},
		"another socket, whose port ID is not a PID": {second.sock.port, us},
		"process 1 has no such socket": {
			1,
			"the netlink socket with port ID 1 (see /proc/net/netlink, protocol 12)",
		},
		"no socket has this ID": {1 << 30, "the netlink socket with port ID 1073741824 (see /proc/net/netlink, protocol 12)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := describeOwner(tt.port); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestOtherTablesStayTheSame: the tables of other programs never change.
func TestOtherTablesStayTheSame(t *testing.T) {
	c := openConn(t)
	loadRuleset(t,
		"table ip ocp_nat { chain c { type nat hook prerouting priority -100; ip daddr 192.0.2.5 tcp dport 80 redirect to "+
			":9445; }; }")
	loadRuleset(t,
		"table inet filter { set s { type ipv4_addr; elements = { 192.0.2.5 } }; chain input { type filter hook input "+
			"priority 0; policy drop; ct state established,related accept; ip saddr @s counter accept; }; }")
	t.Cleanup(func() { flushRuleset(t) })
	before := listOtherTables(t)
	steps := []func(){
		func() { apply(t, c, ruleset.New(8888, nil)) },
		func() { apply(t, c, ruleset.New(8888, parseAddrs("192.0.2.5", "2001:db8::5"))) },
		func() { apply(t, c, ruleset.New(8889, parseAddrs("192.0.2.5"))) },
		func() { verify(t, c) },
		func() {
			must(t, c.Remove())
		},
		func() { must(t, c.checkSupport()) },
	}
	for i, step := range steps {
		step()
		expectUnchanged(t, fmt.Sprintf("after step %d other tables", i), before, listOtherTables(t))
	}
}

// flushRuleset removes the tables that a test loaded.
func flushRuleset(t *testing.T) {
	t.Helper()
	cmd := exec.Command("nft", "flush", "ruleset")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("flush: %v: %s", err, out)
	}
}

func TestVerifyFindsDifferences(t *testing.T) {
	table := tableRef(0)
	output := &nftables.Chain{Table: table, Name: "reject-output"}
	tests := []struct {
		name   string
		change func(*testing.T, *nftables.Conn)
		want   string
	}{
		{"no table", func(_ *testing.T, nft *nftables.Conn) { nft.DelTable(table) }, "the table does not exist"},
		{"an element more", func(_ *testing.T, nft *nftables.Conn) {
			_ = nft.SetAddElements(encodeSet(table, ruleset.Set{Name: "api4", Family: ruleset.IPv4}),
				encodeElements(parseAddrs("192.0.2.66")))
		}, "set api4 contains [192.0.2.5 192.0.2.66], not [192.0.2.5]"},
		{"an element less", func(_ *testing.T, nft *nftables.Conn) {
			nft.FlushSet(encodeSet(table, ruleset.Set{Name: "api6", Family: ruleset.IPv6}))
		}, "set api6 contains [], not [2001:db8::5]"},
		{"a rule more", func(_ *testing.T, nft *nftables.Conn) {
			nft.AddRule(&nftables.Rule{Table: table, Chain: output, Exprs: []expr.Any{&expr.Counter{}}})
		}, "chain reject-output has 2 rules, not 1"},
		{"no rules", func(_ *testing.T, nft *nftables.Conn) { nft.FlushChain(output) }, "chain reject-output has 0 rules, not 1"},
		{"another rule", func(t *testing.T, nft *nftables.Conn) {
			t.Helper()
			rules, err := nft.GetRules(table, output)
			must(t, err)
			rules[0].Exprs = rejectDirectExprs(ruleset.RejectDirect{Port: 8887})
			nft.ReplaceRule(rules[0])
		}, "rule 1 of chain reject-output differs from: tcp dport 8888 fib daddr type local counter reject with tcp reset"},
		{"another policy", func(_ *testing.T, nft *nftables.Conn) {
			drop := nftables.ChainPolicyDrop
			nft.AddChain(&nftables.Chain{Table: table, Name: "reject-output", Policy: &drop})
		}, "chain reject-output has another policy than accept"},
		{"another priority", func(_ *testing.T, nft *nftables.Conn) {
			replaceOutputChain(nft, table, nftables.ChainTypeNAT, -2)
		}, "chain reject-output has another priority than -90"},
		{"another type", func(_ *testing.T, nft *nftables.Conn) {
			replaceOutputChain(nft, table, nftables.ChainTypeFilter, -90)
		}, "chain reject-output has type filter, not nat"},
		{"a chain less", func(_ *testing.T, nft *nftables.Conn) {
			nft.FlushChain(output)
			nft.DelChain(output)
		}, "chain reject-output is missing"},
		{"a chain more", func(_ *testing.T, nft *nftables.Conn) {
			nft.AddChain(&nftables.Chain{Table: table, Name: "more"})
		}, "it contains 7 sets, chains and objects, not 6"},
		{"another set type", func(_ *testing.T, nft *nftables.Conn) {
			for _, name := range []string{"prerouting", "output"} {
				nft.FlushChain(&nftables.Chain{Table: table, Name: name})
			}
			set := &nftables.Set{Table: table, Name: "api4", KeyType: nftables.TypeMark}
			nft.DelSet(set)
			_ = nft.AddSet(set, nil)
		}, "set api4 has type mark, not ipv4_addr"},
		{"no owner", func(_ *testing.T, nft *nftables.Conn) {
			nft.DelTable(table)
			nft.AddTable(table)
		}, "its owner is port ID 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := openConn(t)
			t.Cleanup(func() { _, _ = Cleanup() })
			desired := ruleset.New(8888, parseAddrs("192.0.2.5", "2001:db8::5"))
			apply(t, c, desired)
			verify(t, c)
			// Only the owner can change the table.
			tt.change(t, c.sock.nft)
			must(t, c.sock.nft.Flush())
			err := c.Verify()
			if !errors.Is(err, ErrDiffers) || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("Verify = %v\nwant ErrDiffers with %q", err, tt.want)
			}
			apply(t, c, desired)
			verify(t, c)
		})
	}
}

// replaceOutputChain replaces the output chain with one of another type and priority.
func replaceOutputChain(nft *nftables.Conn, table *nftables.Table, kind nftables.ChainType, priority int32) {
	old := &nftables.Chain{Table: table, Name: "reject-output"}
	nft.FlushChain(old)
	nft.DelChain(old)
	chain, err := encodeChain(table, ruleset.Chain{Name: "reject-output", Hook: ruleset.Output, Priority: priority})
	if err == nil {
		chain.Type = kind
		nft.AddChain(chain)
	}
}

// TestElementChangeFallsBackToRebuild: the table is rebuilt if the elements cannot be
// changed.
func TestElementChangeFallsBackToRebuild(t *testing.T) {
	c := openConn(t)
	apply(t, c, ruleset.New(8888, parseAddrs("192.0.2.5")))
	c.sock.nft.DelTable(tableRef(0))
	must(t, c.sock.nft.Flush())
	apply(t, c, ruleset.New(8888, parseAddrs("192.0.2.6")))
	verify(t, c)
}

// TestBrokenSocket: a failed socket is replaced, and the table is rebuilt.
func TestBrokenSocket(t *testing.T) {
	c := openConn(t)
	desired := ruleset.New(8888, parseAddrs("192.0.2.5"))
	apply(t, c, desired)
	must(t, c.sock.close())
	if err := c.Verify(); err == nil || errors.Is(err, ErrDiffers) {
		t.Errorf("Verify over a broken socket = %v, want an error of the socket", err)
	}
	if err := c.Verify(); !errors.Is(err, ErrDiffers) {
		t.Errorf("Verify over the new socket = %v, want ErrDiffers", err)
	}
	apply(t, c, desired)
	verify(t, c)
}

// TestExchangeIsBounded: a request that never ends is interrupted, and the next one succeeds.
func TestExchangeIsBounded(t *testing.T) {
	c := openConn(t)
	c.timeout = 1
	err := c.exchange(func(nft *nftables.Conn) error {
		for {
			if _, err := nft.GetGen(); err != nil {
				return err
			}
		}
	})
	if err == nil || !strings.Contains(err.Error(), "no reply from the kernel") {
		t.Errorf("exchange = %v, want no reply", err)
	}
	c.timeout = timeout
	apply(t, c, ruleset.New(8888, nil))
	verify(t, c)
}

func TestDescriptorTooHigh(t *testing.T) {
	nstest.Require(t)
	for range unix.FD_SETSIZE {
		f, err := os.Open(os.DevNull)
		must(t, err)
		t.Cleanup(func() { _ = f.Close() })
	}
	c, err := Open()
	if err == nil {
		_ = c.Close()
	}
	if !strings.Contains(fmt.Sprint(err), "file descriptor") {
		t.Errorf("Open = %v, want the file descriptor", err)
	}
}

func TestState(t *testing.T) {
	c := openConn(t)
	if s, err := c.State(); err != nil || s.Present {
		t.Fatalf("State = %+v, %v; want none", s, err)
	}
	desired := ruleset.New(9443, parseAddrs("2001:db8::5", "192.0.2.9", "192.0.2.5"))
	apply(t, c, desired)
	got, err := c.State()
	must(t, err)
	want := State{
		Present:   true,
		OwnerPort: c.NetlinkPort(), Port: 9443, VIPs: desired.VIPs(),
	}
	for _, chain := range desired.Chains() {
		for _, r := range chain.Rules {
			if strings.Contains(r.String(), "counter") {
				want.Counters = append(want.Counters, report.Counter{Chain: chain.Name, Rule: r.String()})
			}
		}
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("State (-want +got):\n%s", diff)
	}
}

// TestStateDuringApply: State of another Conn returns consistent tables while Apply changes them.
func TestStateDuringApply(t *testing.T) {
	c := openConn(t)
	a, b := ruleset.New(8888, parseAddrs("192.0.2.5")), ruleset.New(8889, parseAddrs("2001:db8::5"))
	apply(t, c, a)
	owner := c.NetlinkPort()
	var readers sync.WaitGroup
	for range 2 {
		reader := openConn(t)
		readers.Go(func() {
			for range 100 {
				s, err := reader.State()
				if errors.Is(err, errRulesetChanging) {
					continue // Apply runs without a pause here
				}
				if err != nil {
					t.Errorf("State: %v", err)
					return
				}
				if got := ruleset.New(s.Port, s.VIPs); got != a && got != b || s.OwnerPort != owner {
					t.Errorf("State returned a mixture: %+v", s)
				}
			}
		})
	}
	for i := range 200 {
		apply(t, c, []ruleset.Table{a, b}[i%2])
	}
	readers.Wait()
}

// TestErrorIsCompared: after an error the kernel's table shows whether the change was applied.
func TestErrorIsCompared(t *testing.T) {
	c := openConn(t)
	lost := errors.New("the reply was lost")
	apply(t, c, ruleset.New(8888, parseAddrs("192.0.2.5")))
	if !c.confirmed(lost) {
		t.Error("a committed table is not confirmed")
	}
	c.sock.nft.DelTable(tableRef(0))
	must(t, c.sock.nft.Flush())
	if c.confirmed(lost) {
		t.Error("an absent table is confirmed")
	}
	c.desired = ruleset.Table{}
	if !c.confirmed(lost) {
		t.Error("a removed table is not confirmed")
	}
}
