// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// MaxReportAge is how old a report may be that is served.
const MaxReportAge = time.Second

// ExporterCommand is what the keeper says to the exporter, the process that serves
// metrics: one field is set.
type ExporterCommand struct {
	Serve  *Serve          `json:"serve,omitempty"` // comes first, with the listening socket
	Report *ReportResponse `json:"answer,omitempty"`
}

// Serve gives the exporter the listening socket to serve.
type Serve struct{}

// ReportRequest is all that an exporter says: it wants a report. It says so at most once in
// [MaxReportAge]. [ReadyID] comes first and has no answer.
type ReportRequest struct {
	ID uint64 `json:"id"`
}

// ReadyID is the ID by which an exporter says, once, that it takes requests.
const ReadyID = 0

// ReportResponse is the report for the [Ask] with the same ID. It holds what becomes a
// metric and no more: the exporter reads what the network sends.
type ReportResponse struct {
	ID     uint64        `json:"id"`
	Report report.Report `json:"report"`
}
