"""The output files of a job, read as they grow.

Files are read with the rights of this process, on this machine. A file that is not here may be on
a node without a shared file system.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

import click

from wattfold.contract.os_text import os_bytes, shown_text
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.v1 import coordinator_pb2 as pb

CHUNK_BYTES = 1 << 16
STANDARD_OUTPUT, STANDARD_ERROR = "output", "errors"


@dataclass(slots=True)
class OutputFile:
    """A file of one process of a job. `fault` says why it cannot be read, empty = no fault."""

    node_id: str
    rank: int
    path: str
    """In the form for messages."""
    fault: str = ""
    _fd: int = -1
    _offset: int = 0

    @property
    def begun(self) -> bool:
        """Whether the file has been opened."""
        return self._fd >= 0

    def text(self) -> str:
        """Return the place of the file, for people."""
        return f"rank {self.rank} on {self.node_id}: {shown_text(self.path)}"

    def news(self) -> Iterator[bytes]:
        """Yield what was written since the last call, from the beginning of a replaced file."""
        if not self.begun and not self._open():
            return
        yield from self._rest()
        if self._was_replaced():
            self.close()
            if self._open():
                yield from self._rest()

    def close(self) -> None:
        """Close the file."""
        if self.begun:
            os.close(self._fd)
        self._fd, self._offset = -1, 0

    def _open(self) -> bool:
        try:
            # A FIFO would wait for its writer, and a reader would take its data.
            fd = os.open(os_bytes(self.path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError as error:
            self.fault = (error.strerror or str(error)).lower()
            return False
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            self.fault = "not a regular file, so the output is not kept"
            return False
        self._fd, self._offset, self.fault = fd, 0, ""
        return True

    def _rest(self) -> Iterator[bytes]:
        if os.fstat(self._fd).st_size < self._offset:
            click.echo(f"wattfold: {shown_text(self.path)} was truncated", err=True)
            self._offset = 0
        while data := os.pread(self._fd, CHUNK_BYTES, self._offset):
            self._offset += len(data)
            yield data

    def _was_replaced(self) -> bool:
        try:
            found = os.stat(os_bytes(self.path))
        except OSError:
            return False
        opened = os.fstat(self._fd)
        return (found.st_dev, found.st_ino) != (opened.st_dev, opened.st_ino)


class JobOutputs:
    """Print the output files of a job. With several files, a line on stderr names each.

    ``streams`` are the files to print: standard output, standard error or both. Standard error goes
    to standard error if both are printed.
    """

    def __init__(
        self, streams: tuple[str, ...] = (STANDARD_OUTPUT,), rank: int | None = None
    ) -> None:
        self._streams = streams
        self._rank = rank
        self._files: dict[str, tuple[OutputFile, bool]] = {}
        """By path, with whether the file goes to standard error."""
        self._last: OutputFile | None = None

    @property
    def missing(self) -> list[OutputFile]:
        """Return the files that could not be read so far."""
        return [file for file, _ in self._files.values() if not file.begun]

    @property
    def files(self) -> list[OutputFile]:
        """Return all files of the job so far."""
        return [file for file, _ in self._files.values()]

    def meet(self, job: pb.Job) -> None:
        """Add the files of a new attempt."""
        for output in job.outputs:
            if self._rank in (None, output.rank):
                self._add(output)

    def _add(self, output: pb.JobOutput) -> None:
        paths = {STANDARD_OUTPUT: output.stdout_path, STANDARD_ERROR: output.stderr_path}
        for name in self._streams:
            path = paths[name]
            if path in self._files:
                # An earlier attempt wrote it, or it holds both streams.
                file, _ = self._files[path]
                file.node_id, file.rank = output.node_id, output.rank
                continue
            as_error = name == STANDARD_ERROR and len(self._streams) > 1
            self._files[path] = OutputFile(output.node_id, output.rank, path), as_error

    def show(self) -> None:
        """Print everything that is new."""
        several = len({file.rank for file, _ in self._files.values()}) > 1
        for file, as_error in list(self._files.values()):
            for data in file.news():
                if several and self._last is not file:
                    click.echo(f"wattfold: {file.text()}", err=True)
                self._last = file
                click.echo(data, nl=False, err=as_error)


def invisible(job_id: str, file: OutputFile) -> str:
    """Say where a file is that cannot be read here, and what to do."""
    where = f"the output of job {job_id} on node {file.node_id} is in {shown_text(file.path)}"
    return (
        f"{where}, which cannot be read on this machine ({file.fault or 'not opened'}); read it "
        f"on {file.node_id}, or submit with --output in a directory that all machines share"
    )


def check_access(job: pb.Job) -> None:
    """Raise CliError if the caller may not know the files of the job."""
    if job.access == pb.JOB_ACCESS_OTHER:
        whose = job.user or "another account"
        raise CliError(
            f"not permitted: job {job.job_id} belongs to {whose}; only {whose} and operators may "
            "read its output"
        )
