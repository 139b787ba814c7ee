// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/expiry"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/probe"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/process"
)

const (
	// caReadInterval is when files of CAs are read again without a file event.
	caReadInterval = 30 * time.Second
	// stallTimeout is how long reading the files of CAs or of the egress proxy may take, which is
	// milliseconds usually. A hanging file system is reported; it is no reason to end the service.
	stallTimeout = 10 * time.Second
)

// timing holds the timeouts and intervals that tests change. Zero means the default.
type timing struct {
	probe.LivenessTiming

	ProxySilenceLimit   time.Duration // after which a proxy process is replaced
	ExporterBackoff     time.Duration // before the second exporter process
	ExpiryCheckInterval time.Duration // between two computations of the certificates to read
	StallTimeout        time.Duration // of a watcher's file read
	SelfTestInterval    time.Duration // between two self-tests; 0: selfTest.interval of the configuration
}

// withDefaults replaces each zero value with the default.
func (t timing) withDefaults() timing {
	t.ProxySilenceLimit = cmp.Or(t.ProxySilenceLimit, process.SilenceLimit)
	t.ExporterBackoff = cmp.Or(t.ExporterBackoff, process.MinExporterBackoff)
	t.ExpiryCheckInterval = cmp.Or(t.ExpiryCheckInterval, expiry.CheckInterval)
	t.StallTimeout = cmp.Or(t.StallTimeout, stallTimeout)
	return t
}
