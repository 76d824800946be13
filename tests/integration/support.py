"""What the tests with real programs share."""

import dataclasses
import json
import os
import sys

from tests.processes import alive, of_proc
from tests.support import MODES, TOOL


def sleepers(seconds):
    """The live processes that sleep for this long, whatever their number in a namespace."""
    return [
        pid
        for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
        if alive(pid) and ("sleep\0%s\0" % seconds).encode() in of_proc(pid, "cmdline")
    ]


SHORT = {"default": 1, "grace_s": 0.3}
SHORT_MODES = dataclasses.replace(MODES, timeouts_s=dict(MODES.timeouts_s, default=1), grace_s=0.3)


def say(*words):
    """Into the transcript, which `make integration ARGS=-s` shows."""
    print(" ", *words)


SHORT_ENV = {"BASH_TOOL_TIMEOUTS": json.dumps(SHORT)}


def mcp_server(folder):
    """What starts a server for MCP, with its files in this folder; SHORT_ENV is its environment."""
    return {"command": sys.executable, "args": [str(TOOL), "--mcp", "--cwd", "/", "--state-dir", str(folder)]}
