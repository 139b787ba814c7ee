// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sourceTest is a source with its own clock.
type sourceTest struct {
	*trust.Source
	t   *testing.T
	now time.Time
	dir string
}

func newSource(t *testing.T) *sourceTest {
	t.Helper()
	dir := t.TempDir()
	return restarted(&sourceTest{t: t, now: noon, dir: dir})
}

// restarted is the source after a restart.
func restarted(s *sourceTest) *sourceTest {
	return &sourceTest{trust.NewSource(filepath.Join(s.dir, "ca-bundle.crt"),
		trust.NewLastGoodCopy(filepath.Join(s.dir, "state"), "last-good.crt")), s.t, s.now, s.dir}
}

// refresh calls Refresh until the file settles, and returns how long that took
// until a change; 0 for no change.
func (s *sourceTest) refresh() (took time.Duration) {
	s.t.Helper()
	begin := s.now
	before := s.state()
	for range 10 {
		again := s.Refresh(s.now)
		if write := s.UnsavedCopy(); write != nil {
			must(s.t, write())
		}
		if s.state() != before {
			return max(1, s.now.Sub(begin))
		}
		if again == 0 {
			return 0
		}
		s.now = s.now.Add(again)
	}
	s.t.Fatal("it never settles")
	return 0
}

// state is what a change of the file changes.
func (s *sourceTest) state() string {
	return fmt.Sprint(s.Loaded(), s.names(), s.Err(), s.UsesLastGood())
}

func (s *sourceTest) names() string {
	names := make([]string, 0, len(s.Roots()))
	for _, c := range s.Roots() {
		names = append(names, strings.TrimPrefix(c.Subject, "CN="))
	}
	return strings.Join(names, " ")
}

// expect fails unless these certificates are in use and the error contains the text.
func (s *sourceTest) expect(names, message string) {
	s.t.Helper()
	switch err := s.Err(); {
	case message == "" && err != nil, message != "" && (err == nil || !strings.Contains(err.Error(), message)):
		s.t.Errorf("error %v, want %q", err, message)
	}
	if diff := cmp.Diff(names, s.names()); diff != "" {
		s.t.Errorf("in use (-want +got):\n%s", diff)
	}
}

func TestSourceFollowsItsFile(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	a, b := validCA(t, "A"), validCA(t, "B")
	s.refresh()
	s.expect("", "")
	if !s.Absent() {
		t.Error("no file, and not absent")
	}
	write(t, s.Path(), a)
	if took := s.refresh(); took < 100*time.Millisecond || took > 200*time.Millisecond {
		t.Errorf("a new file is taken after %v", took)
	}
	s.expect("A", "")
	write(t, s.Path(), a)
	if took := s.refresh(); took != 0 {
		t.Errorf("the same text is taken, after %v", took)
	}
	write(t, s.Path(), a+b)
	s.refresh()
	s.expect("A B", "")
	write(t, s.Path(), "")
	if took := s.refresh(); took < time.Second {
		t.Errorf("a refused file counts after %v: it may be amid its replacement", took)
	}
	s.expect("A B", "the file is empty")
	if !s.UsesLastGood() || s.Absent() {
		t.Error("the last good copy is in use, but not reported")
	}
	write(t, s.Path(), b)
	s.refresh()
	s.expect("B", "")
	if s.UsesLastGood() {
		t.Error("the file is in use, but not reported")
	}
	must(t, os.Remove(s.Path()))
	if took := s.refresh(); took < time.Second {
		t.Errorf("a removal counts after %v: it may be amid its replacement", took)
	}
	s.expect("", "")
	write(t, s.Path(), "x")
	s.refresh()
	s.expect("", "the file contains no certificate")
	if !s.Absent() {
		t.Error("no file existed before the refused one")
	}
}

// TestSourceIgnoresPartialWrites: the source waits for a file that is written in place,
// block by block.
func TestSourceIgnoresPartialWrites(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	a, b, c := validCA(t, "A"), validCA(t, "B"), validCA(t, "C")
	write(t, s.Path(), a+b+c)
	s.refresh()
	for _, part := range []string{"", a[:100], a, a + b[:50], a + b, a + b + c[:len(c)-2]} {
		write(t, s.Path(), part)
		if s.Refresh(s.now) == 0 {
			t.Fatalf("%d bytes are taken", len(part))
		}
		s.now = s.now.Add(90 * time.Millisecond)
		if s.Refresh(s.now) == 0 {
			t.Fatalf("%d bytes are taken after 90 ms", len(part))
		}
		s.expect("A B C", "")
	}
	write(t, s.Path(), a+b+c)
	if took := s.refresh(); took != 0 {
		t.Error("the same is taken again")
	}
	s.expect("A B C", "")
}

