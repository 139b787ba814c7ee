// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// errIncomplete is the reason to reject a file that is still being written, or was cut.
var errIncomplete = errors.New("the value is incomplete or has quotes or backslashes inside: " +
	"write NAME=value in one line, or check the program that writes the file")

// parseEnvironment reads the proxies from the text of a file of variables, such as the one that
// the machine-config-operator writes for EnvironmentFile= of the node's services: NAME=value,
// with or without quotes around the whole value, and comments. The upper-case name takes
// precedence over the lower-case one, unless it is empty, as in
// [golang.org/x/net/http/httpproxy]. Errors contain the line, but no value.
func parseEnvironment(text string) (s ProxySettings, err error) {
	values, lines := make(map[string]string), make(map[string]int)
	number := 0
	for line := range strings.Lines(text) {
		number++
		terminated := strings.HasSuffix(line, "\n")
		line = strings.TrimSpace(line)
		if line == "" || strings.ContainsAny(line[:1], "#;") {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		if !found {
			if !terminated {
				return s, fmt.Errorf("line %d: %w", number, errIncomplete)
			}
			continue
		}
		name = strings.TrimSpace(name)
		switch strings.ToUpper(name) {
		case "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY":
			if value, found = unquote(strings.TrimSpace(value)); !found {
				return s, fmt.Errorf("line %d: %s: %w", number, name, errIncomplete)
			}
			values[name], lines[name] = value, number
		}
	}
	proxy := func(name string) *url.URL {
		name = effectiveName(values, name)
		u, problem := parseProxyURL(values[name])
		if problem != nil && err == nil {
			err = fmt.Errorf("line %d: %s %w: specify %s", lines[name], name, problem, proxyURLForm)
		}
		return u
	}
	s.http, s.https = proxy("HTTP_PROXY"), proxy("HTTPS_PROXY")
	s.NoProxy = values[effectiveName(values, "NO_PROXY")]
	return s, err
}

func effectiveName(values map[string]string, name string) string {
	if lower := strings.ToLower(name); values[name] == "" && values[lower] != "" {
		return lower
	}
	return name
}

// unquote removes the quotes around a value, and reports whether it is complete.
func unquote(value string) (plain string, complete bool) {
	if value != "" && (value[0] == '"' || value[0] == '\'') {
		if len(value) == 1 || value[len(value)-1] != value[0] {
			return "", false
		}
		value = value[1 : len(value)-1]
	}
	return value, !strings.ContainsAny(value, "\"'\\\x00")
}
