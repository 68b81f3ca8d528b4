/** What the engine masks by default. A list of our own replaces that one. */
const maskedByEngines = [
  ...['/proc/asound', '/proc/acpi', '/proc/kcore', '/proc/keys', '/proc/latency_stats', '/proc/timer_list'],
  ...['/proc/timer_stats', '/proc/sched_debug', '/proc/scsi', '/sys/firmware', '/sys/devices/virtual/powercap'],
];

/**
 * Counters and tables of the whole kernel. A program in one container changes them at will and a program in another reads the exact
 * value, so each would carry a signal between containers without a network. Ordinary programs do without them. /proc/stat,
 * /proc/meminfo, /proc/loadavg and /proc/cgroups stay: top, free, make and the Java runtime need them.
 */
const kernelWide = [
  // Locks of open files are listed for every pid namespace, with ranges that their owner chooses.
  ...['/proc/locks', '/proc/key-users', '/proc/sys/kernel/pty/nr', '/proc/sys/fs/aio-nr', '/proc/sys/fs/file-nr'],
  ...['/proc/sys/fs/inode-nr', '/proc/sys/fs/inode-state', '/proc/sys/fs/dentry-state', '/proc/sys/fs/quota'],
  ...['/proc/diskstats', '/proc/partitions', '/proc/fs', '/sys/fs/ext4', '/sys/devices/virtual/block'],
  ...[
    '/sys/devices/virtual/bdi',
    '/proc/buddyinfo',
    '/proc/zoneinfo',
    '/proc/vmstat',
    '/proc/slabinfo',
    '/sys/kernel/slab',
  ],
  ...['/sys/devices/system/node/node0/vmstat', '/sys/devices/system/node/node0/numastat'],
  ...['/proc/pressure', '/proc/schedstat', '/proc/interrupts', '/proc/softirqs', '/proc/irq', '/sys/kernel/irq'],
];

export const maskedPaths: readonly string[] = [...maskedByEngines, ...kernelWide];
