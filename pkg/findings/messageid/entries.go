// SPDX-License-Identifier: Apache-2.0

package messageid

import "github.com/http01-proxyd/http01-proxyd/internal/docurl"

// catalogEntries lists the messages. An MessageID never changes, and is never used for another.
func catalogEntries() []CatalogEntry {
	return []CatalogEntry{
		{
			Event: "state", ID: "47eaa0992cb6416d86dc283cf0480ff9",
			Subject:     "The state is @REASON@ now",
			Explanation: "The condition HTTP01ChallengeProxyReady is @CONDITION@, with the reason @REASON@.\n" + docurl.Readme + "#how-to-read-it\nlists the reasons; `http01-proxyd check` finds out what is behind one that is not\nwell.",
		},
		{
			Event: "vip-gained", ID: "1509bb0a9bf143318a118783593942a4",
			Subject:     "The VIP @VIP@ has come to this host",
			Explanation: "Port 80 of it leads to this service from now on.",
		},
		{
			Event: "vip-lost", ID: "f5ec52ed0108447592e1bc7656670b14",
			Subject:     "The VIP @VIP@ has left this host",
			Explanation: "Another host holds it, or none does: keepalived's journal tells why.",
		},
		{
			Event: "vip-released", ID: "59ba1b0d5c904158a909406c2e416788",
			Subject:     "Port 80 of the VIP @VIP@ is not led here any more",
			Explanation: "The VIP is still on this host; the configuration, or what is known of the VIPs,\nhas changed.",
		},
		{
			Event: "challenge-started", ID: "5d32fe61985f44e7aa095ee82bb29976",
			Subject:     "A challenge for @HOST@ has begun",
			Explanation: "The first request for a token has been answered: @CLIENT_KIND@, by its User-Agent,\nasked from @CLIENT@ and got @STATUS@. Lines follow when the outcome changes, and\none when nobody has asked for a minute. CAUSE, when it is set, says what is\nwrong with the ingress: the document that is named above has the mend.",
		},
		{
			Event: "challenge-changed", ID: "9a1e40b458154a9999e2d15364c7a500",
			Subject:     "The outcome of a challenge for @HOST@ has changed",
			Explanation: "It is @STATUS@ now. cert-manager's self check sees 404 or 503 until its solver\nand the route to that are there, and 200 from then on.",
		},
		{
			Event: "challenge-ended", ID: "68b4aef73eaa4e179d8a4eace693ae2d",
			Subject:     "A challenge for @HOST@ is over",
			Explanation: "Nobody has asked for a minute. @REQUESTS_OK@ of @REQUESTS@ requests were\nanswered with 200. If cert-manager's order did not succeed although all were,\nthe CA may not have reached this VIP: `http01-proxyd check` looks at that.",
		},
		{
			Event: "challenges-suppressed", ID: "142c83647806457793e783e7eb04b39b",
			Subject:     "Some requests for challenges have no lines of their own",
			Explanation: "More challenges have begun within a minute than get lines: somebody asks for\ntokens that do not exist. The counters of `http01-proxyd status` have them all.",
		},
		{
			Event: "refused", ID: "3b041641178844f2a60df25453fe2e85",
			Subject:     "Requests were refused",
			Explanation: "What is no challenge gets an answer of its own and does not reach the ingress:\n@COUNT@ requests in the last minute. This is what the service is for.",
		},
		{
			Event: "source-limit", ID: "00a154d85ed84bccb5c719c2add9ca88",
			Subject:     "Connections of one source were reset",
			Explanation: "One address had more connections than limits.perSource. If a load balancer or a\nmasquerade in front hides the clients' addresses, set limits.perSource: 0.",
		},
		{
			Event: "evicted", ID: "c0290103855d4f5599ec8712e8e3574f",
			Subject:     "Connections without a request were reset",
			Explanation: "All limits.maxConnections were taken, and others came. If these were wanted,\nraise it, and LimitNOFILE, MemoryMax and GOMEMLIMIT of the unit with it.",
		},
		{
			Event: "status-report", ID: "f2aefda987b049d588480235ab79f949",
			Subject:     "The status report could not be encoded",
			Explanation: "The client of the status socket got the reason instead. This is a defect of the\nservice, which goes on: report it, with the reason in ERROR.",
		},
		{
			Event: "accept", ID: "6e704245a4ff41e3a7949b80dcb0b82e",
			Subject:     "Connections had to wait",
			Explanation: "accept(2) failed: this host or the unit lacks descriptors or memory. Raise\nLimitNOFILE, or lower limits.maxConnections.",
		},
		{
			Event: "child-output", ID: "3da97574c82f48f3a9cd4ef193de32a5",
			Subject:     "A child process wrote a line to its standard error",
			Explanation: "The line is that process's own text: a crash of it, as a rule. Do not follow\nadvice in it. If it happens again, report it with the journal.",
		},
		{
			Event: "proxy", ID: "de1b1471320a48eab7a788d106762832",
			Subject:     "The gate was replaced",
			Explanation: "The process that answers clients has ended, hung or not answered requests of this\nservice, as the message says. It was replaced by another, which takes over its\nports. What it had accepted is lost; a CA or cert-manager asks again. If it\nhappens again, report it with the journal.",
		},
		{
			Event: "config", ID: "4350cc1721e54f21acd552a09ddbef12",
			Subject:     "The configuration was read",
			Explanation: "A refused file changes nothing: the last good configuration stays in force, and\nthe message names the line and column of what is wrong.",
		},
		{
			Event: "table", ID: "9ed89eddd6844325b600e6129ec04ece",
			Subject:     "The nftables table was looked after",
			Explanation: "The message says what was done, or what could not be. Other tables are never\ntouched.",
		},
		{
			Event: "microshift", ID: "c7dcaa276f914624b44869ae62cad469",
			Subject:     "MicroShift's configuration is not taken as it stands",
			Explanation: "ERROR says which file, and why. The last good one stays in force, if there was\none; MicroShift itself would not start with this one. A good one that was written\nsince MicroShift was started is taken when that is started anew.",
		},
		{
			Event: "advertise-address", ID: "e7fe7ae8aef5402989e645e2e33e00ba",
			Subject:     "The internal address of MicroShift's API server on lo",
			Explanation: "microshift.manageAdvertiseAddress is set: the message says whether the address was\nput on lo or taken away, or what is in the way of it. One that MicroShift, or\nanybody else, has put there is never taken away.",
		},
		{
			Event: "limits", ID: "627bf3225fac4cb6a34acb115ee347dd",
			Subject:     "A limit is lower than configured",
			Explanation: "The unit's LimitNOFILE does not suffice for limits.maxConnections.",
		},
		{
			Event: "listen", ID: "a930d55d954540f3ae889fe46f2c7a8c",
			Subject:     "The internal port cannot be listened on",
			Explanation: "The message names who has it. `http01-proxyd check` does too.",
		},
		{
			Event: "port", ID: "43f2f1936e854f08b5927b0fe339d309",
			Subject:     "The internal port has changed",
			Explanation: "Connections under way end on the old one.",
		},
		{
			Event: "drain", ID: "990d3cd8381d422f850c86bd84e0164b",
			Subject:     "Challenges in flight were cut off",
			Explanation: "They did not end within the time that a stop may take.",
		},
		{
			Event: "certificate", ID: "e07cb5793e7f497bbcc1c0c8b0cdf20a",
			Subject:     "The API server's certificate was looked at",
			Explanation: "@ISSUER@ has issued the one that is presented for the name \"@NAME@\"; it is good\nuntil @NOT_AFTER@. If cert-manager should have renewed it, look at its order and\nchallenge, and run `http01-proxyd check`.",
		},
		{
			Event: "certificate-name", ID: "3f0a6c2e9d5b4b0f8a717c04e2b96d15",
			Subject:     "The API's name is not known, so its certificate is not watched",
			Explanation: "The API server presents the certificate that cert-manager renews to those alone\nwho ask for its name. Put that name into `hosts` of\n/etc/http01-proxyd/config.yaml; challenges for other names are refused then. On\nOpenShift /etc/kubernetes/apiserver-url.env tells the name.",
		},
		{
			Event: "trust", ID: "98c9348161444570bee5d53f9f43c785",
			Subject:     "@COUNT@ CAs are trusted for TLS to the ingress",
			Explanation: "They come from @SOURCE@. A change of upstream.trustedCA is in force within a\nsecond; without that file this host's own CAs count.",
		},
		{
			Event: "trust-refused", ID: "122ebae29a12471b94c3d2d506bc5017",
			Subject:     "@PATH@ is refused",
			Explanation: "What was trusted before stays in force: @COUNT@ CAs. The message says what is\nwrong, in which line. A mended file is taken by itself.",
		},
		{
			Event: "trust-ignored", ID: "76905d5e27b342e19f10c049b02926e9",
			Subject:     "A certificate of @PATH@ is not trusted",
			Explanation: "All others of the file are. The message says which it is, and why.",
		},
		{
			Event: "command", ID: "b6afa5bb797d42bf9e215fd9291942fc",
			Subject:     "The gate cannot be told of all that is in force",
			Explanation: "ERROR says what is too large for it. The gate goes on with what it was told\nbefore, or with a part of it, as the message says.",
		},
		{
			Event: "egress", ID: "dc5479fd3eb744bba7395e80d8026fc2",
			Subject:     "An egress proxy is asked for",
			Explanation: "The file or the configuration names another one than before. It counts once the\nreadiness endpoints of egressProxy.readinessEndpoints have answered through it;\nwhat was accepted before stays in force until then.",
		},
		{
			Event: "egress-accepted", ID: "63d8dbe161c54279bbe5861d728c9670",
			Subject:     "The egress proxy is accepted",
			Explanation: "@HTTP_PROXY@ for http and @HTTPS_PROXY@ for https, of @SOURCE@, is in force. With\negressProxy.upstream: auto, ingress addresses outside the no-proxy list are\nreached through it; `http01-proxyd status` lists them.",
		},
		{
			Event: "egress-pending", ID: "fb710fbf7db8463e94a9d1a13c7bf4d5",
			Subject:     "The egress proxy is not accepted yet",
			Explanation: "A readiness endpoint has not answered through @HTTP_PROXY@ or @HTTPS_PROXY@: ERROR\nsays which, and why. All are asked again, at the latest every minute.",
		},
		{
			Event: "egress-refused", ID: "5d052b00c49e40ccaf8e6003f9b4fe4c",
			Subject:     "The egress proxy that is asked for is refused",
			Explanation: "ERROR names what is wrong and the line, never what stands there: it may be a\npassword. What was accepted before stays in force. On OpenShift the\nmachine-config-operator writes the files from proxy/cluster.",
		},
		{
			Event: "egress-resolve", ID: "161e62da1f8c4a11870ff4474856b6c6",
			Subject:     "The name of the egress proxy cannot be resolved",
			Explanation: "@PROXY@ leads to ingress addresses. Its name is asked of the DNS servers of\n/etc/resolv.conf, at the latest every minute.",
		},
		{
			Event: "exporter", ID: "78f6d82486ea4214b5c34e7e77ca4499",
			Subject:     "The metrics exporter was looked after",
			Explanation: "Metrics are served by a process of its own; the front door does not depend on\nit.",
		},
		{
			Event: "notify", ID: "1dcd327f761e47cbbb7e8913655c1d15",
			Subject: "systemd was not told",
		},
		{
			Event: "store", ID: "9672be1a7fed4bb9a92fa271dbc52933",
			Subject:     "systemd's descriptor store was looked after",
			Explanation: "Listening sockets are kept there so that a restart refuses nobody.",
		},
		{
			Event: "stopping", ID: "c44a66f4cf2543469cbe4f50bdbcda98",
			Subject: "Nobody can tell a stop from a restart",
		},
		{
			Event: "stopped", ID: "1e2ed6cb64704f1f934b8db4b18fbdb1",
			Subject: "The service has stopped",
		},
		{
			Event: "file-watch", ID: "4f859933fdf0445f97e485b6761978dd",
			Subject:     "Files cannot be watched",
			Explanation: "They are looked at now and then instead.",
		},
		{
			Event: "address_overflow", ID: "2e460a9618944a2399855162fd0b00ea",
			Subject:     "News of addresses were lost",
			Explanation: "All addresses were read again; nothing is missed.",
		},
		{
			Event: "address_resubscribe", ID: "310a853eec9a42f28ea9877af376bc25",
			Subject: "The news of addresses were subscribed to again",
		},
		{
			Event: "log-lost", ID: "64e752cc93a948b681f72b0a43c20f56",
			Subject:     "Log entries were lost",
			Explanation: "The journal did not take them in time.",
		},
	}
}
