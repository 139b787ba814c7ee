// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// MaxReportAge bounds the age of the report that is served.
const MaxReportAge = time.Second

// Command is a message of the controller. Exactly one field is set.
type Command struct {
	Serve *Serve `json:"serve,omitempty"`
	// Report answers a [Request]. It holds only what becomes a metric: the exporter reads
	// bytes of the network.
	Report *report.Report `json:"report,omitempty"`
}

// Serve is the first command. The listening socket comes with it.
type Serve struct{}

// Event is a message of the exporter. Exactly one field is set.
type Event struct {
	Ready   *Ready   `json:"ready,omitempty"`
	Request *Request `json:"request,omitempty"`
}

// Ready reports, once, that the exporter accepts connections.
type Ready struct{}

// Request requests a report, at most once in [MaxReportAge].
type Request struct{}

// Validate accepts every event: the fields have no invalid value.
func (e *Event) Validate() error { return nil }
