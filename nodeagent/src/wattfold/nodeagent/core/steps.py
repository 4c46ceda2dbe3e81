"""Variables and host files that describe a job's nodes to launchers (mpirun, mpiexec, charmrun).

Names are those of Open MPI 4 (OMPI_MCA_...) and 5 (PRTE_MCA_...), of Hydra (MPICH, Intel MPI) and
of charmrun. Launchers do not bind processes to cores, because the cores of a job change while it
runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

NODES_NAME, TMP_NAME = "nodes", "tmp"
_OPENMPI_HOSTS, _HYDRA_HOSTS, _CHARM_HOSTS = "hosts.openmpi", "hosts.hydra", "hosts.charm"
_LOCAL = "localhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNode:
    """A node as described to a launcher. The address is unix:PATH or tcp:HOST:PORT.

    ``tasks`` is the number of processes to start there; 0 = the job's number of tasks per node.
    """

    node_id: str
    address: str
    cpus: int
    tasks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSetting:
    """The folder of the job here, the remote shell (empty = not installed), this node, its host."""

    folder: str
    remote_shell: str
    node_id: str
    hostname: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepVariables:
    """Variables that a user may override, and variables that state facts."""

    defaults: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)


def step_environment(
    nodes: Sequence[StepNode], setting: StepSetting | None, *, first: bool
) -> StepVariables:
    """Return the variables of a job that starts its steps itself; empty for other jobs.

    ``first``: for the node where its launcher runs.
    """
    if setting is None or not nodes:
        return StepVariables()
    facts = {
        "WATTFOLD_NODE_ID": setting.node_id,
        "WATTFOLD_NODES": ",".join(node.node_id for node in nodes),
        "WATTFOLD_STEPS": setting.folder,
    }
    shell = setting.remote_shell
    if not shell:
        return StepVariables(facts=facts)
    defaults = {
        "OMPI_MCA_plm_rsh_agent": shell,
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_plm_ssh_agent": shell,
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "HYDRA_LAUNCHER": "rsh",
        # Otherwise all processes get the variables of the first node instead of their own.
        "HYDRA_ENV": "none",
        "HYDRA_LAUNCHER_EXEC": shell,
        "CONV_RSH": shell,
    }
    if len(nodes) > 1 and share_a_machine(nodes):
        # Their shared memory has the same names.
        defaults["OMPI_MCA_btl"] = "^vader,sm"
        if not first:
            # Daemons of launchers mistake each other's files for their own.
            facts["TMPDIR"] = f"{setting.folder}/{TMP_NAME}"
    if first:
        folder = setting.folder
        defaults |= {
            "OMPI_MCA_orte_default_hostfile": f"{folder}/{_OPENMPI_HOSTS}",
            "PRTE_MCA_prte_default_hostfile": f"{folder}/{_OPENMPI_HOSTS}",
            "HYDRA_HOST_FILE": f"{folder}/{_HYDRA_HOSTS}",
            "NODELIST": f"{folder}/{_CHARM_HOSTS}",
        }
    return StepVariables(defaults=defaults, facts=facts)


def share_a_machine(nodes: Sequence[StepNode]) -> bool:
    """Whether these are nodes of one machine (emulated): all have unix socket addresses."""
    return all(node.address.startswith("unix:") for node in nodes[1:])


def step_files(nodes: Sequence[StepNode], tasks_per_node: int, hostname: str) -> dict[str, str]:
    """Return the files of a job's folder by name: nodes for the remote shell, and host files.

    Slots are the tasks of a node if the job states them, or else its cores there. The first node
    has a name that its launcher treats as local. Nodes that share a machine (emulated) get a third
    name, because charmrun resolves names, and theirs are in no directory.
    """
    shared = share_a_machine(nodes)
    aliases = [
        f"127.0.{(i + 1) // 256}.{(i + 1) % 256}" if shared else "-" for i in range(len(nodes))
    ]
    names = [node.node_id for node in nodes]
    each = [tasks_per_node if tasks_per_node > 1 else node.cpus for node in nodes]
    slots = [node.tasks or usual for node, usual in zip(nodes, each, strict=True)]
    own = [_LOCAL if shared else hostname, *names[1:]]
    # Without the number of processors, because a launcher of Python programs refuses such lines.
    charm = aliases if shared else own
    counted = list(zip(own, slots, strict=True))
    return {
        NODES_NAME: "".join(
            f"{node.node_id} {node.address or '-'} {alias}\n"
            for node, alias in zip(nodes, aliases, strict=True)
        ),
        _OPENMPI_HOSTS: "".join(f"{name} slots={count}\n" for name, count in counted),
        _HYDRA_HOSTS: "".join(f"{name}:{count}\n" for name, count in counted),
        _CHARM_HOSTS: "group main\n" + "".join(f"host {name}\n" for name in charm),
    }
