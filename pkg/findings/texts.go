// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"embed"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/docurl"
)

// texts has a file for each check of the cluster.
//
//go:embed *.txt
var texts embed.FS

// clusterOnlyEntries reads the entries of a check that no host runs. The files say their form.
func clusterOnlyEntries(check string) (all []Entry) {
	text, err := texts.ReadFile(check + ".txt")
	if err != nil {
		panic(err) // it is part of the program
	}
	shared := strings.NewReplacer(
		"${showNamed}", showNamed, "${showRenewal}", showRenewal, "${showFailures}", showFailures, "${renewNow}", renewNow,
		"${deleteLeftVIP}", deleteLeftVIP, "${CertificateExpired}", docurl.CertificateExpired,
		"${BeforeTheSwitch}", docurl.BeforeTheSwitch, "${InternalName}", docurl.InternalName,
		"${TenCertificates}", docurl.TenCertificates,
	)
	_, entries, _ := strings.Cut(shared.Replace(string(text)), "\n\n")
	for entry := range strings.SplitSeq(strings.TrimSpace(entries), "\n\n") {
		lines := strings.Split(entry, "\n")
		id, level, _ := strings.Cut(lines[0], " ")
		all = append(all, Entry{
			ID: ID(id), Check: check, ClusterOnly: true, Level: Level(level),
			Symptom: lines[1], Message: lines[2], Remediation: lines[3], Commands: lines[4:],
		})
	}
	return all
}
