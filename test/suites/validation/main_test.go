// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/labtest"
)

// shared holds the lab that all tests use in turn, the programs, and the router's CA.
var shared struct {
	lab       *lab.Lab
	binary    string // of the service
	boulder   string
	authority *lab.Authority
}

func TestMain(m *testing.M) {
	labtest.Shared(m, func(l *lab.Lab, binary string) error {
		dir, err := lab.BuildModule(context.Background(), "support/boulder")
		if err != nil {
			return err
		}
		shared.lab, shared.binary, shared.boulder = l, binary, filepath.Join(dir, "boulder")
		shared.authority, err = lab.NewAuthority("Lab Root CA")
		return err
	})
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
