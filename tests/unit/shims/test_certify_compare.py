"""Comparison of the outputs of two runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.shims.certify_compare import Comparison, difference

EXACT = Comparison()


def test_equal_bytes_agree() -> None:
    assert difference({"out": b"a\n\xff"}, {"out": b"a\n\xff"}, EXACT) is None


def test_the_first_difference_is_told() -> None:
    said = difference({"a": b"1\n", "b": b"x\ny\n"}, {"a": b"1\n", "b": b"x\nz\n"}, EXACT)
    assert said == "b line 2: 'y' became 'z'"


def test_an_output_of_one_run_only() -> None:
    assert difference({"a": b""}, {"a": b"", "b": b""}, EXACT) == "only one of the runs wrote b"


def test_a_missing_line() -> None:
    assert difference({"a": b"1\n2"}, {"a": b"1"}, EXACT) == "a has 1 lines instead of 2"


@pytest.mark.parametrize(
    ("left", "right", "agree"),
    [
        (b"E = 1.000000 eV", b"E = 1.000001 eV", True),
        (b"E = 1.000000 eV", b"E = 1.001 eV", False),
        (b"E = 1.0 eV", b"E = 1.0 Ha", False),
        (b"x 1.5D+00", b"x 1.5000001D+00", True),
        (b"0.0 1e-12", b"-0.0 2e-12", True),
        (b"a   1", b"a 1.0", True),
        (b"1 2", b"1", False),
        (b"nan", b"1", False),
    ],
)
def test_numbers_within_a_tolerance(left: bytes, right: bytes, agree: bool) -> None:
    how = Comparison(relative=1e-5, absolute=1e-10)
    assert (difference({"o": left}, {"o": right}, how) is None) is agree


def test_lines_left_out() -> None:
    how = Comparison(ignore=(r"time|date",))
    assert difference({"o": b"x\ntime 1"}, {"o": b"date 2\nx"}, how) is None
    assert difference({"o": b"x\ntime 1"}, {"o": b"date 2\ny"}, how) is not None


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20), st.floats(1e-3, 1e-1))
def test_a_relative_change_below_the_tolerance_agrees_above_not(
    values: list[float], tolerance: float
) -> None:
    how = Comparison(relative=tolerance)

    def text(factor: float) -> dict[str, bytes]:
        return {"o": "\n".join(repr(value * factor) for value in values).encode()}

    assert difference(text(1.0), text(1 + tolerance / 2), how) is None
    if any(abs(value) > 1e-100 for value in values):
        assert difference(text(1.0), text(1 + 3 * tolerance), how) is not None


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_a_wrong_tolerance(wrong: float) -> None:
    with pytest.raises(ValueError, match="tolerance"):
        Comparison(relative=wrong)


def test_a_wrong_expression() -> None:
    with pytest.raises(ValueError, match="regular expression"):
        Comparison(ignore=("(",))
