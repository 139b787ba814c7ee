// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// AskEvery is how old a report may be that is served.
const AskEvery = time.Second

// ExporterOrder is what the keeper says to the exporter, the process that serves
// metrics: one field is set.
type ExporterOrder struct {
	Serve  *Serve  `json:"serve,omitempty"` // comes first, with the listening socket
	Answer *Answer `json:"answer,omitempty"`
}

// Serve gives the exporter the listening socket to serve.
type Serve struct{}

// Ask is all that an exporter says: it wants a report. It says so at most once in
// [AskEvery]. [AtWork] comes first and has no answer.
type Ask struct {
	ID uint64 `json:"id"`
}

// AtWork is the ID by which an exporter says, once, that it takes requests.
const AtWork = 0

// Answer is the report for the [Ask] with the same ID. It holds what becomes a
// metric and no more: the exporter reads what the network sends.
type Answer struct {
	ID     uint64        `json:"id"`
	Report report.Report `json:"report"`
}
