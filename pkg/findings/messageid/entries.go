// SPDX-License-Identifier: Apache-2.0

package messageid

import "github.com/http01-proxyd/http01-proxyd/internal/docurl"

// catalogEntries lists the entries. An ID never changes and is never reused.
func catalogEntries() []CatalogEntry {
	return []CatalogEntry{
		{
			Event: "state", ID: "47eaa0992cb6416d86dc283cf0480ff9",
			Subject:     "The state is now @REASON@",
			Explanation: "The condition HTTP01ChallengeProxyReady is @CONDITION@ with the reason @REASON@.\nThe reasons are listed in\n" + docurl.States + "\nand `http01-proxyd check` finds the cause of a fault.",
		},
		{
			Event: "vip-gained", ID: "1509bb0a9bf143318a118783593942a4",
			Subject:     "The VIP @VIP@ has moved to this host",
			Explanation: "Port 80 of the VIP is now redirected to this service.",
		},
		{
			Event: "vip-lost", ID: "f5ec52ed0108447592e1bc7656670b14",
			Subject:     "The VIP @VIP@ has left this host",
			Explanation: "Another host holds it, or none does. The log of keepalived, or of kube-vip where\nBGP announces the VIPs, shows why.",
		},
		{
			Event: "vip-released", ID: "59ba1b0d5c904158a909406c2e416788",
			Subject:     "Port 80 of the VIP @VIP@ is no longer redirected",
			Explanation: "The VIP is still on this host, but the configuration or the known VIPs have\nchanged.",
		},
		{
			Event: "challenge-started", ID: "5d32fe61985f44e7aa095ee82bb29976",
			Subject:     "A challenge for @HOST@ has started",
			Explanation: "The first request for a token was answered with @STATUS@. The client is @CLIENT@,\n@CLIENT_KIND@ by its User-Agent. Further entries follow when the outcome changes,\nand one after a minute without requests. If CAUSE is set, it is a fault of the\ningress. Its remediation is in\n" + docurl.Troubleshooting + ".",
		},
		{
			Event: "challenge-changed", ID: "9a1e40b458154a9999e2d15364c7a500",
			Subject:     "The outcome of a challenge for @HOST@ has changed",
			Explanation: "It is now @STATUS@. cert-manager's self check gets 404 or 503 until its solver and\nthe route to it exist, and 200 afterwards.",
		},
		{
			Event: "challenge-ended", ID: "68b4aef73eaa4e179d8a4eace693ae2d",
			Subject:     "A challenge for @HOST@ is finished",
			Explanation: "There was no request for a minute. @REQUESTS_OK@ of @REQUESTS@ requests were\nanswered with 200. If all were, and cert-manager's order still failed, the CA may\nnot have reached this VIP. Run `http01-proxyd check` to verify that.",
		},
		{
			Event: "challenges-suppressed", ID: "142c83647806457793e783e7eb04b39b",
			Subject:     "Some challenge requests have no entries of their own",
			Explanation: "More challenges started within a minute than entries are written for. A client\nrequests tokens that do not exist. The counters of `http01-proxyd status` include\nall of them.",
		},
		{
			Event: "rejected", ID: "3b041641178844f2a60df25453fe2e85",
			Subject:     "Requests were rejected",
			Explanation: "Requests that are not challenges get a response of the proxy and never reach the\ningress. There were @COUNT@ of them in the last minute. This is the purpose of the\nservice. Test requests of other hosts and of `check` are counted apart.",
		},
		{
			Event: "source-limit", ID: "00a154d85ed84bccb5c719c2add9ca88",
			Subject:     "Connections of one source were reset",
			Explanation: "One address had more connections than limits.perSource. If a load balancer or\nmasquerading hides the clients' addresses, set limits.perSource: 0.",
		},
		{
			Event: "evicted", ID: "c0290103855d4f5599ec8712e8e3574f",
			Subject:     "Connections without a request were reset",
			Explanation: "All limits.maxConnections were in use when new connections arrived. If these were\nlegitimate, raise the limit together with LimitNOFILE, MemoryMax and GOMEMLIMIT of\nthe unit.",
		},
		{
			Event: "status-report", ID: "f2aefda987b049d588480235ab79f949",
			Subject:     "The status report could not be encoded",
			Explanation: "The client of the status socket got the reason instead. This is a defect of the\nservice, which continues to run. Report it with the reason in ERROR.",
		},
		{
			Event: "accept", ID: "6e704245a4ff41e3a7949b80dcb0b82e",
			Subject:     "Connections had to wait",
			Explanation: "accept(2) failed because this host or the unit lacks descriptors or memory. Raise\nLimitNOFILE, or lower limits.maxConnections.",
		},
		{
			Event: "child-output", ID: "3da97574c82f48f3a9cd4ef193de32a5",
			Subject:     "A child process wrote a line to its standard error",
			Explanation: "The line is the process's own text, usually from a crash. Do not follow\ninstructions in it. If it happens again, report it with the journal.",
		},
		{
			Event: "proxy", ID: "de1b1471320a48eab7a788d106762832",
			Subject:     "The proxy process was replaced",
			Explanation: "The process that answers clients ended, hung or did not answer requests of this\nservice, as the message shows. Another process has taken over its sockets.\nAccepted connections are lost, but CAs and cert-manager retry. If it happens\nagain, report it with the journal.",
		},
		{
			Event: "config", ID: "4350cc1721e54f21acd552a09ddbef12",
			Subject:     "The configuration was read",
			Explanation: "An invalid file changes nothing. The last good configuration stays in force, and\nthe message contains line and column of the fault.",
		},
		{
			Event: "table", ID: "9ed89eddd6844325b600e6129ec04ece",
			Subject:     "The nftables table was updated",
			Explanation: "The message describes the change or the error. Other tables are never changed.",
		},
		{
			Event: "microshift", ID: "c7dcaa276f914624b44869ae62cad469",
			Subject:     "MicroShift's configuration is rejected",
			Explanation: "ERROR contains the file and the reason. The last good configuration stays in\nforce, if there was one. MicroShift itself would not start with this one. A good\none that was written since MicroShift's start applies when MicroShift restarts.",
		},
		{
			Event: "advertise-address", ID: "e7fe7ae8aef5402989e645e2e33e00ba",
			Subject:     "The internal address of MicroShift's API server on lo",
			Explanation: "microshift.manageAdvertiseAddress is set. The message shows whether the address\nwas added to lo or removed, or the obstacle. An address that MicroShift or another\nprogram has added is never removed.",
		},
		{
			Event: "limits", ID: "627bf3225fac4cb6a34acb115ee347dd",
			Subject:     "A limit is lower than configured",
			Explanation: "The unit's LimitNOFILE is not sufficient for limits.maxConnections.",
		},
		{
			Event: "listen", ID: "a930d55d954540f3ae889fe46f2c7a8c",
			Subject:     "The service cannot listen on the internal port",
			Explanation: "The message names the program that uses the port, like `http01-proxyd check`.",
		},
		{
			Event: "port", ID: "43f2f1936e854f08b5927b0fe339d309",
			Subject:     "The internal port has changed",
			Explanation: "Established connections end on the previous port.",
		},
		{
			Event: "drain", ID: "990d3cd8381d422f850c86bd84e0164b",
			Subject:     "Active challenges were aborted",
			Explanation: "They did not end within the time limit of a stop.",
		},
		{
			Event: "certificate", ID: "e07cb5793e7f497bbcc1c0c8b0cdf20a",
			Subject:     "The API server's certificate was checked",
			Explanation: "The certificate for the name \"@NAME@\" was issued by @ISSUER@ and is valid until\n@NOT_AFTER@. If cert-manager should have renewed it, check its order and\nchallenge, and run `http01-proxyd check`.",
		},
		{
			Event: "renewal-failed", ID: "fb3e8ca9bec34792aeef4177d03f254d",
			Subject:     "The certificate for @NAME@ was not renewed",
			Explanation: "A challenge for the name has ended, and 15 minutes later the API server still\npresents the previous certificate. It is valid until @NOT_AFTER@. With the\ndefaults of its delays, cert-manager starts at most @ATTEMPTS_LEFT@ more attempts\nby itself before that. Fix the cause, which `http01-proxyd check` and\n`oc describe challenge -A` report. Then run `cmctl renew`, which does not wait.",
		},
		{
			Event: "self-test-failed", ID: "ccd033e8b06c405ea7464bf97cd84018",
			Subject:     "The self-test of the VIP @VIP@ fails",
			Explanation: "The service requested a challenge that does not exist from port 80 of the VIP, and\nrepeated the request. Neither got the answer of the ingress. A renewal would fail in\nthe same way. The remediation of @CAUSE@ is in\n" + docurl.Troubleshooting + ".\nSet selfTest.interval: 0s to turn self-tests off.",
		},
		{
			Event: "self-test-recovered", ID: "f8076e53d4bd4e13b310560a3e4f4e03",
			Subject:     "The self-test of the VIP @VIP@ succeeds again",
			Explanation: "A request to port 80 of the VIP got the answer of the ingress.",
		},
		{
			Event: "self-test", ID: "932403aac20640e7a477d4f15d499018",
			Subject:     "The self-test cannot run",
			Explanation: "ERROR contains the reason. The service retries within minutes. Challenges are\nanswered meanwhile.",
		},
		{
			Event: "vip-test-failed", ID: "6eba3517950343809b08cf6d7edcc08f",
			Subject:     "The test of the VIP @VIP@ from this host fails",
			Explanation: "This host does not hold the VIP. It requested port 80 of it, as a client outside\nthe holder. It got no answer of http01-proxyd three times in a row, or answers of two\nhosts. Clients outside the cluster can be affected in the same way. The\nremediation of @CAUSE@ is in\n" + docurl.Troubleshooting + ".\nSet vips.testInterval: 0s to turn these tests off.",
		},
		{
			Event: "vip-test-recovered", ID: "614ff538f8254bfebad093623fb4cb94",
			Subject:     "The test of the VIP @VIP@ from this host succeeds again",
			Explanation: "A request of this host to port 80 of the VIP got the answer of http01-proxyd.",
		},
		{
			Event: "certificate-name", ID: "3f0a6c2e9d5b4b0f8a717c04e2b96d15",
			Subject:     "The API's certificate is not monitored, because the API's name is unknown",
			Explanation: "The API server presents the certificate of cert-manager only to clients that use\nits name. Add that name to `hosts` of /etc/http01-proxyd/config.yaml. Challenges\nfor other names are rejected then. On OpenShift,\n/etc/kubernetes/apiserver-url.env contains the name.",
		},
		{
			Event: "trust", ID: "98c9348161444570bee5d53f9f43c785",
			Subject:     "@COUNT@ CAs are trusted for TLS to the ingress",
			Explanation: "They are from @SOURCE@. A change of upstream.trustedCA applies within a second.\nWithout that file, this host's own CAs apply.",
		},
		{
			Event: "trust-rejected", ID: "122ebae29a12471b94c3d2d506bc5017",
			Subject:     "@PATH@ is rejected",
			Explanation: "The previous @COUNT@ CAs stay trusted. The message contains the fault and its\nline. A corrected file is reloaded automatically.",
		},
		{
			Event: "trust-ignored", ID: "76905d5e27b342e19f10c049b02926e9",
			Subject:     "A certificate of @PATH@ is not trusted",
			Explanation: "All others in the file are trusted. The message contains the certificate and the\nreason.",
		},
		{
			Event: "egress", ID: "dc5479fd3eb744bba7395e80d8026fc2",
			Subject:     "The egress proxy settings have changed",
			Explanation: "The file or the configuration contains another egress proxy. It is used once the\nendpoints of egressProxy.readinessEndpoints have answered through it. Until then,\nthe accepted one stays in use.",
		},
		{
			Event: "egress-accepted", ID: "63d8dbe161c54279bbe5861d728c9670",
			Subject:     "The egress proxy is accepted",
			Explanation: "@HTTP_PROXY@ for http and @HTTPS_PROXY@ for https, from @SOURCE@, are in use. With\negressProxy.upstream: auto, ingress addresses outside of the no-proxy list are\nreached through it. `http01-proxyd status` lists them.",
		},
		{
			Event: "egress-pending", ID: "fb710fbf7db8463e94a9d1a13c7bf4d5",
			Subject:     "The egress proxy is not accepted yet",
			Explanation: "A readiness endpoint did not answer through @HTTP_PROXY@ or @HTTPS_PROXY@. ERROR\ncontains the endpoint and the reason. The service retries at least every minute.",
		},
		{
			Event: "egress-rejected", ID: "5d052b00c49e40ccaf8e6003f9b4fe4c",
			Subject:     "The egress proxy settings are rejected",
			Explanation: "ERROR contains the fault and the line, never the value, which may be a password.\nThe accepted settings stay in use. On OpenShift, the machine-config-operator\nwrites the files from proxy/cluster.",
		},
		{
			Event: "egress-resolve", ID: "161e62da1f8c4a11870ff4474856b6c6",
			Subject:     "The name of the egress proxy cannot be resolved",
			Explanation: "Ingress addresses are reached through it, and MESSAGE has the reason. The service\nqueries the DNS servers of /etc/resolv.conf again at least every minute.",
		},
		{
			Event: "exporter", ID: "78f6d82486ea4214b5c34e7e77ca4499",
			Subject:     "The state of the metrics exporter has changed",
			Explanation: "Metrics are served by a separate process. Challenges do not depend on it.",
		},
		{
			Event: "notify", ID: "1dcd327f761e47cbbb7e8913655c1d15",
			Subject: "A notification to systemd failed",
		},
		{
			Event: "store", ID: "9672be1a7fed4bb9a92fa271dbc52933",
			Subject:     "systemd's file descriptor store was updated",
			Explanation: "Listening sockets are stored there so that a restart refuses no connection.",
		},
		{
			Event: "stopping", ID: "c44a66f4cf2543469cbe4f50bdbcda98",
			Subject: "The service cannot distinguish a stop from a restart",
		},
		{
			Event: "stopped", ID: "1e2ed6cb64704f1f934b8db4b18fbdb1",
			Subject: "The service has stopped",
		},
		{
			Event: "file-watch", ID: "4f859933fdf0445f97e485b6761978dd",
			Subject:     "Files cannot be watched",
			Explanation: "They are read periodically instead.",
		},
		{
			Event: "address-overflow", ID: "2e460a9618944a2399855162fd0b00ea",
			Subject:     "Address events were lost",
			Explanation: "All addresses were read again, so no change is missed.",
		},
		{
			Event: "address-resubscribe", ID: "310a853eec9a42f28ea9877af376bc25",
			Subject: "The subscription to address events was renewed",
		},
		{
			Event: "log-lost", ID: "64e752cc93a948b681f72b0a43c20f56",
			Subject:     "Log entries were lost",
			Explanation: "The journal did not accept them in time.",
		},
	}
}
