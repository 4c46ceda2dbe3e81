"""Directives of job scripts: any words come back, and no text ends with another error."""

from __future__ import annotations

import shlex
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from wattfold.coordinator.cli.jobs.scripts.job_script import FOREIGN, OWN, SLURM, parse_directives
from wattfold.coordinator.cli.jobs.scripts.sbatch import translate
from wattfold.coordinator.cli.shared.errors import BadRequestError

WORD = st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]))
WORDS = st.lists(WORD, max_size=5)
SIGN = st.sampled_from([OWN, SLURM])
NEITHER = st.sampled_from(["", "# a comment", "##SBATCH -n 4", " #WATTFOLD --x", "#WATTFOLDS"])
COMMENT = st.sampled_from(["", " # a 'comment", "\t#"])


@given(
    st.lists(st.tuples(SIGN, WORDS, COMMENT), max_size=6),
    st.lists(NEITHER, max_size=3),
)
def test_words_come_back_with_their_lines(
    lines: list[tuple[str, list[str], str]], others: list[str]
) -> None:
    texts = [f"{sign} {shlex.join(words)}{comment}" for sign, words, comment in lines]
    found = parse_directives("\n".join(["#!/bin/sh", *others, *texts, "true", ""]), "s")
    numbered = list(enumerate(lines, start=2 + len(others)))
    for sign, directives in ((OWN, found.own), (SLURM, found.slurm)):
        expected = [(n, tuple(words)) for n, (of, words, _) in numbered if of == sign]
        assert [(directive.line, directive.words) for directive in directives] == expected
    assert (found.foreign, found.late) == ((), ())


ANY_LINE = st.one_of(
    st.text(max_size=30),
    st.builds("{} {}".format, st.sampled_from([OWN, SLURM, *FOREIGN]), st.text(max_size=30)),
    st.builds(
        "#SBATCH --{}={}".format,
        st.sampled_from(["time", "nodes", "ntasks", "mem", "gres", "gpus", "constraint"]),
        st.text("0123456789-:,KMG&gpu", max_size=8),
    ),
)


@given(st.lists(ANY_LINE, max_size=8))
def test_any_script_is_read_or_refused_with_its_line(lines: list[str]) -> None:
    with suppress(BadRequestError):
        found = parse_directives("\n".join(lines), "s")
        translate(found.slurm, "s")
