// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

var errTooManyBraces = fmt.Errorf("its braces stand for more than %d patterns: name fewer files", maxGlobBraces)

// expandGlob finds the files of a pattern as glob(3) with GLOB_BRACE does:
// each alternative by itself, sorted, and * and ? do not stand for a leading
// dot. searched is what a change of the answer would show up in: the directory
// of each alternative's first wildcard, or the path itself.
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
		return nil, searched, fmt.Errorf("more than %d files match: name fewer", maxFiles)
	}
	return paths, searched, nil
}

func globPattern(pattern string) ([]string, error) {
	// glob(3) negates a class with !, Go with ^.
	found, err := filepath.Glob(strings.ReplaceAll(pattern, "[!", "[^"))
	if errors.Is(err, filepath.ErrBadPattern) {
		return []string{pattern}, nil // a bracket that is not closed stands for itself
	}
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(path string) bool { return wildcardMatchesDot(pattern, path) })
	slices.Sort(found)
	return found, nil
}

// wildcardMatchesDot reports whether a wildcard at the start of a part of the
// pattern has matched a leading dot.
func wildcardMatchesDot(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i := range min(len(want), len(got)) {
		if strings.HasPrefix(got[i], ".") && !strings.HasPrefix(want[i], ".") && !strings.HasPrefix(want[i], `\.`) {
			return true
		}
	}
	return false
}

// literalDir is the directory that a pattern's first wildcard searches.
func literalDir(pattern string) string {
	literal := pattern[:strings.IndexAny(pattern, `*?[\`)]
	return literal[:max(1, strings.LastIndexByte(literal, '/'))]
}

// expandBraces resolves {a,b} like csh, nested ones too. {} and braces that
// are not closed stand for themselves.
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

// firstBracePair finds the first brace that has a closing one and something between.
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

// splitAlternatives splits at the commas that are in no inner brace.
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
