// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Goroutines counts the goroutines of running processes of one Go binary from outside, so
// that the service needs no debugging interface for it. It reads the runtime's list of all
// goroutines in /proc/PID/mem. All addresses and offsets come from the binary itself.
type Goroutines struct {
	binary           string
	firstPage        uint64 // address of the start of the file in the binary
	allglen, allgptr uint64 // addresses of the variables in runtime/proc.go
	size             int64  // of runtime.g, and the offsets of two fields
	status, startpc  int64
	system           map[uint64]bool // entry addresses of the runtime's own goroutines
}

// Values of g.atomicstatus in runtime/runtime2.go.
const (
	statusIdle      = 0 // allocated, not yet initialised
	statusDead      = 6 // has exited, or was just initialised
	statusDeadExtra = 11
	statusScan      = 0x1000 // flag: the garbage collector scans the stack
)

// mostGoroutines bounds what is read. A larger list means that the addresses are wrong.
const mostGoroutines = 1 << 20

// OpenGoroutines reads the layout of the runtime from a binary with symbols and DWARF.
func OpenGoroutines(path string) (*Goroutines, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the symbols of %s: %w", path, err)
	}
	defer func() { _ = file.Close() }()
	if file.Class != elf.ELFCLASS64 || file.Data != elf.ELFDATA2LSB {
		return nil, fmt.Errorf("read the symbols of %s: only 64-bit little-endian binaries are supported", path)
	}
	g := &Goroutines{binary: path}
	if err := errors.Join(g.readSymbols(file), g.readLayout(file)); err != nil {
		return nil, fmt.Errorf("read the symbols of %s: %w. Build it without -ldflags '-s -w'", path, err)
	}
	return g, nil
}

// readSymbols finds the variables, and the functions at which goroutines of the runtime
// start. The rule is that of isSystemGoroutine in runtime/traceback.go, which
// runtime.NumGoroutine uses: the name begins with "runtime.", except for main.
func (g *Goroutines) readSymbols(file *elf.File) error {
	symbols, err := file.Symbols()
	if err != nil {
		return err
	}
	g.system = make(map[uint64]bool)
	for _, s := range symbols {
		switch s.Name {
		case "runtime.allglen":
			g.allglen = s.Value
		case "runtime.allgptr":
			g.allgptr = s.Value
		case "runtime.main", "runtime.corostart", "runtime.handleAsyncEvent":
		default:
			if strings.HasPrefix(s.Name, "runtime.") && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
				g.system[s.Value] = true
			}
		}
	}
	if g.allglen == 0 || g.allgptr == 0 {
		return errors.New("runtime.allglen or runtime.allgptr not found")
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD && p.Off == 0 {
			g.firstPage = p.Vaddr
			return nil
		}
	}
	return errors.New("no segment contains the start of the file")
}

// readLayout finds the size and the fields of runtime.g.
func (g *Goroutines) readLayout(file *elf.File) error {
	data, err := file.DWARF()
	if err != nil {
		return err
	}
	for r := data.Reader(); ; {
		entry, err := r.Next()
		if err != nil {
			return err
		}
		if entry == nil {
			return errors.New("type runtime.g not found")
		}
		if name, _ := entry.Val(dwarf.AttrName).(string); entry.Tag == dwarf.TagStructType && name == "runtime.g" {
			return g.readFields(data, entry.Offset)
		}
		if entry.Tag != dwarf.TagCompileUnit {
			r.SkipChildren()
		}
	}
}

func (g *Goroutines) readFields(data *dwarf.Data, at dwarf.Offset) error {
	t, err := data.Type(at)
	if err != nil {
		return err
	}
	structure, is := t.(*dwarf.StructType)
	if !is {
		return fmt.Errorf("runtime.g is a %v", t)
	}
	g.size, g.status, g.startpc = structure.ByteSize, -1, -1
	for _, f := range structure.Field {
		switch f.Name {
		case "atomicstatus":
			g.status = f.ByteOffset
		case "startpc":
			g.startpc = f.ByteOffset
		}
	}
	if g.status < 0 || g.startpc < 0 {
		return errors.New("a field of runtime.g not found: atomicstatus or startpc")
	}
	return nil
}

// Count returns the number of goroutines of a process, as runtime.NumGoroutine does: without
// those of the runtime. The process is not stopped, so goroutines that start or end
// meanwhile may or may not count.
func (g *Goroutines) Count(pid int) (int, error) {
	n, err := g.count(pid)
	if err != nil {
		return 0, fmt.Errorf("count the goroutines of process %d: %w", pid, err)
	}
	return n, nil
}

func (g *Goroutines) count(pid int) (int, error) {
	bias, err := g.loadBias(pid)
	if err != nil {
		return 0, err
	}
	memory, err := os.Open("/proc/" + strconv.Itoa(pid) + "/mem")
	if err != nil {
		return 0, err
	}
	defer func() { _ = memory.Close() }()
	// The length first: the runtime writes the pointer first (runtime.allgadd).
	length, err := readWord(memory, g.allglen+bias)
	if err != nil {
		return 0, err
	}
	if length == 0 || length > mostGoroutines {
		return 0, fmt.Errorf("the list has %d entries: the runtime has not started, or the process does not run %s", length, g.binary)
	}
	list, err := readWord(memory, g.allgptr+bias)
	if err != nil {
		return 0, err
	}
	pointers := make([]byte, 8*length)
	if _, err := memory.ReadAt(pointers, int64(list)); err != nil { //nolint:gosec // user addresses are below 1<<63
		return 0, err
	}
	n, one := 0, make([]byte, g.size)
	for ; len(pointers) > 0; pointers = pointers[8:] {
		at := binary.LittleEndian.Uint64(pointers)
		if _, err := memory.ReadAt(one, int64(at)); err != nil { //nolint:gosec // as above
			return 0, err
		}
		status := binary.LittleEndian.Uint32(one[g.status:]) &^ statusScan
		start := binary.LittleEndian.Uint64(one[g.startpc:])
		if status != statusIdle && status != statusDead && status != statusDeadExtra && !g.system[start-bias] {
			n++
		}
	}
	return n, nil
}

// loadBias returns by how much the addresses of a process differ from those in the binary:
// not at all, unless the binary is position-independent.
func (g *Goroutines) loadBias(pid int) (uint64, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	binary, err := os.Readlink(dir + "/exe")
	if err != nil {
		return 0, err
	}
	maps, err := os.ReadFile(dir + "/maps")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(maps)) {
		// start-end permissions offset device inode path
		fields := strings.Fields(line)
		if len(fields) < 6 || strings.Trim(fields[2], "0") != "" || fields[5] != binary {
			continue
		}
		start, _, _ := strings.Cut(fields[0], "-")
		address, err := strconv.ParseUint(start, 16, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s/maps: %w", dir, err)
		}
		return address - g.firstPage, nil
	}
	return 0, fmt.Errorf("read %s/maps: no mapping of the start of %s", dir, binary)
}

// readWord reads a 64-bit variable.
func readWord(memory io.ReaderAt, address uint64) (uint64, error) {
	var word [8]byte
	if _, err := memory.ReadAt(word[:], int64(address)); err != nil { //nolint:gosec // user addresses are below 1<<63
		return 0, err
	}
	return binary.LittleEndian.Uint64(word[:]), nil
}
