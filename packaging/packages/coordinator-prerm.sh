#!/bin/sh
# Before a removal: stop the service. Argument: remove (deb) or 0 (rpm).
# Before an upgrade too: remove the compiled Python files, which no package owns.
set -e
case "$1" in
  remove | 0) [ ! -d /run/systemd/system ] || systemctl disable --now wattfold-coordinator.service || true ;;
esac
list() { dpkg -L wattfold-coordinator 2>/dev/null || rpm -ql wattfold-coordinator; }
list | sed -n 's|/[^/]*\.py$|/__pycache__|p' | sort -u | xargs -r rm -rf
