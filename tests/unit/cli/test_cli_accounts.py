"""`wattfold accounts` against a fake coordinator."""

from __future__ import annotations

import json

from unit.cli.command import Command
from unit.cli.fake_coordinator import FakeCoordinator, W

from wattfold.v1 import coordinator_pb2 as pb


def test_use_and_limits_are_listed(fake: FakeCoordinator, wattfold: Command) -> None:
    assert "No accounts or limits for you" in wattfold("accounts").stdout
    lab = pb.Account(kind="account", name="lab", members=["ann"], cores=3, cores_max=4, power_uw=W)
    fake.accounts += [lab, pb.Account(kind="user", name="bob", jobs=1)]
    head, first, second = wattfold("accounts").stdout.splitlines()
    assert first.split() == ["account", "lab", "0/-", "3/4", "1.0", "W/-", "0", "-", "ann"]
    assert "FACTOR" not in head
    fake.accounts[1].MergeFrom(pb.Account(share=0.25, recent_use=0.5, priority_factor=0.25))
    head, first, second = wattfold("accounts").stdout.splitlines()
    assert head.split()[-4:] == ["SHARE", "USE", "FACTOR", "MEMBERS"]
    assert first.split()[-4:] == ["-", "-", "-", "ann"]
    assert second.split()[-4:] == ["25%", "50%", "0.25", "-"]
    assert all(len(line) <= 80 for line in (head, first, second))
    document = json.loads(wattfold("--json", "accounts").stdout)
    assert document["accounts"][1]["priority_factor"] == 0.25
