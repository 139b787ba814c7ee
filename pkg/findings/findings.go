// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/http01-proxyd/http01-proxyd/internal/docurl"
)

// ID identifies a finding in `check`, in the journal and in the documentation. It never
// changes.
type ID string

// Level is the severity of a finding.
type Level string

// The levels.
const (
	Warning Level = "warning" // challenges succeed now, but may fail later or for some clients
	Problem Level = "problem" // challenges fail, or the certificate does; or a change reboots nodes
)

// Entry is the text of one finding. Message and Remediation may contain placeholders such
// as {vip}, which [New] replaces. Message has no final full stop; Remediation has.
type Entry struct {
	ID          ID
	Check       string // the check that detects it, or that it is listed with
	Level       Level
	Symptom     string // visible without check, for the documentation
	Message     string // the cause
	Remediation string
	// Commands show what is wrong, and then fix or limit it. Those that begin with "oc " run on a
	// workstation, all others as root on the host. They contain the same placeholders, and a command
	// with a placeholder without a value is left out.
	Commands []string
	Example  string // YAML that the remediation mentions, for the documentation; usually empty
	// Exchange: an exchange with the ingress can show this fault. Its ID is then the cause
	// in the journal (CAUSE), the status and the metrics.
	Exchange    bool
	Reply       string // response body to the client of such an exchange; empty if it gets the ingress's response
	JournalOnly bool   // no check detects it, because it is about a challenge that the service handled
	// ClusterOnly: no check of one host detects it; "oc http01 status", "oc http01 check" or, with
	// [PreflightCheck], "oc http01 preflight", or with [IssuanceCheck], "oc http01 certificate" reports it.
	ClusterOnly bool
	// CausedBy lists findings that explain this one. If one of them is found, this one is
	// redundant.
	CausedBy []ID
}

// Forwarded reports whether the client of the exchange gets the ingress's own response.
func (e Entry) Forwarded() bool { return e.Exchange && e.Reply == "" }

// Page is the name of the page in docs/troubleshooting that contains the entry: its check,
// or "microshift" for what only happens on a MicroShift host.
func (e Entry) Page() string {
	if host, _, found := strings.Cut(string(e.ID), "-"); found && host == "microshift" {
		return host
	}
	return e.Check
}

// URL is where the documents explain the finding.
func (i ID) URL() string {
	e, known := Lookup(i)
	if !known {
		return docurl.Troubleshooting
	}
	return docurl.Findings + e.Page() + ".md#" + string(i)
}

// All lists the entries in the order of the checks; those of the cluster are last.
func All() []Entry { return slices.Clone(loadIndex().entries) }

// Finding is an entry that applies to this host now.
type Finding struct {
	ID          ID     `json:"id"`
	Level       Level  `json:"level"`
	Message     string `json:"message"`
	Remediation string `json:"remediation"`
	// Commands show what is wrong, and then fix or limit it. Those that begin with "oc " run on a
	// workstation, all others as root on this host.
	Commands []string `json:"commands,omitempty"`
	// Sources are the hosts whose packets showed the fault; empty for any other kind of fault.
	Sources []netip.Addr `json:"sources,omitempty"`
	// CausedBy is the entry's list, unless the check determines another one.
	CausedBy []ID `json:"-"`
}

// Values are the values of an entry's placeholders, by name.
type Values map[string]string

// With returns a copy with one more value.
func (v Values) With(name, value string) Values {
	w := maps.Clone(v)
	if w == nil {
		w = make(Values)
	}
	w[name] = value
	return w
}

// New returns the finding with the given ID. Placeholders without a value stay as they
// are. A test ensures that every ID has an entry; without one, the ID is the message.
func New(id ID, values Values) Finding {
	e, known := Lookup(id)
	if !known {
		e = Entry{Level: Problem, Message: string(id)}
	}
	pairs := make([]string, 0, 2*len(values))
	for name, value := range values {
		pairs = append(pairs, "{"+name+"}", value)
	}
	fill := strings.NewReplacer(pairs...)
	f := Finding{
		ID: id, Level: e.Level, Message: fill.Replace(e.Message), Remediation: fill.Replace(e.Remediation),
		CausedBy: e.CausedBy,
	}
	return f.WithCommands(values)
}

// Lookup returns the entry with the given ID.
func Lookup(id ID) (Entry, bool) {
	e, known := loadIndex().byID[id]
	return e, known
}

// IsCause reports whether a text is the ID of a finding about an exchange.
func IsCause(text string) bool {
	e, _ := Lookup(ID(text))
	return e.Exchange
}

// Checks returns the names of the checks of a host, in the order of their output.
func Checks() (names []string) {
	for _, e := range loadIndex().entries {
		if !e.ClusterOnly && !slices.Contains(names, e.Check) {
			names = append(names, e.Check)
		}
	}
	return names
}

// Causes returns the IDs of all findings about failed or unusual exchanges, in the order of
// the entries.
func Causes() []string { return slices.Clone(loadIndex().causes) }

// ReplyForCause is the response body to the client of an exchange with a cause.
func ReplyForCause(cause string) string {
	if e, _ := Lookup(ID(cause)); e.Reply != "" {
		return e.Reply
	}
	e, _ := Lookup(ResponseMalformed)
	return e.Reply
}

// OnOtherHost is the finding for another host. Faults of this host do not explain it.
func (f Finding) OnOtherHost() Finding {
	f.CausedBy = slices.DeleteFunc(slices.Clone(f.CausedBy),
		func(id ID) bool { return slices.Contains(localServingFaults(), id) })
	return f
}

// String is message and remediation in one line.
func (f Finding) String() string { return f.Message + ". " + f.Remediation }

// index contains the entries with a lookup by ID. It is immutable.
type index struct {
	entries []Entry
	byID    map[ID]Entry
	causes  []string
}

// loadIndex builds the index once. The proxy looks up a cause for each failed challenge,
// so a flood of these must not build it again each time.
var loadIndex = sync.OnceValue(func() index { //nolint:gochecknoglobals // see above
	t := index{entries: entries(), byID: make(map[ID]Entry)}
	for _, e := range t.entries {
		t.byID[e.ID] = e
		if e.Exchange {
			t.causes = append(t.causes, string(e.ID))
		}
	}
	return t
})

// entries concatenates the entries of all files in the order of the checks.
func entries() []Entry {
	return slices.Concat(
		nftablesEntries(), portEntries(), vipsEntries(), microShiftEntries(), internalAddressEntries(), vipHolderEntries(),
		rulesetEntries(),
		ingressEntries(), microShiftRouterEntries(), egressEntries(), routeEntries(), challengeEntries(), dnsEntries(),
		clusterProxyEntries(), vipPortEntries(), certificateEntries(), microShiftCertificateEntries(), mtuEntries(),
		clockEntries(), configEntries(), caBundleEntries(), serviceEntries(), clusterEntries(), issuanceEntries(),
		preflightEntries(),
	)
}
