"""What all tests need of the process they run in."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# How long an example takes says something of the machine, which may be busy; nothing of the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# A shell that starts the tests in the background has SIGINT and SIGQUIT ignored, and every program
# they start would inherit that: Ctrl-C is tested as on a terminal, wherever the tests run.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
