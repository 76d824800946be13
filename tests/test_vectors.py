"""The vectors, tests/vectors/*.json: that the oracle answers them, and that a port in another language can use them."""

import re
import shutil
import subprocess

import pytest

from tests.conformance.core import RULES
from tests.processes import PATIENCE_S
from tests.spec import CLAUSES, UPON
from tests.support import bash_tool, exhaustive
from tests.vectors import HERE, KINDS, cases_of, levels_of, lines_of, path_of, wrong_cases
from tests.vectors.__main__ import made


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_answered_by_the_oracle(kind):
    """Where this fails after a change that is meant, `python -m tests.vectors` makes them anew."""
    assert list(wrong_cases(bash_tool, kind)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_what_their_inputs_make(kind):
    """What `make vectors` would write stands there."""
    assert lines_of([*made(kind)]) == path_of(kind).read_text(encoding="utf-8")


def test_vectors_say_which_ports_they_are_for():
    """A port that claims core alone is told of no background command, and has a definition."""
    cases = [case for kind in KINDS for case in cases_of(kind)]
    assert {level for case in cases for level in case["level"]} == {*UPON}
    assert all(case["level"] == levels_of(case, case["expect"]) for case in cases)
    of_core = [case for case in cases if "core" in case["level"]]
    assert any(case["clause"] == "006.1" for case in of_core)
    told = [case for case in of_core if re.search("mode='?\"background|'mode': 'background", str(case["expect"]))]
    assert told == []


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_name_clauses_and_hold_no_secret(kind):
    text = path_of(kind).read_text(encoding="ascii")
    assert not re.search(RULES[2], text, re.ASCII), "a scanner of secrets would find one"
    known = {*CLAUSES, "2.1", "4.6", "4.7"}
    assert {case["clause"] for case in cases_of(kind)} <= known
    assert {path.stem for path in HERE.glob("*.json")} == {*KINDS}


@exhaustive
@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_vectors_carry_to_another_language():
    said = subprocess.run(["node", "-p", "process.versions.node"], stdout=subprocess.PIPE, timeout=PATIENCE_S).stdout
    if int(said.partition(b".")[0]) < 17:
        pytest.skip("needs node 17")
    done = subprocess.run(["node", str(HERE / "port.mjs")], stdout=subprocess.PIPE, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout.decode()
