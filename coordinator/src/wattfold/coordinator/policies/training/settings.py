"""Common settings of policies for training jobs: costs of energy and nodes."""

from __future__ import annotations

from collections.abc import Callable

from wattfold.coordinator.models.energy_price import (
    EnergyPrice,
    PriceError,
    parse_series,
    parse_table,
)
from wattfold.coordinator.models.training_cost import Tariff
from wattfold.coordinator.policies.description import PolicySetting, SettingError, Values
from wattfold.coordinator.policies.training.gpu_nodes import Draws

COST_SETTINGS = (
    PolicySetting(
        key="price_eur_per_kwh",
        default=0.172,
        low=-10.0,
        high=10.0,
        unit="EUR/kWh",
        help="price of energy; with a table or a series of prices, an addition to them",
    ),
    PolicySetting(
        key="price_table",
        default="",
        help="energy prices by time of day (UTC), in EUR/kWh: 0:00 0.12, 7:00 0.24, 22:00 0.12",
    ),
    PolicySetting(
        key="price_file",
        default="",
        help="file of energy prices, such as day-ahead prices: lines of 2024-05-01T00:00Z,90.1 "
        "(UTC, EUR/MWh), with steps of any length",
    ),
    PolicySetting(
        key="pue",
        default=1.33,
        low=1.0,
        high=10.0,
        help="power usage effectiveness: power of the site for every watt of its nodes",
    ),
    PolicySetting(
        key="host_w",
        default=0.0,
        low=0.0,
        high=100_000.0,
        unit="W",
        help="power of a node without its GPUs; 0 = its charge in the ledger",
    ),
    PolicySetting(
        key="gpu_w",
        default=250.0,
        low=1.0,
        high=10_000.0,
        unit="W",
        help="power of a busy GPU without a known limit or profile",
    ),
    PolicySetting(
        key="gpu_idle",
        default=0.13,
        low=0.0,
        high=1.0,
        help="power of an idle GPU, as a fraction of its maximum limit",
    ),
    PolicySetting(
        key="late_eur_per_h",
        default=10.0,
        low=0.0,
        high=1e6,
        unit="EUR/h",
        help="cost of one hour of tardiness of a job of weight 1",
    ),
    PolicySetting(
        key="slack",
        default=3.0,
        low=1.0,
        high=1000.0,
        help="assumed due date of a job without a due date, as a multiple of its fastest run time",
    ),
)


def tariff(values: Values) -> Tariff:
    """Return the tariff of a configuration. Raises SettingError for unreadable prices."""
    table, path = str(values["price_table"]), str(values["price_file"])
    beside = float(values["price_eur_per_kwh"])
    if table and path:
        raise SettingError("price_table and price_file exclude each other; set only one of them")
    price = EnergyPrice.constant(beside)
    if table:
        price = _read("price_table", parse_table, table).plus(beside)
    elif path:
        price = _read(f"price_file {path}", parse_series, _text(path)).plus(beside)
    return Tariff(price=price, pue=float(values["pue"]))


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


def draws(values: Values) -> Draws:
    """Return the assumed power of nodes."""
    return Draws(
        host_w=float(values["host_w"]),
        gpu_w=float(values["gpu_w"]),
        idle_share=float(values["gpu_idle"]),
        levels=int(values.get("gpu_levels", 1)),
    )
