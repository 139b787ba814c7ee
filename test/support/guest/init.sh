#!/bin/sh
# The guest's init process: runs the given script, prints its exit status and powers
# the machine off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
# The console is the script's alone.
echo 1 >/proc/sys/kernel/printk
# Here, so that the machine that packs the files needs no depmod.
depmod
ip link set lo up
sh /script
echo "guest: exit status $?"
echo o >/proc/sysrq-trigger
# The end of process 1 would be the kernel's panic.
while :; do read -r _; done
