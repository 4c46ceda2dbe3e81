"""Trees in the form of /sys/class/powercap, as plain files."""

from pathlib import Path


def zone(folder: Path, name: str, limit_w: float, max_w: float, **files: int | str) -> Path:
    """One zone with a long-term constraint; ``files`` replaces or adds files."""
    folder.mkdir(parents=True)
    values: dict[str, int | str] = {
        "name": name,
        "enabled": 1,
        "energy_uj": 1_000_000,
        "max_energy_range_uj": 262_143_328_850,
        "constraint_0_name": "long_term",
        "constraint_0_power_limit_uw": int(limit_w * 1e6),
        "constraint_0_max_power_uw": int(max_w * 1e6),
        "constraint_0_time_window_us": 999_424,
    }
    for file, value in (values | files).items():
        (folder / file).write_text(f"{value}\n")
    return folder


def two_sockets_reversed(root: Path) -> Path:
    """Index 0 is package 1; psys sits between; the second package has a hex index."""
    zone(root / "intel-rapl:0", "package-1", 150, 150)
    zone(root / "intel-rapl:1", "psys", 400, 400)
    package = zone(
        root / "intel-rapl:a",
        "package-0",
        200,
        165,
        constraint_1_name="short_term",
        constraint_1_power_limit_uw=198_000_000,
    )
    zone(package / "intel-rapl:a:0", "dram", 0, 47.25, enabled=0)
    return root