func TestSourceAfterRestart(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	write(t, s.Path(), validCA(t, "A"))
	s.refresh()
	write(t, s.Path(), "-----BEGIN CERTIFICATE-----\n")
	s = restarted(s)
	s.refresh()
	s.expect("A", "the file ends inside")
	if !s.UsesLastGood() {
		t.Error("the last good copy is in use, but not reported")
	}
	must(t, os.Remove(s.Path()))
	s.refresh()
	write(t, s.Path(), "x")
	s = restarted(s)
	s.refresh()
	if s.expect("", "the file contains no certificate"); !s.Absent() {
		t.Error("the last run had no file")
	}
	must(t, os.RemoveAll(filepath.Join(s.dir, "state")))
	s = restarted(s)
	s.refresh()
	if s.expect("", "the file contains no certificate"); s.Loaded() || s.Absent() {
		t.Error("nothing was ever good: this is not as if there were no file")
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, "state", ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestSourceSavesOnlyTrusted: other contents of the file are not copied to the state directory.
// The copy is in use while the file of another path is rejected.
func TestSourceSavesOnlyTrusted(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	a := validCA(t, "A")
	write(t, s.Path(), "s3cret words\n"+a+"-----BEGIN SECRET-----\nczNjcmV0\n-----END SECRET-----\n")
	s.refresh()
	text, err := os.ReadFile(filepath.Join(s.dir, "state", "last-good.crt"))
	must(t, err)
	if string(text) != a {
		t.Errorf("kept is\n%s\nwant\n%s", text, a)
	}
	s.Source = trust.NewSource(filepath.Join(s.dir, "other.crt"), trust.NewLastGoodCopy(filepath.Join(s.dir, "state"),
		"last-good.crt"))
	write(t, s.Path(), "x")
	s.refresh()
	if s.expect("A", "the file contains no certificate"); !s.UsesLastGood() {
		t.Error("the last good copy is in use, but not reported")
	}
	if _, whose := trust.EffectiveRoots(s.Source, nil); whose != s.Path() {
		t.Errorf("a diagnosis names %s", whose)
	}
}

// TestSourceWithWrongClock: at boot the clock may be before all certificates.
func TestSourceWithWrongClock(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	write(t, s.Path(), validCA(t, "A"))
	s.now = noon.Add(-24 * time.Hour)
	s.refresh()
	if s.expect("", "not valid before"); s.Loaded() {
		t.Error("something is in use")
	}
	s.Refresh(noon)
	s.expect("A", "")
	// The certificate expires: the file is refused, and nothing replaces it.
	s.Refresh(noon.Add(2 * time.Hour))
	s.expect("A", "expired")
	// The clock is set back.
	s.Refresh(noon)
	s.expect("A", "")
}

func TestSourceWithOtherFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make    func(path string) error
		message string
	}{
		"a directory": {func(p string) error { return os.Mkdir(p, 0o700) }, "not a regular file"},
		"a pipe":      {func(p string) error { return syscall.Mkfifo(p, 0o600) }, "not a regular file"},
		"10 MiB": {
			func(p string) error { return os.WriteFile(p, make([]byte, 10<<20), 0o600) },
			"the file is larger than 1024 KiB",
		},
		"a loop": {func(p string) error { return os.Symlink(p, p) }, "too many levels"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSource(t)
			must(t, c.make(s.Path()))
			s.refresh()
			if s.expect("", c.message); s.Loaded() {
				t.Error("something is in use")
			}
			if err := s.Err(); !strings.Contains(err.Error(), s.Path()) {
				t.Errorf("%v does not name the file", err)
			}
		})
	}
}

func TestSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	s := trust.NewSystem([]string{first, second})
	if again := s.Refresh(noon); again != 0 || s.Err() == nil || s.Source() != nil {
		t.Errorf("no file: %v", s.Err())
	}
	write(t, second, "# comment\n"+validCA(t, "A"))
	if again := s.Refresh(noon); again != 0 || s.Err() != nil || len(s.Source().Roots()) != 1 {
		t.Errorf("one file: %v", s.Err())
	}
	write(t, first, validCA(t, "A")+validCA(t, "B"))
	if again := s.Refresh(noon); again != 0 || len(s.Source().Roots()) != 2 {
		t.Errorf("both: %v", s.Err())
	}
	must(t, errors.Join(os.Remove(first), os.Remove(second)))
	if again := s.Refresh(noon); again != time.Second || len(s.Source().Roots()) != 2 {
		t.Errorf("gone, again in %v", again)
	}
	if again := s.Refresh(noon.Add(time.Second)); again != 0 || s.Err() == nil || len(s.Source().Roots()) > 0 {
		t.Errorf("gone: %v", s.Err())
	}
}

// TestSystemOfThisHost: nearly all certificates of the distribution are usable.
func TestSystemOfThisHost(t *testing.T) {
	t.Parallel()
	s := trust.NewSystem(trust.SystemFiles())
	s.Refresh(time.Now())
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	if n, assessment := len(s.Source().Roots()), s.Source().Assessment(); n < 50 || assessment.SkippedCount > n/10 {
		t.Errorf("%d are trusted, left out: %v", n, assessment.Skipped)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	one := trust.Certificate{Subject: "CN=A"}
	for want, roots := range map[string][]trust.Certificate{
		`no CA of f`:           nil,
		`the CA of f ("CN=A")`: {one},
		`the 2 CAs of f ("CN=A", "O=` + strings.Repeat("x", 75) + `…")`: {one, {Subject: "O=" + strings.Repeat("x", 500)}},
		`the 4 CAs of f ("CN=A", "CN=A", "CN=A", …)`:                    {one, one, one, one},
	} {
		if got := trust.Describe("f", roots); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
