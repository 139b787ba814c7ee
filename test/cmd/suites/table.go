// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// module is one Go module of the repository.
type module struct {
	dir  string // from the repository's root
	race bool   // whether its tests run under the race detector
}

// modules are compiled in this order. The tests of build and test only start
// programs and read their output; the race detector is in these programs.
func modules() []module {
	return []module{{dir: ".", race: true}, {dir: "test"}, {dir: "build"}}
}

// Sets of tests.
const (
	setMain = "main" // unit and kernel tests, and the main paths through the labs: make test
	setAll  = "all"  // everything: make test-all
)

// suite says how the tests of one package run. The zero value is one process
// with all tests, in both sets.
type suite struct {
	processes int            // how many processes share its tests
	each      bool           // a process for each test, because no test shares anything
	together  []string       // tests that share what is brought up once, and so a process
	main      []string       // the tests in setMain; nil: all
	onlyAll   bool           // no test is in setMain
	seconds   map[string]int // what the long tests take, so that they are spread and begin first
	timeout   time.Duration  // of one process; 0: ten minutes
}

// table has the packages whose tests do not run in one process, and those that
// are not in setMain as a whole. The keys are folders from the repository's root.
func table() map[string]suite {
	return map[string]suite{
		"cmd/http01-machineconfig": {processes: 2},
		"pkg/daemon":               {processes: 8},
		"pkg/gate":                 {processes: 4},
		"pkg/keepalived":           {processes: 2},
		"pkg/upstream":             {processes: 3},
		"pkg/verdict":              {processes: 2},
		"test/apis":                {processes: 3, onlyAll: true},
		"test/bench":               {onlyAll: true},
		"test/check": {
			processes: 5,
			main: []string{
				"TestHealthy", "TestServiceDown", "TestKeepalivedConf", "TestDNS",
				"TestNftablesDenied", "TestTrust", "TestLastChallenges", "TestEgressReadiness",
			},
		},
		"test/cluster":  {processes: 2, onlyAll: true},
		"test/delivery": {processes: 4, onlyAll: true, timeout: 30 * time.Minute},
		"test/guest":    {onlyAll: true},
		"test/host":     {processes: 3, onlyAll: true},
		"test/ingress":  {processes: 4, main: []string{"TestCheckOfWhatIsWell", "TestParts"}},
		"test/judge":    {onlyAll: true},
		"test/lab": {
			processes: 3,
			main: []string{
				"TestCertificate", "TestFailover", "TestKill", "TestDrain", "TestPortChange", "TestReloadSignal",
				"TestInvalidConfig", "TestNotAChallenge", "TestState", "TestStory",
			},
		},
		"test/mcd":        {},
		"test/microshift": {each: true, main: []string{"TestNotRequired", "TestOtherPort"}},
		"test/monitoring": {onlyAll: true},
		"test/packaging":  {onlyAll: true},
		"test/topology": {
			each:     true,
			together: []string{"TestBond", "TestVLAN"},
			main:     []string{"TestStandard", "TestCompactRouterHere"},
		},
	}
}

// fuzzer is one fuzz test, and how many inputs it runs: some 20 s of one core. A
// number and not a time, since Go before 1.27 may report the end of the time as a
// failure (https://go.dev/issue/75804).
type fuzzer struct {
	dir   string
	name  string
	count string
}

// fuzzers read what a client, the ingress, keepalived's file, a bundle of CAs, the
// file of the egress proxy, the cluster's objects and MicroShift's files can have.
func fuzzers() []fuzzer {
	return []fuzzer{
		{"pkg/gate/head", "FuzzHead", "250000x"},
		{"pkg/upstream", "FuzzAnswer", "150000x"},
		{"pkg/upstream", "FuzzConnectAnswer", "150000x"},
		{"pkg/upstream", "FuzzRedirect", "80000x"},
		{"pkg/upstream", "FuzzAbsolute", "200000x"},
		{"pkg/keepalived", "FuzzParse", "150000x"},
		{"pkg/trust", "FuzzFilter", "200000x"},
		{"pkg/egress", "FuzzReadEnvironment", "120000x"},
		{"pkg/machineconfig", "FuzzCluster", "40000x"},
		{"pkg/microshift", "FuzzRead", "100000x"},
	}
}
