// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// buildTimeout limits the compiler, also with a cold cache on a slow machine.
const buildTimeout = 10 * time.Minute

// module is the Go module of the lab.
const module = "github.com/http01-proxyd/http01-proxyd/test"

// Tools builds the lab's programs from Go modules. They need no installation, and no network
// after the build.
type Tools struct {
	Pebble string // the CA
	DNS    string // its DNS server, pebble-challtestsrv
	Solver string // cert-manager's HTTP-01 solver
}

func toolsIn(dir string) Tools {
	return Tools{
		Pebble: filepath.Join(dir, "pebble"),
		DNS:    filepath.Join(dir, "pebble-challtestsrv"),
		Solver: filepath.Join(dir, "solver"),
	}
}

// Build returns the tools beside this program, where `make` puts them. Otherwise it uses
// those in the repository's .cache and compiles them when necessary.
func Build(ctx context.Context) (Tools, error) {
	if self, err := os.Executable(); err == nil {
		if t := toolsIn(filepath.Dir(self)); t.there() {
			return t, nil
		}
	}
	dir, err := cacheDir()
	if err != nil {
		return Tools{}, err
	}
	in, err := moduleDir()
	if err != nil {
		return Tools{}, err
	}
	return toolsIn(dir), compile(ctx, in, dir+"/", "tool", module+"/cmd/solver")
}

// BuildToolsFor compiles the tools for an architecture in Go's naming.
func BuildToolsFor(ctx context.Context, arch string) (Tools, error) {
	dir, err := build("tools-"+arch, func(in, dir string) error {
		return compileBy(ctx, []string{"build"}, []string{"GOARCH=" + arch}, in, dir+"/", "tool", module+"/cmd/solver")
	})
	return toolsIn(dir), err
}

func (t Tools) there() bool {
	for _, path := range []string{t.Pebble, t.DNS, t.Solver} {
		if _, err := os.Stat(path); err != nil {
			return false
		}
	}
	return true
}

// BuildService compiles the service; flags are arguments of the compiler.
func BuildService(ctx context.Context, flags ...string) (string, error) {
	return BuildCommand(ctx, "http01-proxyd", flags...)
}

// BuildCommand compiles one of the repository's commands.
func BuildCommand(ctx context.Context, name string, flags ...string) (string, error) {
	return build(name+strings.Join(flags, ""), func(in, binary string) error {
		return compile(ctx, filepath.Dir(in), binary, append(flags, "./cmd/"+name)...)
	})
}

// BuildServiceWith compiles the service with an additional Go file in its main package.
func BuildServiceWith(ctx context.Context, file string) (string, error) {
	return build("http01-proxyd-"+filepath.Base(file), func(in, binary string) error {
		root := filepath.Dir(in)
		file, err := filepath.Abs(file)
		if err != nil {
			return fmt.Errorf("find the file: %w", err)
		}
		added := filepath.Join(root, "cmd", "http01-proxyd", filepath.Base(file))
		text, err := json.Marshal(map[string]map[string]string{"Replace": {added: file}})
		if err != nil {
			return fmt.Errorf("write the overlay: %w", err)
		}
		overlay := binary + ".json"
		if err := os.WriteFile(overlay, text, 0o600); err != nil {
			return fmt.Errorf("write the overlay: %w", err)
		}
		return compile(ctx, root, binary, "-overlay", overlay, "./cmd/http01-proxyd")
	})
}

// BuildServiceFor compiles the service for an architecture in Go's naming.
func BuildServiceFor(ctx context.Context, arch string) (string, error) {
	return build("http01-proxyd-"+arch, func(in, binary string) error {
		return compileBy(ctx, []string{"build"}, []string{"GOARCH=" + arch}, filepath.Dir(in), binary, "./cmd/http01-proxyd")
	})
}

// BuildTests compiles the tests in a folder of this module for an architecture in Go's
// naming.
func BuildTests(ctx context.Context, folder, arch string) (string, error) {
	return build(strings.ReplaceAll(folder, "/", "-")+"-"+arch+".test", func(in, binary string) error {
		return compileBy(ctx, []string{"test", "-c", "-vet=off"}, []string{"GOARCH=" + arch}, in, binary, "./"+folder)
	})
}

// BuildServiceTests compiles the tests in a folder of the service's module for an
// architecture in Go's naming.
func BuildServiceTests(ctx context.Context, folder, arch string) (string, error) {
	return build(filepath.Base(folder)+"-"+arch+".test", func(in, binary string) error {
		command, env := []string{"test", "-c", "-vet=off"}, []string{"GOARCH=" + arch}
		return compileBy(ctx, command, env, filepath.Dir(in), binary, "./"+folder)
	})
}

// build calls with to compile a binary into the cache.
func build(name string, with func(in, binary string) error) (string, error) {
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	in, err := moduleDir()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, name)
	return binary, with(in, binary)
}

