// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"math/rand/v2"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/suites/chaos/model"
)

// weighted is a kind of fault: how often it is drawn, and its fields.
type weighted struct {
	kind   model.Kind
	weight int
	draw   func(*rand.Rand, *model.Fault) // nil: no fields
}

// kinds has the faults of a walk.
func kinds() []weighted {
	vip := func(r *rand.Rand, f *model.Fault) {
		f.VIP = r.IntN(4)
		if r.IntN(4) == 0 {
			f.Link = 1
		}
	}
	link := func(r *rand.Rand, f *model.Fault) { f.Link = r.IntN(2) }
	file := func(r *rand.Rand, f *model.Fault) {
		f.File = []model.File{model.KeepalivedConf, model.ConfigYAML}[r.IntN(2)]
		f.Variant, f.N = r.IntN(60), r.IntN(1000)
	}
	return []weighted{
		{model.VIPAdd, 12, vip},
		{model.VIPDeprecated, 3, vip},
		{model.VIPRemove, 6, vip},
		{model.FileWrite, 10, file},
		{model.FileCut, 6, file},
		{model.FileRemove, 2, file},
		{model.KillProxy, 2, nil},
		{model.FlushRuleset, 2, nil},
		{model.LinkDown, 1, link},
		{model.LinkUp, 2, link},
	}
}

// draw returns a sequence. Equal seeds give equal sequences.
func draw(seed uint64, length int) []model.Fault {
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a seed, not a secret
	all := kinds()
	total := 0
	for _, k := range all {
		total += k.weight
	}
	faults := make([]model.Fault, length)
	for i := range faults {
		n := r.IntN(total)
		for _, k := range all {
			if n -= k.weight; n >= 0 {
				continue
			}
			faults[i].Kind = k.kind
			if k.draw != nil {
				k.draw(r, &faults[i])
			}
			break
		}
		faults[i].Pause = drawPause(r)
	}
	return faults
}

// drawPause returns the pause after a fault: mostly none or a few milliseconds, so that
// faults overlap, and sometimes enough for a reaction.
func drawPause(r *rand.Rand) time.Duration {
	switch n := r.IntN(20); {
	case n < 8:
		return 0
	case n < 15:
		return time.Duration(1+r.IntN(15)) * time.Millisecond
	case n < 19:
		return time.Duration(50+r.IntN(100)) * time.Millisecond
	default:
		return time.Duration(300+r.IntN(900)) * time.Millisecond
	}
}
