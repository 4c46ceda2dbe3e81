"""The configuration file: every mistake has a message with file, line, value and limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wattfold.coordinator.adapters.config.settings import Config, load
from wattfold.coordinator.adapters.config.values import ConfigError
from wattfold.coordinator.adapters.placing import PlacementSettings
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.description import SettingScope
from wattfold.coordinator.policies.fifo.easy_uniform import EasyUniform
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.fifo.settings import FifoSettings, UniformSettings
from wattfold.coordinator.policies.parm.policy import Parm, ParmVersion
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.coordinator.policies.placement.selector import Strategy


def read(tmp_path: Path, text: str, **flags: Any) -> Config:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return load(path, flags)


def complaint(tmp_path: Path, text: str, **flags: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text, **flags)
    return str(caught.value).replace(str(tmp_path) + "/", "")


def torus_of_two(*places: str) -> str:
    """Two nodes on a torus of four positions, with these positions or without."""
    lines = ["[placement]", 'strategy = "cuboid"', "torus = [2, 2]"]
    for name, place in zip("ab", places, strict=True):
        lines += ["[[node]]", f'id = "{name}"', 'address = "h:1"']
        lines += [f"place = {place}"] if place else []
    return "\n".join(lines)


def test_everything(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        listen = "127.0.0.1:7000"
        state_dir = "~/x"
        budget_w = 100
        policy = "parm-nose"
        predict = "last-two"
        lease_s = 5
        dram_cap_w = 18.5
        [parm]
        alpha = 1
        levels = 4
        resize_interval_s = 2.5
        solver = "greedy"
        [[node]]
        id = "n0"
        address = "h:1"
        [[node]]
        id = "n1"
        address = "h:2"
        """,
    )
    assert config.budget_uw == 100_000_000
    assert config.dram_cap_uw == 18_500_000
    assert config.state_dir == Path("~/x").expanduser()
    assert config.lease_s == 5.0
    assert config.predict == "last-two"
    assert config.policy == Parm(
        ParmSettings(
            alpha=1.0,
            levels=4,
            resize_interval_s=2.5,
            solver="greedy",
        ),
        version=ParmVersion.NOSE,
    )
    assert [(n.node_id, n.address) for n in config.nodes] == [("n0", "h:1"), ("n1", "h:2")]


def test_flags_go_before_the_file_and_a_file_is_not_needed(tmp_path: Path) -> None:
    config = read(tmp_path, "budget_w = 1", budget_w=2.0, nodes=["n0=unix:/x=y"])
    assert config.budget_uw == 2_000_000
    assert config.nodes[0].address == "unix:/x=y"
    assert load(None, {}) == Config()
    assert load(None, {"policy": "fifo"}).policy == FifoEasy(backfill=False)


def test_every_policy_by_each_of_its_names(tmp_path: Path) -> None:
    for entry in registry.entries():
        for name in entry.variant.names:
            if entry.variant.service is None:
                assert "choose one of" in complaint(tmp_path, f'policy = "{name}"')
                continue
            assert read(tmp_path, f'policy = "{name}"').policy == entry.service({})
            assert load(None, {"policy": name}).policy.name == entry.variant.name


def test_every_setting_of_every_policy_is_checked_with_its_line(tmp_path: Path) -> None:
    for family in registry.DESCRIPTIONS:
        for setting in family.settings_in(SettingScope.SERVICE):
            key = f"{family.name}.{setting.key}"
            value = f'"{setting.default}"' if setting.kind is str else setting.default
            read(tmp_path, f"[{family.name}]\n{setting.key} = {value}")
            if setting.kind is str and not setting.choices:
                continue  # The policy checks free text itself.
            bad = '"none"' if setting.kind is str else setting.high + 1
            said = complaint(tmp_path, f"[{family.name}]\n{setting.key} = {bad}")
            assert said.startswith(f"c.toml, line 2: {key} = ")


def test_places(tmp_path: Path) -> None:
    config = read(tmp_path, torus_of_two("[0, 1]", "[1, 1]"))
    assert config.placement == PlacementSettings(strategy=Strategy.CUBOID, torus=(2, 2))
    assert [node.place for node in config.nodes] == [(0, 1), (1, 1)]
    unplaced = read(tmp_path, '[placement]\nstrategy = "compact"\n')
    assert unplaced.placement == PlacementSettings(strategy=Strategy.COMPACT)
    assert load(None, {}).placement == PlacementSettings()


def test_easy_uniform(tmp_path: Path) -> None:
    config = read(tmp_path, 'policy = "easy-uniform"\n[easy-uniform]\nsize = "min"\n')
    assert config.policy == EasyUniform(UniformSettings(size="min"))


