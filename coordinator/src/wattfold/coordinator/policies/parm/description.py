"""Description of `policies.parm.policy`."""

from __future__ import annotations

from functools import partial

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.description import Description, PolicyVariant, Pool
from wattfold.coordinator.policies.parm.settings import ParmSettings, ParmVersion


def _made(version: ParmVersion, settings: ParmSettings) -> Policy:
    from wattfold.coordinator.policies.parm.policy import Parm

    return Parm(settings, version)


_BY_NAME = (
    "on nodes with names, profiles are scaled to the estimates of users, and nodes are held for "
    "jobs that have waited too long"
)

DESCRIPTION = Description(
    name="parm",
    title="sizes and caps chosen together by an integer program when a job arrives or ends",
    audience="sites with more nodes than they can power fully, and jobs that run at several sizes",
    fallback="the same options with the greedy solver, then in-turn",
    citation=(
        "O. Sarood, A. Langer, A. Gupta, L. Kale: Maximizing Throughput of Overprovisioned HPC "
        "Data Centers Under a Strict Power Budget. SC14."
    ),
    needs_profiles=True,
    variants=(
        PolicyVariant(
            name="parm-wse",
            title="PARM: sizes and caps, also of running jobs",
            service=partial(_made, ParmVersion.WSE),
            pool=Pool.PARM,
            by_name=_BY_NAME,
        ),
        PolicyVariant(
            name="parm-nose",
            title="PARM: sizes at the start only, caps at any time",
            service=partial(_made, ParmVersion.NOSE),
            pool=Pool.PARM,
            by_name=_BY_NAME,
        ),
        PolicyVariant(
            name="parm-nomm",
            title="PARM: minimum sizes, caps at any time",
            service=partial(_made, ParmVersion.NOMM),
            pool=Pool.PARM,
            by_name=_BY_NAME,
        ),
    ),
    settings_class=ParmSettings,
)
