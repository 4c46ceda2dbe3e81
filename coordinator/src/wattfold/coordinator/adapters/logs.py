"""The coordinator's log: the lines of `contract.log_text` on standard error, times in UTC."""

from __future__ import annotations

import logging
import sys
import time

from wattfold.contract.log_text import LINE_FORMAT, TIME_FORMAT, line


class LineFormatter(logging.Formatter):
    """Gives what libraries log the form of our own lines; a traceback follows as it is."""

    def __init__(self) -> None:
        super().__init__(LINE_FORMAT, TIME_FORMAT)
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:
        """One line, with an event in front."""
        if not record.message.startswith("event="):
            record.message = line("message", logger=record.name, text=record.message)
        return super().formatMessage(record)


def start_logging(verbose: bool) -> None:
    """Logs what happens in normal work; planning rounds as well when ``verbose``."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("wattfold").setLevel(logging.INFO)
    logging.getLogger("wattfold.planning").setLevel(logging.INFO if verbose else logging.WARNING)
