"""Common settings of policies for training jobs: costs of energy and nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wattfold.coordinator.models.energy_price import (
    EnergyPrice,
    PriceError,
    parse_series,
    parse_table,
)
from wattfold.coordinator.models.training_cost import Tariff
from wattfold.coordinator.policies.description import PolicySettings, SettingError, setting
from wattfold.coordinator.policies.training.gpu_nodes import Draws


@dataclass(frozen=True, kw_only=True)
class CostSettings(PolicySettings):
    """Costs of energy, nodes and tardiness."""

    price_eur_per_kwh: float = setting(
        0.172,
        help="price of energy; with a table or a series of prices, an addition to them",
        within=(-10.0, 10.0),
        unit="EUR/kWh",
    )
    price_table: str = setting(
        "", help="energy prices by time of day (UTC), in EUR/kWh: 0:00 0.12, 7:00 0.24, 22:00 0.12"
    )
    price_file: str = setting(
        "",
        help="file of energy prices, such as day-ahead prices: lines of 2024-05-01T00:00Z,90.1 "
        "(UTC, EUR/MWh), with steps of any length",
    )
    pue: float = setting(
        1.33,
        help="power usage effectiveness: power of the site for every watt of its nodes",
        within=(1.0, 10.0),
    )
    host_w: float = setting(
        0.0,
        help="power of a node without its GPUs; 0 = its charge in the ledger",
        within=(0.0, 100_000.0),
        unit="W",
    )
    gpu_w: float = setting(
        250.0,
        help="power of a busy GPU without a known limit or profile",
        within=(1.0, 10_000.0),
        unit="W",
    )
    gpu_idle: float = setting(
        0.13, help="power of an idle GPU, as a fraction of its maximum limit", within=(0.0, 1.0)
    )
    late_eur_per_h: float = setting(
        10.0,
        help="cost of one hour of tardiness of a job of weight 1",
        within=(0.0, 1e6),
        unit="EUR/h",
    )
    slack: float = setting(
        3.0,
        help="assumed due date of a job without a due date, as a multiple of its fastest run time",
        within=(1.0, 1000.0),
    )

    def tariff(self) -> Tariff:
        """Return the tariff. Raises SettingError for unreadable prices."""
        table, path = self.price_table, self.price_file
        if table and path:
            raise SettingError(
                "price_table and price_file exclude each other; set only one of them"
            )
        price = EnergyPrice.constant(self.price_eur_per_kwh)
        if table:
            price = _read("price_table", parse_table, table).plus(self.price_eur_per_kwh)
        elif path:
            text = _text(path)
            price = _read(f"price_file {path}", parse_series, text).plus(self.price_eur_per_kwh)
        return Tariff(price=price, pue=self.pue)

    def draws(self, levels: int = 1) -> Draws:
        """Return the assumed power of nodes, with a number of GPU limits to choose from."""
        return Draws(host_w=self.host_w, gpu_w=self.gpu_w, idle_share=self.gpu_idle, levels=levels)


@dataclass(frozen=True, kw_only=True)
class SearchSettings(PolicySettings):
    """The objective of `andreas`, and its search."""

    rho: float = setting(
        100.0,
        help="weight of the worst-case tardiness of postponed jobs, relative to other "
        "tardiness; not used if postponed = next",
        within=(0.0, 1e6),
    )
    postponed: str = setting(
        "next",
        help="tardiness of a postponed job: worst = of its slowest run after H, times rho, "
        "as in the paper; next = of its fastest run after H, with normal weight",
        choices=("next", "worst"),
    )
    interval_s: float = setting(
        300.0,
        help="maximum time between two plans if no event occurs (H)",
        within=(1.0, 86_400.0),
        unit="s",
    )
    energy: str = setting(
        "nodes",
        help="energy in the objective: nodes = each node until its last job ends, and what "
        "its jobs add; jobs = each job as if alone on its node, as in the paper",
        choices=("nodes", "jobs"),
    )
    others: float = setting(
        1.0,
        help="with energy = jobs: fraction of the energy costs that counts for jobs that are "
        "not the first to end on their node; 0 in the paper",
        within=(0.0, 1.0),
    )
    haste: float = setting(
        0.001,
        help="cost of each second until a job ends, late or not, as a fraction of its "
        "tardiness cost, so that GPUs are free early for later jobs; 0 in the paper",
        within=(0.0, 1.0),
    )
    restart_s: float = setting(
        60.0,
        help="cost of a preemption for a job whose restart time has not been learnt",
        within=(0.0, 86_400.0),
        unit="s",
    )
    gpu_levels: int = setting(
        1,
        help="number of GPU limits to choose from, from half of the maximum up; 1 = the maximum "
        "only",
        within=(1, 8),
    )
    passes: int = setting(
        100, help="number of greedy passes (MaxIt; 1000 in the paper)", within=(1, 100_000)
    )
    attempts: int = setting(
        10_000,
        help="number of ruin-and-recreate steps after the greedy passes; 0 = the search of the "
        "paper",
        within=(0, 1_000_000),
    )
    seed: int = setting(1, help="seed of the search", within=(0, 1_000_000))


@dataclass(frozen=True, kw_only=True)
class AndreasSettings(CostSettings, SearchSettings):
    """Settings of `andreas`."""


@dataclass(frozen=True, kw_only=True)
class EdfSettings(CostSettings):
    """Settings of `edf` and `priority`."""

    order: str = setting(
        "own",
        help="order of jobs: own = that of the chosen policy; submission = FIFO, the third "
        "baseline",
        choices=("own", "submission"),
    )
    choice: str = setting(
        "free",
        help="configuration of a training job: free = the cheapest free configuration in "
        "time, or else the fastest; awaited = the lowest cost of energy and tardiness, "
        "including the wait until it is free",
        choices=("free", "awaited"),
    )


def _read(whose: str, parse: Callable[[str], EnergyPrice], text: str) -> EnergyPrice:
    try:
        return parse(text)
    except PriceError as error:
        raise SettingError(f"{whose}: {error}") from None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"price_file {path} cannot be read: {error}") from None
