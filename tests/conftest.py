"""Each test has a folder of its own, and what it started is ended with it, also when it fails."""

import os
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import support  # noqa: E402  (and with it, `bash_tool`: this file, or the one that BASH_TOOL_MUTANT names)


@pytest.fixture(autouse=True)
def own_place(monkeypatch, tmp_path):
    """A folder of its own, with TMPDIR in it, and a variable by which all processes of the test are found."""
    mark = "MARK_OF_A_TEST_%d_%s" % (os.getpid(), os.urandom(4).hex())
    monkeypatch.setenv(mark, "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # kept from its first use on, whatever TMPDIR is
    monkeypatch.chdir(tmp_path)
    for name in "BASH_TOOL_PROFILE", "BASH_TOOL_TIMEOUTS", "BASH_TOOL_STRUCTURED":
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    support.end_all(mark, tmp_path)
