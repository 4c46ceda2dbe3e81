"""Code that numba compiled from other sources is not used."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("numba")


def test_what_was_compiled_of_other_sources_is_thrown_away(tmp_path: Path) -> None:
    from wattfold.coordinator.solvers.training.compiled import discard_stale, sources_digest

    kept = [tmp_path / f"greedy_loops.constructed-9.py311.{kind}" for kind in ("nbi", "1.nbc")]
    other = tmp_path / "another_module.f-1.py311.nbi"
    for path in (*kept, other):
        path.write_bytes(b"x")
    discard_stale(tmp_path, sources_digest())
    assert [path.exists() for path in kept] == [False, False]
    assert other.exists()
    for path in kept:
        path.write_bytes(b"x")
    discard_stale(tmp_path, sources_digest())
    assert [path.exists() for path in kept] == [True, True], "they are of these sources"
    discard_stale(tmp_path, "of others")
    assert [path.exists() for path in kept] == [False, False]
