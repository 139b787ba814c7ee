// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// The random attacks: go test ./suites/hostile -run TestRandomAttacks -seed 7 -rounds 100.
// To repeat one process, -start has the number that it printed after its seed.
var (
	firstSeed = flag.Uint64("seed", 1, "seed of the first round of TestRandomAttacks")
	rounds    = flag.Int("rounds", 7, "least number of rounds of TestRandomAttacks, about 4 s each")
	startFlag = flag.String("start", "", "number of the one process that TestRandomAttacks repeats")
)

// A VIP leaves and comes back during a round, until some processes have attacked and ended,
// or have survived their attack.
const (
	attacksPerRound = 6
	maxMoves        = 200
	enoughRounds    = 7  // mostly enough for each kind of attack by each process
	maxRounds       = 35 // if a kind is missing: how many acts there are depends on the machine
)

// movedVIP is an API VIP that keepalived does not have, so that only the test moves it
// (RFC 5737).
const movedVIP = "192.0.2.205"

// attackKinds are the kinds of attacks, each with the letters of its acts (testdata/fuzz.go).
var attackKinds = map[string]string{
	"malformed": "bjx", "oversized": "dow", "reordered": "mr", "truncated": "nst", "flooding": "efl",
	"descriptors": "cC", "silence": "!hzZ", "sockets": "aqS", "process tricks": "MpTuXy",
}

// drawn matches what a process is about to do.
var drawn = regexp.MustCompile(`FUZZ: (\w+) seed \d+ start \d+ acts (\S+)`)

// attackEnds matches the end of an attack: of the process, or without an effect.
var attackEnds = regexp.MustCompile(
	`the (?:proxy|exporter) process (?:\d+ )?(?:has exited|lost its connection|has not|does not)|process wrote to its standard error: FUZZ: over`)

// marker is in each text that an attacking process composes (testdata/fuzz.go).
const marker = "F1EA5A17"

// TestRandomAttacks holds that child processes that attack their protocols at random change
// nothing of the controller: it keeps running, reports its status, follows the VIPs,
// replaces the processes and prints nothing that they composed. The same holds for `check`
// and its prober.
func TestRandomAttacks(t *testing.T) {
	binary, err := lab.BuildServiceWith(t.Context(), "testdata/fuzz.go")
	must(t, err)
	ends, acts := 0, make(map[string]string)
	for i := 0; i < *rounds || i < maxRounds && !t.Failed() && *rounds >= enoughRounds && *startFlag == "" &&
		len(missing(acts)) > 0; i++ {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) { ends += attackAtRandom(t, binary, seed, acts) })
	}
	if ends == 0 {
		t.Error("no process was replaced in any round: the attacks do not attack")
	}
	if m := missing(acts); *startFlag == "" && *rounds >= enoughRounds && len(m) > 0 {
		t.Errorf("these attacks were not made: %s", strings.Join(m, ", "))
	}
	t.Logf("acts: %v", acts)
}

// missing returns the kinds of attacks that a process has not made, from the letters of the
// acts by process.
func missing(acts map[string]string) (kinds []string) {
	for _, process := range []string{"proxy", "exporter", "prober"} {
		for _, kind := range slices.Sorted(maps.Keys(attackKinds)) {
			if !strings.ContainsAny(acts[process], attackKinds[kind]) {
				kinds = append(kinds, process+": "+kind)
			}
		}
	}
	return kinds
}

// attackAtRandom runs one round, and returns the number of processes that ended in it. It
// adds the letters of the acts by process.
func attackAtRandom(t *testing.T, binary string, seed uint64, acts map[string]string) int {
	t.Helper()
	name := fmt.Sprintf("http01-fuzz:%d", seed)
	if *startFlag != "" {
		name += ":" + *startFlag
	}
	config := fmt.Sprintf(
		"vips:\n  api: [%s]\n  ingress: [%v]\nmetrics:\n  listenAddress: 127.0.0.1:9645\nselfTest:\n  interval: 10s\n",
		movedVIP, shared.lab.Ingress.V4)
	s := startProgram(t, binary, name, config)
	// A round that fails leaves the VIP on the node that all rounds share.
	t.Cleanup(func() {
		_, err := s.node.Run(context.Background(), "ip", "address", "flush", "to", movedVIP, "dev", "lo")
		must(t, err)
	})
	var check sync.WaitGroup
	var checked string
	check.Go(func() { checked = s.check(binary, name) })
	defer check.Wait()
	var slowest time.Duration
	for range maxMoves {
		for _, move := range []string{"add", "del"} {
			begin := time.Now()
			s.shell(fmt.Sprintf("ip address %s %s/32 dev lo", move, movedVIP))
			s.awaitElement(move == "add")
			slowest = max(slowest, time.Since(begin))
		}
		if len(attackEnds.FindAllString(s.log(), attacksPerRound)) == attacksPerRound {
			break
		}
	}
	must(t, s.Alive())
	if _, err := s.StatusJSON(t.Context()); err != nil {
		t.Errorf("the status: %v", err)
	}
	s.expectSmallController()
	check.Wait()
	log := s.log() + checked
	for _, match := range drawn.FindAllStringSubmatch(log, -1) {
		acts[match[1]] += match[2]
	}
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		if i := strings.IndexFunc(line, func(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("the log has control characters: %q", line)
		}
		// The standard error of a child is labelled as such.
		if strings.Contains(line, marker) &&
			!regexp.MustCompile(`process wrote to its standard error: |the prober wrote: `).MatchString(line) {
			t.Errorf("the controller printed text of a child process: %q", line)
		}
	}
	ended := len(attackEnds.FindAllString(log, -1)) - strings.Count(log, "process wrote to its standard error: FUZZ: over")
	t.Logf("the slowest of the moves of a VIP took %v, with processes that end and start", slowest.Round(time.Millisecond))
	if testing.Verbose() {
		t.Log(log)
	}
	return ended
}

// check runs `check` with a prober that attacks, and returns everything that it printed.
// `check` must end with a result, within the timeout of the lab's commands.
func (s *service) check(binary, name string) string {
	flags := append([]string{"-c", `exec -a "$0" "$@" 2>&1`, name, binary, "check"}, s.node.CheckFlags()...)
	out, err := s.node.Run(s.Context(), "bash", flags...)
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() < 3) {
		s.Errorf("check: %v", err)
	}
	return out
}

// shell runs a command on the node.
func (s *service) shell(command string) string {
	s.Helper()
	out, err := s.node.Run(s.Context(), "sh", "-c", command)
	must(s.T, err)
	return out
}

// awaitElement waits until the kernel's table has the VIP, or does not have it. A table
// without a listener does not exist: a proxy that does not serve can cause that only before
// the first start.
func (s *service) awaitElement(present bool) {
	s.Helper()
	err := lab.Eventually(s.Context(), "the table follows the VIP", func(ctx context.Context) error {
		out, err := s.node.Run(ctx, "nft", "list", "set", "inet", "http01-proxyd", "api4")
		if err != nil {
			if present {
				return err
			}
			out = "" // no table
		}
		if strings.Contains(out, movedVIP) != present {
			return errors.New("the set is " + out)
		}
		return nil
	})
	must(s.T, err)
	if err := s.Alive(); err != nil {
		s.Fatal(err)
	}
}

// expectSmallController expects that the controller's memory stayed bounded.
func (s *service) expectSmallController() {
	s.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	must(s.T, err)
	var peak int
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &peak)
	}
	if most := 64 << 10; peak == 0 || peak > most {
		s.Errorf("the controller had %d KiB, more than %d", peak, most)
	}
}
