"""Division of a mask among tasks: at least one core each, evenly, nearby, with the fewest moves."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.topology import CpuPlace, Topology
from wattfold.nodeagent.core.tasks import divide, local_rank, share_of

FLAT = Topology()


def topology(sockets: int, cores: int, threads: int = 1) -> Topology:
    """CPU numbers as on Linux: first threads of all cores, then the second threads."""
    whole = sockets * cores
    return Topology.of(
        CpuPlace(
            cpu=thread * whole + core,
            package=core // cores,
            numa_node=core // cores,
            siblings=CpuSet.of(t * whole + core for t in range(threads)),
        )
        for core in range(whole)
        for thread in range(threads)
    )


def texts(cpus: str, tasks: int, where: Topology, *held: str) -> list[str]:
    parts = divide(CpuSet.parse(cpus), tasks, where, [CpuSet.parse(text) for text in held])
    return [str(part) for part in parts]


@pytest.mark.parametrize(
    ("cpus", "tasks", "where", "parts"),
    [
        ("0-7", 2, topology(2, 4), ["0-3", "4-7"]),
        ("1-3,4-5", 2, topology(2, 4), ["1-3", "4-5"]),
        # The larger share is on the socket with more cores.
        ("2-3,4-6", 2, topology(2, 4), ["2-3", "4-6"]),
        ("0-2,4-7", 3, topology(2, 4), ["0-2", "4-5", "6-7"]),
        # A task has whole cores, not the first threads of two cores.
        ("0-3", 2, topology(1, 2, 2), ["0,2", "1,3"]),
        ("0-4", 2, FLAT, ["0-2", "3-4"]),
        ("0-1", 5, FLAT, ["0", "1", "0", "1", "0"]),
    ],
)
def test_the_first_division_follows_the_sockets(cpus, tasks, where, parts):
    assert texts(cpus, tasks, where) == parts


@pytest.mark.parametrize(
    ("cpus", "where", "held", "parts"),
    [
        # A shrink takes from both tasks; nothing moves.
        ("0-1,4-5", topology(2, 4), ("0-3", "4-7"), ["0-1", "4-5"]),
        # One socket is lost: half of the other socket goes to the second task.
        ("0-3", topology(2, 4), ("0-3", "4-7"), ["0-1", "2-3"]),
        # New cores go to the task on their socket.
        ("0-1,4-7", topology(2, 4), ("0-1", "4-5"), ["0-1,6", "4-5,7"]),
        ("0-3", FLAT, ("0", "1"), ["0,2", "1,3"]),
        # Two tasks that shared a core separate: the second releases it.
        ("0-1", FLAT, ("0", "0"), ["0", "1"]),
    ],
)
def test_a_resize_moves_little(cpus, where, held, parts):
    assert texts(cpus, 2, where, *held) == parts


masks = st.sets(st.integers(0, 15), min_size=1).map(CpuSet.of)
places = st.sampled_from([FLAT, topology(1, 16), topology(2, 8), topology(4, 2, 2)])


@given(st.lists(masks, min_size=1, max_size=6), st.integers(1, 7), places)
def test_every_division_is_right(history, tasks, where):
    """The division is valid after any sequence of mask changes."""
    held: tuple[CpuSet, ...] = ()
    for cpus in history:
        parts = divide(cpus, tasks, where, held)
        sizes = [len(part) for part in parts]
        assert len(parts) == tasks
        assert min(sizes) >= 1
        assert max(sizes) - min(sizes) <= 1
        assert all(part <= cpus for part in parts)
        if len(cpus) >= tasks:
            assert sum(sizes) == len(cpus)
            assert all(a.isdisjoint(b) for a, b in combinations(parts, 2))
        else:
            loads = [sum(cpu in part for part in parts) for cpu in cpus]
            assert max(loads) - min(loads) <= 1
        # The same mask again moves nothing, even after a restart.
        assert divide(cpus, tasks, where, parts) == parts
        held = parts


@given(masks, masks, st.integers(1, 5), places)
def test_no_even_division_keeps_more(old, new, tasks, where):
    if len(old) < tasks or len(new) < tasks:
        return
    held = divide(old, tasks, where)
    kept = sum(len(a & b) for a, b in zip(held, divide(new, tasks, where, held), strict=True))
    small, larger = divmod(len(new), tasks)
    have = [len(part & new) for part in held]
    best = max(
        sum(min(n, small + (task in chosen)) for task, n in enumerate(have))
        for chosen in combinations(range(tasks), larger)
    )
    assert kept == best


@given(masks, st.integers(1, 5), places)
def test_a_core_that_is_not_split_need_not_be(cpus, tasks, where):
    """At the start, no task is on more sockets than its neighbours in the order require."""
    parts = divide(cpus, tasks, where)
    if len(cpus) < tasks or not where.packages:
        return
    straddling = [part for part in parts if sum(not part.isdisjoint(p) for p in where.packages) > 1]
    assert len(straddling) < len(where.packages)


def test_nothing_cannot_be_divided():
    with pytest.raises(ValueError, match="0 CPUs among 2 tasks"):
        divide(CpuSet(), 2, FLAT)


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "1"}, 1),
        ({"MPI_LOCALRANKID": "3"}, 3),
        # Slurm started the script in which mpirun started the ranks.
        ({"SLURM_LOCALID": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "2"}, 2),
        ({"WATTFOLD_LOCAL_RANK": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "2"}, 4),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "x", "PMI_LOCAL_RANK": "5"}, 5),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "-1"}, None),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "9" * 5000}, None),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "\u0663"}, None),
        ({"PMIX_RANK": "1", "PMI_RANK": "1"}, None),
    ],
)
def test_ranks_are_read_from_environments(environment, rank):
    assert local_rank(environment) == rank


def test_threads_of_a_task():
    assert [share_of(8, 2), share_of(5, 2), share_of(1, 2), share_of(4, 1)] == [4, 2, 1, 4]
