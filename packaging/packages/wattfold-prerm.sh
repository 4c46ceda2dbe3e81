#!/bin/sh
# Before the removal of the environment: remove the compiled Python files, which no package owns.
set -e
find /opt/wattfold/lib -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
