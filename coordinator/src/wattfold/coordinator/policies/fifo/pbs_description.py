"""Description of `policies.fifo.pbs`."""

from __future__ import annotations

from functools import partial

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.description import Description, PolicyVariant
from wattfold.coordinator.policies.fifo.settings import PbsSettings


def _made(order: str, settings: PbsSettings) -> Policy:
    from wattfold.coordinator.policies.fifo.pbs import Pbs

    return Pbs(settings, order=order)


DESCRIPTION = Description(
    name="pbs",
    title="order of submission or of requested time, reserved resources for blocked jobs",
    audience="researchers who need the baselines of the literature for heterogeneous clusters",
    fallback="pbs-walltime: pbs-fifo; then in-turn",
    citation=(
        "T. Bridi, M. Lombardi, A. Bartolini, L. Benini, M. Milano: A CP Scheduler for "
        "High-Performance Computers (its baselines)."
    ),
    variants=(
        PolicyVariant(
            name="pbs-fifo",
            title="order of submission, reserved resources for 10 blocked jobs",
            service=partial(_made, "fifo"),
            starves_nobody=True,
        ),
        PolicyVariant(
            name="pbs-walltime",
            title="shortest requested time first, reserved resources for 400 blocked jobs",
            service=partial(_made, "walltime"),
        ),
    ),
    settings_class=PbsSettings,
)
