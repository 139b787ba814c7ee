// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Snapshot is the state of a host without its processes, for comparison.
type Snapshot struct {
	Files   map[string]string // all files: kind, mode, owner, and size with hash, or target
	Outputs map[string]string // output of commands by command line
}

// Volatile is a part of the disk that changes without the service: a pattern of path.Match
// with all below it, and the reason.
type Volatile struct{ Pattern, Reason string }

// Volatiles returns the paths that a snapshot omits.
func Volatiles() []Volatile {
	return []Volatile{
		{"/var/log", "logs, the journal above all"},
		{"/var/lib/systemd/timers", "stamps of when timers have last elapsed (systemd.timer(5), Persistent=)"},
		{"/var/lib/systemd/random-seed", "new at every boot and power-off (systemd-random-seed.service(8))"},
		{"/var/lib/systemd/linger", "logind makes it when it starts"},
		{"/var/lib/containers", "podman's own state and locks; its images and containers are listed instead"},
		{
			"/var/tmp/systemd-private-*",
			"directories of running units that have PrivateTmp=, with a new name after every start",
		},
		{
			"/var/lib/systemd/catalog/.#database*",
			"of a journalctl --update-catalog that was killed: a restart kills ExecStartPost= of the installer",
		},
		{"/root/.rpmdb", "Debian's rpm creates its database at its first query; RHEL CoreOS has one"},
		{"/var/cache/containers", "podman's cache of blob locations"},
	}
}

// Diff returns the differences in a later snapshot of the same host, or "" for none.
func (s Snapshot) Diff(later Snapshot) string {
	return diffOf(s.Files, later.Files) + diffOf(s.Outputs, later.Outputs)
}

// diffOf formats each entry that differs. For a text of several lines it shows the lines on
// one side only.
func diffOf(before, after map[string]string) string {
	keys := slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)))
	slices.Sort(keys)
	var text strings.Builder
	for _, key := range slices.Compact(keys) {
		was, is := before[key], after[key]
		if was == is {
			continue
		}
		fmt.Fprintf(&text, "%s\n", key)
		went, came := missingLines(was, is), missingLines(is, was)
		for _, line := range went {
			fmt.Fprintf(&text, "\t- %s\n", line)
		}
		for _, line := range came {
			fmt.Fprintf(&text, "\t+ %s\n", line)
		}
		if len(went)+len(came) == 0 {
			text.WriteString("\tthe same lines in another order or number\n")
		}
	}
	return text.String()
}

// missingLines returns the lines of a text that another one lacks.
func missingLines(text, other string) []string {
	if text == "" {
		return nil
	}
	known := strings.Split(other, "\n")
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return slices.Contains(known, line) })
}

// snapshotCommands returns commands that print state outside the disk: the ruleset without
// counters, listening sockets, podman's objects, the host's own mounts, unit files, and the
// units of the patterns. Directories of PrivateTmp= and PrivateDevices= belong to systemd. It
// leaves the directories of PrivateDevices= when a unit is stopped while its devices are set
// up. /run/containers is podman's own, and depends on what podman did since the boot.
func snapshotCommands(units []string) [][]string {
	return [][]string{
		{"nft", "--stateless", "list", "ruleset"},
		{"ss", "--no-header", "--listening", "--tcp", "--udp", "--numeric"},
		{"podman", "images", "--all", "--noheading", "--format={{.ID}} {{.Repository}} {{.Digest}}"},
		{"podman", "ps", "--all", "--external", "--noheading", "--format={{.ID}} {{.Names}} {{.Image}}"},
		{
			"find", "/run", "/tmp", "/var/tmp", "/dev/shm", "-maxdepth", "1", "-not", "-name", "systemd-private-*", "-not",
			"-name", "namespace-dev-*", "-not", "-path", "/run/containers", "-printf", "%p %M %u:%g %l\\n",
		},
		{"systemctl", "list-unit-files", "--no-legend", "--plain"},
		append([]string{"systemctl", "list-units", "--all", "--no-legend", "--plain", "--full"}, units...),
	}
}

// Snapshot takes a snapshot of a running host. units are patterns of systemctl.
func (h *Host) Snapshot(ctx context.Context, units ...string) (Snapshot, error) {
	s := Snapshot{Outputs: map[string]string{}}
	for _, command := range snapshotCommands(units) {
		out, err := h.Run(ctx, command[0], command[1:]...)
		if err != nil {
			return Snapshot{}, err
		}
		s.Outputs[strings.Join(command, " ")] = sorted(out)
	}
	var err error
	s.Files, err = h.files(ctx)
	return s, err
}

// sorted sorts lines and collapses their columns. A ruleset is nested and stays unchanged.
func sorted(out string) string {
	if strings.HasPrefix(out, "table ") {
		return out
	}
	var lines []string
	for line := range strings.Lines(out) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// files returns the files of the host's disk without its mounts.
func (h *Host) files(ctx context.Context) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(h.Root, func(place string, entry fs.DirEntry, err error) error {
		if gone(err) {
			return nil // removed after it was listed
		}
		if err != nil {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		name := strings.TrimPrefix(place, h.Root)
		skip, err := volatile(name)
		if err != nil {
			return err
		}
		if skip && entry.IsDir() {
			return fs.SkipDir
		}
		if skip {
			return nil
		}
		about, err := h.describe(place, entry)
		if gone(err) {
			return nil
		}
		files[name] = about
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the disk of %s: %w", h.Name, err)
	}
	return files, nil
}

// volatile reports whether a snapshot omits a path.
func volatile(name string) (bool, error) {
	for _, v := range Volatiles() {
		if matched, err := path.Match(v.Pattern, name); matched || err != nil {
			return matched, err
		}
	}
	return false, nil
}

func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// describe returns the attributes of a file except its times.
func (h *Host) describe(place string, entry fs.DirEntry) (string, error) {
	info, err := entry.Info()
	if err != nil {
		return "", err
	}
	system, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%s: the owner is unknown", place)
	}
	about := fmt.Sprintf("%v %d:%d", info.Mode(), system.Uid, system.Gid)
	switch info.Mode().Type() {
	case 0:
		sum, err := h.hashes.of(place, system, time.Now())
		return fmt.Sprintf("%s %d bytes %s", about, info.Size(), sum), err
	case fs.ModeSymlink:
		target, err := os.Readlink(place)
		return about + " -> " + target, err
	default:
		return about, nil
	}
}

// hashes keeps the hashes of files between snapshots, because almost all files of a
// host never change.
type hashes struct {
	mu    sync.Mutex
	known map[version]string
}

// version identifies the content of a file. The kernel sets the change time at each write,
// and no program can set it (inode(7)).
type version struct {
	device, inode uint64
	size          int64
	changed       syscall.Timespec
}

// settled is far longer than the granularity of change times. A younger file can be written
// again without another change time.
const settled = 2 * time.Second

// of returns the hash of a file, which it reads unless it knows the hash of this version. now
// is a time before the file is read.
func (h *hashes) of(place string, is *syscall.Stat_t, now time.Time) (string, error) {
	v := version{is.Dev, is.Ino, is.Size, is.Ctim}
	h.mu.Lock()
	sum, found := h.known[v]
	h.mu.Unlock()
	if found {
		return sum, nil
	}
	old := now.Sub(time.Unix(is.Ctim.Unix())) > settled
	sum, err := hash(place)
	if err == nil && old {
		h.mu.Lock()
		h.known[v] = sum
		h.mu.Unlock()
	}
	return sum, err
}

func hash(place string) (string, error) {
	f, err := os.Open(place)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
