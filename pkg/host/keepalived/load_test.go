// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadErrors(t *testing.T) {
	valid := apiInstance(" virtual_ipaddress { 192.0.2.1 }")
	tests := []struct {
		name string
		make func(t *testing.T, path string)
		want string
		is   error
	}{
		{name: "absent", make: func(*testing.T, string) {}, want: "no such file", is: fs.ErrNotExist},
		{name: "FIFO", make: func(t *testing.T, path string) {
			t.Helper()
			must(t, syscall.Mkfifo(path, 0o600))
		}, want: "is not a regular file"},
		{name: "too long in total", make: func(t *testing.T, path string) {
			t.Helper()
			writeFile(t, path, "include *.part\n"+valid)
			for i := range 2 {
				writeFile(t, filepath.Join(filepath.Dir(path), strconv.Itoa(i)+".part"), strings.Repeat("#\n", maxBytes/4))
			}
		}, want: "the files have more than 1048576 bytes"},
		{name: "too many files", make: func(t *testing.T, path string) {
			t.Helper()
			writeFile(t, path, "include *.part\n"+valid)
			for i := range maxFiles + 1 {
				writeFile(t, filepath.Join(filepath.Dir(path), strconv.Itoa(i)+".part"), "a\n")
			}
		}, want: "keepalived.conf:1: include *.part: more than 256 files"},
		{name: "too many entries", make: func(t *testing.T, path string) {
			t.Helper()
			writeFile(t, path, "include many/*\n"+valid)
			dir := filepath.Join(filepath.Dir(path), "many")
			must(t, os.Mkdir(dir, 0o700))
			for i := range maxDirEntries {
				must(t, os.Symlink("nowhere", filepath.Join(dir, strconv.Itoa(i))))
			}
		}, want: "/many has 4096 entries or more"},
		{name: "include loop on disk", make: func(t *testing.T, path string) {
			t.Helper()
			writeFile(t, path, "include ./keepalived.conf\n"+valid)
		}, want: "does a file include itself?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keepalived.conf")
			tt.make(t, path)
			got, err := Read(path)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if errors.Is(err, fs.ErrNotExist) != (tt.is != nil) {
				t.Errorf("error %v: is fs.ErrNotExist, want %v", err, tt.is)
			}
			if len(got.Files) == 0 || got.Files[0] != path {
				t.Errorf("files %q do not start with the path", got.Files)
			}
			if len(got.VIPs.API) > 0 {
				t.Errorf("VIPs %v despite the error", got.VIPs)
			}
		})
	}
}

func TestReadWithoutAPIInstance(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keepalived.conf")
	writeFile(t, path,
		"vrrp_instance x_INGRESS_0 { virtual_ipaddress { 192.0.2.6 } }\nvrrp_instance x_API_0 { virtual_ipaddress { /128 "+
			"label vip } }\n")
	got, err := Read(path)
	if !errors.Is(err, ErrNoAPIInstance) || errors.Is(err, ErrIncomplete) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(parseAddrs("192.0.2.6"), got.VIPs.Ingress, compareAddrs); diff != "" {
		t.Errorf("ingress (-want +got):\n%s", diff)
	}
}

func TestIncludeIgnores(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{
		"a.conf": 0o600, "b.conf": 0o700, "c.conf": 0o601, ".d.conf": 0o600,
		"e.other": 0o600, "[f": 0o600,
	} {
		writeFile(t, filepath.Join(dir, name), "x\n")
		must(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	must(t, os.Mkdir(filepath.Join(dir, "g.conf"), 0o700))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "h.conf")))
	tests := []struct {
		pattern string
		want    []string
	}{
		{"*.conf", []string{"a.conf"}},
		{"*", []string{"[f", "a.conf", "e.other"}},
		{".*.conf", []string{".d.conf"}},
		{"[^b-z]*", []string{"[f", "a.conf"}},
		{"a.conf/x", nil},
		{"absent/*", nil},
		{"../" + filepath.Base(dir) + "/a.conf", []string{"a.conf"}},
	}
	for _, tt := range tests {
		t.Run(tt.pattern, func(t *testing.T) {
			ld := &loader{deadline: time.Now().Add(time.Minute)}
			found, err := ld.include(filepath.Join(dir, "k.conf"), tt.pattern)
			must(t, err)
			var got []string
			for _, s := range found {
				got = append(got, filepath.Base(s.path))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if len(ld.paths) == 0 {
				t.Error("nothing to watch")
			}
		})
	}
}

// TestReadTime ends a read that takes too long.
func TestReadTime(t *testing.T) {
	ld := &loader{deadline: time.Now().Add(-time.Nanosecond)}
	if _, err := ld.read("testdata/blocks.conf", false); err == nil || !strings.Contains(err.Error(), "takes longer than 2s") {
		t.Error(err)
	}
}
