# shellcheck shell=sh
# Runs after the packages were unpacked, without their maintainer scripts.
set -eu
cd "$1"
# Network tests need no other part of the kernel.
for part in lib/modules/*/kernel/*; do
	case "$part" in
	*/net | */crypto | */lib | */arch | */drivers) ;;
	*) rm -r "$part" ;;
	esac
done
find lib/modules/*/kernel/drivers -mindepth 1 -maxdepth 1 ! -name net -exec rm -r {} +
find lib/modules/*/kernel/drivers/net -mindepth 1 -maxdepth 1 \
	! -name bonding ! -name veth.ko ! -name macvlan.ko ! -name dummy.ko -exec rm -r {} +
# Files that the maintainer scripts create.
cat usr/share/ca-certificates/mozilla/*.crt >etc/ssl/certs/ca-certificates.crt
echo 'root:x:0:0:root:/root:/bin/sh' >etc/passwd
echo 'root:x:0:' >etc/group
ln -s busybox bin/sh
ln -s busybox bin/mount
mkdir -p proc sys dev run root
rm -r usr/share usr/lib/*-linux-gnu/perl* usr/lib/*-linux-gnu/gconv lib/udev var/lib var/cache
