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

from wattfold.contract.keep_alive import SERVER_OPTIONS
from wattfold.coordinator.adapters import channels
from wattfold.coordinator.adapters.config.settings import Config
from wattfold.coordinator.adapters.door import raw_answers
from wattfold.coordinator.adapters.door.access import Gate
from wattfold.coordinator.adapters.door.access_settings import Access, check_folders
from wattfold.coordinator.adapters.door.api import CoordinatorApi
from wattfold.coordinator.adapters.door.auditing import AuditInterceptor
from wattfold.coordinator.adapters.door.peer_door import PeerDoor
from wattfold.coordinator.adapters.metrics.settings import library_fault
from wattfold.coordinator.adapters.service import Service

STOP_GRACE_S = 0.2
INNER_SOCKET = "inner.sock"


class StartError(Exception):
    """The coordinator cannot start. The message gives the reason and the remedy.

    ``setting`` is the key of the configuration that causes it, with its table; empty = none.
    """

    def __init__(self, reason: str, setting: str = "") -> None:
        super().__init__(reason)
        self.setting = setting


def check_settings(config: Config, address: str) -> None:
    """Raise StartError if no coordinator can serve with these settings."""
    if not channels.is_local(address) and config.token_file is None:
        raise StartError(
            f"listening on {address} needs --token-file; without it, every user could submit jobs",
            "listen",
        )
    files = {"token_file": config.token_file, "agent_token_file": config.agent_token_file}
    for setting, path in files.items():
        if path is not None:
            try:
                channels.read_token(path)
            except channels.TokenError as error:
                raise StartError(str(error), setting) from error
    if config.metrics_listen and (fault := library_fault()):
        raise StartError(fault, "metrics.listen")


async def open_server(
    config: Config,
    address: str,
    access: Access,
    api: CoordinatorApi,
    service: Service,
    stack: contextlib.AsyncExitStack,
) -> None:
    """Accept calls at an address until the stack is closed. Raises StartError."""
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
    """Open the public socket, which identifies callers, and gRPC behind it."""
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
    options = [("grpc.so_reuseport", 0), *SERVER_OPTIONS]
    server = grpc.aio.server(interceptors=interceptors, options=options)
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


def check_unused(address: str) -> None:
    """Refuse an address in use. gRPC itself would replace a socket file."""
    try:
        if not channels.is_local(address):
            host, _, port = address.rpartition(":")
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            socket.create_server((host.strip("[]"), int(port)), family=family).close()
            return
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(address.removeprefix("unix:"))
    except (FileNotFoundError, ConnectionRefusedError):
        return  # No file, or the file of a killed coordinator.
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StartError(f"cannot listen on {address}: {reason}") from error
    raise StartError(f"cannot listen on {address}: another coordinator answers there")


def make_private(directory: Path, mode: int = 0o700) -> None:
    """Create a directory of this account with this mode, or check that an existing one is safe."""
    try:
        if not directory.exists():
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(mode)  # Independent of the umask.
        info = directory.stat()
    except OSError as error:
        raise StartError(f"directory {directory}: {error.strerror}") from error
    if info.st_uid not in (0, os.geteuid()):
        raise StartError(f"directory {directory} belongs to user {info.st_uid}")
    if info.st_mode & stat.S_IWOTH and not info.st_mode & stat.S_ISVTX:
        raise StartError(f"directory {directory} is writable by every user")
