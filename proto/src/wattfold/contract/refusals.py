"""Metadata of a refused command, which shows whether the node or the request is the cause.

The status code does not show it: gRPC itself uses the same codes, for example for a message that is
too long. So the agent adds this pair to the trailing metadata of a refusal because of its node.
"""

from __future__ import annotations

NODE_FAULT = ("wattfold-refused-because-of", "node")
