// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/build/image"
	hosts "github.com/http01-proxyd/http01-proxyd/test/support/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
)

// Releases of the service with images.
const (
	first  = "first"
	second = "second"
)

// binariesVariable passes the folder of the service's programs into the cell.
const binariesVariable = "HTTP01_OPENSHIFT_BINARIES"

// shared is the cluster that the tests use in turn, with the images of the service in its registry.
var shared struct {
	*Cluster

	images map[string]string // references by digest
	sums   map[string]string // SHA-256 of the binaries
}

func TestMain(m *testing.M) {
	oc.Client() // when a shell of a test called this program as a command
	os.Exit(host.Suite{Prepare: prepare, Up: up}.Run(m.Run))
}

// prepare builds what needs the machine's own network.
func prepare(ctx context.Context) ([]string, error) {
	begin := time.Now()
	env, err := hosts.Prepare(ctx, filepath.Join(host.Repository(), ".cache"))
	if err != nil {
		return nil, err
	}
	programs, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	passed, err := programs.environment()
	if err != nil {
		return nil, err
	}
	var dir string
	for _, release := range []string{first, second} {
		binary, err := lab.BuildCommand(ctx, "http01-proxyd", "-trimpath", "-ldflags=-s -w -buildid="+release)
		if err != nil {
			return nil, err
		}
		dir = filepath.Dir(binary)
	}
	if _, err := lab.BuildCommand(ctx, "oc-http01"); err != nil {
		return nil, err
	}
	fmt.Printf("built in %v\n", time.Since(begin).Round(time.Second))
	return append(env, passed, binariesVariable+"="+dir), nil
}

// binary returns the path of the service's program of a release.
func binary(release string) string {
	return filepath.Join(os.Getenv(binariesVariable), "http01-proxyd-trimpath-ldflags=-s -w -buildid="+release)
}

func up(ctx context.Context, cell *host.Cell) (down func(context.Context) error, err error) {
	begin := time.Now()
	programs, err := passed()
	if err != nil {
		return nil, err
	}
	h, err := hosts.New(ctx, cell)
	if err != nil {
		return nil, err
	}
	if err := push(ctx, h); err != nil {
		return nil, errors.Join(err, h.Close(ctx))
	}
	if shared.Cluster, err = Start(ctx, h, programs); err != nil {
		return nil, errors.Join(err, h.Close(ctx))
	}
	fmt.Printf("the operator, the controller and three daemons were ready in %v\n", time.Since(begin).Round(time.Second))
	return func(ctx context.Context) error { return errors.Join(shared.Close(), h.Close(ctx)) }, nil
}

// push pushes the images of the service into the registry. Only this machine's architecture has a program.
func push(ctx context.Context, h *hosts.Cluster) error {
	shared.images, shared.sums = map[string]string{}, map[string]string{}
	for _, release := range []string{first, second} {
		binaries := map[string]string{}
		for _, architecture := range image.Architectures() {
			binaries[architecture] = os.DevNull
		}
		binaries[runtime.GOARCH] = binary(release)
		content, err := os.ReadFile(binary(release))
		if err != nil {
			return fmt.Errorf("read the program for the image: %w", err)
		}
		sum := sha256.Sum256(content)
		shared.sums[release] = hex.EncodeToString(sum[:])
		index, err := image.Build(image.Options{Binaries: binaries, Version: release})
		if err != nil {
			return fmt.Errorf("build the image %s: %w", release, err)
		}
		if shared.images[release], err = h.Registry.Push(ctx, "http01-proxyd/http01-proxyd", index); err != nil {
			return fmt.Errorf("push the image %s: %w", release, err)
		}
	}
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must1 returns the value of a call and ends the test on its error.
func must1[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}
