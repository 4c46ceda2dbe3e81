"""The rig itself: it starts, runs a job, and leaves nothing."""

import os
from pathlib import Path

from wattfold.coordinator.demo.beside_slurm.cluster import CGROUPS, slurm_cluster


def mentions(word: str) -> list[str]:
    """Return the command lines of all processes that contain a word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in text and int(path.parent.name) != os.getpid():
            found.append(text)
    return found


def test_the_rig_leaves_no_process_socket_group_or_file():
    for _ in range(3):
        with slurm_cluster(nodes=2) as cluster:
            assert cluster.call("srun", "-n1", "printenv", "SLURM_JOB_ID").strip() == "1"
            cluster.begin("srun", "-N2", "sleep", "1000")
            names, root = cluster.nodes, cluster.root
        assert not root.exists()
        for name in names:
            assert not mentions(name)
            assert not list(CGROUPS.glob(f"*/slurm_{name}"))
        assert not mentions(str(root))
        assert str(root) not in Path("/proc/net/unix").read_text()
