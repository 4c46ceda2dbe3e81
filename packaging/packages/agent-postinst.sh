#!/bin/sh
# Arguments: configure OLD-VERSION (deb), or 1 for an installation and 2 for an upgrade (rpm).
set -e
/opt/wattfold/bin/python3 -m compileall -q -j 0 /opt/wattfold/lib >/dev/null || true
if [ -d /run/systemd/system ]; then
  systemd-tmpfiles --create wattfold-agent.conf || true
  systemctl daemon-reload
  # Jobs survive a restart of the agent.
  if [ "$1" = 2 ] || [ -n "$2" ]; then systemctl try-restart wattfold-agent.service || true; fi
else
  install -d -m 0755 /etc/wattfold
  install -d -m 0700 /var/lib/wattfold-agent
  install -d -m 0711 /run/wattfold-agent
fi
