"""Inputs of the real programs in the trials, generated here without downloads.

GROMACS: a box of water (SPC/E), placed and relaxed by its own tools. CP2K: three water molecules, a
few steps of molecular dynamics. xtb: a straight alkane.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from wattfold.shims.certify_compare import Comparison

TOPOLOGY = """#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
"""
RELAX = """integrator = steep
nsteps = 200
cutoff-scheme = Verlet
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
"""
DYNAMICS = """integrator = md
dt = 0.002
nsteps = 1000
cutoff-scheme = Verlet
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
tcoupl = v-rescale
tc-grps = System
tau-t = 0.5
ref-t = 300
gen-vel = yes
gen-temp = 300
gen-seed = 17
ld-seed = 17
nstxout = 100
nstvout = 100
nstenergy = 100
"""
CP2K_INPUT = """&GLOBAL
  PROJECT water
  RUN_TYPE MD
  PRINT_LEVEL LOW
  SEED 7
&END GLOBAL
&FORCE_EVAL
  METHOD QUICKSTEP
  &DFT
    BASIS_SET_FILE_NAME BASIS_MOLOPT
    POTENTIAL_FILE_NAME POTENTIAL
    &MGRID
      CUTOFF 200
      REL_CUTOFF 40
    &END MGRID
    &SCF
      EPS_SCF 1.0E-6
      &OT
        PRECONDITIONER FULL_SINGLE_INVERSE
        MINIMIZER DIIS
      &END OT
    &END SCF
    &XC
      &XC_FUNCTIONAL PBE
      &END XC_FUNCTIONAL
    &END XC
  &END DFT
  &SUBSYS
    &CELL
      ABC 7.0 7.0 7.0
    &END CELL
    &COORD
{atoms}
    &END COORD
    &KIND H
      BASIS_SET DZVP-MOLOPT-SR-GTH
      POTENTIAL GTH-PBE-q1
    &END KIND
    &KIND O
      BASIS_SET DZVP-MOLOPT-SR-GTH
      POTENTIAL GTH-PBE-q6
    &END KIND
  &END SUBSYS
&END FORCE_EVAL
&MOTION
  &MD
    ENSEMBLE NVE
    STEPS {steps}
    TIMESTEP 0.5
    TEMPERATURE 300.0
  &END MD
&END MOTION
"""
TOOL_LIMIT_S = 300.0


class InputError(Exception):
    """An input cannot be made; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program with its input, and the results that must agree."""

    name: str
    argv: tuple[str, ...]
    folder: Path
    outputs: tuple[str, ...]
    how: Comparison
    quantity: str
    """Name of the compared quantity, for output."""
    fit: bool
    """Whether the program is known to tolerate a changing team."""


def gromacs(place: Path, *, edge_nm: float, steps: int) -> Case:
    """A cube of water; about 98 atoms per cubic nanometre."""
    folder = _folder(place, "gromacs")
    made = _tool(folder, "solvate", "-cs", "spc216.gro", "-box", *[str(edge_nm)] * 3, "-o", "b.gro")
    found = [line for line in made.splitlines() if line.startswith("Number of solvent molecules")]
    if not found:
        raise InputError(f"gmx solvate did not say how much water there is:\n{made[-500:]}")
    (folder / "topol.top").write_text(f"{TOPOLOGY}SOL {int(found[0].split(':')[1])}\n")
    (folder / "relax.mdp").write_text(RELAX)
    (folder / "run.mdp").write_text(DYNAMICS)
    _tool(folder, "grompp", "-f", "relax.mdp", "-c", "b.gro", "-p", "topol.top", "-o", "relax.tpr")
    _tool(folder, "mdrun", "-deffnm", "relax", "-ntmpi", "1", "-pin", "off")
    arguments = ("-f", "run.mdp", "-c", "relax.gro", "-p", "topol.top", "-o", "topol.tpr")
    _tool(folder, "grompp", *arguments)
    for path in folder.iterdir():
        if path.name != "topol.tpr":
            path.unlink()
    # -reprod disables timing-dependent steps, so that two runs agree in every bit.
    argv = ("gmx", "-quiet", "mdrun", "-s", "topol.tpr", "-ntmpi", "1", "-pin", "off", "-reprod")
    return Case(
        name="gromacs",
        argv=(*argv, "-nsteps", str(steps), "-o", "traj.trr", "-e", "ener.edr"),
        folder=folder,
        outputs=("traj.trr", "ener.edr", "confout.gro"),
        how=Comparison(),
        quantity="positions, velocities, energies: every bit",
        fit=False,
    )


def cp2k(place: Path, *, steps: int) -> Case:
    """Three water molecules in a box of 7 angstrom."""
    folder = _folder(place, "cp2k")
    corners = ((0.0, 0.0, 0.0), (0.0, 2.9, 0.5), (2.8, 1.4, 2.0))
    atoms = []
    for x, y, z in corners:
        atoms.append(f"      O {x:.3f} {y:.3f} {z:.3f}")
        atoms += [f"      H {x + side:.3f} {y + 0.586:.3f} {z:.3f}" for side in (-0.757, 0.757)]
    text = CP2K_INPUT.format(atoms="\n".join(atoms), steps=steps)
    (folder / "water.inp").write_text(text)
    return Case(
        name="cp2k",
        argv=("cp2k.psmp", "-i", "water.inp", "-o", "water.out"),
        folder=folder,
        outputs=("water-pos-1.xyz",),
        how=Comparison(absolute=1e-8),
        quantity="energies (Eh) and positions (angstrom) within 1e-8",
        fit=False,
    )


def xtb(place: Path, *, carbons: int) -> Case:
    """A straight chain of carbon atoms with their hydrogen atoms in a plane."""
    folder = _folder(place, "xtb")
    lines = []
    for i in range(carbons):
        side = 1 if i % 2 else -1
        x, y = 1.27 * i, 0.42 * side
        lines.append(f"C {x:.4f} {y:.4f} 0.0")
        lines += [f"H {x:.4f} {y + 0.63 * side:.4f} {z}" for z in (0.89, -0.89)]
    last = 1 if (carbons - 1) % 2 else -1
    lines += ["H -0.9 0.21 0.0", f"H {1.27 * (carbons - 1) + 0.9:.4f} {-0.21 * last:.4f} 0.0"]
    (folder / "alkane.xyz").write_text(f"{len(lines)}\nalkane\n" + "\n".join(lines) + "\n")
    return Case(
        name="xtb",
        argv=("xtb", "alkane.xyz", "--grad"),
        folder=folder,
        outputs=("energy", "gradient"),
        how=Comparison(absolute=1e-8),
        quantity="energy (Eh) and gradient (Eh/bohr) within 1e-8",
        fit=True,
    )


def missing(program: str) -> bool:
    """Whether a program of these cases is not installed."""
    return shutil.which({"gromacs": "gmx", "cp2k": "cp2k.psmp"}.get(program, program)) is None


def _folder(place: Path, name: str) -> Path:
    folder = place / name
    folder.mkdir(parents=True)
    return folder


def _tool(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["gmx", "-quiet", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},
        capture_output=True,
        text=True,
        check=False,
        timeout=TOOL_LIMIT_S,
    )
    said = done.stdout + done.stderr
    if done.returncode != 0:
        raise InputError(f"gmx {arguments[0]} failed ({done.returncode}):\n{said[-1000:]}")
    return said
