"""What `policies.easy_uniform` says of itself."""

from __future__ import annotations

from wattfold.coordinator.core.plan import Policy
from wattfold.coordinator.policies.descriptions import (
    Description,
    PolicySetting,
    Pool,
    Values,
    Variant,
)


def _made(values: Values) -> Policy:
    from wattfold.coordinator.policies.easy_uniform import EasyUniform

    return EasyUniform(size=str(values["size"]))


DESCRIPTION = Description(
    name="easy-uniform",
    title="in order of priority and submission, every node at the one cap that feeds them all",
    audience="a site with capped nodes and no power management, as a fair comparison",
    citation=(
        "The queue as fifo-easy; one cap for all nodes is the naive overprovisioning of O. Sarood "
        "et al., SC14."
    ),
    variants=(
        Variant(
            name="easy-uniform",
            title="FIFO with EASY backfill at the one cap that feeds all nodes",
            service=_made,
            pool=Pool.EASY_UNIFORM,
            starves_nobody=True,
        ),
    ),
    settings=(
        PolicySetting(
            key="size",
            default="max",
            choices=("min", "max"),
            help="which end of a range counts as asked for",
        ),
    ),
)
