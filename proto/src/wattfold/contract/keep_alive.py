"""How often a client asks whether its connection is alive, and how often a server permits it.

A server of gRPC that has sent no data ends a connection after two pings in less than five minutes
("too_many_pings"), unless it has these options. Telemetry may be a minute apart.
"""

from __future__ import annotations

PING_EVERY_MS = 5_000
PING_PERMITTED_MS = 4_000
"""Less than the time between two pings, as these may arrive closer together than they were sent."""
CLIENT_OPTIONS = (
    ("grpc.keepalive_time_ms", PING_EVERY_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
SERVER_OPTIONS = (
    ("grpc.http2.min_ping_interval_without_data_ms", PING_PERMITTED_MS),
    ("grpc.keepalive_permit_without_calls", 1),
)
