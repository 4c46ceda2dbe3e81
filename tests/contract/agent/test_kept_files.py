"""Files of zones that stay open between readings: what was removed or replaced is not read."""

import pytest

from wattfold.nodeagent.adapters.devices.powercap_files import RealFiles

ZONE = "intel-rapl:0"


@pytest.fixture
def files(tmp_path):
    (tmp_path / ZONE).mkdir()
    (tmp_path / ZONE / "energy_uj").write_text("5\n")
    return RealFiles(tmp_path)


def test_the_newest_value_is_read(files):
    assert files.read(ZONE, "energy_uj") == "5"
    files.path(ZONE, "energy_uj").write_text("17\n")
    assert files.read_counter(ZONE, "energy_uj") == ("17", 0)


def test_a_removed_file_is_an_error_until_it_is_back(files):
    path = files.path(ZONE, "energy_uj")
    assert files.read(ZONE, "energy_uj") == "5"
    path.unlink()
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            files.read(ZONE, "energy_uj")
    path.write_text("6\n")
    assert files.read(ZONE, "energy_uj") == "6"


def test_a_file_in_the_place_of_another_is_read(files):
    path = files.path(ZONE, "energy_uj")
    assert files.read(ZONE, "energy_uj") == "5"
    new = path.with_name("new")
    new.write_text("7\n")
    new.rename(path)
    assert files.read(ZONE, "energy_uj") == "7"
