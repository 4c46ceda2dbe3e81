#!/bin/sh
# After a removal. Argument: purge (deb) also removes the state; remove (deb) and 0 (rpm) leave it.
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
[ "$1" = purge ] || exit 0
rm -rf /var/lib/wattfold-agent /run/wattfold-agent /etc/systemd/system/wattfold-agent.service.d
rm -f /etc/wattfold/agent.toml /etc/wattfold/agents.token
rmdir --ignore-fail-on-non-empty /etc/wattfold 2>/dev/null || true
