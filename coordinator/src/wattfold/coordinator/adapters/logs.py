"""Log of the coordinator: lines of `contract.log_text` on standard error, times in UTC."""

from __future__ import annotations

import logging

from wattfold import log_output


def start_logging(verbose: bool) -> None:
    """Log normal operation, and planning rounds as well when ``verbose``."""
    log_output.start()
    logging.getLogger("wattfold").setLevel(logging.INFO)
    logging.getLogger("wattfold.planning").setLevel(logging.INFO if verbose else logging.WARNING)
