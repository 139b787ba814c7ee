#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
## kola:
##   exclusive: true
##   timeoutMin: 15
##   description: http01-proxyd serves challenges after its installation and after two reboots
set -xeuo pipefail

fail() {
	echo "$*" >&2
	http01-proxyd status >&2 || true
	journalctl --no-pager --unit=http01-proxyd --lines=50 >&2
	exit 1
}

# The response of the router, or of the proxy itself, with the status in the last line.
request() {
	curl --silent --show-error --noproxy '*' --max-time 10 --write-out '\n%{http_code}' "http://203.0.113.5$1"
}

await_serving() {
	for _ in {1..60}; do
		[[ $(http01-proxyd status 2>/dev/null) == *Serving* ]] && return
		sleep 1
	done
	fail "The service does not report Serving."
}

check_serving() {
	await_serving
	[ "$(request /.well-known/acme-challenge/token)" = $'token.key\n200' ] || fail "A challenge is not forwarded."
	[[ $(request /) == *$'\n400' ]] || fail "Another request does not get 400."
	local table
	table=$(nft list table inet http01-proxyd)
	[[ $table == *203.0.113.5* ]] || fail "The table does not have the VIP."
	[[ $table != *203.0.113.6* ]] || fail "The table has the ingress VIP."
}

# The commands that "sos report" runs. Only check may exit with 1.
check_sos() {
	local line
	while read -r line; do
		case $line in '' | '#'* | ':'*) continue ;; esac
		bash -c "$line" > /tmp/sos.out || [[ $line == *' check '* ]] || fail "$line failed."
		[ -s /tmp/sos.out ] || fail "$line prints nothing."
	done < "$KOLA_EXT_DATA/http01-proxyd.sos"
}

# SELinux and systemd must not have denied anything to the service.
check_denials() {
	if command -v ausearch && [ -e /var/log/audit/audit.log ]; then
		! ausearch --message avc --start boot --raw 2>/dev/null | grep -E 'http01|comm="systemd"' || fail "SELinux denied an access."
	fi
}

case ${AUTOPKGTEST_REBOOT_MARK:-} in
"")
	cp --recursive "$KOLA_EXT_DATA/usr/local/." /usr/local/
	cp --recursive "$KOLA_EXT_DATA/etc/." /etc/
	if command -v restorecon; then restorecon -R /usr/local/bin /etc/systemd/system; fi
	systemctl daemon-reload
	systemctl enable --now http01-proxyd
	check_serving
	check_sos
	/tmp/autopkgtest-reboot installed
	;;
installed)
	check_serving
	check_denials
	# After a loss of power, only what is on the disk counts.
	systemctl kill --signal=KILL http01-proxyd
	check_serving
	/tmp/autopkgtest-reboot killed
	;;
killed)
	check_serving
	check_denials
	systemctl disable --now http01-proxyd
	! nft list table inet http01-proxyd 2>/dev/null || fail "The table remains after a stop."
	;;
*)
	fail "unexpected mark $AUTOPKGTEST_REBOOT_MARK"
	;;
esac
