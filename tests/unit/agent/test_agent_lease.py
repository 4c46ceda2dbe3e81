"""Rules of leases and epochs."""

import pytest

from wattfold.nodeagent.core.errors import Fenced, InvalidRequest
from wattfold.nodeagent.core.lease import LEASE_NS_MAX, Lease


def test_there_is_no_lease_at_first():
    lease = Lease()
    assert not lease.live(0)
    assert lease.remaining_ns(0) == 0


def test_a_lease_lives_until_its_end_exclusively():
    lease = Lease().renewed(100, 1000)
    assert lease.live(1099)
    assert not lease.live(1100)
    assert lease.remaining_ns(1040) == 60
    assert lease.remaining_ns(2000) == 0


def test_an_older_epoch_is_refused_with_both_named():
    lease = Lease().admit(5)
    with pytest.raises(Fenced, match=r"epoch 3 is older than epoch 5"):
        lease.admit(3)
    assert lease.admit(5) is lease
    assert lease.admit(6).epoch == 6


def test_within_an_epoch_one_coordinator_is_obeyed():
    lease = Lease().admit(5, "first")
    assert lease.admit(5, "first") is lease
    with pytest.raises(Fenced, match="epoch 5 belongs to another coordinator, first"):
        lease.admit(5, "second")
    assert lease.admit(6, "second").coordinator_id == "second"


def test_a_new_epoch_keeps_the_lease():
    assert Lease().renewed(100, 0).admit(2).live(50)


@pytest.mark.parametrize("duration_ns", [0, LEASE_NS_MAX + 1])
def test_durations_have_limits(duration_ns):
    with pytest.raises(InvalidRequest, match="outside"):
        Lease().renewed(duration_ns, 0)


def test_epoch_zero_is_no_epoch():
    with pytest.raises(InvalidRequest, match="epoch 0"):
        Lease().admit(0)
