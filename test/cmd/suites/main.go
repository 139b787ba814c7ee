// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// exitInterrupted is the exit status that a shell reports for a program that Ctrl-C ended.
const exitInterrupted = 130

// slotsPerCore is the number of concurrent processes per core. The suites mostly wait.
const slotsPerCore = 3

// options are the flags.
type options struct {
	set    string
	only   *regexp.Regexp
	skip   *regexp.Regexp // nil: none
	fuzz   bool
	slots  int
	rounds int
	load   int
	cover  string
	bin    string
	root   string
}

func main() { os.Exit(program(os.Args[1:])) }

// program returns the exit code.
func program(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	o, err := parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		return 2
	}
	err = runWithInstances(ctx, o, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
	}
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case err != nil:
		return 1
	}
	return 0
}

func parse(args []string) (options, error) {
	flags := flag.NewFlagSet("suites", flag.ContinueOnError)
	var o options
	var only, skip string
	flags.StringVar(&o.set, "set", setAll, "tests to run: main or all")
	flags.StringVar(&only, "only", "", "regular expression of the packages' folders (default: every package)")
	flags.StringVar(&skip, "skip", "", "regular expression of the folders to leave out (default: none)")
	flags.BoolVar(&o.fuzz, "fuzz", false, "run the fuzzers beside the tests (default false)")
	flags.IntVar(&o.slots, "slots", slotsPerCore*runtime.NumCPU(), "processes that run side by side")
	flags.IntVar(&o.rounds, "rounds", 1,
		"how often to run everything; with more than 1, each test that failed at least once is listed")
	flags.IntVar(&o.load, "load", 0, "busy loops to run beside the tests")
	flags.StringVar(&o.cover, "cover", "",
		"directory for coverage data of pkg/, internal/ and cmd/ (default: none is collected)")
	flags.StringVar(&o.bin, "bin", "", "directory of compiled tests (default .cache/tests)")
	flags.StringVar(&o.root, "root", ".", "the repository's root")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: select packages with -only", flags.Arg(0))
	}
	if o.set != setMain && o.set != setAll {
		return o, fmt.Errorf("unknown set %q: give main or all", o.set)
	}
	if o.slots < 1 || o.rounds < 1 || o.load < 0 {
		return o, errors.New("-slots and -rounds begin at 1, -load at 0")
	}
	var err error
	if o.only, err = regexp.Compile(only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	if skip != "" {
		if o.skip, err = regexp.Compile(skip); err != nil {
			return o, fmt.Errorf("-skip: %w", err)
		}
	}
	if o.root, err = filepath.Abs(o.root); err != nil {
		return o, fmt.Errorf("find the repository: %w", err)
	}
	programs := "tests"
	if o.cover != "" {
		programs = "tests-cover"
		if o.cover, err = filepath.Abs(o.cover); err != nil {
			return o, fmt.Errorf("find the directory of coverage data: %w", err)
		}
		if err := os.MkdirAll(o.cover, 0o750); err != nil {
			return o, fmt.Errorf("make the directory of coverage data: %w", err)
		}
	}
	o.bin = cmp.Or(o.bin, filepath.Join(o.root, ".cache", programs))
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return o, fmt.Errorf("find the directory of compiled tests: %w", err)
	}
	return o, nil
}

// selects reports whether the package in a folder belongs to the run.
func (o options) selects(dir string) bool {
	return o.only.MatchString(dir) && (o.skip == nil || !o.skip.MatchString(dir))
}

// The kernel allows 128 instances of inotify per user. A booted host of the tests uses about 15.
const (
	inotifyInstances = 1024
	inotifyLimit     = "/proc/sys/fs/inotify/max_user_instances"
)

