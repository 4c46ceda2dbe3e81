#!/bin/sh
# Before a removal: refuse while jobs run, and stop the services. Argument: remove (deb) or 0 (rpm).
# Before an upgrade too: remove the compiled Python files, which no package owns.
set -e
jobs=/sys/fs/cgroup/wattfold.slice/wattfold-jobs.service
removal=
case "$1" in remove | 0) removal=yes ;; esac
if [ "$removal" ] && [ -d "$jobs" ] && find "$jobs" -mindepth 2 -name cgroup.procs ! -path "$jobs/holder/*" -exec cat {} + | grep -q .; then
  echo "wattfold-agent: jobs run on this node; drain it (wattfold node drain) or cancel them first" >&2
  exit 1
fi
if [ "$removal" ] && [ -d /run/systemd/system ]; then
  systemctl disable --now wattfold-agent.service || true
  # Its unit refuses a stop, because that ends jobs.
  systemctl kill wattfold-jobs.service 2>/dev/null || true
fi
list() { dpkg -L wattfold-agent 2>/dev/null || rpm -ql wattfold-agent; }
list | sed -n 's|/[^/]*\.py$|/__pycache__|p' | sort -u | xargs -r rm -rf
