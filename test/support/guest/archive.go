// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// archive writes files in the format of the kernel's initramfs: cpio newc (Linux,
// Documentation/driver-api/early-userspace/buffer-format.rst). One file can contain several
// archives.
type archive struct {
	out   *bufio.Writer
	inode int
}

func newArchive(w io.Writer) *archive { return &archive{out: bufio.NewWriter(w)} }

// File types as in a file's mode (inode(7)).
const (
	kindDirectory = 0o040000
	kindFile      = 0o100000
	kindLink      = 0o120000
)

// tree adds everything below a directory except devices and other special files.
func (a *archive) tree(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name := strings.TrimPrefix(path, root+"/")
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch mode := info.Mode(); {
		case mode.IsDir():
			return a.directory(name)
		case mode.IsRegular():
			return a.file(name, path)
		case mode&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return a.entry(name, kindLink|0o777, int64(len(target)), strings.NewReader(target))
		}
		return nil
	})
}

func (a *archive) directory(name string) error {
	return a.entry(name, kindDirectory|0o755, 0, strings.NewReader(""))
}

// file adds a file of this machine under a name.
func (a *archive) file(name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("put %s into the guest: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("put %s into the guest: %w", name, err)
	}
	return a.entry(name, kindFile|int(info.Mode().Perm()), info.Size(), f)
}

func (a *archive) text(name string, mode int, text string) error {
	return a.entry(name, kindFile|mode, int64(len(text)), strings.NewReader(text))
}

func (a *archive) entry(name string, mode int, size int64, from io.Reader) error {
	a.inode++
	var head strings.Builder
	head.WriteString("070701")
	for _, field := range []int64{
		int64(a.inode), int64(mode), 0, 0, 1, 0, size, 0, 0, 0, 0, int64(len(name) + 1), 0,
	} {
		fmt.Fprintf(&head, "%08X", field)
	}
	head.WriteString(name + "\x00")
	head.WriteString(padding(int64(head.Len())))
	if _, err := io.WriteString(a.out, head.String()); err != nil {
		return fmt.Errorf("put %s into the guest: %w", name, err)
	}
	if _, err := io.CopyN(a.out, from, size); err != nil {
		return fmt.Errorf("put %s into the guest: %w", name, err)
	}
	if _, err := io.WriteString(a.out, padding(size)); err != nil {
		return fmt.Errorf("put %s into the guest: %w", name, err)
	}
	return nil
}

// padding returns the padding to a multiple of four bytes.
func padding(size int64) string { return strings.Repeat("\x00", int(-size&3)) }

// close ends the archive and leaves the writer open.
func (a *archive) close() error {
	if err := a.entry("TRAILER!!!", 0, 0, strings.NewReader("")); err != nil {
		return err
	}
	return a.out.Flush()
}