// moduleDir returns this module's folder, from any directory in the repository.
func moduleDir() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		for _, candidate := range []string{dir, filepath.Join(dir, "test")} {
			text, err := os.ReadFile(filepath.Join(candidate, "go.mod"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
				return "", fmt.Errorf("find the repository: %w", err)
			}
			if strings.HasPrefix(string(text), "module "+module+"\n") {
				return candidate, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not in the repository: run the command inside it", start)
		}
	}
}

// ModuleFolder returns the path of a folder of this module, from any directory in the
// repository.
func ModuleFolder(folder string) (string, error) {
	in, err := moduleDir()
	return filepath.Join(in, folder), err
}

// cacheDir returns the directory of compiled programs. It is in the checkout, because
// nothing may remain outside.
func cacheDir() (string, error) {
	in, err := moduleDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(in, "..", ".cache", "lab")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("create the cache directory: %w", err)
	}
	return dir, nil
}

// compile runs `go build` in a module. A lock serialises all processes, because they write
// the same files.
func compile(ctx context.Context, in, output string, args ...string) error {
	return compileBy(ctx, []string{"build"}, nil, in, output, args...)
}

// compileBy runs a go command in a module with additional environment variables.
func compileBy(ctx context.Context, command, env []string, in, output string, args ...string) error {
	dir, err := cacheDir()
	if err != nil {
		return err
	}
	lock, err := lockFile(dir, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	return runCompiler(ctx, command, env, in, output, args...)
}

// runCompiler runs a go command that writes a program.
func runCompiler(ctx context.Context, command, env []string, in, output string, args ...string) error {
	args = slices.Concat(command[:1], []string{"-C", in}, command[1:], []string{"-o", output}, args)
	cmd := exec.CommandContext(ctx, "go", args...)
	// Only the race detector needs cgo.
	cgo := "CGO_ENABLED=0"
	if slices.Contains(args, "-race") {
		cgo = "CGO_ENABLED=1"
	}
	// With a larger heap, compilers need an eighth less CPU time.
	cmd.Env = slices.Concat(os.Environ(), []string{cgo, "GOGC=400"}, env)
	// An interrupted compiler removes its temporary files; a killed one does not.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// BuildModule compiles the programs of a module below this one and returns the folder that
// contains them. Each folder of the module is one program. The programs stay in .cache
// until the module, a flag or the compiler changes, so that later calls compile nothing.
// A cold build can take longer than buildTimeout.
func BuildModule(ctx context.Context, folder string, flags ...string) (string, error) {
	return buildModule(ctx, folder, nil, flags, "./...")
}

// BuildModuleTools is BuildModule for the programs that the tool directives of a module name. Its other
// packages have no influence. modfile is its go.mod, or a file beside it that replaces go.mod.
func BuildModuleTools(ctx context.Context, folder, modfile string, flags ...string) (string, error) {
	sums := strings.TrimSuffix(modfile, ".mod") + ".sum"
	return buildModule(ctx, folder, []string{modfile, sums}, append(flags, "-modfile="+modfile), "tool")
}

// buildModule compiles packages, and keeps the programs until one of the module's files changes. nil stands
// for all files.
func buildModule(ctx context.Context, folder string, files, flags []string, packages string) (string, error) {
	in, err := moduleDir()
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	in = filepath.Join(in, folder)
	version, err := moduleVersion(in, files, flags)
	if err != nil {
		return "", err
	}
	base := filepath.Join(cache, "..", strings.ReplaceAll(folder, "/", "-"))
	if err := os.MkdirAll(base, 0o750); err != nil {
		return "", fmt.Errorf("create the cache directory: %w", err)
	}
	lock, err := lockFile(base, unix.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	built := filepath.Join(base, version)
	if _, err := os.Stat(built); err == nil {
		return built, nil
	}
	next := built + ".new"
	if err := runCompiler(ctx, []string{"build"}, nil, in, next+"/", append(flags, packages)...); err != nil {
		return "", err
	}
	if err := os.Rename(next, built); err != nil {
		return "", fmt.Errorf("keep the programs of %s: %w", folder, err)
	}
	return built, nil
}

// moduleVersion returns a name for files of a module, the compiler and its flags. nil stands for all files.
func moduleVersion(dir string, only, flags []string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), flags)
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || only != nil && !slices.Contains(only, path) {
			return err
		}
		text, err := fs.ReadFile(files, path)
		fmt.Fprintf(hash, "%s %x\n", path, sha256.Sum256(text))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the module %s: %w", dir, err)
	}
	return hex.EncodeToString(hash.Sum(nil)[:6]), nil
}

// Binary returns the given service binary, or builds one when given is empty.
func Binary(ctx context.Context, given string) (string, error) {
	if given == "" {
		return BuildService(ctx)
	}
	return filepath.Abs(given)
}
