// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// maxKept bounds what is kept: JSON writes some characters of a file with six.
const maxKept = 6*maxBytes + maxFiles<<10

// Keeper keeps what is in force in the state directory, with the start of MicroShift
// that has read it: another process goes on with it until MicroShift is started anew,
// and goes on with it, too, where the files have become broken.
type Keeper struct{ path string }

// NewKeeper keeps it in dir, which is made when it is absent.
func NewKeeper(dir string) Keeper {
	return Keeper{filepath.Join(dir, "microshift-in-force.json")}
}

// kept is how it is kept: what the files say, and not what follows from it, which
// another release may know better.
type kept struct {
	Directory     string   `json:"directory"`
	Start         string   `json:"start"` // the invocation of microshift.service; empty: it did not run
	Newer         []string `json:"newer,omitempty"`
	Sum           []byte   `json:"sum"`
	Texts         int      `json:"texts"`
	Files         []stamp  `json:"files"`
	Configuration wire     `json:"configuration"`
}

// stamp tells a file's text from others.
type stamp struct {
	Path string `json:"path"`
	Sum  []byte `json:"sum"`
}

func stamps(files []file) []stamp {
	out := make([]stamp, len(files))
	for i, f := range files {
		sum := sha256.Sum256(f.text)
		out[i] = stamp{f.path, sum[:]}
	}
	return out
}

// differing names the files that only one side has, or that differ.
func differing(before, now []stamp) []string {
	var out []string
	for _, side := range [2][2][]stamp{{now, before}, {before, now}} {
		for _, s := range side[0] {
			same := func(o stamp) bool { return o.Path == s.Path && string(o.Sum) == string(s.Sum) }
			if !slices.ContainsFunc(side[1], same) && !slices.Contains(out, s.Path) {
				out = append(out, s.Path)
			}
		}
	}
	slices.Sort(out)
	return out
}

// isReplaced is what becomes of a file that somebody else has written.
const isReplaced = "it is passed over, and the next good configuration takes its place: there is nothing to do"

// load returns what was kept; without any the error is fs.ErrNotExist.
func (k Keeper) load() (kept, Config, error) {
	text, err := textfile.Read(k.path, maxKept)
	if err != nil {
		return kept{}, Config{}, fmt.Errorf("read what was kept of MicroShift's configuration: %w", err)
	}
	var from kept
	if err := json.Unmarshal(text, &from); err != nil || len(from.Sum) != sha256.Size {
		return kept{}, Config{}, fmt.Errorf("%s is not what this service writes: %s", k.path, isReplaced)
	}
	c, err := from.Configuration.judge()
	if err != nil {
		return kept{}, Config{}, fmt.Errorf("%s has what is no configuration of MicroShift's, %w: %s", k.path, err, isReplaced)
	}
	return from, c, nil
}

// Internal are the internal addresses that the kept configuration gives, which is
// without the default ones; nil where nothing was kept that can be read.
func (k Keeper) Internal() []netip.Addr {
	_, c, err := k.load()
	if err != nil {
		return nil
	}
	return c.given()
}

// restore takes what an earlier process has kept: it is in force as long as the same
// MicroShift runs, and else stands in until there are good files.
func (r *Reader) restore(start string) {
	from, c, err := r.keeper.load()
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.keeps = err
		}
		return
	}
	if from.Directory != r.dir {
		return
	}
	r.good = version{reading{[sha256.Size]byte(from.Sum), from.Texts}, from.Files, from.Configuration, c}
	r.known, r.standIn = true, start == "" || from.Start != start
	if !r.standIn {
		r.start, r.newer = start, from.Newer
		r.saved = r.mark()
	}
}

// mark tells what is kept from what is to be.
type mark struct {
	reading

	start string
	newer int
}

func (r *Reader) mark() mark { return mark{r.good.reading, r.start, len(r.newer)} }

// Keep keeps what is in force, if that has changed. What stands in for it is kept
// already, with the start that has read it and not with a later one, and what a host without MicroShift's directory comes to is no
// configuration of its.
func (r *Reader) Keep() error {
	if !r.known || r.standIn || !r.present || r.saved == r.mark() {
		return nil
	}
	text, err := json.Marshal(kept{r.dir, r.start, r.newer, r.good.sum[:], r.good.files, r.good.stamps, r.good.wire})
	if err == nil {
		err = textfile.Replace(r.keeper.path, text)
	}
	if err != nil {
		return fmt.Errorf("keep MicroShift's configuration: %w", err)
	}
	r.saved = r.mark()
	return nil
}
