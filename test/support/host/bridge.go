// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// AddBridge creates a bridge with addresses in the cell's network namespace. Hosts connect
// to it, and this process is on their network.
func (c *Cell) AddBridge(ctx context.Context, name string, addresses ...netip.Prefix) error {
	// Without a forwarding delay a port works as soon as it is up.
	if _, err := run(ctx, "ip", "link", "add", name, "type", "bridge", "forward_delay", "0"); err != nil {
		return err
	}
	for _, a := range addresses {
		args := []string{"address", "add", a.String(), "dev", name}
		if a.Addr().Is6() {
			args = append(args, "nodad") // the address is added before the first carrier
		}
		if _, err := run(ctx, "ip", args...); err != nil {
			return err
		}
	}
	_, err := run(ctx, "ip", "link", "set", name, "up")
	return err
}

// run runs a command of this machine in the cell.
func run(ctx context.Context, name string, args ...string) (string, error) {
	return lab.Output(ctx, nil, "", name, args...)
}
