// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/host"
)

// A boot in which a unit fails is an error that names it and shows the journal.
func TestBootTellsWhatFailed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: hosts that boot")
	}
	h, err := shared.cell.NewHost(host.Options{
		Name: "broken", Tree: os.Getenv(treeVariable), Bridge: bridge, Addresses: address(12).onLink(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(h.Root); err == nil {
			t.Errorf("%s is still there", h.Root)
		}
	})
	const (
		name = "fails.service"
		text = "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo the reason is this; exit 3'\n"
		dir  = "/etc/systemd/system/"
	)
	if err := h.WriteFile(dir+name, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := h.WriteFile(dir+"multi-user.target.d/50-wants.conf", "[Unit]\nWants="+name+"\n", 0o644); err != nil {
		t.Fatal(err)
	}
	err = h.Boot(t.Context())
	if err == nil {
		t.Fatal("the boot counts as good")
	}
	for _, want := range []string{"units failed at the boot of broken: " + name, "the reason is this"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	// What runs can still be asked, and switched off in order.
	if err := h.PowerOff(t.Context()); err != nil {
		t.Error(err)
	}
}
