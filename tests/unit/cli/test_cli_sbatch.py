"""`#SBATCH` options: what each means in options of `submit`, and what is refused."""

from __future__ import annotations

import pytest

from wattfold.coordinator.cli.jobs.scripts.job_script import Directive
from wattfold.coordinator.cli.jobs.scripts.sbatch import Translated, translate
from wattfold.coordinator.cli.shared.errors import BadRequestError


def translated(line: str) -> Translated:
    return translate([Directive(line=7, words=tuple(line.split()))], "job.sh")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--qos=x", "--cores 1"),
        ("-c 4", "--cores 4"),
        ("-n 1 -c4", "--cores 4"),
        ("--nodes=1 --ntasks=4 --cpus-per-task=2", "--cores 8 --tasks-per-node 4 --own-launcher"),
        ("--ntasks-per-node=4", "--cores 4 --tasks-per-node 4 --own-launcher"),
        ("-n 4 -c 2", "--units 4 --unit-cores 2 --own-launcher"),
        ("-n 4 --mem-per-cpu=512 -c 2", "--units 4 --unit-cores 2 --own-launcher --memory 1024M"),
        ("-n 4 --gpus=8", "--units 4 --unit-cores 1 --own-launcher --gpus 2"),
        ("-N 2", "--nodes 2 --own-launcher"),
        ("-N 2-4", "--nodes 2-4 --kind moldable --own-launcher"),
        ("-N 2 -n 8", "--nodes 2 --tasks-per-node 4 --own-launcher"),
        ("-n 8 --ntasks-per-node 4", "--nodes 2 --tasks-per-node 4 --own-launcher"),
        ("-N 2 --ntasks-per-node=4 --mem-per-cpu=1G --cpus-per-task=2",
         "--nodes 2 --tasks-per-node 4 --own-launcher --memory 8G"),
        ("-N 2 -G 4", "--nodes 2 --own-launcher --gpus 2"),
        ("--mem=4000", "--cores 1 --memory 4000M"),
        ("--mem=4GB", "--cores 1 --memory 4G"),
        ("--gres=gpu", "--cores 1 --gpus 1"),
        ("--gres=gpu:2", "--cores 1 --gpus 2"),
        ("--gres=gpu:a100", "--cores 1 --gpus 1"),
        ("--gpus-per-node=a100:3", "--cores 1 --gpus 3"),
        ("-t 30", "--cores 1 --time 1800s"),
        ("--time=30:15", "--cores 1 --time 1815s"),
        ("--time=1:30:15", "--cores 1 --time 5415s"),
        ("--time=1-2", "--cores 1 --time 93600s"),
        ("--time=1-2:03", "--cores 1 --time 93780s"),
        ("--time=1-02:03:04", "--cores 1 --time 93784s"),
        ("--time=5 --time=6", "--cores 1 --time 360s"),
        ("-J n -p q -o o%j -e e -C a&b -D /x", "--cores 1 --name n --queue q --output o%j "
         "--error e --features a,b --cwd /x"),
        ("-A lab", "--cores 1 --account lab"),
        ("--mail-type=END,Fail --mail-user=a@b", "--cores 1 --mail end,fail --mail-to a@b"),
        ("--mail-type=ALL", "--cores 1 --mail begin,end,fail,requeue"),
        ("--mail-type=NONE", "--cores 1"),
        ("--mail-type=END,TIME_LIMIT", "--cores 1 --mail end"),
        ("-A other --account=lab", "--cores 1 --account lab"),
        ("--exclusive --requeue -H --export=NONE",
         "--cores 1 --export none --exclusive --requeue --hold"),
        ("--no-requeue --export ALL", "--cores 1 --export all --requeue=0"),
        ("-d afterok:1:2,afterany:3", "--cores 1 --after ok:1,2 --after any:3"),
        ("--dependency=afterany:7", "--cores 1 --after any:7"),
        ("--begin=16:00", "--cores 1 --begin 16:00"),
        ("--begin=2027-01-31T08:00:00", "--cores 1 --begin 2027-01-31T08:00:00"),
        ("--begin=now+90", "--cores 1 --begin now+90s"),
        ("-b now+2hours", "--cores 1 --begin now+7200s"),
        ("-b now+1week", "--cores 1 --begin now+604800s"),
        ("-b now+0 -b now", "--cores 1 --begin now"),
        ("-b now+0", "--cores 1"),
        ("--job-n=n", "--cores 1 --name n"),
    ],
)  # fmt: skip
def test_options_of_slurm_in_options_of_submit(line: str, words: str) -> None:
    assert " ".join(translated(line).words) == words


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--time=soon", "--time: 'soon' is not a time"),
        ("--time=0", "--time: a limit of 0"),
        ("--time=1:2:3:4", "--time: '1:2:3:4' is not a time"),
        ("-N none", "--nodes: not a size"),
        ("-n 0", "--ntasks: '0' is not a number"),
        ("-N 2 -n 5", "--ntasks: 5 tasks cannot be equal parts on 2 nodes"),
        ("-N 2-4 -n 8", "--ntasks: 8 tasks cannot be equal parts on 2-4 nodes"),
        ("-N 2 -n 8 --ntasks-per-node 3", "--ntasks-per-node: 8 tasks on 2 nodes are 4 on each"),
        ("-n 4 --mem 4G", "--mem: an amount for each node needs the number of nodes"),
        ("-n 4 --gres=gpu:1", "--gres: an amount for each node needs the number of nodes"),
        ("--mem 0", "--mem: 0 (all memory) is not supported"),
        ("--mem much", "--mem: 'much' is not an amount of memory"),
        ("-N 2 --gpus 3", "--gpus: 3 GPUs are not equal parts"),
        ("--gres=tmp:1", "--gres: only GPUs are supported"),
        ("--gres=gpu:1,tmp:1", "--gres: 'gpu:1,tmp:1'"),
        ("--gpus=many", "--gpus: 'many' is not a number of GPUs"),
        ("-C a|b", "--constraint: 'a|b': only names joined with &"),
        ("-p a,b", "--partition: 'a,b': give one queue"),
        ("--export=ALL,X=1", "--export: 'ALL,X=1': only ALL and NONE"),
        ("-d afternotok:1", "--dependency: 'afternotok:1': only afterok:ID"),
        ("-d afterok:1?afterok:2", "--dependency: 'afterok:1?afterok:2': only afterok:ID"),
        ("-d afterok:1+5", "--dependency: 'afterok:1+5': only afterok:ID"),
        ("-d after:1", "--dependency: 'after:1': only afterok:ID"),
        ("--begin=noon", "--begin: 'noon': expected for example now+1hour"),
        ("--gpus-per-task=1", "--gpus-per-task: not supported; give --gpus-per-node"),
    ],
)
def test_what_has_no_equal_is_refused(line: str, message: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        translated(line)
    assert str(caught.value).startswith("job.sh:7: #SBATCH --")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "variables"),
    [
        ("-t 5", {}),
        ("-n 4 -c 2", {"SLURM_NTASKS": "4", "SLURM_CPUS_PER_TASK": "2"}),
        ("-N 2 --ntasks-per-node 3", {"SLURM_NTASKS": "6"}),
        ("-N 2-4 --ntasks-per-node 3", {}),
    ],
)
def test_variables_state_what_the_script_states(line: str, variables: dict[str, str]) -> None:
    assert translated(line).variables == variables


def test_differences_are_named() -> None:
    assert translated("-N 2 -n 4 -c 8").warnings == (
        "the job gets whole nodes, so each of the 2 tasks of a node gets an equal part of its "
        "cores instead of 8",
    )
    assert "ppr:1:node" in translated("-N 2").warnings[0]
    assert translated("--exclusive=user --wckey").warnings == (
        "not supported: --exclusive=user (line 7); --wckey (line 7)",
    )


def test_a_script_without_slurm_has_no_options() -> None:
    assert translate([], "job.sh") == Translated()
