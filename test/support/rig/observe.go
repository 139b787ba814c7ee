// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Table is the service's nftables table as the real nft lists it.
type Table struct {
	Elements []netip.Addr // of both sets, sorted
	Rules    []string     // chain: the rule in JSON, without handles and counters
}

// ServiceTable lists the service's table, or returns nil without a table.
func (r *Rig) ServiceTable(ctx context.Context) (*Table, error) {
	out, err := r.Host.Run(ctx, "nft", "-j", "list", "table", "inet", "http01-proxyd")
	if err != nil {
		if strings.Contains(err.Error(), "No such file or directory") {
			return nil, nil
		}
		return nil, err
	}
	return parseTable(out)
}

// parseTable reads the output of nft -j.
func parseTable(text string) (*Table, error) {
	var list struct {
		Nftables []struct {
			Set *struct {
				Name string            `json:"name"`
				Elem []json.RawMessage `json:"elem"`
			} `json:"set"`
			Chain *struct {
				Name string `json:"name"`
				Type string `json:"type"`
				Hook string `json:"hook"`
				Prio int    `json:"prio"`
			} `json:"chain"`
			Rule *struct {
				Chain string            `json:"chain"`
				Expr  []json.RawMessage `json:"expr"`
			} `json:"rule"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("read the list of nft: %w: %.200s", err, text)
	}
	var t Table
	for _, item := range list.Nftables {
		switch {
		case item.Set != nil:
			for _, raw := range item.Set.Elem {
				var s string
				if err := json.Unmarshal(raw, &s); err != nil {
					return nil, fmt.Errorf("read an element of %s: %w: %s", item.Set.Name, err, raw)
				}
				a, err := netip.ParseAddr(s)
				if err != nil {
					return nil, fmt.Errorf("read an element of %s: %w", item.Set.Name, err)
				}
				t.Elements = append(t.Elements, a)
			}
		case item.Chain != nil:
			t.Rules = append(t.Rules, fmt.Sprintf("chain %s: type %s hook %s priority %d", item.Chain.Name, item.Chain.Type,
				item.Chain.Hook, item.Chain.Prio))
		case item.Rule != nil:
			rule, err := describeRule(item.Rule.Expr)
			if err != nil {
				return nil, err
			}
			t.Rules = append(t.Rules, item.Rule.Chain+": "+rule)
		}
	}
	slices.SortFunc(t.Elements, netip.Addr.Compare)
	return &t, nil
}

// describeRule returns the expressions of a rule without the values of counters.
func describeRule(exprs []json.RawMessage) (string, error) {
	words := make([]string, 0, len(exprs))
	for _, raw := range exprs {
		var e map[string]any
		if err := json.Unmarshal(raw, &e); err != nil {
			return "", fmt.Errorf("read an expression: %w: %s", err, raw)
		}
		if _, is := e["counter"]; is {
			words = append(words, "counter")
			continue
		}
		text, err := json.Marshal(e) // with sorted keys
		if err != nil {
			return "", fmt.Errorf("write an expression: %w", err)
		}
		words = append(words, string(text))
	}
	return strings.Join(words, " "), nil
}

// LoadTable loads a table with the real nft into the host, lists it as ServiceTable does,
// and removes it: the oracle for rules. It must be called while the service is stopped.
func (r *Rig) LoadTable(ctx context.Context, text string) (*Table, error) {
	if _, err := r.Host.Input(ctx, text, "nft", "-f", "-"); err != nil {
		return nil, err
	}
	t, err := r.ServiceTable(ctx)
	_, removed := r.Host.Run(ctx, "nft", "delete", "table", "inet", "http01-proxyd")
	return t, errors.Join(err, removed)
}

// ListeningPorts returns the TCP ports on which processes of the host listen, sorted.
func (r *Rig) ListeningPorts() ([]int, error) {
	var ports []int
	err := r.Host.InNamespace(func() error {
		for _, name := range []string{"tcp", "tcp6"} {
			text, err := os.ReadFile("/proc/thread-self/net/" + name)
			if err != nil {
				return fmt.Errorf("list the listening sockets: %w", err)
			}
			for line := range strings.Lines(string(text)) {
				fields := strings.Fields(line)
				if len(fields) < 4 || fields[3] != "0A" { // TCP_LISTEN
					continue
				}
				_, port, _ := strings.Cut(fields[1], ":")
				n, err := strconv.ParseInt(port, 16, 32)
				if err != nil {
					return fmt.Errorf("list the listening sockets: %w", err)
				}
				ports = append(ports, int(n))
			}
		}
		return nil
	})
	slices.Sort(ports)
	return slices.Compact(ports), err
}

// Socket is a TCP connection as ss(8) lists it.
type Socket struct {
	State         string // such as ESTAB
	Recv, Send    int    // bytes in the queues
	Local, Remote netip.AddrPort
}

// Sockets lists the TCP connections of a node.
func (*Rig) Sockets(ctx context.Context, n *lab.Node) ([]Socket, error) {
	out, err := n.Run(ctx, "ss", "-Htn", "state", "connected")
	if err != nil {
		return nil, err
	}
	var list []Socket
	for line := range strings.Lines(out) {
		var s Socket
		var local, remote string
		if _, err := fmt.Sscan(line, &s.State, &s.Recv, &s.Send, &local, &remote); err != nil {
			return nil, fmt.Errorf("read the list of ss: %w: %s", err, line)
		}
		for text, to := range map[string]*netip.AddrPort{local: &s.Local, remote: &s.Remote} {
			a, err := netip.ParseAddrPort(text)
			if err != nil {
				return nil, fmt.Errorf("read the list of ss: %w", err)
			}
			*to = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
		}
		list = append(list, s)
	}
	return list, nil
}

// Status reads the status socket, as the status command does.
func (u *Unit) Status(ctx context.Context) (lab.Status, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", u.StatusSocket())
	if err != nil {
		return lab.Status{}, fmt.Errorf("connect to the status socket: %w", err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(statusTimeout))
	text, err := io.ReadAll(conn)
	if err != nil {
		return lab.Status{}, fmt.Errorf("read the status socket: %w", err)
	}
	return lab.ParseStatus(string(text))
}

// statusTimeout is the timeout of the status command.
const statusTimeout = 5 * time.Second
