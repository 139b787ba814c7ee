// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"math/rand/v2"
	"slices"
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
	vip6 := func(r *rand.Rand, f *model.Fault) { f.VIP, f.Link = 1+2*r.IntN(2), r.IntN(2) }
	link := func(r *rand.Rand, f *model.Fault) { f.Link = r.IntN(2) }
	file := func(r *rand.Rand, f *model.Fault) {
		f.File = []model.File{
			model.KeepalivedConf, model.KeepalivedConf, model.KeepalivedConf, model.ConfigYAML,
			model.ConfigYAML, model.CABundle, model.ProxyEnv,
		}[r.IntN(7)]
		f.Variant, f.N = []int{0, 0, 0, 1, 2, 3, 3, 4, 5}[r.IntN(9)], r.IntN(1000)
	}
	brief := func(r *rand.Rand, f *model.Fault) { f.N = 1 + r.IntN(800) }
	port := func(r *rand.Rand, f *model.Fault) { f.N = []int{model.DefaultPort, model.OtherPort}[r.IntN(2)] }
	mode := func(r *rand.Rand, f *model.Fault) {
		f.Mode = []model.Mode{
			model.Normal, model.Normal, model.Refused, model.Silent, model.Resets, model.Dribble,
			model.Large,
		}[r.IntN(7)]
	}
	return []weighted{
		{model.VIPAdd, 60, vip},
		{model.VIPDeprecated, 15, vip},
		{model.VIPRemove, 25, vip},
		{model.VIPTentative, 6, vip6},
		// the other host is on the first link
		{model.VIPDADFailed, 1, func(r *rand.Rand, f *model.Fault) { f.VIP = 1 + 2*r.IntN(2) }},
		{model.VIPFlap, 8, func(r *rand.Rand, f *model.Fault) { vip(r, f); f.N = 2 + r.IntN(20) }},
		{model.LinkDown, 5, link},
		{model.LinkUp, 10, link},
		{model.IPv6Off, 3, nil},
		{model.IPv6On, 8, nil},
		{model.Overflow, 1, nil},
		{model.FileWrite, 45, file},
		{model.FileCut, 20, file},
		{model.FileRemove, 6, file},
		{model.FileDirectory, 4, file},
		{model.FileLoop, 4, file},
		{model.FileHuge, 2, file},
		{model.FlushRuleset, 10, nil},
		{model.ForeignTable, 5, nil},
		{model.PortTake, 6, port},
		{model.PortGive, 6, port},
		{model.KillProxy, 10, nil},
		{model.KillExporter, 4, nil},
		{model.KillProber, 3, nil},
		{model.KillController, 5, nil},
		{model.PauseProxy, 5, brief},
		{model.PauseController, 5, func(r *rand.Rand, f *model.Fault) {
			if f.N = 1 + r.IntN(800); r.IntN(40) == 0 {
				f.N = 10_000
			}
		}},
		{model.PauseExporter, 4, brief},
		{model.PauseProber, 3, func(r *rand.Rand, f *model.Fault) {
			if f.N = 1 + r.IntN(800); r.IntN(10) == 0 {
				f.N = 10_000
			}
		}},
		{model.HangProxy, 1, nil},
		{model.Reload, 10, nil},
		{model.Restart, 8, nil},
		{model.Stop, 3, nil},
		{model.Start, 6, nil},
		{model.FewDescriptors, 4, brief},
		{model.FewDescriptorsController, 4, brief},
		{model.StateReadOnly, 4, nil},
		{model.StateFull, 4, nil},
		{model.StateWritable, 6, nil},
		{model.IngressMode, 12, mode},
		{model.SilentDNS, 2, nil},
		{model.ConntrackFull, 1, nil},
		{model.ConntrackFree, 3, nil},
	}
}

const (
	// holdPause is how long VIPs are served before the faults.
	holdPause = 200 * time.Millisecond
	// proberPause is holdPause before faults of the prober process. The first self-test begins
	// at most 3.125 s after the host holds a VIP, and the process stays until it holds none
	// (controller: SelfTester.Run, with the interval of the first configuration).
	proberPause = 3200 * time.Millisecond
)

// slowDisks is which part of the sequences has a slow disk: a restart takes seconds there.
const slowDisks = 16

// draw returns a sequence. Equal seeds give equal sequences.
func draw(seed uint64, length int) []model.Fault {
	r := rand.New(rand.NewPCG(seed, 1))
	all := kinds()
	total := 0
	for _, k := range all {
		total += k.weight
	}
	faults := make([]model.Fault, length)
	first := 0
	if r.IntN(slowDisks) == 0 {
		faults[0].Kind, first = model.SlowDisk, 1
	}
	if r.IntN(4) > 0 { // mostly the host holds the VIPs, and clients are served
		faults[first].Kind, faults[first+1] = model.VIPAdd, model.Fault{Kind: model.VIPAdd, VIP: 1, Pause: holdPause}
		first += 2
	}
	for i := first; i < length; i++ {
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
	if first >= 2 &&
		slices.ContainsFunc(faults,
			func(f model.Fault) bool { return f.Kind == model.KillProber || f.Kind == model.PauseProber }) {
		faults[first-1].Pause = proberPause
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