def test_fifo(tmp_path: Path) -> None:
    config = read(tmp_path, 'policy = "fifo-easy"\n[fifo]\nsize = "min"\n')
    assert config.policy == FifoEasy(FifoSettings(size="min"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nbudget = 3", "c.toml, line 2: unknown setting budget; did you mean budget_w?"),
        ("zzz = 3", "c.toml, line 1: unknown setting zzz"),
        ("[parms]\nx = 1", "c.toml, line 1: unknown setting parms; did you mean parm?"),
        (
            "[parm]\nlevel = 1",
            "c.toml, line 2: unknown setting parm.level; did you mean parm.levels?",
        ),
        ('budget_w = "3"', "c.toml, line 1: budget_w = '3' is not a number"),
        ("budget_w = true", "c.toml, line 1: budget_w = True is not a number"),
        ("[parm]\nlevels = 2.5", "c.toml, line 2: parm.levels = 2.5 is not a whole number"),
        ("listen = 3", "c.toml, line 1: listen = 3 is not a string"),
        ("budget_w = 0", "c.toml, line 1: budget_w = 0 W is outside 1..1e+09 W"),
        ("budget_w = nan", "c.toml, line 1: budget_w = nan W is outside 1..1e+09 W"),
        ("lease_s = 3601", "c.toml, line 1: lease_s = 3601 s is outside 1..3600 s"),
        ("[parm]\ngap = -1", "c.toml, line 2: parm.gap = -1 is outside 0..0.5"),
        (
            'policy = "magic"',
            "c.toml, line 1: policy = 'magic'; choose one of parm-wse, parm-nose, parm-nomm, "
            "fifo-easy, fifo, conservative, pbs-fifo, pbs-walltime, constraint, constraint-cp, "
            "easy-uniform, slowdown-driven, equipartition, andreas, edf, priority",
        ),
        ("parm = 3", "c.toml, line 1: parm must be a table, as in [parm]"),
        (
            '[placement]\nstrategy = "any"',
            "c.toml, line 2: placement.strategy = 'any'; choose one of first, compact, cuboid",
        ),
        (
            '[placement]\nstrategy = "cuboid"',
            "c.toml, line 2: placement: strategy cuboid needs torus = [X, Y, Z], the sides "
            "of the torus",
        ),
        (
            "[placement]\ntorus = [2, 0]",
            "c.toml, line 2: placement: torus = [2, 0] must have 1..6 sides, each at least "
            "1, and at most 1000000 places",
        ),
        (
            "[placement]\ntorus = [2.0]",
            "c.toml, line 2: placement.torus = [2.0] is not a list of whole numbers",
        ),
        (
            '[placement]\nstrategy = "cuboid"\ntorus = [2, 2]',
            "c.toml, line 2: placement: strategy cuboid needs [[node]] tables with places",
        ),
        (
            torus_of_two("[0, 0]", ""),
            "c.toml, line 9: node b has no place on the torus; give it place = [x, y, z]",
        ),
        (
            torus_of_two("[0, 0]", "[2, 0]"),
            "c.toml, line 11: place = [2, 0] of node b is not on the torus [2, 2]; places count "
            "from 0",
        ),
        (
            torus_of_two("[0, 1]", "[0, 1]"),
            "c.toml, line 11: node b has the same place, [0, 1], as node a",
        ),
        (
            'predict = "mean"',
            "c.toml, line 1: predict = 'mean'; choose one of user, last-two, regression",
        ),
        ("[node]\nid = 'a'", "c.toml, line 1: nodes must be [[node]] tables with id and address"),
        ("node = ['a']", "c.toml, line 1: node.... must be a table"),
        (
            "[[node]]\nid = 'a b'\naddress = 'x'",
            "c.toml, line 2: node 'a b' at 'x' needs a valid id and an address",
        ),
        ("[[node]]\nid = 'a'", "c.toml, line 2: node 'a' at '' needs a valid id and an address"),
        (
            "[[node]]\nid = 'a'\naddress = 'x'\n[[node]]\nid = 'a'\naddress = 'y'",
            "c.toml, line 5: node a is listed twice",
        ),
    ],
)
def test_a_mistake_names_itself(tmp_path: Path, text: str, message: str) -> None:
    assert complaint(tmp_path, text) == message


def test_bad_toml(tmp_path: Path) -> None:
    assert complaint(tmp_path, "budget_w = \n").startswith("c.toml: Invalid value (at line 1")


def test_flags_name_the_command_line(tmp_path: Path) -> None:
    assert complaint(tmp_path, "", budget_w=0.0) == (
        "command line: budget_w = 0 W is outside 1..1e+09 W"
    )
    assert complaint(tmp_path, "", nodes=["n0"]) == "command line: --node 'n0' is not ID=ADDRESS"
    assert "listed twice" in complaint(tmp_path, "", nodes=["a=x", "a=y"])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.toml", {})
    (tmp_path / "latin.toml").write_bytes(b"listen = '\xff'")
    with pytest.raises(ConfigError, match="utf-8"):
        load(tmp_path / "latin.toml", {})


def test_power_beside_the_budget_is_accepted_in_watts(tmp_path: Path) -> None:
    assert read(tmp_path, "accept_outside_w = 40.5").accept_outside_uw == 40_500_000
    assert "accept_outside_w = -1 W is outside" in complaint(tmp_path, "accept_outside_w = -1")


def test_prices_of_energy_that_cannot_be_read_are_told_with_their_place(tmp_path: Path) -> None:
    head = 'policy = "andreas"\n[andreas]\n'
    told = complaint(tmp_path, head + 'price_table = "7:00 dear"\n')
    assert told == "c.toml, line 2: [andreas] price_table: 7:00 dear: 'dear' is not a price"
    assert "cannot be read" in complaint(tmp_path, head + 'price_file = "/none/of/it"\n')
    both = 'price_table = "7:00 0.1"\nprice_file = "x"\n'
    assert "exclude each other" in complaint(tmp_path, head + both)
    prices = tmp_path / "prices.csv"
    prices.write_text("2024-05-01T00:00Z,90\n")
    read(tmp_path, head + f'price_file = "{prices}"\n')


def test_the_days_of_the_history(tmp_path: Path) -> None:
    assert read(tmp_path, "").history_days == 731
    assert read(tmp_path, "[history]\nkeep_days = 30").history_days == 30
    said = complaint(tmp_path, "[history]\nkeep_days = 0")
    assert said == "c.toml, line 2: history.keep_days = 0 days is outside 1..36600 days"
