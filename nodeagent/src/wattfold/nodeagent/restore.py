"""``wattfold-agent restore``: puts back the limits found first, on a node whose agent is stopped.

An agent that stops leaves the node at its floor, as that is what the coordinator reckons with. This
is the word of somebody on the node that the limits of before shall hold again, whatever the budget
has room for. A node that is to leave a running site leaves by its coordinator instead.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable

from wattfold.contract.ids import JobId
from wattfold.contract.units import w_from_uw
from wattfold.nodeagent.adapters import host
from wattfold.nodeagent.adapters.config import Config, add_flags, load_flags
from wattfold.nodeagent.adapters.config_error import ConfigError
from wattfold.nodeagent.adapters.gpu_search import find_gpus
from wattfold.nodeagent.adapters.hsmp import with_hsmp
from wattfold.nodeagent.adapters.msr import MsrRanges
from wattfold.nodeagent.adapters.powercap import discover
from wattfold.nodeagent.adapters.powercap_files import RealFiles, ZoneFiles
from wattfold.nodeagent.adapters.state_store import StateDirError, StateStore
from wattfold.nodeagent.adapters.throttle import choose_throttle
from wattfold.nodeagent.core.caps import ZoneKind
from wattfold.nodeagent.core.errors import Refused
from wattfold.nodeagent.service.guarding import Guarding
from wattfold.nodeagent.service.originals import Originals
from wattfold.nodeagent.service.zone_state import ZoneState, new_state

EXIT_RESTORED = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
DESCRIPTION = (
    "Restore the power limits that were in force before the first change by the agent since boot."
    " Stop the agent first. Afterwards the node may draw more than its floors, the power that the"
    " coordinator assumes. If a coordinator manages this node, use `wattfold node leave NODE`"
    " instead. Takes the options of wattfold-agent. Exit status: 0 if all limits were restored or"
    " none had changed, 1 if a limit was not restored or the agent runs, 2 for a usage or"
    " configuration error."
)


def main(arguments: list[str]) -> int:
    """The command without its name; the exit status. argparse itself exits with 2."""
    try:
        config = load_flags(restore_parser().parse_args(arguments))
    except ConfigError as error:
        print(f"wattfold-agent restore: {error}", file=sys.stderr)
        return EXIT_USAGE
    if not config.state_dir.exists():
        print(f"Nothing to restore: {config.state_dir} does not exist.")
        return EXIT_RESTORED
    try:
        with contextlib.closing(StateStore(config.state_dir)) as store:
            return _restore(config, store)
    except StateDirError as error:
        hint = "stop the agent first (systemctl stop wattfold-agent)"
        print(f"wattfold-agent restore: {error}: {hint}", file=sys.stderr)
    except (OSError, Refused) as error:
        print(f"wattfold-agent restore: {error}", file=sys.stderr)
    return EXIT_FAILED


def restore_parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(
        prog="wattfold-agent restore",
        usage="wattfold-agent restore [--config FILE] [OPTION...]",
        description=DESCRIPTION,
        add_help=False,
    )
    add_flags(parser)
    return parser


def may_draw_text(states: Iterable[ZoneState], originals: Originals, base_power_uw: int) -> str:
    """What a node may draw with its original limits, for people."""
    counted = [state for state in states if state.zone.kind is not ZoneKind.PSYS]
    each_uw = {str(state.zone.name): originals.original_uw(state) for state in counted}
    known = ", ".join(f"{name} {w_from_uw(uw):g} W" for name, uw in each_uw.items() if uw)
    unknown = [name for name, uw in each_uw.items() if not uw]
    total_w = w_from_uw(sum(each_uw.values()) + base_power_uw)
    text = f"this node may draw up to {total_w:g} W"
    text += f" ({known or 'no zones'}, base {w_from_uw(base_power_uw):g} W)"
    return text + (f", plus the maximum of {', '.join(unknown)}" if unknown else "")


def _restore(config: Config, store: StateStore) -> int:
    originals = Originals(store, host.boot_id())
    if not originals:
        print("Nothing to restore: the agent has changed no limit since boot, or all are restored.")
        return EXIT_RESTORED
    # It would go to the floor at the end of the lease of an agent that was killed.
    Guarding(store).relieve()
    zones = discover(
        _files(config), config.ranges, ranges=None if config.emulation else MsrRanges()
    )
    states = {zone.name: new_state(zone) for zone in zones}
    text = may_draw_text(states.values(), originals, config.base_power_uw)
    failed = originals.restore(states)
    originals.forget()
    _let_jobs_run(config, store)
    for name, why in failed.items():
        print(f"wattfold-agent restore: limit of {name} not restored: {why}", file=sys.stderr)
    print(
        f"Original limits restored: {text}. A coordinator still charges the node with its floors;"
        f" run `wattfold node leave {config.node_id}` to remove it from the budget. At its next"
        " start the agent sets the floors again."
    )
    return EXIT_FAILED if failed else EXIT_RESTORED


def _files(config: Config) -> ZoneFiles:
    files: ZoneFiles = RealFiles(config.powercap_root)
    if config.emulation is None and config.fixture is None:
        files = with_hsmp(files)
    gpus = find_gpus() if config.gpus else None
    return gpus.joined_to(files) if gpus else files


def _let_jobs_run(config: Config, store: StateStore) -> None:
    """Emulated limits that are back slow nobody, and their firmware does not run."""
    if config.emulation is None:
        return
    throttle = choose_throttle(
        config.cgroup_root, config.group, config.emulation.throttle, config.state_dir / "jobs"
    )
    for job in store.job_ids():
        with contextlib.suppress(OSError):
            throttle.release(JobId(job))
