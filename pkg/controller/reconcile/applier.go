// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// applier applies plans: both listeners and table, or neither.
type applier struct {
	log     *slog.Logger
	tracker *tracker.Tracker
	table   Table
	proxy   Proxy

	port          uint16 // of the listener and the table; 0: no listener
	tableMayExist bool   // the service's table may exist in the kernel
	tableApplied  bool   // by this process
	tableDiffers  bool   // the table in the kernel differs from the applied one

	committed time.Time // when Apply last succeeded
}

func newApplier(parts Dependencies) applier {
	return applier{
		log: parts.Log, tracker: parts.Tracker, table: parts.Table, proxy: parts.Proxy,
		port: parts.Inherited.Port, tableMayExist: parts.Inherited.Table,
	}
}

// apply applies a plan. It returns the resulting reason and message, and whether the
// whole plan was applied.
func (a *applier) apply(c config.Config, p plan) (reason report.Reason, message string, ok bool) {
	if !p.Serves {
		if err := a.withdraw(); err != nil {
			return report.NftablesUnavailable, err.Error(), false
		}
		return p.Reason, p.Message, true
	}
	a.proxy.Configure(c, p.Ingress)
	return a.install(p)
}

// install opens the listener before it applies the table. A redirect to a port without a
// listener would refuse connections, and a redirect to a port of another process must
// never exist. If the new port is in use, the old one stays in use.
func (a *applier) install(p plan) (report.Reason, string, bool) {
	port := p.port
	busy := a.proxy.Open(port)
	if busy != nil {
		if port = a.port; port == 0 {
			// A table that a failed withdrawal left must not redirect to another process.
			return report.PortInUse, errors.Join(busy, a.removeTable()).Error(), false
		}
	}
	existed := a.tableMayExist
	a.tableMayExist = true // even if Apply returns an error
	if err := a.table.Apply(p.table(port)); err != nil {
		a.closeUnreferenced(existed)
		return report.NftablesUnavailable, err.Error(), false
	}
	a.committed = time.Now()
	if a.port != port {
		a.log.Info(fmt.Sprintf("port 80 of an API VIP is redirected to port %d while this host holds the VIP", port),
			slog.String("event", "port"), slog.Int("port", int(port)))
	}
	a.port, a.tableApplied = port, true
	if a.tableDiffers {
		a.tableDiffers = false
		a.tracker.CountEvents(func(e *report.Events) { e.TableRepairs++ })
	}
	a.proxy.CloseExcept(port, true)
	if busy != nil {
		return report.PortInUse, fmt.Sprintf("%v; port %d stays in use: %s", busy, port, p.Message), false
	}
	return p.Reason, p.Message, true
}

// closeUnreferenced closes the listeners that the table does not redirect to. Without
// the table's rules, any client could connect to them.
func (a *applier) closeUnreferenced(existed bool) {
	if a.port != 0 && existed {
		a.proxy.CloseExcept(a.port, false)
		return
	}
	a.port = 0
	a.proxy.Close()
}

// withdraw removes listeners and table. It removes the VIPs from the table first, so that
// no new connection is redirected. The table itself is removed after the challenges in
// flight ended: the kernel translates their packets only while a chain of type nat
// exists (net/netfilter/nf_nat_core.c, nf_nat_unregister_fn).
//
// After an error the table may exist; the next call tries again.
func (a *applier) withdraw() error {
	if a.port == 0 {
		return a.removeTable()
	}
	a.tableMayExist = true
	emptied := a.table.Apply(ruleset.New(a.port, nil))
	a.proxy.Close()
	a.port = 0
	if err := a.removeTable(); err != nil {
		return errors.Join(err, emptied)
	}
	return nil
}

// follow applies the VIPs of a plan to the table during a hand-over, and reports whether it
// did. It leaves everything else of a plan to the next process.
func (a *applier) follow(p plan) (followed bool, err error) {
	if !a.tableApplied || !p.Serves {
		return false, nil
	}
	err = a.table.Apply(p.table(a.port))
	return err == nil, err
}

// removeTable removes the table if it may exist.
func (a *applier) removeTable() error {
	if !a.tableMayExist {
		return nil
	}
	if err := a.table.Remove(); err != nil {
		return err
	}
	a.tableMayExist = false
	return nil
}

// verify compares the table in the kernel with the applied one. The next Apply corrects
// a difference. err is why they cannot be compared.
func (a *applier) verify() (err error) {
	if a.port == 0 || !a.tableApplied {
		return nil
	}
	differs, err := a.table.Verify()
	if !differs {
		return err
	}
	a.tableDiffers = true
	a.log.Warn("the table in the kernel differs from the applied one; replacing it",
		slog.String("event", "table"), slog.Any("error", err))
	return nil
}
