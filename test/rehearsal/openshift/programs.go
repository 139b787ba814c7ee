// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	// releaseVariable selects an older release line, such as 4.19.
	releaseVariable = "HTTP01_OPENSHIFT"
	newestRelease   = "4.20"
	// modules is the folder of the Go module with the programs. Its go.mod is for the newest release line, and
	// files such as 4.19.mod are for others.
	modules = "openshift"

	// programsVariable passes the programs that Build returned into the cell.
	programsVariable = "HTTP01_OPENSHIFT_PROGRAMS"

	// tags are the build tags of OpenShift's Makefile that need no C compiler.
	tags = "containers_image_openpgp exclude_graphdriver_devicemapper exclude_graphdriver_btrfs containers_image_ostree_stub"
)

// Programs has the paths of the programs, and of the files that they read.
type Programs struct {
	cluster.Programs

	Operator   string
	Controller string
	Daemon     string

	Release   string // such as 4.20.0
	Templates string // folder with the controller's templates
	API       string // folder of the module with OpenShift's CRDs
}

// Build compiles the programs, which takes minutes, or returns those that an earlier call compiled.
func Build(ctx context.Context) (p Programs, err error) {
	line := cmp.Or(os.Getenv(releaseVariable), newestRelease)
	p.Release = line + ".0"
	if p.Programs, err = cluster.Build(ctx); err != nil {
		return p, err
	}
	modfile := "go.mod"
	if line != newestRelease {
		modfile = line + ".mod"
	}
	dir, err := lab.BuildModuleTools(ctx, modules, modfile, "-ldflags=-s -w", "-tags="+tags)
	if err != nil {
		return p, err
	}
	p.Operator = filepath.Join(dir, "machine-config-operator")
	p.Controller = filepath.Join(dir, "machine-config-controller")
	p.Daemon = filepath.Join(dir, "machine-config-daemon")
	source, err := sources(ctx, modfile, "github.com/openshift/machine-config-operator")
	if err != nil {
		return p, err
	}
	p.Templates = filepath.Join(source, "templates")
	p.API, err = sources(ctx, modfile, "github.com/openshift/api")
	return p, err
}

// sources returns the folder of a module that the programs require.
func sources(ctx context.Context, modfile, module string) (string, error) {
	in, err := lab.ModuleFolder(modules)
	if err != nil {
		return "", err
	}
	out, err := lab.Output(ctx, nil, "", "go", "-C", in, "list", "-modfile="+modfile, "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", fmt.Errorf("find the files of %s: %w", module, err)
	}
	return strings.TrimSpace(out), nil
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
