// SPDX-License-Identifier: Apache-2.0

package install

// removerName is the name of the installer's own unit. systemd searches /usr/local/lib after /etc
// (systemd.unit(5), "Unit File Load Path"). When the MachineConfig is deleted, the action of the
// node disruption policy restarts the installer, and so runs the unit in /usr/local/lib.
const removerName = "http01-proxyd-install.service"

// Remover is that unit. A copy in /run stays until the next boot: the machine-config-daemon
// runs the action once for each deleted unit, and again when it repeats a failed update. An
// empty folder stays if a package of the operating system owns it, such as the folder of sos.
const Remover = `# SPDX-License-Identifier: Apache-2.0
# Written by http01-proxyd install.
[Unit]
Description=Removal of http01-proxyd after its MachineConfig was deleted
ConditionFileNotEmpty=!/etc/systemd/system/http01-proxyd.service
StartLimitIntervalSec=0

[Service]
Type=oneshot
TimeoutStartSec=5min
ExecStart=-mkdir -p /run/systemd/system
ExecStart=-cp --update /usr/local/lib/systemd/system/http01-proxyd-install.service /run/systemd/system/
ExecStart=-systemctl stop http01-proxyd*.timer
ExecStart=-systemctl stop http01-proxyd.service
ExecStart=-/usr/local/bin/http01-proxyd cleanup
ExecStart=-systemctl stop http01-proxyd-table.service
ExecStart=-systemctl reset-failed http01-proxyd*
ExecStart=-find /etc/systemd/system -type l -xtype l -name http01-proxyd* -delete
ExecStart=-rm -rf /usr/local/bin/http01-proxyd /usr/local/bin/http01-proxyd.previous /usr/local/bin/http01-proxyd.previous.next
ExecStart=-rm -rf /usr/local/bin/.http01-proxyd.next /run/http01-proxyd /run/http01-proxyd-install
ExecStart=-rm -rf /var/lib/http01-proxyd /var/lib/private/http01-proxyd
ExecStart=-find /usr/local/lib/systemd/system -maxdepth 1 -name *http01-proxyd-install.service* -delete
ExecStart=-find /etc/http01-proxyd /etc/systemd/system -maxdepth 1 -type d -name http01-proxyd* -empty -delete
ExecStart=-timeout --kill-after=5 20 journalctl --update-catalog
ExecStart=-find /usr/local/lib/systemd/catalog /usr/local/lib/systemd/system /usr/local/lib/systemd /etc/sos/extras.d /etc/sos -maxdepth 0 -type d -empty -not -exec rpm --query --quiet --file {} \; -delete
ExecStart=echo http01-proxyd is removed from this host
`
