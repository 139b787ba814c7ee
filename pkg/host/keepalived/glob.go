// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

var errTooManyBraces = fmt.Errorf("the braces expand to more than %d patterns: reduce the alternatives", maxGlobBraces)

// expandGlob returns the files that match a pattern, as glob(3) with GLOB_BRACE does. Each
// brace alternative is expanded separately and sorted. The wildcards * and ? do not match a
// leading dot. searched lists the paths to watch: the directory of each alternative's first
// wildcard, or the path itself.
func expandGlob(pattern string) (paths, searched []string, err error) {
	alternatives, err := expandBraces(pattern)
	if err != nil {
		return nil, nil, err
	}
	for _, alt := range alternatives {
		if !strings.ContainsAny(alt, `*?[\`) {
			paths = append(paths, alt)
			searched = append(searched, alt)
			continue
		}
		searched = append(searched, literalDir(alt))
		found, err := globPattern(alt)
		if err != nil {
			return nil, searched, err
		}
		paths = append(paths, found...)
	}
	if len(paths) > maxFiles {
		return nil, searched, fmt.Errorf("more than %d files match: use a narrower pattern", maxFiles)
	}
	return paths, searched, nil
}

func globPattern(pattern string) ([]string, error) {
	// glob(3) negates a class with !, Go uses ^.
	found, err := filepath.Glob(strings.ReplaceAll(pattern, "[!", "[^"))
	if errors.Is(err, filepath.ErrBadPattern) {
		return []string{pattern}, nil // an unclosed bracket is literal text
	}
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(path string) bool { return wildcardMatchesDot(pattern, path) })
	slices.Sort(found)
	return found, nil
}

// wildcardMatchesDot reports whether a wildcard at the start of a path element matched a
// leading dot.
func wildcardMatchesDot(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i := range min(len(want), len(got)) {
		if strings.HasPrefix(got[i], ".") && !strings.HasPrefix(want[i], ".") && !strings.HasPrefix(want[i], `\.`) {
			return true
		}
	}
	return false
}

// literalDir returns the directory in which a pattern's first wildcard is expanded.
func literalDir(pattern string) string {
	literal := pattern[:strings.IndexAny(pattern, `*?[\`)]
	return literal[:max(1, strings.LastIndexByte(literal, '/'))]
}

// expandBraces expands {a,b} as csh does, including nested braces. {} and unclosed braces are
// literal text.
func expandBraces(pattern string) ([]string, error) {
	work, out := []string{pattern}, []string(nil)
	for len(work) > 0 {
		s := work[0]
		open, closing := firstBracePair(s)
		if open < 0 {
			out, work = append(out, s), work[1:]
		} else {
			var next []string
			for _, choice := range splitAlternatives(s[open+1 : closing]) {
				next = append(next, s[:open]+choice+s[closing+1:])
			}
			work = append(next, work[1:]...)
		}
		if len(out)+len(work) > maxGlobBraces {
			return nil, errTooManyBraces
		}
	}
	return out, nil
}

// firstBracePair returns the first opening brace that has a closing brace and text between
// them.
func firstBracePair(s string) (open, closing int) {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == '{' && !strings.HasPrefix(s[i:], "{}"):
			if end := closingBrace(s, i); end > 0 {
				return i, end
			}
			return -1, -1
		}
	}
	return -1, -1
}

func closingBrace(s string, open int) int {
	depth := 0
	for i := open; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// splitAlternatives splits at commas outside inner braces.
func splitAlternatives(s string) []string {
	var out []string
	depth, start := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, s[start:i])
				start = i + 1
			}
		}
	}
	return append(out, s[start:])
}
