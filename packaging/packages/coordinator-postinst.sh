#!/bin/sh
# Arguments: configure OLD-VERSION (deb), or 1 for an installation and 2 for an upgrade (rpm).
set -e
/opt/wattfold/bin/python3 -m compileall -q -j 0 /opt/wattfold/lib >/dev/null || true
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers wattfold.conf
elif ! getent passwd wattfold >/dev/null; then
  useradd --system --user-group --comment "Wattfold coordinator" --home-dir /var/lib/wattfold --shell /bin/sh wattfold
fi
install -d -m 0755 /etc/wattfold
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  # Jobs and leases survive a restart of the coordinator.
  if [ "$1" = 2 ] || [ -n "$2" ]; then systemctl try-restart wattfold-coordinator.service || true; fi
fi
