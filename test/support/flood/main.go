// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// marker is the environment variable that makes a program a client.
const marker = "HTTP01_FLOOD"

// Begin is the signal at which a Hostile that printed its first report begins.
const Begin = syscall.SIGUSR1

// clientRole selects the client: one of the two.
type clientRole struct {
	Hostile *Hostile `json:",omitempty"`
	CA      *CA      `json:",omitempty"`
}

// Environment returns the variable that makes a program that calls Main this client.
func (h Hostile) Environment() string { return environment(clientRole{Hostile: &h}) }

// Environment makes a program that calls Main this client.
func (c CA) Environment() string { return environment(clientRole{CA: &c}) }

func environment(p clientRole) string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // addresses and numbers
	}
	return marker + "=" + string(text)
}

// Main runs the client that the environment selects until SIGTERM and then exits. Without
// the variable it returns at once.
func Main() {
	text := os.Getenv(marker)
	if text == "" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := runRole(ctx, text); err != nil {
		fmt.Fprintln(os.Stderr, "flood:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to be undone
	}
	os.Exit(0)
}

func runRole(ctx context.Context, text string) error {
	var p clientRole
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return fmt.Errorf("read %s: %w", marker, err)
	}
	var report any
	var err error
	switch {
	case p.Hostile != nil:
		report, err = p.Hostile.run(ctx)
	case p.CA != nil:
		report = p.CA.run(ctx)
	default:
		return fmt.Errorf("%s selects no client", marker)
	}
	if err != nil {
		return err
	}
	return printReport(report)
}

func printReport(report any) error {
	line, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	fmt.Println(string(line))
	return nil
}

// ReadReport parses the last report in the output of a client. A Hostile prints an empty one
// when it can get Begin, one when all its connections were opened, and one at its end.
// A CA prints one at its end.
func ReadReport[R HostileReport | CAReport](output string) (report R, err error) {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil {
		return report, fmt.Errorf("read a client's report: %w\n%s", err, output)
	}
	return report, nil
}

// Range is a range of addresses from First, counted in hosts (IPv4) or /64 networks (IPv6).
type Range struct {
	First netip.Addr
	Count int
}

func (r Range) at(i int) netip.Addr {
	i %= r.Count
	if r.First.Is4() {
		a := r.First.As4()
		add(a[2:], i)
		return netip.AddrFrom4(a)
	}
	a := r.First.As16()
	add(a[6:8], i)
	return netip.AddrFrom16(a)
}

func add(number []byte, n int) {
	binary.BigEndian.PutUint16(number, binary.BigEndian.Uint16(number)+uint16(n)) //nolint:gosec // below Count
}
