// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// module is one Go module of the repository.
type module struct {
	dir     string // relative to the repository's root
	race    bool   // run its tests with the race detector
	onlyAll bool   // no test is in setMain
}

// modules returns the modules in the order of compilation. The tests of build and test
// start programs and read their output, so they run without the race detector. The
// lab (test/support/lab) runs the service with it.
func modules() []module {
	return []module{
		{dir: ".", race: true},
		{dir: "test"},
		{dir: "build", onlyAll: true},
		{dir: "test/rehearsal", onlyAll: true},
	}
}

// Sets of tests.
const (
	setMain = "main" // unit and kernel tests, and the main paths through the labs: make test
	setAll  = "all"  // everything: make test-all
)

// suite describes how the tests of one package run. The zero value is one process with all
// tests, in both sets.
type suite struct {
	processes int            // number of processes that share its tests
	each      bool           // one process per test, because tests share nothing
	together  []string       // tests that share a setup and therefore a process
	main      []string       // the tests in setMain; nil: all
	onlyAll   bool           // no test is in setMain
	seconds   map[string]int // duration of long tests, which are spread and start first
	timeout   time.Duration  // of one process; 0: ten minutes
	slots     int            // slots of one process, for packages that use more than one core; 0: one
}

// table lists the packages whose tests do not run in one process, and those that setMain does
// not run completely. The keys are folders relative to the repository's root.
func table() map[string]suite {
	return map[string]suite{
		"build":         {slots: 2, timeout: 30 * time.Minute, seconds: map[string]int{"TestReleaseIsReproducible": 180}},
		"cmd/oc-http01": {processes: 2},
		"pkg/controller": {
			processes: 8,
			seconds:   map[string]int{"TestExporterExits": 4},
		},
		"pkg/proxy/server":    {processes: 3, seconds: map[string]int{"TestAbuse": 14}},
		"pkg/host/keepalived": {processes: 2},
		"pkg/proxy/upstream":  {processes: 2},
		"test/rehearsal": {
			each: true, slots: 2, onlyAll: true, timeout: 30 * time.Minute,
			seconds: map[string]int{
				"TestIPv6Only": 150, "TestCompact": 150, "TestFailures": 340, "TestScale": 150,
				"TestTutorial": 140,
			},
		},
		"test/rehearsal/certificatefiles": {slots: 2, onlyAll: true, seconds: map[string]int{"TestDistributions": 40}},
		"test/rehearsal/openshift": {
			slots: 2, onlyAll: true, timeout: 40 * time.Minute,
			seconds: map[string]int{"TestProcedures": 900},
		},
		"test/rehearsal/refusals": {
			slots: 2, onlyAll: true, timeout: 40 * time.Minute,
			seconds: map[string]int{"TestRefusals": 90},
		},
		"test/suites/arm64": {slots: 2, onlyAll: true, timeout: 30 * time.Minute, seconds: map[string]int{
			"TestFilter":  30,
			"TestService": 60,
		}},
		"test/suites/apis": {processes: 2, slots: 2, onlyAll: true, seconds: map[string]int{
			"TestRendererAgrees":   30,
			"TestPatchIsGenerated": 40,
		}},
		"test/support/bench":           {slots: 3, onlyAll: true},
		"test/suites/certificatefiles": {onlyAll: true, seconds: map[string]int{"TestKilled": 20}},
		"test/suites/chaos":            {slots: 2, onlyAll: true, seconds: map[string]int{"TestWalk": 70}},
		"test/suites/clock":            {slots: 2, onlyAll: true, timeout: 30 * time.Minute, seconds: map[string]int{"TestSteps": 60}},
		"test/suites/check": {
			processes: 5,
			// One finding of each check, and a healthy cluster.
			main: []string{
				"TestHealthy",
				"TestNftablesDenied", "TestPortTaken", "TestUserManaged", "TestCarrierLost", "TestRuleset", "TestIngress",
				"TestDNS", "TestEgressProxy", "TestVIPNotServed", "TestNoAPIServer", "TestClusterEnvironment",
				"TestConfiguration", "TestTrustedCA", "TestServiceDown",
			},
			seconds: map[string]int{
				"TestVIPTests": 150, "TestVIP": 90, "TestIngress": 44, "TestClusterEnvironment": 35,
				"TestNothingAnswers": 23, "TestHealthyOpenShift": 21, "TestRuleset": 20,
				"TestEgressReadiness": 14, "TestDNS": 14, "TestCarrierLost": 13, "TestRecentChallenges": 37,
				"TestSelfCheckMissing":  42,
				"TestProxyReachability": 12, "TestTrustedCA": 10, "TestEgressProxyUnreachable": 9,
			},
		},
		"test/support/cluster": {
			processes: 2, slots: 2, onlyAll: true,
			seconds: map[string]int{"TestCertificatesFollowTheVIP": 22, "TestMonitoring": 20},
		},
		"test/suites/delivery": {
			processes: 4, slots: 2, onlyAll: true, timeout: 30 * time.Minute,
			seconds: map[string]int{
				"TestByMachineConfig": 90, "TestFromLastRelease": 70, "TestStandaloneHost": 60,
				"TestOSImage": 60, "TestPullThroughEgressProxy": 30, "TestClusterObjects": 30,
				"TestHostileImages": 40, "TestRemovalReboots": 25, "TestBinaryNotReady": 40,
				"TestUnitChangedDuringFailedPull": 37, "TestFedoraCoreOS": 31, "TestImmediateFailure": 22,
				"TestStopBeforeReady": 19, "TestServiceDisabled": 30, "TestTimerRetries": 25,
				"TestRemovedWithTimerDisabled": 17, "TestRemovalKeepsFoldersOfPackages": 30,
				"TestPowerLossBeforeReady": 14, "TestPullTimeout": 13,
				"TestHostWithoutVIPs": 12, "TestFirstBinaryNotReady": 11, "TestRefusedImages": 11,
			},
		},
		"test/support/host": {
			processes: 3, slots: 2, main: []string{"TestRestartWhileAFileIsWritten"},
			seconds: map[string]int{
				"TestKills": 35, "TestRestarts": 18, "TestCheckNamesDropIns": 15, "TestSandboxMatrix": 15, "TestWatchdog": 14,
				"TestBoot": 11,
			},
		},
		"test/suites/hostile": {
			processes: 2, main: []string{"TestFork", "TestMessages", "TestStandardError"},
			seconds: map[string]int{
				"TestRandomAttacks": 55, "TestProxyAnswersNoCommand": 20, "TestProxySilent": 20,
				"TestMessages": 8, "TestInventedEvents": 8,
			},
		},
		"test/suites/ingress": {
			processes: 4, main: []string{"TestBundleChanges"},
			seconds: map[string]int{
				"TestEgressDiagnoses": 65, "TestCredentials": 36, "TestCombinations": 120,
				"TestBundleChangesUnderLoad": 17, "TestTLSDiagnoses": 15, "TestRedirectDiagnoses": 13, "TestBundleChanges": 13,
				"TestSpecAndAccepted": 12, "TestProxyProtocolDiagnoses": 11,
			},
		},
		"test/support/validator": {onlyAll: true},
		"test/support/lab": {
			processes: 3,
			main: []string{
				"TestCertificate", "TestFailover", "TestKill", "TestDrain", "TestPortChange", "TestReloadSignal",
				"TestInvalidConfig", "TestRouterAnswers", "TestState", "TestChallengeLog",
			},
			seconds: map[string]int{
				"TestSlowFlood": 28, "TestExpiryWatch": 20, "TestFailover": 16, "TestFlood": 12,
				"TestClusterCondition": 11, "TestState": 11, "TestCertificate": 8,
			},
		},
		"test/suites/microshift": {
			each: true, main: []string{"TestNotRequired", "TestOtherPort", "TestInvalidConfig"},
			seconds: map[string]int{"TestFaults": 47, "TestInternalAddressNotRedirected": 31, "TestManaged": 10},
		},
		"test/suites/monitoring": {onlyAll: true},
		"test/suites/openshift": {
			slots: 2, onlyAll: true, timeout: 30 * time.Minute, seconds: map[string]int{"TestRendered": 60},
		},
		"test/suites/mustgather": {onlyAll: true},
		"test/suites/page":       {onlyAll: true, seconds: map[string]int{"TestPages": 15}},
		"test/suites/packaging":  {slots: 2, onlyAll: true, seconds: map[string]int{"TestLifecycle": 60}},
		"test/suites/validation": {slots: 2, onlyAll: true, seconds: map[string]int{"TestReports": 22, "TestValid": 8}},
		"test/suites/words":      {onlyAll: true},
		"test/suites/topology": {
			each: true, timeout: 30 * time.Minute,
			together: []string{"TestBond", "TestVLAN"},
			main:     []string{"TestStandard", "TestIPv4Only", "TestIPv6Only", "TestCompactRouterHere", "TestBGP"},
			seconds: map[string]int{
				"TestBond": 100, "TestVLAN": 100, "TestCompactIngressMoves": 26, "TestArbiter": 16, "TestOtherNATBefore": 13,
				"TestClients": 13, "TestVIPsChanged": 13, "TestBGP": 30, "TestSingleNodeBecomesThree": 17,
			},
		},
	}
}

