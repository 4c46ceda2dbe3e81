"""The program of a source: import everything, then clone on request (see ``start``)."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import socket
import sys

from warm import start

from wattfold.coordinator.policies import registry

end = socket.socket(fileno=int(sys.argv[1]))
end.set_inheritable(False)
for name in start.MODULES:
    importlib.import_module(name)
with contextlib.suppress(ImportError, OSError):
    importlib.import_module("mfusepy")  # Tests that need it are skipped without.
for policy in registry.entries():
    if policy.variant.service is not None:
        policy.service({})
threads = os.listdir("/proc/self/task")
if len(threads) != 1:
    sys.exit(f"a source has {len(threads)} threads after its imports; a clone would lose them")
gc.collect()
gc.freeze()
end.send(b"ready")
start.run_clone(start.serve(end))
