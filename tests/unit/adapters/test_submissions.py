"""Every reason for refusing a submission, with value, limit and unit."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from unit.policies.snapshots import W, node

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.job_messages import spec_message
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError, due_ns
from wattfold.coordinator.adapters.requests.possible import check_possible
from wattfold.coordinator.adapters.requests.submissions import job_spec, launch_data
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec, ResizeMode
from wattfold.coordinator.core.model.levels import PLAIN, Levels
from wattfold.coordinator.core.model.node import NodeSpec, Zone, ZoneKind
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb


def message(**fields: Any) -> pb.JobSpec:
    return pb.JobSpec(**{"argv": ["/bin/run", "x"], **fields})


def complaint(**fields: Any) -> str:
    with pytest.raises(InvalidRequestError) as caught:
        job_spec(message(**fields))
    return str(caught.value)


def test_defaults() -> None:
    spec = job_spec(message())
    assert (spec.name, spec.app, spec.cwd, spec.priority) == ("run", "run", "/", 1.0)
    assert (spec.kind, spec.unit, spec.mode) == (JobKind.RIGID, SizeUnit.CORES, ResizeMode.MASK)
    assert (spec.size_min, spec.size_max) == (1, 1)


def test_what_lets_a_job_be_started_again() -> None:
    assert not job_spec(message()).restarts
    for asked in (
        {"requeue_max": 1},
        {"restartable": True},
        {"preemptable": True},
        {"snapshot_dir": "d"},
        {"snapshot_signal": 10},
        {"snapshot_grace_ns": 1},
        {"epochs": 90},
    ):
        spec = job_spec(message(**asked))
        assert spec.restarts
        assert spec_message(spec, Clock()).restartable
        for name, value in asked.items():
            assert getattr(spec_message(spec, Clock()), name) == value


def test_attempts_and_snapshots_within_reason() -> None:
    assert "100 further attempts exceed the limit of 99" in complaint(requeue_max=100)
    assert "signal 9 cannot request a snapshot" in complaint(snapshot_signal=9)
    assert "signal 99" in complaint(snapshot_signal=99)
    assert "grace time of 3601 s is above the limit of 3600 s" in complaint(
        snapshot_grace_ns=3601 * 10**9
    )
    assert "at most 4096 characters" in complaint(snapshot_dir="x" * 4097)


def test_units_that_go_on_from_a_snapshot_are_put_back_and_others_must_be_resizable() -> None:
    restart = {"mode": common_pb2.RESIZE_MODE_RESTART}
    units = {"unit": pb.SIZE_UNIT_UNITS, "unit_cores": 1, "gpus": 1}
    assert job_spec(message(**restart, **units)).preemptable
    assert not job_spec(message(**units)).preemptable
    moldable = {"kind": pb.JOB_KIND_MOLDABLE, "size_max": 4}
    assert job_spec(message(**restart, **units, **moldable)).mode is ResizeMode.RESTART
    assert "keeps its size" in complaint(**restart, **moldable)
    assert "exceed the limit of 10000000" in complaint(epochs=2**31)


def test_everything_comes_back() -> None:
    sent = message(
        name="my job",
        app="md",
        env={"B": "2", "A": "1"},
        cwd="/tmp",
        stdout_path="o-%j",
        stderr_path="e",
        kind=pb.JOB_KIND_MALLEABLE,
        unit=pb.SIZE_UNIT_NODES,
        size_min=2,
        size_max=5,
        time_ns=7,
        priority=2.5,
        mode=common_pb2.RESIZE_MODE_TEAM,
        exclusive=True,
        cap_uw=9,
        tasks_per_node=3,
        own_launcher=True,
        mode_source="asked for",
        memory_bytes=5 << 30,
        gpus=2,
        features=["a", "b"],
        among=["n1", "n2"],
        weight=3.5,
        sharing=pb.CORE_SHARING_NO,
    )
    assert launch_data(sent).env == (("A", "1"), ("B", "2"))
    spec = job_spec(sent)
    sent.ClearField("env")
    assert spec_message(spec, Clock()) == sent, "all but the environment, which is nobody's to list"


OVER_NODES: dict[str, Any] = {
    "kind": pb.JOB_KIND_MALLEABLE,
    "unit": pb.SIZE_UNIT_NODES,
    "mode": common_pb2.RESIZE_MODE_MAP,
    "size_max": 3,
}


def test_a_charm_job_over_nodes_starts_its_own_processes() -> None:
    assert job_spec(message(**OVER_NODES)).own_launcher
    on_cores = OVER_NODES | {"unit": pb.SIZE_UNIT_CORES}
    assert not job_spec(message(**on_cores)).own_launcher


def test_the_greatest_size_is_the_least_one_if_not_given() -> None:
    assert job_spec(message(size_min=3)).size_max == 3


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"argv": []}, "no command given"),
        ({"argv": [""]}, "no command given"),
        ({"argv": ["x"] * 4097}, "4097 arguments exceed the limit of 4096"),
        (
            {"app": "a b"},
            "application name 'a b': use 1-63 of A-Z a-z 0-9 . _ -; give another name with --app",
        ),
        (
            {"name": "x" * 101},
            "job name '" + "x" * 40 + "' must have 1 to 100 printable characters",
        ),
        ({"name": "a\nb"}, "job name 'a\\nb' must have 1 to 100 printable characters"),
        (
            {"size_min": 3, "size_max": 2, "kind": pb.JOB_KIND_MOLDABLE},
            "size 3-2: the minimum is above the maximum",
        ),
        ({"size_min": 1, "size_max": 2}, "a rigid job has one size, not 1-2"),
        (
            {"mode_source": "a\nb"},
            "origin of the mode 'a\\nb': at most 400 printable characters",
        ),
        ({"cwd": "tmp"}, "working directory 'tmp' is not absolute"),
        ({"priority": -1.0}, "priority -1.0 is outside 0..1000"),
        ({"priority": 1001.0}, "priority 1001.0 is outside 0..1000"),
        ({"priority": float("nan")}, "priority nan is outside 0..1000"),
        ({"kind": 99}, "this version does not know the kind, size unit or resize mode"),
        ({"unit": 99}, "this version does not know the kind, size unit or resize mode"),
        ({"mode": 99}, "this version does not know the kind, size unit or resize mode"),
        ({"sharing": 99}, "this version does not know the core sharing of the job"),
        (
            {"sharing": pb.CORE_SHARING_BORROW},
            "a rigid job has all its requested cores; only moldable and malleable jobs can "
            "borrow cores",
        ),
        (
            {"sharing": pb.CORE_SHARING_LEND, "kind": pb.JOB_KIND_MOLDABLE},
            "a moldable job keeps its cores while it runs; only malleable jobs can lend cores",
        ),
        (
            {
                "sharing": pb.CORE_SHARING_BOTH,
                "kind": pb.JOB_KIND_MALLEABLE,
                "mode": common_pb2.RESIZE_MODE_FIXED,
            },
            "a job in mode fixed keeps its cores while it runs; use mode mask or team to "
            "lend cores",
        ),
        (
            {
                "sharing": pb.CORE_SHARING_BOTH,
                "kind": pb.JOB_KIND_MALLEABLE,
                "exclusive": True,
            },
            "an exclusive job does not share its nodes",
        ),
        (
            {"mode": common_pb2.RESIZE_MODE_MAP, "unit": pb.SIZE_UNIT_NODES},
            "a rigid job keeps its nodes; mode map over nodes is for malleable jobs: give a "
            "range of sizes such as --nodes 1-4",
        ),
        (
            OVER_NODES | {"mode": common_pb2.RESIZE_MODE_REBUILD},
            "mode rebuild is for jobs on --cores: a restarted Charm++ program renumbers its "
            "PEs, so residual processes on released nodes could not be identified. Over "
            "nodes use --resize map or restart",
        ),
        (
            OVER_NODES | {"tasks_per_node": 2},
            "a job of mode map has a PE for each of its cores; omit --tasks-per-node",
        ),
        (
            OVER_NODES | {"sharing": pb.CORE_SHARING_LEND},
            "a job of mode map over nodes uses whole nodes and leaves processes on released "
            "nodes, so it can neither share cores nor be exclusive",
        ),
        (
            OVER_NODES | {"memory_bytes": 1},
            "a job of mode map over nodes releases nodes without ending its processes "
            "there, so memory and GPUs cannot stay reserved for it; omit --memory and --gpus",
        ),
    ],
)
def test_a_refusal_says_why(fields: dict[str, Any], text: str) -> None:
    assert complaint(**fields) == text


def test_a_large_environment_is_refused() -> None:
    with pytest.raises(
        InvalidRequestError, match=r"^environment of 1048577 bytes exceeds the limit of 1048576 "
    ):
        launch_data(message(env={"A": "x" * (1 << 20)}))


def spec(**fields: Any) -> JobSpec:
    return JobSpec(name="a", app="a", argv=("x",), **fields)


NODES = [node("n0", 2).spec, node("n1", 4, floor_w=20, max_w=40).spec]


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"size_min": 5}, "the job requests 5 cores of one node; the largest node, n1, has 4"),
        ({"size_min": 3, "unit": SizeUnit.NODES}, "the job requests 3 nodes, but there are only 2"),
        (
            {"cap_uw": 15 * W},
            "cap of 15.000 W per node is outside the range of the nodes, 16.000..45.000 W",
        ),
        (
            {"cap_uw": 46 * W},
            "cap of 46.000 W per node is outside the range of the nodes, 16.000..45.000 W",
        ),
    ],
)
def test_what_no_node_could_ever_hold(wanted: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        check_possible(spec(**wanted), NODES)
    assert str(caught.value) == text


def test_what_fits_just_so_and_what_nobody_can_know_yet() -> None:
    check_possible(spec(size_min=4), NODES)
    check_possible(spec(size_min=2, unit=SizeUnit.NODES, cap_uw=20 * W), NODES)
    check_possible(spec(size_min=1000), [])


GPU_NODES = [
    replace(NODES[0], memory_bytes=4 << 30, gpus=("0", "1"), features=("big",)),
    replace(NODES[1], memory_bytes=8 << 30),
]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (
            {"memory_bytes": 9 << 30},
            "the job requests 9 GiB of memory on a node; a node has at most 8 GiB",
        ),
        ({"gpus": 3}, "the job requests 3 GPUs on a node; a node has at most 2"),
        ({"features": ("gone",)}, "no node has the feature 'gone'"),
        ({"among": ("n9",)}, "node 'n9' does not exist"),
        (
            {"among": ("SECOND",), "features": ("big",)},
            "no node has the feature 'big'",
        ),
        (
            {"among": ("SECOND",), "unit": SizeUnit.NODES, "size_min": 2, "size_max": 2},
            "the job requests 2 nodes of its --among list with 0 MiB of memory and 0 GPUs "
            "each; there are only 1",
        ),
        (
            {"features": ("big",), "memory_bytes": 5 << 30},
            "the job requests 5 GiB of memory on a node; a node has at most 4 GiB",
        ),
        (
            {"gpus": 1, "memory_bytes": 5 << 30},
            "the job requests 1 node with 5 GiB of memory and 1 GPU each; there are only 0",
        ),
        (
            {"gpus": 1, "unit": SizeUnit.NODES, "size_min": 2, "size_max": 2},
            "the job requests 2 nodes with 0 MiB of memory and 1 GPU each; there are only 1",
        ),
    ],
)
def test_what_no_node_could_ever_hold_beside_cores(wanted: dict[str, Any], why: str) -> None:
    if wanted.get("among") == ("SECOND",):
        wanted = {**wanted, "among": (GPU_NODES[1].node_id,)}
    with pytest.raises(InvalidRequestError, match=f"^{re.escape(why)}$"):
        check_possible(spec(**wanted), GPU_NODES)


def test_what_one_node_could_hold_is_taken() -> None:
    check_possible(spec(gpus=2, memory_bytes=4 << 30, features=("big",)), GPU_NODES)
    check_possible(spec(memory_bytes=8 << 30), GPU_NODES)


def test_a_node_of_the_configuration_that_has_not_come_yet_may_be_named() -> None:
    own = {node.node_id: () for node in GPU_NODES} | {NodeId("later"): ()}
    check_possible(spec(among=(NodeId("later"),)), GPU_NODES, own)


def test_features_of_the_configuration_count() -> None:
    own = {node.node_id: ("added",) for node in GPU_NODES}
    check_possible(spec(features=("added",)), GPU_NODES, own)
    with pytest.raises(InvalidRequestError, match="no node has the feature 'added'"):
        check_possible(spec(features=("added",)), GPU_NODES)


def test_a_time_that_is_over_is_no_time_to_be_done_by() -> None:
    clock = Clock()
    soon_s = clock.wall_s(clock.now_ns()) + 60
    assert clock.wall_s(due_ns(message(due_at_s=soon_s), clock)) == pytest.approx(soon_s)
    assert due_ns(message(), clock) == -1
    with pytest.raises(InvalidRequestError, match="the due date is 60 s ago"):
        due_ns(message(due_at_s=soon_s - 120), clock)


def levelled_node() -> NodeSpec:
    """A node with two DRAM zones of 4..12 W, each set to 6 W, and two GPUs of 50..90 W."""

    def zone(name: str, kind: ZoneKind, least_w: int, most_w: int) -> Zone:
        return Zone(
            name=ZoneName(name),
            kind=kind,
            cap_uw_min=least_w * W,
            cap_uw_max=most_w * W,
            floor_uw=least_w * W,
            window_ns=0,
        )

    drams = [zone(f"dram-{i}", ZoneKind.DRAM, 4, 12) for i in range(2)]
    gpus = [zone(f"gpu-{i}", ZoneKind.GPU, 50, 90) for i in "ab"]
    plain = node("n1", 4).spec
    return replace(plain, zones=(*plain.zones, *drams, *gpus), gpus=("GPU-a", "GPU-b"))


@pytest.mark.parametrize(
    ("nodes", "wanted", "why"),
    [
        (
            "bare",
            {"dram_uw": 9 * W},
            "a DRAM cap of 9.000 W is not possible: no node has DRAM with a power cap",
        ),
        (
            "bare",
            {"gpu_uw": 9 * W},
            "a GPU cap of 9.000 W is not possible: no node has GPUs with a power cap",
        ),
        (
            "full",
            {"dram_uw": 7 * W},
            "DRAM cap of 7.000 W per node is outside the range of the nodes, 8.000..24.000 W",
        ),
        (
            "full",
            {"gpu_uw": 91 * W},
            "GPU cap of 91.000 W per GPU is outside the range of the nodes, 50.000..90.000 W",
        ),
    ],
)
def test_levels_that_no_node_could_ever_hold(nodes: str, wanted: dict[str, int], why: str) -> None:
    there = [replace(NODES[1], gpus=("0", "1"))] if nodes == "bare" else [*NODES, levelled_node()]
    asked = spec(levels=Levels(**wanted), gpus=1 if "gpu_uw" in wanted else 0)
    with pytest.raises(InvalidRequestError, match=f"^{re.escape(why)}$"):
        check_possible(asked, there)
    good = spec(levels=Levels(dram_uw=8 * W, gpu_uw=90 * W), gpus=1)
    check_possible(good, [levelled_node()])


def test_levels_are_taken_and_told() -> None:
    asked = job_spec(message(dram_cap_uw=9 * W, gpu_cap_uw=70 * W, gpus=2))
    assert asked.levels == Levels(dram_uw=9 * W, gpu_uw=70 * W)
    told = spec_message(asked, Clock())
    assert (told.dram_cap_uw, told.gpu_cap_uw) == (9 * W, 70 * W)
    predicted = job_spec(message(predicted_uw=93 * W))
    assert predicted.predicted_uw == spec_message(predicted, Clock()).predicted_uw == 93 * W
    assert job_spec(message()).levels is PLAIN
    assert complaint(gpu_cap_uw=70 * W) == (
        "a GPU cap of 70.000 W is for jobs with their own GPUs; request them with --gpus"
    )


def test_a_map_over_nodes_is_for_nodes_with_as_many_cores_each() -> None:
    """No policy could start the job on these nodes, so it would wait forever."""
    unlike = [NODES[0], replace(NODES[0], node_id=NodeId("other"), cpus=CpuSet.of(range(3)))]
    wanted = {"kind": JobKind.MALLEABLE, "mode": ResizeMode.MAP, "unit": SizeUnit.NODES}
    with pytest.raises(
        InvalidRequestError, match="select identical nodes with --features or --among"
    ):
        check_possible(spec(**wanted), unlike)
    check_possible(spec(**wanted), unlike[:1])
    check_possible(spec(**wanted, among=(NodeId("other"),)), unlike)
    check_possible(spec(**{**wanted, "mode": ResizeMode.RESTART}), unlike)
