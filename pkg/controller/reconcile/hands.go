// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// hands put a plan into force: door and table together, or neither.
type hands struct {
	log    *slog.Logger
	table  Table
	door   Door
	drain  time.Duration // for challenges in flight when the door closes
	port   uint16        // that the door is settled on and the table leads to; 0: the door is closed
	stands bool          // a table of ours may stand
	made   bool          // by this process
	said   string        // the last complaint of verify
	broken bool          // the table was found to be other than it should be
	mended func()        // called when it has been built anew then
}

func newHands(p Parts) hands {
	return hands{log: p.Log, table: p.Table, door: p.Door, drain: cmp.Or(p.Drain, drainTime), port: p.Left.Port, stands: p.Left.Table, mended: p.Board.TableRepaired}
}

// apply returns the reason and message that hold after it, and whether the
// plan is in force as a whole.
func (h *hands) apply(ctx context.Context, c config.Config, p plan) (reason report.Reason, message string, ok bool) {
	if !p.listen {
		if err := h.withdraw(ctx); err != nil {
			return report.NftablesUnavailable, err.Error(), false
		}
		return p.reason, p.message, true
	}
	h.door.Configure(c, p.ingress)
	return h.install(ctx, p)
}

// install opens the door first and lets the table lead there afterwards: a
// table that leads to a port where nobody listens would turn a refused
// connection into a refused connection with our name on it, and a port that
// another process has must never be led to. When the new port is taken, the
// old one stays in force.
func (h *hands) install(ctx context.Context, p plan) (report.Reason, string, bool) {
	port := p.port
	busy := h.door.Open(port)
	if busy != nil {
		if port = h.port; port == 0 {
			// What a failed withdrawal has left must not lead to a stranger.
			return report.PortInUse, errors.Join(busy, h.clear()).Error(), false
		}
	}
	stood := h.stands
	h.stands = true // or may, whatever Apply says
	if err := h.table.Apply(p.table(port)); err != nil {
		h.shut(ctx, stood)
		return report.NftablesUnavailable, err.Error(), false
	}
	if h.port != port {
		h.log.Info(fmt.Sprintf("port 80 of the API VIPs leads to port %d", port),
			slog.String("event", "port"), slog.Int("port", int(port)))
	}
	h.port, h.made = port, true
	if h.broken {
		h.broken = false
		h.mended()
	}
	h.door.Settle(port)
	if busy != nil {
		return report.PortInUse, fmt.Sprintf("%v; port %d stays in force: %s", busy, port, p.message), false
	}
	return p.reason, p.message, true
}

// shut closes what the table does not lead to: without its rules a port stands
// open to all.
func (h *hands) shut(ctx context.Context, stood bool) {
	if h.port != 0 && stood {
		h.door.Settle(h.port)
		return
	}
	h.port = 0
	h.closeDoor(ctx)
}

// withdraw takes door and table away. The VIPs leave the table at once, so
// that nobody new is led here, but the table itself outlives the challenges in
// flight: the kernel translates their packets only as long as there is a chain
// of type nat (net/netfilter/nf_nat_core.c, nf_nat_unregister_fn).
//
// After an error the table may stand; the next call tries again.
func (h *hands) withdraw(ctx context.Context) error {
	if h.port == 0 {
		return h.clear()
	}
	h.stands = true
	emptied := h.table.Apply(ruleset.New(h.port, nil))
	h.closeDoor(ctx)
	h.port = 0
	if err := h.clear(); err != nil {
		return errors.Join(err, emptied)
	}
	return nil
}

// suspend ends what is in flight and leaves door and table to the next process;
// a door that is closed needs none. left says whether there is anything. In this order the table cannot be changed by
// others any longer than it has to be.
func (h *hands) suspend(ctx context.Context) (left bool, err error) {
	if h.port == 0 {
		return false, h.withdraw(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.drain)
	defer cancel()
	h.door.Suspend(ctx)
	err = h.table.Leave()
	return err == nil, err
}

// clear removes a table that may stand.
func (h *hands) clear() error {
	if !h.stands {
		return nil
	}
	if err := h.table.Remove(); err != nil {
		return err
	}
	h.stands = false
	return nil
}

// closeDoor gives the challenges in flight their time, also when the service is
// about to end.
func (h *hands) closeDoor(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.drain)
	defer cancel()
	h.door.Close(ctx)
}

// verify compares the kernel's table with what should be there. One that
// differs is put right by the next Apply.
func (h *hands) verify() {
	if h.port == 0 || !h.made {
		return
	}
	differs, err := h.table.Verify()
	said := ""
	switch {
	case differs:
		h.broken = true
		h.log.Warn("the table in the kernel is not as it should be; building it anew",
			slog.String("event", "table"), slog.Any("error", err))
	case err != nil:
		if said = err.Error(); said != h.said {
			h.log.Warn("cannot compare the table in the kernel with what it should be",
				slog.String("event", "table"), slog.Any("error", err))
		}
	}
	h.said = said
}
