"""Keys and addresses for jobs that start their own steps."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from wattfold.contract.ids import JobId

SECRET_BYTES = 32
SECRET_NAME = "step-secret"  # noqa: S105 - the name of the file
StepKeys = Callable[[JobId], bytes]


class StepSecretError(Exception):
    """The secret cannot be read or created. The message names the file and the reason."""


def step_keys(state_dir: Path) -> StepKeys:
    """Return a function that derives the key of a job from the secret in the state folder.

    The secret is created on first use. It stays the same after a restart, so that the steps of
    running jobs still find each other. Raises StepSecretError.
    """
    secret = _secret(state_dir / SECRET_NAME)
    return lambda job: hmac.digest(secret, b"wattfold step " + job.encode(), hashlib.sha256)


def _secret(path: Path) -> bytes:
    try:
        if not path.exists():
            _write(path, secrets.token_bytes(SECRET_BYTES))
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(fd, "rb") as file:
            found, data = os.fstat(fd), file.read(SECRET_BYTES + 1)
    except OSError as error:
        raise StepSecretError(f"{path}: {error.strerror}") from error
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise StepSecretError(
            f"{path} must belong to this account and be closed to others; change its mode to 0600"
        )
    if len(data) != SECRET_BYTES:
        raise StepSecretError(f"{path} has {len(data)} bytes instead of {SECRET_BYTES}; remove it")
    return data


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
    temporary.rename(path)


def steps_address(told: str, agent_address: str) -> str:
    """Return the address at which a node accepts steps.

    tcp:PORT takes the host of the agent's address. An agent with a unix socket address is on this
    host.
    """
    if not told.startswith("tcp:"):
        return told
    port = told.removeprefix("tcp:")
    if agent_address.startswith("unix:"):
        return f"tcp:127.0.0.1:{port}"
    host = agent_address.removeprefix("dns:").rpartition(":")[0]
    return f"tcp:{host}:{port}"
