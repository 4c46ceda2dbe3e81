"""Logs of the Parallel Workloads Archive by short names.

D. G. Feitelson, D. Tsafrir, D. Krakov, "Experience with using the Parallel Workloads Archive",
Journal of Parallel and Distributed Computing 74(10), 2014. The archive publishes no checksums, and
its logs may not be redistributed, so no checksum can be pinned here. Instead, the SHA-256 sum of a
file is recorded next to it at the first download, and later downloads are checked against it.
"""

from __future__ import annotations

from dataclasses import dataclass

BASE_URL = "https://www.cs.huji.ac.il/labs/parallel/workload"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedLog:
    """A file of the archive."""

    name: str
    path: str
    """Path below `BASE_URL`."""
    about: str
    sha256: str | None = None
    """None: recorded at the first download."""

    @property
    def file_name(self) -> str:
        """Last part of the path."""
        return self.path.rpartition("/")[2]

    def url(self, base: str = BASE_URL) -> str:
        """Return its URL in the archive or in a mirror."""
        return f"{base.rstrip('/')}/{self.path}"


def _log(name: str, path: str, about: str) -> ArchivedLog:
    return ArchivedLog(name=name, path=path, about=about)


ARCHIVE = {
    log.name: log
    for log in (
        _log("anl-intrepid", "l_anl_int/ANL-Intrepid-2009-1.swf.gz", "ANL Intrepid 2009"),
        _log("ciemat-euler", "l_ciemat_euler/CIEMAT-Euler-2008-1.swf.gz", "CIEMAT Euler 2008"),
        _log("ctc-sp2", "l_ctc_sp2/CTC-SP2-1996-3.1-cln.swf.gz", "Cornell SP2 1996"),
        _log("curie", "l_cea_curie/CEA-Curie-2011-2.1-cln.swf.gz", "CEA Curie 2011"),
        _log("hpc2n", "l_hpc2n/HPC2N-2002-2.2-cln.swf.gz", "HPC2N Seth 2002"),
        _log("kit-fh2", "l_kit_fh2/KIT-FH2-2016-1.swf.gz", "KIT ForHLR II 2016"),
        _log("kth-sp2", "l_kth_sp2/KTH-SP2-1996-2.1-cln.swf.gz", "KTH SP2 1996"),
        _log("lanl-cm5", "l_lanl_cm5/LANL-CM5-1994-4.1-cln.swf.gz", "LANL CM-5 1994"),
        _log("llnl-atlas", "l_llnl_atlas/LLNL-Atlas-2006-2.1-cln.swf.gz", "LLNL Atlas 2006"),
        _log(
            "llnl-thunder", "l_llnl_thunder/LLNL-Thunder-2007-1.1-cln.swf.gz", "LLNL Thunder 2007"
        ),
        _log("metacentrum", "l_metacentrum2/METACENTRUM-2013-3.swf.gz", "MetaCentrum 2013"),
        _log("pik-iplex", "l_pik_iplex/PIK-IPLEX-2009-1.swf.gz", "PIK iDataPlex 2009"),
        _log("ricc", "l_ricc/RICC-2010-2.swf.gz", "RIKEN RICC 2010"),
        _log("sdsc-blue", "l_sdsc_blue/SDSC-BLUE-2000-4.2-cln.swf.gz", "SDSC Blue Horizon 2000"),
        _log("sdsc-sp2", "l_sdsc_sp2/SDSC-SP2-1998-4.2-cln.swf.gz", "SDSC SP2 1998"),
        _log("unilu-gaia", "l_unilu_gaia/UniLu-Gaia-2014-2.swf.gz", "Luxembourg Gaia 2014"),
    )
}
"""Available logs by name."""
