"""Output paths with patterns that Wattfold does not know are refused at submission."""

from __future__ import annotations

from unit.adapters.test_submissions import complaint


def test_an_unknown_pattern_is_named_with_those_that_are_known() -> None:
    told = complaint(stdout_path="o-%z")
    assert "'o-%z' has the unknown pattern %z; use %j, %A, %a, %x, %u" in told


def test_a_percent_sign_alone_is_no_pattern() -> None:
    assert "unknown pattern %; " in complaint(stderr_path="100%")
