#!/bin/sh
# After the installation of a package: compile its Python files, so that ordinary accounts start fast.
set -e
/opt/wattfold/bin/python3 -m compileall -q -j 0 /opt/wattfold/lib >/dev/null || true
