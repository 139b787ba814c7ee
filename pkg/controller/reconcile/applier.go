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

// applier put a plan into force: door and table together, or neither.
type applier struct {
	log             *slog.Logger
	table           Table
	proxy           Proxy
	drainTimeout    time.Duration // for challenges in flight when the door closes
	port            uint16        // that the door is settled on and the table leads to; 0: the door is closed
	tableMayExist   bool          // a table of ours may stand
	tableApplied    bool          // by this process
	lastVerifyError string        // the last complaint of verify
	tableDiffers    bool          // the table was found to be other than it should be
	onTableRepaired func()        // called when it has been built anew then

	committed time.Time // when Apply has succeeded last
}

func newApplier(p Dependencies) applier {
	return applier{log: p.Log, table: p.Table, proxy: p.Proxy, drainTimeout: cmp.Or(p.DrainTimeout, defaultDrainTimeout), port: p.Inherited.Port, tableMayExist: p.Inherited.Table, onTableRepaired: p.Tracker.CountTableRepair}
}

// apply returns the reason and message that hold after it, and whether the
// plan is in force as a whole.
func (h *applier) apply(ctx context.Context, c config.Config, p plan) (reason report.Reason, message string, ok bool) {
	if !p.listen {
		if err := h.withdraw(ctx); err != nil {
			return report.NftablesUnavailable, err.Error(), false
		}
		return p.reason, p.message, true
	}
	h.proxy.Configure(c, p.ingress)
	return h.install(ctx, p)
}

// install opens the door first and lets the table lead there afterwards: a
// table that leads to a port where nobody listens would turn a refused
// connection into a refused connection with our name on it, and a port that
// another process has must never be led to. When the new port is taken, the
// old one stays in force.
func (h *applier) install(ctx context.Context, p plan) (report.Reason, string, bool) {
	port := p.port
	busy := h.proxy.Open(port)
	if busy != nil {
		if port = h.port; port == 0 {
			// What a failed withdrawal has left must not lead to a stranger.
			return report.PortInUse, errors.Join(busy, h.removeTable()).Error(), false
		}
	}
	stood := h.tableMayExist
	h.tableMayExist = true // or may, whatever Apply says
	if err := h.table.Apply(p.table(port)); err != nil {
		h.closeUnreferenced(ctx, stood)
		return report.NftablesUnavailable, err.Error(), false
	}
	h.committed = time.Now()
	if h.port != port {
		h.log.Info(fmt.Sprintf("port 80 of the API VIPs leads to port %d", port),
			slog.String("event", "port"), slog.Int("port", int(port)))
	}
	h.port, h.tableApplied = port, true
	if h.tableDiffers {
		h.tableDiffers = false
		h.onTableRepaired()
	}
	h.proxy.CloseExcept(port)
	if busy != nil {
		return report.PortInUse, fmt.Sprintf("%v; port %d stays in force: %s", busy, port, p.message), false
	}
	return p.reason, p.message, true
}

// closeUnreferenced closes what the table does not lead to: without its rules a port stands
// open to all.
func (h *applier) closeUnreferenced(ctx context.Context, stood bool) {
	if h.port != 0 && stood {
		h.proxy.CloseExcept(h.port)
		return
	}
	h.port = 0
	h.closeProxy(ctx)
}

// withdraw takes door and table away. The VIPs leave the table at once, so
// that nobody new is led here, but the table itself outlives the challenges in
// flight: the kernel translates their packets only as long as there is a chain
// of type nat (net/netfilter/nf_nat_core.c, nf_nat_unregister_fn).
//
// After an error the table may stand; the next call tries again.
func (h *applier) withdraw(ctx context.Context) error {
	if h.port == 0 {
		return h.removeTable()
	}
	h.tableMayExist = true
	emptied := h.table.Apply(ruleset.New(h.port, nil))
	h.closeProxy(ctx)
	h.port = 0
	if err := h.removeTable(); err != nil {
		return errors.Join(err, emptied)
	}
	return nil
}

// handOver ends what is in flight and leaves door and table to the next process;
// a door that is closed needs none. left says whether there is anything. In this order the table cannot be changed by
// others any longer than it has to be.
func (h *applier) handOver(ctx context.Context) (left bool, err error) {
	if h.port == 0 {
		return false, h.withdraw(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.drainTimeout)
	defer cancel()
	h.proxy.HandOver(ctx)
	err = h.table.Retain()
	return err == nil, err
}

// removeTable removes a table that may stand.
func (h *applier) removeTable() error {
	if !h.tableMayExist {
		return nil
	}
	if err := h.table.Remove(); err != nil {
		return err
	}
	h.tableMayExist = false
	return nil
}

// closeProxy gives the challenges in flight their time, also when the service is
// about to end.
func (h *applier) closeProxy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.drainTimeout)
	defer cancel()
	h.proxy.Close(ctx)
}

// verify compares the kernel's table with what should be there. One that
// differs is put right by the next Apply.
func (h *applier) verify() {
	if h.port == 0 || !h.tableApplied {
		return
	}
	differs, err := h.table.Verify()
	said := ""
	switch {
	case differs:
		h.tableDiffers = true
		h.log.Warn("the table in the kernel is not as it should be; building it anew",
			slog.String("event", "table"), slog.Any("error", err))
	case err != nil:
		if said = err.Error(); said != h.lastVerifyError {
			h.log.Warn("cannot compare the table in the kernel with what it should be",
				slog.String("event", "table"), slog.Any("error", err))
		}
	}
	h.lastVerifyError = said
}
