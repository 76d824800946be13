"""An installed copy: a wheel is built and installed, runs in each of its ways, and has types that find mistakes."""

import json
import os
import subprocess
import sys
import venv

import pytest

from tests.integration.support import say
from tests.spec import HERE
from tests.support import request

pytestmark = pytest.mark.interop

RIGHT = """
from __future__ import annotations
import dataclasses
from bash_tool import MODES, BashTool, Cancel, Job, Result

def confirm(command: str) -> bool:
    return "rm" not in command

profile = dataclasses.replace(MODES, timeouts_s={**MODES.timeouts_s, "slow": 3600})
with BashTool(profile=profile, confirm=confirm, on_call=lambda sent, result: print(result.text)) as bash:
    result: Result = bash.run("sleep 9", mode="background", cancel=Cancel())
    job: Job = bash.job(result.pid)
    line: str | None = job.wait(0.1, until="x")
    ended: bool = job.wait(0.1)
    job.kill()
    print(result.status == "running", line, ended, bash.closed, bash.definition("openai"))
"""
WRONG = {  # a mistake in place of a line, and what mypy says of it
    'result.status == "running"': ('result.status == "timeout"', "comparison-overlap"),
    'mode="background"': ('mode="backgound"', "arg-type"),
    'bash.definition("openai")': ('bash.definition("open-ai")', "arg-type"),
    "def confirm": ("async def confirm", "arg-type"),
    "line: str | None =": ("line: bool =", "assignment"),
    "ended: bool =": ("ended: str | None =", "assignment"),
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The interpreter of an environment that has the wheel and nothing else."""
    place = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(place), str(HERE)], check=True)
    venv.create(place / "venv", symlinks=True)
    (wheel,) = place.glob("bash_tool-*.whl")
    python = place / "venv" / "bin" / "python"
    subprocess.run([*pip, "--python", str(python), "install", str(wheel)], check=True)
    say(wheel.name, wheel.stat().st_size)
    return python


def test_interop_wheel_runs(installed, tmp_path):
    """As a module, as a command, as a server and as a library, with a fork server of its own code."""
    for words in ([installed, "-m", "bash_tool"], [installed.with_name("bash-tool")]):
        done = subprocess.run(
            [*words, "echo on; exit 3"], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        assert (done.stdout, done.returncode) == (b"[command failed: exit code 3]\non\n", 3)
        call = json.dumps(request("tools/call", name="bash", arguments={"command": "echo on"})).encode()
        done = subprocess.run([*words, "--mcp"], cwd=tmp_path, input=call, stdout=subprocess.PIPE)
        assert json.loads(done.stdout)["result"]["content"][0]["text"] == "on\n" and done.returncode == 0
        same = [*words, "--version"], [sys.executable, HERE / "bash_tool.py", "--version"]
        assert len({subprocess.run(each, cwd=tmp_path, stdout=subprocess.PIPE).stdout for each in same}) == 1
    program = "from bash_tool import BashTool; print(BashTool().run('ps -o args= -p $PPID').text)"
    done = subprocess.run([installed, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE)
    assert done.stdout == b"btool\n\n"


def test_interop_wheel_is_typed(installed, tmp_path):
    """`mypy --strict`, without settings, passes a program that imports the wheel, and finds each of some mistakes."""
    programs = {"right.py": (RIGHT, None)}
    for number, (line, (mistake, code)) in enumerate(WRONG.items()):
        assert RIGHT.count(line) == 1
        programs["wrong%d.py" % number] = RIGHT.replace(line, mistake), code
    for name, (text, _) in programs.items():
        (tmp_path / name).write_text(text)
    words = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, "--python-executable", installed]
    done = subprocess.run([*words, *programs], cwd=tmp_path, stdout=subprocess.PIPE)
    lines = [line for line in done.stdout.decode().splitlines() if ": error: " in line]
    for line in lines:
        say(line)
    found = {name: [line for line in lines if line.startswith(name + ":")] for name in programs}
    assert found.pop("right.py") == []
    assert all(len(said) == 1 and "[%s]" % programs[name][1] in said[0] for name, said in found.items()), found
    subprocess.run([installed, "right.py"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
