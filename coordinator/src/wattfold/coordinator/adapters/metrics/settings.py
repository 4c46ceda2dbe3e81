"""Address of the metrics, and whether this installation can serve them."""

from __future__ import annotations

import importlib.util


def address_fault(address: str) -> str:
    """Return why an address cannot be HOST:PORT; empty = it can."""
    host, colon, port = address.rpartition(":")
    if not colon or not host.strip("[]") or not (port.isascii() and port.isdecimal()):
        return f"{address!r} is not HOST:PORT, such as 127.0.0.1:9187"
    return "" if int(port) < 65536 else f"port {port} is outside 0..65535"


def host_and_port(address: str) -> tuple[str, int]:
    """Return the parts of a checked address."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def library_fault(package: str = "prometheus_client") -> str:
    """Return why this installation has no metrics; empty = it has them."""
    if importlib.util.find_spec(package) is None:
        return "[metrics] needs the package prometheus-client; install wattfold[metrics]"
    return ""
