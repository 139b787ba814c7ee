// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	nobody := filepath.Join(t.TempDir(), "none.sock")
	laptop := emptyPaths(t)
	for name, tt := range map[string]struct {
		args     []string
		code     int
		out, err string // required content of each stream; "" requires it empty
	}{
		"nothing":           {nil, cli.Usage, "", "Diagnosis:"},
		"help":              {[]string{"--help"}, cli.OK, "Diagnosis:", ""},
		"help of a command": {[]string{"run", "--help"}, cli.OK, "--config FILE", ""},
		"help, command":     {[]string{"help", "status"}, cli.OK, "Examples:", ""},
		"unknown command": {
			[]string{"stauts"},
			cli.Usage, "",
			`unknown command "stauts": did you mean status? See http01-proxyd --help`,
		},
		"by hand":          {[]string{"proxy"}, cli.Usage, "", "the controller starts this process"},
		"install, by hand": {[]string{"install"}, cli.Usage, "", "http01-proxyd-install.service runs this command"},
		"unknown flag": {
			[]string{"run", "--port", "1"},
			cli.Usage, "",
			"unknown flag: --port; see http01-proxyd run --help",
		},
		"argument":           {[]string{"version", "x"}, cli.Usage, "", `unexpected argument "x"`},
		"version":            {[]string{"version"}, cli.OK, "http01-proxyd ", ""},
		"version flag":       {[]string{"--version"}, cli.OK, "http01-proxyd ", ""},
		"status, no service": {[]string{"status", "--status-socket", nobody}, cli.Failure, "NotRunning", ""},
		"status, format": {
			[]string{"status", "-o", "xml"},
			cli.Usage, "",
			"use text, wide, json, yaml, html or prometheus",
		},
		"status, html": {[]string{"status", "-o", "html", "--watch"}, cli.Usage, "", "a page shows one report"},
		"status, interval": {
			[]string{"status", "--watch", "--interval", "90m"},
			cli.Usage, "",
			"--interval 1h30m0s: use 200ms to 1h;",
		},
		"status, no time": {
			[]string{"status", "--interval", "abc"},
			cli.Usage, "",
			`invalid argument "abc" for "--interval" flag: use a number with a unit, such as 30s or 2m; see`,
		},
		"explain": {
			[]string{"explain", "vip-unassigned", "ingress-refused"},
			cli.OK,
			"✗ ingress-refused (problem)", "",
		},
		"explain, YAML": {
			[]string{"explain", "[vip-unassigned]", "-o", "yaml"},
			cli.OK,
			"kind: FindingList\nfindings:\n- id: vip-unassigned\n", "",
		},
		"explain, list": {[]string{"explain", "--list"}, cli.OK, "\nvip-unassigned ", ""},
		"explain, JSON list": {
			[]string{"explain", "--list", "-o", "json"},
			cli.OK, `"verification": "Repeat the challenge: `,
			"",
		},
		"explain, misspelt": {
			[]string{"explain", "vip-unasigned"},
			cli.Usage, "",
			`unknown finding "vip-unasigned": did you mean vip-unassigned? See http01-proxyd explain --help`,
		},
		"explain, nothing": {[]string{"explain"}, cli.Usage, "", "give the ID of a finding, or --list alone"},
		"explain, both": {
			[]string{"explain", "--list", "disabled"},
			cli.Usage, "",
			"give the ID of a finding, or --list alone",
		},
		"completion of IDs": {[]string{"__complete", "explain", "vip-un"}, cli.OK, "vip-unassigned\t", "NoFileComp"},
		"check, no name":    {[]string{"check", "--name"}, cli.Usage, "", "flag needs an argument: --name;"},
		"check, colours":    {[]string{"check", "--help"}, cli.OK, "unless NO_COLOR is set", ""},
		"check, format":     {[]string{"check", "-o", "xml"}, cli.Usage, "", "use text, wide, json, yaml or html"},
		"check, help":       {[]string{"check", "--help"}, cli.OK, "The exit code is 3 if there is a problem", ""},
		"check, no node": {
			append([]string{"check"}, laptop...), cli.Unknown, "is not a cluster node with virtual IPs",
			"",
		},
		"check, a file only": {
			append([]string{"check", "--only", "config"}, laptop...), cli.OK, "/config.yaml is valid\n", "",
		},
		"check, a file and more": {
			append([]string{"check", "--only", "config,dns"}, laptop...), cli.Unknown,
			"- dns     not checked: this host is not a control-plane node with virtual IPs\n", "",
		},
		"check, no file": {
			append(append([]string{"check"}, laptop...), "--config", "/nonexistent/x.yaml"), cli.Failure, "",
			"cannot read the configuration: lstat /nonexistent/x.yaml: no such file or directory",
		},
		"check, JSON":      {append([]string{"check", "-o", "json"}, laptop...), cli.Unknown, `"outcome": "nothing"`, ""},
		"check, HTML list": {[]string{"check", "--list", "-o", "html"}, cli.Usage, "", "a page shows results"},
		"check, HTML": {
			append([]string{"check", "-o", "html"}, laptop...), cli.Unknown,
			"is not a cluster node with virtual IPs", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, err strings.Builder
			if code := cli.Execute(t.Context(), rootCommand(), tt.args, cli.Streams{Out: &out, Err: &err}); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for stream, s := range map[string]struct{ got, want string }{
				"stdout": {out.String(), tt.out},
				"stderr": {err.String(), tt.err},
			} {
				if (s.want == "") != (s.got == "") || !strings.Contains(s.got, s.want) {
					t.Errorf("%s is %q, want it to contain %q", stream, s.got, s.want)
				}
			}
		})
	}
}

