// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// count counts the calls of one name.
type count struct{ made, denied int }

// usage has the calls after the installation of the filter, by kind of process and name.
// The names of setsockopt and fcntl have their option or command.
type usage map[string]map[string]count

var (
	callLine = regexp.MustCompile(`^(\d+\.\d+) (\w+)\((.*)$`)
	result   = regexp.MustCompile(`\) += (-?\d+)(?: (E\w+))?`)
	program  = regexp.MustCompile(`\["[^"]*"(?:\.\.\.)?, "(proxy|exporter|prober)"\]`) // a long text ends with "..."
	option   = regexp.MustCompile(`^\d+(?:<[^>]*>)?, (\w+), (\w+)`)
	command  = regexp.MustCompile(`^\d+(?:<[^>]*>)?, (F_\w+)`)
)

// call is one line of a trace.
type call struct {
	begin, thread, name, arguments string // the arguments are followed by the result
}

// add counts the calls of one service: a trace for each thread (strace -ff -ttt).
func (u usage) add(traces []string) error {
	var all []call
	for _, path := range traces {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read a trace: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if m := callLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				all = append(all, call{m[1], strings.TrimPrefix(filepath.Ext(path), "."), m[2], m[3]})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b call) int { return strings.Compare(a.begin, b.begin) })
	processes := threadsOf(all)
	kinds, confined := make(map[string]string), make(map[string]bool)
	for _, c := range all {
		process := processOf(processes, c.thread)
		m := result.FindStringSubmatch(c.arguments)
		succeeded := m != nil && m[1] != "-1"
		switch {
		case c.name == "execve" && succeeded:
			delete(confined, process)
			kinds[process] = ""
			if kind := program.FindStringSubmatch(c.arguments); kind != nil {
				kinds[process] = kind[1]
			}
		case c.name == "seccomp" && succeeded && kinds[process] != "":
			confined[process] = true
		case confined[process]:
			u.count(kinds[process], c, m)
		}
	}
	return nil
}

func (u usage) count(kind string, c call, result []string) {
	name := c.name
	switch m, f := option.FindStringSubmatch(c.arguments), command.FindStringSubmatch(c.arguments); {
	case name == "setsockopt" && m != nil:
		name += " " + m[1] + " " + m[2]
	case name == "fcntl" && f != nil:
		name += " " + f[1]
	}
	if u[kind] == nil {
		u[kind] = make(map[string]count)
	}
	n := u[kind][name]
	n.made++
	if result != nil && (result[2] == "EPERM" || result[2] == "ENOSYS") {
		n.denied++
	}
	u[kind][name] = n
}

// threadsOf returns the creator of each thread, by thread ID.
func threadsOf(all []call) map[string]string {
	creators := make(map[string]string)
	for _, c := range all {
		m := result.FindStringSubmatch(c.arguments)
		if m != nil && strings.HasPrefix(c.name, "clone") && strings.Contains(c.arguments, "CLONE_THREAD") {
			creators[m[1]] = c.thread
		}
	}
	return creators
}

// processOf follows the creators of a thread to the first thread of its process.
func processOf(creators map[string]string, thread string) string {
	for range len(creators) {
		creator, found := creators[thread]
		if !found {
			break
		}
		thread = creator
	}
	return thread
}

var (
	allowedItem  = regexp.MustCompile("(?m)^- `([\\w`, ]+)`(?: \\(([a-z, ]+)\\))?: .*?(?: Arguments: (.*))?$")
	argumentName = regexp.MustCompile(`[A-Z0-9]+_[A-Z0-9_]+`)
)

// parseAllowed returns the allowed calls by kind, from the generated document. Each option
// of setsockopt and each command of fcntl is one more.
func parseAllowed(document string) map[string][]string {
	allowed := make(map[string][]string)
	_, list, _ := strings.Cut(document, "\n## Allowed calls\n")
	for _, m := range allowedItem.FindAllStringSubmatch(list, -1) {
		kinds := strings.Split(m[2], ", ")
		if m[2] == "" {
			kinds = []string{"proxy", "exporter", "prober"}
		}
		names := strings.Split(m[1], "`, `")
		if m[1] == "setsockopt" || m[1] == "fcntl" {
			for _, argument := range argumentName.FindAllString(m[3], -1) {
				names = append(names, m[1]+" "+argument)
			}
		}
		for _, kind := range kinds {
			allowed[kind] = append(allowed[kind], names...)
		}
	}
	return allowed
}

// printReport lists for each kind the calls that were made, those that were denied, and
// those that are allowed and were never made.
func printReport(w io.Writer, allowed map[string][]string, made usage) error {
	for _, kind := range slices.Sorted(maps.Keys(allowed)) {
		var used, denied []string
		names := make(map[string]bool)
		for _, name := range slices.Sorted(maps.Keys(made[kind])) {
			n := made[kind][name]
			if words := strings.Fields(name); n.made > n.denied {
				names[words[0]] = true
				names[words[0]+" "+words[len(words)-1]] = true
				used = append(used, fmt.Sprintf("%s (%d)", name, n.made-n.denied))
			}
			if n.denied > 0 {
				denied = append(denied, fmt.Sprintf("%s (%d)", name, n.denied))
			}
		}
		var unused []string
		for _, name := range slices.Compact(slices.Sorted(slices.Values(allowed[kind]))) {
			if !names[name] {
				unused = append(unused, name)
			}
		}
		_, err := fmt.Fprintf(w, "%s\n  made: %s\n  denied: %s\n  allowed, never made: %s\n", kind,
			strings.Join(used, ", "), strings.Join(denied, ", "), strings.Join(unused, ", "))
		if err != nil {
			return err
		}
	}
	return nil
}
