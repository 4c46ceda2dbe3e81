"""Profiles sent by clients: models and certificates, stored separately and shown together."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from unit.core.stage import job_spec

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.adapters.requests import profiles
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.resize_cost import learn_stall
from wattfold.coordinator.core.model.jobs.spec import ResizeMode
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import common_pb2 as common
from wattfold.v1 import coordinator_pb2 as pb

MODEL = pb.Profile(
    app="app",
    unit=pb.SIZE_UNIT_CORES,
    average_parallelism=8,
    sigma=1,
    t1_s=100,
    a=1,
    b=1,
    c=10,
    beta=0.5,
    f_low_ghz=1,
    f_high_ghz=3,
    p_low_w=12,
    p_high_w=40,
    source="measured",
)


def certificate(mode: str = "team", **more: object) -> pb.Profile:
    number = {"team": common.RESIZE_MODE_TEAM, "mask": common.RESIZE_MODE_MASK}[mode]
    text = json.dumps({"mode": mode, "sha256": "ab" * 32, **more})
    return pb.Profile(app="app", mode=number, certificate=text)


def stored(*messages: pb.Profile) -> State:
    core = CoordinatorCore(1000)
    for message in messages:
        for event in profiles.events_from(message):
            core.handle(event, 5)
    return core.state


def shown(state: State, app: str = "") -> list[pb.Profile]:
    return profiles.profile_messages(state, Clock(), app)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_model_and_a_certificate_leave_each_other(order: tuple[int, int]) -> None:
    sent = (MODEL, certificate(reason=""))
    (both,) = shown(stored(*(sent[i] for i in order)))
    assert (both.t1_s, both.source) == (100, "measured")
    assert (both.mode, both.certificate) == (common.RESIZE_MODE_TEAM, sent[1].certificate)


def test_a_learnt_model_leaves_the_certificate() -> None:
    state = stored(MODEL, certificate())
    core = CoordinatorCore(1000)
    for event in (
        *profiles.events_from(certificate()),
        replace(state.profiles["app/cores"].stored, source="progress"),
    ):
        core.handle(event, 7)
    assert shown(core.state)[0].mode == common.RESIZE_MODE_TEAM


def test_a_new_certificate_takes_the_place_of_the_old_one() -> None:
    (bare,) = shown(stored(certificate(), certificate("mask", reason="it aborts")))
    assert (bare.mode, bare.source, bare.t1_s) == (common.RESIZE_MODE_MASK, "certified", 0)
    assert json.loads(bare.certificate)["reason"] == "it aborts"


def test_one_certificate_is_shown_with_both_units_and_by_name() -> None:
    by_nodes = pb.Profile()
    by_nodes.CopyFrom(MODEL)
    by_nodes.unit = pb.SIZE_UNIT_NODES
    other = certificate()
    other.app = "other"
    state = stored(MODEL, by_nodes, certificate(), other)
    assert [(p.app, p.mode) for p in shown(state, "app")] == [("app", 3), ("app", 3)]
    assert [p.app for p in shown(state)] == ["app", "app", "other"]


def test_both_in_one_message() -> None:
    message = certificate()
    message.MergeFrom(MODEL)
    kinds = [type(event).__name__ for event in profiles.events_from(message)]
    assert kinds == ["ProgramCertified", "ProfileStored"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mode": common.RESIZE_MODE_TEAM, "certificate": ""}, "not JSON"),
        ({"mode": common.RESIZE_MODE_TEAM, "certificate": "[]"}, "not for mode team"),
        ({"mode": common.RESIZE_MODE_TEAM, "certificate": '{"mode": "mask"}'}, "not for mode team"),
        ({"mode": common.RESIZE_MODE_MAP, "certificate": "{}"}, "RESIZE_MODE_MAP"),
        ({"certificate": "{}"}, "RESIZE_MODE_UNSPECIFIED"),
        ({"mode": 77, "certificate": "{}"}, "not 77"),
        ({"mode": common.RESIZE_MODE_TEAM, "certificate": "x" * 300_000}, "300000 characters"),
        ({}, "scaling needs T1 > 0"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        profiles.events_from(pb.Profile(app="app", **fields))


def resized(state: State, app: str, mode: ResizeMode, moved_bytes: int = -1) -> None:
    one = replace(job_spec(mode=mode), app=app)
    learn_stall(state.restarts, one, stall_ns=31, took_ns=77, moved_bytes=moved_bytes)


def test_what_changes_of_size_have_cost_is_shown_by_ways() -> None:
    state = stored(MODEL)
    resized(state, "app", ResizeMode.MAP, 4096)
    resized(state, "app", ResizeMode.RESTART)
    (profile,) = shown(state)
    by_map, by_restart = profile.resize_costs
    assert (by_map.mode, by_map.unit) == (common.RESIZE_MODE_MAP, pb.SIZE_UNIT_CORES)
    assert (by_map.changes, by_map.stalled_ns, by_map.took_ns) == (1, 31, 77)
    assert by_map.moved_bytes == 4096
    assert by_restart.mode == common.RESIZE_MODE_RESTART
    assert not by_restart.HasField("moved_bytes")


def test_an_application_of_which_nothing_else_is_known_is_shown_and_forgotten() -> None:
    state = stored(MODEL)
    resized(state, "charm", ResizeMode.MAP)
    assert [profile.app for profile in shown(state)] == ["app", "charm"]
    (profile,) = shown(state, "charm")
    assert (profile.source, profile.t1_s) == ("resizes", 0)
    answer = profiles.dropped(state, pb.DropProfileRequest(app="charm", learnt_only=True))
    assert answer.resize_costs
    with pytest.raises(LookupError):
        profiles.dropped(state, pb.DropProfileRequest(app="other"))


def test_a_certificate_survives_the_journal() -> None:
    state = stored(MODEL, certificate())
    assert codec.load_state(codec.dump_state(state)).certificates == state.certificates
    (event,) = profiles.events_from(certificate())
    assert codec.load_event(*codec.dump_event(event)) == event


def test_a_journal_of_before_certificates_is_read() -> None:
    core = CoordinatorCore(1000)
    core.handle(ev.JobSubmitted(job_id=JobId("1"), spec=job_spec()), 1)
    document = json.loads(codec.dump_state(core.state))
    del document["certificates"]
    for job in document["jobs"].values():
        del job["spec"]["mode_source"]
    old = codec.load_state(json.dumps(document))
    assert old.certificates == {}
    assert old.jobs[JobId("1")].spec.mode_source == ""