// emptyPaths are flags for check on a host without VIPs.
func emptyPaths(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	text := "vips: {keepalivedConfig: " + filepath.Join(dir, "keepalived.conf") + "}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{
		"--config", config, "--state-dir", dir, "--status-socket", filepath.Join(dir, "none.sock"),
		"--manifests", dir, "--disabled-manifests", dir, "--proxy-env", filepath.Join(dir, "proxy.env"),
	}
}

// TestProgressLine: the terminal cuts the line, so that it never exceeds the one that is cleared.
func TestProgressLine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		line progressLine
		want string
	}{
		"no terminal": {progressLine{}, ""},
		"terminal":    {progressLine{on: true}, "\r\x1b[K\x1b[?7lchecking\x1b[?7h\r\x1b[K"},
	} {
		var b strings.Builder
		tt.line.w = &b
		tt.line.show("checking")
		tt.line.clear()
		if b.String() != tt.want {
			t.Errorf("%s: %q, want %q", name, b.String(), tt.want)
		}
	}
}

// TestHelpOfEveryCommand: help is available for every command, and the lines of its text are short.
func TestHelpOfEveryCommand(t *testing.T) {
	t.Parallel()
	for _, c := range rootCommand().Commands() {
		var out, err strings.Builder
		if code := cli.Execute(t.Context(), rootCommand(), []string{c.Name(), "--help"},
			cli.Streams{Out: &out, Err: &err}); code != cli.OK || err.String() != "" {
			t.Errorf("%s --help: exit code %d, %s", c.Name(), code, err.String())
		}
		for _, line := range strings.Split(out.String(), "\n") {
			if len(line) > 120 && !strings.HasPrefix(strings.TrimSpace(line), "-") { // cobra does not wrap flags
				t.Errorf("%s --help: a line of %d characters", c.Name(), len(line))
			}
		}
	}
}

func TestAbsolutePaths(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, whole := "etc/../config.yaml", "/etc/config.yaml"
	if err := makeAbsolute(&relative, &whole); err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(here, "config.yaml"); relative != want || whole != "/etc/config.yaml" {
		t.Errorf("got %s and %s, want %s and the other unchanged", relative, whole, want)
	}
}
