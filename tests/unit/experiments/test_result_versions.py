"""The modules that decide the results of each paper exist, so that its results have a version."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from wattfold.simulator import papers
from wattfold.simulator.sweep.case import code_version

PAPERS = [module.name for module in pkgutil.iter_modules(papers.__path__) if module.ispkg]


def test_all_five_papers_are_tried() -> None:
    assert len(PAPERS) == 5


@pytest.mark.parametrize("paper", PAPERS)
def test_results_of_a_paper_have_a_version(paper: str) -> None:
    evaluation = importlib.import_module(f"wattfold.simulator.papers.{paper}.evaluation")
    assert len(code_version(evaluation._DECIDES)) == 16
