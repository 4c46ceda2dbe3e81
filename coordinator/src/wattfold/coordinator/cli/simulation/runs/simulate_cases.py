"""Cases from the options of `wattfold simulate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from wattfold.contract.units import uw_from_w, w_from_uw
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.parsing import (
    parse_power_uw,
)
from wattfold.coordinator.cli.simulation.limits_file import limits_of
from wattfold.coordinator.cli.simulation.policy_settings import (
    of_policy,
)
from wattfold.coordinator.cli.simulation.runs.simulate_messages import (
    message_level,
    restarts_of,
)
from wattfold.coordinator.cli.simulation.sleep_options import asleep
from wattfold.coordinator.cli.simulation.training_options import (
    prices_of,
)
from wattfold.coordinator.cli.workloads.workload_options import policy_of
from wattfold.coordinator.models.forecast import USER
from wattfold.simulator.engine.budget import BudgetSchedule, read_budget
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.running_jobs.progress import PreemptionRule
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel
from wattfold.simulator.runs.case import (
    PolicyChoice,
    SimulationCase,
    WorkloadSource,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetText:
    """A power, or the name of a file of steps."""

    text: str

    def read(self, full_uw: int) -> BudgetSchedule:
        """Return the budget; ``full_uw`` if none was given. Raises ValueError."""
        if not self.text:
            return BudgetSchedule.constant(full_uw)
        path = Path(self.text)
        try:
            return BudgetSchedule.constant(parse_power_uw(self.text))
        except ValueError:
            if path.suffix == ".csv" or path.exists():
                return read_budget(path)
            raise ValueError(
                f"budget: neither a power nor a file: {self.text!r}; expected for example 4.75MW "
                "or budget.csv"
            ) from None


def cases_of(options: dict[str, Any], folder: Path | None) -> list[SimulationCase]:
    """Return one case per policy and seed. Raises BadRequestError and ValueError."""
    check_one_source(options)
    names: Sequence[str] = list(dict.fromkeys(options["policies"])) or ["easy"]
    if options["placement"] == "cuboid" and not options["torus"]:
        raise BadRequestError(
            "--placement cuboid needs the dimensions of the network; add --torus XxYxZ"
        )
    run_times = RunTimeModel(options["run_times"]) if options["run_times"] else None
    choices = [_policy(name, options) for name in names]
    sources = [source_of(options, choice, run_times) for choice in choices]
    machine = machine_of(options)
    if isinstance(machine, Machine):
        _check_caps(machine, options)
    budget = BudgetText(text=options["budget_text"]).read(machine.full_uw)
    drawn = any(source.profiles and source.annotations is None for source in sources)
    if options["seeds"] > 1 and not drawn and options["model"] is None:
        raise BadRequestError(
            "--seeds: nothing is drawn from a seed here, so every run would be the same; omit it"
        )
    messages, restarts, limits = message_level(options), restarts_of(options), limits_of(options)
    cases = []
    chosen = list(zip(choices, sources, strict=True))
    for (choice, source), predict in product(chosen, predictors_of(options)):
        for seed in range(options["seed"], options["seed"] + options["seeds"]):
            case = SimulationCase(
                source=source,
                machine=machine,
                budget=budget,
                policy=choice,
                seed=seed,
                model=run_times,
                placement=options["placement"],
                resize_costs=not options["free_resizes"],
                preemption=preemption_of(options),
                restarts=restarts,
                messages=messages,
                predict=predict,
                prices=prices_of(options),
                limits=limits,
            )
            case = asleep(case, options, options["sleep_timer"] or 0)
            cases.append(_in_folder(case, folder))
    return cases


def check_one_source(options: dict[str, Any]) -> None:
    """Raise BadRequestError unless exactly one source of jobs is given."""
    named = [name for name in ("log", "model", "training") if options[name] is not None]
    if len(named) != 1:
        raise BadRequestError(
            "no jobs, or several sources; give exactly one of --log, --model and --training"
        )


def predictors_of(options: dict[str, Any]) -> Sequence[str]:
    """Return the predictors as in `SimulationCase.predict`, each once. Default: requested times."""
    named = dict.fromkeys(options["predictors"])
    return ["" if one == USER else one for one in named] or [""]


def _check_caps(machine: Machine, options: dict[str, Any]) -> None:
    """Refuse caps that nodes cannot hold, with one message for all policies."""
    caps = list(options["caps"] or ())
    if options["cap"] is not None:
        caps.append(uw_from_w(options["cap"]))
    least, most = w_from_uw(machine.cap_uw_min), w_from_uw(machine.cap_uw_max)
    for cap_uw in caps:
        if not machine.cap_uw_min <= cap_uw <= machine.cap_uw_max:
            raise BadRequestError(
                f"a cap of {w_from_uw(cap_uw):g} W is outside {least:g} to {most:g} W "
                "(--cap-min and --cap-max)"
            )


def _in_folder(case: SimulationCase, folder: Path | None) -> SimulationCase:
    return replace(case, folder=folder / case.label) if folder is not None else case


def source_of(
    options: dict[str, Any], choice: PolicyChoice, run_times: RunTimeModel | None = None
) -> WorkloadSource:
    """Return the source of the jobs for one policy, independent of the other policies."""
    return WorkloadSource(
        log=options["log"],
        model=options["model"] or "",
        jobs=options["jobs"],
        load=options["load"],
        odd_rows=policy_of(options["on_odd"], options["exceptions"]),
        first=options["first"],
        count=options["count"],
        gamma=options["gamma"],
        procs_per_node=options["procs_per_node"],
        cut_sizes=options["cut_sizes"],
        exact_estimates=options["exact_estimates"],
        annotations=options["annotations"],
        profiles=_have_profiles(options, choice, run_times),
        malleable_share=options["malleable"],
        priorities=options["priorities"],
        queue_waits=options["queue_waits"],
        ends_at_limit=options["end_at_limit"],
        requests=options.get("requests"),
        share_nodes=options.get("share_nodes", False),
        training=options["training"],
        epoch_times=options["epoch_times"],
    )


def _have_profiles(
    options: dict[str, Any], choice: PolicyChoice, run_times: RunTimeModel | None
) -> bool:
    """Whether jobs need profiles, because caps or other sizes slow them.

    They do if caps may be below the maximum. Without a budget all nodes are at full power, where a
    job of the requested size takes its logged time. Then profiles matter only to policies that
    choose sizes.
    """
    if options["training"] is not None:
        return False
    if options["annotations"] is not None or run_times is RunTimeModel.PASS:
        return True
    if choice.entry.family.needs_profiles or choice.values().get("size") == "min":
        return True
    return run_times is None and (bool(options["budget_text"]) or choice.cap_uw is not None)


def preemption_of(options: dict[str, Any]) -> PreemptionRule | None:
    """Return the progress that ended jobs keep for a restart, or None if no option sets it."""
    if options["snapshots"] is None and options["restart_cost"] is None:
        return None
    return PreemptionRule(
        snapshot_ns=options["snapshots"] or 0, restart_ns=options["restart_cost"] or 0
    )


def machine_of(options: dict[str, Any]) -> Machine | NodeMachine:
    """Return the machine that the options describe. Raises BadRequestError and ValueError."""
    if options.get("machine_file") is not None:
        from wattfold.simulator.engine.machines.machine_file import read_machine

        return read_machine(options["machine_file"])
    if options["nodes"] is None:
        raise BadRequestError("no machine; give either --nodes N or --machine FILE")
    return Machine.of_watts(
        options["nodes"],
        base_w=options["base"],
        dram_w=options["dram"],
        cap_w_min=options["cap_min"],
        cap_w_max=options["cap_max"],
        idle_w=options["idle"],
        torus=options["torus"] or (),
    )


def _policy(name: str, options: dict[str, Any]) -> PolicyChoice:
    return PolicyChoice(
        name=name,
        settings=of_policy(name, options["settings"]),
        size=options["size"],
        cap_uw=uw_from_w(options["cap"]) if options["cap"] is not None else None,
        alpha=options["alpha"],
        sizes_count=options["sizes_count"],
        levels_count=options["levels_count"],
        caps_uw=options["caps"],
        resize_interval_s=options["resize_interval"] / 1e9,
        gap=options["gap"],
        solver=options["solver"],
        price_resizes=options["price_resizes"],
        dram_levels_uw=options["dram_levels"] or (),
    )
