// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"fmt"

	"github.com/coreos/go-systemd/v22/dbus"
)

// Unit is what the manager says of a service: how it is, and what its sandbox
// leaves it, all drop-ins taken together.
type Unit struct {
	LoadState       string   // loaded, not-found, masked, …
	ActiveState     string   // active, inactive, activating, failed, …
	UnitFileState   string   // enabled, disabled, …; empty when there is no file
	Result          string   // of the last run: success, exit-code, signal, …
	ExecMainCode    int      // how the main process ended: CLD_EXITED and the like, 0 for not yet
	ExecMainStatus  int      // its exit code, or the signal
	Restarts        uint32   // by Restart=
	ConditionFailed bool     // a condition of the unit, such as ConditionFileIsExecutable=, was not met
	ExecPath        string   // of the program
	DropIns         []string // files that change the unit

	User        string // empty for root, if it is not dynamic
	DynamicUser bool

	BoundingSet, Ambient uint64 // of capabilities, bit by bit
	AddressFamilies      Filter // of addresses, such as AF_NETLINK
	SystemCalls          Filter
	PrivateNetwork       bool
	PrivateUsers         bool
	DeniesIPAddresses    bool // IPAddressDeny= denies some
}

// Filter is a list of what is allowed, or of what is not. The zero value denies
// nothing.
type Filter struct {
	Allow bool // the names are all that is allowed
	Names []string
}

// QueryUnit asks the manager for a service, over the system bus.
func QueryUnit(ctx context.Context, name string) (Unit, error) {
	bus, err := dbus.NewSystemConnectionContext(ctx)
	if err != nil {
		return Unit{}, fmt.Errorf("ask systemd for %s: %w", name, err)
	}
	defer bus.Close()
	p, err := bus.GetAllPropertiesContext(ctx, name)
	if err != nil {
		return Unit{}, fmt.Errorf("ask systemd for %s: %w", name, err)
	}
	return parseUnit(p), nil
}

// parseUnit reads properties (org.freedesktop.systemd1(5)). One that is not there, as
// with an older manager, is left at its zero value.
func parseUnit(p map[string]any) Unit {
	u := Unit{
		LoadState: property[string](p, "LoadState"), ActiveState: property[string](p, "ActiveState"), UnitFileState: property[string](p, "UnitFileState"),
		Result: property[string](p, "Result"), ExecMainCode: int(property[int32](p, "ExecMainCode")), ExecMainStatus: int(property[int32](p, "ExecMainStatus")),
		Restarts: property[uint32](p, "NRestarts"), DropIns: property[[]string](p, "DropInPaths"),
		User: property[string](p, "User"), DynamicUser: property[bool](p, "DynamicUser"),
		BoundingSet: property[uint64](p, "CapabilityBoundingSet"), Ambient: property[uint64](p, "AmbientCapabilities"),
		AddressFamilies: parseFilter(p, "RestrictAddressFamilies"), SystemCalls: parseFilter(p, "SystemCallFilter"),
		PrivateNetwork: property[bool](p, "PrivateNetwork"), PrivateUsers: property[bool](p, "PrivateUsers"),
		DeniesIPAddresses: len(property[[][]any](p, "IPAddressDeny")) > 0,
	}
	// A condition that was never looked at is not met either.
	u.ConditionFailed = property[uint64](p, "ConditionTimestamp") != 0 && !property[bool](p, "ConditionResult")
	if starts := property[[][]any](p, "ExecStart"); len(starts) > 0 && len(starts[0]) > 0 {
		u.ExecPath, _ = starts[0][0].(string)
	}
	return u
}

func property[T any](p map[string]any, name string) T {
	v, _ := p[name].(T)
	return v
}

// parseFilter reads a filter, which the bus has as a flag and a list.
func parseFilter(p map[string]any, name string) Filter {
	pair := property[[]any](p, name)
	if len(pair) != 2 {
		return Filter{}
	}
	allow, _ := pair[0].(bool)
	names, _ := pair[1].([]string)
	return Filter{allow, names}
}

// Denies reports whether it denies a name.
func (f Filter) Denies(name string) bool {
	for _, n := range f.Names {
		if n == name {
			return !f.Allow
		}
	}
	return f.Allow
}
