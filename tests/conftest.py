"""The fixture of every test in this folder, and the order of the tests where BASH_TOOL_SHUFFLE is a seed."""

import os
import random

import pytest

pytest.register_assert_rewrite("tests.support", "tests.spec", "tests.processes", "tests.known_commands")

from tests.support import nothing_is_left  # noqa: E402, F401


def pytest_collection_modifyitems(items):
    seed = os.environ.get("BASH_TOOL_SHUFFLE")
    if seed:
        random.Random(seed).shuffle(items)  # each worker of pytest-xdist must collect the same order
