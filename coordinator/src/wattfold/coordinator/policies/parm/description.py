"""Description of `policies.parm.policy`."""

from __future__ import annotations

from wattfold.contract.units import ns_from_s
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.description import (
    PATIENCE,
    Description,
    PolicySetting,
    PolicyVariant,
    Pool,
    SettingScope,
    Values,
)


def _made(variant: str, values: Values) -> Policy:
    from wattfold.coordinator.policies.parm.policy import Parm
    from wattfold.coordinator.policies.parm.settings import DramChoice, ParmVersion

    return Parm(
        variant=ParmVersion(variant),
        alpha=float(values["alpha"]),
        sizes_max=int(values["sizes"]),
        levels_max=int(values["levels"]),
        resize_interval_ns=ns_from_s(float(values["resize_interval_s"])),
        gap=float(values["gap"]),
        solver=str(values["solver"]),
        nomm_size=str(values["nomm_size"]),
        gpu_levels=int(values["gpu_levels"]),
        patience=float(values["patience"]),
        dram_choice=DramChoice.of(
            int(values["dram_levels"]),
            float(values["dram_rest_w"]),
            float(values["dram_work_w"]),
        ),
    )


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
            service=lambda values: _made("wse", values),
            pool=Pool.PARM,
            by_name=_BY_NAME,
        ),
        PolicyVariant(
            name="parm-nose",
            title="PARM: sizes at the start only, caps at any time",
            service=lambda values: _made("nose", values),
            pool=Pool.PARM,
            by_name=_BY_NAME,
        ),
        PolicyVariant(
            name="parm-nomm",
            title="PARM: minimum sizes, caps at any time",
            service=lambda values: _made("nomm", values),
            pool=Pool.PARM,
            by_name=_BY_NAME,
        ),
    ),
    settings=(
        PATIENCE,
        PolicySetting(
            key="alpha",
            default=0.28,
            low=0,
            high=10,
            help="weight of waiting: small for throughput, large for fairness",
        ),
        PolicySetting(
            key="sizes",
            default=8,
            low=1,
            high=1024,
            help="maximum number of sizes to choose from for a job",
        ),
        PolicySetting(
            key="levels",
            default=6,
            low=1,
            high=64,
            help="maximum number of caps to choose from for a job",
        ),
        PolicySetting(
            key="resize_interval_s",
            default=500.0,
            low=0,
            high=1e6,
            unit="s",
            help="minimum time between two resizes of a job",
        ),
        PolicySetting(
            key="gap",
            default=0.001,
            low=0,
            high=0.5,
            help="relative distance from the optimum that is accepted",
        ),
        PolicySetting(
            key="solver",
            default="lagrangian",
            choices=("lagrangian", "glpk", "highs", "greedy"),
            help="solver of the integer program; lagrangian calls glpk, the reference, if it "
            "cannot prove the gap",
        ),
        PolicySetting(
            key="nomm_size",
            default="min",
            choices=("min", "max"),
            places=(SettingScope.SIMULATOR,),
            help="end of the size range that parm-nomm gives a job",
        ),
        PolicySetting(
            key="gpu_levels",
            default=1,
            low=1,
            high=8,
            help="number of GPU limits to choose from, from half of the maximum up; 1 = the "
            "maximum only",
        ),
        PolicySetting(
            key="dram_levels",
            default=0,
            low=0,
            high=16,
            places=(SettingScope.SERVICE,),
            help="number of DRAM caps to choose from for a job; 0 = only the default DRAM cap",
        ),
        PolicySetting(
            key="dram_rest_w",
            default=8.0,
            low=0,
            high=10_000,
            unit="W",
            places=(SettingScope.SERVICE,),
            help="power of the DRAM of an idle node",
        ),
        PolicySetting(
            key="dram_work_w",
            default=10.0,
            low=1,
            high=10_000,
            unit="W",
            places=(SettingScope.SERVICE,),
            help="additional DRAM power of a program that only waits for memory",
        ),
    ),
)