// fuzzer is one fuzz test with its number of inputs, a few seconds on one core. A number is
// used because Go before 1.27 can report the end of the time as a failure
// (https://go.dev/issue/75804).
type fuzzer struct {
	dir   string
	name  string
	count string
}

// fuzzers returns all fuzz tests. Their input comes from clients, the ingress, child
// processes, nodes and the administrator: configuration files, CA bundles, cluster objects,
// images and checksums.
func fuzzers() []fuzzer {
	return []fuzzer{
		{"pkg/proxy/protocol", "FuzzEvent", "50000x"},
		{"pkg/exporter/protocol", "FuzzEvent", "50000x"},
		{"pkg/prober/protocol", "FuzzResponse", "50000x"},
		{"pkg/prober/network", "FuzzParseTrace", "100000x"},
		{"pkg/proxy/reqhead", "FuzzHead", "125000x"},
		{"pkg/proxy/server", "FuzzConnections", "200x"}, // each one starts a server and waits for its timers
		{"pkg/proxy/upstream", "FuzzResponse", "75000x"},
		{"pkg/proxy/upstream", "FuzzConnectResponse", "75000x"},
		{"pkg/proxy/upstream", "FuzzRedirect", "20000x"},
		{"pkg/proxy/upstream", "FuzzAbsoluteForm", "100000x"},
		{"pkg/proxy/viptest", "FuzzParseResponse", "100000x"},
		{"pkg/ingress/trust", "FuzzFilter", "100000x"},
		{"pkg/config", "FuzzParse", "50000x"},
		{"pkg/findings/cause", "FuzzReport", "50000x"},
		{"internal/httpfield", "FuzzSplit", "100000x"},
		{"internal/jsonlimit", "FuzzCut", "100000x"},
		{"cmd/internal/page", "FuzzReport", "7500x"},
	}
}
