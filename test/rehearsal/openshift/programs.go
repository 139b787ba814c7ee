// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
)

const (
	// releaseVariable selects an older release line, such as 4.19.
	releaseVariable = "HTTP01_OPENSHIFT"

	// programsVariable passes the programs that Build returned into the cell.
	programsVariable = "HTTP01_OPENSHIFT_PROGRAMS"
)

// Programs has the paths of the programs, and of the files that they read.
type Programs struct {
	cluster.Programs

	Operator   string
	Controller string
	Daemon     string

	Line      oracle.Release
	Release   string // a release of the line, such as 4.20.0
	Templates string // folder with the controller's templates
	API       string // folder of the module with OpenShift's CRDs
}

// Build compiles the programs, which takes minutes. It returns the programs of an earlier call if nothing changed.
func Build(ctx context.Context) (p Programs, err error) {
	p.Line = oracle.Release(cmp.Or(os.Getenv(releaseVariable), string(oracle.Newest)))
	p.Release = string(p.Line) + ".0"
	if p.Programs, err = cluster.Build(ctx); err != nil {
		return p, err
	}
	dir, err := lab.BuildModuleTools(ctx, oracle.Module, p.Line.Modfile(), "-ldflags=-s -w", "-tags="+oracle.Tags)
	if err != nil {
		return p, err
	}
	p.Operator = filepath.Join(dir, "machine-config-operator")
	p.Controller = filepath.Join(dir, "machine-config-controller")
	p.Daemon = filepath.Join(dir, "machine-config-daemon")
	if p.Templates, err = p.Line.Templates(ctx); err != nil {
		return p, err
	}
	p.API, err = p.Line.Source(ctx, "github.com/openshift/api")
	return p, err
}

// environment returns the environment that passes the programs into the cell.
func (p Programs) environment() (string, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encode the programs: %w", err)
	}
	return programsVariable + "=" + string(text), nil
}

// passed returns the programs that environment passed.
func passed() (p Programs, err error) {
	if err := json.Unmarshal([]byte(os.Getenv(programsVariable)), &p); err != nil {
		return p, fmt.Errorf("read %s: %w", programsVariable, err)
	}
	return p, nil
}
