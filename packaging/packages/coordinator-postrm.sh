#!/bin/sh
# After a removal. Argument: purge (deb) also removes the journal and the account; others leave them.
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
[ "$1" = purge ] || exit 0
rm -rf /var/lib/wattfold /run/wattfold
rm -f /etc/wattfold/coordinator.toml /etc/wattfold/coordinator.token
rmdir --ignore-fail-on-non-empty /etc/wattfold 2>/dev/null || true
if getent passwd wattfold >/dev/null && command -v userdel >/dev/null; then userdel wattfold || true; fi
