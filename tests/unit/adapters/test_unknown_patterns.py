"""Output paths with patterns that Wattfold does not know are refused at submission."""

from __future__ import annotations

from unit.adapters.test_submissions import complaint


def test_an_unknown_pattern_is_named_with_those_that_are_known() -> None:
    assert "'o-%a' has the unknown pattern %a; use %j, %x, %u" in complaint(stdout_path="o-%a")


def test_a_percent_sign_alone_is_no_pattern() -> None:
    assert "unknown pattern %; " in complaint(stderr_path="100%")
