"""``wattfold-agent restore``: restore the original limits of a node whose agent is stopped.

A stopping agent leaves the node at its floor, because the coordinator assumes this power. With this
command, a person on the node restores the original limits, independent of the budget. To remove a
node from a running site, use its coordinator instead.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable

from wattfold.contract.ids import JobId
from wattfold.contract.units import w_from_uw
from wattfold.nodeagent.adapters import host
from wattfold.nodeagent.adapters.config import Config, load_flags
from wattfold.nodeagent.adapters.config_error import ConfigError
from wattfold.nodeagent.adapters.config_flags import add_flags
from wattfold.nodeagent.adapters.devices.gpu_search import find_gpus
from wattfold.nodeagent.adapters.devices.hsmp import with_hsmp
from wattfold.nodeagent.adapters.devices.msr import MsrRanges
from wattfold.nodeagent.adapters.devices.powercap_files import RealFiles, ZoneFiles
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.adapters.jobs.throttle import choose_throttle
from wattfold.nodeagent.adapters.state_store import StateDirError, StateStore
from wattfold.nodeagent.core.caps import ZoneKind
from wattfold.nodeagent.core.errors import Refused
from wattfold.nodeagent.service.power.guarding import Guarding
from wattfold.nodeagent.service.power.originals import Originals
from wattfold.nodeagent.service.power.zone_state import ZoneState, new_state

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
    """Run the command and return the exit status. argparse itself exits with 2."""
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
    """Return the text about the maximum power of a node with its original limits."""
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
    # It would set the floor at the end of a killed agent's lease.
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
    """Release all jobs, because restored emulated limits slow none and the firmware is stopped."""
    if config.emulation is None:
        return
    throttle = choose_throttle(
        config.cgroup_root, config.group, config.emulation.throttle, config.state_dir / "jobs"
    )
    for job in store.job_ids():
        with contextlib.suppress(OSError):
            throttle.release(JobId(job))
