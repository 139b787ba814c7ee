// SPDX-License-Identifier: Apache-2.0

package messageid

// MessageID returns the MESSAGE_ID of an event: 128 bits in hexadecimal, or empty for an unknown event.
func MessageID(event string) string { return ids[event] }

// ids are the MESSAGE_IDs by event, the field EVENT of an entry. An ID never changes and is never reused.
// systemd/http01-proxyd.catalog explains each of them.
var ids = map[string]string{ //nolint:gochecknoglobals // a constant table
	"state":                 "47eaa0992cb6416d86dc283cf0480ff9",
	"vip-gained":            "1509bb0a9bf143318a118783593942a4",
	"vip-lost":              "f5ec52ed0108447592e1bc7656670b14",
	"vip-released":          "59ba1b0d5c904158a909406c2e416788",
	"challenge-started":     "5d32fe61985f44e7aa095ee82bb29976",
	"challenge-changed":     "9a1e40b458154a9999e2d15364c7a500",
	"challenge-ended":       "68b4aef73eaa4e179d8a4eace693ae2d",
	"challenges-suppressed": "142c83647806457793e783e7eb04b39b",
	"rejected":              "3b041641178844f2a60df25453fe2e85",
	"source-limit":          "00a154d85ed84bccb5c719c2add9ca88",
	"evicted":               "c0290103855d4f5599ec8712e8e3574f",
	"status-report":         "f2aefda987b049d588480235ab79f949",
	"accept":                "6e704245a4ff41e3a7949b80dcb0b82e",
	"child-output":          "3da97574c82f48f3a9cd4ef193de32a5",
	"proxy":                 "de1b1471320a48eab7a788d106762832",
	"config":                "4350cc1721e54f21acd552a09ddbef12",
	"table":                 "9ed89eddd6844325b600e6129ec04ece",
	"microshift":            "c7dcaa276f914624b44869ae62cad469",
	"advertise-address":     "e7fe7ae8aef5402989e645e2e33e00ba",
	"limits":                "627bf3225fac4cb6a34acb115ee347dd",
	"listen":                "a930d55d954540f3ae889fe46f2c7a8c",
	"port":                  "43f2f1936e854f08b5927b0fe339d309",
	"drain":                 "990d3cd8381d422f850c86bd84e0164b",
	"certificate":           "e07cb5793e7f497bbcc1c0c8b0cdf20a",
	"renewal-failed":        "fb3e8ca9bec34792aeef4177d03f254d",
	"self-test-failed":      "ccd033e8b06c405ea7464bf97cd84018",
	"self-test-recovered":   "f8076e53d4bd4e13b310560a3e4f4e03",
	"self-test":             "932403aac20640e7a477d4f15d499018",
	"vip-test-failed":       "6eba3517950343809b08cf6d7edcc08f",
	"vip-test-recovered":    "614ff538f8254bfebad093623fb4cb94",
	"certificate-name":      "3f0a6c2e9d5b4b0f8a717c04e2b96d15",
	"trust":                 "98c9348161444570bee5d53f9f43c785",
	"trust-rejected":        "122ebae29a12471b94c3d2d506bc5017",
	"trust-ignored":         "76905d5e27b342e19f10c049b02926e9",
	"egress":                "dc5479fd3eb744bba7395e80d8026fc2",
	"egress-accepted":       "63d8dbe161c54279bbe5861d728c9670",
	"egress-pending":        "fb710fbf7db8463e94a9d1a13c7bf4d5",
	"egress-rejected":       "5d052b00c49e40ccaf8e6003f9b4fe4c",
	"egress-resolve":        "161e62da1f8c4a11870ff4474856b6c6",
	"exporter":              "78f6d82486ea4214b5c34e7e77ca4499",
	"notify":                "1dcd327f761e47cbbb7e8913655c1d15",
	"store":                 "9672be1a7fed4bb9a92fa271dbc52933",
	"stopping":              "c44a66f4cf2543469cbe4f50bdbcda98",
	"stopped":               "1e2ed6cb64704f1f934b8db4b18fbdb1",
	"file-watch":            "4f859933fdf0445f97e485b6761978dd",
	"address-overflow":      "2e460a9618944a2399855162fd0b00ea",
	"address-resubscribe":   "310a853eec9a42f28ea9877af376bc25",
	"log-lost":              "64e752cc93a948b681f72b0a43c20f56",
}
