"""Reload of the configuration while it runs: nodes, queues, prices, ramp limits, and the policy.

Jobs, leases and caps stay as they are, also begin times that earlier prices gave. The files that
settings name, such as energy prices, are read again too. All other settings need a restart, and the
answer names those that differ.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.agents.membership import Membership
from wattfold.coordinator.adapters.config.settings import Config
from wattfold.coordinator.adapters.config.values import ConfigError
from wattfold.coordinator.core.model.plan import Policy

if TYPE_CHECKING:
    from wattfold.coordinator.models.energy_price import EnergyPrice

log = logging.getLogger("wattfold.coordinator")


class Planning(Protocol):
    """The planner."""

    async def change(self, policy: Policy, settings: tuple[tuple[str, str], ...]) -> None:
        """Plan with this policy from now on."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """Result of a reload: the changed settings, and the settings that need a restart, by name."""

    config: Config
    changed: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()


class Reloader:
    """Reads the configuration again on request, and applies the settings that may change.

    A thread reads the file, because the event loop has leases to renew. The loop applies nodes and
    queues in one step. A new policy is applied when the planning worker has loaded it.
    """

    def __init__(
        self,
        config: Config,
        read: Callable[[], Config],
        members: Membership,
        planning: Planning,
        use_price: Callable[[EnergyPrice | None], None],
    ) -> None:
        self._config = config
        self._read = read
        self._members = members
        self._planning = planning
        self._use_price = use_price
        self._requested = False
        self._turn = asyncio.Lock()
        self._reloading: asyncio.Task[None] | None = None

    def request(self) -> None:
        """Request a reload. If a reload is already running, another one follows."""
        self._requested = True
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.get_running_loop().create_task(self._reload_requested())
            self._reloading.add_done_callback(_log_defect)

    async def close(self) -> None:
        """Cancel a requested reload in progress."""
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.wait([self._reloading])

    async def _reload_requested(self) -> None:
        while self._requested:
            self._requested = False
            try:
                await self.reload()
            except ConfigError:
                continue  # It was logged, and a signal has no answer.

    async def reload(self) -> Reloaded:
        """Read the configuration and apply it. Raises ConfigError, and changes nothing then."""
        async with self._turn:
            try:
                config = await asyncio.to_thread(self._read)
                if self._config.nodes and not config.nodes:
                    raise ConfigError("the configuration has no nodes")
            except ConfigError as error:
                means = "all settings stay as they were"
                log.error(line("reload_refused", reason=error, means=means))
                raise
            return await self._take_over(config)

    async def _take_over(self, config: Config) -> Reloaded:
        before = self._config
        if config == before:
            log.info(line("reloaded", nodes=len(config.nodes), changes="none"))
            return Reloaded(config=config)
        taken = [name for name in _TAKEN if getattr(before, name) != getattr(config, name)]
        self._members.follow(config.nodes)
        self._members.follow_queues(config.queues)
        self._members.follow_accounts(config.accounts)
        self._members.follow_ramp(config.ramp)
        self._use_price(config.energy_price)
        if "policy" in taken:
            await self._planning.change(config.policy, config.policy_settings)
        self._config = dataclasses.replace(
            before,
            policy_settings=config.policy_settings,
            **{name: getattr(config, name) for name in taken},
        )
        late = changed_settings(self._config, config)
        for name in late:
            log.warning(line("reload_needs_restart", setting=name))
        counts = {"nodes": len(config.nodes), "queues": len(config.queues)}
        log.warning(line("reloaded", **counts, policy=config.policy.name))
        return Reloaded(config=config, changed=tuple(taken), needs_restart=tuple(late))


_TAKEN = ("nodes", "queues", "accounts", "policy", "energy_price", "ramp")


def _log_defect(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error(line("reload_failed", reason=repr(error)), exc_info=error)


def changed_settings(before: Config, after: Config) -> list[str]:
    """Return the names of the settings that differ."""
    names = [field.name for field in dataclasses.fields(Config)]
    return [name for name in names if getattr(before, name) != getattr(after, name)]
