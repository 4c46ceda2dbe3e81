"""Prices of energy over days, as on the day-ahead market in a spring and a winter week.

The shape of the spring day is a published day of the German market, 2024, with a mean of 79.5
EUR/MWh like that year. The shape of the winter day follows its descriptions: flat at night, high in
the morning and the evening. Each hour has AR(1) noise (sigma 0.15 of the mean, rho 0.9). A site
pays more than the exchange: an extra 92 EUR/MWh gives a mean of about 172 as in the paper.
"""

from __future__ import annotations

import datetime
import math

import numpy as np

from wattfold.coordinator.models.energy_price import DAY_S, MWH, EnergyPrice

SPRING = (
    *(90, 89, 89, 94, 97, 104, 137, 128, 100, 79, 16, -1),
    *(-6, -16, -7, -4, 1, 74, 105, 151, 224, 149, 112, 103),
)
WINTER = (
    *(80, 76, 74, 72, 74, 80, 100, 130, 145, 135, 115, 105),
    *(100, 100, 104, 112, 130, 155, 175, 165, 140, 115, 98, 88),
)
"""EUR/MWh by the hour."""
MEAN_EUR_PER_MWH = 79.5
BESIDE_EUR_PER_MWH = 92.0
SIGMA, RHO = 0.15, 0.9
HOUR_S = 3600.0
TABLE_TEXT = "0:00 0.129, 7:00 0.215, 22:00 0.129"
"""Two prices per day, in EUR/kWh, with a mean of 0.183."""


def day_ahead(shape: tuple[int, ...], days: int, seed: int, surcharge: float = 0.0) -> EnergyPrice:
    """Return an hourly series from time 0 on; ``surcharge`` is added to every price, in EUR/MWh."""
    chance = np.random.default_rng(np.random.SeedSequence([seed, len(shape), sum(shape)]))
    scale = MEAN_EUR_PER_MWH / (sum(shape) / len(shape))
    noise, prices = 0.0, []
    hours = math.ceil(days * DAY_S / HOUR_S)
    step = SIGMA * math.sqrt(1 - RHO**2)
    for hour in range(hours):
        noise = RHO * noise + float(chance.normal(0.0, step))
        spot = scale * shape[hour % len(shape)] + MEAN_EUR_PER_MWH * noise
        prices.append(round((spot + surcharge) / MWH, 5))
    return EnergyPrice(tuple(hour * HOUR_S for hour in range(hours)), tuple(prices))


def series_text(price: EnergyPrice) -> str:
    """Format a series as a file of prices: UTC, EUR/MWh."""
    lines = []
    for at_s, eur in zip(price.times_s, price.eur_per_kwh, strict=True):
        when = datetime.datetime.fromtimestamp(at_s, tz=datetime.UTC)
        lines.append(f"{when:%Y-%m-%dT%H:%M}Z,{eur * MWH:.2f}")
    return "\n".join(lines) + "\n"
