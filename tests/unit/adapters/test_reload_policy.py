"""A reload applies new settings of the policy and the files they name, but no other policy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from wattfold.coordinator.adapters.agents.membership import Membership
from wattfold.coordinator.adapters.config.settings import Config, load
from wattfold.coordinator.adapters.config.values import ConfigError
from wattfold.coordinator.adapters.reloading import Reloaded, Reloader
from wattfold.coordinator.core.model.account import UsageLimits, UserLimits
from wattfold.coordinator.core.model.configuration import AccountsConfigured
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.core.model.ramp_limits import RampLimits
from wattfold.coordinator.models.energy_price import EnergyPrice
from wattfold.coordinator.policies.training.policy import TrainingPolicy


class Members:
    """Members without content: nodes and queues do not matter here."""

    def follow(self, entries: Sequence[Any]) -> None:
        pass

    def follow_queues(self, queues: Sequence[Queue]) -> None:
        pass

    def follow_accounts(self, wanted: AccountsConfigured) -> None:
        self.accounts = wanted

    def follow_ramp(self, limits: RampLimits) -> None:
        pass


class Planning:
    """Record of the policy of the next round."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.settings: tuple[tuple[str, str], ...] = ()

    async def change(self, policy: Policy, settings: tuple[tuple[str, str], ...]) -> None:
        self.policy, self.settings = policy, settings


class Site:
    """A configuration file with prices, and the object that reloads it."""

    def __init__(self, folder: Path) -> None:
        self.file, self.prices = folder / "coordinator.toml", folder / "prices.csv"
        self.price(90.0)
        self.write(policy="andreas")
        config = self._read()
        self.planning = Planning(config.policy)
        self.used: list[EnergyPrice | None] = []
        self.members = Members()
        members = cast(Membership, self.members)
        self._reloader = Reloader(config, self._read, members, self.planning, self.used.append)

    def price(self, eur: float) -> None:
        self.prices.write_text(f"2024-05-01T00:00Z,{eur}\n")

    def write(self, policy: str, more: str = "") -> None:
        table = f'[andreas]\nprice_file = "{self.prices}"\n' if policy == "andreas" else ""
        node = '[[node]]\nid = "n0"\naddress = "unix:/run/n0.sock"\n'
        self.file.write_text(f'budget_w = 100\npolicy = "{policy}"\n{more}\n{table}{node}')

    def _read(self) -> Config:
        return load(self.file, {})

    def reload(self) -> Reloaded:
        return asyncio.run(self._reloader.reload())

    @property
    def eur_per_kwh(self) -> float:
        policy = self.planning.policy
        assert isinstance(policy, TrainingPolicy)
        return policy.rules.costs.tariff.price.at(0.0)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_prices_of_tomorrow_are_read(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    before = site.eur_per_kwh
    assert site.reload().changed == ()
    assert site.eur_per_kwh == before
    site.price(190.0)
    assert site.reload().changed == ("policy",)
    assert site.eur_per_kwh == pytest.approx(before + 0.1)
    assert "reload_needs_restart" not in caplog.text


def test_prices_that_cannot_be_read_change_nothing(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    before = site.eur_per_kwh
    site.prices.write_text("no prices\n")
    with caplog.at_level(logging.ERROR), pytest.raises(ConfigError):
        site.reload()
    assert site.eur_per_kwh == before
    assert "reload_refused" in caplog.text


def test_another_policy_is_taken_over(site: Site) -> None:
    site.write(policy="fifo-easy")
    done = site.reload()
    assert (done.changed, done.needs_restart) == (("policy",), ())
    assert site.planning.policy.name == "fifo-easy"


def test_the_stated_settings_go_with_the_policy(site: Site) -> None:
    site.write(policy="parm-wse", more='predict = "last-two"\ndram_cap_w = 12\n[parm]\nalpha = 0.5')
    assert site.reload().needs_restart == ("dram_cap_uw", "predict")
    assert site.planning.settings == (("parm.alpha", "0.5"),)
    config = load(site.file, {})
    assert config.planning_settings == (("predict", "last-two"), ("dram_cap_w", "12"))
    site.write(policy="fifo-easy")
    assert site.reload().changed == ("policy",)
    assert site.planning.settings == ()


def test_what_needs_a_restart_is_named_each_time(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.write(policy="andreas", more="lease_s = 20")
    for _ in range(2):
        assert site.reload().needs_restart == ("lease_s",)
    assert caplog.text.count("reload_needs_restart setting=lease_s") == 2


def test_a_configuration_that_is_wrong_is_one_at_the_start_too(site: Site) -> None:
    site.write(policy="andreas", more="nonsense = 1")
    with pytest.raises(ConfigError):
        load(site.file, {})


def test_limits_of_accounts_are_taken_over(site: Site) -> None:
    site.write(policy="fifo", more='[[user]]\nname = "*"\njobs_max = 3')
    assert "accounts" in site.reload().changed
    user = UserLimits(name="*", limits=UsageLimits(jobs_max=3))
    assert site.members.accounts == AccountsConfigured(accounts=(), users=(user,))


def test_prices_for_later_submissions_are_taken_over(site: Site) -> None:
    site.write(policy="fifo", more=f'energy_price = "{site.prices}"')
    assert site.reload().changed == ("policy", "energy_price")
    site.price(40.0)
    assert site.reload().changed == ("energy_price",)
    assert [price and price.at(0.0) for price in site.used] == [0.09, 0.04]
