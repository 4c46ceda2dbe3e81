"""The processes of one site are not those of another."""

from __future__ import annotations

import subprocess
from pathlib import Path

from system.site.processes import processes_of


def test_a_folder_whose_name_begins_alike_is_another_folder(tmp_path: Path) -> None:
    with subprocess.Popen(["/bin/cat"], stdin=-1, env={"MARK": str(tmp_path / "site10")}) as child:
        assert processes_of(tmp_path / "site10") == [child.pid]
        assert processes_of(tmp_path / "site1") == []
        assert child.stdin is not None
        child.stdin.close()
