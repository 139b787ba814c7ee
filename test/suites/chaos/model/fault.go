// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds. The fields of Fault that a kind uses are in parentheses.
const (
	VIPAdd        Kind = "VIPAdd"        // (VIP, Link)
	VIPDeprecated Kind = "VIPDeprecated" // added with preferred_lft 0, as keepalived adds an IPv6 VIP (VIP, Link)
	VIPTentative  Kind = "VIPTentative"  // duplicate address detection does not end (VIP)
	VIPDADFailed  Kind = "VIPDADFailed"  // another host has the address (VIP)
	VIPRemove     Kind = "VIPRemove"     // from every link (VIP)
	VIPFlap       Kind = "VIPFlap"       // N changes, 100 a second (VIP, Link, N)
	LinkDown      Kind = "LinkDown"      // (Link)
	LinkUp        Kind = "LinkUp"        // (Link)
	IPv6Off       Kind = "IPv6Off"
	IPv6On        Kind = "IPv6On"
	Overflow      Kind = "Overflow" // more address events than the service's socket can hold

	FileWrite     Kind = "FileWrite"     // replaced by rename, or in place if N is odd (File, Variant, N)
	FileCut       Kind = "FileCut"       // only its first N per mille (File, Variant, N)
	FileRemove    Kind = "FileRemove"    // (File)
	FileDirectory Kind = "FileDirectory" // (File)
	FileLoop      Kind = "FileLoop"      // a symbolic link to itself (File)
	FileHuge      Kind = "FileHuge"      // 10 MB (File)

	FlushRuleset Kind = "FlushRuleset" // nft flush ruleset
	ForeignTable Kind = "ForeignTable" // another table with the same hooks and priorities
	PortTake     Kind = "PortTake"     // another program listens on a port, unless it is in use (N)
	PortGive     Kind = "PortGive"     // (N)

	ConntrackFull Kind = "ConntrackFull" // new connections of the host are not tracked, so they are dropped
	ConntrackFree Kind = "ConntrackFree"

	KillProxy       Kind = "KillProxy"
	KillExporter    Kind = "KillExporter"
	KillProber      Kind = "KillProber"
	KillController  Kind = "KillController"
	PauseProxy      Kind = "PauseProxy"      // SIGSTOP, and SIGCONT after N ms (N)
	PauseController Kind = "PauseController" // the same for the controller: sometimes ten seconds (N)
	PauseExporter   Kind = "PauseExporter"   // the same: the controller never waits for it (N)
	// the same: sometimes longer than a self-test waits, so that it is replaced (N)
	PauseProber Kind = "PauseProber"
	HangProxy   Kind = "HangProxy" // SIGSTOP alone
	Reload      Kind = "Reload"    // SIGHUP
	Restart     Kind = "Restart"
	Stop        Kind = "Stop"
	Start       Kind = "Start"

	FewDescriptors           Kind = "FewDescriptors"           // the proxy process can open none, for N ms (N)
	FewDescriptorsController Kind = "FewDescriptorsController" // the same for the controller, once it is ready (N)
	StateReadOnly            Kind = "StateReadOnly"            // the state directory
	StateFull                Kind = "StateFull"
	StateWritable            Kind = "StateWritable"
	// each fsync takes 5 s, from the start of the service on; it is the first fault
	SlowDisk  Kind = "SlowDisk"
	SilentDNS Kind = "SilentDNS" // the name server receives requests and sends nothing

	IngressMode Kind = "IngressMode" // (Mode)
)

// File is an input file of the service.
type File string

// The files.
const (
	KeepalivedConf File = "keepalived.conf"
	ConfigYAML     File = "config.yaml"
	CABundle       File = "ca-bundle.crt"
	ProxyEnv       File = "proxy.env"
)

// Mode is a behaviour of the ingress.
type Mode string

// The modes.
const (
	Normal  Mode = ""
	Refused Mode = "refused" // connections are refused
	Silent  Mode = "silent"  // requests are not answered
	Resets  Mode = "resets"  // after the request
	Dribble Mode = "dribble" // answers byte by byte
	Large   Mode = "large"   // a body of 64 KiB and a byte
)

// Fault is one step of a sequence: the fault, and the pause after it.
type Fault struct {
	Kind    Kind
	VIP     int
	Link    int
	N       int
	Variant int
	File    File
	Mode    Mode
	Pause   time.Duration
}

// String returns the fault with the fields that are set.
func (f Fault) String() string {
	words := []string{string(f.Kind)}
	for _, field := range []struct {
		name  string
		value any
		set   bool
	}{
		{"vip", f.VIP, f.VIP != 0},
		{"link", f.Link, f.Link != 0},
		{"n", f.N, f.N != 0},
		{"variant", f.Variant, f.Variant != 0},
		{"file", f.File, f.File != ""},
		{"mode", f.Mode, f.Mode != ""},
		{"pause", f.Pause, f.Pause != 0},
	} {
		if field.set {
			words = append(words, fmt.Sprintf("%s=%v", field.name, field.value))
		}
	}
	return strings.Join(words, " ")
}
