// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/lab"
)

// shared is the one lab that all tests use in turn, and the program.
var shared struct {
	lab    *lab.Lab
	binary string
	pki    pki
}

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	code, err := run(ctx, m)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	if shared.binary, err = lab.Binary(ctx, os.Getenv("HTTP01_PROXYD")); err != nil {
		return 1, err
	}
	if shared.pki, err = newPKI(); err != nil {
		return 1, err
	}
	if shared.lab, err = lab.New(ctx, lab.WithEgress()); err != nil {
		return 1, err
	}
	// A signal ends the tests' commands, and the lab goes with this process.
	closed := context.AfterFunc(ctx, func() { _ = shared.lab.Close(); os.Exit(130) })
	code = m.Run()
	closed()
	return code, shared.lab.Close()
}

// pki is what the lab's servers are known by.
type pki struct {
	root, between *lab.Authority // of the router: the chain has the intermediate
	second        *lab.Authority // another root
	egress        *lab.Authority // of the egress proxy's own certificate
	bump          *lab.Authority // of the man in the middle
}

func newPKI() (p pki, err error) {
	for name, a := range map[string]**lab.Authority{
		"Lab Root CA": &p.root, "Lab Second CA": &p.second, "Lab Egress CA": &p.egress, "Lab Bump CA": &p.bump,
	} {
		if *a, err = lab.NewAuthority(name); err != nil {
			return p, err
		}
	}
	p.between, err = p.root.Intermediate("Lab Intermediate CA")
	return p, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
