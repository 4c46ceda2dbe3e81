"""The program of a source: import everything, then clone on request (see ``start``)."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import socket
import sys

from warm import start

from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.power.ledger import PowerLedger
from wattfold.coordinator.core.state.state import CoreSettings, State
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
# The functions that write and read journals are generated at first use: a third of a start.
codec.load_state(codec.dump_state(State(settings=CoreSettings(), ledger=PowerLedger(budget_uw=0))))
for name, kind in codec.EVENT_TYPES.items():
    with contextlib.suppress(AttributeError):  # An event without values.
        codec.dump_event(kind.__new__(kind))
    with contextlib.suppress(codec.CodecError):
        codec.load_event(name, "{}")
threads = os.listdir("/proc/self/task")
if len(threads) != 1:
    sys.exit(f"a source has {len(threads)} threads after its imports; a clone would lose them")
gc.collect()
gc.freeze()
end.send(b"ready")
start.run_clone(start.serve(end))
