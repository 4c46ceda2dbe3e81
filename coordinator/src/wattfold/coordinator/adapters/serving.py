"""Opens the address at which people reach the coordinator, and says in plain words why it cannot.

Over a local socket callers come in by a door that knows who they are; over TCP they show a token.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

import grpc.aio

from wattfold.coordinator.adapters import channels, raw_answers
from wattfold.coordinator.adapters.access import Gate
from wattfold.coordinator.adapters.access_settings import Access, check_folders
from wattfold.coordinator.adapters.api import CoordinatorApi
from wattfold.coordinator.adapters.auditing import AuditInterceptor
from wattfold.coordinator.adapters.config import Config
from wattfold.coordinator.adapters.peer_door import PeerDoor
from wattfold.coordinator.adapters.service import Service

STOP_GRACE_S = 0.2
INNER_SOCKET = "inner.sock"


class StartError(Exception):
    """The coordinator cannot start; the message says why and what to do."""


def check_settings(config: Config, address: str) -> None:
    """Finds out what would end the start later: one that cannot serve begins no epoch."""
    if not channels.is_local(address) and config.token_file is None:
        raise StartError(
            f"listening on {address} needs --token-file; without it, every user could submit jobs"
        )
    for path in (config.token_file, config.agent_token_file):
        if path is not None:
            channels.read_token(path)
    _check_unused(address)


async def open_server(
    config: Config,
    address: str,
    access: Access,
    api: CoordinatorApi,
    service: Service,
    stack: contextlib.AsyncExitStack,
) -> None:
    """Takes calls at an address; closed with the stack. Raises StartError."""
    gate = Gate(lambda: service.core.state, access.operators)
    if channels.is_local(address):
        await _open_door(config, address, access, api, service, gate, stack)
        return
    assert config.token_file is not None
    token = channels.TokenInterceptor(channels.read_token(config.token_file))
    audit = AuditInterceptor(service.note, token=access.token)
    server = await _server(address, api, [audit, token, gate])
    stack.push_async_callback(server.stop, STOP_GRACE_S)


async def _open_door(
    config: Config,
    address: str,
    access: Access,
    api: CoordinatorApi,
    service: Service,
    gate: Gate,
    stack: contextlib.AsyncExitStack,
) -> None:
    """Callers come in by a door that knows who they are; gRPC is behind it."""
    path = Path(address.removeprefix("unix:"))
    make_private(path.parent, 0o700 if access.entrance.mode == 0o600 else 0o711)
    check_folders(path, access.entrance)
    try:
        door = PeerDoor(path, config.state_dir / INNER_SOCKET, access.entrance)
    except OSError as error:
        raise StartError(f"cannot listen on unix:{path}: {error.strerror or error}") from error
    stack.callback(door.close)
    audit = AuditInterceptor(service.note, door.key)
    server = await _server(f"unix:{door.behind}", api, [audit, gate])
    stack.push_async_callback(server.stop, STOP_GRACE_S)
    door.open()


async def _server(
    address: str, api: CoordinatorApi, interceptors: list[grpc.aio.ServerInterceptor]
) -> grpc.aio.Server:
    # Without the option a second coordinator would share the port with the first.
    server = grpc.aio.server(interceptors=interceptors, options=[("grpc.so_reuseport", 0)])
    raw_answers.add_to_server(api, server)
    mask = os.umask(0o177)  # A socket is closed to others from its first moment.
    try:
        bound = server.add_insecure_port(address)
    except RuntimeError as error:
        raise StartError(f"cannot listen on {address}: {error}") from error
    finally:
        os.umask(mask)
    if not bound:
        raise StartError(f"cannot listen on {address}")
    await server.start()
    return server


def _check_unused(address: str) -> None:
    """Refuses an address that is in use, in plain words; gRPC would take a socket file over."""
    try:
        if not channels.is_local(address):
            host, _, port = address.rpartition(":")
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            socket.create_server((host.strip("[]"), int(port)), family=family).close()
            return
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(address.removeprefix("unix:"))
    except (FileNotFoundError, ConnectionRefusedError):
        return  # No file, or one that a coordinator left behind when it was killed.
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StartError(f"cannot listen on {address}: {reason}") from error
    raise StartError(f"cannot listen on {address}: another coordinator answers there")


def make_private(directory: Path, mode: int = 0o700) -> None:
    """Makes a directory of our own with this mode, or checks that an existing one is safe."""
    try:
        if not directory.exists():
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(mode)  # Whatever the umask.
        info = directory.stat()
    except OSError as error:
        raise StartError(f"directory {directory}: {error.strerror}") from error
    if info.st_uid not in (0, os.geteuid()):
        raise StartError(f"directory {directory} belongs to user {info.st_uid}")
    if info.st_mode & stat.S_IWOTH and not info.st_mode & stat.S_ISVTX:
        raise StartError(f"directory {directory} is writable by every user")
