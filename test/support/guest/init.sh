#!/bin/sh
# The guest's init process: runs the given script, prints its exit status and powers
# the machine off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
# Kernel messages must not appear on the console, which has the script's output.
echo 1 >/proc/sys/kernel/printk
# depmod runs here because the machine that packs the files may lack it.
depmod
ip link set lo up
sh /script
echo "guest: exit status $?"
echo o >/proc/sysrq-trigger
# The kernel panics if process 1 exits.
while :; do read -r _; done
