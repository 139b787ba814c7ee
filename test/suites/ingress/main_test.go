// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/labtest"
)

// shared holds the lab that all tests use in turn, the program, and the CAs.
var shared struct {
	lab    *lab.Lab
	binary string
	pki    pki
}

func TestMain(m *testing.M) {
	labtest.Shared(m, func(l *lab.Lab, binary string) (err error) {
		shared.lab, shared.binary = l, binary
		shared.pki, err = newPKI()
		return err
	}, lab.WithEgress())
}

// pki has the CAs of the lab's servers.
type pki struct {
	root, intermediate *lab.Authority // of the router, whose chain has the intermediate
	second             *lab.Authority // another root
	egress             *lab.Authority // of the egress proxy's own certificate
	bump               *lab.Authority // of the intercepting proxy
}

func newPKI() (p pki, err error) {
	for name, a := range map[string]**lab.Authority{
		"Lab Root CA": &p.root, "Lab Second CA": &p.second, "Lab Egress CA": &p.egress, "Lab Bump CA": &p.bump,
	} {
		if *a, err = lab.NewAuthority(name); err != nil {
			return p, err
		}
	}
	p.intermediate, err = p.root.Intermediate("Lab Intermediate CA")
	return p, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
