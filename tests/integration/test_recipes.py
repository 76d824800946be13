"""The blocks of docs/recipes.md that need real programs: types, a sandbox, and programs that must be talked to."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.integration.support import say
from tests.support import BashTool, TOOL, recipes, unique
from tests.test_recipes import block
from tests.test_spec import converse_as

pytestmark = pytest.mark.interop

TALK = "A program that must be talked to"


def mistakes(folder, programs, *options):
    """What mypy --strict says of each program, by its name; all in one run, beside the tool."""
    shutil.copy(str(TOOL), str(folder))
    for name, text in programs.items():
        (folder / (name + ".py")).write_text(text)
    words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *options]
    words += ["--cache-dir", str(TOOL.parent / ".mypy_cache" / "of-recipes"), *(name + ".py" for name in programs)]
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE)
    said = done.stdout.decode()
    say(said.strip())
    found = {name: re.findall(r"(?m)^%s\.py:.*$" % name, said) for name in programs}
    assert done.returncode == int(any(found.values())) and sum(map(len, found.values())) == len(said.splitlines()), said
    return found


def test_interop_types(tmp_path):
    """Each loop passes mypy --strict against the types of its SDK, without a cast or a comment; a mistake does not."""
    programs = {}
    for name, word in {
        "messages": "client.messages",
        "responses": "function_call_output",
        "chat": "client.chat",
    }.items():
        program = programs[name] = block(word)
        assert "cast" not in program and "type:" not in program.replace('"type":', "")
        programs["wrong_" + name] = program.replace("bash.call(", "bash.cell(")
    for name, said in mistakes(tmp_path, programs).items():
        assert bool(said) == name.startswith("wrong_") == ('has no attribute "cell"' in "".join(said)), said


def test_interop_types_of_readme(tmp_path):
    """The programs of README.md pass mypy --strict, but for the functions that README.md leaves without types."""
    readme = (TOOL.parent / "README.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    named = {"program%d" % number: program for number, program in enumerate(programs)}
    assert not any(mistakes(tmp_path, named, "--allow-untyped-defs", "--allow-untyped-calls").values())
    assert len(programs) >= 4


def test_interop_bubblewrap_as_on_the_page(tmp_path, monkeypatch, capfd):
    """The sandbox refuses what the page says, hides the home, and shows the files that answers name, read-only."""
    monkeypatch.chdir(tmp_path)
    names, secret = {}, Path.home() / ("secret-" + unique())
    exec(block("bwrap"), names)
    assert "cannot touch '/there': Read-only file system" in capfd.readouterr().out
    secret.write_text("x")
    try:
        with BashTool(names["repo"], shell=names["sandbox"], state_dir=names["outputs"], ephemeral=True) as bash:
            file = bash.run("seq 100000").output_file
            assert bash.run("tail -n 1 %s; touch here" % file).text == "100000\n" and Path("here").exists()
            assert "Read-only" in bash.run("touch outputs/x").text
            assert not bash.run("ls %s" % secret).ok and not bash.run("ls -A /run | grep .").ok
            assert not bash.run("echo x > /dev/tcp/203.0.113.1/1").ok
            assert bash.run("test -r /etc/passwd").ok  # as the page warns
            job = bash.run("sleep %s" % unique(), mode="background")
            assert "kill" not in job.text and bash.job(job.pid).kill()
    finally:
        secret.unlink()


def test_interop_commands_that_ask_nothing(tmp_path):
    """Each of them ends by itself, with what it is for."""
    (tmp_path / "a.c").write_text("int main(){int x = 41; x++; return x;}\n")
    subprocess.run(["gcc", "-g", "a.c"], cwd=tmp_path, check=True)
    with BashTool(tmp_path) as bash:
        results = [bash.run(command) for command in recipes(TALK)[0].splitlines()]
    for result in results:
        say(result.text)
    assert all(result.ok for result in results) and results[0].text == "42\n" and "$1 = " in results[1].text
    assert (tmp_path / "package.json").exists() and (tmp_path / "key.pub").exists()


STEPS = {  # by program: what prepares it, how it is started, and for each thing sent what must come in `out`
    "gdb": (
        "printf 'int main(){int x = 41;\\nx++;\\nreturn x;}\\n' >a.c; gcc -g a.c",
        "gdb -q ./a.out",
        [
            ("break 2\\n", "Breakpoint 1 at"),
            ("run\\n", "Breakpoint 1, main"),
            ("print x\\n", r"\$1 = 41"),
            ("kill\\n", "y or n"),
            ("y\\n", "Inferior 1 .*killed"),
            ("quit\\n", None),
        ],
    ),
    "npm": (
        ":",
        "npm init",
        [
            ("", r"package name: \S+ "),
            ("demo\\n", "version: "),
            ("\\n", "description: "),
            ("\\n", "entry point: "),
            ("\\n", "test command: "),
            ("\\n", "git repository: "),
            ("\\n", "keywords: "),
            ("\\n", "author: "),
            ("\\n", "license: "),
            ("\\n", "type: |Is this OK"),
            ("\\n", "Is this OK|$"),
            ("\\n", None),
        ],
    ),
    "git": (
        "git init -q; git config user.email a@b; git config user.name n; seq 30 >n; git add n; git commit -qm n; sed -i 's/^1$/one/;s/^29$/x/' n",
        "git add -p",
        [("", "1/2. Stage this hunk"), ("y\\n", "2/2. Stage this hunk"), ("n\\n", None)],
    ),
    "password": (
        "ssh-keygen -q -t ed25519 -N secret -f key",
        "ssh-keygen -y -f key",
        [("", "Enter passphrase"), ("secret\\n", None)],
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_interop_programs_are_talked_to(name, tmp_path):
    """Real programs, started as the page shows it, get line after line, each once what must come before it stands there."""
    prepare, program, steps = STEPS[name]
    (transcript, _) = recipes(TALK, kind="transcript")
    start = json.loads(transcript.splitlines()[0][2:])
    assert "exec python3 -q" in start["command"]
    with BashTool(tmp_path, ephemeral=True) as bash:
        assert bash.run(prepare).ok
        pid = bash.run(start["command"].replace("python3 -q", program), mode="background").pid
        for text, come in steps:
            size = os.stat(tmp_path / "out").st_size if text else 0
            assert bash.run("printf '%s' >in" % text, timeout_s=10).ok
            if come:
                claim = "until tail -c +%d out | grep -E '%s'; do sleep 0.1; done" % (size + 1, come)
                assert bash.run(claim).ok, (text, (tmp_path / "out").read_text())
        assert bash.job(pid).wait(20) and bash.job(pid).exit_code == 0
        said = (tmp_path / "out").read_text()
        say(said)
        if name == "npm":
            assert json.loads((tmp_path / "package.json").read_text())["name"] == "demo"
        if name == "git":
            assert bash.run("git diff --cached --numstat; git diff --numstat").stdout == "1\t1\tn\n1\t1\tn\n"
        if name == "password":
            assert "ssh-ed25519 " in said and "secret" not in said


def test_interop_tmux(tmp_path, monkeypatch):
    """An editor on the screen that tmux keeps; nothing is left once it has ended."""
    monkeypatch.setenv("TMUX_TMPDIR", tempfile.mkdtemp(dir=str(tmp_path)))  # no server of others is met
    converse_as(recipes(TALK, kind="transcript")[1], tmp_path)
