"""EASY backfill on identical nodes, by counting processors, from its published description.

Mu'alem and Feitelson (2001): start jobs in order while they fit. For the first job that does not
fit, find the shadow time, when enough nodes will be free, and the extra nodes it will not need. A
later job may start if it ends by the shadow time or takes no more than the extra nodes.
"""

from __future__ import annotations

from typing import NamedTuple


class Request(NamedTuple):
    name: str
    size: int
    time: int


def easy(nodes: int, running: list[tuple[int, int]], queue: list[Request]) -> set[str]:
    """Return the jobs that start at time 0. ``running`` holds (end, size)."""
    ends = list(running)
    free = nodes - sum(size for _, size in ends)
    started: set[str] = set()
    queue = [request for request in queue if request.size <= nodes]
    while queue and queue[0].size <= free:
        first = queue.pop(0)
        started.add(first.name)
        ends.append((first.time, first.size))
        free -= first.size
    if not queue:
        return started
    head, later = queue[0], queue[1:]
    shadow = min(
        t for t, _ in ends if free + sum(size for end, size in ends if end <= t) >= head.size
    )
    extra = free + sum(size for end, size in ends if end <= shadow) - head.size
    for request in later:
        if request.size > free:
            continue
        if request.time <= shadow:
            started.add(request.name)
            free -= request.size
        elif request.size <= extra:
            started.add(request.name)
            free -= request.size
            extra -= request.size
    return started
