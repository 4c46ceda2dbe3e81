"""Description of `policies.fifo.easy_uniform`."""

from __future__ import annotations

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.description import Description, PolicyVariant, Pool
from wattfold.coordinator.policies.fifo.settings import UniformSettings


def _made(settings: UniformSettings) -> Policy:
    from wattfold.coordinator.policies.fifo.easy_uniform import EasyUniform

    return EasyUniform(settings)


DESCRIPTION = Description(
    name="easy-uniform",
    title="jobs in order of priority and submission, every node at one uniform cap",
    audience="comparison with a site that sets one cap on all nodes",
    fallback="in-turn",
    citation=(
        "The queue is that of fifo-easy. One cap for all nodes is the naive overprovisioning of O. "
        "Sarood et al., SC14."
    ),
    variants=(
        PolicyVariant(
            name="easy-uniform",
            title="FIFO with EASY backfill at the highest uniform cap within the budget",
            service=_made,
            pool=Pool.EASY_UNIFORM,
            starves_nobody=True,
        ),
    ),
    settings_class=UniformSettings,
)
