"""docs/recipes.md: every block runs. Here run those that need Python and bash alone, in tests/integration the others."""

import asyncio
import functools
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.processes import PATIENCE_S, eventually, running
from tests.spec import HERE
from tests.support import RECIPES, TOOL, BashTool, exhaustive, needs_proc, needs_root, recipes, unique
from tests.test_spec import converse_as

pytestmark = needs_proc
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs setsid, setpriv or script of util-linux")

PAGE = RECIPES.read_text(encoding="utf-8")
PYTHON = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE)
# What `make integration` runs, with OF=ray too: each of these words stands in one block of Python.
ELSEWHERE = (
    *("from pydantic_ai import Agent, Tool", "MCPToolset(", "StructuredTool", "MultiServerMCPClient(", "FunctionTool("),
    *("MCPServerStdio(", "client.messages", "function_call_output", "client.chat", "anthropic-native", "openai-native"),
    *("ShellTool(", "sandboxenv(", "harbor", "deepagents", "bwrap", "import ray\n"),
)
SHELL = {  # the sections with shell recipes, and what runs them
    "Around each call": "test_log_of_the_command_line",
    "A program that must be talked to": "test_interop_commands_that_ask_nothing",
    "On other machines": "test_interop_ssh",
    "Judging another implementation": "test_judging_another_implementation",
}


def block(word):
    """The one block of Python that holds this word."""
    (found,) = [program for program in PYTHON if word in program]
    return found


def names_of(word):
    names = {}
    exec(block(word), names)
    return names


def test_each_block_is_run():
    """No block is outside of what the tests run, and the page is not longer than a reader can bear."""
    assert all(block(word) for word in ELSEWHERE)
    assert {heading for heading in re.findall(r"(?m)^## (.*)$", PAGE) if recipes(heading)} == set(SHELL)
    tests = "".join(file.read_text(encoding="utf-8") for file in HERE.glob("tests/**/test_*.py"))
    assert all("\ndef %s(" % name in tests for name in SHELL.values())
    kinds = re.findall(r"(?m)^```(.+)$", PAGE)
    assert set(kinds) == {"python", "sh", "transcript"} and kinds.count("transcript") == 2
    assert PAGE.count("\n```\n") == len(kinds) and kinds.count("python") == len(PYTHON)


