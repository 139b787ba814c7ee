// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/status"
)

// TestStatusTellsOfMetrics: that they are off, who has their port, and where they
// are served.
func TestStatusTellsOfMetrics(t *testing.T) {
	network(t, key)
	s := prepare(t, explicit)
	s.start(nil)
	s.await("metrics that are off", func(r status.Report) bool { return r.Metrics == status.Metrics{} })
	squatter, err := net.Listen("tcp", ":9645")
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	s.configure(measuring)
	s.await("who has the port", func(r status.Report) bool {
		return !r.Metrics.Served && strings.HasSuffix(r.Metrics.Address, ":9645") &&
			strings.Contains(r.Metrics.Error, fmt.Sprintf("taken by process %d (", os.Getpid()))
	})
	squatter.Close()
	s.await("metrics that are served", func(r status.Report) bool { return r.Metrics.Served && r.Metrics.Error == "" })
	s.configure(explicit)
	s.await("metrics that are off again", func(r status.Report) bool { return r.Metrics == status.Metrics{} })
	s.stop()
}
