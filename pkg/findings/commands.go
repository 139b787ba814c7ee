// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"slices"
	"strings"
)

// WithCommands returns the finding with the commands of its entry for these values, such as one set
// for each VIP. They keep the order of the entry, and none is there twice.
func (f Finding) WithCommands(all ...Values) Finding {
	e, _ := Lookup(f.ID)
	f.Commands = nil
	for _, template := range e.Commands {
		for _, values := range all {
			command, complete := FillCommand(template, values)
			if complete && !slices.Contains(f.Commands, command) {
				f.Commands = append(f.Commands, command)
			}
		}
	}
	return f
}

// HasCommand reports whether a command is one of the entry's, with values that no shell interprets.
// The administrator's tool passes a node's command to the shell of a workstation only then: the node
// is not trusted.
func (e Entry) HasCommand(command string) bool {
	return slices.ContainsFunc(e.Commands, func(template string) bool { return matches(command, template) })
}

// matches reports whether a command is the template with a plain word for each placeholder. A word
// ends where the text after the placeholder follows for the first time.
func matches(command, template string) bool {
	before, _, after := cutPlaceholder(template)
	rest, begins := strings.CutPrefix(command, before)
	if before == template || !begins {
		return command == template
	}
	text, _, _ := cutPlaceholder(after)
	end := len(rest)
	if text != "" {
		end = strings.Index(rest, text)
	}
	return end > 0 && isPlain(rest[:end]) && matches(rest[end:], after)
}

// FillCommand returns a command of an entry with its values, each of which the shell reads as one word. It is
// incomplete if a value is missing or not printable, if a word would begin like an option, which quotes do not
// prevent, or if a value in single quotes is not plain.
func FillCommand(template string, values Values) (command string, complete bool) {
	var b strings.Builder
	for rest := template; ; {
		before, name, after := cutPlaceholder(rest)
		b.WriteString(before)
		if name == "" {
			return b.String(), true
		}
		value := values[name]
		quoted := strings.Count(template[:len(template)-len(after)], "'")%2 == 1
		switch {
		case value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }),
			strings.HasPrefix(value, "-") && strings.HasSuffix(before, " "), quoted && !isPlain(value):
			return "", false
		case quoted:
			b.WriteString(value)
		default:
			b.WriteString(ShellWord(value))
		}
		rest = after
	}
}

// cutPlaceholder splits a template at its first placeholder, such as {vip}. Without one, the name is
// empty. The braces of JSON, of a JSONPath and of the shell contain other characters.
func cutPlaceholder(template string) (before, name, after string) {
	for i := range len(template) {
		if template[i] != '{' {
			continue
		}
		end := i + 1
		for end < len(template) && isLetter(rune(template[end])) {
			end++
		}
		if end > i+1 && end < len(template) && template[end] == '}' {
			return template[:i], template[i+1 : end], template[end+1:]
		}
	}
	return template, "", ""
}

func isLetter(c rune) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// ShellWord returns a text as one word of the shell.
func ShellWord(text string) string {
	if isPlain(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// isPlain reports whether a shell, and a JSON text in single quotes, read a text as it is. It is no
// option of a command either.
func isPlain(text string) bool {
	const marks = "_./:=@%+-"
	return text != "" && !strings.ContainsAny(text[:1], "=@%+-") && !strings.ContainsFunc(text, func(r rune) bool {
		return !isLetter(r) && (r < '0' || r > '9') && !strings.ContainsRune(marks, r)
	})
}

// Commands of several entries.
const (
	showRoutes = "oc get route -A | grep -F {name}"
	// askRouter requests a challenge that does not exist from the router itself.
	askRouter     = "curl -sSi --max-time 10 -H 'Host: {name}' http://{router}/.well-known/acme-challenge/x"
	askAddress    = "curl -sSi --max-time 10 http://{router}/"
	showSolvers   = "oc get pod,ingress,route -A -l acme.cert-manager.io/http01-solver=true -o wide"
	showRouters   = "oc get pod -n openshift-ingress -o wide"
	showRouterLog = "oc logs -n openshift-ingress deployment/router-default --tail=50"
	showPROXY     = "oc get ingresscontroller default -n openshift-ingress-operator -o jsonpath='{.spec.endpointPublishingStrategy.hostNetwork.protocol}{\"\\n\"}'"
	showChallenge = "oc get challenge -A -o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,STATE:.status.state,HOST:.spec.dnsName,TOKEN:.spec.token"
	showFailures  = "oc describe challenge -A"
	showRenewal   = "oc get certificate,certificaterequest,order,challenge -A"
	showNamed     = "oc get apiserver cluster -o jsonpath='{.spec.servingCerts.namedCertificates}{\"\\n\"}'"
	showPresented = "openssl s_client -connect {router} </dev/null 2>/dev/null | openssl x509 -noout -issuer -dates -ext subjectAltName"
	showJournal   = "journalctl -u http01-proxyd -n 30 --no-pager"
	showProxy     = "oc get proxy cluster -o yaml"
	showListeners = "ss -lntp 'sport = :{port}'"

	// deleteVIP deletes an address with the length of its prefix, which the kernel requires.
	deleteVIP = `ip -br address show to {vip} | ` +
		`while read -r link _ address _; do ip address delete "$address" dev "${link%@*}"; done`
	// deleteLeftVIP deletes an address that a killed keepalived or kube-vip left behind.
	deleteLeftVIP = `pgrep -x "keepalived|kube-vip" || ` + deleteVIP
	twoHolders    = "If keepalived was killed on one of them, delete the VIP there. "

	// addFeatureGate adds the setting to overrides that replace the operator's feature gates. It changes nothing
	// without such overrides, or if they contain it.
	addFeatureGate = `oc get certmanager.operator.openshift.io cluster ` +
		`-o jsonpath='{.spec.unsupportedConfigOverrides.controller.args}' | ` +
		`grep -e --feature-gates= | grep -v ACMEHTTP01IngressPathTypeExact | ` +
		`sed 's/--feature-gates=/&ACMEHTTP01IngressPathTypeExact=false,/' | while read -r args; do ` +
		`oc patch certmanager.operator.openshift.io cluster --type=merge ` +
		`--patch='{"spec":{"unsupportedConfigOverrides":{"controller":{"args":'"$args"'}}}}'; done`

	// renewNow sets the condition that "cmctl renew" sets, at each Certificate with the name. The patch replaces
	// a condition Issuing=False of a failed attempt, and cert-manager sets the others again.
	renewNow = `oc get certificate -A -o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,NAMES:.spec.dnsNames | ` +
		`awk -v host={name} '{gsub(/[][]/, " "); for (i = 3; i <= NF; i++) if ($i == host) print $1, $2}' | ` +
		`while read -r namespace name; do oc patch certificate "$name" -n "$namespace" --subresource=status --type=merge ` +
		`--patch='{"status":{"conditions":[{"type":"Issuing","status":"True","reason":"ManuallyTriggered",` +
		`"message":"renewed by hand","lastTransitionTime":"'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'"}]}}'; done`
)