@pytest.mark.parametrize(
    "program", [program for program in PYTHON if not any(word in program for word in ELSEWHERE)], ids=str.__len__
)
def test_python(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(program, names)
    for file in (value for value in names.values() if isinstance(value, io.IOBase)):
        file.close()  # a program leaves that to its end


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)        # also where the tests run in the background
exec(sys.argv[1])
command = "setsid sleep {0} & trap '' TERM; echo $TASK; sleep 0.2; (( TASK %% 9 )) || sleep {0}".format(sys.argv[2])
tasks = [{"id": str(n), "command": command} for n in range(1, 61)]
%s
"""


@exhaustive
@LINUX
@pytest.mark.parametrize(
    "way, end", [("threads", "evaluate(tasks, 'results')"), ("asyncio", "asyncio.run(evaluate(tasks, 'results'))")]
)
def test_an_interrupted_evaluation_keeps_results_and_leaves_nothing(way, end, tmp_path):
    """60 tasks, eight at a time, each of which leaves a process, and some of which ignore TERM; one Ctrl-C in the middle."""
    program, seconds = block("as_completed" if way == "threads" else "asyncio.Semaphore"), unique()
    assert len(program.split("\n\nevaluate(")[0].split("\n")) <= 25 or way == "asyncio"
    words = [sys.executable, "-c", INTERRUPTED % end, program, seconds]
    env = dict(os.environ, PYTHONPATH=str(TOOL.parent))
    host = subprocess.Popen(words, cwd=tmp_path, env=env, stderr=subprocess.PIPE)
    results = tmp_path / "results"
    try:
        assert eventually(lambda: results.exists() and results.read_text().count("\n") >= 20) and running(seconds)
        host.send_signal(signal.SIGINT)
        _, said = host.communicate(timeout=PATIENCE_S)
    finally:
        host.kill()
    assert not running(seconds) and said.rstrip().endswith(b"KeyboardInterrupt")
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert 20 <= len(lines) < 60 and all(line["output"] == line["id"] + "\n" for line in lines)


def test_a_call_from_asyncio_and_live_output(tmp_path, monkeypatch):
    """A cancelled task, and a loop that is left, end the command; a mistake is raised; the pieces come while it runs."""
    monkeypatch.chdir(tmp_path)
    program, seconds = block("asyncio.shield"), unique()
    assert len([line for line in program.splitlines() if line]) <= 12
    names = {**names_of("asyncio.shield"), **names_of("def live(")}
    command = "echo begun | tee begun; sleep %s" % seconds

    async def limited():
        await asyncio.wait_for(names["run"](BashTool(), command), 1)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(limited())
    assert not running(seconds) and os.path.exists("begun")
    pieces = names["live"](BashTool(), command)
    assert next(pieces) == "begun\n" and eventually(lambda: running(seconds))
    pieces.close()
    assert not running(seconds)
    with pytest.raises(ValueError, match="mode"):
        list(names["live"](BashTool(), ":", mode="none"))


def test_log_of_python(tmp_path, monkeypatch, caplog):
    """Each call has its line, bytes too; a log that cannot be written costs no result and loses no job."""
    monkeypatch.chdir(tmp_path)
    names, seconds = names_of("on_call=on_call"), unique()
    with BashTool(on_call=names["on_call"], ephemeral=True) as bash:
        assert bash.run("echo a", env={"A": "b"}, cwd="/").ok
        names["log"].close()
        lines = [json.loads(line) for line in Path("calls.jsonl").read_text().splitlines()]
        assert not caplog.records and bash.run("echo late").stdout == "late\n" and len(caplog.records) == 1
        assert bash.job(bash.run("sleep " + seconds, mode="background").pid).status == "running"
    told = [(line["arguments"]["command"], line["exit_code"], line["stdout"]) for line in lines]
    assert told == [("echo hi; exit 3", 3, "hi\n"), ("wc -c", 0, "2\n"), ("echo a", 0, "a\n")]
    assert lines[1]["arguments"]["stdin"] == repr(b"\xff\0") and not running(seconds)


def test_the_path_of_a_terminal(tmp_path, monkeypatch):
    """What startup files add to PATH comes, whatever they print, and so does what they hook to the prompt; startup files
    that fail or wait change nothing."""
    names = names_of("PROMPT_COMMAND")
    monkeypatch.setenv("HOME", str(tmp_path))
    bashrc, profile = tmp_path / ".bashrc", tmp_path / ".bash_profile"
    profile.write_text(". ~/.bashrc\n")
    hook = "hook() { PATH=/of/$(basename $PWD):$PATH; }; PROMPT_COMMAND=hook\n"
    bashrc.write_text("[[ $- == *i* ]] || exit\necho PATH=no; PATH=/of/terminal:$PATH\n" + hook)
    (tmp_path / "repo").mkdir()
    found = names["path_of_user"](tmp_path / "repo")
    assert found["PATH"].startswith("/of/repo:/of/terminal:") and list(found) == ["PATH"]
    for fails in ("exit 1\n", "exec sleep 60\n"):
        bashrc.write_text(fails)
        monkeypatch.setitem(names, "BashTool", functools.partial(BashTool, timeout_s=1))
        quick = block("PROMPT_COMMAND").replace("timeout_s=20", "timeout_s=1")
        exec(quick.split("\nwith ")[0], names)
        assert names["path_of_user"](tmp_path) == {}


def test_more_commands_at_once_than_asyncio_has_threads(tmp_path):
    """Beside forty commands that sleep, one with a short limit is answered at once."""
    machine, seconds = names_of("class Machine")["Machine"](tmp_path), unique()

    async def work():
        tasks = [asyncio.create_task(machine.execute("sleep " + seconds)) for _ in range(40)]
        while len(running(seconds)) < 40:
            await asyncio.sleep(0.05)
        result = await machine.execute("echo hi", timeout_s=PATIENCE_S)
        assert result.stdout == "hi\n" and not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await machine.close()

    asyncio.run(work())
    assert eventually(lambda: not running(seconds))


def test_log_of_the_command_line(tmp_path):
    (program,) = recipes("Around each call")
    shutil.copy(str(TOOL), str(tmp_path))
    done = subprocess.run(["bash", "-c", program], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    *text, line = done.stdout.decode().splitlines()
    assert text == ["[command failed: exit code 3]", "hi"]
    assert json.loads(line)["exit_code"] == 3 and "stdout" not in json.loads(line)


@pytest.mark.parametrize(
    "said, text", [("y", "hi\n"), ("n", "[system error: Command was not confirmed by the user.]\n")]
)
def test_a_person_is_asked(said, text):
    names, asked = names_of("confirm=lambda"), []
    names["input"] = lambda question: asked.append(question) or said
    with names["bash"] as bash:
        assert bash.call({"command": "echo hi"}).text == text
    assert asked == ["Run 'echo hi'? [y/N] "] and text.rstrip() in " ".join(PAGE.split()) + "hi"


@LINUX
@needs_root
def test_another_user():
    """Commands run as that user, with its home, and read the files that answers name; a timeout leaves nothing."""
    folder, seconds = Path(tempfile.mkdtemp(dir="/tmp")), unique()
    folder.chmod(0o755)
    try:
        with names_of("def tool_as")["tool_as"]("nobody", folder, folder / "outputs") as bash:
            assert bash.run("id -un; echo $HOME").stdout.split() == ["nobody", os.path.expanduser("~nobody")]
            result = bash.run("seq 100000")
            assert bash.run("tail -n 1 %s" % result.output_file).text == "100000\n"
            job = bash.run("echo up; sleep %s" % seconds, mode="background")
            assert bash.run("cat %s; kill -9 -%d" % (job.output_file, job.pid)).stdout == "up\n"
            assert bash.job(job.pid).wait(20) and not running(seconds)
            assert bash.run("sleep %s & sleep %s" % (seconds, seconds), timeout_s=0.5).status == "timed_out"
            assert not running(seconds) and "Permission denied" in bash.run("ls %s" % (folder / "outputs")).text
            assert bash.run("setpriv --dump").stdout.count("no_new_privs: 1") == 1
    finally:
        shutil.rmtree(folder)


@exhaustive
@LINUX
def test_a_program_is_talked_to(tmp_path, monkeypatch):
    """Python behind a FIFO and `script`, as the page shows it: an answer, a Ctrl-C, a hidden password, an exit code."""
    monkeypatch.setenv("SHELL", "/bin/sh")  # which `script` starts, also where the variable is not set
    try:
        converse_as(recipes("A program that must be talked to", kind="transcript")[0], tmp_path)
    finally:
        for screen in tmp_path.rglob("out"):
            print(screen.read_text())  # pytest shows it where the test fails


def test_a_watcher_goes_on():
    """A program that stops at the end of its input goes on, ends with its job, and takes what gave the input with it."""
    seconds = unique()
    program = block("sleep infinity").replace("sleep infinity", "sleep " + seconds)
    names = {"running": lambda: running(seconds), "seen": []}
    exec(program.replace("    job.kill()", "    seen.extend(running())\n    job.kill()"), names)
    assert names["seen"] and eventually(lambda: not running(seconds))


def test_judging_another_implementation():
    (program,) = recipes("Judging another implementation")
    wire, dump = program.strip().split("\n")
    lines = wire.replace("make", "make -n", 1), dump.replace("python3", sys.executable, 1)
    shown, printed = (subprocess.check_output(["bash", "-c", line], cwd=HERE) for line in lines)
    assert b'-m tests.conformance "node my-server.mjs"' in shown and len(json.loads(printed)) > 100