// runWithInstances is run with enough instances of inotify for all hosts. Only root can raise the limit,
// and only root runs tests with hosts. The former limit applies again at the end.
func runWithInstances(ctx context.Context, o options, out io.Writer) error {
	former, err := os.ReadFile(inotifyLimit)
	if err != nil {
		return fmt.Errorf("read the limit of inotify: %w", err)
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(former)))
	if err != nil {
		return fmt.Errorf("parse %s: %w", inotifyLimit, err)
	}
	if os.Geteuid() != 0 || limit >= inotifyInstances {
		return run(ctx, o, out)
	}
	if err := os.WriteFile(inotifyLimit, []byte(strconv.Itoa(inotifyInstances)), 0); err != nil {
		return fmt.Errorf("raise the limit of inotify: %w", err)
	}
	err = run(ctx, o, out)
	if restoreErr := os.WriteFile(inotifyLimit, former, 0); restoreErr != nil {
		err = errors.Join(err, fmt.Errorf("restore the limit of inotify: %w", restoreErr))
	}
	return err
}

// run runs all rounds and lists the failures at the end.
func run(ctx context.Context, o options, out io.Writer) error {
	rounds := map[string]int{} // in which each test failed
	var all []error
	for round := range o.rounds {
		if o.rounds > 1 {
			fmt.Fprintf(out, "Round %d of %d, with %d busy loops\n", round+1, o.rounds, o.load)
		}
		rep, err := runRound(ctx, o, out)
		if err != nil {
			all = append(all, err)
		}
		if rep != nil {
			for _, name := range rep.distinct() {
				rounds[name]++
			}
		}
		if ctx.Err() != nil {
			return errors.Join(append(all, context.Cause(ctx))...)
		}
	}
	if o.rounds > 1 {
		fmt.Fprintf(out, "%d rounds, %d failed; %d tests failed at least once\n", o.rounds, len(all), len(rounds))
		for _, name := range slices.Sorted(maps.Keys(rounds)) {
			fmt.Fprintf(out, "  in %d of %d  %s\n", rounds[name], o.rounds, name)
		}
	}
	return errors.Join(all...)
}

// runRound runs everything once and lists the leftovers.
func runRound(ctx context.Context, o options, out io.Writer) (*report, error) {
	before, err := takeSnapshot(o.root)
	if err != nil {
		return nil, err
	}
	// The compiler and the tests create their temporary files in it.
	tmp, err := os.MkdirTemp("", "h01-")
	if err != nil {
		return nil, fmt.Errorf("make the run's directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := os.Chmod(tmp, 0o755); err != nil { //nolint:gosec // tests let other users through, as /tmp does
		return nil, fmt.Errorf("open the run's directory: %w", err)
	}
	r := &runner{root: o.root, tmp: tmp, id: filepath.Base(tmp), cover: o.cover}
	rep := newReport(out)
	unload, err := load(o.load)
	if err != nil {
		return nil, err
	}
	err = (&scheduler{slots: o.slots, runner: r, report: rep, results: make(chan result)}).run(ctx, o)
	unload()
	temporary := tmp // its files are leftovers
	if ctx.Err() != nil {
		temporary = "" // interrupted tests leave files, which are removed with tmp
	}
	remaining, lookErr := leftovers(before, o.root, r.id, temporary)
	if len(remaining) > 0 {
		lookErr = fmt.Errorf("the run left:\n  %s", strings.Join(remaining, "\n  "))
		rep.fail("leftovers of the run", nil, "")
	}
	rep.printSummary()
	if ctx.Err() == nil {
		err = errors.Join(err, rep.failure())
	}
	return rep, errors.Join(err, lookErr)
}

// load starts busy loops and returns a function that ends them.
func load(count int) (end func(), err error) {
	var loops []*exec.Cmd
	end = func() {
		for _, cmd := range loops {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	runtime.LockOSThread() // of the main goroutine, which lives as long as the program
	for range count {
		cmd := exec.Command("sh", "-c", "while :; do :; done") //nolint:noctx // end ends it
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL, Setpgid: true}
		if err := cmd.Start(); err != nil {
			end()
			return nil, fmt.Errorf("start a busy loop: %w", err)
		}
		loops = append(loops, cmd)
	}
	return end, nil
}
