#!/bin/sh
# Runs as root in the new root file system once its packages are there: the session's user, the workspace, and a clean-up
# of all that came from the machine that built it.
set -eu

groupadd --gid 1000 agent
useradd --uid 1000 --gid 1000 --home-dir /home/agent --create-home --shell /bin/bash agent
install -d -o 1000 -g 1000 -m 0755 /workspace

cat > /etc/apt/sources.list <<'SOURCES'
deb http://deb.debian.org/debian bookworm main
deb http://deb.debian.org/debian bookworm-updates main
deb http://deb.debian.org/debian-security bookworm-security main
SOURCES
rm -f /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/*proxy*

# The engine mounts its own over these (so that a build cannot remove them); what debootstrap left names this machine.
rm -f /etc/hostname /etc/resolv.conf 2>/dev/null || true
: > /etc/machine-id

find /var/lib/apt/lists /var/cache/apt /var/cache/debconf /var/log -type f ! -name '*.dat' -delete
find /usr/share/doc -type f ! -name copyright -delete
find /usr/share/doc -type d -empty -delete
rm -rf /usr/share/man/* /usr/share/info/* /usr/share/lintian /usr/share/locale/* /usr/share/zsh/help
