"""The setting ``energy_price``: prices for which queues hold jobs back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wattfold.coordinator.adapters.config.values import ConfigError, Source

if TYPE_CHECKING:
    from wattfold.coordinator.core.model.queue import Queue
    from wattfold.coordinator.models.energy_price import EnergyPrice

KEY = "energy_price"


def price_from(source: Source, text: str, queues: tuple[Queue, ...]) -> EnergyPrice | None:
    """Return the prices of a daily table or of a CSV file; None without. Raises ConfigError."""
    holding = [queue.name for queue in queues if queue.price_hold_ns]
    if holding and not text:
        raise ConfigError(
            f"{source.at('price_hold_max_s', 'queue')}: queue {holding[0]} holds jobs back, but "
            "there are no prices; set energy_price"
        )
    if not text:
        return None
    # It loads numpy, which a coordinator without prices does not need.
    from wattfold.coordinator.models.energy_price import PriceError, parse_series, parse_table

    try:
        if text[:1].isdigit():
            return parse_table(text)
        if not Path(text).is_absolute():
            raise PriceError("neither a daily table nor an absolute path")
        return parse_series(Path(text).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, PriceError) as error:
        raise ConfigError(f"{source.at(KEY)}: {KEY} = {text!r}: {error}") from error
