"""Variables for launchers that describe the nodes of a job, and refused orders with steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.agent.test_agent_launch_rules import ORDER, SHIM

from wattfold.nodeagent.core.errors import InvalidRequest
from wattfold.nodeagent.core.launch import check_order, job_environment
from wattfold.nodeagent.core.steps import StepNode, StepSetting, step_files

NEAR = (
    StepNode(node_id="n0", address="unix:/r/n0", cpus=4),
    StepNode(node_id="n1", address="unix:/r/n1", cpus=2),
)
FAR = (
    StepNode(node_id="n0", address="tcp:n0:7071", cpus=4),
    StepNode(node_id="n1", address="tcp:n1:7071", cpus=2),
)
SETTING = StepSetting(
    folder="/run/w/steps/j", remote_shell="/bin/wattfold-rsh", node_id="n0", hostname="head.site"
)
FIRST = replace(ORDER, rank=0, step_nodes=FAR, step_key=b"k" * 32)


def test_every_launcher_finds_the_remote_shell_and_its_hosts() -> None:
    env = job_environment(FIRST, SHIM, SETTING)
    for name in ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "HYDRA_LAUNCHER_EXEC"):
        assert env[name] == "/bin/wattfold-rsh"
    assert env["CONV_RSH"] == "/bin/wattfold-rsh"
    assert env["OMPI_MCA_orte_default_hostfile"] == env["PRTE_MCA_prte_default_hostfile"]
    for name in ("OMPI_MCA_orte_default_hostfile", "HYDRA_HOST_FILE", "NODELIST"):
        folder, _, file = env[name].rpartition("/")
        assert folder == SETTING.folder
        assert file in step_files(FAR, 1, "head.site")
    assert env["WATTFOLD_NODES"] == "n0,n1"
    assert env["WATTFOLD_NODE_ID"] == "n0"
    assert "OMPI_MCA_btl" not in env


def test_a_node_that_takes_steps_is_told_no_hosts() -> None:
    env = job_environment(replace(FIRST, rank=1, steps_only=True), SHIM, SETTING)
    assert "HYDRA_HOST_FILE" not in env
    assert "NODELIST" not in env
    assert env["WATTFOLD_STEPS"] == SETTING.folder


def test_a_job_without_steps_gets_none_of_it() -> None:
    assert not {"WATTFOLD_STEPS", "CONV_RSH", "NODELIST"} & set(job_environment(ORDER, SHIM))


def test_what_the_user_has_set_wins_but_facts() -> None:
    given = {"CONV_RSH": "mine", "WATTFOLD_NODE_ID": "other", "OMPI_MCA_btl": "tcp,self"}
    env = job_environment(replace(FIRST, env=given, step_nodes=NEAR), SHIM, SETTING)
    assert env["CONV_RSH"] == "mine"
    assert env["WATTFOLD_NODE_ID"] == "n0"
    assert env["OMPI_MCA_btl"] == "tcp,self"


def test_files_of_an_outer_job_are_not_taken_for_the_users() -> None:
    given = {"WATTFOLD_STEPS": "/run/w/steps/outer", "NODELIST": "/run/w/steps/outer/hosts.charm"}
    assert job_environment(replace(FIRST, env=given), SHIM, SETTING)["NODELIST"].startswith(
        SETTING.folder + "/"
    )
    assert "NODELIST" not in job_environment(replace(ORDER, env=given), SHIM)


def test_without_a_remote_shell_launchers_are_told_nothing() -> None:
    env = job_environment(FIRST, SHIM, replace(SETTING, remote_shell=""))
    assert "CONV_RSH" not in env
    assert env["WATTFOLD_STEPS"] == SETTING.folder


def test_nodes_that_share_a_machine_do_not_share_memory() -> None:
    env = job_environment(replace(FIRST, step_nodes=NEAR), SHIM, SETTING)
    assert env["OMPI_MCA_btl"] == "^vader,sm"
    alone = job_environment(replace(FIRST, step_nodes=NEAR[:1]), SHIM, SETTING)
    assert "OMPI_MCA_btl" not in alone


@pytest.mark.parametrize(("nodes", "own"), [(NEAR, f"{SETTING.folder}/tmp"), (FAR, "/scratch")])
def test_steps_of_nodes_that_share_a_machine_share_no_temporary_files(
    nodes: tuple[StepNode, ...], own: str
) -> None:
    order = replace(FIRST, env={"TMPDIR": "/scratch"}, step_nodes=nodes)
    assert job_environment(order, SHIM, SETTING)["TMPDIR"] == "/scratch", "its launcher"
    there = job_environment(replace(order, rank=1, steps_only=True), SHIM, SETTING)
    assert there["TMPDIR"] == own


def test_host_files_of_a_cluster() -> None:
    files = step_files(FAR, 1, "head.site")
    assert files["hosts.openmpi"] == "head.site slots=4\nn1 slots=2\n"
    assert files["hosts.hydra"] == "head.site:4\nn1:2\n"
    assert files["hosts.charm"] == "group main\nhost head.site\nhost n1\n"
    assert files["nodes"] == "n0 tcp:n0:7071 -\nn1 tcp:n1:7071 -\n"


def test_host_files_of_one_machine_name_what_resolves_to_it() -> None:
    files = step_files(NEAR, 1, "head.site")
    assert files["hosts.openmpi"] == "localhost slots=4\nn1 slots=2\n"
    assert files["hosts.charm"] == "group main\nhost 127.0.0.1\nhost 127.0.0.2\n"
    assert files["nodes"] == "n0 unix:/r/n0 127.0.0.1\nn1 unix:/r/n1 127.0.0.2\n"


def test_slots_are_the_tasks_of_a_node_where_there_are_some() -> None:
    assert step_files(FAR, 3, "h")["hosts.hydra"] == "h:3\nn1:3\n"


def test_slots_are_the_units_of_each_node_where_there_are_units() -> None:
    unlike = (replace(FAR[0], tasks=2), replace(FAR[1], tasks=1))
    for tasks in (1, 2):
        assert step_files(unlike, tasks, "h")["hosts.hydra"] == "h:2\nn1:1\n"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"step_key": b"short"}, "5 bytes"),
        ({"step_nodes": (), "steps_only": True}, "without the names"),
        ({"step_nodes": FAR[:1], "rank": 1}, "rank 1 is outside the 1"),
        ({"step_nodes": (FAR[0], replace(FAR[1], address=""))}, "node n1 accepts no steps"),
        ({"step_nodes": (FAR[0], replace(FAR[1], address="tcp:a b:1"))}, "space"),
        ({"step_nodes": (FAR[0], replace(FAR[1], node_id="a\nb"))}, "not unique"),
        ({"step_nodes": (FAR[0], FAR[0])}, "not unique"),
    ],
)
def test_orders_whose_steps_can_never_start_are_refused(
    change: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        check_order(replace(FIRST, **change))  # type: ignore[arg-type]


def test_the_key_is_in_no_text_of_an_order() -> None:
    assert "kkkk" not in repr(FIRST)
