"""What the tests with real programs share. `python -m tests.integration.support` makes their environments."""

import dataclasses
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.processes import alive, of_proc, processes
from tests.support import MODES, TOOL


def sleepers(seconds):
    """The live processes that sleep for this long, whatever their number in a namespace."""
    return [pid for pid in processes() if alive(pid) and b"sleep\0%s\0" % seconds.encode() in of_proc(pid, "cmdline")]


SHORT = {"default": 1, "grace_s": 0.3}
SHORT_MODES = dataclasses.replace(MODES, timeouts_s=dict(MODES.timeouts_s, default=1), grace_s=0.3)


def say(*words):
    """Into the transcript, which `make integration ARGS=-s` shows."""
    print(" ", *words)


SHORT_ENV = {"BASH_TOOL_SET": " ".join("%s=%s" % limit for limit in SHORT.items())}


def mcp_server(folder):
    """What starts a server for MCP, with its files in this folder; SHORT_ENV is its environment."""
    return {"command": sys.executable, "args": [str(TOOL), "--mcp", "--cwd", "/", "--state-dir", str(folder)]}


# What cannot stand beside the packages of .venv-interop, each in an environment of its own within it.
ENVIRONMENTS = {
    "mcp1": ("mcp<2", "pytest", "hypothesis", "langchain", "langchain-mcp-adapters"),
    "inspect": ("pytest", "pytest-asyncio", "inspect_ai"),
    "langchain": ("pytest", "pytest-asyncio", "langchain-tests", "deepagents"),
}


def environment(name, folder=sys.prefix, packages=()):
    """The interpreter of an environment of this name, which is made on first use."""
    place = Path(folder, name)
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
        install = [sys.executable, "-m", "pip", "--python", str(python), "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "install", "--no-compile", *(packages or ENVIRONMENTS[name])], check=True)
        (place / "ready").touch()
    return python


if __name__ == "__main__":
    with ThreadPoolExecutor() as pool:
        list(pool.map(environment, ENVIRONMENTS))
