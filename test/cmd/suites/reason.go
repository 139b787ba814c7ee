// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"slices"
	"strings"
)

const (
	reasonMessages = 2   // the last messages of a failed test
	reasonHead     = 3   // the first lines of each
	reasonTail     = 5   // and the last ones
	reasonCrash    = 8   // the first lines of a panic, which the stacks of goroutines follow
	reasonWidth    = 300 // of a line, in bytes
)

// message matches the first line of what a test logs (testing.T.Log). The other lines are
// indented further.
var message = regexp.MustCompile(`^ {4,}[^ :]+\.go:[0-9]+: `)

// logOfPrograms matches a message with the output of a lab's programs (lab.Lab.Logs), which
// follows the error of a failed test.
var logOfPrograms = regexp.MustCompile(message.String() + `--- `)

// crash matches the first line of what the Go runtime and the race detector print.
var crash = regexp.MustCompile(`^(panic|fatal error): |^WARNING: DATA RACE`)

// reason returns the end of a failed test's output without the logs of programs: the last
// messages, or the last lines of a test that has logged nothing. A panic, a fatal error and a
// data race are messages too.
func reason(output []string) []string {
	all := strings.Split(strings.TrimRight(strings.Join(output, ""), "\n"), "\n")
	var messages [][]string
	crashed := false // the last message is a crash
	for _, line := range all {
		last := len(messages) - 1
		switch {
		case crash.MatchString(line), message.MatchString(line):
			messages = append(messages, []string{line})
			crashed = crash.MatchString(line)
		case crashed && len(messages[last]) < reasonCrash, last >= 0 && !crashed && strings.HasPrefix(line, "        "):
			messages[last] = append(messages[last], line)
		}
	}
	messages = slices.DeleteFunc(messages, func(m []string) bool { return logOfPrograms.MatchString(m[0]) })
	if len(messages) == 0 {
		messages = [][]string{all[max(0, len(all)-reasonTail):]}
	}
	var lines []string
	for _, m := range messages[max(0, len(messages)-reasonMessages):] {
		if len(m) > reasonHead+reasonTail {
			m = slices.Concat(m[:reasonHead], []string{"        […]"}, m[len(m)-reasonTail:])
		}
		for _, line := range m {
			if len(line) > reasonWidth {
				line = strings.ToValidUTF8(line[:reasonWidth], "") + "…"
			}
			lines = append(lines, line)
		}
	}
	return lines
}
