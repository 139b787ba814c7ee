// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/control"
	"github.com/http01-proxyd/http01-proxyd/pkg/sandbox"
)

// gateProcess is a gate that was started, and the connection to it.
type gateProcess struct {
	*control.Conn
	*sandbox.Process
}

func startGate() (*gateProcess, error) {
	near, far, err := control.Pair()
	if err != nil {
		return nil, fmt.Errorf("start the gate: %w", err)
	}
	// The link leads to the program that runs, also when another has been put in
	// its place.
	cmd := exec.Command("/proc/self/exe", "gate") //nolint:noctx // it ends with its connection
	cmd.Args[0] = os.Args[0]
	cmd.Env = gateEnvironment(os.Environ(), runtime.GOMAXPROCS(0))
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr // what the runtime has to say when it breaks
	cmd.ExtraFiles = []*os.File{far}
	process, err := sandbox.Start(cmd)
	err = errors.Join(err, far.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the gate: %w", err), near.Close())
	}
	return &gateProcess{near, process}, nil
}

// gateStart is how long a gate may take to say its first word.
const gateStart = 5 * time.Second

// awaitAlive returns when the gate is at work.
func (g *gateProcess) awaitAlive() error {
	first := make(chan error, 1)
	go func() {
		word, err := g.ReceiveWord()
		if err == nil && word.Alive == nil {
			err = errors.New("its first word is not that it is alive")
		}
		first <- err
	}()
	var err error
	select {
	case err = <-first:
	case <-time.After(gateStart):
		err = fmt.Errorf("it has said nothing for %v", gateStart)
	}
	if err == nil {
		return nil
	}
	g.end()
	err = errors.Join(err, g.Err())
	return fmt.Errorf("the gate, which is to answer the clients, does not get to work: %w; what it has to say is above", err)
}

// gateCores bounds the processors that the gate runs on at a time. One answers
// more than 10,000 challenges a second; a flood from outside is not to take the
// others from the control plane.
const gateCores = 2

// gateEnvironment leaves what the Go runtime reads, and bounds its processors.
// The gate has nobody to talk to but the keeper.
func gateEnvironment(environment []string, cores int) []string {
	bounded := fmt.Sprintf("GOMAXPROCS=%d", min(cores, gateCores))
	return append(slices.DeleteFunc(slices.Clone(environment), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "GOMEMLIMIT", "GOGC", "GOTRACEBACK", "GODEBUG", "GORACE", "GOCOVERDIR":
			return false
		default:
			return true
		}
	}), bounded)
}

// end closes the connection, upon which the gate ends, and waits for that.
func (g *gateProcess) end() {
	_ = g.Close()
	_ = g.Kill()
	<-g.Ended()
}
