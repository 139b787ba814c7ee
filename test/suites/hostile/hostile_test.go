// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/labtest"
)

// shared holds the lab that all tests use in turn, and the program that attacks.
var shared struct {
	lab    *lab.Lab
	binary string
}

// binaryVariable names a program that attacks, such as an older one, in place of the built one.
const binaryVariable = "HTTP01_PROXYD_HOSTILE"

func TestMain(m *testing.M) {
	if os.Getenv(measureVariable) != "" {
		measure(os.Args[1], os.Args[2:]...)
		return
	}
	labtest.Shared(m, func(l *lab.Lab, _ string) (err error) {
		shared.lab, shared.binary = l, os.Getenv(binaryVariable)
		if shared.binary == "" {
			shared.binary, err = lab.BuildServiceWith(context.Background(), "testdata/attack.go")
		}
		return err
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// service is the service on the VIP holder with a proxy process that attacks.
type service struct {
	*testing.T
	*lab.Service
	node *lab.Node
	from int64 // start of its part of the log
}

// startAttacked starts the service without waiting for it.
func startAttacked(t *testing.T, attack string) *service {
	t.Helper()
	return startAttackedWith(t, attack, "")
}

// startAttackedWith starts the service with a configuration.
func startAttackedWith(t *testing.T, attack, config string) *service {
	t.Helper()
	return startProgram(t, shared.binary, "http01-proxyd:proxy:"+attack, config)
}

// startProgram starts a program whose child processes attack. They inherit its argv[0].
func startProgram(t *testing.T, binary, name, config string) *service {
	t.Helper()
	return startWrapped(t, []string{"bash", "-c", `exec -a "$0" "$@"`, name}, binary, config)
}

// startWrapped starts a program with a command.
func startWrapped(t *testing.T, wrap []string, binary, config string) *service {
	t.Helper()
	l := shared.lab
	must(t, l.AwaitVIPs(t.Context()))
	s := &service{T: t, node: l.ControlPlane[0].Node}
	if info, err := os.Stat(s.logFile()); err == nil {
		s.from = info.Size()
	}
	var err error
	s.Service, err = s.node.LaunchService(lab.ServiceOptions{
		Binary: binary, Config: config, Env: lab.UnitEnvironment(),
		Wrap: wrap,
	})
	must(t, err)
	t.Cleanup(func() {
		if err := s.End(context.Background()); err != nil {
			t.Errorf("the service does not stop: %v", err)
		}
		if t.Failed() {
			t.Log(s.log())
		}
	})
	return s
}

func (s *service) logFile() string { return filepath.Join(s.node.Dir, "http01-proxyd.log") }

// log returns the log of the service since its start.
func (s *service) log() string {
	s.Helper()
	text, err := os.ReadFile(s.logFile())
	must(s.T, err)
	return string(text[s.from:])
}

// awaitLog waits until the log matches each of these patterns.
func (s *service) awaitLog(patterns ...string) {
	s.Helper()
	for _, pattern := range patterns {
		e := regexp.MustCompile(pattern)
		err := lab.Eventually(s.Context(), "the log has "+pattern, func(context.Context) error {
			if !e.MatchString(s.log()) {
				return errors.New("no match")
			}
			return nil
		})
		if err != nil {
			s.Error(err)
		}
	}
}

// expectRefused waits until the attack has tried these acts and expects that all failed.
func (s *service) expectRefused(acts ...string) {
	s.Helper()
	s.awaitLog("ATTACK: the attack is over")
	log := s.log()
	for _, act := range acts {
		if !strings.Contains(log, "ATTACK: "+act+": refused") {
			s.Errorf("%s was not refused", act)
		}
	}
	if strings.Contains(log, "SUCCEEDS") {
		s.Error("an attack succeeds")
	}
}

// expectServing expects that clients on the internet get the service's answer.
func (s *service) expectServing() {
	s.Helper()
	_, err := s.AwaitReason(s.Context(), "Serving")
	must(s.T, err)
	for _, vip := range []string{shared.lab.API.V4.String(), "[" + shared.lab.API.V6.String() + "]"} {
		for range 20 {
			answer, err := shared.lab.Internet.Get(s.Context(), "http://"+vip+"/")
			if err != nil || answer.Status != 400 || !strings.Contains(answer.Body, "acme-challenge") {
				s.Fatalf("answer %+v, %v", answer, err)
			}
		}
	}
}

// expectRecovery expects that the service replaced its proxy process and that the
// controller was not affected.
func (s *service) expectRecovery(why string) {
	s.Helper()
	s.awaitLog(`the proxy process \d+[^\n]*` + why)
	must(s.T, s.Alive())
	if _, err := s.StatusJSON(s.Context()); err != nil {
		s.Errorf("the status: %v", err)
	}
	s.expectSmallController()
}

// TestFork (H1) holds that a proxy cannot fork, with or without new namespaces.
func TestFork(t *testing.T) {
	s := startAttacked(t, "fork")
	s.expectRefused("fork", "a user and a network namespace")
	s.expectServing()
	must(t, s.Stop(t.Context()))
	if out, err := s.node.Run(t.Context(), "ss", "-Hltn", "sport", "=", ":8888"); err != nil || out != "" {
		t.Errorf("port 8888 after the end: %q, %v", out, err)
	}
}

// TestOrphanedProcesses (H1) holds that processes of a child that was compromised before it
// installed its filter end with it, also in another session.
func TestOrphanedProcesses(t *testing.T) {
	s := startAttacked(t, "leaves-processes")
	must(t, awaitExit(s))
	left := regexp.MustCompile(`left process (\d+) behind: <nil>`).FindAllStringSubmatch(s.log(), -1)
	if len(left) == 0 {
		t.Fatal("the attack started no process")
	}
	for _, match := range left {
		err := lab.Eventually(t.Context(), "process "+match[1]+" ends", func(context.Context) error {
			text, err := os.ReadFile("/proc/" + match[1] + "/cmdline")
			if err == nil && strings.Contains(string(text), "sleep") {
				return errors.New("still running")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// awaitExit waits until a service exits whose proxy does not start.
func awaitExit(s *service) error {
	select {
	case <-s.Exited():
		return nil
	case <-time.After(30 * time.Second):
		return errors.New("the service still runs")
	}
}

// TestLimits holds that the memory of each child process (H5), and the descriptors of the
// exporter and the prober, are limited.
func TestLimits(t *testing.T) {
	s := startAttackedWith(t, "none-of-these:proxy", everything())
	s.expectServing()
	s.awaitProxy()                 // each process has limited itself before it answers its first request
	limits := map[string][]string{ // of memory, the unit's share and the runtime's reserve, and of descriptors
		"proxy":    {`(?m)^Max data size +268435456 +268435456 `},
		"exporter": {`(?m)^Max data size +167772160 +167772160 `, `(?m)^Max open files +256 +256 `},
		"prober":   {`(?m)^Max data size +167772160 +167772160 `, `(?m)^Max open files +256 +256 `},
	}
	scores := map[string]string{"proxy": "200", "exporter": "1000", "prober": "950"}
	limited := map[string]int{}
	for _, pid := range lab.Children(s.PID()) {
		read := func(file string) string {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil {
				return err.Error()
			}
			return string(text)
		}
		_, kind, _ := strings.Cut(strings.TrimSuffix(read("cmdline"), "\x00"), "\x00")
		text, score := read("limits"), strings.TrimSpace(read("oom_score_adj"))
		lacks := func(want string) bool { return !regexp.MustCompile(want).MatchString(text) }
		switch {
		case score == scores[kind] && !slices.ContainsFunc(limits[kind], lacks):
			limited[kind]++
		case kind == "prober": // a second one runs briefly, and may just have started
			t.Logf("a prober with oom_score_adj %s\n%s", score, text)
		case limits[kind] != nil: // not a process that ended
			t.Errorf("%s with oom_score_adj %s\n%s", kind, score, text)
		}
	}
	if limited["proxy"] != 1 || limited["exporter"] != 1 || limited["prober"] == 0 {
		t.Errorf("processes with their limits: %v, want one of each kind", limited)
	}
}

// TestDescriptor (H2) holds that the controller gets no descriptor from a proxy and stops
// normally.
func TestDescriptor(t *testing.T) {
	s := startAttacked(t, "descriptor")
	s.expectRefused("a descriptor over the socket", "a byte over the socket")
	s.expectServing()
	must(t, s.Stop(t.Context()))
}

// TestListenerOptions (H3) holds that a proxy cannot set options of the listening socket.
func TestListenerOptions(t *testing.T) {
	s := startAttacked(t, "options")
	s.expectRefused("IP_MINTTL", "IPV6_MINHOPCOUNT", "SO_BINDTODEVICE", "SO_ATTACH_FILTER", "TCP_DEFER_ACCEPT")
	s.expectServing()
	must(t, s.KillChildren())
	s.expectServing()
}

// TestKeptListener holds that a proxy that keeps a duplicate of the listening socket does not serve a
// port that the controller closed. The service can use the port again.
func TestKeptListener(t *testing.T) {
	onPort := func(port int) string {
		return shared.lab.ControlPlane[0].DefaultConfig() +
			fmt.Sprintf("mode: CustomDeployment\ncustomDeployment: {internalPort: %d}\n", port)
	}
	for name, next := range map[string]string{
		"another port": onPort(9888),
		"disabled":     shared.lab.ControlPlane[0].DefaultConfig() + "mode: \"\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := startAttackedWith(t, "keeps-listener", onPort(8888))
			s.expectServing()
			s.awaitLog("ATTACK: a duplicate of the listening socket is kept")
			must(t, s.node.WriteConfig(next))
			must(t, s.Reload())
			err := lab.Eventually(t.Context(), "port 8888 is closed", func(ctx context.Context) error {
				conn, err := s.node.Dial(ctx, "tcp", "127.0.0.1:8888")
				if err == nil {
					return errors.Join(errors.New("it accepts a direct connection"), conn.Close())
				}
				if errors.Is(err, unix.ECONNREFUSED) {
					err = nil
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			s.awaitLog("ATTACK: accept from the duplicate: refused")
			must(t, s.node.WriteConfig(onPort(8888)))
			must(t, s.Reload())
			err = lab.Eventually(t.Context(), "port 8888 serves again", func(ctx context.Context) error {
				out, err := s.node.Run(ctx, "ss", "-Hltn", "sport", "=", ":8888")
				if err == nil && out == "" {
					err = errors.New("nothing listens")
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			s.expectServing()
			if strings.Contains(s.log(), "PortInUse") {
				t.Error("the service cannot use the port again")
			}
		})
	}
}

// TestStandardError (H4) holds that a proxy has no terminal and no journal stream. Its
// lines are logged as the proxy's, without control sequences, and limited in number.
func TestStandardError(t *testing.T) {
	s := startAttacked(t, "stderr")
	s.awaitLog("wrote to its standard error: flood", "wrote to its standard error: <0>the controller is broken")
	s.expectServing()
	log := s.log()
	if i := strings.IndexFunc(log,
		func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == '\u202e' }); i >= 0 {
		t.Errorf("the log has %q", log[i:min(len(log), i+20)])
	}
	if regexp.MustCompile(`(?m)^<0>|read "`).MatchString(log) {
		t.Error("a line of the proxy was logged as the service's, or the proxy read from standard error")
	}
	if n := strings.Count(log, "standard error: flood"); n > 200 {
		t.Errorf("%d lines of the flood are in the log", n)
	}
}

// TestMessages (H5) holds that messages are limited in size, values and number.
func TestMessages(t *testing.T) {
	for attack, why := range map[string]string{
		"challenges": "bytes|values", "large": "bytes",
		"flood": "within a second",
	} {
		t.Run(attack, func(t *testing.T) { startAttacked(t, attack).expectRecovery(why) })
	}
}

// TestMemory (H5) holds that a proxy that allocates memory ends by its own limit.
func TestMemory(t *testing.T) {
	s := startAttacked(t, "memory")
	s.expectRecovery("has exited")
	if strings.Contains(s.log(), "SUCCEEDS") {
		t.Error("the proxy allocated 4 GiB")
	}
}

// TestProxySilent (H6) holds that a live proxy that does not serve is detected and
// replaced, whatever load it reports.
func TestProxySilent(t *testing.T) {
	for _, attack := range []string{"ignores-clients", "invents-load"} {
		t.Run(attack, func(t *testing.T) {
			s := startAttacked(t, attack)
			s.expectRecovery("has not answered 3 requests")
			if _, err := s.AwaitReason(t.Context(), "ProxyUnavailable"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestProxyAnswersNoCommand (H6) holds that a proxy that serves clients and sends heartbeats,
// but answers no command, is replaced. Each report of the status sends it a command, and
// waits for the answer.
func TestProxyAnswersNoCommand(t *testing.T) {
	s := startAttacked(t, "drops-answers")
	s.expectServing()
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	for range 8 { // the service permits as many at once
		clients.Go(func() {
			for ctx.Err() == nil {
				if err := s.readStatus(); err != nil {
					t.Errorf("the status: %v", err)
					return
				}
			}
		})
	}
	s.expectRecovery(`has not answered \d+ commands`)
	cancel()
	clients.Wait()
	s.expectServing()
}

// readStatus reads the status socket, as `status` does, without starting a process.
func (s *service) readStatus() error {
	conn, err := net.Dial("unix", s.node.StatusSocket())
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, conn)
	return errors.Join(err, conn.Close())
}

// TestInventedEvents (M1 to M3) holds that events that a proxy cannot have observed are not
// reported.
func TestInventedEvents(t *testing.T) {
	for _, attack := range []string{"zone", "year", "advice", "counters"} {
		t.Run(attack, func(t *testing.T) {
			s := startAttacked(t, attack)
			s.expectRecovery("lost its connection")
			for _, text := range []string{"sudo", "[31m", "9999-12-31", "4611686018427387903"} {
				if strings.Contains(s.log(), text) {
					t.Errorf("the log has %q", text)
				}
			}
		})
	}
}

// TestCalls (M5) holds that a proxy can open TCP connections and no other socket.
func TestCalls(t *testing.T) {
	s := startAttacked(t, "calls")
	s.expectRefused("unix socket", "packet socket", "UDP socket", "bind", "MSG_OOB", "bind of the control socket",
		"executable memory")
	s.expectServing()
}

// TestProxyIgnoresCommands (M6) holds that a proxy that does not read its commands does not
// delay the table. The names in the configuration fill the buffer of its socket. The
// controller ends such a proxy after the write timeout of internal/wire; the VIPs are in
// the table before that. There are several starts because commands and addresses come in
// either order.
func TestProxyIgnoresCommands(t *testing.T) {
	var hosts strings.Builder
	label := strings.Repeat("a", 60)
	for i := range 1290 {
		fmt.Fprintf(&hosts, "  - api-%d.%s.%[2]s.%[2]s.com\n", i, label)
	}
	config := shared.lab.ControlPlane[0].DefaultConfig() + "hosts:\n" + hosts.String()
	for i := range 3 {
		t.Run(fmt.Sprintf("start-%d", i), func(t *testing.T) {
			s := startAttackedWith(t, "ignores-commands", config)
			_, err := s.Await(t.Context(), "the VIPs in the table", func(status lab.Status) error {
				if n := len(status.Table.Elements); n != 2 {
					return fmt.Errorf("the table has %d elements: %v", n, status.Table.Elements)
				}
				return nil
			})
			must(t, err)
			s.awaitLog(`the proxy process \d+[^\n]*does not read its commands`, "VIP .* arrived on this host")
			if regexp.MustCompile(`(?s)the proxy process [0-9].*VIP .* arrived on this host`).MatchString(s.log()) {
				t.Error("the table waited for the proxy")
			}
			must(t, s.Signal(unix.SIGTERM))
			must(t, awaitExit(s))
		})
	}
}
