// SPDX-License-Identifier: Apache-2.0

package startup

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestParseMappings has the mappings of a program with relocations, and of others.
func TestParseMappings(t *testing.T) {
	t.Parallel()
	const smaps = `00400000-00b3c000 r-xp 00000000 fe:01 1234                     /usr/local/bin/a program
Size:               7408 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
00b3c000-012d1000 r--p 0073c000 fe:01 1234                     /usr/local/bin/a program
Anonymous:             0 kB
012d1000-01351000 r--p 00ed1000 fe:01 1234                     /usr/local/bin/a program
Anonymous:             8 kB
01351000-01352000 rw-p 00ed1000 fe:01 1234                     /usr/local/bin/a program
Anonymous:             0 kB
26c22e800000-26c22f000000 rw-p 00000000 00:00 0 
Anonymous:             0 kB
7f034d4a0000-7f034d500000 r-xp 00000000 fe:01 99               /usr/lib/libc.so.6
Anonymous:             0 kB
`
	found, err := parseMappings(strings.NewReader(smaps), "/usr/local/bin/a program")
	if err != nil {
		t.Fatal(err)
	}
	want := []mapping{{0x400000, 0xb3c000}, {0xb3c000, 0x12d1000}}
	if diff := cmp.Diff(want, found, cmp.AllowUnexported(mapping{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := parseMappings(strings.NewReader("x-y r-xp 0 0 0 /p\n"), "/p"); err == nil {
		t.Error("no error for an address that is not a number")
	}
}

// TestRelease: a page of the program is no longer mapped, and can be read again.
func TestRelease(t *testing.T) {
	program, err := readProgram()
	if err != nil || len(program) == 0 {
		t.Fatalf("%v, %v", program, err)
	}
	last := program[len(program)-1] // constants: what runs at present is mapped again at once
	resident := func() (pages int) {
		// mincore(2) reports the page cache too, and pagemap what is mapped.
		file, err := os.Open("/proc/self/pagemap")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		size := uintptr(unix.Getpagesize())
		entries := make([]byte, (last.end-last.start)/size*8)
		if _, err := file.ReadAt(entries, int64(last.start/size*8)); err != nil {
			t.Fatal(err)
		}
		for i := 7; i < len(entries); i += 8 {
			pages += int(entries[i] >> 7) // bit 63: present
		}
		return pages
	}
	before := resident()
	release(program)
	if after := resident(); after >= before {
		t.Errorf("%d pages are mapped, %d before", after, before)
	}
	if again, err := readProgram(); err != nil || len(again) != len(program) {
		t.Errorf("afterwards: %v, %v", again, err)
	}
}
