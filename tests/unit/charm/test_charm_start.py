"""What a program started by charm_start is told."""

import json
import subprocess
import sys

from wattfold.contract.ccs_protocol import parse_key
from wattfold.shims.charm_start import EXIT_NOT_FOUND, EXIT_USAGE, main

TELL = """
import json, os, sys
path = sys.argv[sys.argv.index("++server-auth") + 1]
# Another process of the same account opens it, as charmrun under a script does.
told = os.popen(f"cat {path}").read()
names = ("WATTFOLD_CCS_PORT", "WATTFOLD_CCS_KEY")
print(json.dumps([sys.argv[1:], told, *(os.environ[name] for name in names)]))
"""


def start():
    command = [sys.executable, "-m", "wattfold.shims.charm_start", "--"]
    program = [sys.executable, "-c", TELL, "+p4", "input"]
    done = subprocess.run([*command, *program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_port_and_key_reach_both_the_program_and_its_environment():
    arguments, told, port, key = start()
    assert arguments[:2] == ["+p4", "input"]
    assert arguments[2:5] == ["++server", "++server-port", port]
    assert 0 < int(port) < 65_536
    assert told == f"0 {key}\n"
    assert len(parse_key(key)) == 16
    assert key not in " ".join(arguments)


def test_every_start_has_its_own_key():
    assert start()[3] != start()[3]


def test_a_program_that_is_not_there_is_named(capsys):
    assert main(["--", "/nowhere/charmrun", "+p4"]) == EXIT_NOT_FOUND
    assert capsys.readouterr().err == "wattfold: /nowhere/charmrun: No such file or directory\n"


def test_without_a_program_the_usage_is_told(capsys):
    assert main([]) == EXIT_USAGE
    assert capsys.readouterr().err.startswith("usage: ")
