"""The properties of bash_tool: one for each clause of SPEC.md, in its order, each with its saboteur beside it.

    python3 -m pytest test_bash_tool.py                 takes pytest and Hypothesis, and the folder tests/ beside it
    python3 -m pytest test_bash_tool.py -k 003_9        one clause
    python3 -m tests.tools.saboteurs 003.9              the same property under its saboteur, where it must fail

`@clause("003.9", saboteur=(place, old, new))` names the clause and the change of bash_tool.py under which the property
turns red. The module under test runs in three kinds of process: a patch in this process changes nothing of a supervisor.
`variant_module` loads a copy in which a constant or a line is another. Claims about the machine are polled for until a
deadline. docs/contributing.md says how to change a clause.
"""

import ast
import base64
import contextlib
import copy
import dataclasses
import errno
import fcntl
import fnmatch
import gc
import inspect
import itertools
import json
import os
import pickle
import pty
import random
import re
import select
import shlex
import signal
import stat
import string
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import typing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings, strategies as st

from tests.known_commands import ESCAPE_SEQUENCES, NAP, SNIPPETS, WAYS_OF_LEAVING, WAYS_OF_TERM, Known, any_of, at_once
from tests.known_commands import endless, endless_in_each_way, failures, filler, folders, known_commands, leaving, names
from tests.known_commands import sizes_about, some_of, until, words
from tests.processes import AMPLE_S, CHANGED, PATIENCE_S, alive, carriers, dwellers, eventually, functions_of_a_host
from tests.processes import number_in, of_proc, parent_of, processes, running
from tests.spec import LONGER_MODES, LONGER_SLOW, NOT_KEPT, SILENT, SLOW_MS, fenced, size_in_words, verdicts
from tests.support import GUARDED, JOBS, MODES, OWN_THREADS, PROFILES, ROOT, SHOWN_ANYWAY, SOURCE, STREAMS, THOROUGH
from tests.support import TOOL, WITHOUT, BashTool, Cancel, Client, Struck, background, bash_tool, birth, cancelled_after
from tests.support import cancelled_when, children, clause, cli, compiled_script, descriptors, draws, dying_host, few
from tests.support import (
    fault,
    fewer,
    fewest,
    first_of,
    forked,
    forked_host,
    forked_program,
    in_bytes,
    in_fork,
    in_host,
)
from tests.support import in_profile, keeping, lasting, lives_in, long_look, no_leak, notes_in, nowhere_to_write
from tests.support import (
    plain_bash,
    ran,
    record_beside,
    request,
    sections,
    short_limit_s,
    side_by_side,
    slack_s,
    stop_in,
)
from tests.support import supervisor_of, tasks, tiny, told_in, unique, unshared, until_lasting, variant_module, warm_up
from tests.support import nothing_is_left  # noqa: F401


# ---- Helpers -------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def small_disk(folder):
    """A file system of 64 KiB in a new folder, for root alone. It can be unmounted when the last process has closed its
    files there, a supervisor that is just ending among them."""
    os.mkdir(folder)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], check=True)
    try:
        yield
    finally:
        assert eventually(lambda: subprocess.call(["umount", folder], stderr=subprocess.DEVNULL) == 0)


printable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


def some_bytes(pieces, most):
    """Bytes in these pieces, of which a lone surrogate stands for one that is not UTF-8."""
    drawn = st.lists(any_of(*pieces), max_size=most)
    return drawn.map(lambda parts: "".join(parts).encode("utf-8", "surrogateescape"))


# ---- 001 Command execution -----------------------------------------------------------------------------------------
@clause("001.1", saboteur=("_EVALUATE", '-- "$BASH_EXECUTION_STRING\\"', "-- $BASH_EXECUTION_STRING"))
@given(
    any_of(*SNIPPETS).map(lambda s: s.replace("\\n", "\n").replace("\\x01\\x7f\\xff", "\x01\x7f\xff"))
    | printable.map(lambda text: "printf %%s %s; exit %d" % (shlex.quote(text), len(text)))
)
@draws(40)
def test_req_bash_001_1_runs_as_bash_c(command):
    plain = plain_bash(command)
    ours = BashTool().run("exec 2>/dev/null\n" + command if "LINENO" not in command else command)
    assert ours.stdout == bash_tool.render(bash_tool.decode(plain.stdout))
    expected = plain.returncode if plain.returncode >= 0 else 128 - plain.returncode
    syntax_error = plain.returncode == 2 and ours.exit_code != 0
    assert ours.exit_code == expected or syntax_error


@clause("001.2", saboteur=("Shell._spawn", "writers[-1]", "subprocess.DEVNULL"))
@few(st.lists(st.booleans(), min_size=2, max_size=12))
def test_req_bash_001_2_keeps_the_order_of_writing(streams):
    command = "; ".join("echo %d%s" % (n, " >&2" if to_stderr else "") for n, to_stderr in enumerate(streams))
    with BashTool() as tool:
        assert tool.run(command).text == "".join("%d\n" % n for n in range(len(streams)))


def ends_naively(data, most, snip):
    """Slow, obvious, independent: tries every cut."""
    text = bash_tool.render(data.decode("utf-8", "replace"))
    if len(data) <= most and len(text.encode()) <= most:
        return text
    keep_head, keep_tail = data[: most // 2], data[len(data) - (most - most // 2) :]
    if len(data) > most:
        while keep_head and len(keep_head.decode("utf-8", "ignore").encode()) < len(keep_head) and b"\xff" not in data:
            keep_head = keep_head[:-1]
        while keep_tail and 0x80 <= keep_tail[0] < 0xC0:
            keep_tail = keep_tail[1:]
    else:
        keep_head = keep_tail = data
    head, tail = (bash_tool.render(end.decode("utf-8", "replace")) for end in (keep_head, keep_tail))
    first = max((head[:n] for n in range(len(head) + 1) if len(head[:n].encode()) <= snip), key=len)
    last = max((tail[n:] for n in range(len(tail) + 1) if len(tail[n:].encode()) <= snip), key=len)
    return first + "\n\n[snip]\n\n" + last


def captured(data, most):
    return kept_of([data[start : start + 7] for start in range(0, len(data), 7)], most // 2, most - most // 2)


def kept_of(chunks, *arguments):
    """What a supervisor keeps of a stream that comes in these pieces, as the text functions take it."""
    buffer = bash_tool.OutputBuffer(*arguments)
    for chunk in chunks:
        buffer.add(chunk)
    return bash_tool.Captured(*buffer.captured())


@clause("001.3", saboteur=("keep_ends", "last_bytes", "first_bytes"))
def test_req_bash_001_3_keeps_both_ends():
    reached = set()

    repeated = st.integers(50, 80).map(lambda n: b"\xff" * n) | st.integers(60, 70).map(lambda n: b"x" * n)
    texts = st.text(any_of(*"aé€😀\n\t"), max_size=120).map(str.encode)

    @given(texts | repeated, any_of(64, 65), any_of(1, 8, 30, 32))
    @example(b"x" * 64, 64, 8)
    @example(b"x" * 65, 64, 8)
    @example(b"\xff" * 60, 64, 8)
    @example("é€😀".encode() * 20, 64, 9)
    def agrees_with_the_naive_twin(data, most, snip):
        profile = dataclasses.replace(MODES, max_output_bytes=most, snip_size=snip)
        fitted = bash_tool.keep_ends(captured(data, most), profile)
        assert fitted.text == ends_naively(data, most, snip)
        shown = bash_tool.render(data.decode("utf-8", "replace")).encode()
        assert fitted.got_bytes == (len(data) if len(data) > most else max(len(data), len(shown)))
        reached.add((len(data) > most, fitted.cut, len(data) - most if abs(len(data) - most) < 2 else None))

    agrees_with_the_naive_twin()
    assert {(True, True), (False, False), (False, True)} <= {(over, cut) for over, cut, _ in reached}
    assert {0, 1} <= {near for _, _, near in reached}
    with BashTool() as tool:
        for size, cut in ((131072, False), (131073, True)):
            result = tool.call({"command": "head -c %d /dev/zero | tr '\\0' 'x'" % size})
            assert result.truncated is cut and result.total_bytes == size
            assert result.stdout == ("x" * 4096 + "\n\n[snip]\n\n" + "x" * 4096 if cut else "x" * size)


@clause("001.4", saboteur=("format_brackets", "in cut:", "in ():"))
@few(sizes_about(131072, 2_000_000), any_of("x", "\\377", "\\303"), st.just(0) | failures)
@example(131073, "x", 1)
@example(1048576, "x", 1)
@example(131072, "x", 0)
@example(131072, "\\377", 0)
def test_req_bash_001_4_says_what_was_cut(size, byte, code):
    for count, shown in ((131073, "128.0KB"), (200000, "195.3KB"), (1048576, "1MB"), (1500000, "1.4MB")):
        assert size_in_words(count) == shown
    text = BashTool().run("%s; exit %d" % (filler(size, byte), code)).text
    got = size if byte == "x" or size > 131072 else 3 * size  # what replaces an invalid byte has three
    notice = "[output truncated in middle: got %s, max is 128KB]" % size_in_words(got)
    assert text.split("\n")[1 if code else 0] == notice if got > 131072 else "truncated" not in text
    assert text.startswith("[command failed: exit code %d" % code) if code else not text.startswith("[command")
    # the seed's own bound: the output with those lines
    assert len((text.rpartition("[full output")[0] or text).encode()) <= 131072 + 200


@clause("001.5", saboteur=("Shell._spawn", "cwd=cwd", 'cwd=b"/"'))
@few(folders, any_of("%s", "./%s", "%s/", "%s/.", "missing/../%s"), st.booleans())
@example("a b", "%s", True)
@example("a b", "%s", False)
def test_req_bash_001_5_runs_in_the_fixed_directory(name, spelled, absolute):
    base, other = tempfile.mkdtemp(), tempfile.mkdtemp()
    os.mkdir(os.path.join(base, name))
    os.chdir(base)
    with BashTool((base + "/" if absolute else "") + spelled % name) as tool:
        os.chdir(other)
        assert tool.run("pwd; : > here").stdout == bash_tool.render(os.path.join(base, name) + "\n")
        assert os.listdir(os.path.join(base, name)) == ["here"]
        assert BashTool().run("pwd").text == other + "\n" and not os.listdir(other)


@clause("001.6", saboteur=("status_line", 'return ""', 'return "[ok]"'))
@few(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=30), st.integers(0, 3))
def test_req_bash_001_6_success_is_the_output_alone(text, newlines):
    result = BashTool().run("printf %%s %s" % shlex.quote(text + "\n" * newlines))
    output = text + "\n" * newlines
    assert (result.stdout, result.is_error, result.exit_code, result.notes) == (output, False, 0, ())
    assert result.text == output or not output.strip()


# What a command may change in its shell, with the name of a variable in place of {}.
CHANGES = [
    *("{}=1", "export {}=2", "readonly {}=3", "declare -A {}=([a]=4)", "{}() {{ echo no; }}", "alias {}=false"),
    *("cd sub", "cd /", "set -e", "set -fu", "set -x; PS4=", "set -- a b", "shopt -s nullglob extglob", "umask 0"),
    *("ulimit -n 9", "ulimit -f 1", "trap 'exit 7' EXIT", "trap '' TERM", "exec >/dev/null", "exec 2>&-", "IFS=:"),
    *("unset PATH HOME", "enable -n cd", "hash -p /bin/false ls", "OLDPWD=/", "exit 3", "kill -9 $$", "BASH_ENV=x"),
]
STATE = (
    "export -p; declare -f; pwd; umask; ulimit -a; shopt; set -o; trap; alias; enable -n; hash; ls -A; "
    "printf '%%s\\n' \"$*$#$-${IFS@Q}$PS4\" \"${%(name)s-unset}\" $(compgen -v)"
)


@clause("001.7", ("_EVALUATE", "builtin eval", "trap 'declare -p x >.x' EXIT; [-f .x] && . ./.x; builtin eval"))
@few(st.just("x") | names, st.lists(any_of(*CHANGES), min_size=1, max_size=6))
@example("x", ["{}=1", "export y=2", "cd /", "{}() {{ :; }}", "set -e", "alias ls=false", "umask 0", "ulimit -n 9"])
def test_req_bash_001_7_nothing_persists(name, changes):
    folder = tempfile.mkdtemp()
    os.mkdir(os.path.join(folder, "sub"))
    state = STATE % {"name": name}
    with BashTool(folder) as tool:
        before = tool.run(state)
        tool.run("\n".join(changes).format(*[name] * len(changes)))
        assert tool.run(state).stdout == before.stdout == BashTool(folder).run(state).stdout
        assert tool.run("echo ${%s-unset}" % name).text == "unset\n"


@clause("001.8", saboteur=("Output.open_pipes", "if self._plan.pipe_bytes:", "if False:"))
@few(st.integers(65537, 2**20), any_of(*sorted(PROFILES)))
def test_req_bash_001_8_all_that_does_not_wait(size, name):
    writes = "import os; os.set_blocking(1, False); os.write(1, bytes(%d)); os._exit(0)"
    assert BashTool(profile=PROFILES[name]).run("%s -c '%s'" % (sys.executable, writes % size)).total_bytes == size


# ---- 002 Timeouts --------------------------------------------------------------------------------------------------
@clause("002.1", saboteur=("MODES", "default=", "default=1 + "))
def test_req_bash_002_1_the_limit_of_the_default_mode():
    assert MODES.timeouts_s["default"] == 30
    limit_s = short_limit_s()
    for mode in ({}, {"mode": "default"}):
        with BashTool(profile=tiny(default=limit_s)) as tool:
            text = tool.call({"command": "echo on; sleep 60", **mode}).text
            assert text == "[command timed out after %gs]\n%s\non\n" % (limit_s, LONGER_MODES)


@clause("002.2", saboteur=("MODES", "slow=", "slow=1 + "))
def test_req_bash_002_2_the_limit_of_slow():
    assert MODES.timeouts_s["slow"] == 900
    limit_s = short_limit_s()
    profile = dataclasses.replace(MODES, timeouts_s=dict(MODES.timeouts_s, slow=limit_s))
    with BashTool(profile=profile) as tool:
        text = tool.call({"command": "echo on; sleep 60", "mode": "slow"}).text
        assert text == "[command timed out after %gs]\non\n" % limit_s


@clause(
    "002.3",
    saboteur=[
        ("Life._end", "if self.stops > 1:", "self.seen = self.seen._replace(childless=True)\nif self.stops > 1:"),
        ("Command.end_output", "self.output.close_pipes()", "self.shell.popen.kill()\nself.output.close_pipes()"),
    ],
)
@fewer(some_of("sleep 600 &", "(sleep 600; :) &", "sh -c 'sleep 600; :' &", "sleep 600 | cat &"))
def test_req_bash_002_3_ends_the_group(starts):
    result = BashTool(profile=tiny()).run(lasting("\n".join(starts)) + "\necho $$; wait")
    group = int(result.stdout)
    assert result.status == "timed_out"
    assert not [pid for pid in processes() if alive(pid) and in_group(pid, group)]


def in_group(pid, group):
    with contextlib.suppress(OSError):
        return os.getpgid(pid) == group
    return False


@clause("002.4", saboteur=("fit_streams", ".raw", '.raw if outcome.report.status != "timed_out" else ()'))
@fewer(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20), st.booleans())
def test_req_bash_002_4_keeps_the_partial_output(text, cleans_up):
    trap = "trap 'echo cleaned; exit' TERM; " if cleans_up else ""
    result = BashTool(profile=tiny()).run(lasting("%sprintf %s; printf '\\n' >&2; sleep 600 & wait") % (trap, text))
    cleaned = "cleaned\n" if cleans_up else ""
    assert result.text == "[command timed out after 1s]\n%s\n%s\n%s" % (LONGER_MODES, text, cleaned)


@clause("002.5", saboteur=("describe_stop", '"timed out after %s"', '"timed out%.0s"'))
@pytest.mark.parametrize("limit", [0.05, 0.1, 0.25, 1])
def test_req_bash_002_5_names_the_limit(limit):
    result = BashTool().run(lasting("sleep 600"), timeout_s=limit)
    assert result.text.split("\n")[0] == "[command timed out after %gs]" % limit
    assert [bash_tool.format_seconds(s) for s in (30.0, 900.0, 0.7, 86400.0)] == ["30s", "900s", "0.7s", "86400s"]


@clause(
    "002.6", saboteur=("Command.describe", "exit_code, name, error", "124 if life.status else exit_code, name, error")
)
@fewest(endless_in_each_way(), st.lists(st.booleans(), min_size=len(WAYS_OF_TERM), max_size=len(WAYS_OF_TERM)))
def test_req_bash_002_6_no_code_after_our_own_kill(commands, cancelled):
    folder = tempfile.mkdtemp()
    with BashTool(folder, profile=tiny()) as tool:
        tokens = [cancelled_when("%s/ready-%d" % (folder, n)) if each else None for n, each in enumerate(cancelled)]
        results = at_once(lambda n: tool.run(commands[n].text, cancel=tokens[n]), range(len(commands)))
    for result, token in zip(results, tokens):
        assert result.status in ("timed_out", "cancelled" if token else "")
        assert (result.exit_code, result.signal, result.is_error) == (None, None, True)


@clause("002.7", saboteur=("format_brackets", 'and outcome.mode == "default" and', "and"))
def test_req_bash_002_7_longer_modes_are_named(tmp_path):
    both, every = LONGER_MODES + "\n", ("default", "slow", "background")
    cases = [(every, "default", both), (every, "slow", ""), (every[:2], "default", LONGER_SLOW + "\n")]
    limit_s = short_limit_s()
    for modes, mode, told in (*cases, (("default", "background"), "default", "")):
        profile = dataclasses.replace(MODES, timeouts_s=dict.fromkeys(modes, limit_s), grace_s=0.2)
        with BashTool(profile=profile) as tool:
            text = tool.call({"command": lasting("echo on; sleep 600"), "mode": mode}).text
            assert text == "[command timed out after %gs]\n" % limit_s + told + "on\n"
    with BashTool() as tool:
        text = tool.run(lasting("sleep 600 & sleep 600"), timeout_s=0.3).text
        assert text.startswith("[command timed out after 0.3s]\n" + both)
    for profile in (JOBS, STREAMS, GUARDED):
        killed = dataclasses.replace(profile, timeouts_s={"default": 0.2}, on_timeout=bash_tool.OnTimeout.KILL)
        assert "mode=" not in BashTool(profile=killed).run(lasting("sleep 600")).text


@clause("002.8", saboteur=("Session._finish", "self._hints = []", "pass"))
@pytest.mark.parametrize("name", first_of(sorted(PROFILES), "modes"))
def test_req_bash_002_8_silence_is_told_once(name):
    with BashTool(profile=tiny(0.8, profile=PROFILES[name])) as tool:  # in which a busy machine has printed
        for command in ("echo on; sleep 600", "echo on >&2; sleep 600", "true"):
            assert tool.run(lasting(command)).notes == ()
        assert tool.run(lasting("sleep 600"), timeout_s=20, cancel=cancelled_after(0.3)).notes == ()
        results = [tool.run(lasting("sleep 600")) for _ in range(2)]
    note = "nothing was printed; a program may hold its output back: stdbuf -oL, python3 -u"
    assert [result.notes for result in results] == [(note,), ()]
    assert [note in result.text for result in results] == [True, False]


# What handles INT and then prints what it held; what comes behind it on its way is not lost either.
# No long sleep: an INT that strikes as it begins does not end it.
HOLDS_BACK = (
    """%s -c 'import os, time; print("%s"); os.mkdir("ready"); [time.sleep(0.1) for n in range(6000)]' 2>/dev/null"""
)


@clause("002.9", saboteur=("takes_interrupt", "process.program not in INTERRUPTIBLE or", "True or"))
@fewer(any_of("%s", "%s; touch later", "(%s) | tail -n 3", "timeout 500 %s", "bash -c %s", "x=$(%s)"), st.booleans())
@example("%s", True)
def test_req_bash_002_9_int_comes_before_term(around, by_timeout):
    word, folder = unique(), tempfile.mkdtemp()
    command = HOLDS_BACK % (sys.executable, word)
    command = around % (shlex.quote(command) if around.startswith("bash") else command)
    command = "echo on; %s" % (command + "; echo $x" if around.startswith("x") else command)
    for limit_s in (2, 20, 60) if by_timeout else (AMPLE_S,):  # a busy machine may not have begun it by then
        token = None if by_timeout else cancelled_when(folder + "/ready")
        result = BashTool(folder, profile=tiny(limit_s, 30)).run(command, cancel=token)
        if Path(folder, "ready").exists():
            break
    shown = "on\n" if around.startswith("x") else "on\n%s\n" % word  # the shell that would show $x has got TERM
    assert result.stdout == shown
    assert not Path(folder, "later").exists()


@clause("002.10", saboteur=("Steps.choose", 'process.reads == "live pipe"', "False"))
@fewer(some_of("sort", "tail -n 3", "grep .", "cat", "tee f", "sed -n p", "awk 1"))
def test_req_bash_002_10_a_filter_gets_the_end_of_its_input(filters):
    words = "".join("%s\n" % unique() for _ in range(3))
    with BashTool(tempfile.mkdtemp(), profile=tiny(1, 5)) as tool:
        result = tool.run(lasting("(printf '%s'; sleep 600) | %s" % (words, " | ".join(filters))))
    assert (result.status, result.stdout) == ("timed_out", words)


# ---- 003 Jobs ------------------------------------------------------------------------------------------------------
@clause("003.1", saboteur=("job_lines", "kill -9 -", "kill -9 "))
def test_req_bash_003_1_answers_at_once():
    assert bash_tool.EARLY_END_S == 0.3
    times = []

    @few(endless())
    def starts(known):
        folder = Path(tempfile.mkdtemp())
        with BashTool(folder) as tool:
            begun = time.monotonic()
            job = background(tool, "echo $$ > me\n" + known.text)
            times.append(time.monotonic() - begun)
        assert number_in(folder / "me") == job.pid == os.getpgid(job.pid) == os.getsid(job.pid) and alive(job.pid)
        assert eventually(lambda: job.read()[0] == known.merged)
        assert stat.S_IMODE(os.stat(job.output_file).st_mode) == 0o600
        os.killpg(job.pid, signal.SIGKILL)

    starts()
    # 0.5 s: see the benchmark; here the machine may be busy
    assert min(times) >= 0.3 and sorted(times)[len(times) // 2] < 10, times
    with BashTool() as tool, long_look():
        text = tool.run("for i in 1 2 3; do echo $i; done", mode="background").text
        assert text.endswith("1\n2\n3\n\n\n[background process completed]\n")


@clause("003.2", saboteur=("Life._watch", "self.attached = plan.ephemeral or not plan.background", "pass"))
def test_req_bash_003_2_outlives_the_host():
    def outlives(case):
        folder, end = case
        program = "import os; from bash_tool import BashTool; tool = BashTool(state_dir=%r)\n" % folder
        program += "tool.run('echo $$ > %s.pid; sleep 1.5; echo later; sleep 600', mode='background')\n%s" % case
        ran(sys.executable, "-c", lasting(program), env=dict(os.environ, PYTHONPATH=str(TOOL.parent)))
        pid = number_in(folder + ".pid")
        with BashTool(state_dir=folder) as tool:
            job = tool.job(pid)
            assert job.status == "running" and alive(pid)
            assert eventually(lambda: job.read()[0] == "later\n")
            os.killpg(pid, signal.SIGTERM)
            assert job.wait(10)
            assert notes_in(job.output_file) == ["\n\n[background process failed: signal: 15 (SIGTERM)]\n"]
            assert (job.status, job.exit_code) == ("exited", 143)

    ends = {"killed": "os.kill(os.getpid(), 9)", "closed": "tool.close(); os.kill(os.getpid(), 9)"}
    side_by_side(outlives, [*ends.items(), ("ended", "raise SystemExit")])


@clause("003.3", saboteur=("job_lines", "may_run and", "not may_run or"))
@pytest.mark.parametrize("command", ["exit 3", "if", "no-such-command", "kill -9 $$", "echo x; false", "exec /no"])
def test_req_bash_003_3_an_early_failure_is_one(command):
    code = {"exit 3": 3, "if": 2, "kill -9 $$": 137, "echo x; false": 1}.get(command, 127)
    with BashTool() as tool, long_look():
        result = tool.run(command, mode="background")
    assert result.is_error and result.status == "exited"
    assert result.text.startswith("[command failed: exit code %d" % code)
    assert "<pid>%d</pid>\n<output_file>%s</output_file>" % (result.pid, result.output_file) in result.text
    assert "reminder" not in result.text
    whole, (note,) = Path(result.output_file).read_text(), notes_in(result.output_file)
    assert result.text.rstrip("\n").endswith(("</output_file>\n" + whole[: -len(note)]).rstrip("\n"))
    assert "[background" not in result.text and result.stdout == whole[: -len(note)]


@clause("003.4", saboteur=("ForkServer._supervise", "os.setsid()", "pass"))
def test_req_bash_003_4_the_supervisor_is_in_nobodys_way():
    with BashTool() as tool:
        ignored = "echo $((0x$(sed -n 's/SigIgn:.//p' /proc/self/status) & 0x7fffffff)); "
        job = background(tool, ignored + lasting("sleep 600.125"))
        supervisor = supervisor_of(job)
        assert supervisor not in children() and not children()
        assert os.getsid(supervisor) == supervisor and os.getsid(supervisor) != os.getsid(0)
        shown = of_proc(supervisor, "cmdline") + Path("/proc/%d/comm" % supervisor).read_bytes()
        with contextlib.suppress(PermissionError):  # it is not dumpable: only root may look
            shown += Path("/proc/%d/environ" % supervisor).read_bytes()
            assert {os.readlink("/proc/%d/fd/%d" % (supervisor, fd)) for fd in range(3)} == {"/dev/null"}
        assert b"0.125" not in shown and b"python" not in Path("/proc/%d/comm" % supervisor).read_bytes()
        assert eventually(lambda: job.read()[0] == "0\n")  # of the signals 1 to 31 none is ignored
        assert job.kill() and notes_in(job.output_file) == ["\n\n[background process failed: signal: 15 (SIGTERM)]\n"]


@clause("003.5", saboteur=("describe_end", '"completed"', '"succeeded"'))
@fewest(st.lists(known_commands(codes=st.just(0), signals=[], pause_s=0.5), min_size=2, max_size=6))
@example([Known("sleep 0.5", seconds=0.5), Known("echo a; sleep 0.5; (exit 3); echo b", merged="a\nb\n", seconds=0.5)])
def test_req_bash_003_5_completed(commands):
    go = Path(unique())
    with BashTool() as tool:
        jobs = at_once(lambda known: background(tool, known.held(go)), commands)
        go.touch()
        for known, job in zip(commands, jobs):
            assert job.wait(20) and (job.status, job.exit_code) == ("exited", 0)
            assert Path(job.output_file).read_text() == known.merged + "\n\n[background process completed]\n"


@clause("003.6", saboteur=("describe_end", "code - 128", "code"))
@fewest(st.lists(known_commands(codes=failures, pause_s=0.5), min_size=3, max_size=8))
@example(
    [Known("sleep 1; exit 7", code=7, seconds=1), Known("sleep 1; kill -9 $$", code=137, signal="SIGKILL", seconds=1)]
)
def test_req_bash_003_6_failed(commands):
    go = Path(unique())
    with BashTool() as tool:
        jobs = at_once(lambda known: background(tool, known.held(go)), commands)
        go.touch()
        for known, job in zip(commands, jobs):
            assert job.wait(20) and (job.status, job.exit_code) == ("exited", known.code)
            how = "signal: %d (%s)" % (known.code - 128, known.signal)
            how = how if known.signal else "exit status: %d" % known.code
            assert Path(job.output_file).read_text() == known.merged + "\n\n[background process failed: %s]\n" % how


OVERLONG = [
    *("trap '' TERM; while :; do sleep 0.1; done", "kill -STOP $$"),
    "env -i setsid sleep 600 & echo $! > escaped; sleep 0.2; wait",
    "(env -i setsid sh -c 'echo $$ > escaped; exec sleep 600' & sleep 0.1); sleep 600",
    "(env -i setsid sh -c 'echo $$ > escaped; exec sleep 600' >/dev/null 2>&1 & sleep 0.1)",
]


@clause(
    "003.7", ("_become_subreaper", "HAS_CHILDREN_FILES and _prctl(_PR_SET_CHILD_SUBREAPER, 1)", "HAS_CHILDREN_FILES")
)
@pytest.mark.parametrize("command", first_of(OVERLONG, OVERLONG[0]))
def test_req_bash_003_7_the_limit_needs_no_host(command):
    ended = bash_tool.Report("timed_out", limit_s=86400.0)
    assert MODES.timeouts_s["background"] == 86400
    assert bash_tool.describe_end(ended, in_file=True) == "failed: timed out after 86400s"
    program = """
        profile = dataclasses.replace(MODES, timeouts_s=dict(MODES.timeouts_s, background=1.2), grace_s=0.3)
        BashTool(state_dir="state", profile=profile).run("echo $$ > me; " + sys.argv[1], mode="background")
        os.kill(os.getpid(), 9)
    """
    dying_host(program, lasting(command))
    pid = number_in("me")
    (job,) = BashTool(state_dir="state").jobs()
    assert job.pid == pid and job.wait(20)
    assert eventually(lambda: not alive(pid))
    assert "escaped" not in command or eventually(lambda: not alive(number_in("escaped")))
    note = "timed out after 1.2s"
    if job.status != "timed_out":
        note = lasting('completed; still running: %d "sleep 600"') % number_in("escaped")
    assert len(notes_in(job.output_file)) == 1 and note in notes_in(job.output_file)[0]
    assert job.status == "timed_out" or "/dev/null" in command


@clause("003.8", ("_lost", 'status="lost",', 'status="exited", exit_code=0,'))
def test_req_bash_003_8_lost_is_lost():
    command = lasting("(env -i setsid sleep 600 >/dev/null 2>&1 & echo $! > daemon); echo $$ > me; echo up; sleep 600")

    def is_lost(job):
        daemon = number_in("daemon")
        assert eventually(lambda: job.read()[0] == "up\n")
        os.kill(supervisor_of(job), signal.SIGKILL)
        assert job.wait(5) and (job.status, job.exit_code) == ("lost", None)
        assert eventually(lambda: not alive(job.pid) and not alive(daemon))
        assert job.kill() is False and bash_tool.Job(job.output_file).status == "lost"
        assert Path(job.output_file).read_text() == "up\n"  # no reader writes a note
        os.unlink("me")
        os.unlink("daemon")

    with BashTool() as tool:
        is_lost(background(tool, command))
    dying_host('BashTool(state_dir="state").run(sys.argv[1], mode="background"); os.kill(os.getpid(), 9)', command)
    is_lost(BashTool(state_dir="state").job(number_in("me")))  # the fork server lives as long as its last supervisor


READERS = {"its status": lambda job: job.status, "its exit code": lambda job: job.exit_code}
READERS.update({"its output": lambda job: job.read(0), "its end": lambda job: job.wait(10)})
READERS["a line"] = lambda job: job.wait(10, until="no such line")
READERS["the list"] = lambda job: [one.status for one in BashTool(state_dir=os.path.dirname(job.output_file)).jobs()]


@clause("003.9", saboteur=("Output.append_note", "self._fd, note", "self._fd, 2 * note"))
@fewest(
    st.lists(st.tuples(known_commands(pause_s=0.5), st.floats(0.0, 0.8)), min_size=3, max_size=6),
    st.lists(st.tuples(any_of(*READERS), st.floats(0.0, 0.8)), min_size=2, max_size=6),
    st.lists(any_of(*READERS), min_size=1, max_size=8),
)
def test_req_bash_003_9_exactly_one_note(commands, killed_readers, readers):
    def ends(case):
        known, host_s = case
        folder = tempfile.mkdtemp()
        program = """
            result = BashTool(state_dir=sys.argv[1]).run(sys.argv[2], mode="background")
            assert result.status == "running", result
            open(sys.argv[4], "x").close()
            threading.Event().wait(float(sys.argv[3]))
            os.kill(os.getpid(), 9)
        """
        go = os.path.abspath(unique())  # the half second begins when the host has its answer
        dying_host(program, folder, known.text.replace("sleep", until(go) + "; sleep", 1), "%.3f" % host_s, go)
        (path,) = Path(folder).glob("*.log")
        for name, reader_s in killed_readers:  # at whatever moment, before the end of the job or after it
            reader = forked(lambda: READERS[name](bash_tool.Job(str(path))) and 0)
            time.sleep(reader_s / 4)
            reader.kill()
            reader.wait(60)

        def read(name):
            READERS[name](bash_tool.Job(str(path)))
            return bash_tool.Job(str(path)).wait(20) and bash_tool.Job(str(path)).status

        assert set(at_once(read, readers)) == {"exited"}
        how = "failed: signal: %d (%s)" % (known.code - 128, known.signal)
        how = how if known.signal else "failed: exit status: %d" % known.code if known.code else "completed"
        assert path.read_text() == known.merged + "\n\n[background process %s]\n" % how
        assert bash_tool.Job(str(path)).exit_code == known.code

    at_once(ends, commands)


@clause("003.10", saboteur=("Command.note_end", '"; still running: " + still if still else ""', '""'))
def test_req_bash_003_10_a_daemon_is_named():
    limits_s = dict(MODES.timeouts_s, background=3.5)
    with BashTool(profile=dataclasses.replace(MODES, timeouts_s=limits_s, grace_s=0.3)) as tool:
        with long_look():
            result = tool.run(lasting("setsid sleep 600 >/dev/null 2>&1 & echo $! > daemon; exit 4"), mode="background")
        daemon = number_in("daemon")
        assert result.exit_code == 4 and alive(daemon)
        how = lasting("failed: exit status: 4; still running: %d \"sleep 600\"") % daemon
        assert notes_in(result.output_file) == ["\n\n[background process %s]\n" % how]
        assert not eventually(lambda: not alive(daemon), 0.5)
        assert eventually(lambda: not alive(daemon))  # at the limit
        result = tool.run("(sleep 0.5; echo late) & exit 0", mode="background")
        job = tool.job(result.pid)
        assert job.wait(10)
        assert eventually(lambda: job.read()[0].count("late") == 1 and len(notes_in(job.output_file)) == 1)


@clause("003.11", saboteur=("JobTable.list_all", "self._config.lists_folder", "False"))
def test_req_bash_003_11_lists_what_anybody_started():
    program = """
        for n in sys.argv[1:]:
            command = "echo %s; [ %s -gt 2 ] || sleep 600; exit %s" % (n, n, n)
            print(BashTool(state_dir="state").run(command, mode="background").pid)
    """
    pids = [int(pid) for numbers in ("012", "34") for pid in in_host(program, *numbers).split()]
    with BashTool(state_dir="state") as tool:
        jobs = {job.pid: job for job in tool.jobs()}
        assert sorted(jobs) == sorted(pids)
        assert [j.created for j in tool.jobs()] == sorted(j.created for j in tool.jobs())
        for n, pid in enumerate(pids):
            job = tool.job(pid)
            assert n < 3 or job.wait(20)
            assert job.command.startswith("echo %d;" % n) and eventually(lambda: job.read()[0].startswith("%d\n" % n))
            assert (job.status, job.exit_code) == (("running", None) if n < 3 else ("exited", n))
        with pytest.raises(LookupError, match=r"^no background process has the pid 1; running: (\d+ \".*\"(, |$)){3}$"):
            tool.job(1)
        listed = [json.loads(line) for line in cli("--state-dir", "state", "--jobs", "--json").stdout.splitlines()]
        assert [(line["pid"], line["status"]) for line in listed] == [(job.pid, job.status) for job in tool.jobs()]
        for pid in pids[:3]:
            assert jobs[pid].kill()
    with BashTool() as tool, BashTool() as other:  # of the folder of the user: each its own
        job = background(tool, lasting("sleep 600"))
        assert [one.pid for one in tool.jobs()] == [job.pid] and other.jobs() == []
        (line,) = cli("--jobs", "--json").stdout.splitlines()
        assert json.loads(line)["pid"] == job.pid and job.kill()


def write_record(file, **facts):
    """Writes the record of a job of this process (4.9), as its supervisor does."""
    pid = os.getpid()
    known = {"command": "x", "created": time.time(), "pid": pid, "supervisor": [pid, birth(pid)], "notes": [], "at": -1}
    known.update(exit_code=None, signal=None, error=None, reason="", limit_s=1.0, total_bytes=0, duration_s=0.0)
    file.seek(0)
    file.write(json.dumps({**known, **facts}).ljust(2000))
    file.flush()


@clause("003.12", saboteur=("Job.read", "start + decoded", "end"))
@given(st.lists(any_of(b"a", *map(str.encode, "é€😀"), b"\xff", b"\xe2\x82", b"\n"), max_size=30), st.data())
@draws(30)
def test_req_bash_003_12_pieces_make_the_whole(parts, data):
    folder = Path(tempfile.mkdtemp(dir=os.getcwd()))
    output = folder / "output-0123456789ab.log"
    with open(record_beside(str(output)), "w") as record:
        fcntl.flock(record, fcntl.LOCK_EX)  # as the supervisor of the job
        write_record(record, status="running")
        written, whole = b"", b"".join(parts)
        job, pieces, offset = None, [], 0
        while written != whole or job is None:
            written = whole[: len(written) + data.draw(st.integers(1, 5))]
            output.write_bytes(written)
            job = job or bash_tool.Job(str(output))
            text, following = job.read(offset)
            again, _ = job.read(offset)
            assert text == again and following >= offset
            pieces, offset = [*pieces, text], following
        output.write_bytes(whole + b"\n\n[background process completed]\n")
        text, offset = job.read(offset)  # the note is there, and the record does not say so yet
        pieces.append(text)
        write_record(record, status="exited", exit_code=0, at=len(whole))
    text, end = job.read(offset)
    assert "".join(pieces) + text == job.read()[0] == whole.decode("utf-8", "replace")
    assert end == output.stat().st_size and job.read(end) == ("", end)


@clause("003.13", saboteur=("Job.kill", "self._end(Cancel())", "bool(self._end)"))
def test_req_bash_003_13_kill_means_gone():
    with BashTool(profile=tiny(grace=1.0)) as tool:
        loop = "while :; do sleep 0.1; done"
        for command, code in (
            ("trap 'echo bye; exit 5' TERM; setsid sleep 600 & echo $! > other; " + loop, 5),
            ("trap '' TERM; setsid sh -c 'trap \"\" TERM; %s' & echo $! > other; %s" % (loop, loop), 137),
            ("setsid sleep 600 >/dev/null 2>&1 & echo $! > other; sleep 600 & kill -STOP $$", 143),
        ):
            job = background(tool, lasting(command))
            other = number_in("other")
            assert job.kill() and not alive(job.pid) and not alive(other)
            assert (job.status, job.exit_code) == ("exited", code) and len(notes_in(job.output_file)) == 1
            assert ("bye" in job.read()[0]) == (code == 5)
            assert job.kill()  # of what has ended: nothing to do
        job = background(tool, lasting("sleep 600 >/dev/null 2>&1 & echo $! > other; ") + until("go"))
        Path("go").touch()
        assert job.wait(20) and alive(number_in("other"))
        assert job.kill() and not alive(number_in("other")) and job.status == "exited"

        @fewest(endless_in_each_way())
        def dies(commands):
            def kill(case):
                n, known = case
                job = background(tool, known.text)
                assert eventually(lambda: os.path.exists("ready-%d" % n))
                assert job.kill() and not alive(job.pid) and len(notes_in(job.output_file)) == 1
                assert Path(job.output_file).read_text().startswith(known.merged + known.last)
                os.unlink("ready-%d" % n)

            at_once(kill, list(enumerate(commands)))

        dies()


@clause("003.14", saboteur=("Job._end", "self._supervisor_lives()", "True"))
def test_req_bash_003_14_a_later_owner_is_spared(monkeypatch):
    for name in ("UNKILLABLE_S", "HOST_SLACK_S"):  # for which a kill waits in vain
        monkeypatch.setattr(bash_tool, name, 0.2)
    heard = "trap 'echo $1 >> heard' %s; echo > up; while :; do sleep 0.1; done" % "TERM CONT HUP INT URG"
    stranger = subprocess.Popen(["bash", "-c", heard], start_new_session=True)
    try:
        assert eventually(lambda: os.path.exists("up"))
        born = birth(stranger.pid)
        with BashTool(profile=tiny(grace=0.3)) as tool:
            for supervisor in ([stranger.pid, born + 1], [stranger.pid, born]):
                job = background(tool, lasting("sleep 600"))
                os.kill(supervisor_of(job), signal.SIGKILL)
                assert job.wait(20) and eventually(lambda: not alive(job.pid))
                record = Path(record_beside(job.output_file))
                kept = json.loads(record.read_text())
                record.write_text(json.dumps({**kept, "pid": stranger.pid, "supervisor": supervisor}))
                assert bash_tool.Job(job.output_file).kill() is False  # nobody holds the lock
                if supervisor[1] != born:  # a lock that is held does not make a stranger the supervisor
                    with open(record) as file:
                        fcntl.flock(file, fcntl.LOCK_EX)
                        assert bash_tool.Job(job.output_file, grace_s=0.3).kill() is False
            job = background(tool, until("go"))  # of one that has ended there is nothing to signal
            Path("go").touch()
            assert job.wait(20)
            record = Path(record_beside(job.output_file))
            record.write_text(json.dumps({**json.loads(record.read_text()), "pid": stranger.pid}))
            assert bash_tool.Job(job.output_file).kill()
        time.sleep(0.2)  # a signal would have arrived; there is nothing to poll for
        assert stranger.poll() is None and not os.path.exists("heard")
    finally:
        stranger.kill()
        stranger.wait()


@clause("003.15", saboteur=("Command.report", "self.leftovers", "_kill_below()\nself.leftovers"))
@fewest(leaving())
@example(Known("setsid %s >/dev/null 2>&1 & echo $! > left-0; echo now" % NAP, merged="now\n", leaves=("left-0",)))
def test_req_bash_003_15_leftovers_are_read_on_and_are_no_job(known):
    folder = Path(tempfile.mkdtemp())
    server = "(until [ -e go ]; do sleep 0.1; done; echo late; exec %s) & echo $! > server\n" % NAP
    program = """
        tool = BashTool(state_dir="state")
        result = tool.run(sys.argv[1])
        assert tool.jobs() == []
        print(result.exit_code, result.notes[0], flush=True)
        os.kill(os.getpid(), 9)
    """
    os.chdir(folder)
    printed = dying_host(program, server + known.text)
    pids = [number_in(folder / file) for file in ("server", *known.leaves)]
    code, note = printed.rstrip("\n").split(" ", 1)
    path = Path(note.rpartition("; output goes on to ")[2])
    assert int(code) == known.code and note.startswith("still running: ")
    assert BashTool(state_dir="state").jobs() == [] and not list(Path("state").glob("*.job"))
    Path("go").touch()
    assert eventually(lambda: path.read_text() == known.merged + "late\n") and all(map(alive, pids))
    os.system(stop_in(note))
    assert eventually(lambda: not any(map(alive, pids)))
    assert path.read_text() == known.merged + "late\n"  # no completion note
    with BashTool(max_jobs=1) as tool:  # leftovers do not count
        assert "still running" in tool.run(NAP + " >/dev/null &").text
        with long_look():
            assert tool.run("echo fine", mode="background").status == "exited"


@clause("003.16", saboteur=("JobTable.take_place", "< most", "<= most"))
def test_req_bash_003_16_a_bound_on_jobs():
    assert inspect.signature(BashTool).parameters["max_jobs"].default == 32
    with BashTool(max_jobs=3) as tool, BashTool() as other:
        with ThreadPoolExecutor(6) as pool:
            results = list(pool.map(lambda n: tool.run(lasting("sleep 600"), mode="background"), range(6)))
        refused = [result for result in results if result.error == "too_many_jobs"]
        started = [result for result in results if result.pid]
        assert (len(refused), len(started)) == (3, 3) and {result.status for result in refused} == {"rejected"}
        text = tool.run(lasting("sleep 600"), mode="background").text
        assert all(lasting("%d \"sleep 600\"") % result.pid in text for result in started) and "3 of at most 3" in text
        with long_look():
            assert tool.run("echo fine").text == "fine\n" and other.run("exit 0", mode="background").exit_code == 0
        assert tool.job(started[0].pid).kill() and background(tool, lasting("sleep 600")).kill()
        for result in started:
            tool.job(result.pid).kill()


@clause("003.17", saboteur=("Command.answer_as_job", "with suppress(SpawnError): self", "self"))
def test_req_bash_003_17_a_timeout_that_keeps():
    keeping = dataclasses.replace(tiny(default=1.0, grace=0.3), on_timeout=bash_tool.OnTimeout.KEEP)

    @fewest(st.lists(known_commands(pause_s=1.5), min_size=2, max_size=6))
    def goes_on(commands):
        def run(known):
            folder = Path(tempfile.mkdtemp())
            with BashTool(folder, profile=keeping) as tool:
                result = tool.run("echo $$ > me\n" + known.held("go"))
                pid, job = number_in(folder / "me"), tool.job(result.pid)
                assert (result.status, result.is_error, result.exit_code) == ("running", False, None)
                assert (result.pid, result.stdout, job.status) == (pid, known.early, "running")
                said = "[command still running after 1s, as a job]\n%s<pid>%d</pid>\n<output_file>%s</output_file>"
                silent = "" if known.early else "[%s]\n" % SILENT
                assert result.text.startswith(said % (silent, pid, job.output_file))
                (folder / "go").touch()
                assert job.wait(20) and job.exit_code == known.code
                whole = Path(job.output_file).read_text()
            assert whole == known.merged + "".join(notes_in(job.output_file)) and len(notes_in(job.output_file)) == 1

        text, said = "echo early; sleep 1.5; echo late; exit 6", "early\nlate\n"
        at_once(run, [Known(text, merged=said, code=6, early="early\n", seconds=1.5), *commands])

    goes_on()
    with BashTool(profile=keeping) as tool:
        token = Cancel()
        result = tool.run("echo $$ > me; while :; do echo x; sleep 0.05; done", cancel=token)
        token.cancel()  # it was for the call
        job = tool.job(result.pid)
        assert not eventually(lambda: job.status != "running", 0.5)
        begun = time.monotonic()
    assert not alive(job.pid) and job.status == "cancelled" and time.monotonic() - begun < 5 + slack_s()
    limited = dataclasses.replace(keeping, timeouts_s=dict(keeping.timeouts_s, default=0.3, background=1.0))
    with BashTool(profile=limited) as tool:
        job = tool.job(tool.run(NAP).pid)
        assert job.wait(10) and job.status == "timed_out"
        assert notes_in(job.output_file) == ["\n\n[background process failed: timed out after 1s]\n"]
    with nowhere_to_write(profile=keeping) as tool:  # no record: a job of this tool all the same
        result = tool.run(until("go") + "; exit 6")
        assert (result.status, result.error) == ("running", None)
        job = tool.job(result.pid)
        Path("go").touch()
        assert [one.pid for one in tool.jobs()] == [job.pid] and job.wait(20) and job.exit_code == 6
        first, job = job, tool.job(tool.run(NAP).pid)
        assert [one.pid for one in tool.jobs()] == [first.pid, job.pid]
        assert job.kill() and not alive(job.pid)


@clause("003.18", saboteur=("Exchange._try_supervisors", '"no supervisor could be started: " + why', '""'))
@pytest.mark.parametrize("lack", ["descriptors", "processes"])
def test_req_bash_003_18_no_supervisor_no_command(lack):
    program = """
        tools = [BashTool(), BashTool(state_dir="state")]
        if sys.argv[1] == "descriptors":
            name, reason = resource.RLIMIT_NOFILE, "Too many open files"
        else:
            name, reason = resource.RLIMIT_NPROC, "Resource temporarily unavailable"
            if os.geteuid() == 0:           # root has no limit of processes
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
        before = resource.getrlimit(name)
        resource.setrlimit(name, (3 if sys.argv[1] == "descriptors" else 0, before[1]))
        for tool in tools:
            for mode in ("default", "background"):
                result = tool.run("echo hi > made", mode=mode)
                assert (result.status, result.error, result.exit_code) == ("failed", "spawn_failed", None), result
                assert result.text == "[system error: no supervisor could be started: %s]\\n" % reason, result
        resource.setrlimit(name, before)
        if sys.argv[1] == "descriptors":
            assert BashTool().run("echo hi").text == "hi\\n"
    """
    in_host(program, lack)
    assert not Path("made").exists()


@clause("003.19", saboteur=("Output.open_pipes", "os.pipe()", "(end.detach() for end in socket.socketpair())"))
@fewer(some_of("plain", "err >&2", "dev > /dev/stderr", "out > /dev/stdout", "tee | tee /dev/stderr", most=8))
def test_req_bash_003_19_reopening_loses_nothing(ways):
    with BashTool() as tool:
        result = tool.run("\n".join("echo " + way for way in ways), mode="background")
        expected = "".join("%s\n" % way.split()[0] * (2 if "tee" in way else 1) for way in ways)
        assert eventually(lambda: notes_in(result.output_file))
        assert Path(result.output_file).read_text() == expected + "\n\n[background process completed]\n"


@clause("003.20", saboteur=("Output.append_note", "with suppress", "os.stat(self.path)\nwith suppress"))
@pytest.mark.parametrize("fault", ["deleted", "truncated", "replaced", "full"])
def test_req_bash_003_20_files_that_fail(fault):
    if fault == "full" and os.geteuid() != 0:
        pytest.skip("mounting takes root")
    with small_disk("state") if fault == "full" else contextlib.nullcontext():
        with BashTool(state_dir="state") as tool:
            job = background(tool, until("go") + "; seq 20000; echo alive > witness; exit 9")
            if fault == "deleted":
                os.unlink(job.output_file)
            elif fault == "truncated":
                os.truncate(job.output_file, 0)
            elif fault == "replaced":
                os.rename(job.output_file, "elsewhere")
                Path(job.output_file).write_text("mine\n")
            Path("go").touch()
            assert job.wait(20) and (job.status, job.exit_code) == ("exited", 9) and Path("witness").exists()
            assert bash_tool.Job(job.output_file).exit_code == 9 and tool.job(job.pid).status == "exited"
            if fault == "truncated":
                assert len(notes_in(job.output_file)) == 1 and "20000\n" in job.read()[0]
            if fault == "replaced":
                assert Path(job.output_file).read_text().startswith("mine\n")
                assert "20000\n" in Path("elsewhere").read_text()


@clause("003.21", saboteur=("Life._watch", "self.is_announced and code < 0", "False"))
@pytest.mark.parametrize("number", first_of([signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV], signal.SIGKILL))
def test_req_bash_003_21_a_killed_shell_takes_its_job_along(number):
    for name in ("server", "quiet", "go"):
        if os.path.exists(name):  # of the example before
            os.unlink(name)
    with BashTool(profile=tiny(grace=0.5)) as tool:
        deaf = "sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & echo $! > server; "
        job = background(tool, lasting(deaf + "(setsid sleep 600 >/dev/null 2>&1 & echo $! > quiet); wait"))
        others = number_in("server"), number_in("quiet")
        os.kill(job.pid, number)
        assert job.wait(10) and (job.status, job.exit_code) == ("exited", 128 + number)
        assert not any(map(alive, others))
        how = "failed: signal: %d (%s)" % (number, number.name)
        assert notes_in(job.output_file) == ["\n\n[background process %s]\n" % how]
        job = background(tool, lasting("sleep 600 >/dev/null 2>&1 & echo $! > server; ") + until("go") + "; exit 143")
        Path("go").touch()
        assert job.wait(20) and job.exit_code == 143 and alive(number_in("server")) and job.kill()
        result = tool.run(lasting("sleep 600 >/dev/null 2>&1 & echo $! > server; kill -KILL $$"))  # no job
        assert result.exit_code == 137 and "still running: pid %d " % number_in("server") in result.text


@clause("003.22", saboteur=("job_lines", "or has_leftovers", "or not report.exit_code"))
@few(any_of("", "done\n", "no newline"), any_of("", "sleep 600 & ", "(setsid sleep 600 &); "))
def test_req_bash_003_22_an_early_end_is_told_and_no_kill_offered(output, left):
    with BashTool() as tool, long_look():
        starts = lasting(left) + until_lasting(0, 1) if left else ""
        result = tool.run(starts + "printf '%s'" % output.replace("\n", "\\n"), mode="background")
        still = "".join(lasting("; still running: %d \"sleep 600\"") % pid for pid in result.leftovers)
        note = "\n\n[background process completed%s]\n" % still
        assert (result.ok, len(result.leftovers), result.stdout) == (True, bool(left), output)
        stop = "<reminder>To stop: kill -9 -%d</reminder>\n" % result.pid if left else ""
        assert result.text.endswith("</output_file>\n" + stop + output + note)
        assert tool.job(result.pid).kill() and not any(map(alive, result.leftovers))


@clause("003.23", saboteur=("Job.read", 're.sub(_NOTE, b"", rest, count=1)', "rest"))
@few(
    any_of(b"", b"out\n", b"no newline", b"\n\n[background process completed]\n", b"half \xe2\x82"),
    any_of("", "sleep 0.5; "),
    any_of(0, 3),
)
@example(b"early\n", "", 0)
@example(b"later \xe2\x82", "sleep 0.5; ", 3)
def test_req_bash_003_23_the_note_is_no_output(output, pause, code):
    folder = Path(tempfile.mkdtemp())
    command = "(until [ -e go ]; do sleep 0.1; done; printf left) & %sprintf '%s'; exit %d"
    command %= pause, "".join("\\%03o" % byte for byte in output), code
    with BashTool(folder) as tool, contextlib.nullcontext() if pause else long_look():
        result = tool.run(lasting(command), mode="background")
        job, read, offset, ended = tool.job(result.pid), "", 0, False
        while not ended:  # a reader at every moment of the end
            ended = job.status != "running"
            text, offset = job.read(offset)
            read += text
        if not pause:
            assert (result.stdout, result.total_bytes) == (bash_tool.render(bash_tool.decode(output)), len(output))
            assert result.stdout_bytes == output and result.text.endswith("]\n")
        (folder / "go").touch()
        assert eventually(lambda: job.read(offset)[0] == "left")
        assert read + "left" == job.read()[0] == output.decode("utf-8", "replace") + "left"
        assert job.total_bytes == len(output)
        assert Path(job.output_file).read_bytes().count(b"]\n") == 1 + output.count(b"]")


@clause("003.24", saboteur=("STOPPING", "SIGHUP SIGINT", "SIGHUP SIGSEGV"))
@fewer(st.lists(any_of("HUP", "INT", "KILL", "TERM", "SEGV", "ABRT", "USR1"), min_size=1, max_size=3))
@example(["INT", "SEGV", "KILL"])
def test_req_bash_003_24_a_job_that_was_stopped_has_not_failed(signals):
    with BashTool(state_dir="s") as tool:
        dies = "sleep 0.5; ulimit -c 0; kill -%s $$; sleep 600"
        jobs = [tool.run(dies % name, mode="background") for name in signals]
        told = told_in("\n".join(job.text for job in jobs))  # the next answer tells it, whatever that is
        for name, job in zip(signals, jobs):
            number = getattr(signal, "SIG" + name)
            how = "ended by" if name in ("HUP", "INT", "KILL", "TERM") else "failed:"
            words = "%s signal %d (SIG%s)" % (how, number, name)
            assert tool.job(job.pid).wait(20)
            more = lambda: told.extend(told_in(tool.run(":").text))
            assert eventually(lambda: more() or (job.pid, words) in [one[:2] for one in told])
            assert "failed: signal: %d (SIG%s)]" % (number, name) in Path(job.output_file).read_text()
            rows = cli("--state-dir", "s", "--jobs").stdout.decode().splitlines()
            assert [row.split("\t")[1] for row in rows if row.startswith("%d\t" % job.pid)] == [words]


WITHOUT_LOCKS = """
    import fcntl
    sys.frozen = True  # so that supervisors are forks of this process
    def refuse(*_):
        raise OSError(int(sys.argv[1]), os.strerror(int(sys.argv[1])))
    fcntl.flock = os.fchmod = refuse
    bash_tool = sys.modules[BashTool.__module__]
    tool = BashTool(state_dir="s")
"""
LACKS = [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EPERM]


@clause("003.25", saboteur=("Job._read_record", "is_free is None", "False"))
@pytest.mark.parametrize("number", first_of(LACKS, errno.ENOSYS))
def test_req_bash_003_25_jobs_without_locks(number):
    program = """
        first, second = (tool.run("sleep 600", mode="background") for _ in range(2))
        for result in first, second:
            for job in bash_tool.Job(result.output_file), tool.job(result.pid):
                assert job.status == "running", job
        assert bash_tool.Job(first.output_file).kill() and tool.job(second.pid).kill()
        assert [bash_tool.Job(each.output_file).status for each in (first, second)] == ["exited"] * 2
        assert tool.job(first.pid).kill()  # once more
        short = tool.job(tool.run("sleep 0.4; exit 3", mode="background").pid)
        assert short.wait(20) and short.exit_code == 3
        lost = tool.run("sleep 600", mode="background")
        os.kill(tool.job(lost.pid)._report.supervisor[0], signal.SIGKILL)
        assert tool.job(lost.pid).wait(20)
        while bash_tool.Job(lost.output_file).status == "running":  # until the fork server has reaped the supervisor
            time.sleep(0.01)
        print("done")
    """
    assert in_host(textwrap.dedent(WITHOUT_LOCKS) + textwrap.dedent(program), number) == "done\n"


# ---- 004 Isolation -------------------------------------------------------------------------------------------------
@clause("004.1", saboteur=("Shell._spawn", "start_new_session=True", "start_new_session=False"))
def test_req_bash_004_1_leads_a_session():
    shell, group, session = map(int, BashTool().run("set -- $(cut -d' ' -f1,5,6 /proc/$$/stat); echo $*").text.split())
    assert shell == group == session != os.getsid(0)


SECRET_NAMES = """MY_API_KEY API_KEY apiKey AppSecret db_password PGPASSWORD ORA_PASSWD some_auth_var AWS_CREDS USER_CREDENTIAL
GITHUB_TOKEN NPM_AUTH MYSQL_PWD DB_PASS aws_secret_access_key GH_PAT SESSION_COOKIE JWT OPENAI_APIKEY SSH_PASSPHRASE TOKEN APIkey
MY_PUBLIC_AUTH ROOT_PASSWDS SSHPASS DBPASS SMTPPASS DB_PW LDAP_BINDPW AUTHORIZATION HTTP_AUTHORIZATION MASTERKEY SIGNINGKEY
TS_AUTHKEY MAX_TOKENS PW_PASSWORD GIT_CONFIG_KEY OTEL_EXPORTER_OTLP_HEADERS OTEL_EXPORTER_OTLP_TRACES_HEADERS BW_SESSION
OP_SESSION_my FASTLANE_SESSION WORDPRESS_NONCE_SALT MY_SITE_API_KEY PASSWORD2 DB_PASSWORD_NEW OLD_PASSWORD1 PASSPHRASE
PASSWORDS SMTP_PASS2 dbPasswordOld CACHE_API_KEY""".split()
OPEN_NAMES = """KEYBOARD_LAYOUT MONKEY KEYNOTE_SPEAKER CERTIFIED_DIVER AUTHENTICATION_FLOW PRIVATE_JET_OWNER GIT_AUTHOR_NAME
SSH_AUTH_SOCK DB_PASSWORD_FILE TOKENIZERS_PARALLELISM COMPASS_HEADING MY_PUBLIC_KEY SECRETARY TURKEY AUTHOR KEYSTONE
GOOGLE_APPLICATION_CREDENTIALS XAUTHORITY VSCODE_GIT_ASKPASS_NODE BYPASS_HOSTS MULTIPASS_STORAGE PW_TEST_REPORTER
GIT_CONFIG_KEY_0 SSHPASS_FILE TOKENS_PATH PWD OLDPWD MAVEN_OPTS AUTHORIZED_USER BUNDLE_GEMS__EXAMPLE__COM
POSTGRES_HOST_AUTH_METHOD STRIPE_PUBLISHABLE_KEY RECAPTCHA_SITE_KEY SALT_MASTER DESKTOP_SESSION EXTRA_HEADERS
PARTITION_KEY sortKey CACHE_KEYS MY_ROW_KEY BANDPASS_FILTER""".split()
SETTINGS = ["", *"0 1 42 -3 +0.5 2024 true False YES no On OFF none trust md5 scram-sha-256 Basic RS256".split()]
PASSWORDS = """db_password PGPASSWORD ORA_PASSWD MYSQL_PWD DB_PASS SSHPASS DBPASS SMTPPASS PW_PASSWORD SSH_PASSPHRASE
ROOT_PASSWDS DB_PW LDAP_BINDPW PASSWORD2 DB_PASSWORD_NEW OLD_PASSWORD1 PASSPHRASE PASSWORDS SMTP_PASS2 dbPasswordOld""".split()
NO_SETTINGS = ["plain", "hunter2", "12a4", "1.2.3", "truest", "password", "1" * 16, "/Tq0vb/X8mLw2R"]


def is_setting(name, value):
    return value in SETTINGS and not (name in PASSWORDS and value == "2024")


@clause("004.2", saboteur=("looks_secret", "return is_secret", "return is_secret and where != \"words\""))
@given(st.dictionaries(any_of(*SECRET_NAMES, *OPEN_NAMES), any_of(*NO_SETTINGS, *SETTINGS)))
def test_req_bash_004_2_withholds_by_name(environ):
    env, withheld = bash_tool.scrub_env(environ)
    secret = {name for name in environ if name in SECRET_NAMES and not is_setting(name, environ[name])}
    assert set(withheld) == secret
    assert {name for name in environ if name in env} == set(environ) - secret


FORCED_COLOURS = """FORCE_COLOR=0 CLICOLOR_FORCE=1 MYPY_FORCE_COLOR=1 ANSIBLE_FORCE_COLOR=true PY_COLORS=1
    CARGO_TERM_COLOR=always NPM_CONFIG_COLOR=always npm_config_color=true PYTHON_COLORS=1 GTEST_COLOR=yes RUST_LOG_STYLE=always
    CLANG_FORCE_COLOR_DIAGNOSTICS=ON COMPOSE_ANSI=always FORCE_COLOUR= force_color=1
    RICH_FORCE_TERMINAL=1 FORCE_TTY=1 TTY_COMPATIBLE=1 LOGURU_COLORIZE=YES"""
FORCED_COLOURS = dict(pair.split("=", 1) for pair in FORCED_COLOURS.split())
GIT_PAIRS = {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
GIT_PAIRS.update(GIT_CONFIG_KEY_11="user.name", GIT_CONFIG_VALUE_11="A B")
SECRET_VALUES = [
    *("postgres://me:pw@db:5432/x", "redis://:pw@host", "-----BEGIN RSA PRIVATE KEY-----\nMII", "ghp_" + "a" * 36),
    *("github_pat_" + "a" * 30, "AKIA" + "A1" * 8, "AIza" + "x" * 35, "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK"),
    *("sk_live_" + "a1" * 8, "xoxb-1234567890-abc", "AccountName=x;AccountKey=abcd1234==", "glpat-" + "x" * 20),
    *("https://hooks.slack.com/services/T0/B0/x", "Authorization: Bearer ghp_" + "b" * 36),
]
SECRET_VALUES += [
    *("rediss://:a/b=@host", "db://me:a?b@host/x", "db://me:a1234#5@host", "mongodb://me:p/w@h1:27017,h2:27017/x"),
    *("https://" + "0123456789abcdef" * 2 + "@github.com/a/b.git", "git+https://" + "a1_-" * 5 + ":@host/"),
    *("https://a.blob.core.windows.net/c?sv=2022&sig=" + "aB%2F" * 5, "sv=2022-11-02&sig=" + "a" * 30),
    *("https://b.s3.amazonaws.com/k?X-Amz-Signature=" + "0f" * 32, "http://localhost:8888/lab?token=0123456789abcdef"),
    *("https://discord.com/api/webhooks/123/abc", "https://discordapp.com/api/v10/webhooks/1/a"),
    *("https://hooks.slack.com/workflows/T0/A0", "https://outlook.office.com/webhook/0f-1/x"),
    *("https://x.webhook.office.com/webhookb2/0f-1@2/IncomingWebhook/3/4", "PRIVATE-TOKEN: abcdef"),
    *("Authorization: Basic dXNlcjpwdw==", "AUTHORIZATION: basic eDpnaHM=", "authorization=Bearer%20abcdef"),
    *('{"Authorization": "Bearer abcdef"}', "-Xmx1g -Djavax.net.ssl.keyStorePassword=changeit", "-DproxyPASSWORD=x"),
    *("-Dmy.token=truest -Dx=1", "-Psigning.secret=12a", "hvs." + "a" * 24, "glrt-" + "a" * 20, "dckr_pat_" + "a" * 27),
    *("shpat_" + "0f" * 16, "xapp-1-A0B1C2D3-45", "lin_api_" + "a" * 40, "gsk_" + "a" * 52, "GOCSPX-" + "a" * 28),
    *("ya29." + "a" * 30, "AGE-SECRET-KEY-1" + "Q" * 58),
    *(
        "Endpoint=https://x.azconfig.io;Id=ab;Secret=abcd",
        "endpoint=https://x/;accesskey=abcd",
        "libsql://h?authToken=abcd1234",
    ),
    *("postmark+api://0123abcd-0123-0123-0123@default", "https://chat.example.org/hooks/" + "a1" * 13),
    *(
        "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=" + "a1-" * 9,
        "https://open.feishu.cn/open-apis/bot/v2/hook/" + "a1-" * 9,
    ),
    *(
        base64.b64encode(b"-----BEGIN %sPRIVATE KEY-----" % kind).decode()
        for kind in (b"", b"RSA ", b"EC ", b"OPENSSH ")
    ),
]
OPEN_VALUES = [
    *("https://example.org/a:b@c", "http://user@host/", "this.is.not.a.jwt", "ghp_12345", "", "sketch-12"),
    *("/usr/bin:/bin", "a@b:c", "12:34", "eyJ", "mask-" + "x" * 30, "https://user@host/a", "postgres://user@host/db"),
    *("https://a-long-organisation-name@dev.azure.com/x", "https://host:8443/@scope/package", "http://[::1]:8080/a@b"),
    *("mongodb://h1:27017,h2:27017/?a=b@c", "http://localhost:8888/lab?token=", "-Xmx2g -Dfile.encoding=UTF-8"),
    *("-Dmax.tokens=42 -Daccept.token=true -Dretry.token=3", "-Dtoken=$TOKEN", "-Dtoken="),
    *("Authorization: Bearer $TOKEN", "rs=0:di=01;34:*.sig=01;31", "gsk_renderer_vulkan_x"),
    *('!f() { echo username=x; echo "password=$GITHUB_TOKEN"; }; f', "unix:path=/run/user/0/bus,guid=0f"),
    *("https://discord.com/api/", "https://a.blob.core.windows.net/c?sig=", "hvs.1", "glrt-a", "AGE-SECRET-KEY-"),
    *("--with-xml2-include=/usr/a:/usr/b", base64.b64encode(b"-----BEGIN CERTIFICATE-----\n" + b"a" * 99).decode()),
    *("ssh://APKAEXAMPLE0123456789@git-codecommit.us-east-1.amazonaws.com/x", "https://example.org/hooks/post-receive"),
    *(
        "abfss://0f1e2d3c-aaaa-bbbb-cccc-0123456789ab@x.dfs.fabric.microsoft.com/y",
        "-Dapp.secret=true -Dk8s.secret=12345",
    ),
    *("--secret=id=npmrc,src=/x", "secret=/run/secrets/x", "https://open.feishu.cn/open-apis/bot/v2/hook/$TOKEN"),
]


@clause("004.3", saboteur=("looks_secret", "in SECRET_RULES", "in SECRET_RULES[2:]"))
@given(any_of(*SECRET_VALUES, *OPEN_VALUES), any_of("X", "DATABASE_URL", "HOME", "SOME_FILE"), any_of(*GIT_PAIRS))
def test_req_bash_004_3_withholds_by_value(value, name, part):
    env, withheld = bash_tool.scrub_env({name: value})
    assert (name in withheld, name in env) == (value in SECRET_VALUES, value in OPEN_VALUES)
    pairs = {**GIT_PAIRS, part: value}
    whole = {} if value in SECRET_VALUES else pairs
    env, withheld = bash_tool.scrub_env({**pairs, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_KEY_B": "y"})
    assert set(withheld) == {"GIT_CONFIG_KEY_B", *pairs} - set(whole)
    assert {name: text for name, text in env.items() if "GIT_CONFIG" in name} == {**whole, "GIT_CONFIG_NOSYSTEM": "1"}
    env, withheld = bash_tool.scrub_env({"BUNDLE_GEMS__EXAMPLE__COM": "me:pw", "BUNDLE_PATH": "me:pw", name: value})
    assert set(withheld) == {"BUNDLE_GEMS__EXAMPLE__COM", *([name] if value in SECRET_VALUES else ())}


ESCAPES = [
    *("sleep 600 &", "nohup sleep 600 >/dev/null 2>&1 &", "sleep 600 & disown", "set -m; sleep 600 & set +m"),
    *("setsid sleep 600 &", "(setsid sleep 600 &)", "setsid sh -c 'sleep 600 & exit' &", "env -i sleep 600 &"),
    *("env -i setsid sleep 600 &", "(env -i setsid sleep 600 >/dev/null 2>&1 </dev/null &)"),
    "(env -i setsid python3 -c 'import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); time.sleep(600)' "
    ">/dev/null 2>&1 &)",  # not dumpable
    "python3 -c 'import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\ntime.sleep(600)' &",
]


@clause("004.4", saboteur=("Command.kill", "_kill_below()", "pass"))
@fewest(st.permutations(list(enumerate(ESCAPES))), st.integers(0, 2), st.booleans(), st.booleans())
@example(list(enumerate(ESCAPES)), 0, True, True)
def test_req_bash_004_4_ends_the_tree(nothing_is_left, escapes, depth, deaf, by_timeout):
    # what has emptied its environment is told by its arguments; `random` would say the same in each example
    seconds = str(10**6 + int.from_bytes(os.urandom(4), "big"))
    lines = []
    for n, escape in escapes:
        for _ in range(depth if n % 2 else 0):  # a shell in a shell, each of which ends
            escape = "bash -c %s" % shlex.quote(escape)
        lines.append(escape.replace("600", seconds))
    folder = tempfile.mkdtemp()
    token = None if by_timeout else cancelled_when(folder + "/ready")
    with BashTool(folder, profile=tiny(default=1.5 if by_timeout else 20)) as tool:
        lines = ["trap '' TERM" if deaf else "", *lines, "echo started; : > ready; wait; sleep " + seconds]
        result = tool.run("\n".join(lines), cancel=token)
    how = "[command timed out after 1.5s]\n" + LONGER_MODES if by_timeout else "[command cancelled]"
    assert result.text == how + "\nstarted\n"
    assert not carriers(nothing_is_left)
    assert not [pid for pid in processes() if seconds.encode() in of_proc(pid, "cmdline") and alive(pid)]


@clause("004.5", saboteur=("Life._end", "now >= self._kill_at:", "True:"))
@fewest(endless_in_each_way(), st.floats(0.3, 1.0), st.integers(0, 1))
def test_req_bash_004_5_kill_only_after_the_grace(commands, grace, parity):
    assert MODES.grace_s == 15
    folder = Path(tempfile.mkdtemp())
    seen = []

    def run(n):
        by_timeout, ready, begun = n % 2 == parity, folder / ("ready-%d" % n), time.time()
        options = dict(timeout_s=0.6) if by_timeout else dict(cancel=cancelled_when(str(ready)))
        result = tool.run(commands[n].text, **options)
        if not ready.exists():  # a busy machine has not come so far
            return
        took = time.time() - ready.stat().st_mtime
        if commands[n].deaf and (not by_timeout or ready.stat().st_mtime < begun + 0.5):
            seen.append(n)
            assert took >= grace and result.exit_code is None, (n, took)

    with BashTool(folder, profile=tiny(grace=grace)) as tool:
        at_once(run, range(len(commands)))
    assert seen and not [pid for pid in dwellers(folder) if alive(pid)]


@clause("004.6", saboteur=("Life._end", "self.seen.childless or", ""))
def test_req_bash_004_6_does_not_wait_out_the_grace():
    with BashTool(profile=tiny(default=0.3, grace=60)) as tool:
        cleans = "trap 'sleep 0.3; echo cleaned; exit' TERM; sleep 600 & wait"
        below = "sh -c 'trap \"sleep 0.5; exit\" TERM; sleep 600 & wait' & wait"
        for command in ("sleep 600", cleans, below, "kill -STOP $$; sleep 600"):
            begun = time.monotonic()
            assert tool.run(lasting(command)).status == "timed_out"
            assert time.monotonic() - begun < 5 + slack_s()


@clause("004.7", saboteur=("Command.report", "self.leftovers", "_kill_below()\nself.leftovers"))
@fewest(st.tuples(*(leaving([way]) for way in WAYS_OF_LEAVING)))
def test_req_bash_004_7_a_normal_end_kills_nothing(commands):
    def run(known):
        folder = Path(tempfile.mkdtemp())
        result = BashTool(folder).run(known.text)
        assert (result.status, result.exit_code, result.signal) == ("exited", known.code, known.signal)
        pids = [number_in(folder / file) for file in known.leaves]
        for pid in pids:  # without these only what holds the output is noticed, and nothing named: SPEC.md, Fallbacks
            assert "pid %d \"%s\"" % (pid, NAP) in result.text or WITHOUT in ("proc", "subreaper")
        return pids

    pids = [pid for pids in at_once(run, commands) for pid in pids]
    assert not eventually(lambda: not all(map(alive, pids)), 0.2)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


@clause("004.8", saboteur=("scrub_env", "kept - DROPPED_NAMES", "DROPPED_NAMES"))
def test_req_bash_004_8_keeps_what_the_host_names():
    secret = st.from_regex(r"[A-Z]{1,4}_(TOKEN|KEY|SECRET|PASSWORD)", fullmatch=True)

    @draws(25)
    @given(st.dictionaries(secret, st.from_regex("[a-z]{3}[0-9A-Za-z]{8,20}", fullmatch=True)), st.data())
    def keeps(secrets, data):
        kept = data.draw(st.sets(any_of(*sorted(secrets)))) if secrets else set()
        pattern = data.draw(any_of("{0}{1}", "?{1}", "[{0}]{1}"))
        keep = [pattern.format(name[0], name[1:]) for name in kept]
        kept = {name for name in secrets if any(fnmatch.fnmatchcase(name, one) for one in keep)}
        env, withheld = bash_tool.scrub_env({"PATH": "/bin", **secrets}, keep)
        assert set(env) & set(secrets) == kept and set(withheld) == set(secrets) - kept
        assert all(env[name] == secrets[name] for name in kept)

    keeps()
    secrets = {"GH_TOKEN": "x", "MY_KEY": "y", "OTHER_TOKEN": "z", "DB": "db://me:pw@h/"}
    for keep, kept in (("GH_*", {"GH_TOKEN"}), (("MY_KEY", "DB"), {"MY_KEY", "DB"}), ((), set()), ("*", set(secrets))):
        keep = (keep,) if isinstance(keep, str) else keep
        env, withheld = bash_tool.scrub_env(secrets, keep)
        assert set(env) & set(secrets) == kept and set(withheld) == set(secrets) - kept
    pairs = {**GIT_PAIRS, "GIT_CONFIG_VALUE_0": "db://me:pw@h/", "GIT_CONFIG_VALUE_11": "db://me:pw@i/"}
    cases = {"GIT_CONFIG_*": True, "GIT_CONFIG_VALUE_*": True, "GIT_CONFIG_VALUE_0 *_11": True}
    cases.update({"GIT_CONFIG_COUNT GIT_CONFIG_VALUE_0": False, "GIT_CONFIG_KEY_*": False})
    for keep, whole in ((keep.split(), whole) for keep, whole in cases.items()):
        env, withheld = bash_tool.scrub_env(pairs, keep)  # of a group all that look secret are named, or it goes whole
        assert set(env) & set(pairs) == set(pairs if whole else ()), keep
        assert set(withheld) == set(() if whole else pairs), keep


@clause("004.10", saboteur=("scrub_env", "DROPPED_NAMES | dropped", "DROPPED_NAMES"))
def test_req_bash_004_10_withholds_what_the_host_drops():
    name = st.from_regex(r"[A-Z]{1,4}(_TOKEN|_KEY|_B)?", fullmatch=True)
    globs = name | any_of("A*", "*_TOKEN", "?", "*", "[A-M]*", "b", "")

    @draws(25)
    @given(st.dictionaries(name, any_of("x", "4096", "db://me:pw@h/")), st.lists(globs), st.lists(globs))
    @example({"A": "x", "B_TOKEN": "x", "C": "x"}, ["A", "B_TOKEN"], ["*"])
    def withholds(environ, drop, keep):
        def named(patterns):
            return {name for name in environ if any(fnmatch.fnmatchcase(name, one) for one in patterns)}

        untouched = bash_tool.scrub_env(environ, keep)[1]
        env, why = bash_tool.scrub_env(environ, keep, drop)
        assert set(why) == set(untouched) | named(drop) and list(why) == sorted(why)
        assert {name for name, reason in why.items() if not reason} == named(drop)
        forced = {**bash_tool.NON_INTERACTIVE, "LANG": "C.UTF-8"}
        assert env == {**{name: value for name, value in environ.items() if name not in why}, **forced}

    withholds()
    with pytest.MonkeyPatch.context() as patch:
        for name in "MY_PLAIN", "MY_OTHER", "MY_TOKEN":
            patch.setenv(name, "hunter2")
        with BashTool(drop_env=("MY_PLAIN", "*_OTHER", "PAGER")) as tool:
            assert {"MY_PLAIN", "MY_OTHER", "MY_TOKEN"} <= set(tool.withheld)
            assert tool.run("env | grep -c hunter2; echo $PAGER").stdout == "0\ncat\n"
            chosen, secret = tool.run(": $MY_PLAIN $MY_TOKEN").notes
            assert chosen == "not passed to commands: MY_PLAIN"
            assert secret == "not passed to commands, because it looks secret: MY_TOKEN"
            assert tool.run("echo $MY_PLAIN $MY_OTHER").notes == ("not passed to commands: MY_OTHER",)
            assert tool.run("echo $MY_PLAIN $MY_OTHER", env={"MY_PLAIN": "x"}).text == "x\n"


@clause("004.11", saboteur=("scrub_env", "(name in keep or passes)", "passes"))
def test_req_bash_004_11_what_the_host_names_in_full_wins():
    taken = {**dict.fromkeys(bash_tool.NON_INTERACTIVE, "mine"), **FORCED_COLOURS}

    @draws(40)
    @given(st.sets(any_of(*sorted(taken))), any_of("", "*", "GIT_*", "[P]AGER", "*COLOR*"))
    def wins(named, glob):
        env, _ = bash_tool.scrub_env({**taken, "GIT_ASKPASS": "/bin/ksshaskpass"}, (*sorted(named), glob))
        wanted = {name: taken[name] if name != "GIT_ASKPASS" else "/bin/ksshaskpass" for name in named}
        assert env == {**bash_tool.NON_INTERACTIVE, **wanted, "LANG": "C.UTF-8"}
        env, _ = bash_tool.scrub_env({}, sorted(named))  # what the host does not have is set
        assert env == {**bash_tool.NON_INTERACTIVE, "LANG": "C.UTF-8"}

    wins()
    options, env = ["--keep-env", "PAGER", "--keep-env", "GIT_*"], dict(os.environ, PAGER="my", GIT_PAGER="my")
    assert cli(*options, "echo $PAGER $GIT_PAGER", env=env).stdout == b"my cat\n"


PLAIN_ENDINGS = (
    "FILE PATH DIR DIRECTORY SOCK SOCKET NAME URL URI ENDPOINT HOST HOSTNAME DOMAIN SERVER PORT ADDR ADDRESS REALM NAMESPACE "
    "REGION ARN PREFIX ISSUER AUDIENCE PROVIDER OWNER USER USERNAME ALIAS EXPIRES EXPIRY EXPIRATION TTL LIFETIME DURATION "
    "TIMEOUT PATHS DOMAINS PROVIDERS SCOPE SCOPES TYPE METHOD FORMAT ALG ALGORITHM "
    "SAMESITE VERSION EXPIRE COLUMN FIELD FIELDS CONVERTER SERIALIZER DESERIALIZER CLASS PATTERN REGEX TABLE LENGTH SIZE "
    "COUNT LIMIT ROUNDS INTERVAL SECONDS DAYS MS"
)
PLAIN_ENDINGS, OF_TWO_WORDS = PLAIN_ENDINGS.split(), ["EXPIRES_IN", "EXPIRES_AT", "MAX_AGE", "CLIENT_ID", "ENV_VAR"]
BY_WORD = "AUTH AUTHORIZATION BEARER COOKIE COOKIES CRED CREDS JWT KEY KEYS PAT".split()
BY_ENDING = "PASSWORD SSHPASS BINDPW DB_PWD PASSPHRASE SECRET TOKEN GH_TOKENS APIKEY SECRETKEY CREDENTIALS".split()
PLACES = """/root/.ssh/id ~/.netrc ./certs/Server1.pem /home/user1/keys /Users/Me/Keys /k https://login.example.org/realms/main
http://[::1]:8080/@scope/a https://example.org /var/lib/0123456789abcdef0123456789/key.pem""".split()
NO_PLACES = ["/Tq0vb/X8mLw2R", "/var/lib/" + "Ab1" * 7 + "/x.pem", "https://example.org/" + "0123456789abcdef", "/a b"]
NO_PLACES += (
    "../k https://example.org/?a=b https://example.org/#a https://me@example.org/ ftp://example.org/ a/b ~me/x".split()
)
LETTERS = string.ascii_letters + string.digits
KEYS = {  # the alphabet of known keys, their length, what they begin and end with
    **{"AWS": (LETTERS + "+/", 40, "", ""), "AWS, like a path": (LETTERS + "+/", 39, "/", "")},
    **{"base64, like a path": (LETTERS + "+/", 23, "/", ""), "Azure": (LETTERS + "+/", 86, "", "==")},
    **{"base64url": (LETTERS + "-_", 43, "", ""), "GitHub": (LETTERS, 36, "ghp" + "_", "")},
    **{"Slack": (LETTERS, 24, "xoxb" + "-1234567890-", ""), "Stripe": (LETTERS, 24, "sk" + "_live_", "")},
    **{"GCP": (LETTERS + "-_", 35, "AI" + "za", ""), "16 bytes": (string.hexdigits[:16], 32, "", "")},
    "8 bytes": (string.hexdigits[:16], 16, "", ""),
}


@clause("004.12", saboteur=("SECRET_RULES", "(?:/[A-Z]?[a-z]*\\d*)+", "[/\\w]*"))
def test_req_bash_004_12_where_who_and_how_long_pass():
    words, places = any_of(*BY_WORD, *BY_ENDING), any_of(*PLACES, *NO_PLACES)

    @given(words, any_of(*PLAIN_ENDINGS, *OF_TWO_WORDS, "IN", "AGE", "ID", "X"), places | st.just("plain"))
    def by_the_name_or_the_value(word, last, value):
        def passes(name):
            return not bash_tool.looks_secret(name, value)

        by_name = last in [*PLAIN_ENDINGS, *OF_TWO_WORDS] or (word, last) == ("KEY", "ID")
        is_place = word in BY_WORD and value in PLACES
        ways = ["MY_%s_%s" % (word, last), "%s_%s" % (word.lower(), last.lower())]
        ways.append("my%s%s" % (word.title(), last.title().replace("_", "")))
        assert list(map(passes, ways)) == 3 * [by_name or is_place]
        assert passes(word) == passes("%s_%s" % (last, word)) == is_place
        assert not passes("TOKEN_KEY_ID") and not passes("MY_SECRET_KEY_ID")

    by_the_name_or_the_value()
    for name, value, verdict, rule in verdicts():
        assert bash_tool.looks_secret(name, value) == (verdict == "secret"), name
        rules = bash_tool.SECRET_RULES[: rule - 1] + bash_tool.SECRET_RULES[rule:]
        with pytest.MonkeyPatch.context() as patch:  # the rule that the line names decides
            patch.setattr(bash_tool, "SECRET_RULES", bash_tool.SECRET_RULES[:rule])
            assert not rule or bash_tool.looks_secret(name, value) == (verdict == "secret"), name
            patch.setattr(bash_tool, "SECRET_RULES", rules[: rule - 1])
            assert not rule or not bash_tool.looks_secret(name, value), name
    drawn = random.Random(os.urandom(8))
    for kind, (alphabet, length, begin, end) in KEYS.items():
        for n in range(20_000 if THOROUGH else 1000):
            value = begin + "".join(drawn.choices(alphabet, k=length)) + end
            name = (BY_WORD + BY_ENDING)[n % len(BY_WORD + BY_ENDING)]
            assert bash_tool.looks_secret(name, value), (kind, name, value)
    aws = dict(AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="y", AWS_SESSION_TOKEN="z", AWS_REGION="r")
    for names in itertools.chain.from_iterable(itertools.combinations(aws, n) for n in range(5)):
        some = {name: aws[name] for name in names}  # they go whole
        _, withheld = bash_tool.scrub_env(some)
        has_secret = {"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} & set(some)
        assert set(withheld) == (set(some) - {"AWS_REGION"} if has_secret else set())


@clause(
    "004.9", saboteur=("make_plan", "config.shell", '[b"env", *map(b"=".join, os.environb.items()), *config.shell]')
)
def test_req_bash_004_9_no_secret_in_argv_or_file(monkeypatch, tmp_path):
    monkeypatch.setenv("MY_TOKEN", "tok-1f6c9a-secret")
    with BashTool(state_dir="state") as tool:
        assert tool.run("cat /proc/$$/cmdline /proc/self/environ; env; seq 50000").truncated
        result = tool.run("tr '\\0' '\\n' < /proc/$$/cmdline; env")
    assert result.exit_code == 0 and "tok-1f6c9a" not in result.text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files and not [path for path in files if b"tok-1f6c9a" in path.read_bytes()]

    @few(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=8), known_commands())
    def is_nowhere(value, known):
        monkeypatch.setenv("MY_TOKEN", "tok-1f6c9a-" + value)
        with BashTool(state_dir="state") as tool:
            result = tool.run("cat /proc/$$/cmdline /proc/$PPID/cmdline /proc/self/environ\n" + known.text)
        assert result.exit_code == known.code and "tok-1f6c9a" not in result.text
        assert not [path for path in Path("state").rglob("*") if path.is_file() and b"tok-1f6c9a" in path.read_bytes()]

    is_nowhere()


LINES = (
    *("sleep 600", """python3 -c 'import sys, time\ntry: time.sleep(600)\nexcept KeyboardInterrupt: sys.exit(0)'"""),
    *("sleep 600 | cat || true", "while read x; do sleep 600 </dev/null; touch later; done < <(seq 3)"),
)
AROUND = (
    *("./s.sh || true; touch later", "timeout 500 ./s.sh; touch later", "bash < s.sh", "cat s.sh | bash", "make"),
    *("seq 3 | xargs -n1 ./s.sh", "find . -name s.sh -exec {} \\; -exec touch later \\;"),
    "f() { ./s.sh; touch later; }; f && touch later",
)


@clause("004.13", saboteur=("INTERRUPTIBLE", "python", "python bash"))
@fewer(any_of(*LINES), any_of(*AROUND), st.booleans())
@example(LINES[1], AROUND[0], True)
def test_req_bash_004_13_no_later_line_runs(line, around, by_timeout):
    folder = Path(tempfile.mkdtemp())
    (folder / "s.sh").write_text("#!/bin/bash\ntouch begun\n%s\ntouch later\n" % lasting(line))
    (folder / "s.sh").chmod(0o755)
    (folder / "Makefile").write_text("all:\n\t-./s.sh\n\ttouch later\n")
    token = None if by_timeout else cancelled_when(str(folder / "begun"))
    result = BashTool(folder, profile=tiny(2 if by_timeout else 60, 5)).run(around, cancel=token)
    assert result.status == ("timed_out" if by_timeout else "cancelled")
    assert (folder / "begun").exists() and not (folder / "later").exists()


PUBLISHED = """NEXT_PUBLIC_ NUXT_PUBLIC_ EXPO_PUBLIC_ PUBLIC_ VITE_ REACT_APP_ VUE_APP_ NG_APP_ GATSBY_ STORYBOOK_
SANITY_STUDIO_""".split()
PRIVATE_KEYS = [
    value for value in SECRET_VALUES if re.search("PRIVATE|^LS0tLS1CRUdJTi", value) and "TOKEN" not in value
]


@clause("004.14", saboteur=("SECRET_RULES", "(?!.*(?:PRIVATE\\ KEY", "(?!.*(?:NO\\ KEY"))
@given(any_of("", "MY_", "vite_"), any_of(*PUBLISHED), any_of("A_TOKEN", "ANON_KEY", "DB", "X"), any_of(*SECRET_VALUES))
@example("", "VITE_", "X", PRIVATE_KEYS[0])
def test_req_bash_004_14_what_a_bundler_publishes(begin, prefix, end, value):
    assert len(PRIVATE_KEYS) == 5
    for shown in (value, "a\n" + value):
        is_secret = bash_tool.looks_secret(begin + prefix + end, shown)
        assert is_secret == (begin != "" or value in PRIVATE_KEYS), (begin, prefix, end, shown)


# ---- 005 No terminal -----------------------------------------------------------------------------------------------
@clause(
    "005.1",
    saboteur=(
        "Shell._spawn",
        "start_new_session=True",
        "start_new_session=True, preexec_fn=lambda ends=os.openpty(): os.open(os.ttyname(ends[1]), 2)",
    ),
)
def test_req_bash_005_1_no_controlling_terminal():
    program = "from bash_tool import BashTool; open('/dev/tty').close(); "
    program += "open('answer', 'w').write(BashTool().run(': </dev/tty && echo has one || echo has none; tty').text)"
    pid, terminal = pty.fork()  # a host that has one
    if pid == 0:
        env = dict(os.environ, PYTHONPATH=str(TOOL.parent))
        os.execve(sys.executable, [sys.executable, "-c", program], env)
    try:
        assert eventually(lambda: Path("answer").exists() and "tty" in Path("answer").read_text())
    finally:
        os.close(terminal)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert "has none\nnot a tty\n" in Path("answer").read_text()


WAYS_OF_READING = [
    *("cat", "read x", "read -n 1 x", "mapfile x", "head -c 1", "tail -n 1", "sort", "sh", "bash -s", "python3 -S"),
    *("(cat)", "{ cat; } &\nwait", "cat | cat", "cat < /dev/stdin", "exec 5<&0; cat <&5", "x=$(cat)", "xargs -r echo"),
]


@clause("005.2", ("Shell._spawn", "else self._stdin_fd", "else self._stdin_fd if self._stdin_fd >= 0 else writers[0]"))
def test_req_bash_005_2_stdin_is_at_its_end():
    with BashTool(profile=tiny(default=AMPLE_S)) as tool:

        @few(st.lists(any_of(*WAYS_OF_READING), min_size=1, max_size=4), known_commands())
        def finds_the_end(ways, known):
            result = tool.run("\n".join([*ways, known.text]))
            assert (result.status, result.exit_code) == ("exited", known.code)
            assert result.total_bytes == len(known.merged.encode())

        finds_the_end()
        result = tool.run("cat; read x; echo $?; python3; readlink /proc/$$/fd/0; exec 0<&0 && echo open")
    assert result.text == "1\n/dev/null\nopen\n"


# ---- 006 Definition and arguments ----------------------------------------------------------------------------------
@clause("006.1", saboteur=("define", "list(profile.required)", "[]"))
def test_req_bash_006_1_schema():
    definition = BashTool().definition()
    assert set(definition) == {"name", "description", "input_schema"} and definition["name"] == "bash"
    schema = definition["input_schema"]
    command, mode = schema.pop("properties").values()
    assert schema == {"type": "object", "required": ["command"], "additionalProperties": False}
    assert command == {"type": "string", "description": "Shell command to execute via bash -c"}
    told = "Execution mode: default (30s timeout), slow (15min timeout), background (detached)"
    assert mode == {"type": "string", "enum": ["default", "slow", "background"], "description": told}
    assert list(BashTool().definition()["input_schema"]["properties"]) == ["command", "mode"]
    with pytest.raises(ValueError):
        BashTool().definition("nonsense")

    def described(row, timeouts_s, name):
        tool = BashTool(profile=dataclasses.replace(row, timeouts_s=timeouts_s))
        return tool.definition()["input_schema"]["properties"][name]

    modes, limit = described(MODES, {"default": 60, "build": 600}, "mode"), described(JOBS, {"default": 7}, "timeout")
    assert modes["enum"] == ["default", "build"]
    assert modes["description"] == "Execution mode: default (1min timeout), build (10min timeout)"
    assert limit["description"] == "Timeout in ms before auto-backgrounding (default: 7000)"


@clause("006.2", saboteur=("parse_arguments", '"default"', '"slow"'))
def test_req_bash_006_2_mode_may_be_omitted():
    for arguments in ({"command": "x"}, {"command": "x", "mode": None}, {"command": "x", "mode": "default"}):
        assert bash_tool.parse_arguments(arguments, MODES) == bash_tool.Request("x", "default")


@clause("006.3", saboteur=("define", "make_printable(cwd)", '"/"'))
@few(st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20))
def test_req_bash_006_3_names_the_directory(name):
    os.makedirs(Path("place", name), exist_ok=True)
    description = BashTool(Path("place", name)).definition()["description"]
    shown = "".join(c if c.isprintable() else "\ufffd" for c in name)
    assert description.endswith("/place/%s</pwd>" % shown) or name in (".", "..")
    description.encode("utf-8")


def json_values():
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=5,
    )


@clause("006.4", saboteur=("parse_arguments", "key %s;", "%.0s;"))
def test_req_bash_006_4_rejects_by_name():
    reached = set()

    keys, given_values = ["command", "mode", "cmd", "\ud800", "x" * 500], [None, "ls", "slow", "fast", 1, 1.5, True, []]

    @given(json_values() | st.dictionaries(any_of(*keys), any_of(*given_values, {}, "a\0", "\udfff")))
    @example({"command": "ls", "x" * 500: 1})
    @example({"command": "ls", "mode": "slow"})
    def answers(arguments):
        request = bash_tool.parse_arguments(arguments, MODES)
        fits = isinstance(arguments, dict) and set(arguments) <= {"command", "mode"}
        fits = fits and isinstance(arguments.get("command"), str) and arguments.get("mode") in (None, *MODES.timeouts_s)
        fits = fits and not re.search("[\0\ud800-\udfff]", arguments["command"])
        assert isinstance(request, bash_tool.Request) == fits
        reached.add(fits)
        if not fits:
            assert request.report.error == "invalid_arguments" and len(request.report.reason) < 1000
            request.report.reason.encode("utf-8")
            if isinstance(arguments, dict):
                odd = [key for key in arguments if key not in ("command", "mode")]
                assert '"command"' in request.report.reason or not odd and '"mode"' in request.report.reason
                assert (
                    not odd
                    or bash_tool.shorten(odd[0]) in request.report.reason
                    and '"command", "mode"' in request.report.reason
                )

    answers()
    assert reached == {True, False}
    result = BashTool().call({"command": "touch made", "mode": 5})
    reason = '"mode" must be one of "default", "slow", "background", got integer'
    assert result.text == "[system error: invalid arguments: %s]\n" % reason
    assert (result.status, result.is_error) == ("rejected", True)
    assert not Path("made").exists()


@clause("006.5", saboteur=("parse_arguments", "(str, bytes)", "bytes"))
@given(st.dictionaries(any_of("command", "mode", "x"), json_values()) | json_values())
def test_req_bash_006_5_takes_json_text(arguments):
    text = json.dumps(arguments)
    same = bash_tool.parse_arguments(json.loads(text), MODES)
    if not isinstance(json.loads(text), str) and not re.search("NaN|Infinity", text):
        assert bash_tool.parse_arguments(text, MODES) == same
    for broken in ("", "{", "[" * 100000, "1" * 5000, '{"command": "ls", "timeout": NaN}', text + "}", b"\xff"):
        assert bash_tool.parse_arguments(broken, MODES).report.error == "invalid_arguments"


@clause("006.6", saboteur=("define", '"bash", "description"', '"bash", "$comment": str(time.time()), "description"'))
def test_req_bash_006_6_same_bytes():
    limits = st.floats(0.001, 1e6) | st.integers(1, 10**6)

    names, styles = any_of(*PROFILES), any_of("anthropic", "openai", "mcp")

    @few(names, folders, st.none() | limits, st.booleans(), styles)
    def same(name, folder, limit, carry, style):
        os.makedirs("place/" + folder, exist_ok=True)
        tools = [BashTool("place/" + folder, profile=name, timeout_s=limit, carry=carry) for _ in range(2)]
        first, second = (json.dumps(tool.definition(style)) for tool in tools)
        assert first == second == json.dumps(tools[0].definition(style))

    same()
    for profile in PROFILES.values():
        assert len({json.dumps(BashTool("/", profile=profile).definition()) for _ in range(5)}) == 1
        changed = BashTool("/", profile=profile).definition()
        changed["input_schema"]["properties"].clear()
        assert BashTool("/", profile=profile).definition() != changed
        for style in ("openai", "mcp"):
            before = json.dumps(BashTool("/", profile=profile).definition(style))
            changed = BashTool("/", profile=profile).definition(style)
            changed.get("inputSchema", changed.get("parameters"))["properties"].clear()
            assert json.dumps(BashTool("/", profile=profile).definition(style)) == before
            changed = BashTool("/", profile=profile).definition(style)
            for schema in changed.get("parameters", changed.get("inputSchema"))["properties"].values():
                for value in schema.values():
                    value.append("more") if isinstance(value, list) else None
                schema["description"] = "changed"
            assert json.dumps(BashTool("/", profile=profile).definition(style)) == before
    assert len({cli("--schema").stdout for _ in range(2)}) == 1


@clause("006.7", saboteur=("define", 'schema["enum"] = [*schema["enum"], None]', "pass"))
@pytest.mark.parametrize("name", PROFILES)
def test_req_bash_006_7_strict_for_openai(name):
    tool = BashTool("/", profile=PROFILES[name])
    strict, plain = tool.definition("openai"), tool.definition()
    assert (strict["type"], strict["name"], strict["strict"]) == ("function", "bash", True)
    assert strict["description"] == plain["description"]
    assert set(strict) == set("type name description parameters strict".split())
    parameters, properties = strict["parameters"], plain["input_schema"]["properties"]
    assert parameters["required"] == list(parameters["properties"]) == list(properties)
    assert parameters["additionalProperties"] is False
    for key, value in parameters["properties"].items():
        required = key in plain["input_schema"].get("required", ())
        assert value["type"] == (properties[key]["type"] if required else [properties[key]["type"], "null"])
        assert (None in value.get("enum", [None])) is not (required and "enum" in value)
        assert fits(None, value) is not required
    nulls = dict.fromkeys(properties)
    assert isinstance(bash_tool.parse_arguments(dict(nulls, command=":"), PROFILES[name]), bash_tool.Request)
    assert fits(dict(nulls, command=":"), parameters)


@clause("006.8", saboteur=("TOOL_HINTS", '"destructiveHint": true', '"destructiveHint": false'))
@pytest.mark.parametrize("name", PROFILES)
def test_req_bash_006_8_definition_for_mcp(name):
    tool = BashTool("/", profile=PROFILES[name])
    definition, plain = tool.definition("mcp"), tool.definition()
    assert set(definition) == {"name", "title", "description", "inputSchema", "annotations"}
    assert (definition["name"], definition["description"]) == (plain["name"], plain["description"])
    assert definition["inputSchema"] == plain["input_schema"]
    hints = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
    assert definition["annotations"] == {"title": definition["title"], **hints} and definition["title"]


def fits(value, schema):
    """Whether a value conforms to a JSON Schema, as far as ours use the language: a word that is not known here is an error.
    `make interop` compares it with a full validator."""
    kinds = {"string": str, "object": dict, "array": list, "boolean": bool, "null": type(None)}

    def is_a(kind):
        if kind in kinds:
            return isinstance(value, kinds[kind])
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and (kind == "number" or float(value).is_integer())

    for word, said in schema.items():
        if word == "type":
            holds = any(map(is_a, said if isinstance(said, list) else [said]))
        elif word == "enum":
            holds = any(type(value) is type(other) and value == other for other in said)
        elif word in ("minimum", "maximum"):
            holds = not is_a("number") or (value >= said if word == "minimum" else value <= said)
        elif word == "required":
            holds = not isinstance(value, dict) or set(said) <= set(value)
        elif word == "items":
            holds = not isinstance(value, list) or all(fits(each, said) for each in value)
        elif word == "properties":
            inside = said if isinstance(value, dict) else ()
            holds = all(fits(value[key], said[key]) for key in inside if key in value)
        elif word == "additionalProperties":
            holds = not isinstance(value, dict) or said is not False or set(value) <= set(schema["properties"])
        else:
            assert word == "description", word
            continue
        if not holds:
            return False
    return True


JUNK = ["", "ls", "slow", "default", True, 1, 1.0, 1.5, 0, -7, 10**30, 86400000, 86400001, [], {}, ["ls"], {"a": 1}]


def some_arguments(profile, junk=any_of(*JUNK)):
    """Arguments near the edge of what a profile takes: right and wrong keys, right and wrong values, no nulls."""
    right = {
        "command": st.text(max_size=8),
        "mode": any_of("default", "slow", "background", "fast"),
        "timeout": any_of(-1, 0, 0.5, 1, 1.0, 86400000, 86400000.0, 86400001) | st.integers(1, 86400000),
    }
    each = {key: st.one_of(right.get(key, junk), right.get(key, junk), junk) for key in (*profile.parameters, "cmd")}
    given_keys = st.sets(any_of(*each))
    return given_keys.flatmap(lambda keys: st.fixed_dictionaries({key: each[key] for key in keys}))


def refused_beyond_the_schema(arguments, profile):
    """What the schema cannot say."""
    verbs = [verb for verb in ("command", "check_pid", "kill_pid") if verb in profile.parameters and verb in arguments]
    if re.search("[\0\ud800-\udfff]", str(arguments.get("command", ""))):
        return True
    many = len(verbs) != 1 and "check_pid" in profile.parameters
    return many or any(not -(2**31) < arguments[verb] < 2**31 for verb in verbs if verb != "command")


def counts_as_none(key, value):
    """What 006.13 takes for "not given": an empty mode, the process 0."""
    is_zero = type(value) in (int, float) and not value
    return (key, value) == ("mode", "") or key in ("check_pid", "kill_pid") and is_zero


def agreement(validates):
    """The property of 006.9, for a validator of schemas."""
    reached = set()
    schemas = {name: BashTool("/", profile=row).definition()["input_schema"] for name, row in PROFILES.items()}

    @given(any_of(*PROFILES.values()).flatmap(lambda row: st.tuples(st.just(row), some_arguments(row))))
    @example((bash_tool.JOBS, {"command": ":", "timeout": 86400001}))
    @example((MODES, {"command": ":", "mode": {}}))
    @example((bash_tool.JOBS, {"command": "", "check_pid": 1}))
    @draws(100)
    def agree(case):
        profile, given = case
        arguments = {key: value for key, value in given.items() if not counts_as_none(key, value)}
        others = [arguments.get(verb) for verb in ("check_pid", "kill_pid") if verb in profile.parameters]
        if arguments.get("command") == "" and any(value is not None for value in others):
            del arguments["command"]  # 006.16
        admitted = validates(arguments, schemas[profile.name])
        request = bash_tool.parse_arguments(given, profile)
        reached.add((profile.name, admitted))
        if not admitted:
            assert request.report.error == "invalid_arguments"
            assert any('"%s"' % key in request.report.reason for key in (*profile.parameters, *arguments)), request
        elif refused_beyond_the_schema(arguments, profile):
            assert request.report.error == "invalid_arguments"
        else:
            assert isinstance(request, (bash_tool.Request, bash_tool.Inquiry)), (arguments, request)

    for row in PROFILES.values():  # chance alone may never draw one of them
        agree = example((row, {"command": ":"}))(example((row, {"command": 7}))(agree))
    agree()
    assert reached == {(name, admitted) for name in PROFILES for admitted in (True, False)}


@clause("006.9", saboteur=("find_fault", 'value <= schema["maximum"]', "value"))
def test_req_bash_006_9_schema_and_call_agree():
    agreement(fits)


TIMEOUTS = [None, None, 999, 1000, 1000.0, 1500, 120000, 120001, SLOW_MS, SLOW_MS + 1, -1, 1e300, "5000", True, 1000.5]


@clause("006.10", saboteur=("argument_schemas", '"minimum": 1000', '"minimum": 0'))
@given(
    *(any_of(*PROFILES.values()), st.none() | json_values()),
    st.none() | any_of(999, 1000, 1000.0, 1500, 120000, 120001, SLOW_MS, SLOW_MS + 1, -1, 1e300, "5000", True, 1e3),
    *(any_of(None, None, True, False, "true", 1), any_of(None, None, "slow", "background", "default"), st.booleans()),
)
@example(MODES, "x", 120, None, None, False)
@example(MODES, "x", 5, True, None, False)
@example(PROFILES["streams"], "x", None, True, None, False)
@example(MODES, "x", 2000, False, "slow", False)
@example(MODES, "x", 2000, True, "slow", False)
def test_req_bash_006_10_arguments_of_other_tools(row, description, timeout, background, mode, odd):
    arguments = {"description": description, "timeout": timeout, "run_in_background": background, "command": "ls"}
    arguments.update({"mode": mode} if row is MODES else {}, **({"workdir": "/"} if odd else {}))
    said = bash_tool.parse_arguments(arguments, row)
    timeout, background = (5000 if timeout == "5000" else timeout, True if background == "true" else background)
    least, most = (1, 86400000) if row is bash_tool.JOBS else (1000, SLOW_MS if row is MODES else 120000)
    whole = isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and float(timeout).is_integer()
    detached = background is True or row is MODES and mode == "background"
    counts = timeout is not None and not detached
    if odd:
        wrong = 'unknown key "workdir"'
    elif counts and not whole:
        wrong = '"timeout" must be an integer'
    elif counts and not least <= timeout <= most:
        wrong = '"timeout" must be from %d to %d milliseconds, got ' % (least, most)
    elif background not in (None, True, False) or type(background) is int:
        wrong = '"run_in_background" must be a boolean, got '
    elif background and row is not MODES:
        wrong = '"run_in_background" cannot be true here'
    elif background and mode is not None:
        wrong = 'give one of "mode" and "run_in_background"'
    else:
        meant = "background" if background else (mode if row is MODES else None) or "default"
        assert said == bash_tool.Request("ls", meant, timeout / 1000 if counts else None)
        return
    said = said.report
    assert said.error == "invalid_arguments" and said.reason.startswith("invalid arguments: " + wrong), said


@clause("006.11", saboteur=("define", '{**told, "parameters"', '{**told, "input_schema"'))
@pytest.mark.parametrize("name", PROFILES)
def test_req_bash_006_11_nested_for_chat(name):
    tool = BashTool("/", profile=name)
    plain = tool.definition()
    parameters = plain.pop("input_schema")
    assert tool.definition("openai-chat") == {"type": "function", "function": {**plain, "parameters": parameters}}
    shown = cli("--cwd", "/", "--profile", name, "--schema", "openai-chat").stdout
    assert json.loads(shown) == tool.definition("openai-chat")


@clause("006.12", saboteur=("define", 'if "mode" in properties else []', ""))
def test_req_bash_006_12_no_word_of_modes():
    row = tiny(default=0.3, grace=0.2, parameters={"command": MODES.parameters["command"]})
    with BashTool(profile=row, deny="no") as tool:
        for style in ("anthropic", "openai", "openai-chat", "mcp"):
            told = json.dumps(tool.definition(style))
            assert "mode" not in told.lower() and "Bash state changes" in told and "Keep commands concise" in told
        assert tool.run("echo on; sleep 9").text == "[command timed out after 0.3s]\non\n"
        for arguments in ({"command": "no"}, {"cmd": "ls"}, {"command": 5}, {"command": "exit 3"}):
            assert "mode" not in tool.call(arguments).text


@clause("006.13", saboteur=("interpret", 'value == ""', "False"))
@given(st.integers(-(10**16), 10**16), any_of("%d", "%016d", "%d ", "+%d", "%d.0", "%d\n", "0x%x", "%d\u0660"))
@example(4711, "%d")
@example(0, "%d")
@example(7, "%03d")
def test_req_bash_006_13_near_misses(number, form):
    def asked(row=MODES, **arguments):
        said = bash_tool.parse_arguments(arguments, row)
        return said if not isinstance(said, bash_tool.Outcome) else said.report.reason

    text, of_command = form % number, {"command": "7"}
    spells = text.lstrip("-").isascii() and re.fullmatch("-?[0-9]{1,15}", text) and not text.endswith("\n")
    for row, key in [(MODES, "timeout"), *((JOBS, key) for key in ("timeout", "check_pid", "kill_pid"))]:
        beside = of_command if key == "timeout" or spells and not number else {}
        wrong = 'invalid arguments: "%s" must be an integer, got string' % key
        assert asked(row, **{key: text}, **beside) == (asked(row, **{key: number}, **beside) if spells else wrong)
    for pid in (0, "0", "-0", 0.0, None):  # no process has this number
        assert asked(JOBS, check_pid=pid, kill_pid=pid, command="7") == asked(JOBS, **of_command)
    for word, meant in (("true", True), ("false", False), ("True", None), ("1", None), ("", None)):
        said = asked(run_in_background=word, mode="", **of_command)
        wrong = 'invalid arguments: "run_in_background" must be a boolean, got string'
        assert said == (wrong if meant is None else asked(run_in_background=meant, **of_command))
        wrong = 'invalid arguments: "restart" must be a boolean, got string'  # it would forget a state
        assert asked(bash_tool.carrying(MODES), restart=word) == wrong
    assert asked(mode="", **of_command) == bash_tool.Request("7", "default")  # a command is no number
    wrong = 'invalid arguments: "mode" must be one of "default", "slow", "background", got " "'
    assert asked(mode=" ", **of_command) == wrong
    assert asked(bash_tool.STREAMS, mode="", **of_command).startswith('invalid arguments: unknown key "mode"')


@clause("006.14", saboteur=("describe_tool", "<= {*modes}", "!= {None}"))
@given(st.sets(any_of("slow", "background", "night")), st.booleans())
@example({"slow", "background"}, True)
@example({"slow"}, False)
def test_req_bash_006_14_what_there_is(modes, hidden):
    shown = {key: value for key, value in MODES.parameters.items() if not (hidden and key == "mode")}
    limits = {mode: 60 for mode in ("default", "slow", "background", "night") if mode in {"default", *modes}}
    with BashTool("/", profile=dataclasses.replace(MODES, parameters=shown, timeouts_s=limits)) as tool:
        told = tool.definition()
        there = set() if hidden else modes
        for mode, words in (("slow", "builds, downloads"), ("background", "servers/demos")):
            assert (words in told["description"]) == ('mode="%s"' % mode in told["description"]) == (mode in there)
        assert "Keep commands concise" in told["description"]
        assert ("ackground" in json.dumps(told)) == ("background" in there)
        assert told["input_schema"]["properties"].get("mode", {}).get("enum") == (None if hidden else list(limits))
        said = bash_tool.parse_arguments({"command": "ls", "run_in_background": True}, tool.profile)
        if "background" in there:
            assert said == bash_tool.Request("ls", "background")
        else:
            said = said.report
            assert said.error == "invalid_arguments" and not (hidden and "mode" in said.reason)


def outcome_of(status, *streams, row=MODES, **fields):
    """How a command ended that has written this on its streams, as the answer is made of it."""
    head, tail, counts = bash_tool.size_buffers(row)
    raw = []
    for data in streams:
        buffer = bash_tool.OutputBuffer(head, tail, counts)
        buffer.add(data)
        raw.append(buffer.captured())
    return bash_tool.fit_streams(bash_tool.Outcome(bash_tool.Report(status, **fields), raw=raw), row)


@clause("006.15", saboteur=("unwrap", "return held", "return value"))
@given(st.dictionaries(st.text(max_size=5), json_values(), max_size=3), st.text(max_size=9))
@example({"command": "echo hi"}, "ls")
@example({}, '"5"')
@example({}, "[1]")
def test_req_bash_006_15_an_object_in_a_string(arguments, text):
    assume(not re.search("NaN|Infinity", json.dumps(arguments)))  # which is no JSON

    def asked(value):
        return bash_tool.parse_arguments(value, MODES)

    assert asked(json.dumps(json.dumps(arguments))) == asked(arguments) == asked(json.dumps(arguments))
    if not text.lstrip().startswith("{"):
        assert asked(json.dumps(text)).report.reason.endswith(
            "expected a JSON object such as {\"command\": \"ls\"}, got string"
        )
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    message["params"] = {"name": "bash", "arguments": json.dumps(arguments)}
    assert bash_tool.handle(message, {"name": "bash"}).arguments == arguments


@clause("006.16", saboteur=("parse_arguments", "chosen[1:] or chosen", "chosen"))
@given(st.integers(1, 2**31 - 1), st.booleans(), st.booleans())
@example(7, True, False)
def test_req_bash_006_16_an_empty_command_beside_another_verb(pid, kills, both):
    def asked(row=JOBS, **arguments):
        return bash_tool.parse_arguments(arguments, row)

    pids = {"check_pid": pid if both or not kills else 0, "kill_pid": pid if both or kills else 0}
    said = asked(command="", **pids)
    if both:
        assert said.report.reason.startswith("invalid arguments: exactly one of ")
    else:
        assert said == bash_tool.Inquiry(pid, kills)
    assert asked(command="") == asked(command="", check_pid=0) == bash_tool.Request("", "default")
    assert asked(command="ls", check_pid=pid).report.reason.startswith("invalid arguments: exactly one of ")
    row = bash_tool.carrying(MODES)
    assert asked(row, command="", restart=True) == bash_tool.Restart()
    assert asked(row, command="", restart=False) == bash_tool.Request("", "default")


# ---- 007 Errors ----------------------------------------------------------------------------------------------------
@clause("007.1", saboteur=("present", "(profile.nonzero_is_error and bool(report.exit_code))", "False"))
@given(st.integers(1, 255), st.booleans())
@draws(20)
def test_req_bash_007_1_states_the_code(code, prints):
    result = BashTool().run("%s(exit %d)" % ("echo x; " if prints else "", code))
    name = bash_tool.SIGNAL_NAMES.get(code - 128)
    line = result.text.split("\n")[0]
    assert (result.exit_code, result.is_error, result.status, result.signal) == (code, True, "exited", None)
    assert line.startswith("[command failed: exit code %d%s" % (code, " (%s)" % name if name else "]"))


@clause("007.2", saboteur=("read_returncode", "128 - returncode", "-1"))
@pytest.mark.parametrize(
    "name", ["HUP", "ILL", "ABRT", "FPE", "KILL", "SEGV", "PIPE", "ALRM", "TERM", "USR1", "STKFLT"]
)
def test_req_bash_007_2_names_the_signal(name):
    number = getattr(signal, "SIG" + name, 16)  # Python has STKFLT from 3.11 on
    with BashTool() as tool:
        own = tool.run("ulimit -c 0; kill -%s $$" % name)
        child = tool.run("ulimit -c 0; bash -c 'kill -%s $$' 2>/dev/null; exit $?" % name)
    for result, named in ((own, "SIG" + name), (child, None)):
        assert (result.exit_code, result.signal, result.is_error) == (128 + number, named, True)
        assert result.text.startswith("[command failed: exit code %d (SIG%s)" % (128 + number, name))


@clause("007.3", saboteur=("format_brackets", "+ text", '+ ("" if report.exit_code else text)'))
@few(st.text(st.characters(codec="ascii", categories=["L"]), max_size=20), st.integers(1, 125))
def test_req_bash_007_3_gives_the_output_too(text, code):
    with BashTool() as tool:
        shown = tool.run("echo '%s' >&2; exit %d" % (text, code)).text
        assert shown == "[command failed: exit code %d]\n%s\n" % (code, text)


@clause("007.4", saboteur=("find_program", 'raise SpawnError("shell_not_found", "', 'return name or ("'))
def test_req_bash_007_4_system_errors(tmp_path):
    (tmp_path / "plain").write_text("not a program")

    def fails(tool, error, words, command="echo hi"):
        result = tool.run(command)
        assert (result.error, result.status, result.exit_code, result.is_error) == (error, "failed", None, True)
        assert result.text.startswith("[system error: ") and words in result.text and "exit code" not in result.text

    cases = [
        (BashTool(shell="no-such-shell"), "shell_not_found", "no-such-shell was not found"),
        (BashTool(shell=str(tmp_path / "plain")), "shell_not_found", "was not found"),
        (BashTool(env={"X": "x" * 200000}), "spawn_failed", "environment is too large"),
    ]

    @few(known_commands(), st.text("abc-é", min_size=1, max_size=9), names, st.integers(131072, 2**20), st.booleans())
    def whatever_is_run(known, program, name, size, absolute):
        program = "no-%s" % program
        where = "/" + program if absolute else program
        fails(BashTool(shell=(where, "bash")), "shell_not_found", "%s was not found" % where, known.text)
        env = dict(os.environ, **{name: "x" * size})
        fails(BashTool(base_env=env), "spawn_failed", "environment is too large", known.text)
        closed = BashTool()
        closed.close()
        assert closed.run(known.text).error == "closed"

    whatever_is_run()
    no_leak(lambda: [fails(*case) for case in cases])


@clause(
    "007.5",
    (
        "Exchange._try_supervisors",
        "return failed(\n                        \"status_unknown\",",
        "return Outcome(Report(\"exited\", 0)) or (",
    ),
)
@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_req_bash_007_5_a_lost_status_is_unknown(profile):
    with BashTool(profile=PROFILES[profile]) as tool:
        for kill in ("kill -9 $PPID", "kill -9 $PPID; exit 0", lasting("kill -9 $PPID; sleep 600")):
            start = lasting("echo out; (setsid sleep 600 >/dev/null 2>&1 & echo $! > other); echo $$ > shell; ")
            result = tool.run(start + kill)
            assert (result.status, result.error, result.exit_code) == ("failed", "status_unknown", None), result
            assert result.is_error
            assert "the supervisor of the command was killed: how the command ended is unknown" in result.text
            assert eventually(lambda: not alive(number_in("shell")) and not alive(number_in("other")))
            os.unlink("shell")
        assert tool.run("echo fine").exit_code == 0


@clause("007.6", saboteur=("status_line", "report.exit_code == 137", "not report.exit_code"))
@fewest(
    st.lists(known_commands(codes=any_of(0, 1, 136, 137, 138, 143), signals=["KILL", "TERM"]), min_size=4),
    endless(WAYS_OF_TERM[3]),
)
@example([Known("kill -9 $$", code=137), Known("exit 137", code=137), Known("kill -TERM $$", code=143)], Known(NAP))
def test_req_bash_007_6_a_kill_that_is_not_ours(commands, deaf):
    hint = "; not sent by this tool; possibly out of memory]"
    with BashTool(profile=tiny(default=AMPLE_S)) as tool:
        assert hint not in tool.run(deaf.text, timeout_s=0.3).text
        for known in commands:
            text = tool.run(known.text).text
            assert text.startswith("[command failed: exit code 137 (SIGKILL)%s\n" % hint) == (known.code == 137)
            assert (hint in text) == (known.code == 137)


@clause("007.7", saboteur=("Command.describe", 'shell.why_unread() if status == "exited" else ""', '""'))
def test_req_bash_007_7_an_unread_command_is_not_a_result(tmp_path):
    refuses = tmp_path / "refuses"
    refuses.write_text("#!/bin/sh\necho 'sandbox: no namespace' >&2\nexit 0\n")
    refuses.chmod(0o755)
    for shell in ("true", "false", str(refuses), ("timeout", "-s", "KILL", "0.1", "sleep", "9")):
        result = BashTool(shell=shell).run("echo hi")
        assert (result.status, result.error, result.exit_code) == ("failed", "spawn_failed", None)
        assert result.text.startswith("[system error: the shell ")
    assert "sandbox: no namespace" in BashTool(shell=str(refuses)).run("x" * 300000).text
    assert BashTool(shell=("env", "-u", "X", "bash")).run("echo hi").text == "hi\n"
    startup = tmp_path / "rc ]"
    startup.write_text("echo why; exit 3")
    told = (
        '[system error: the shell bash ended (exit code 3) before it read the command; the file of BASH_ENV may have '
    )
    told += "ended it: %s]\nwhy\n" % bash_tool.quote(startup)
    assert BashTool(env={"BASH_ENV": str(startup)}).run("echo hi").text == told


# ---- 008 Text ------------------------------------------------------------------------------------------------------
@clause("008.1", saboteur=("_MOVES_NOTHING", "x1b\\x80-\\x9f\\n", "x80-\\x9f"))
@given(st.lists(any_of(*ESCAPE_SEQUENCES) | st.text(any_of(*"ab [];0m\n\té"), max_size=6), max_size=12))
@example(["\x1b]0;no end\n", "kept"])
@example(["\x1b]8;;http://x\x1b\\", "link", "\x1b]0;title\x07"])
def test_req_bash_008_1_no_escape_sequences(pieces):
    plain = "".join(piece for piece in pieces if piece not in ESCAPE_SEQUENCES)
    if not re.search("\x1b", plain):
        assert bash_tool.render("".join(pieces)) == plain
    assert not re.search("[\x1b\x80-\x9f]", bash_tool.render("".join(pieces)))
    assert bash_tool.render("\x1b]0;no end\nkept\x07") == "0;no end\nkept"


def unfolded(tokens):
    """The tokens of a line, or of the lines that take its place if it is overwritten (4.7)."""
    moves = [token["final"] or token["move"] for token in tokens]
    moves = [move for move in moves if move and (move in "\r\b" or move in "ABCDEFGJK")]
    if set(moves) != {"\r"} or len(moves) > 8:
        return [[(token["text"] or "", token["count"], token["final"] or token["move"]) for token in tokens]]
    texts = [""]
    for token in tokens:
        texts[-1] += token["text"] or ""
        texts += [""] * (token["move"] == "\r")
    texts, wide = [text for text in texts if text], dict(fenced("pattern"))["WIDE"].replace("\n", "")
    columns = [(len(re.sub(wide, "xx", text.rstrip())), len(re.sub(wide, "xx", text))) for text in texts]
    above = [text for text, (old, _), (_, new) in zip(texts, columns, columns[1:]) if old > new]
    return [[(text, "", "")] for text in above[-3:] + texts[-1:]] or [[]]


def terminal(text):
    """A slow terminal, one cell at a time, by the patterns of SPEC.md: the naive twin of the renderer."""
    pattern, drawn = dict(fenced("pattern"))["TOKEN"].replace("\n", ""), []
    *ended, last = text.replace("\0", "\ufffd").split("\n")
    for line in [*([*re.finditer(pattern, one)] for one in ended), [*re.finditer(pattern, last)]]:
        drawn.append([token for token in line if token["text"] or token["move"] or token["final"]])
    for line in drawn[:-1]:
        shows = [token for token in line if not token["final"] or token["final"] in "ABCDEFGJK"]
        if shows and shows[-1]["move"] == "\r":
            line.remove(shows[-1])
    lines, row = [[]], -1
    for line in (one for tokens in drawn for one in unfolded(tokens)):
        row, at = row + 1, 0
        if row == len(lines):
            lines.append([])
        cells = lines[row]
        for shown, count, move in line:
            count = int(count or 0)
            for character in shown:
                cells[at : at + 1] = [character]
                at += 1
            if move == "\r":
                at = 0
            elif move == "\b":
                at = max(0, at - 1)
            elif move == "K":
                cells[:] = cells[:at] if count == 0 else [] if count == 2 else cells
            elif move == "J" and count == 0:
                del cells[at:], lines[row + 1 :]
            elif move and move in "ABEF":
                row = max(0, row - max(count, 1)) if move in "AF" else min(len(lines) - 1, row + max(count, 1))
                cells, at = lines[row], 0 if move in "EF" else at
            elif move and move in "CDG":
                at = {"C": at + max(count, 1), "D": max(0, at - max(count, 1)), "G": max(count, 1) - 1}[move]
            at = min(at, len(cells))
    return "\n".join(map("".join, lines))


def drawn_on_a_screen(sequences, characters):
    texts = st.text(any_of(*characters), max_size=5)
    return st.lists(any_of(*sequences) | texts, max_size=20).map("".join)


OVERWRITES = "\r \x08 \r\n \x1b[K \x1b[0K \x1b[2K \x1b[1K \x1b[3G \x1b[2D \x1b[D \x1b[C \x1b[m".split(" ")


@clause("008.2", saboteur=("_without_remains", "if old.rstrip()[len(new) :]", "if old[len(new) :]"))
@given(drawn_on_a_screen(OVERWRITES + ESCAPE_SEQUENCES, "abc 好\t\n\x1b[]2;K"))
@example("Initial\r\r\r\rFinal")
@example("Line1\r\nLine2\rLine2Updated\nLine3\r\n")
@example("你好世界啊\r你好地球")
@example("abc\b\bxy")
@example("long frame\r\x1b[Kend")
@example("abcdef\r\x1b[2Cx\x1b[Cy\x1b[2Gz\x1b[9Cend")
@example("abcdef\x1b[4D\x1b[K\x1b[5Dx\x1b[2K\x1b[Gy")
@example("above\nabc\b\b\b\bx\x1b[9Dy\x1b[2Kz\rbelow\n\nend")
@example("abcdef\x1b[2Dx\x1b[0Dy\x1b[3Gz\x1b[0Gw\x1b[0Cv\x1b[2Cu\x1b[2D\x1b[1K")
@example("abcdef\x1b[3D\x1b[00Kx\x1b[C\n\x1b[Dy")
@example("abcd\x1b[٣Dx")
@example("overwritten\rup to here\nplain\nplain\n12\x1b[D3\x1b[C4")
@example("downloading\r           \rdone\nabcde\rabc  \rab\r\n")
@example("aaaaa\rbbbb\rccc\rdd\re\n" + "abc\r" * 8 + "d\n" + "abc\r" * 9 + "d\na\x1b[3mbc\x1b[m\rd")
def test_req_bash_008_2_overwritten_is_gone(text):
    assert bash_tool.render(text) == terminal(text)
    assert bash_tool.render("Initial text\rnext\r") == "Initial text\nnext" and bash_tool.render("a\r\nb") == "a\nb"
    for written in ("apples,33\rpears,5", "1:name,qty\ra,3\rb,5", "downloading\r完成       ", "完成\rabc", "abc\rde\r"):
        for end in ("", "\n", "\r\n"):  # no text that no program wrote
            assert set(bash_tool.render(written + end).split("\n")) <= {*written.split("\r"), ""}
    assert bash_tool.render("10%\r 50%\r100%") == "100%" and bash_tool.render("long\r\x1b[Ks") == "s"
    assert bash_tool.render(text.replace("\x1b[", "\x9b")) == terminal(text)


@clause("008.3", saboteur=("_SHOWS_NOTHING", "\\x01-\\x07", "\\x02-\\x07"))
@given(st.text(st.characters(max_codepoint=0x2FF), max_size=60))
@example("\0")
@example("a\0b\x01\x7f\x80\t")
def test_req_bash_008_3_no_control_characters(text):
    rendered = bash_tool.render(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", rendered)
    assert rendered.count("\n") == text.count("\n") or re.search(r"\r|(?:\x1b\[|\x9b)[0-?]*[ -/]*[ABEFJ]", text)
    if not re.search(r"[\x08\r\x1b\x90-\x9f]", text):
        assert rendered == re.sub(r"[\x01-\x08\x0b-\x1f\x7f-\x9f]", "", text).replace("\0", "\ufffd")


@clause("008.4", saboteur=("decode", '"utf-8", "replace"', '"latin-1"'))
def test_req_bash_008_4_invalid_bytes_and_nothing_else_are_replaced():
    pieces = b"a \n \xff \xc0 \xc3 \xa9 \xe2\x82 \xac \xf0\x9f \x98\x80 \xed\xa0\x80".split(b" ")

    @few(st.lists(any_of(*pieces), max_size=8), st.booleans())
    @example([b"a\xffb\xc0\n"], False)
    @example([b"\xf0", b"\x9f", b"\x98", b"\x80", b"\xc3", b"\xa9"], True)
    def in_a_command(pieces, pauses):
        writes = ["printf '%s'" % "".join("\\%03o" % byte for byte in piece) for piece in pieces]
        result = BashTool().run(("; sleep 0.02; " if pauses else "; ").join([":", *writes]))
        assert result.stdout == b"".join(pieces).decode("utf-8", "replace")

    in_a_command()
    text = "é€😀" * 30000
    Path("text").write_text(text, encoding="utf-8")
    result = BashTool().run("cat text")
    assert set(result.stdout) <= set(text + "\n[snip]")
    data, profile = text.encode(), dataclasses.replace(MODES, max_output_bytes=1000, snip_size=500)
    for head in range(1, 40):  # wherever the gap between what is kept begins and ends
        for tail in range(1, 9):
            fitted = bash_tool.keep_ends(bash_tool.Captured(data[:head], data[len(data) - tail :], len(data)), profile)
            first, last = fitted.text.split("\n\n[snip]\n\n")
            assert text.startswith(first) and text.endswith(last) and head - len(first.encode()) < 4
            assert tail - len(last.encode()) < 4


WORST = "x\r|\r|\b|\x1b|\x1b[|\x1b]|\x1b[1|\x9d|\x1bP|x\b|\x1b[2K|\x1b[Kx|\x1b[9999Gx|\x1b[9999Cx\r|\x1b]0;|\x90x"
WORST = WORST.split("|") + [
    *"\x1b[;|1\r\x1b[2Kx|x\x1b[D|\x1b[A|\n\x1b[A|x\n\x1b[2Ay|\n\n\x1b[A\x1b[J".split("|"),
    "x" * 500 + "\r",
    "x" * 9999 + "\n\x1b[A\x1b[A\x1b[B\x1b[B",
]


@clause("008.5", saboteur=("_draw", ".write(run)", ".write(run), list(line.getvalue())"))
def test_req_bash_008_5_linear_time():
    length = 40000 if THOROUGH or CHANGED else 2000
    for worst in WORST:
        small, large = (worst * (size // len(worst)) for size in (length, 8 * length))
        # For eight times the text; what is quadratic takes sixty-four times as long.
        most_s = 40 * min(busy(lambda: bash_tool.render(small)) for _ in range(3)) + 0.2
        for text in ("y" * length + small, large, "y" * length + large):
            assert any(busy(lambda: bash_tool.render(text)) < most_s for _ in range(3)), repr(worst)
    shapes = "a :// ://a: ://a:b/ https:// https://a1 eyJ eyJa. SG. sk- Password= Password=$ a:b@ xoxb- -D -D. "
    shapes += "-Dpassword -Dtoken=1 -Dtoken= _ ?token= &sig= 1 +1."
    for shape in ("-----BEGIN ", "Authorization: ", " ", *shapes.split()):
        many = shape * (5 * length // len(shape))
        for begin in ("", "://a:", "https://", "-D", "eyJ", "sk-"):
            assert busy(lambda: bash_tool.looks_secret("X", begin + many)) < 2, (begin, shape)
        assert busy(lambda: bash_tool.looks_secret("BUNDLE_" + many, "a:b")) < 2, shape


UPWARDS = ["\x1b[" + end for end in "A 2A B 9B E 2E F 3F J 0J 1J 2J H".split()] + ["\n", "\n", "\n\n"]


@clause("008.6", saboteur=("_draw", 'in "AF":', 'in "F":'))
@given(drawn_on_a_screen(UPWARDS + OVERWRITES, "ab 好\n"))
@example("one\ntwo\n\x1b[2A\x1b[Kone!\n\x1b[Ktwo!\n")
@example("one\ntwo\nthree\x1b[F\x1b[Jend")
@example("long line\nab\x1b[A-\x1b[B+\x1b[A\nplain\nplain\nplain")
@example("a\nb\nc\x1b[9Ax\ny\nz\nnew\n\x1b[1E.\x1b[2Fw")
def test_req_bash_008_6_lines_that_are_drawn_again(text):
    assert bash_tool.render(text) == terminal(text)
    assert bash_tool.render(text.replace("\x1b[", "\x9b")) == terminal(text)
    frames = "".join("\x1b[2A\x1b[2Kjob 1: %d%%\n\x1b[2Kjob 2: %d%%\n" % (n, n) for n in range(100))
    assert bash_tool.render("log\n\n\n" + frames + "end\n") == "log\njob 1: 99%\njob 2: 99%\nend\n"


@clause("008.7", saboteur=("_only_moves", "without_nul(text)", 'text.replace("\\0", "")'))
@few(st.lists(any_of("a", "b c", "é", "", "\n", "\r\n"), min_size=2, max_size=8))
@example(["one", "two", ""])
def test_req_bash_008_7_nul_is_shown(names):
    with BashTool() as tool:
        result = tool.run("printf '%s'" % "\\0".join(names).replace("\n", "\\n").replace("\r", "\\r"))
        assert result.stdout == "\ufffd".join(names).replace("\r", "")
        assert result.stdout_bytes == "\0".join(names).encode()
        many = tool.run("head -c 50000 /dev/zero")  # each takes three bytes as text
        assert many.truncated and os.path.getsize(many.output_file) == 50000


def busy(act):
    """The processor time that it takes, which others on the machine do not lengthen."""
    begun = time.thread_time()
    act()
    return time.thread_time() - begun


# ---- 009 The whole output ------------------------------------------------------------------------------------------
def path_in(text):
    last = text.rstrip("\n").split("\n")[-1]
    assert last.startswith("[full output: ") and last.endswith("]"), last
    return Path(last[len("[full output: ") : -1])


@clause("009.1", saboteur=("format_brackets", 'with_newline(text) + saved + "\\n"', "text"))
@few(st.integers(131072, 400000), any_of("", "\n"))
def test_req_bash_009_1_names_the_whole_output(size, end):
    with BashTool(state_dir=tempfile.mkdtemp()) as tool:
        result = tool.run("head -c %d /dev/zero | tr '\\0' 'x'; printf '%s'; printf y" % (size, "\\n" if end else ""))
    path = path_in(result.text)
    assert path.read_bytes() == b"x" * size + end.encode() + b"y" and result.output_file == str(path)


@clause("009.2", saboteur=("_create", "(fd, 0o600)", "(fd, 0o644)"))
@pytest.mark.parametrize("umask", [0, 0o077, *[0o777] * ROOT])  # an ordinary user could not use a folder made under it
def test_req_bash_009_2_is_private(umask):
    program = "import os, sys\nfrom bash_tool import BashTool\nos.umask(int(sys.argv[1]))\nprint(BashTool().run('seq 50000').output_file)"
    path = Path(in_host(program, umask).strip())
    assert path.stat().st_mode & 0o7777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0


@clause("009.3", saboteur=("Output.read", "_pending += chunk", '_pending += chunk.replace(b"\\r", b"")'))
@few(st.binary(min_size=1, max_size=2000))
def test_req_bash_009_3_holds_the_bytes_as_they_arrived(data):
    data += b"\r\x1b[31m\0\xff"
    folder = Path(tempfile.mkdtemp())
    (folder / "data").write_bytes(data)
    with BashTool(folder, profile=dataclasses.replace(MODES, max_output_bytes=2, snip_size=1)) as tool:
        result = tool.run("cat data; sleep 0.01; cat data")
        assert Path(result.output_file).read_bytes() == data + data


@clause("009.4", saboteur=("Output.save", "except OSError", "except KeyError"))
def test_req_bash_009_4_a_file_that_fails_changes_one_line(monkeypatch):
    @fewer(any_of("", "folder"), st.integers(7000, 90000), known_commands())
    def fails(below, lines, known):
        command = "seq %d\n%s" % (lines, known.text)
        good, bad = BashTool().run(command), nowhere_to_write(below=below).run(command)
        assert (bad.stdout, bad.exit_code, bad.is_error) == (good.stdout, known.code, good.is_error)
        pairs = [pair for pair in zip(good.text.split("\n"), bad.text.split("\n")) if pair[0] != pair[1]]
        ((saved, failed),) = pairs if good.output_file else [("[full output", "[full output was not saved: ")]
        assert saved.startswith("[full output") and failed.startswith("[full output was not saved: ")
        assert good.text.count("\n") == bad.text.count("\n")
        assert nowhere_to_write(below=below).run("echo hi").text == "hi\n"

    fails()
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    assert BashTool().run("seq 50000").output_file  # the next place is tried
    if os.getuid() == 0:
        with small_disk("small"):
            result = BashTool(state_dir="small").run("seq 100000; exit 3")
            assert result.exit_code == 3 and "[full output may be incomplete: " in result.text
            assert "No space left" in result.text
            assert result.stdout.endswith("\n100000\n")
            Path("small/fill").mkdir()
            subprocess.run("cat /dev/zero >small/fill/x 2>/dev/null; rm small/*.log", shell=True)
            Path("small/fill/y").write_bytes(b"")
            subprocess.run("cat /dev/zero >small/fill/y 2>/dev/null", shell=True)
            full = os.path.abspath("small") + ": No space left on device]"
            assert ("[full output was not saved: " + full) in BashTool(state_dir="small").run("seq 100000").text
            told = BashTool(state_dir="small").run("true", mode="background").text
            assert told == "[system error: no file for the job could be made: %s\n" % full


@clause("009.5", saboteur=("Output._write", "self.room < 0:", "False:"))
def test_req_bash_009_5_is_capped():
    assert bash_tool.FILE_CAP_BYTES == 64 * 1024 * 1024
    with variant_module(FILE_CAP_BYTES="200 * KIB").BashTool() as tool:
        for size, capped in ((200 * 1024 - 1, False), (200 * 1024, False), (200 * 1024 + 1, True), (900000, True)):
            result = tool.run("head -c %d /dev/zero | tr '\\0' x" % size)
            note = "[the file with the full output ends at 200KB: the rest was read but not saved]"
            end = b"\n[output file capped at 200KB: the rest was not saved]\n" * capped
            assert (note in result.text.split("\n")[:2]) is capped and result.total_bytes == size
            assert path_in(result.text).read_bytes() == b"x" * min(size, 200 * 1024) + end


@pytest.mark.parametrize("is_the_users", first_of([False, True], False))
@clause("009.6", saboteur=("_make_room", "_remove_finished(path)", "True"))
def test_req_bash_009_6_the_folder_is_capped(is_the_users):
    assert (bash_tool.FOLDER_CAP_BYTES, bash_tool.FOLDER_CAP_FILES) == (1024**3, 1000)
    folder = Path("bash-tool-of-%d" % os.getuid() if is_the_users else "s")
    folder.mkdir(0o700)
    with BashTool(state_dir=None if is_the_users else folder) as tool:
        ends = ("0" * 11 + "a", "0" * 11 + "b", "0" * 11 + "c", "mine")
        for n, name in enumerate("output-%s.log" % end for end in ends):
            (folder / name).touch()
            os.truncate(folder / name, 400 * 1024**2)  # sparse
            os.utime(folder / name, (n, n))
        with open(folder / "output-00000000000a.log") as live:
            fcntl.flock(live, fcntl.LOCK_EX)
            new = tool.run("seq 50000").output_file
        kept = ["output-00000000000a.log", "output-00000000000c.log", "output-mine.log", Path(new).name]
        assert sorted(path.name for path in folder.iterdir()) == sorted(kept)
        if is_the_users:
            return  # the number of files is counted as in any folder
        for n in range(1000, 2100):
            os.mknod(folder / ("output-%012x.log" % n))
            os.utime(folder / ("output-%012x.log" % n), (n, n))
        for n in range(1000, 1120):  # of those that are to go, and a few more
            os.mknod(folder / ("output-%012x.job" % n))
            os.utime(folder / ("output-%012x.job" % n), (n, n))
        tool.run("seq 50000")
        names = {path.name for path in folder.iterdir()}
        assert len([name for name in names if re.fullmatch("output-[0-9a-f]{12}.log", name)]) == 1000
        assert "output-mine.log" in names and "output-%012x.log" % 2099 in names
        assert not {"output-%012x.log" % 1000, "output-%012x.job" % 1000} & names


@clause("009.7", saboteur=("Exchange.abandon", "remove_files(self._path)", "pass"))
def test_req_bash_009_7_close_keeps_what_was_named():
    seen = []

    def broken(text):
        seen.append(text)
        if text.endswith("\ufffd") or sum(map(len, seen)) > 140000:
            assert len(list(Path("s").iterdir())) == 2  # the file has been made
            raise KeyError("watcher")

    with BashTool(state_dir="s") as tool:
        named = tool.run("seq 50000").output_file
        with pytest.raises(KeyError):
            tool.run(lasting("seq 60000; sleep 600"), on_output=broken)  # the command is ended
        assert eventually(lambda: len(list(Path("s").iterdir())) == 1)
        seen.clear()
        with pytest.raises(KeyError):
            tool.run("seq 25000; printf '\\303'", on_output=broken)  # at the last piece: it has ended
    assert [str(path) for path in Path("s").resolve().iterdir()] == [named]
    with BashTool() as tool:
        tool.run("echo hi")
    assert not list(Path(os.environ["TMPDIR"]).glob("bash-tool-*"))


@clause("009.8", saboteur=("Output.read", "buffer.total_bytes > self._plan.limit_bytes", "True"))
@fewest(
    st.lists(known_commands(), min_size=4, max_size=8), endless(), any_of(0, 131071, 131072) | st.integers(0, 131072)
)
def test_req_bash_009_8_no_file_without_need(tmp_path, commands, stopped, size):
    with (
        BashTool(profile=tiny(default=AMPLE_S, grace=0.2)) as tool,
        BashTool(tempfile.mkdtemp(), state_dir="s") as gone,
    ):
        os.rmdir(gone.cwd)
        runs = [lambda: tool.run(stopped.text, timeout_s=0.2), lambda: tool.run(filler(size))]
        runs += [lambda known=known: tool.run(known.text) for known in commands]
        at_once(lambda run: run(), [*runs, lambda: gone.run(commands[0].text)])
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@clause("009.9", saboteur=("_create", "with suppress(OSError):", "if True:"))
@pytest.mark.parametrize("number", first_of(LACKS, errno.ENOSYS))
def test_req_bash_009_9_without_modes_or_locks(number):
    program = """
        for umask in 0o022, 0o077:
            os.umask(umask)
            result = tool.run("seq 100000")
            assert not result.notes and result.output_file, result
            assert len(open(result.output_file).readlines()) == 100000
            assert os.stat(result.output_file).st_mode & 0o7777 == 0o600
        bash_tool.FOLDER_CAP_FILES = 1  # nothing is removed that may be written
        assert os.path.exists(tool.run("seq 100000").output_file) and len(os.listdir("s")) == 3
        print("done")
    """
    assert in_host(textwrap.dedent(WITHOUT_LOCKS) + textwrap.dedent(program), number) == "done\n"


# ---- 010 Bounds ----------------------------------------------------------------------------------------------------
FLOODS = [  # examples, not drawn: each takes seconds, and differs in how fast and how compressible it is
    "head -c %dM /dev/zero" % (1024 if THOROUGH else 200),
    "yes | head -c %dM" % (200 if THOROUGH else 60),
    "tr -dc 'a-z' </dev/urandom | head -c %dM" % (60 if THOROUGH else 12),
]


@clause("010.1", saboteur=("OutputBuffer.add", "self._surplus -= len(self._tail.popleft())", "break"))
@pytest.mark.parametrize("flood", first_of(FLOODS, *FLOODS[:2]))
def test_req_bash_010_1_a_flood_stays_small(flood):
    grown = in_host(
        """
        tool = BashTool()
        peak = "; sed -n 's/^VmHWM:[^0-9]*/ /p' /proc/$PPID/status 2>/dev/null"        # of the supervisor, in kB
        def peaks(result):
            assert result.truncated and result.exit_code == 0, result.text[:200]
            supervisor = result.stdout.split()[-2] if result.stdout.endswith(" kB\\n") else 0
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, int(supervisor)
        before = peaks(tool.run("seq 100000" + peak))
        after = peaks(tool.run(sys.argv[1] + peak, timeout_s=80))
        print(after[0] - before[0], after[1] - before[1])
    """,
        flood,
        started=True,
    )
    assert max(map(int, grown.split())) < 8 * 1024, grown  # in the host, and in the supervisor


@clause(
    "010.2",
    saboteur=(
        "OutputBuffer.add",
        "total_bytes += len(chunk)",
        "total_bytes = min(self.total_bytes + len(chunk), 131073)",
    ),
)
@few(st.lists(st.tuples(st.integers(0, 300000), any_of("1", "2")), max_size=4))
@example([(131073, "1"), (1, "2")])
def test_req_bash_010_2_the_size_is_true(writes):
    with BashTool() as tool:
        result = tool.run("\n".join("head -c %d /dev/zero >&%s" % write for write in writes))
    assert result.total_bytes == sum(size for size, _ in writes) and result.exit_code == 0


@clause("010.3", saboteur=("Exchange._move", "_pool.return_idle", 'sys.modules.setdefault("leaked", []).append'))
def test_req_bash_010_3_nothing_stays():
    tool = BashTool(profile=tiny(default=0.1, grace=0.1, drain_idle_s=0.05))

    def calls():
        cancel = Cancel()
        threading.Timer(0.05, cancel.cancel).start()
        tool.run(lasting("sleep 600"), timeout_s=60, cancel=cancel)
        for command in (":", "exit 3", "sleep 600", "seq 50000", "exec >&- 2>&-", "nosuchcommand", "kill -9 $$"):
            tool.run(lasting(command))
        tool.run("sleep 0.2 &"), tool.run(lasting("trap '' TERM; sleep 600"))
        tool.call({"nonsense": 1})

    no_leak(calls, rounds=3)


# ---- 011 A held pipe -----------------------------------------------------------------------------------------------
@clause("011.1", saboteur=("Life._drain", "min(quiet_at + plan.drain_idle_s, last_at)", "quiet_at + plan.drain_idle_s"))
@fewest(known_commands(), st.floats(0.5, 0.7), st.floats(0.0, 0.4))
@example(Known("echo hi", merged="hi\n"), 0.5, 1.5)
def test_req_bash_011_1_answers_in_bounded_time(known, idle, more):
    assert (MODES.drain_idle_s, MODES.drain_total_s) == (0.5, 2.0)
    tool = BashTool(profile=dataclasses.replace(MODES, drain_idle_s=idle, drain_total_s=idle + more))

    def run(case):
        holder, least = case
        begun = time.monotonic()
        result = tool.run("exec 3>&1; %s & %s" % (holder, known.text))
        took = time.monotonic() - begun
        assert idle <= took < least + 20 and result.exit_code == known.code
        return result.stdout, took

    writes = "(while :; do echo $EPOCHREALTIME; sleep 0.02; done)"
    (silent, _), (noisy, took) = at_once(run, [(NAP, idle), (writes, idle + more)])
    assert silent == known.merged
    times = list(map(float, re.findall(r"(\d{10}\.\d{6})\n", noisy)))
    pauses = [later - time for time, later in zip(times, times[1:])]
    assert took >= idle + more or max(pauses) > idle / 2  # on a busy machine the writer itself may have been silent


@clause("011.2", saboteur=("leftover_notes", "describe_processes(leftovers), stop", '"processes", stop'))
def test_req_bash_011_2_names_the_leftover():
    @few(st.integers(0, 3), st.integers(1, 3))
    def names_it(code, count):
        with BashTool(profile=tiny(default=AMPLE_S, drain_idle_s=0.05)) as tool:
            for quiet in ("", " >/dev/null 2>&1"):
                start = lasting("for i in $(seq %d); do sleep 60%d%s & echo $!; done; ") % (count, count, quiet)
                result = tool.run(start + until_lasting(count, count) + "exit %d" % code)
                assert result.exit_code == code and result.is_error == (code != 0)
                pids = list(map(int, result.stdout.split()))
                (note,) = result.notes
                assert "[%s]\n" % note in result.text and len(pids) == count
                named = ", ".join(lasting("pid %d \"sleep 60%d\"") % (pid, count) for pid in sorted(pids))
                assert note.startswith("still running: %s; to stop: " % named)
                assert (result.output_file is None) == bool(quiet)
                assert note.endswith("; output goes on to %s" % result.output_file) == (not quiet)
                stop = re.search(r"to stop: (kill -TERM [-0-9 ]+)(;|$)", note).group(1)
                subprocess.run(["bash", "-c", stop], check=True)
                assert eventually(lambda: not any(map(alive, pids)))

    names_it()
    module = variant_module(EXITING_S="20.0")  # 0.1 s are too short for what ends on a busy machine
    with module.BashTool(profile=tiny(AMPLE_S, module=module, drain_idle_s=20, drain_total_s=20)) as tool:
        for code in range(2):
            for passing in ("true & ", "(sleep 0.02) >/dev/null 2>&1 & ", "sleep 0.02 & "):  # what is just ending
                assert tool.run(passing + "exit %d" % code).notes == ()


@clause("011.3", ("Command.report", "clear_scratch()", "clear_scratch()\nself.output._write = lambda chunk: None"))
def test_req_bash_011_3_goes_on_reading():
    BashTool().run(":")
    assert eventually(lambda: tasks() == OWN_THREADS)
    before = descriptors(), tasks()
    with BashTool(profile=tiny(default=AMPLE_S, drain_idle_s=0.05)) as tool:
        writes = "for i in 1 2 3 4 5; do head -c 70000 /dev/zero | tr '\\0' x; done; echo; echo end; exec >&- 2>&-; "
        goes_on = "echo $BASHPID > after; exec sleep 600) & echo $! > writer; echo now"
        result = tool.run("(sleep 0.3; " + writes + lasting(goes_on))
        assert result.stdout == "now\n"
        assert eventually(lambda: Path("after").exists()) and alive(number_in("writer"))
        wanted = b"now\n" + b"x" * 350000 + b"\nend\n"
        assert eventually(lambda: Path(result.output_file).read_bytes() == wanted)
    assert eventually(lambda: (len(descriptors()), tasks()) <= (len(before[0]), before[1]))


@clause("011.4", saboteur=("Life._drain", "now >= self.due_at", "True"))
def test_req_bash_011_4_nothing_written_before_the_end_is_lost():
    hasty = tiny(default=AMPLE_S, drain_idle_s=0.0, drain_total_s=0.0)

    @few(known_commands(), st.integers(1, 65536))
    @example(Known(":"), 1)
    @example(Known(":"), 4096)
    @example(Known(":"), 65536)
    def whatever_holds_the_output(known, size):
        held = BashTool(profile=hasty).run("exec 3>&1; %s & %s\n%s" % (NAP, filler(size), known.text))
        assert (held.stdout, held.exit_code) == ("x" * size + known.merged, known.code)

    whatever_holds_the_output()
    with BashTool(profile=tiny(default=AMPLE_S, drain_idle_s=20.0, drain_total_s=20.0)) as tool:
        numbers = "".join("%d\n" % n for n in range(1, 201))
        assert tool.run("exec > >(sleep 0.1; sort -n); seq 200 -1 1").stdout == numbers
        assert tool.run("exec > >(tee log) 2>&1; echo one; echo two >&2").stdout == "one\ntwo\n"
        assert all(tool.run("echo %d" % n).stdout == "%d\n" % n for n in range(30))


@clause("011.5", saboteur=("Shell.can_kill", "map(has_inner_number, descendants())", "()"))
@fewer(st.integers(0, 3), any_of("default", "background"))
def test_req_bash_011_5_no_kill_in_another_namespace(count, mode):
    own = [*unshared("--pid")[:1], "--pid", "sh", "-c", lasting("sleep 601 >/dev/null 2>&1 & ") + '"$@"; exit $?', "sh"]
    starts = lasting("sleep 600 >/dev/null 2>&1 & ") * count
    with BashTool(shell=[*own, "bash"], ephemeral=True) as tool:
        with long_look():
            result = tool.run(starts + until_lasting(0, count) + "echo up", mode=mode)
        assert "to stop" not in result.text and "up\n" in result.text and result.ok
        assert len(result.leftovers) == count + 1 and result.text.count(lasting(' "sleep 600"')) == count
        for look_s in (0.3, 3, 20):  # by the last one a busy machine has begun the namespace
            with long_look(look_s):
                running = tool.run(starts + lasting("sleep 602"), mode="background")
            if "kill -9" not in running.text:
                break
        assert running.status == "running" and "kill -9" not in running.text
    with BashTool(shell=["env", "bash"], ephemeral=True) as tool:  # a prefix that stays here
        assert "; to stop: kill -TERM -" in tool.run(lasting("sleep 600 >/dev/null &")).text
        assert "kill -9 -" in tool.run(lasting("sleep 600"), mode="background").text


@clause("011.6", saboteur=("Command.describe", "in self.leftovers]", "in self.leftovers][:LEFTOVERS_NAMED]"))
@fewer(st.integers(0, 8), any_of("default", "background"))
@example(8, "default")
@example(8, "background")
def test_req_bash_011_6_the_numbers_of_what_runs(count, mode):
    command = lasting("sleep 600 >/dev/null & echo $!; ") * count + "exit 3"
    with long_look(), BashTool(ephemeral=True) as tool, Client("--ephemeral", structured=True) as client:
        result = tool.run(command, mode=mode)
        pids = tuple(int(line) for line in result.stdout.split("\n") if line.isdigit())
        assert result.leftovers == tuple(sorted(pids)) and len(pids) == count
        assert json.loads(json.dumps(result.to_dict()))["leftovers"] == sorted(pids)
        answer = client.call(command, mode=mode)
        numbers = [int(line) for line in answer["content"][0]["text"].split("\n") if line.isdigit()]
        assert answer["structuredContent"]["leftovers"] == sorted(numbers) and len(numbers) == count


@clause("011.7", saboteur=("list_descendants", "if arguments and", "if"))
def test_req_bash_011_7_what_is_ending_is_not_named():
    tool = BashTool(profile=tiny(default=AMPLE_S, drain_idle_s=0.1))

    def run(n):
        word = "0.%03d" % (100 + n % 40 - 10)
        result = tool.run("sleep %s & echo x" % word)
        # On a busy machine the process that is forked for `sleep` has not become it.
        names = '(?:"sleep %s"|"a subshell of the command")' % word
        named = r'still running: pid (\d+) %s; to stop: kill -TERM -\d+; output goes on to /.*' % names
        found = [re.fullmatch(named, note) for note in result.notes]
        assert all(found) and result.stdout == "x\n", result
        assert [int(each[1]) for each in found] == list(result.leftovers), result
        quiet = tool.run("sleep %s >/dev/null & echo x" % word).notes
        assert all(re.search(names, note) for note in quiet), quiet

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(160 if THOROUGH else 40)))
    call = 60 if os.uname().machine == "x86_64" else 93
    ends = "threading.Thread(target=time.sleep, args=(600,)).start(); ctypes.CDLL(None).syscall(%d, 0)" % call
    start = "python3 -c 'import ctypes, threading, time; %s' >/dev/null 2>&1 & echo $!\n" % ends
    with BashTool(ephemeral=True) as tool:  # as a process that is just ending, for as long as one likes
        result = tool.run(start + "until grep -q '^State:.Z' /proc/$!/status; do sleep 0.02; done")
        assert len(os.listdir("/proc/%d/task" % int(result.stdout))) == 2
        assert (result.notes, result.leftovers) == ((), ())
    alone = "setsid bash -c 'exec -a \"%s\" sleep 7' & f=/proc/$!/cmdline; "
    alone += "until grep -q 7 $f && ! grep -q bash $f; do sleep 0.02; done; "
    for names, is_left in (("timeout", False), ("/bin/timeout", False), ("busybox timeout", False), ("xtimeout", True)):
        with BashTool(profile=tiny(default=AMPLE_S, drain_idle_s=0.1), ephemeral=True) as tool:
            result = tool.run("(%s) >/dev/null 2>&1" % (alone % names))
            assert bool(result.leftovers) == is_left, (names, result)
            job = tool.job(tool.run("(%s) >/dev/null 2>&1" % (alone % names), mode="background").pid)
            assert job.wait(PATIENCE_S) and ("still running" in Path(job.output_file).read_text()) == is_left, names
        with BashTool(ephemeral=True) as tool:  # the group is that of the shell
            assert tool.run("bash -c 'exec -a timeout sleep 7' >/dev/null &").leftovers


# ---- 012 The command's text ----------------------------------------------------------------------------------------
@clause("012.1", saboteur=("Shell._spawn", ".encode()", ".encode(), plan.text[:99]"))
@few(
    any_of(*PROFILES),
    st.integers(0, 100_000),
    any_of(("bash",), ("env", "bash")),
    any_of(*([None] if WITHOUT == "files" else [None, "data"])),
)
def test_req_bash_012_1_in_no_argv(profile, size, shell, stdin):
    word = "sought" + os.urandom(4).hex()
    sought = word[:-1] + "[" + word[-1] + "]"
    command = "grep -l '%s' /proc/[0-9]*/cmdline 2>/dev/null; echo none else; : '%s'" % (sought, word)
    command += "\n: '%s'" % (size * "x")
    assert BashTool(profile=profile, shell=shell).run(command, stdin=stdin).stdout.rstrip("\n") == "none else"


@clause("012.2", saboteur=("Shell._make_text", "._plan.text", "._plan.text[:131071]"))
@few(any_of(0, 1, 131070, 131071, 131072, 131073, 200000, 1000000), any_of(*"x€"))
def test_req_bash_012_2_any_length(size, filler):
    with BashTool() as tool:
        result = tool.run("x=%s\nLC_ALL=C\necho ${#x} $#\n#%s" % (filler * size, filler))
        assert result.text == "%d 0\n" % (size * len(filler.encode()))
        Path("rc").write_text("wc -c; read -r line && echo $line\n")
        result = tool.run("x=%s\necho ${#x}" % (filler * size), env={"BASH_ENV": os.path.abspath("rc"), "LC_ALL": "C"})
        assert result.text == "0\n%d\n" % (size * len(filler.encode()))


@clause("012.3", saboteur=("parse_command", '"\\0" in command', "False"))
@given(st.text(max_size=20), any_of("\0", "\ud800", "\udfff"), st.text(max_size=20))
def test_req_bash_012_3_rejects_what_no_shell_can_take(before, bad, after):
    result = BashTool().call({"command": "touch made; " + before + bad + after})
    assert (result.status, result.error) == ("rejected", "invalid_arguments") and '"command"' in result.text
    assert ("NUL character" in result.text) or ("lone surrogate (U+" in result.text)
    assert not Path("made").exists()
    result.text.encode("utf-8")


@pytest.mark.parametrize("face", ["server", "command line", "library"])
@clause("012.4", saboteur=("_perform", "take_own_name()", "pass"))
def test_req_bash_012_4_names_of_its_own(face):
    folder = Path(tempfile.mkdtemp()) / "python-server"
    folder.mkdir()
    command = lasting("echo $$ > %s/shell; sleep 600" % folder)
    words = [sys.executable, compiled_script(), "--cwd", str(folder)]
    with contextlib.ExitStack() as stack:
        own = []
        if face == "server":
            client = stack.enter_context(Client(command=[*words, "--mcp"], timeouts={"grace_s": 0.5}))
            client.begin(command)
            own.append(client.process.pid)
        elif face == "command line":
            program = stack.enter_context(subprocess.Popen([*words, command], stdout=subprocess.DEVNULL))
            stack.callback(program.terminate)
            own.append(program.pid)
        else:
            tool = stack.enter_context(BashTool(folder))
            threading.Thread(target=tool.run, args=(command,), daemon=True).start()
        supervisor = parent_of(number_in(folder / "shell"))
        own += [supervisor, parent_of(supervisor)]
        assert all(os.getpgid(pid) != os.getpgid(0) or pid == own[0] for pid in own)
        for pid in own:
            shown = Path("/proc/%d/comm" % pid).read_bytes(), of_proc(pid, "cmdline").rstrip(b"\0")
            assert shown == (b"btool\n", b"btool"), (pid, shown)


# ---- 013 The working directory is gone -----------------------------------------------------------------------------
@clause("013.1", saboteur=("Shell.start", 'self.scratch + b"/scratch",', 'b"/",'))
@few(known_commands(), folders, any_of(None, "s"), st.booleans())
@example(Known("cd / && echo moved", merged="moved\n"), "gone", "s", False)
@example(Known("cd / && echo moved", merged="moved\n"), "gone", "s", True)
def test_req_bash_013_1_runs_in_an_empty_folder(known, name, state_dir, replaced):
    folder = Path(tempfile.mkdtemp())
    (folder / name).mkdir()
    tool = BashTool(folder / name, state_dir=state_dir and str(folder / (name[:9] + state_dir)))
    assert tool.run("echo hi").text == "hi\n"
    os.rmdir(folder / name)
    if replaced:
        (folder / name).write_text("")
    result = tool.run("pwd; ls -A; stat -c %%a .; %s" % known.text)
    shown, why = (
        bash_tool.make_printable(str(folder / name)).replace("]", "\\u005d"),
        ("No such file or directory", "Not a directory")[replaced],
    )
    note = "the working directory %s is gone (%s); the command ran in an empty scratch folder" % (shown, why)
    assert result.notes == (note,) and (result.error, result.status) == ("cwd_missing", "exited")
    assert (result.exit_code, result.signal, result.is_error) == (known.code, known.signal, known.code != 0)
    pwd, _, rest = result.stdout.rpartition("\n700\n")  # a directory may have a newline in its name
    assert rest == known.merged and pwd != str(folder / name) and "scratch-" in pwd
    if replaced:
        os.unlink(folder / name)
    os.mkdir(folder / name)
    assert tool.run(": > here").error is None and os.listdir(folder / name) == ["here"]
    deep = BashTool(folder, carry=True)  # below it is longer than a path may be
    count = 5 if replaced else 22
    deep.run("d=%s; for i in {1..%d}; do mkdir $d && cd $d; done" % ("]" + "d" * 239, count))
    if replaced:
        subprocess.run(["rm", "-r", str(folder / ("]" + "d" * 239))], check=True)
    path = "%s%s" % (folder, count * ("/]" + "d" * 239))
    shown = (path[:100] + "…" + path[-99:]).replace("]", "\\u005d")
    why = "is gone (No such file or directory)" if replaced else "cannot be entered (File name too long)"
    assert deep.run("true").notes == (
        "the working directory %s %s; the command ran in an empty scratch folder" % (shown, why),
    )


WAYS_OF_MAKING = ["> a", "mkdir b", "ln -s no c", "mkfifo d", "> .e", "> f; rm f", "mkdir g; rmdir g"]


@clause(
    "013.2", saboteur=("Shell.clear_scratch", 'self.notes.append("files that the command left are in " + path)', "pass")
)
@few(st.lists(any_of(*WAYS_OF_MAKING), max_size=3), known_commands(), st.booleans())
@example(["> made"], Known(":"), False)
@example([], Known(":"), False)
@example(["> made"], Known(":"), True)
def test_req_bash_013_2_keeps_what_was_left_there(tmp_path, makes, known, busy):
    lines = ["pwd", *sorted(set(makes)), NAP + " >/dev/null & echo $!" if busy else "", known.text]
    Path("gone").mkdir()
    with BashTool("gone", state_dir="s") as tool:
        os.rmdir("gone")
        result = tool.run("\n".join(lines))
        folder, *numbers = result.stdout.splitlines()[: 2 if busy else 1]
        for number in numbers:
            os.kill(int(number), signal.SIGKILL)
    made = {make.split()[-1] for make in makes if ";" not in make}
    assert ("files that the command left are in " + folder in result.notes) == bool(made)
    if made:
        assert set(os.listdir(folder)) == made
    else:
        assert busy or not os.path.exists(folder)


@clause("013.3", saboteur=("check_directory", '(path + "/")', '("/")'))
@few(folders, any_of("missing", "file", "below a file", "shut off", "~"), st.booleans())
def test_req_bash_013_3_a_missing_directory_is_no_tool(name, kind, absolute):
    name = "~" + name if kind == "~" else "x" + name
    folder = Path(tempfile.mkdtemp())
    if "file" in kind:
        (folder / name).write_text("")
    cwd = name + "/below" * (kind == "below a file")
    errors = NotADirectoryError if "file" in kind else FileNotFoundError
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        if kind == "shut off":
            errors = PermissionError
            patch.setattr(os, "stat", lambda path: (_ for _ in ()).throw(errors(13, "Permission denied", path)))
        path = os.path.join(folder, cwd)
        with pytest.raises(errors) as raised:
            BashTool(path if absolute else cwd)
    assert raised.value.filename == path and repr(path) in str(raised.value)
    assert "cwd takes an existing directory" in str(raised.value)
    assert not list(folder.glob("*/*"))
    shown = " ".join(str(raised.value).split())
    if not absolute and kind != "shut off":
        for words in (["--mcp"], ["touch ran"], ["--schema"], ["--jobs"]):
            done = cli("--cwd", path, *words, cwd=folder)
            assert (done.returncode, done.stdout) == (125, b"") and done.stderr.count(b"\n") == 1, shown
            assert b"cwd takes an existing directory" in done.stderr and not (folder / "ran").exists()


@clause("013.4", saboteur=("make_scratch", 'b"/scratch"', 'b"-scratch"'))
@few(any_of("", "touch made", "rmdir scratch", "rmdir scratch; touch made"), st.booleans())
def test_req_bash_013_4_has_a_parent_of_its_own(then, carries):
    folder = Path(tempfile.mkdtemp())
    (folder / "gone").mkdir()
    with BashTool(folder / "gone", state_dir=folder / "s", carry=carries) as tool:
        tool.run("seq 100000")
        os.rmdir(folder / "gone")
        result = tool.run("cd ..; pwd; ls -A; stat -c %%a .; %s" % then)
        parent, *rest = result.stdout.splitlines()
        assert rest == ["scratch", "700"] and os.path.dirname(parent) == os.path.realpath(folder / "s")
        left = "touch" in then
        assert os.path.exists(parent) == left
        assert ("files that the command left are in " + parent in result.notes) == left, result


# ---- 014 The environment -------------------------------------------------------------------------------------------
@clause("014.1", saboteur=("scrub_env", "not in DROPPED_NAMES | withheld", "not in withheld"))
def test_req_bash_014_1_nothing_bends_the_shell(monkeypatch, tmp_path):
    (tmp_path / "rc").write_text("echo noise; alias ls=false\n")
    (tmp_path / "usr").mkdir()
    plain = BashTool().run("echo $-; ls -d usr; cd usr; pwd; echo u*").text
    bending = {"ENV": "rc", "SHELLOPTS": "errexit:xtrace:noglob", "BASHOPTS": "nullglob", "CDPATH": "/"}
    bending.update({"GLOBIGNORE": "u*", "BASH_XTRACEFD": "1"}, **functions_of_a_host("builtin", "command", "unset"))
    for name, value in bending.items():
        monkeypatch.setenv(name, value)
        assert BashTool().run("echo $-; ls -d usr; cd usr; pwd; echo u*").text == plain, name
        assert BashTool().run("type -t builtin command unset").text == "builtin\nbuiltin\nbuiltin\n"


@clause("014.2", saboteur=("scrub_env", "dict(NON_INTERACTIVE)", "{}"))
def test_req_bash_014_2_nothing_asks_pages_or_paints(monkeypatch):
    editors = ["EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR"]
    for name in [*editors, "PAGER", "GIT_PAGER", "TERM", "GIT_TERMINAL_PROMPT"]:
        monkeypatch.setenv(name, "less")
    for name, value in SHOWN_ANYWAY.items():
        monkeypatch.setenv(name, value)
    with BashTool(profile=tiny(default=AMPLE_S)) as tool:
        shown = dict(line.split("=", 1) for line in tool.run("env").text.splitlines() if "=" in line)
        wanted = {"PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0", **SHOWN_ANYWAY}
        assert shown.items() >= {**wanted, "DEBIAN_FRONTEND": "noninteractive"}.items()
        git = "git -c user.name=a -c user.email=b"
        tool.run("git init -q r && cd r && git config core.pager 'less -+F'")
        refused = tool.run("cd r && %s commit --allow-empty" % git)
        assert refused.exit_code != 0 and "or-set-GIT_EDITOR=true" in refused.text
        commit = "cd r && %s commit -q --allow-empty -m hello" % git
        log = tool.run(commit + " && git log -p && git -c color.ui=auto diff")
        assert "hello" in log.text and log.exit_code == 0
        refused = tool.run("cd r && %s rebase -i --root" % git)
        assert refused.exit_code != 0 and "GIT_SEQUENCE_EDITOR=true" in refused.text, refused
        advised = tool.run("cd r && GIT_SEQUENCE_EDITOR=true %s rebase -i --root" % git)
        assert advised.exit_code == 0, advised
        for words in ("$%s f", "${%s} f", '"$%s" f', 'eval "$%s" f', "sh -c '$%s f'", "eval '\"$%s\" f'"):
            for name in editors:
                refused = tool.run(words % name)
                assert (refused.exit_code, refused.duration_s < 3 + slack_s()) == (127, True), refused
                assert bash_tool.NON_INTERACTIVE[name] in refused.text and "EDITOR=true" in refused.text, refused
        assert tool.run("$SUDO_EDITOR f").exit_code == 1


@clause("014.13", saboteur=("make_plan", " if background else {}", ""))
@pytest.mark.parametrize("own", [None, "", "0"])
def test_req_bash_014_13_background_output_comes_at_once(monkeypatch, own):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    if own is not None:
        monkeypatch.setenv("PYTHONUNBUFFERED", own)
    shows, host = "echo .${PYTHONUNBUFFERED-none}", "." + ("none" if own is None else own) + "\n"
    background_s = host if own is not None else ".1\n"
    with BashTool() as tool, BashTool(base_env={"PATH": os.environ["PATH"]}) as given_one, long_look():
        for _ in range(2):
            assert tool.run(shows, mode="background").stdout == background_s
            assert tool.run(shows).stdout == host
            assert tool.run(shows, mode="background", env={"PYTHONUNBUFFERED": "x"}).stdout == ".x\n"
            assert given_one.run(shows, mode="background").stdout == ".1\n" and given_one.run(shows).stdout == ".none\n"
    if own is None:
        with BashTool() as tool:
            job = background(tool, lasting("python3 -c 'import time; print(\"up\"); time.sleep(600)'"))
            assert eventually(lambda: job.read()[0] == "up\n") and job.kill()


@clause("014.3", saboteur=("scrub_env", 'env["LANG"] = "C.UTF-8"', "pass"))
@given(st.dictionaries(any_of(*"LANG LC_ALL LC_CTYPE LC_TIME".split()), any_of("", "C", "de.UTF-8")))
def test_req_bash_014_3_the_locale(locale):
    env, _ = bash_tool.scrub_env(locale)
    decides = any(locale.get(name) for name in ("LANG", "LC_ALL", "LC_CTYPE"))
    assert all(env.get(name) == value for name, value in locale.items() if name != "LANG" or decides)
    assert decides or env["LANG"] == "C.UTF-8"


HARMLESS = """PATH HOME GIT_AUTHOR_NAME GIT_CONFIG_GLOBAL GIT_CONFIG_VALUE_0 SSH_AUTH_SOCK X lower NETRC_FILE
GOOGLE_APPLICATION_CREDENTIALS XAUTHORITY TOKENIZERS_PARALLELISM CI""".split()


@clause("014.4", saboteur=("scrub_env", "env[name] = value", "env[name] = value.strip()"))
@given(
    st.dictionaries(any_of(*HARMLESS), st.text(st.characters(exclude_characters="\0"), max_size=12)),
    st.dictionaries(any_of(*SECRET_NAMES), any_of(*SETTINGS)),
    st.sets(any_of(*bash_tool.DROPPED_NAMES, *FORCED_COLOURS, *bash_tool.NON_INTERACTIVE, "MY_TOKEN")),
)
def test_req_bash_014_4_all_else_passes(environ, set_to, taken):
    set_to = {name: value for name, value in set_to.items() if is_setting(name, value)}
    passed = {**GIT_PAIRS, **SHOWN_ANYWAY, **environ, **set_to}
    passed = {name: value for name, value in passed.items() if name not in taken}
    env, withheld = bash_tool.scrub_env({**passed, **{name: FORCED_COLOURS.get(name, "ssh-askpass") for name in taken}})
    assert set(withheld) == taken & {"MY_TOKEN"}  # what is taken out or set is this, and nothing else
    assert env == {"LANG": "C.UTF-8", **passed, **bash_tool.NON_INTERACTIVE}


@clause("014.5", saboteur=("tool_env", "{**NON_INTERACTIVE, **base}", "{**base, **NON_INTERACTIVE}"))
def test_req_bash_014_5_a_given_environment_is_passed():
    some_names = names | any_of("PAGER", "GIT_PAGER", "EDITOR", "TERM", "MY_TOKEN", "A_PASSWORD", "a-b", "é")
    texts = st.text(any_of(*"ab =:/$'\"\\\n\té€😀"), max_size=20) | st.just("hunter2")

    @few(st.dictionaries(some_names, texts, max_size=8))
    @example({"MY_TOKEN": "x", "PAGER": "more", "BASH_ENV": "/dev/null"})
    def is_passed(chosen):
        given_env = {"PATH": os.environ["PATH"], **chosen}
        shown = Path(tempfile.mkdtemp(), "shown")
        with BashTool(base_env=given_env) as tool:
            tool.run("env -0 > %s" % shown)
            assert tool.withheld == ()
        env = dict(line.split(b"=", 1) for line in shown.read_bytes().split(b"\0") if line)
        expected = {**bash_tool.NON_INTERACTIVE, **given_env}
        for added in (b"_", b"PWD", b"OLDPWD", b"SHLVL"):  # by bash
            env.pop(added, None)
        assert env == {os.fsencode(name): os.fsencode(value) for name, value in expected.items()}

    is_passed()
    given_env = {"PATH": os.environ["PATH"]}
    functions = {"BASH_FUNC_%s%%%%" % name: "() { echo wrong; builtin %s \"$@\"; }" % name for name in ("cd", "read")}
    with BashTool(base_env={**given_env, **functions}) as tool:  # functions that a host exports are for the command
        assert tool.run("echo hi; cd /").text == "hi\nwrong\n"


@clause("014.6", saboteur=("withheld_notes", " or re.search(_REMOTE_NAME, name)", ""))
@few(
    st.sets(st.tuples(names, any_of(*"PROXY proxy Index INDEX_URL index_url REGISTRY".split())), max_size=6),
    st.sets(names.map(lambda name: name + "URL"), max_size=2),
    known_commands(),
)
@example({("https_", "proxy"), ("PIP_", "INDEX_URL")}, {"DATABASE_URL"}, Known("echo hi", merged="hi\n"))
def test_req_bash_014_6_a_withheld_index_is_told(told, others, known):
    told = sorted("".join(parts) for parts in told)
    note = "not passed to commands, because it looks secret: " + ", ".join(told)
    with pytest.MonkeyPatch.context() as patch:
        for name in [*told, *others]:
            patch.setenv(name, "https://me:pw@proxy.example:3128/simple")
        with BashTool() as tool:
            first, second = tool.run(known.text), tool.run(known.text)
            assert set(tool.withheld) >= {*told, *others}
    assert first.notes == ((note,) if told else ()) and second.notes == ()
    assert known.code or not told or first.text == "[%s]\n" % note + known.merged
    assert first.stdout == second.stdout == known.merged


@clause("014.7", saboteur=("Shell._spawn", 'b"--norc", b"-c"', 'b"-c"'))
def test_req_bash_014_7_no_startup_files(monkeypatch, tmp_path):
    for name in (".bashrc", ".bash_profile", ".profile", ".bash_login"):
        (tmp_path / name).write_text("echo noise\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSH_CLIENT", "1 2 3")
    monkeypatch.setenv("SHLVL", "0")
    assert BashTool().run("echo quiet").text == "quiet\n"
    (tmp_path / "mine").write_text("echo mine\n")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "mine"))
    assert BashTool().run("echo quiet").text == "mine\nquiet\n"


@clause("014.8", saboteur=("withheld_notes", "if code else", "if not code else"))
def test_req_bash_014_8_a_withheld_name_is_told(monkeypatch):
    for name in ("DJANGO_SECRET_KEY", "MY_TOKEN", "OTHER_TOKEN", "LAST_TOKEN"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("MAX_TOKENS", "4096")
    note = "not passed to commands, because it looks secret: "
    secret = "DJANGO_SECRET_KEY"
    part = "DJANGO_SECRET_'K'EY"  # the output has the name, the text of the command has not
    commands = [  # each with the name that its answer tells of
        ("echo %s" % part, None),  # in the output of a success
        ("echo KeyError: %s; exit 1" % part, secret),  # in that of a failure
        ("echo %s >&2; exit 1" % part, None),  # told before
        ("exit 1", None),
        ("echo X%s OTHER_TOKENS; exit 1" % part, None),  # other names
        ("echo $MY_TOKEN $MAX_TOKENS", "MY_TOKEN"),  # in the text of a command, however it ends
        (": $MY_TOKEN; exit 3", None),
        (": MY_TOKEN LAST_TOKEN", "LAST_TOKEN"),
        ("echo 'OTHER_''TOKEN is missing' >&2; exit 1", "OTHER_TOKEN"),
    ]
    for profile in PROFILES.values():
        with BashTool(profile=profile) as tool:
            for command, name in commands:
                result = tool.run(command)
                assert result.notes == ((note + name,) if name else ()), command
                assert not name or note + name in result.text

    @few(
        any_of(*PROFILES),
        st.lists(names.map(lambda name: name + "TOKEN"), min_size=1, max_size=3, unique=True),
        st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans(), known_commands(signals=[])), max_size=6),
    )
    def are_told_once(profile, secrets, acts):
        for name in secrets:
            monkeypatch.setenv(name, "hunter2")
        told = set()
        with BashTool(profile=profile) as tool:
            for which, in_the_text, whole, known in acts:
                name = secrets[which % len(secrets)]
                word = name if whole else name + "S"
                shown = ": %s\n" % word if in_the_text else "echo '%s''%s' >&2\n" % (word[:3], word[3:])
                news = {name} & ({name} if whole and (in_the_text or known.code) else set()) - told
                told |= news
                assert tool.run(shown + known.text).notes == tuple(note + name for name in news)
        for name in secrets:
            monkeypatch.delenv(name)

    are_told_once()
    with BashTool(base_env=os.environ) as tool:
        assert tool.run("echo $%s; exit 1" % secret).notes == () and tool.run("exit 1").notes == ()
    monkeypatch.setenv("PAGER", "https://me:pw@h/")
    with BashTool() as tool:  # the tool's default under that name is not the host's value
        assert tool.run("echo $PAGER").notes == (note + "PAGER",)
    with BashTool(carry=True) as tool:  # a command that has a variable of that name misses none
        tool.run("export MY_''TOKEN=own")
        assert tool.run("echo $MY_TOKEN $LAST_TOKEN").notes == (note + "LAST_TOKEN",)
    keeping = dataclasses.replace(JOBS, timeouts_s={"default": 0.5})
    with BashTool(profile=keeping) as tool:
        pid = tool.run(until("go") + "; echo %s; exit 1" % part).pid
        Path("go").touch()
        assert eventually(lambda: tool.job(pid).status == "exited")
        assert tool.call({"check_pid": pid}).notes == (note + secret,) and tool.call({"check_pid": pid}).notes == ()


@clause("014.9", saboteur=("scrub_env", "not re.fullmatch(_NEVER_PASSED, pair)", "True"))
@given(
    st.sets(any_of(*sorted(FORCED_COLOURS))),
    st.dictionaries(
        any_of("GREP_COLORS", "TERM_COLOR", "COLORTERM", "COLUMNS", "X_COLOR_FORCED", "COLORS"),
        any_of("", "0", "never", "auto", "1;32", "a_FORCE_COLOR=1", "always\n"),
    ),
)
def test_req_bash_014_9_no_forced_colours(forced, others):
    env, withheld = bash_tool.scrub_env({**{name: FORCED_COLOURS[name] for name in forced}, **others, **SHOWN_ANYWAY})
    assert not withheld and env == {**others, **SHOWN_ANYWAY, **bash_tool.NON_INTERACTIVE, "LANG": "C.UTF-8"}


HOOK_STATE = """DIRENV_DIFF DIRENV_WATCHES __MISE_DIFF __MISE_SESSION __RTX_DIFF __FNOX_SESSION _FLOX_HOOK_DIFF _DEVENV_DIFF
__shadowenv_data HERMIT_ENV_OPS""".split()


@clause("014.14", saboteur=("_NEVER_PASSED", "DIRENV_(?:BACKUP|DIFF|", "DIRENV_(?:BACKUP|"))
@given(
    st.sets(any_of(*HOOK_STATE)),
    st.sets(any_of("DIRENV_DIR", "MISE_SHELL", "A_DIFF", "DESKTOP_SESSION", "X__MISE_DIFF")),
    any_of("", "eJw", "{}\n"),
)
@example({"DIRENV_DIFF"}, set(), "eJw")
def test_req_bash_014_14_no_state_of_prompt_hooks(names, others, value):
    env, withheld = bash_tool.scrub_env(dict.fromkeys(names | others, value), ["*"])
    assert not withheld and env == {**dict.fromkeys(others, value), **bash_tool.NON_INTERACTIVE, "LANG": "C.UTF-8"}


AUTHENTICATION = """fatal: Authentication failed for 'https://x/' | fatal: could not read Username for 'https://github.com'
 | git@x: Permission denied (publickey). | ERROR 1045 (28000): Access denied for user 'a'@'b' | {"message":"Unauthorized"}
 | unauthorized: authentication required | HTTP/1.1 403 Forbidden | 403 Client Error: Forbidden for url | HTTP 401 Unauthorized
 | An error occurred (AccessDenied) when calling | (error) NOAUTH Authentication required. | Error: Invalid API key
 | invalid_token | Missing or invalid credentials | expired access token | The token: missing API-key.
 | fe_sendauth: no password supplied | npm error code E401 | npm error code ENEEDAUTH | denied: access to the resource is denied
 | curl: (22) The requested URL returned error: 401 | x.AuthenticationError: Error code: 401 | please run:  gh auth login
 | No API key provided. | Unable to locate credentials. You can configure | You are not logged into any hosts | FATAL:  password authentication failed for user
 | Could not resolve authentication method. | * missing client token | Error: No valid credential sources found | not_authed
 | Your default credentials were not found. | rpc error: code = Unauthenticated | Requires authentication | HTTP/1.1 401
 | access token is required | ERROR: 401 Error, Credentials not correct | (error) WRONGPASS invalid | Login failed for user 'a'
 | please run `vercel login`"""
OTHER_FAILURES = """cat: x: Permission denied | access denied | 401 | status 403 | SyntaxError: Invalid or unexpected token | unexpected token '}'
 | the token is here | error: missing closing token | FAILED test_x.py::test_unauthorized_user | java.nio.file.AccessDeniedException: /x
 | test_unauthenticated | HTTP 404 | the token is required by RFC 1 | --noauth | error: 4010 | error: 404 | author login | API key | 4010 Forbidden | credentials | authenticated | logged in | author failed | no such key"""
AUTHENTICATION = [line.strip() for line in AUTHENTICATION.split("|")]
OTHER_FAILURES = [line.strip() for line in OTHER_FAILURES.split("|")]


@clause("014.10", saboteur=("withheld_notes", "tells_all or ", ""))
@few(
    st.lists(any_of(*AUTHENTICATION), min_size=1),
    *(st.lists(any_of(*OTHER_FAILURES)), any_of(*PROFILES), st.integers(1, 25), st.integers(0, 1)),
    any_of("default", "background"),
)
def test_req_bash_014_10_all_are_told_where_one_may_be_missed(speaking, others, profile, count, stream, mode):
    names = ["A%02d_TOKEN" % n for n in range(count)]
    said = " ".join(shlex.quote(line) for line in (*others, *speaking))
    mode = {"mode": mode} if profile == "modes" else {}
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if bash_tool.looks_secret(name, os.environ[name]):
                patch.delenv(name)
        for name in names:
            patch.setenv(name, "hunter2")
        with BashTool(profile=profile, ephemeral=True) as tool:
            assert tool.run("printf '%%s\\n' %s; exit 0" % said).notes == ()
            assert tool.run("printf '%%s\\n' x %s; exit 1" % " ".join(map(shlex.quote, others))).notes == ()
            failing = "printf '%%s\\n' %s >&%d; exit 1" % (said, stream + 1)
            with long_look():
                first, *more = [tool.run(failing, **mode).notes for _ in range(3)]
            assert first == ("not passed to commands, because it looks secret: " + ", ".join(names[:20]),)
            rest = ", ".join(names[20:])
            assert more == [("not passed to commands, because it looks secret: " + rest,) if rest else (), ()]


@clause("014.11", saboteur=("_OWN_ASKPASS", "[^/]*ssh-askpass[^/]*|", ""))
@given(
    any_of("", "/usr/lib/ssh/", "./", "ssh-askpass/"),
    any_of(*"x11-ssh-askpass ssh-askpass gnome-ssh-askpass3 lxqt-openssh-askpass ksshaskpass git-gui--askpass".split()),
    any_of(*"askpass.sh echo true my-ksshaskpass git-gui--askpass2 GitHelper".split()),
    any_of(((), ()), ((), ("GIT_*",)), (("GIT_*",), ())),
)
def test_req_bash_014_11_a_helper_that_answers_stays(folder, dialog, helper, keep_and_drop):
    def given_as(value):
        return bash_tool.scrub_env({"GIT_ASKPASS": value}, *keep_and_drop)[0]["GIT_ASKPASS"]

    assert given_as(folder + helper) == ("false" if keep_and_drop[1] else folder + helper)
    assert given_as(folder + dialog) == given_as("") == given_as("https://me:pw@host/" + dialog) == "false"
    for name in ("SSH_ASKPASS", "SUDO_ASKPASS"):
        assert bash_tool.scrub_env({name: folder + helper})[0][name] == bash_tool.NON_INTERACTIVE[name]


LOADERS = ["LD_LIBRARY_PATH", "LIBPATH", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH"]


@clause("014.12", saboteur=("own_environment", 'if not hasattr(sys, "frozen"):', "if True:"))
@few(st.dictionaries(any_of(*LOADERS), any_of(None, "", "/opt/lib")), st.dictionaries(names, words), st.booleans())
@example({"LD_LIBRARY_PATH": "/opt/lib", "LIBPATH": None}, {"PATH_ORIG": "x"}, True)
def test_req_bash_014_12_the_loader_of_a_frozen_host(bundled, others, is_frozen):
    set_by = {"_PYI_ARCHIVE_FILE": "/a", "_PYI_X": "1", "_MEIPASS2": "/b", **dict.fromkeys(bundled, "/tmp/_MEI1")}
    set_by.update({name + "_ORIG": value for name, value in bundled.items() if value is not None})
    own = {name: value for name, value in bundled.items() if value is not None}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**others, **set_by}.items():
            patch.setenv(name, value)
        if is_frozen:
            patch.setattr(sys, "frozen", True, raising=False)
        tool = BashTool()
    known = {os.fsdecode(name): os.fsdecode(value) for name, value in tool._session.config.first.env.items()}
    loaders = [name for name in known if re.match("LD_|LIBPATH|DYLD|_PYI|_MEI", name)]
    shown = {name: known[name] for name in loaders if name not in os.environ}
    assert shown == (own if is_frozen else {name: set_by[name] for name in set_by if name not in tool.withheld})
    assert known.items() >= {name: value for name, value in others.items() if name not in tool.withheld}.items()


# ---- 015 Cancelling ------------------------------------------------------------------------------------------------
def all_cancelled(commands, profile):
    """The results of commands that run side by side, the n-th of which is cancelled when it has made the file ready-n."""
    folder = tempfile.mkdtemp()
    with BashTool(folder, profile=profile) as tool:
        tokens = [cancelled_when("%s/ready-%d" % (folder, n)) for n in range(len(commands))]
        return at_once(lambda n: tool.run(commands[n].text, timeout_s=60, cancel=tokens[n]), range(len(commands)))


@clause("015.1", saboteur=("Life.next_action", '"cancelled",', '"timed_out",'))
@pytest.mark.parametrize("cleans_up", [False, True])
def test_req_bash_015_1_cancel_ends_and_answers(cleans_up):
    for path in ("begun", "child"):
        Path(path).unlink() if Path(path).exists() else None
    trap = "trap 'echo cleaned; exit 0' TERM; " if cleans_up else ""
    with BashTool() as tool:
        quiet = "exec 2>/dev/null; "  # bash itself may say "Terminated" of the child
        waits = trap + lasting("echo partial; " + quiet + "sleep 600 & echo $! > child; touch begun; wait")
        result = tool.run(waits, cancel=cancelled_when("begun"))
    assert result.text == "[command cancelled]\npartial\n" + ("cleaned\n" if cleans_up else "")
    assert (result.status, result.is_error, result.exit_code) == ("cancelled", True, None)
    assert not alive(number_in("child"))


@clause("015.2", saboteur=("Exchange.abandon", "channel.wait(until) and channel.socket.recv(READ_BYTES)", "False"))
def test_req_bash_015_2_an_exception_in_the_caller():
    raised = {signal.SIGINT: KeyboardInterrupt, signal.SIGUSR1: Struck}

    def strike(number, file, *pauses_s):
        """Signals to this process: the first as soon as the process in the file lives, the others after these pauses."""

        def go():
            eventually(lambda: lives_in(file))
            for pause_s in (0, *pauses_s):
                time.sleep(pause_s)
                os.kill(os.getpid(), number)

        threading.Thread(target=go, daemon=True).start()

    def while_a_command_runs():
        tool = BashTool()
        for number, exception in raised.items():
            child = "child-%d" % number
            with pytest.raises(exception):
                strike(number, child)
                tool.run(lasting("sleep 600 & echo $! > %s; sleep 600" % child))
            assert os.path.exists(child) and not lives_in(child)

    def while_a_deaf_command_runs():
        tool = BashTool(profile=dataclasses.replace(MODES, grace_s=60))
        for pauses_s in ((), (0.2, 0.2)):
            deaf, begun = "deaf-%d" % len(pauses_s), time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                strike(signal.SIGINT, deaf, *pauses_s)
                tool.run("trap '' TERM; echo $$ > %s; while :; do sleep 1; done" % deaf)
            assert time.monotonic() - begun < 5 + slack_s()  # KILL after 0.5 s, not after the grace
            with contextlib.suppress(KeyboardInterrupt):
                time.sleep(1)  # the second signal leaves, and the supervisor ends the command; the third may come later
            assert os.path.exists(deaf) and eventually(lambda: not lives_in(deaf), 5 + slack_s())

    in_fork(while_a_command_runs)
    in_fork(while_a_deaf_command_runs)

    @fewest(st.lists(st.tuples(st.floats(0, 0.15), any_of(*raised), endless()), min_size=4, max_size=8), st.booleans())
    def at_whatever_moment(strikes, warm):
        mark = unique()

        def host():
            tool = BashTool(profile=dataclasses.replace(MODES, grace_s=0.3))
            if warm:
                tool.run(":")
            for delay_s, number, known in strikes:
                with pytest.raises(raised[number]):
                    threading.Timer(delay_s, os.kill, (os.getpid(), number)).start()
                    tool.run("sleep %s &\n%s" % (mark, known.text))
                assert not running(mark)

        in_fork(host)

    at_whatever_moment()


@clause("015.3", saboteur=("Life._end", "self.stops > 1", "False"))
def test_req_bash_015_3_the_second_cancel_kills():
    with BashTool(profile=tiny(default=60, grace=60)) as tool:
        begun = time.monotonic()
        deaf = "trap '' TERM; echo $$; touch begun; while :; do sleep 1; done"
        result = tool.run(deaf, cancel=cancelled_when("begun", times=2))
        assert (
            result.status == "cancelled" and time.monotonic() - begun < 10 + slack_s() and not alive(int(result.stdout))
        )
    with BashTool(profile=tiny(default=0.5, grace=60)) as tool:  # the timeout was the first reason to end it
        begun = time.monotonic()
        result = tool.run("trap '' TERM; while :; do sleep 0.1; done", cancel=cancelled_after(1.5))
        assert result.status == "timed_out" and time.monotonic() - begun < 10 + slack_s()


@clause(
    "015.4",
    saboteur=("Exchange._try_supervisors", 'if self._count_stops(): return Outcome(Report("cancelled"))', "pass"),
)
def test_req_bash_015_4_a_cancelled_call_does_not_begin():
    def with_a_token_that_is_cancelled():
        before, cancel = descriptors(), Cancel()
        cancel.cancel()
        result = BashTool().run("touch made", cancel=cancel)
        assert (result.status, result.text) == ("cancelled", "[command cancelled]\n")
        assert len(descriptors()) == len(before)  # not even a fork server was asked for anything

    in_fork(with_a_token_that_is_cancelled)
    assert not Path("made").exists()

    @few(known_commands() | endless(), any_of(*PROFILES), st.booleans(), st.booleans())
    def however_it_is_called(known, profile, background, as_json):
        cancel, folder = Cancel(), tempfile.mkdtemp()
        cancel.cancel()
        arguments = {"command": ": > made\n" + known.text}
        if background and profile == "modes":
            arguments["mode"] = "background"
        with BashTool(folder, profile=profile) as tool:
            result = tool.call(json.dumps(arguments) if as_json else arguments, cancel=cancel)
            assert (result.status, result.is_error, result.exit_code, result.pid) == ("cancelled", True, None, None)
            assert tool.jobs() == [] and not os.listdir(folder)
            assert tool.run(": > after").exit_code == 0 and os.listdir(folder) == ["after"]

    however_it_is_called()


@clause("015.5", saboteur=("BashTool.close", "self._session.closing.cancel()", "pass"))
def test_req_bash_015_5_close_ends_what_runs():
    tool = BashTool()
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(tool.run, lasting("echo $$ > p%d; sleep 600") % n) for n in range(3)]
        pids = [number_in("p%d" % n) for n in range(3)]
        tool.close()
        assert [answer.result().status for answer in answers] == ["cancelled"] * 3
    assert not any(map(alive, pids)) and tool.run("echo hi").error == "closed"


@clause("015.6", saboteur=("SupervisorPool.borrow", "suppress(BlockingIOError)", "suppress(KeyError)"))
def test_req_bash_015_6_each_waits_for_its_turn():
    program = """
        import socket
        tool, cancels = BashTool(), [Cancel() for _ in range(60)]
        engine, answers = sys.modules[BashTool.__module__]._pool, {}
        busy = threading.Thread(target=tool.run, args=("echo $PPID >one; mv one supervisor; until [ -e go ]; do sleep 0.1; done",))
        busy.start()
        while not os.path.exists("supervisor"):
            time.sleep(0.01)
        supervisor = int(open("supervisor").read())
        server = int(open("/proc/%d/stat" % supervisor).read().rpartition(") ")[2].split()[1])
        engine._control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # room for a few
        os.kill(server, signal.SIGSTOP)
        def call(n):
            answers[n] = tool.run(": > made-%d" % n, cancel=cancels[n])
        threads = [threading.Thread(target=call, args=(n,)) for n in range(60)]
        for thread in threads:
            thread.start()
        for cancel in cancels[30:]:
            cancel.cancel()
        end = time.monotonic() + 4
        while len(answers) < 15 and time.monotonic() < end:
            time.sleep(0.01)
        early = len(answers)
        os.kill(server, signal.SIGCONT)
        open("go", "w").close()
        for thread in [*threads, busy]:
            thread.join()
        assert early >= 15, early
        for n, answer in answers.items():
            assert answer.ok if n < 30 else answer.status == "cancelled", (n, answer)
            assert n >= 30 or os.path.exists("made-%d" % n)
        assert sum(os.path.exists("made-%d" % n) for n in range(30, 60)) <= 15
        print("done")
    """
    assert in_host(program) == "done\n"


# ---- 016 Live output -----------------------------------------------------------------------------------------------
@clause("016.1", saboteur=("Output.read", "add_live(chunk", "add_live(chunk[1:]"))
@few(st.lists(st.text(any_of(*"aé€😀\n\r\x1b"), max_size=8), max_size=6))
def test_req_bash_016_1_pieces_joined_are_the_output(words):
    pieces, threads = [], set()
    script = "".join("printf %%s %s; sleep 0.01\n" % shlex.quote(word) for word in words)
    script += "printf '\\303'; sleep 0.15; printf '\\251\\377'"
    with BashTool() as tool:
        tool.run(script, on_output=lambda text: (pieces.append(text), threads.add(threading.current_thread())))
    assert "".join(pieces) == "".join(words) + "é\ufffd"
    assert threads == {threading.current_thread()}


def skipped_in(text):
    """The bytes that live output says it skipped."""
    sizes = re.findall(r"\n\[live output skipped: ([\d.]+)(MB|KB|B)\]\n", text)
    return sum(float(size) * {"MB": 1048576, "KB": 1024, "B": 1}[unit] for size, unit in sizes)


@clause("016.2", saboteur=("SupervisorEnd.send", "total - sum(len(tail) for _, tail in tails)", "0"))
@fewest(st.integers(12, 24), st.floats(0.2, 0.5))
def test_req_bash_016_2_a_slow_watcher_is_told(megabytes, pause_s):
    pieces = []

    def slow(text):
        pieces.append(text)
        time.sleep(pause_s)

    result = BashTool().run(filler(megabytes * 1048576), on_output=slow)
    text = "".join(pieces)
    skipped, kept, rounded = skipped_in(text), text.count("x"), 0.051 * 1048576 * text.count("skipped")
    assert result.exit_code == 0 and max(map(len, pieces)) < 600000
    assert abs(skipped + kept - megabytes * 1048576) < rounded and skipped > 0


# ---- 017 The command line ------------------------------------------------------------------------------------------
@clause("017.1", saboteur=("_run_and_print", "result.exit_code or 0", "0"))
@fewer(st.integers(0, 123), any_of("", "hi", "ünï"))
def test_req_bash_017_1_prints_and_exits_as_the_command(code, word):
    command = "printf '%s'; exit %d" % (word, code)
    done = cli(command, started=True)
    text = BashTool().run(command).text
    assert (done.returncode, done.stdout.decode()) == (code, text if text.endswith("\n") else text + "\n")
    Path("command").write_text(command)
    with open("command") as stdin:
        piped = cli("-", stdin=stdin)
    assert (piped.returncode, piped.stdout) == (code, done.stdout)


@clause("017.2", saboteur=("EXIT_CODES", '"timed_out": 124', '"timed_out": 1'))
def test_req_bash_017_2_exit_codes_of_its_own():
    assert cli("--timeout", "0.2", lasting("sleep 600")).returncode == 124
    for wrong in (["--mode", "fast", "x"], ["--nonsense"], [], ["--timeout", "-1", "x"], ["--schema", "nonsense"]):
        done = cli(*wrong, started=not wrong)
        assert done.returncode == 125 and b"Traceback" not in done.stderr, (wrong, done)
    for words, hint in (
        (("echo", "hi"), b"in quotes"),
        (("--timeout", "5", "--jobs"), b"a command, --mcp and --schema"),
    ):
        done = cli(*words)
        assert (done.returncode, done.stdout) == (125, b"") and hint in done.stderr
    assert cli("echo hi", env=dict(os.environ, PATH="/nowhere")).returncode == 125


@clause("017.3", saboteur=("_run_and_print", "(interrupted)", "(signal.SIG_DFL)"))
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_req_bash_017_3_an_interrupt_is_a_cancel(number):
    command = lasting("trap 'echo cleaned; exit' TERM; echo begun; echo $$ > shell; sleep 600 & wait")
    words = [sys.executable, compiled_script(), command]
    tool = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    shell = number_in("shell")
    tool.send_signal(number)
    text, _ = tool.communicate(timeout=PATIENCE_S)
    assert (text, tool.returncode, alive(shell)) == (b"[command cancelled]\nbegun\ncleaned\n", 130, False)


@clause("017.4", saboteur=("_run_and_print", ".to_dict()", ".text"))
@fewer(known_commands())
@example(Known("printf '\\377é'"))
def test_req_bash_017_4_json(known):
    line = cli("--json", known.text).stdout.decode("utf-8")
    assert line.count("\n") == 1 and line.endswith("\n")
    fields = json.loads(line)
    same = BashTool().run(known.text).to_dict()
    assert set(fields) == {f.name for f in dataclasses.fields(bash_tool.Result) if f.repr}
    assert {**fields, "duration_s": 0} == {**same, "duration_s": 0}
    assert (fields["exit_code"], fields["signal"]) == (known.code, known.signal)


@clause("017.5", saboteur=("main", "_read_file", 'b"x" + _read_file'))
def test_req_bash_017_5_version():
    digest = subprocess.run(["sha256sum", str(TOOL)], stdout=subprocess.PIPE, check=True).stdout.decode().split()[0]
    assert cli("--version").stdout.decode() == "bash_tool %s sha256:%s\n" % (bash_tool.__version__, digest)


@clause("017.6", saboteur=("_make_parser", 'os.environ.get("BASH_TOOL_PROFILE", "modes")', '"modes"'))
def test_req_bash_017_6_environment():
    for name in (*PROFILES, "JOBS"):
        definition = json.loads(cli("--schema", env=dict(os.environ, BASH_TOOL_PROFILE=name)).stdout)
        assert definition == BashTool(profile=PROFILES[name.lower()]).definition()
    for argument in (":", "--mcp"):
        done = cli(argument, env={**os.environ, "BASH_TOOL_PROFILE": "nobody"})
        assert (done.returncode, done.stdout) == (125, b"") and b"Traceback" not in done.stderr
        assert b"BASH_TOOL_PROFILE" in done.stderr, done


@clause("017.7", saboteur=("main", "deny=list(map(_as_typed, options.deny)),", ""))
def test_req_bash_017_7_deny():
    @few(st.lists(words, min_size=1, max_size=3), st.integers(0, 2), known_commands())
    @example(["one", "two"], 1, Known(""))
    def refuses(denied, which, known):
        which = denied[which % len(denied)]
        options = [word for text in denied for word in ("--deny=" + text,)]
        done = cli(*options, "touch made; : '%s'\n%s" % (which, known.text))
        command = "touch made; : '%s'\n%s" % (which, known.text)
        first = next(text for text in denied if text in command)
        said = "[system error: Command blocked by safety policy: contains '%s']\n" % bash_tool.make_printable(first)
        assert (done.returncode, done.stdout.decode()) == (125, said) and not Path("made").exists()

    refuses()
    assert cli("--deny", "one", "echo fine").stdout == b"fine\n"
    for extra in (("--mode", "slow"), ("--follow",), ("--json",), ("--jobs",), ("echo hi",)):
        assert cli("--mcp", *extra).returncode == 125  # nothing that was said is ignored
    with Client("--deny", "touch") as client:
        assert "contains 'touch'" in client.said("touch three") and not Path("three").exists()


@clause("017.8", saboteur=("main", "keep_env=options.keep_env,", ""))
def test_req_bash_017_8_keep_env():
    secrets = {"A_TOKEN": "one", "B_TOKEN": "two", "C_PASSWORD": "three"}
    env = dict(os.environ, **secrets)
    command = "printf %s/ \"$A_TOKEN\" \"$B_TOKEN\" \"$C_PASSWORD\""
    globs = ["A_TOKEN", "B_TOKEN", "*_TOKEN", "?_TOKEN", "C_*", "[AC]_*", "*", "a_token", "TOKEN"]

    @fewer(st.lists(any_of(*globs)))
    @example(["A_TOKEN", "C_*"])
    def passes(keep):
        passing = [any(fnmatch.fnmatchcase(name, glob) for glob in keep) for name in secrets]
        done = cli(*(word for name in keep for word in ("--keep-env", name)), command, env=env)
        shown = "".join("%s/" % (value if pass_ else "") for value, pass_ in zip(secrets.values(), passing))
        assert done.stdout.decode().splitlines()[-1] == shown

    passes()
    with Client("--keep-env", "A_TOKEN", env=env) as client:
        assert client.said("echo $A_TOKEN$B_TOKEN").endswith("]\none\n")


@clause("017.10", saboteur=("main", "drop_env=options.drop_env,", ""))
def test_req_bash_017_10_drop_env():
    harmless = {"HARMLESS": "one", "LOCAL_A": "two", "LOCAL_B": "three"}
    env = dict(os.environ, **harmless)

    @fewer(st.lists(any_of("HARMLESS", "LOCAL_*", "LOCAL_?", "*_A", "[HX]*", "*", "harmless", "LOCAL")))
    @example(["HARMLESS", "*_A"])
    def withholds(drop):
        gone = sorted(name for name in harmless if any(fnmatch.fnmatchcase(name, glob) for glob in drop))
        options = [word for name in drop for word in ("--drop-env", name)]
        done = cli(*options, "printf %s/ $HARMLESS $LOCAL_A $LOCAL_B", env=env)
        note = "[not passed to commands: %s]\n" % ", ".join(gone) if gone else ""
        shown = "".join(value + "/" for name, value in harmless.items() if name not in gone) or "/"
        assert done.stdout.decode() == note + shown + "\n"

    withholds()
    with Client("--drop-env", "LOCAL_*", "--keep-env", "LOCAL_*", env=env) as client:
        said = client.said("echo ${LOCAL_A-none} $HARMLESS")
        assert said == "[not passed to commands: LOCAL_A]\nnone one\n"


@clause("017.9", saboteur=("_print_jobs", "shorten(job.command)", '""'))
def test_req_bash_017_9_jobs():
    with BashTool(state_dir="state", profile=tiny(grace=0.3)) as tool:
        commands = ["exit 5", "echo three", lasting("echo é; sleep 600")]
        pids = [tool.run(command, mode="background").pid for command in commands]
        assert tool.job(pids[2]).status == "running"
        killed = tool.run("kill -9 $$", mode="background").pid
        assert all(tool.job(pid).wait(20) for pid in (*pids[:2], killed))
        assert eventually(lambda: tool.job(pids[2]).read()[0] == "é\n")
        printed = cli("--state-dir", "state", "--jobs").stdout.decode()
        header, *rows = [line.split("\t") for line in printed.splitlines()]
        assert header == ["PID", "STATUS", "ELAPSED", "SIZE", "OUTPUT", "COMMAND"]
        jobs = {job.pid: job for job in tool.jobs()}
        ends = {pids[0]: "failed: exit status 5", pids[1]: "completed", pids[2]: "running"}
        ends[killed] = "ended by signal 9 (SIGKILL)"
        assert [(int(pid), how) for pid, how, *_ in rows] == list(ends.items())
        assert [size for _, _, _, size, *_ in rows] == ["0B", "6B", "3B", "0B"]
        for pid, _, elapsed, _, path, command in rows:
            job = jobs[int(pid)]
            assert re.fullmatch(r"[0-9]+s", elapsed) and (path, command) == (job.output_file, job.command)
        listed = [json.loads(line) for line in cli("--state-dir", "state", "--jobs", "--json").stdout.splitlines()]
        shown = [(one["pid"], one["exit_code"], one["total_bytes"]) for one in listed]
        assert shown == [(pids[0], 5, 0), (pids[1], 0, 6), (pids[2], None, 3), (killed, 137, 0)]
        assert all(one["duration_s"] >= 0 and one["created"] <= time.time() for one in listed)
        assert jobs[pids[2]].kill()
    assert cli("--state-dir", "empty", "--jobs").stdout == b""


@clause("017.12", saboteur=("main", "() + options.set", "()"))
def test_req_bash_017_12_limits_that_are_set():
    numbers = st.integers(100, 3000)

    @few(st.none() | numbers, st.none() | numbers, st.none() | st.integers(1, 40))
    @example(200, 300, 7)
    def holds(by_variable, by_option, snip):
        env = dict(os.environ, BASH_TOOL_SET="" if by_variable is None else "max_output_bytes=%d" % by_variable)
        given = [("max_output_bytes", by_option), ("snip_size", snip)]
        words = [word for name, value in given if value for word in ("--set", "%s=%d" % (name, value))]
        changes = {name: value for name, value in [("max_output_bytes", by_variable), *given] if value}
        told = cli(*words, "seq 1000", env=env).stdout.decode()
        with BashTool(profile=dataclasses.replace(MODES, **changes)) as tool:
            assert told.partition("[full")[0] == tool.run("seq 1000").text.partition("[full")[0]

    holds()
    for word in (
        "nonsense=3 timeouts_s=3 = grace_s grace_s=soon grace_s=-1 grace_s=1.2.3 snip_size=0 snip_size=1.5 slow=0 "
        "saves=1 saves=yes grace_s=true name=true"
    ).split():
        ways = [(["--set", word, "touch made"], {}), (["touch made"], {"BASH_TOOL_SET": word})]
        for words, env in [*ways, (["--set", word, "--mcp"], {})][: 3 if word == "nonsense=3" else 2]:
            done = cli(*words, env={**os.environ, **env})
            assert (done.returncode, done.stdout) == (125, b"") and done.stderr.startswith(b"bash_tool.py: ")
            assert word.partition("=")[0].encode() in done.stderr
    assert not os.path.exists("made") and cli("--set", "max_output_lines=3", ":").returncode == 125
    told = cli("--set", "nonzero_is_error=false", "--set", "default=0.3", "--json", "exit 3")
    assert json.loads(told.stdout)["is_error"] is False and told.returncode == 3
    definition = json.loads(cli("--set", "slow=7200", "--timeout", "60", "--schema").stdout)
    described = definition["input_schema"]["properties"]["mode"]["description"]
    assert described == "Execution mode: default (1min timeout), slow (120min timeout), background (detached)"
    with Client("--timeout", "0.3", "--set", "saves=false", env=dict(os.environ, BASH_TOOL_SET="default=60")) as client:
        assert client.said(lasting("echo on; sleep 600")).startswith("[command timed out after 0.3s]\n")
        assert "[full output" not in client.said("seq 100000")
    env = dict(os.environ, BASH_TOOL_SET="snip_size=3 grace_s=0.3")
    with Client("--set", "max_output_bytes=100", env=env) as client:
        cut = "[output truncated in middle: got 3.8KB, max is 100B]\n1\n2"
        assert client.said("seq 1000").startswith(cut)


@clause("017.13", saboteur=("_make_logger", '"arguments": arguments, *', "*"))
@fewest(st.lists(known_commands(), min_size=1, max_size=3))
def test_req_bash_017_13_a_log(commands):
    log, short = Path(tempfile.mkdtemp(), "log"), {"timeouts": {"grace_s": 0.3}}
    expected = [[{"command": known.text}, "exited", known.code, known.signal, None] for known in commands] * 2
    with Client("--log", log, **short) as one, Client("--log", log, **short) as other:
        calls = [(client, client.begin(known.text)) for known in commands for client in (one, other)]
        withdrawn = {"command": lasting("echo $$ > %s/shell; sleep 600" % log.parent)}
        number = one.request("tools/call", name="bash", arguments=withdrawn)
        number_in(log.parent / "shell")
        one.cancel(number)
        calls.append((other, other.request("tools/call", name="bash", arguments={"cmd": "ls"})))
        assert all(client.answer(number) for client, number in calls)
        expected += [[withdrawn, "cancelled", None, None, None]]
        expected += [[{"cmd": "ls"}, "rejected", None, None, "invalid_arguments"]]
        assert eventually(lambda: log.read_text().count("\n") == len(expected))
    done = cli("--log", log, "exit 3")
    expected += [[dict(command="exit 3", mode="default", timeout_s=None, stdin=None), "exited", 3, None, None]]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    keys = "time arguments status exit_code signal error duration_s total_bytes pid".split()
    assert all(list(line) == keys and abs(line["time"] - time.time()) < 60 for line in lines)
    shown = [[line[key] for key in ("arguments", "status", "exit_code", "signal", "error")] for line in lines]
    assert sorted(shown, key=repr) == sorted(expected, key=repr)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600 and done.returncode == 3
    for argument in ("touch made", "--mcp"):
        done = cli("--log", "no/such", argument)
        assert (done.returncode, done.stdout) == (125, b"") and b"no/such" in done.stderr and not os.path.exists("made")
    for option in "--log", "--state-dir":  # an empty path is none
        assert cli(option, "", "touch made").returncode == 125 and not os.path.exists("made")
    with Client("--log", "/dev/full") as client:
        assert [client.said("echo %d" % n) for n in range(2)] == ["0\n", "1\n"]
        assert client.end() == 0 and client.complaints().count("\n") == client.complaints().count("/dev/full") == 1


@clause("017.14", saboteur=("_perform", "job.kill()", "True"))
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["row", "json"])
def test_req_bash_017_14_kill(form):
    with BashTool(state_dir="state", profile=tiny(grace=0.3)) as tool:
        deaf = lasting("trap '' TERM; setsid sleep 600 & echo $! > other; while :; do sleep 0.1; done")
        job, lost = background(tool, deaf), background(tool, lasting("sleep 601"))
        other, number = number_in("other"), "%d" % job.pid
        done = cli("--state-dir", "state", "--kill", number, *form)
        assert done.returncode == 0 and not alive(job.pid) and not alive(other), done
        listed = cli("--state-dir", "state", "--jobs", *form).stdout.decode().splitlines()
        rows = done.stdout.decode().splitlines()
        assert set(rows) <= set(listed) and number in rows[-1] and len(rows) == (1 if form else 2)
        os.kill(supervisor_of(lost), signal.SIGKILL)
        assert eventually(lambda: lost.status == "lost")
        done = cli("--state-dir", "state", "--kill", lost.pid, *form)
        assert done.returncode == 125 and b"lost" in done.stdout
    done = cli("--state-dir", "state", "--kill", "5", *form)
    assert (done.returncode, done.stdout) == (125, b"") and b" 5;" in done.stderr


@clause("017.15", saboteur=("_run_and_print", "_write(2, told)", "None"))
@pytest.mark.parametrize("stderr", ["pipe", "terminal"])
def test_req_bash_017_15_one_interrupt_is_told_of(stderr):
    said = b"bash_tool.py: the command has 9s to end; Ctrl-C again ends it now"
    for number, (trap, silent) in enumerate([("trap '' INT TERM", False), ("trap 'sleep 0.1; exit' TERM", True)]):
        ours, theirs = pty.openpty() if stderr == "terminal" else os.pipe()
        command = lasting("%s; echo $$ >shell%d; sleep 600 & while :; do wait; done" % (trap, number))
        streams = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs)
        with forked_program("--set", "grace_s=9", command, **streams) as host:
            os.close(theirs)
            pid = number_in(Path("shell%d" % number))
            host.send_signal(signal.SIGINT)
            told = b""
            while not silent and not told.endswith(b"\n"):
                assert select.select([ours], [], [], 7)[0], "nothing is told"
                told += os.read(ours, 1000)
            assert told.strip() == b"" if silent else told.strip() == said and alive(pid)
            host.send_signal(signal.SIGINT) if not silent else None
            assert host.stdout.read() == b"[command cancelled]\n" and host.wait(20) == 130 and not alive(pid)
        with contextlib.suppress(OSError):  # EIO of a terminal
            assert os.read(ours, 1000) == b""
        os.close(ours)


# ---- 018 Gates, 019 The host ---------------------------------------------------------------------------------------
@clause("018.1", saboteur=("judge_command", "if pattern in", "if pattern =="))
@given(st.lists(st.text(any_of(*"ab -'"), min_size=1, max_size=3), max_size=3), st.text(any_of(*"ab -'"), max_size=20))
@example(["rm -rf"], "echo; rm -rf /")
def test_req_bash_018_1_denied_substrings(deny, command):
    result = BashTool(deny=deny, confirm=lambda _: False).call({"command": command})
    denied = [pattern for pattern in deny if pattern in command]
    if result.error != "invalid_arguments":
        assert result.error == ("denied" if denied else "not_confirmed") and result.status == "rejected"
        said = "[system error: Command blocked by safety policy: contains '%s']\n"
        assert not denied or result.text == said % denied[0]


ERRORS = [RuntimeError, ValueError, OSError]


@clause("018.2", saboteur=("judge_command", "or answer is None", ""))
@few(any_of(True, False, None) | any_of(*ERRORS), known_commands())
@example(RuntimeError, Known("echo hi", merged="hi\n"))
@example(None, Known("echo hi", merged="hi\n"))
def test_req_bash_018_2_unconfirmed(answer, known):
    asked = []

    def confirm(command):
        asked.append(command)
        if isinstance(answer, type):
            raise answer("no answer")
        return answer

    tool = BashTool(confirm=confirm)
    if isinstance(answer, type):
        with pytest.raises(answer, match="^no answer$"):
            tool.run("touch made\n" + known.text)
        assert len(asked) == 1 and not os.path.exists("made")
        return
    result = tool.run(known.text)
    assert asked == [known.text]
    if answer is True:
        assert (result.status, result.stdout, result.exit_code) == ("exited", known.merged, known.code)
    else:
        assert result.text == "[system error: Command was not confirmed by the user.]\n"
        assert (result.status, result.error, result.exit_code) == ("rejected", "not_confirmed", None)
    for wrong in (dict(deny=""), dict(deny=["a", ""]), dict(shell=()), dict(keep_env=[1]), dict(max_jobs=-1)):
        with pytest.raises(ValueError):
            BashTool(**wrong)


async def refusing_later(_):
    return False


ANSWERS = [0, 1, "", "n", (), (0,), 1.0, object(), refusing_later]


@clause("018.3", saboteur=("judge_command", "if answer is True:", "if answer:"))
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning", "error::RuntimeWarning")
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_req_bash_018_3_an_answer_that_is_none(answer):
    tool = BashTool(confirm=answer if answer is refusing_later else lambda _: answer)
    for ask in (tool.run, lambda command: tool.call({"command": command})):
        with pytest.raises(TypeError, match="^confirm must return True or False, got"):
            ask("touch made")
        gc.collect()
    assert not os.path.exists("made")


@clause("019.1", saboteur=("SupervisorPool._start_server", "for python", "os.umask(0o11)\nfor python"))
def test_req_bash_019_1_the_host_is_left_as_it_was():
    printed = in_host(
        """
        import ctypes, os, resource, signal

        def state():
            umask = os.umask(0o27)
            os.umask(umask)
            subreaper = ctypes.c_int()
            ctypes.CDLL(None).prctl(37, ctypes.byref(subreaper), 0, 0, 0)
            return (umask, os.getcwd(), dict(os.environ), signal.pthread_sigmask(signal.SIG_BLOCK, ()), subreaper.value,
                    [signal.getsignal(n) for n in range(1, 65)], [resource.getrlimit(n) for n in range(10)])

        other = os.posix_spawnp("sleep", ["sleep", "600"], os.environ)
        before = state()
        tool = BashTool("/")
        for command in ("cd /tmp; umask 0; ulimit -c 0; export X=1", "exit 3", "sleep 600", "sleep 1 &", "kill -9 $$"):
            tool.run(command, timeout_s=0.3)
        tool.close()
        print(state() == before, os.waitpid(other, os.WNOHANG))
        os.kill(other, 9)
        print(os.waitpid(-1, 0)[0] == other)
    """
    )
    assert printed == "True (0, 0)\nTrue\n"


@clause(
    "019.2",
    saboteur=(
        "Exchange._request",
        "self._channel = _pool.borrow",
        "[n._channel and n._channel.send_stops(9) for n in list(_pool.exchanges)]\nself._channel = _pool.borrow",
    ),
)
@fewest(st.lists(known_commands(pause_s=0.05), min_size=20, max_size=30), st.randoms(use_true_random=False))
def test_req_bash_019_2_calls_do_not_meet(commands, chance):
    tool = BashTool(profile=tiny(default=AMPLE_S))
    calls = [*commands, *["echo t; " + NAP] * 5, *["seq 50000"] * 5]
    chance.shuffle(calls)

    def run(call):
        return tool.run(getattr(call, "text", call), timeout_s=1.0 if NAP in str(call) else None)

    results = at_once(run, calls)
    for call, result in zip(calls, results):
        if isinstance(call, Known):
            assert (result.stdout, result.exit_code, result.signal) == (call.merged, call.code, call.signal)
        elif call.startswith("seq"):
            assert result.truncated and result.stdout.endswith("49999\n50000\n")
        else:
            assert result.text == "[command timed out after 1s]\n%s\nt\n" % LONGER_MODES
    assert len({result.output_file for result in results if result.output_file}) == 5


# ---- 020 The host dies ---------------------------------------------------------------------------------------------
DYING_HOST = lasting("""
    import ctypes, os, signal, sys, threading, time
    from bash_tool import BashTool
    tool = BashTool()
    tool.run("nohup sleep 600 >/dev/null 2>&1 & echo $! > daemon")
    def run(n, command):
        threading.Thread(target=tool.run, args=(command,), daemon=True).start()
    run(0, "echo $$ > p0; trap '' TERM; sleep 600; sleep 600")
    run(1, "setsid sh -c 'trap \\"\\" TERM; echo $$ > p1; while :; do sleep 0.1; done' & sleep 600")
    run(2, "(setsid sh -c 'echo $$ > p2; exec sleep 600' &); env -i sh -c 'echo $$ > p3; exec sleep 600'")
    run(3, "(env -i setsid sh -c 'echo $$ > p4; exec sleep 600' >/dev/null 2>&1 &); sleep 600")
    run(4, "echo $$ > p5\\n" + sys.argv[2])
    while not all(os.path.exists("p%d" % n) and open("p%d" % n).read().endswith("\\n") for n in range(6)):
        time.sleep(0.01)
    open("ready", "w").close()
    if sys.argv[1] == "exit":
        os._exit(0)
    if sys.argv[1] == "segfault":
        ctypes.string_at(0)
    if sys.argv[1] == "forked":
        if os.fork() == 0:
            os.closerange(0, 3)
            threading.Event().wait(20)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait(60)
""")


@clause("020.1", saboteur=("Life.next_action", "self._grace_s = min(self._grace_s, HOST_GONE_GRACE_S)", "pass"))
@fewest(st.lists(endless(), min_size=5, max_size=5), st.permutations(["KILL", "TERM", "exit", "segfault", "forked"]))
def test_req_bash_020_1_the_commands_of_a_dead_host_end(commands, deaths):
    def dies(case):
        known, death = case
        folder = Path(tempfile.mkdtemp())
        null = subprocess.DEVNULL
        host = forked_host(DYING_HOST, death, known.text, stdin=null, stdout=null, stderr=null, cwd=folder)
        try:
            assert eventually(lambda: (folder / "ready").exists())
            pids = [number_in(folder / ("p%d" % n)) for n in range(6)]
            if death in ("KILL", "TERM"):
                host.send_signal(getattr(signal, "SIG" + death))
            host.wait(timeout=PATIENCE_S)
            assert eventually(lambda: not any(map(alive, pids)), 5 + slack_s()), (
                death,
                [pid for pid in pids if alive(pid)],
            )
            assert alive(number_in(folder / "daemon"))
        finally:
            host.kill()
            host.wait()

    at_once(dies, list(zip(commands, deaths)))


@clause("020.2", saboteur=("Life._report", "self._plan.ephemeral", "self.attached"))
def test_req_bash_020_2_what_ended_commands_left_lives_on():
    in_host("""
        tool = BashTool()
        tool.run("sleep 600", timeout_s=0.2)
        tool.run("nohup sleep 600 >/dev/null 2>&1 & echo $! > p0")
        tool.run("setsid sleep 600 >/dev/null 2>&1 & echo $! > p1; exit 3")
        os._exit(0)
    """)
    time.sleep(1.0)  # nothing is to be ended; there is nothing to poll for
    assert all(alive(number_in("p%d" % n)) for n in range(2))


@clause("020.3", saboteur=("_start_python", ".kill()", '.kill(), os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "3")'))
def test_req_bash_020_3_no_child_but_the_hosts_own(nothing_is_left):
    answer = in_host("""
        tool = BashTool()
        tool.run("echo hi")
        tool.run("sleep 600", timeout_s=0.2)
        try:
            print(os.waitpid(-1, os.WNOHANG))
        except ChildProcessError:
            print("no child")
    """)
    assert answer == "no child\n"
    assert eventually(lambda: not carriers(nothing_is_left))  # the fork server has ended with its host


@clause("020.4", saboteur=("_become_subreaper", "HAS_CHILDREN_FILES and _prctl(_PR_SET_CHILD_SUBREAPER, 1)", "False"))
@pytest.mark.parametrize("environment", first_of(["os.environ scrubbed", "given"], "given"))
def test_req_bash_020_4_tools_nest(nothing_is_left, environment):
    program = """
        import os, signal, sys
        from bash_tool import BashTool
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a stop of the outer tool brings no traceback
        env = {"PATH": os.environ["PATH"]} if sys.argv[1] == "given" else None
        tool = BashTool(base_env=env)
        tool.run("(setsid sh -c 'echo $$ > stray; exec sleep 600' >/dev/null 2>&1 &)")
        print(tool.run("echo inner; sleep 600", timeout_s=0.3).text, end="", flush=True)
        tool.run("(setsid sh -c 'echo $$ > deep; exec sleep 600' &); until [ -s stray ] && [ -s deep ]; do sleep 0.1; done; "
                 "touch ready; trap '' TERM; while :; do sleep 1; done")
    """
    Path("inner.py").write_text(textwrap.dedent(lasting(program)))
    with BashTool(profile=tiny(default=60, grace=0.5)) as outer:
        command = "PYTHONPATH=%s %s inner.py %s; :" % (TOOL.parent, sys.executable, environment)
        result = outer.run(command, cancel=cancelled_when("ready"))
    said = "[command cancelled]\n[command timed out after 0.3s]\n%s\ninner\n"
    assert result.text == said % LONGER_MODES
    assert eventually(lambda: not alive(number_in("stray")) and not alive(number_in("deep")))
    assert eventually(lambda: not carriers(nothing_is_left))


# ---- 021 Sections, the tail, and jobs that a model asks about ------------------------------------------------------
@clause("021.1", saboteur=("parse_arguments", "len(chosen) != 1", "not chosen"))
@given(st.dictionaries(any_of("command", "check_pid", "kill_pid", "timeout"), st.booleans()))
def test_req_bash_021_1_exactly_one_verb(chosen):
    values = {"command": "echo x", "check_pid": 1, "kill_pid": 1, "timeout": 1000}
    arguments = {name: values[name] if has_value else None for name, has_value in chosen.items()}
    verbs = [verb for verb in ("command", "check_pid", "kill_pid") if arguments.get(verb) is not None]
    parsed = bash_tool.parse_arguments(arguments, JOBS)
    if len(verbs) == 1:
        assert isinstance(parsed, bash_tool.Request if verbs == ["command"] else bash_tool.Inquiry)
        assert verbs == ["command"] or parsed.kill == (verbs == ["kill_pid"])
    else:
        assert parsed.report.error == "invalid_arguments"
        assert all('"%s"' % verb in parsed.report.reason for verb in ("command", "check_pid", "kill_pid"))


def sanitised_naively(text):
    """Slow, obvious, independent: a character at a time."""
    out, n = "", 0
    while n < len(text):
        if text.startswith("\x1b[", n):
            end = n + 2
            while end < len(text) and "0" <= text[end] <= "?":
                end += 1
            while end < len(text) and " " <= text[end] <= "/":
                end += 1
            if end < len(text) and "@" <= text[end] <= "~":
                n = end + 1
                continue
        if text.startswith("\x1b]", n):
            end = n + 2
            while end < len(text) and text[end] not in "\x07\x1b\n":
                end += 1
            if text.startswith("\x07", end) or text.startswith("\x1b\\", end):
                n = end + (1 if text[end] == "\x07" else 2)
                continue
        if text[n] >= " " or text[n] in "\t\n\r":
            out += text[n]
        n += 1
    return out.replace("\r\n", "\n")


@clause("021.2", saboteur=("_CONTROLS", "\\x0e-\\x1f", "\\x0d-\\x1f"))
@given(
    st.lists(
        any_of(" ", *"\x1b[ \x1b] 0;1 m K x € \x07 \x1b\\ \x1b \r \n \t \0 \x1f \x7f ? \x1b(B".split(" ")), max_size=14
    ).map("".join)
)
@draws(200)
@example("\x1b[1;31mred\x1b[0m\r\n")
@example("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07")
@example("a\r\x1b[K\nb")
def test_req_bash_021_2_sanitises_to_the_letter(text):
    assert bash_tool.sanitise(text) == sanitised_naively(text)


def tail_naively(data, lines, most, rolling):
    """Slow, obvious, independent: drops lines from the front until the rest fits."""
    kept, cut = data[max(0, len(data) - rolling) :], len(data) > rolling
    if cut:
        kept = re.sub(rb"\A[\x80-\xbf]{1,3}", b"", kept)
    text = bash_tool.sanitise(kept.decode("utf-8", "replace"))
    if text.endswith("\n"):
        text = text[:-1]
    elif not text:
        return "", cut
    parts = text.split("\n")
    if cut and len(parts) > 1:
        parts = parts[1:]
    while len(parts) > lines or (len(parts) > 1 and len("\n".join(parts).encode()) > most):
        parts, cut = parts[1:], True
    text = "\n".join(parts)
    while len(text.encode()) > most:
        text, cut = text[1:], True
    return text, cut


@clause("021.3", saboteur=("keep_tail", "del lines[:1]", "pass"))
def test_req_bash_021_3_the_last_whole_lines():
    assert (JOBS.max_output_lines, JOBS.max_output_bytes, JOBS.rolling_bytes) == (2000, 51200, 102400)
    narrow = dataclasses.replace(JOBS, max_output_bytes=64, rolling_bytes=64)
    split = bash_tool.Captured(b"", "😀".encode()[1:] + b"y" * 61, 65)
    assert bash_tool.keep_tail(split, narrow).text == "y" * 61
    reached = set()

    pieces = ["\n", "a", "é", "€", "bcdefgh", "\n\n", "\x1b[31m", "\r\n", "\udcff", "\udc80"]

    @given(some_bytes(pieces, 40), any_of(1, 3, 50), any_of(3, 10, 20))
    @draws(200)
    @example(b"\x80whole", 50, 10)
    @example(b"xa\n" + b"\x1b[31m" * 3 + b"bcd", 50, 10)  # what is left of the line that was cut would fit
    def agrees_with_the_naive_twin(data, lines, most):
        rolling = 2 * most
        profile = dataclasses.replace(JOBS, max_output_lines=lines, max_output_bytes=most, rolling_bytes=rolling)
        chunks = [data[n : n + 5] for n in range(0, len(data), 5)]
        fitted = bash_tool.keep_tail(kept_of(chunks, 0, rolling, True), profile)
        told = fitted.details
        assert (fitted.text, fitted.cut, fitted.got_bytes) == (*tail_naively(data, lines, most, rolling), len(data))
        assert told["limit"] in ((None,), ("lines", "bytes"))[fitted.cut]
        assert told["total_bytes"] == len(data) and told["output_bytes"] == len(fitted.text.encode())
        assert told["truncated"] == fitted.cut
        text = sanitised_naively(data.decode("utf-8", "replace"))
        exact = text.count("\n") + (text != "" and not text.endswith("\n"))
        # Of a sequence that lost its beginning nobody knows.
        assert abs(told["total_lines"] - exact) <= (len(data) > rolling)
        assert type(told["output_lines"]) is int
        assert told["output_lines"] == fitted.text.count("\n") + 1 or (not fitted.text and told["output_lines"] == 0)
        reached.add((told["limit"], told["last_line_partial"], len(data) > rolling))

    agrees_with_the_naive_twin()
    assert reached >= {(None, False, False), *(("bytes", *both) for both in itertools.product((False, True), repeat=2))}
    assert reached >= {("lines", False, False), ("lines", False, True)}


@clause("021.4", saboteur=("saved_text", "else whole", "else ''"))
def test_req_bash_021_4_a_notice_and_a_file():
    with BashTool(profile=JOBS) as tool:
        result = tool.run("seq -w 9000 >&2; echo on; seq -w 9000 >&2")
        notice = r"(?m)^\[stderr: Showing last 2000 of 18000 lines\. Full output: (.*/pipe-bash-[0-9a-f]+\.log)\]$"
        (path,) = re.findall(notice, result.text)
        assert result.output_file == path and os.path.dirname(path) == os.environ["TMPDIR"]
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        numbers = "".join("%04d\n" % n for n in range(1, 9001))
        # Wherever it came in between, in the middle of a line too.
        assert Path(path).read_text().replace("on\n", "", 1) == 2 * numbers
        result = tool.run("seq 3000")
        assert "[stdout: Showing last 2000 of 3000 lines.]\n" in result.text and result.output_file is None
        result = tool.run("head -c 60000 /dev/zero | tr '\\0' x; echo; echo y; head -c 60000 /dev/zero | tr '\\0' x")
        assert re.search(r"\[stdout: Showing last 51200 bytes of line 3\. Full output: /[^\]]+\]", result.text)
        sizes = {"total_lines": 3, "total_bytes": 120003, "output_lines": 1, "output_bytes": 51200}
        assert result.details["stdout"] == {**sizes, "truncated": True, "limit": "bytes", "last_line_partial": True}
        result = tool.run("head -c 200000 /dev/zero | tr '\\0' x; echo; echo ok")
        assert re.search(r"\nok\n\[stdout: Showing last 1 of 2 lines\. Full output: /", result.text)
        assert not result.details["stdout"]["last_line_partial"]
        result = tool.run("seq 8500; printf '\\033[0m'")
        assert "[stdout: Showing last 2000 of 8500 lines.]" in result.text
        result = tool.run("head -c 51200 /dev/zero | tr '\\0' x")
        assert "Showing" not in result.text and result.output_file is None and len(result.stdout) == 51200

    @few(any_of((1, "stdout"), (2, "stderr")), sizes_about(2000), st.integers(1, 200))
    @example((1, "stdout"), 2001, 1)
    @example((2, "stderr"), 200, 255)
    @example((2, "stderr"), 201, 255)
    def whatever_is_cut(stream, count, width):
        (number, name), line = stream, "x" * width
        size = count * (width + 1)
        result = BashTool(profile=JOBS).run("yes %s | head -n %d >&%d" % (line, count, number))
        notice = re.search(r"^\[%s: Showing last (\d+) of %d lines\.(.*)\]$" % (name, count), result.text, re.MULTILINE)
        if count > 2000 or size > 51201:  # the newline at the end of all is no byte of a line
            assert 51200 // (width + 1) <= int(notice[1]) <= 51201 // (width + 1) or int(notice[1]) == 2000 < count
            assert notice[2] == (" Full output: %s" % result.output_file if size > 51200 else "")
        elif size <= 51200:
            assert notice is None
        assert (result.output_file is not None) == (size > 51200)
        assert result.output_file is None or Path(result.output_file).read_text() == (line + "\n") * count

    whatever_is_cut()
    if WITHOUT != "files" and os.geteuid() == 0:
        with small_disk("small"):
            with BashTool(profile=JOBS, state_dir="small") as tool:
                notice = r"\[stdout: Showing last 2000 of 20000 lines\. Full output file may be incomplete: "
                notice += r"/.*/pipe-bash-\w+\.log \(No space left on device\)\]"
                assert re.search(notice, tool.run("seq -w 20000").text)


@clause("021.5", saboteur=("describe_code", '"%d (%s)" % (code, name) if name else str', "str"))
@few(any_of("", "out\n", "a\n\nb", "\n"), any_of("", "err\n", "x"), any_of(0, 3, 143, 250))
def test_req_bash_021_5_sections(out, err, code):
    with BashTool(profile=JOBS) as tool:
        result = tool.call({"command": "printf %s '{}'; printf %s '{}' >&2; exit {}".format(out, err, code)})
    cut = lambda text: text[:-1] if text.endswith("\n") else text
    assert result.text == sections(cut(out), cut(err), "143 (SIGTERM)" if code == 143 else code)
    assert (result.is_error, result.exit_code, result.stdout, result.stderr) == (code != 0, code, cut(out), cut(err))


@clause("021.6", saboteur=("_job_sections", "stdout, 500", "stdout, 100"))
@fewest(st.lists(st.tuples(sizes_about(500), sizes_about(100)), min_size=2, max_size=5))
def test_req_bash_021_6_goes_to_the_background(outputs):
    assert JOBS.timeouts_s == {"default": 120.0}

    def part(name, count, most):
        heading = name + (" (last %d lines):" % most if count > most else ":")
        return heading + "\n" + "\n".join("%d" % n for n in range(max(1, count - most + 1), count + 1))

    def run(output):
        folder, (out, err) = Path(tempfile.mkdtemp()), output
        with BashTool(folder, profile=keeping()) as tool:
            result = tool.run("echo $$ > me; seq %d; seq %d >&2; %s" % (out, err, NAP))
            pid = number_in(folder / "me")
            assert alive(pid)
            assert (result.status, result.is_error, result.pid, result.exit_code) == ("running", False, pid, None)
            begin = "[Command backgrounded after 1s timeout (pid %d). Partial output:" % pid
            end = "Full output: %s\nUse check_pid or kill_pid to manage.]" % result.output_file
            assert result.text == "\n\n".join([begin, part("stdout", out, 500), part("stderr", err, 100), end])
            assert re.search(r"/pipe-bash-[0-9a-f]+\.log$", result.output_file)
        assert eventually(lambda: not alive(pid))  # it belongs to the conversation

    at_once(run, [(2100, 101), *outputs])


written_lines = st.tuples(any_of(1, 2), any_of("line", "é€😀", "", "x" * 90))


@clause("021.7", saboteur=("Job._next_outcome", "offset + stream.total_bytes", "offset"))
@fewest(st.lists(written_lines, max_size=12), st.lists(written_lines, min_size=1, max_size=12))
def test_req_bash_021_7_only_what_is_new(before, after):
    def writes(lines, pause):
        return ["echo '%d %s' >&%d%s" % (n, word, stream, pause) for n, (stream, word) in lines]

    numbered = list(enumerate(before + after))
    Path("go").unlink() if os.path.exists("go") else None  # of the example before
    script = [*writes(numbered[: len(before)], ""), until("go"), *writes(numbered[len(before) :], "; sleep 0.03")]
    with BashTool(profile=keeping()) as tool:
        result = tool.run("\n".join([*script, "echo end", NAP]))
        parts = re.search(r"stdout:\n(.*?)\n\nstderr:\n(.*?)\n\nFull output", result.text, re.DOTALL).groups()
        seen = [line for part in parts for line in part.split("\n") if line]
        assert sorted(seen) == sorted("%d %s" % (n, word) for n, (_, word) in numbered[: len(before)])
        del seen[:]
        Path("go").touch()

        def check():
            said = r"(?s)\[Process %d still running\.\n\nNew output since last check \((\d+) lines\):\n(.*)\n\nFull output: %s\]"
            said %= (result.pid, re.escape(result.output_file))
            match = re.fullmatch(said, tool.call({"check_pid": result.pid}).text)
            lines = match.group(2).split("\n") if match.group(2) else []
            assert int(match.group(1)) == len(lines)
            seen.extend(lines)
            return "end" in seen

        assert eventually(check)
    assert sorted(seen) == sorted(["end", *("%d %s" % (n, word) for n, (_, word) in numbered[len(before) :])])


@clause(
    "021.8",
    saboteur=(
        "Job._next_outcome",
        "fit_streams(Outcome(report, report.notes, path, self._streams), profile)",
        "Outcome(report)",
    ),
)
def test_req_bash_021_8_the_last_answer():
    def ends(known):
        with BashTool(profile=keeping(0.5)) as tool:
            go = Path(unique())
            result = tool.run(known.held(go))
            go.touch()
            assert tool.job(result.pid).wait(20)
            name = bash_tool.SIGNAL_NAMES.get(known.code - 128)
            code = "%d (%s)" % (known.code, name) if name else str(known.code)
            for _ in range(2):
                last = tool.call({"check_pid": result.pid})
                said = "[Process %d exited with code %s.\n\nstdout%s:\n%s\n\nstderr:\n%s\n\nFull output: %s]"
                shown = (result.pid, code, known.last, known.stdout, known.stderr, result.output_file)
                assert last.text == said % shown
                assert (last.is_error, last.status, last.pid) == (False, "exited", result.pid)
                assert (last.exit_code, last.signal) == (known.code, known.signal)

    @fewest(st.lists(known_commands(pause_s=0.9), min_size=2, max_size=5))
    def whatever_it_did(commands):
        lines = "\n".join(map(str, range(1001, 3001)))
        text = "seq 3000; echo err >&2; sleep 0.9; exit 7"
        at_once(ends, [Known(text, lines, "err", code=7, last=" (last 2000 lines)", seconds=0.9), *commands])

    whatever_it_did()
    with BashTool(profile=keeping()) as tool:
        result = tool.run("trap 'echo bye; exit 0' TERM; echo $$ > me; while :; do sleep 0.1; done")
        last = tool.call({"kill_pid": result.pid})
        assert last.text.startswith("[Process %d exited with code 0.\n\nstdout:\nbye\n\nstderr:\n" % result.pid)
        assert not alive(result.pid)
        result = tool.run(NAP, timeout_s=0.3)
        killed = tool.call({"kill_pid": result.pid}).text
        assert killed.startswith("[Process %d exited with code 143 (SIGTERM).\n" % result.pid)


@clause("021.9", saboteur=("JobTable.get", 'name_jobs(running[-JOBS_NAMED:]) or "none"', '"none"'))
def test_req_bash_021_9_a_number_that_is_no_jobs():
    with BashTool(profile=keeping(0.5)) as tool:
        stranger = subprocess.Popen(lasting("sleep 600").split())
        try:
            pid = tool.run(lasting("sleep 601")).pid
            verbs = ("check_pid", stranger.pid), ("kill_pid", stranger.pid), ("kill_pid", -1), ("kill_pid", "-1")
            for verb, number in verbs:
                result = tool.call({verb: number})
                assert (result.status, result.error, result.is_error) == ("rejected", "no_such_job", True)
                assert result.text.endswith(lasting('; running: %d "sleep 601"]') % pid) and stranger.poll() is None
        finally:
            stranger.kill()
            stranger.wait()


odd_numbers = any_of(86_400_000, 86_400_001, 10**30, True, False, "5 s", 1.5, 2.0, float("nan"), [], {})


@clause("021.10", saboteur=("find_fault", 'schema["minimum"] <=', "-1 <="))
@given(st.integers(-5, 5) | odd_numbers)
def test_req_bash_021_10_milliseconds(value):
    parsed = bash_tool.parse_arguments({"command": "x", "timeout": value}, JOBS)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and 1 <= value <= 86_400_000 and value == int(value):
        assert parsed.timeout_s == value / 1000
    else:
        assert parsed.report.error == "invalid_arguments" and '"timeout" must be' in parsed.report.reason


# ---- 022 Streams as data -------------------------------------------------------------------------------------------
@clause("022.1", saboteur=("stream_fields", ".exit_code", ".exit_code or None"))
@few(any_of("", "out\n", "€"), any_of("", "err"), st.integers(0, 255))
def test_req_bash_022_1_an_object(out, err, code):
    with BashTool(profile=STREAMS) as tool:
        result = tool.call({"command": "printf %s '{}'; printf %s '{}' >&2; exit {}".format(out, err, code)})
    assert json.loads(result.text) == result.details == {"stdout": out, "stderr": err, "exitCode": code}
    assert not result.is_error and result.exit_code == code


@clause("022.2", ("keep_head", "text[: profile.max_output_chars]", "first_bytes(text, profile.max_output_chars)"))
def test_req_bash_022_2_a_head_of_characters():
    assert STREAMS.max_output_chars == 30_000
    reached = set()

    @given(some_bytes([*"aé€😀\0\n\udcff", "\udce2\udc82"], 30), any_of(1, 5, 12))
    @draws(150)
    def agrees_with_the_naive_twin(data, most):
        profile = dataclasses.replace(STREAMS, max_output_chars=most)
        chunks = [data[n : n + 3] for n in range(0, len(data), 3)]
        fitted = profile.truncation.fit(kept_of(chunks, *bash_tool.size_buffers(profile)[:2]), profile)
        text = data.decode("utf-8", "replace").replace("\0", "\ufffd")
        assert fitted.text == (text if len(text) <= most else "".join([text[n] for n in range(most)]) + "\n[truncated]")
        assert fitted.got_bytes == len(data)
        reached.add((fitted.cut, len(text) == most, len(data) > 4 * most + 4))

    agrees_with_the_naive_twin()
    assert {(False, False, False), (False, True, False), (True, False, False), (True, False, True)} <= reached
    with BashTool(profile=STREAMS) as tool:
        result = tool.run("yes | head -c 30000; yes | head -c 30001 >&2")
        out = "y\n" * 15000
        assert json.loads(result.text) == {"stdout": out, "stderr": out + "\n[truncated]", "exitCode": 0}
        assert result.truncated and result.total_bytes == 60001 and result.output_file is None


@clause("022.3", saboteur=("stream_fields", "[:ECHO_CHARS]", ""))
def test_req_bash_022_3_errors_are_not_the_commands():
    profile = dataclasses.replace(STREAMS, timeouts_s={"default": 1.0}, grace_s=0.3)
    long = lasting("touch begun; sleep 600 # ") + "x" * 100
    with BashTool(profile=profile, deny="forbidden") as tool:
        begun = {"stdout": "so far\n", "stderr": "warn\n"}, {"stdout": "", "stderr": ""}
        timed_out = tool.run(lasting("echo so far; echo warn >&2; sleep 600"))
        cancelled = tool.run(long, cancel=cancelled_when("begun"))
        no_shell = BashTool(profile=profile, shell="no-such-shell").run("ls")
        refused = BashTool(profile=profile, confirm=lambda command: False).run("ls")
        cases = [
            *((timed_out, begun[0], "timed out after 1s"), (cancelled, begun[1], "bash '%s': cancelled" % long[:80])),
            (no_shell, {}, "bash 'ls': the shell no-such-shell was not found"),
            (tool.call({"command": "forbidden"}), {}, "Command blocked by safety policy: contains 'forbidden'"),
            (refused, {}, "Command was not confirmed by the user."),
        ]
    for result, streams, error in cases:
        fields = json.loads(result.text)
        assert result.is_error and fields.pop("error").endswith(error) and fields == streams and result.details["error"]

    @fewest(endless_in_each_way())
    def whatever_it_was_doing(commands):
        for known, result in zip(commands, all_cancelled(commands, profile)):
            said = {"stdout": known.stdout + known.last, "stderr": known.stderr}
            assert result.is_error and result.exit_code is None
            assert json.loads(result.text) == {**said, "error": "bash '%s': cancelled" % known.text[:80]}

    whatever_it_was_doing()


# ---- 023 Labels ----------------------------------------------------------------------------------------------------
@clause("023.1", saboteur=("format_labels", ".stderr.text:", ".stdout.text:"))
@few(any_of("", "out\n", "€"), any_of("", "err\n", "x"), any_of(0, 1, 143))
def test_req_bash_023_1_labels(out, err, code):
    with BashTool(profile=GUARDED) as tool:
        result = tool.call({"command": "printf %s '{}'; printf %s '{}' >&2; exit {}".format(out, err, code)})
        said = "STDOUT:\n%s\nSTDERR:\n%s" % (out, err) if err else out
        assert result.text == "Exit code: %d\n%s" % (code, said)
        assert not result.is_error
        if code == 143:
            assert tool.run("kill -9 $$").text == "Exit code: -1\n" and not tool.run("kill -9 $$").is_error


@clause("023.2", ("keep_head", "first_bytes(text, profile.max_output_bytes)", "text[: profile.max_output_bytes]"))
def test_req_bash_023_2_a_head_of_bytes():
    assert GUARDED.max_output_bytes == 256 * 1024
    reached = set()

    @given(some_bytes("aé€😀\0\udcff", 20), any_of(1, 5, 12))
    @draws(150)
    def agrees_with_the_naive_twin(data, most):
        profile = dataclasses.replace(GUARDED, max_output_bytes=most)
        chunks = [data[n : n + 3] for n in range(0, len(data), 3)]
        fitted = profile.truncation.fit(kept_of(chunks, *bash_tool.size_buffers(profile)[:2]), profile)
        text = expected = data.decode("utf-8", "replace").replace("\0", "\ufffd")
        if len(text.encode()) > most:
            while len(expected.encode()) > most:
                expected = expected[:-1]
            expected += "\n... (output truncated)"
        assert fitted.text == expected and fitted.got_bytes == len(data)
        reached.add((fitted.cut, len(data) > most + 4))

    agrees_with_the_naive_twin()
    assert {(False, False), (True, False), (True, True)} <= reached


@clause("023.3", saboteur=("format_labels", '"Cancelled"', '""'))
def test_req_bash_023_3_first_lines():
    profile = dataclasses.replace(GUARDED, timeouts_s={"default": 1.0}, grace_s=0.3)
    asked = []

    def confirm(command):
        asked.append(command)
        return command.endswith("yes")

    with BashTool(profile=profile, deny=["rm -rf", "mkfs"], confirm=confirm) as tool:
        no_shell = BashTool(profile=profile, shell="no-such-shell").run("ls")
        cases = [
            (tool.run(lasting("echo so far; sleep 600; : yes")), "Command timed out after 1s\nso far\n"),
            (tool.call({"command": "rm -rf / no"}), "Command blocked by safety policy: contains 'rm -rf'"),
            (tool.call({"command": "echo no"}), "Command was not confirmed by the user."),
            (no_shell, "Failed to execute: the shell no-such-shell was not found"),
        ]
        for result, text in cases:
            assert (result.text, result.is_error) == (text, True)
        assert "rm -rf / no" not in asked and tool.call({"cmd": "rm -rf"}).error == "invalid_arguments"
        assert len(asked) == 2

    @fewest(endless_in_each_way())
    def whatever_it_was_doing(commands):
        for known, result in zip(commands, all_cancelled(commands, profile)):
            out = known.stdout + known.last
            said = "STDOUT:\n%s\nSTDERR:\n%s" % (out, known.stderr) if known.stderr else out
            assert (result.text, result.is_error) == ("Cancelled\n" + said if said else "Cancelled", True)

    whatever_it_was_doing()


@clause("023.4", saboteur=("plain_code", "or report.signal else", "else"))
@pytest.mark.parametrize("command", ["exit 0", "exit 3", "kill -9 $$", "kill -TERM $$", "exit 137"])
def test_req_bash_023_4_details(command):
    code = int(command.split()[1]) if command.startswith("exit") else -1
    with BashTool(profile=GUARDED) as tool:
        assert tool.run(command).details == {"exit_code": code, "success": code == 0}
        cancel = Cancel()
        cancel.cancel()
        assert tool.run(command, cancel=cancel).details == {"exit_code": -1, "success": False}


# ---- 024 What holds in every profile -------------------------------------------------------------------------------
@clause("024.1", saboteur=("Output.open_pipes", "= stream", "= 0"))
@few(known_commands(most=12))
@example(
    Known(
        "for i in $(seq 300); do echo o$i; echo e$i >&2; done; exec >&-; echo last >&2",
        "".join("o%d\n" % n for n in range(1, 301)),
        "".join("e%d\n" % n for n in range(1, 301)) + "last\n",
    )
)
def test_req_bash_024_1_streams_apart(known):
    for profile in (JOBS, STREAMS, GUARDED):
        result = BashTool(profile=profile).run(known.text)
        cut = 1 if profile is JOBS else 0  # a section loses one newline at its end
        streams = [text[:-1] if cut and text.endswith("\n") else text for text in (known.stdout, known.stderr)]
        assert [result.stdout, result.stderr] == streams and result.exit_code == known.code
        assert result.total_bytes == len((known.stdout + known.stderr).encode())


@clause("024.2", saboteur=("without_nul", '.replace("\\0", "\\ufffd")', ""))
@pytest.mark.parametrize("name", first_of(PROFILES, "modes"))
def test_req_bash_024_2_bounded_and_encodable(name):
    @few(st.binary(max_size=60), st.integers(0, 3), any_of("", " >&2"))
    @example(b"a\0b\xed\xa0\x80\x1b[0m\r\n", 0, "")
    @example(b"x" * 60, 3, " >&2")
    def holds(data, power, where):
        Path("data").write_bytes(data * 10 ** (2 * power) if data else b"")
        with BashTool(profile=PROFILES[name]) as tool:
            result = tool.run("cat data%s; exit 3" % where)
            assert (result.status, result.exit_code, result.total_bytes) == ("exited", 3, os.path.getsize("data"))
            assert len(result.text.encode("utf-8")) < 600_000 and "\0" not in result.text
            assert json.loads(json.dumps(result.to_dict()))["text"] == result.text

    holds()


@clause("024.3", saboteur=("_SEQUENCE", "[^\\x07\\x1b\\n]*", "[^\\n]*?"))
@pytest.mark.parametrize("name", PROFILES)
def test_req_bash_024_3_linear_time(name):
    wide = dict.fromkeys(["max_output_bytes", "rolling_bytes", "max_output_chars"], 8 << 20)
    wide["max_output_lines"] = 10**7
    used = PROFILES[name].truncation.limits
    profile = dataclasses.replace(PROFILES[name], **{limit: most for limit, most in wide.items() if limit in used})

    def seconds(data):
        begun = time.process_time()
        profile.truncation.fit(bash_tool.Captured(data, b"", len(data), data.count(b"\n")), profile)
        return time.process_time() - begun

    size = 1 << 20 if THOROUGH else 1 << 18  # what is quadratic takes a minute for 256 KiB, the limit is some seconds
    plain = max(min(seconds(b"a" * size) for _ in range(3)), 0.005)
    worst_ones = b"\x1b] \x1b[ \x1b[0 \x1b \r \xff \n \x1b]0;\x1b a\r \x9b0 \x1b[1; \0 \xe2\x82".split(b" ")
    for worst in [*worst_ones, b" \r\n"]:
        assert any(seconds((worst * (size // len(worst) + 1))[:size]) < 250 * plain + 0.5 for _ in range(2)), worst


BLANKS = [b"", b" ", b"\n", b" \n\t\n ", b"\0", b"\x1b[2J\x1b[H", b"\r", "\u00a0\u2003\u2028\u3000".encode()]


@clause("024.4", saboteur=("present", ".strip():", ":"))
@pytest.mark.parametrize("name", first_of(PROFILES, "modes"))
def test_req_bash_024_4_no_answer_is_blank(name):
    blank = st.text(any_of(*" \t\n\r\v\f\0\x1c\x1f\x85\u00a0\u2003\u2028\u3000"), max_size=6)

    @draws(12)
    @given(blank.map(str.encode))
    def adds_a_line(data):
        Path("data").write_bytes(data)
        result = tool.run("cat data")
        output = bash_tool.render(data.decode()) if name == "modes" else data.decode().replace("\0", "\ufffd")
        assert result.text.strip() and (result.exit_code, result.is_error) == (0, False)
        assert result.stdout == output or name == "jobs"
        if name == "modes":
            ended = not output or output.endswith("\n")
            expected = output if output.strip() else output + ("" if ended else "\n") + "[no output]\n"
            assert (result.text, result.stdout) == (expected, output), data
        assert tool.run("cat data >&2; exit 3").text.strip()

    for data in BLANKS + [b"x", b" x", b"\nx\n", b"[no output]"]:
        adds_a_line = example(data)(adds_a_line)
    with BashTool(profile=PROFILES[name]) as tool:
        adds_a_line()
    with Client(profile=name) as client:
        for number, data in enumerate(BLANKS, 1):
            Path("data").write_bytes(data)
            answer = client.ask("tools/call", name="bash", arguments={"command": "cat data"})["result"]
            assert all(part["text"].strip() for part in answer["content"]) and not answer["isError"]


@clause("024.5", saboteur=("present", '"[no output]\\n"', '"[no output]"'))
@fewest(known_commands())
def test_req_bash_024_5_texts_end_alike(known):
    row = tiny(default=0.5, grace=0.2, max_output_bytes=2000, snip_size=50)
    with BashTool(profile=row, deny="not this", ephemeral=True) as tool:
        end = "\n" if not known.merged.strip() else known.merged[-1:]
        assert tool.run(known.text).text[-1:] == end or known.merged not in tool.run(known.text).text
        shell, used = BashTool(shell="no-such-shell"), Cancel()
        used.cancel()
        answers = [tool.run(command) for command in ("not this", "true", "exit 3", "seq 1000", lasting("sleep 600"))]
        answers += [tool.call({"cmd": "ls"}), shell.run("ls"), tool.run("ls", cancel=used), tool.run("ls", cwd="/none")]
        with long_look():
            answers += [tool.run(command, mode="background") for command in ("true", "false")]
        answers.append(tool.run(lasting("sleep 600"), mode="background"))
        assert len({result.status for result in answers}) == 6
        assert [result.text[-2:] for result in answers[:-1]] == ["]\n"] * 10 + ["/output_file>\n"[-2:]]
        assert answers[-1].text.endswith("</reminder>\n")


# ---- 025 The Model Context Protocol --------------------------------------------------------------------------------
VERSION = "io.modelcontextprotocol/protocolVersion"
DEFINITION = bash_tool.BashTool("/").definition("mcp")


def peak_bytes(pid):
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/%d/status" % pid).read_text()).group(1))


@clause("025.1", saboteur=("result_message", '"resultType": "complete",', ""))
@pytest.mark.parametrize("method", ["server/discover", "tools/list", "ping", "tools/call"])
def test_req_bash_025_1_both_eras(method):
    params = {"name": "bash", "arguments": {"command": "x"}} if method == "tools/call" else {}
    for version in ("2026-07-28", None):
        meta = {"_meta": {VERSION: version}} if version else {}
        answer = bash_tool.handle(request(method, "i", **params, **meta), DEFINITION)
        if method == "tools/call":
            assert answer == ("i", {"command": "x"}, None, version is not None)
            answer = bash_tool.call_message(answer, bash_tool.Result("text", False, "exited"), False)
        stateless = version is not None or method == "server/discover"  # which a handshake does not know
        assert answer["jsonrpc"] == "2.0" and answer["id"] == "i"
        assert (answer["result"].get("resultType") == "complete") == stateless == ("_meta" in answer["result"])
        if stateless:
            info = {"name": "bash_tool", "version": bash_tool.__version__}
            assert answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"] == info
        if method == "tools/list":
            assert answer["result"]["tools"] == [DEFINITION]
            assert ("ttlMs" in answer["result"]) == ("cacheScope" in answer["result"]) == stateless


@clause("025.2", saboteur=("_handle_request", "version not in (None, *STATELESS_VERSIONS)", "False"))
@given(
    st.text(max_size=12).filter(lambda text: text not in bash_tool.STATELESS_VERSIONS)
    | any_of("2025-11-25", "2026-07-29"),
    any_of("tools/list", "ping", "tools/call", "server/discover", "x"),
)
def test_req_bash_025_2_unknown_versions(version, method):
    error = bash_tool.handle(request(method, _meta={VERSION: version}), DEFINITION)["error"]
    supported = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
    assert error["code"] == -32022 and error["message"]
    assert error["data"] == {"requested": version, "supported": supported}


@clause(
    "025.3",
    saboteur=("_handle_request", "asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS", "HANDSHAKE_VERSIONS"),
)
@given(
    any_of("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "", None, 7, [])
    | st.text(max_size=12),
    st.booleans(),
)
def test_req_bash_025_3_handshake(version, enveloped):
    meta = {"_meta": {VERSION: "2026-07-28"}} if enveloped else {}
    known = version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
    answer = bash_tool.handle(request("initialize", protocolVersion=version, capabilities={}, **meta), DEFINITION)
    assert answer["result"] == {
        "protocolVersion": version if known else "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bash_tool", "version": bash_tool.__version__},
    }


@clause("025.4", saboteur=("call_message", "result.is_error", "False"))
@pytest.mark.parametrize("name", first_of(PROFILES, "modes"))
def test_req_bash_025_4_the_same_text(name):
    limit = {"default": 3, "grace_s": 0.3}
    row, marks = tiny(3, 0.3, PROFILES[name]), set()
    with (
        Client("--deny", "forbidden", profile=name, timeouts=limit) as client,
        BashTool(profile=row, deny="forbidden") as tool,
        ThreadPoolExecutor(1) as pool,
    ):

        def say_the_same(arguments):
            there = pool.submit(client.ask, "tools/call", name="bash", arguments=arguments)
            here, got = tool.call(arguments), there.result()["result"]
            assert (got["content"], got["isError"]) == ([{"type": "text", "text": here.text}], here.is_error)
            marks.add(here.is_error)

        commands = ["echo out; echo é >&2", "exit 3", "printf '\\377\\0'", "no-such-command", 7, "echo forbidden"]
        commands += ["x\0", "x\ud800"]
        last = {"command": lasting("echo on; exec sleep 600")} if name != "jobs" else {"check_pid": 4}
        for arguments in (*({"command": command} for command in commands), {}, {"cmd": "ls"}, last):
            say_the_same(arguments)
        assert marks == {True, False}
        few(given(known_commands().map(lambda known: {"command": known.text}))(say_the_same))()
        values = st.none() | st.booleans() | st.integers() | st.text(max_size=9)
        few(given(st.dictionaries(st.text(max_size=9), values, max_size=2))(say_the_same))()


@clause("025.5", saboteur=("_handle_request", 'name == tool["name"]', "name"))
@given(st.text(max_size=20), json_values())
def test_req_bash_025_5_the_client_is_wrong(word, value):
    def code(message):
        answer = bash_tool.handle(message, DEFINITION)
        return answer["error"]["code"] if isinstance(answer, dict) and "error" in answer else None

    def wrong(is_right):
        return None if is_right else -32602

    known = ("initialize", "server/discover", "ping", "tools/list", "tools/call")
    assert code(request(word)) == (None if word in known else -32601)
    for name in word, value:
        assert code(request("tools/call", name=name, arguments={"command": "x"})) == wrong(name == "bash")
    is_object = value is None or isinstance(value, dict)
    assert code(request("tools/call", name="bash", arguments=value)) == wrong(is_object)
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": value}
    assert code(listing) == wrong(is_object and (value or {}).get("_meta") is None)
    is_whole = isinstance(value, float) and value.is_integer() or isinstance(value, int) and not isinstance(value, bool)
    token = value is None or isinstance(value, str) or is_whole
    assert code(request("tools/call", name="bash", _meta={"progressToken": value})) == wrong(token)
    assert code(request("ping", _meta={VERSION: 20260728})) == -32602
    refusal = bash_tool.handle(request("tools/call", name="zsh"), DEFINITION)["error"]["message"]
    assert refusal == "tools/call takes the tool 'bash', got 'zsh'"


@pytest.mark.parametrize("name", first_of(PROFILES, "modes"))
@clause("025.6", saboteur=("call_message", 'OUTPUT_SCHEMA["required"]', "result.to_dict()"))
def test_req_bash_025_6_structured_content(name):
    background = [{"command": lasting("echo up; sleep 600"), "mode": "background"}] if name == "modes" else []
    with Client(profile=name, timeouts={"default": 0.5, "grace_s": 0.3}, structured=True) as client:
        schema, seen = client.ask("tools/list")["result"]["tools"][0]["outputSchema"], set()
        pids = []
        commands = ["echo hi", "kill -9 $$", "seq 100000", lasting("sleep 600"), 1]
        for arguments in [*({"command": command} for command in commands), *background]:
            result = client.ask("tools/call", name="bash", arguments=arguments)["result"]
            content = result["structuredContent"]
            assert fits(content, schema) and content["text"] == result["content"][0]["text"]
            seen.add(content["status"])
            pids += [content["pid"]] if content["pid"] else []

        @few(known_commands())
        def whatever_is_run(known):
            result = patient.call(known.text)
            content = result["structuredContent"]
            assert fits(content, schema) and content["text"] == result["content"][0]["text"]
            assert (content["status"], content["exit_code"]) == ("exited", known.code)

        with Client(profile=name, structured=True) as patient:
            whatever_is_run()
        if name == "jobs":
            for verb in ("check_pid", "kill_pid"):
                answer = client.ask("tools/call", name="bash", arguments={verb: pids[0]})
                content = answer["result"]["structuredContent"]
                assert fits(content, schema) and content["pid"] == pids[0]
        limited = "running" if name == "jobs" else "timed_out"
        assert seen == {"exited", "rejected", limited, *(["running"] if background else [])}
    for pid in pids if background else ():
        os.killpg(pid, signal.SIGKILL)


@clause("025.7", saboteur=("Server._start_call", "True).start(", "True).run("))
def test_req_bash_025_7_calls_run_concurrently():
    numbers = itertools.count()
    os.mkfifo("nap")
    nap = "read -t 0.1 <>nap"  # sleeps without a process

    @fewest(st.integers(2, 49), any_of("ping", "tools/list"), known_commands(signals=[]))
    @example(49, "ping", Known("echo last", merged="last\n"))
    def whatever_runs(count, method, known):
        go = "go-%d" % next(numbers)
        calls = {client.begin("until [ -e %s ]; do %s; done; echo %d" % (go, nap, n)): n for n in range(count)}
        assert "result" in client.ask(method)
        last = client.begin("touch %s\n%s" % (go, known.text))
        received = [client.receive() for _ in range(count + 1)]
        answers = {answer["id"]: answer["result"]["content"][0]["text"] for answer in received}
        assert answers.pop(last).endswith(known.merged) and answers == {id_: "%d\n" % n for id_, n in calls.items()}

    with Client(timeouts={"default": 8}) as client:
        whatever_runs()


@clause("025.8", saboteur=("Server._handle_line", "underway.cancel.cancel()", "pass"))
def test_req_bash_025_8_a_withdrawn_call():
    def until(id_):
        messages = []
        while not messages or messages[-1].get("id") != id_:
            messages.append(client.receive())
        assert all(message["method"] == "notifications/progress" for message in messages[:-1])
        return messages[:-1]

    with Client(timeouts={"grace_s": 0.5}) as client:
        kept = client.begin("echo $$ > kept; until [ -e go ]; do sleep 0.1; done; echo kept")
        endless = "trap '' TERM; echo $$ > c%d; while :; do echo x; sleep 0.1; done"
        calls = {n: client.begin(endless % n, token=n) for n in range(3)}
        pids = {n: number_in(Path("c%d" % n)) for n in calls}
        for n, id_ in calls.items():
            client.cancel(id_)
            assert eventually(lambda: not alive(pids[n])) and alive(number_in(Path("kept")))
            assert all(alive(pids[m]) for m in pids if m > n)
            until(client.request("ping"))  # what was on its way
            told, others = set(), {m for m in calls if m > n}

            def are_told():
                notes = until(client.request("tools/call", name="bash", arguments={"command": "sleep 0.5"}))
                told.update(note["params"]["progressToken"] for note in notes)
                return told >= others

            assert eventually(are_told) and told == others
        client.cancel(12345)
        Path("go").touch()
        answer = client.receive()
        assert answer["id"] == kept and answer["result"]["content"][0]["text"] == "kept\n"
        client.cancel(kept)  # too late
        client.ask("ping")


@clause("025.9", saboteur=("Server.serve", "is_told or monotonic() > ended_at + GOODBYE_S", "False"))
@pytest.mark.parametrize("goodbye", first_of(["EOF", "close", "TERM", "HUP"], "EOF"))
def test_req_bash_025_9_goodbye(goodbye):
    with Client(timeouts={"grace_s": 60}) as client:
        jobs = [client.start(lasting("sleep 600"))]
        for n in range(3):
            client.begin(lasting("echo $$ > c%d; sleep 600 & setsid sleep 600 & sleep 600") % n)
        client.begin("trap '' TERM; echo $$ > deaf; while :; do sleep 0.1; done")
        pids, deaf = [number_in(Path("c%d" % n)) for n in range(3)], number_in(Path("deaf"))
        if goodbye == "close":  # both ends, as when the client dies
            client.process.stdin.close()
            client.process.stdout.close()
        elif goodbye == "EOF":
            client.process.stdin.close()
        else:
            client.process.send_signal(getattr(signal, "SIG" + goodbye))
        assert eventually(lambda: not any(map(alive, pids)))
        assert alive(deaf)
        # The grace would be a minute. 025.26: soon after the end of the input TERM is no second stop.
        # None is sent once the command is gone: one that strikes while Python ends would kill the server.
        assert eventually(lambda: not alive(deaf) or client.process.send_signal(signal.SIGTERM))
        assert client.process.wait(timeout=PATIENCE_S) == 0 and all(map(alive, jobs))
        for job in jobs:
            os.killpg(job, signal.SIGKILL)


@clause("025.22", saboteur=("Server._run_once", "number == signal.SIGINT and not os.isatty(_STDIN_FD)", "False"))
def test_req_bash_025_22_an_interrupt_cancels():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background was started to ignore it
    with Client(timeouts={"grace_s": 60}) as client:
        job = client.start(lasting("sleep 600"))
        command = lasting("echo begun; echo $$ > c%d; sleep 600 & setsid sleep 600 & sleep 600")
        for count in (1, 3, 0):
            calls = {client.begin(command % n) for n in range(count)}
            pids = [number_in(Path("c%d" % n)) for n in range(count)]
            client.process.send_signal(signal.SIGINT)
            for _ in calls:
                answer = client.receive()
                assert answer["id"] in calls and answer["result"]["isError"] is True
                assert answer["result"]["content"][0]["text"].startswith("[command cancelled]\nbegun\n")
            if not calls:
                time.sleep(0.2)  # the kernel may hand a signal to a thread that gets to run after the next message
            assert not any(map(alive, pids)) and client.said("echo on") == "on\n"
            for n in range(count):
                os.unlink("c%d" % n)
        number = client.begin("trap 'echo > heard' TERM; echo $$ > deaf; while :; do sleep 0.1; done")
        deaf = number_in(Path("deaf"))
        client.process.send_signal(signal.SIGINT)
        assert eventually(Path("heard").exists) and alive(deaf)
        client.process.send_signal(signal.SIGINT)  # the grace would be a minute
        assert client.receive()["id"] == number and not alive(deaf)
        withdrawn = client.begin("trap '' TERM; echo $$ > gone; while :; do sleep 0.1; done")
        gone = number_in(Path("gone"))
        client.cancel(withdrawn)
        client.ask("ping")
        client.process.send_signal(signal.SIGINT)
        assert eventually(lambda: not alive(gone)) and client.ask("ping") is not None  # and no word of it
        assert alive(job) and client.end() == 0 and alive(job)
        os.killpg(job, signal.SIGKILL)


@fault("req_bash_025_23", saboteur=("Server._run_call", "except BaseException as bug", "except Exception as bug"))
@clause("025.23", saboteur=("serve", "signal.set_wakeup_fd(before)", "pass"))
def test_req_bash_025_23_serves_a_tool_of_the_programs_own():
    program = """
        import os, signal, sys
        from bash_tool import BashTool, MODES, serve
        ours, number = os.pipe()[1], getattr(signal, sys.argv[1])
        os.set_blocking(ours, False)
        signal.set_wakeup_fd(ours)
        for handled in (number, signal.SIGUSR1):
            signal.signal(handled, lambda *_: None)
        before = signal.getsignal(number)
        answers = {"yes": True, "no": False}
        def confirm(command):
            return sys.exit(3) if command.endswith("exit") else answers[command.split()[-1]]
        tool = BashTool(deny="never", carry=True, confirm=confirm)
        serve(tool, structured=True)
        closed = tool.run("ls").error
        print(closed, signal.getsignal(number) is before, signal.set_wakeup_fd(-1) == ours, file=sys.stderr, flush=True)
    """
    for name in ("SIGTERM", "SIGHUP"):
        words = [sys.executable, "-c", textwrap.dedent(program), name]
        with Client(command=words, env=dict(os.environ, PYTHONPATH=str(TOOL.parent))) as client:
            assert "carried" not in json.dumps(client.ask("tools/list")) and client.call("cd /; export A=1; : yes")
            assert client.call("echo $PWD $A yes")["structuredContent"]["text"] == "/ 1 yes\n"
            assert client.call("touch made; : no")["structuredContent"]["error"] == "not_confirmed"
            client.process.send_signal(signal.SIGUSR1)  # the program's own business
            assert client.call("never yes")["structuredContent"]["error"] == "denied"
            for command in ("touch made; : neither", "touch made; : exit"):
                problem = client.ask("tools/call", name="bash", arguments={"command": command})["error"]
                assert problem["code"] == -32603 and problem["message"].startswith("internal error: ")
            client.process.send_signal(getattr(signal, name)) if name == "SIGTERM" else client.process.stdin.close()
            assert client.ended() == 0 and client.complaints() == "closed True True\n"
    with Client("--carry") as client:
        client.call("cd /; export A=1")
        assert client.call("echo $PWD $A")["content"][0]["text"] == "/ 1\n"
    assert not os.path.exists("made") and cli("--carry", ":").returncode == 125


BOM = b"\xef\xbb\xbf"


@clause("025.24", saboteur=("Server._handle_line", ".removeprefix(codecs.BOM_UTF8)", ""))
@fewer(st.integers(0, 2), any_of(b"", b"\r"))
@example(0, b"")
def test_req_bash_025_24_a_byte_order_mark(blanks, end):
    with Client() as client:
        client.send(*[BOM + end] * bool(blanks), *[b""] * blanks)
        client.send((b"" if blanks else BOM) + json.dumps(request("ping", "a")).encode() + end)
        assert client.receive() == {"jsonrpc": "2.0", "id": "a", "result": {}}
        client.send(b'{"jsonrpc": "2.0", ' + BOM + b'"id": 1}')
        assert client.receive()["error"]["code"] == -32700 and client.call("echo hi")


@clause("025.25", saboteur=("LAST_CALLS_S", "1.0", "0.1"))
@fewer(known_commands(signals=[]), any_of(0, 0.3))
@example(Known("echo last; exit 3", merged="last\n", code=3), 0.4)
def test_req_bash_025_25_what_ends_soon_is_answered(known, pause_s):
    def are_answered():  # the second is short for a busy machine
        with Client() as client:
            numbers = [client.begin("sleep %s\n%s" % (pause_s, known.text), token="t") for _ in range(3)]
            client.begin(lasting("echo $$ > shell; sleep 600"))
            pid = number_in(Path("shell"))
            client.process.stdin.close()
            answers = [message for message in iter(client.receive, None) if "id" in message]
            assert client.ended() == 0 and not alive(pid)
        os.remove("shell")
        assert all(answer["result"]["content"][0]["text"].endswith(known.merged) for answer in answers)
        return sorted(answer["id"] for answer in answers) == numbers

    assert eventually(are_answered)


@clause("025.26", saboteur=("Server.serve", "if not underway.answer:", "if False:"))
@pytest.mark.parametrize("goodbye", first_of(["EOF", "EOF, TERM", "TERM, EOF"], "EOF"))
def test_req_bash_025_26_the_late_are_not_answered(goodbye):
    # They have the whole grace, whatever the client sends in the next 2.5 s; the SDKs send TERM after 2 s. TERM ends
    # the second of 025.25. Where it came first the answers are due as ever.
    with Client("--log", "log", timeouts={"grace_s": 60}) as client:
        polite = "trap 'echo >told%d; sleep 1.2; echo >cleaned%d; exit' TERM; echo $$ >shell%d; sleep 600 & wait"
        numbers = [client.begin(lasting(polite % (n, n, n)), token=n) for n in range(3)]
        pids, begun = [number_in(Path("shell%d" % n)) for n in range(3)], time.monotonic()
        for end in goodbye.split(", "):
            client.process.stdin.close() if end == "EOF" else client.process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
        assert eventually(lambda: os.path.exists("told0"), within_s=0.9 if "TERM" in goodbye else 9)
        client.process.send_signal(signal.SIGHUP) if goodbye == "EOF" else None
        rest = iter(client.receive, None)
        answered = [message["id"] for message in rest if "id" in message]
        assert client.ended() == 0 and sorted(answered) == (numbers if goodbye == "TERM, EOF" else [])
        took_s = time.monotonic() - begun
        assert all(os.path.exists("cleaned%d" % n) for n in range(3)) and not any(map(alive, pids))
        assert took_s > (2.2 if goodbye == "EOF" else 1.2)
        assert Path("log").read_text().count("cancelled") == 3


live_pieces = st.tuples(any_of("out", "é", "x" * 3000, "a\nb\n"), any_of(0, 0.15))


@clause("025.10", saboteur=("CallUnderway.progress", "._progress +", "._progress "))
@fewer(st.lists(live_pieces, min_size=2, max_size=4))
def test_req_bash_025_10_live_output(writes):
    command = "; ".join("printf %%s %s; sleep %g" % (shlex.quote(text), pause) for text, pause in writes)
    with Client() as client:
        for token in ("token", 0, None):
            id_, told = client.begin(command, token), []
            message = client.receive()
            while "id" not in message:
                assert message["method"] == "notifications/progress" and message["params"]["progressToken"] == token
                told.append(message["params"])
                message = client.receive()
            assert message["id"] == id_
            assert [note["progress"] for note in told] == sorted({note["progress"] for note in told})
            written = "" if token is None else "".join(text for text, _ in writes)
            assert "".join(note["message"] for note in told) == written


@clause("025.11", saboteur=("CallUnderway.heartbeat_at", "+ HEARTBEAT_S", "+ HEARTBEAT_S * 9"))
def test_req_bash_025_11_heartbeat():
    assert bash_tool.HEARTBEAT_S == 10
    with Client(module=variant_module(HEARTBEAT_S="0.6"), timeouts={"grace_s": 3}) as client:
        begun = time.monotonic()
        client.begin("sleep 2.1", token="t")
        notes = []
        while "id" not in (message := client.receive()):
            notes.append((message["params"]["progress"], message["params"]["message"]))
        most = (time.monotonic() - begun) / 0.6  # a busy machine takes longer, and hears more of it
        assert 2 <= len(notes) <= most and [n for n, _ in notes] == list(range(1, len(notes) + 1))
        assert all(re.fullmatch(r"\[still running after [0-9]+s\]", text) for _, text in notes)
        asked_at, pieces = time.time(), []
        client.begin("for i in 1 2 3 4 5 6 7 8; do echo $EPOCHREALTIME; sleep 0.1; done", token="t")
        while "id" not in (message := client.receive()):
            pieces.append(message["params"]["message"])
        output = [piece for piece in pieces if not piece.startswith("[still running")]
        times = [asked_at, *map(float, re.findall(r"(?m)^\d+\.\d+$", "".join(output)))]
        # None while output comes: only a busy machine has a pause that is so long.
        assert len(times) == 9 and (output == pieces or max(b - a for a, b in zip(times, times[1:])) > 0.3), pieces
        withdrawn = client.begin("trap '' TERM; echo $$ > deaf; while :; do sleep 0.1; done", token="t")
        number_in(Path("deaf"))
        client.cancel(withdrawn)
        client.request("ping")
        while "id" not in client.receive():
            pass  # what was on its way
        # ... and no word of it any more.
        assert client.said("sleep 1.5") == "[no output]\n" and alive(number_in("deaf"))
        assert client.call("sleep 1")["isError"] is False  # nobody asked: the answer is the next message


def messages():
    """By its kind: what is a request, and what is nearly one."""
    junk = json_values().filter(lambda value: not re.search("NaN|Infinity", json.dumps(value)))
    ids = st.integers() | st.text(max_size=4) | st.integers(-99, 99).map(float)
    no_ids = any_of(None, True, 1.5, [1], {"id": 1})
    names = ["ping", "tools/list", "tools/call", "server/discover", "notifications/cancelled", "x", ""]
    methods, no_methods = any_of(*names), junk.filter(lambda value: not isinstance(value, str))
    members = {"name": st.just("zsh") | junk, "arguments": junk, "_meta": junk, "requestId": junk}
    params = {"params": st.fixed_dictionaries({}, optional=members) | junk}

    def with_members(version="2.0", **needed):
        return st.fixed_dictionaries({"jsonrpc": st.just(version), **needed}, optional=params)

    request, notification = with_members(id=ids, method=methods), with_members(method=methods)
    answer = with_members(result=junk) | st.fixed_dictionaries({"result": junk, "id": ids})
    with_an_id = [with_members(version, id=ids, method=methods) for version in ("1.0", 2, None)]
    with_an_id += [with_members(id=ids, method=no_methods), with_members(id=ids)]
    without = [junk.filter(lambda value: not isinstance(value, dict)), with_members(id=no_ids, method=methods)]
    without += [with_members("1.0", method=methods), with_members(), st.just({})]
    known = {"request": request, "notification": notification, "answer": answer}
    return {**known, "none, with an id": st.one_of(with_an_id), "none": st.one_of(without)}


@clause("025.12", saboteur=("handle", 'message.get("jsonrpc") != "2.0"', "False"))
def test_req_bash_025_12_no_request():
    for kind, drawn in messages().items():

        @given(drawn)
        @draws(30)
        def is_answered(message):
            answer = bash_tool.handle(message, DEFINITION)
            json.loads(json.dumps(answer))
            if kind == "answer":
                assert answer is None
            elif kind == "notification":
                assert answer is None or isinstance(answer, bash_tool.Withdrawal)
            elif kind == "request":
                assert answer["id"] == message["id"] and ("result" in answer) != ("error" in answer)
                assert answer.get("error", {}).get("code") != -32600
            else:
                id_ = message["id"] if kind == "none, with an id" else None
                assert (answer["error"]["code"], answer["id"]) == (-32600, id_)

        is_answered()
    garbage = [b"{nope", b"\xff\xfe", b"[" * 100000, b"NaN", b"'ping'", b"\0"]
    if hasattr(sys, "get_int_max_str_digits"):  # 3.9.14 and later take no longer numbers
        garbage.append(b'{"id": ' + b"9" * 5000 + b"}")
    garbage += [b'{"jsonrpc": "2.0", "id": 1, "method": "ping"', "{}".encode("utf-16")]
    with Client(stderr=subprocess.PIPE) as client:
        for line in [*garbage, b'{"a": Infinity}']:
            client.send(line)
            error = client.receive()
            assert (error["error"]["code"], error["id"]) == (-32700, None), (line, error)
            assert error["error"]["message"].isprintable(), (line, error)
        client.send(b"", b"  \r")  # are nothing
        client.send(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\r')
        assert client.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert client.shown("printf '\\303\\251\\342\\200\\250'") == "é\u2028"
        assert client.end() == 0 and client.process.stderr.read() == b""
        client.process.stderr.close()


@clause("025.13", saboteur=("Server._handle_line", "isinstance(message, list) and message", "False"))
@few(st.lists(st.one_of(*messages().values()).filter(lambda message: message != []), min_size=1, max_size=6))
def test_req_bash_025_13_batches(messages):
    answers = [bash_tool.handle(message, DEFINITION) for message in messages]
    alone = [answer for answer in answers if isinstance(answer, dict)]
    with Client() as client:
        client.send(messages)
        tools = [answer for answer in alone if "tools" in answer.get("result", ())]
        for expected in alone:
            got = client.receive()
            is_alike = got["id"] == expected["id"] and expected in tools  # it names another directory
            assert is_alike or got == json.loads(json.dumps(expected))
        client.send([])
        assert client.receive()["error"]["code"] == -32600


@clause("025.14", saboteur=("Server._read", "del self._line[MAX_MESSAGE_BYTES + 1 :]", "pass"))
def test_req_bash_025_14_endless_lines():
    most = bash_tool.MAX_MESSAGE_BYTES
    assert most == 16 * 1024 * 1024
    with Client() as client:
        padded = dict(command="true", description="")  # which is ignored, and costs the shell nothing
        room = most - len(json.dumps(request("tools/call", name="bash", arguments=padded, id_=1)))
        padded["description"] = "x" * room
        client.send(request("tools/call", 1, name="bash", arguments=padded))  # just fits
        assert client.receive()["result"]["isError"] is False
        before = peak_bytes(client.process.pid)
        padded["description"] = "x" * (room - 2)
        client.send(request("tools/call", "id", name="bash", arguments=padded))
        answer = client.receive()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600) and "16MB" in answer["error"]["message"]
        for _ in range(48):
            client.process.stdin.write(b"x" * 2**20)
        client.send(b"")
        answer = client.receive()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600) and client.ask("ping")
        assert peak_bytes(client.process.pid) - before < 8 * 2**20


@clause("025.15", saboteur=("OUTBOX_MESSAGES", "OUTBOX_MESSAGES = 32", "OUTBOX_MESSAGES = 10 ** 9"))
def test_req_bash_025_15_a_client_that_stops_reading():
    with Client(timeouts={"default": 1.0, "grace_s": 0.3}) as client:
        for n in range(2):
            client.begin("echo $$ > c%d; yes" % n, token=n)
        pids = [number_in(Path("c%d" % n)) for n in range(2)]
        assert eventually(lambda: not any(map(alive, pids)))
        stdin, sent, line = client.process.stdin.fileno(), 0, json.dumps(request("ping", "x" * 4000)).encode() + b"\n"
        os.set_blocking(stdin, False)
        while sent < 32 * 2**20 and select.select([], [stdin], [], 2.0)[1]:
            sent += os.write(stdin, (line * 16)[sent % len(line) :])
        assert sent < 2**20, "it went on reading"
        assert client.end() == 0
    with Client() as client:  # not even the end of its input is seen here, but that nobody will ever read
        client.begin("echo $$ > shell; yes", token=1)
        pid = number_in(Path("shell"))
        client.process.stdout.close()
        assert eventually(lambda: not alive(pid)) and client.process.wait(timeout=PATIENCE_S) == 0


@clause("025.16", saboteur=("_start_python", "stdout=subprocess.DEVNULL", "stdout=None"))
def test_req_bash_025_16_descriptors_of_the_wire(nothing_is_left):
    with Client() as client:
        wire = {os.readlink("/proc/%d/fd/%d" % (client.process.pid, fd)) for fd in (0, 1)}
        jobs = [client.start(lasting("echo $$ > group; sleep 600"))]
        client.call(lasting("sleep 600 & disown; echo left"))
        client.begin(lasting("echo $$ > shell; sleep 600"))
        number_in(Path("shell"))
        holders = []
        for pid in set(processes()) - {client.process.pid}:
            with contextlib.suppress(OSError):
                folder = "/proc/%d/fd/" % pid
                holders += [pid for fd in os.listdir(folder) if os.readlink(folder + fd) in wire]
        assert len(wire) == 2 and not holders, [of_proc(pid, "cmdline") for pid in holders]
        client.process.stdin.close()
        while client.receive():
            pass  # ends although the job lives on
        assert all(map(alive, jobs))
        for job in jobs:
            os.killpg(job, signal.SIGKILL)


@clause("025.17", saboteur=("Server._start_call", "call.id in self._calls", "False"))
def test_req_bash_025_17_an_id_in_use():
    numbers = itertools.count()
    ids = st.integers(-(2**53), 2**53) | st.text(max_size=8) | st.integers(0, 99).map(str)

    @few(st.lists(ids, min_size=1, max_size=3, unique_by=lambda id_: (type(id_), id_)))
    @example([5, "5"])  # these are two
    def is_refused(ids):
        go = "go-%d" % next(numbers)

        def call(id_, command):
            client.send(request("tools/call", id_, name="bash", arguments={"command": command}))

        for id_ in ids:
            call(id_, "until [ -e %s ]; do sleep 0.1; done; echo first" % go)
        for id_ in [*ids, *(float(id_) for id_ in ids if isinstance(id_, int))]:
            call(id_, "echo second")
            answer = client.receive()
            assert (answer["id"], answer["error"]["code"]) == (id_, -32600)
        Path(go).touch()
        answers = [client.receive() for _ in ids]
        said = {(type(a["id"]), a["id"], a["result"]["content"][0]["text"]) for a in answers}
        assert said == {(type(id_), id_, "first\n") for id_ in ids}
        call(ids[0], "echo again")
        assert client.receive()["result"]["content"][0]["text"] == "again\n"

    with Client() as client:
        is_refused()


@clause("025.18", saboteur=("Server._start_call", ">= MAX_CALLS", "> MAX_CALLS"))
def test_req_bash_025_18_too_many_calls():
    assert bash_tool.MAX_CALLS == 64
    with Client(module=variant_module(MAX_CALLS="3"), timeouts={"grace_s": 0.3}) as client:
        calls = [client.begin(lasting("sleep 600")) for _ in range(3)]
        refused = client.call("echo fourth")
        said = "[system error: too many calls are under way (3); wait for the answer of one, or cancel one]\n"
        assert refused == {"content": [{"type": "text", "text": said}], "isError": True}
        client.cancel(calls[0])
        assert eventually(lambda: client.said("echo fourth") == "fourth\n")


@pytest.mark.parametrize("name", first_of(PROFILES, "modes"))
@clause("025.19", saboteur=("call_message", "if structured", "if True"))
def test_req_bash_025_19_text_alone(name):
    with Client(profile=name, timeouts={"default": 0.5, "grace_s": 0.3}) as client:
        assert "outputSchema" not in client.ask("tools/list")["result"]["tools"][0]
        for command in ("echo hi", "exit 3", lasting("echo on; exec sleep 600"), 1):
            assert set(client.call(command)) == {"content", "isError"}
    if name != "modes":  # the switch is no part of a profile
        return
    asked = ["--structured"]
    for options, value, on in ((asked, None, True), (asked, "0", True), ([], "1", True), ([], "", False)):
        env = {**os.environ, **({"BASH_TOOL_STRUCTURED": value} if value is not None else {})}
        with Client(*options, env=env) as client:
            assert ("structuredContent" in client.call(":")) == on
    assert cli("--mcp", env=dict(os.environ, BASH_TOOL_STRUCTURED="yes")).returncode == 125
    assert cli("--structured", ":").returncode == 125


@few(st.integers(1, 40000), any_of("x", "é", "€"))
@clause("025.20", ("CallUnderway.add", "last_bytes(self._output + text, PROGRESS_BYTES)", "self._output + text"))
def test_req_bash_025_20_a_glimpse(count, character):
    Path("data").write_text(character * count, encoding="utf-8")
    with Client() as client:
        client.begin("cat data; sleep 0.3", token="t")
        told = ""
        while "id" not in (message := client.receive()):
            text = message["params"]["message"]
            assert len(text.encode()) <= 8192 and "\ufffd" not in text
            told += text
        skipped, size = skipped_in(told), len(character.encode())
        assert abs(told.count(character) * size + skipped - count * size) <= 64 * (1 + told.count("skipped"))
        assert skipped or count * size <= 8192


# ---- 026 The library -----------------------------------------------------------------------------------------------
@clause("026.1", saboteur=("Profile.__post_init__", "value != getattr(Profile, name)", "False"))
def test_req_bash_026_1_values_that_cannot_be_kept_to():
    seconds = "takes seconds above 0 and up to 1000000000, got "
    for value in (0, -1, 1e9 + 1, float("nan"), float("inf"), True, "5"):
        for call in (lambda: BashTool(timeout_s=value), lambda: BashTool().run("touch ran", timeout_s=value)):
            with pytest.raises(ValueError, match=re.escape("timeout_s " + seconds + repr(value))):
                call()
    for value in (1e9, 1, 0.001):
        assert BashTool(timeout_s=value).profile.timeouts_s["default"] == value
    of_numpy = type("float64", (float,), {})(7)
    tool = BashTool(
        timeout_s=of_numpy,
        profile=dataclasses.replace(JOBS, grace_s=of_numpy, drain_idle_s=of_numpy, drain_total_s=of_numpy),
    )
    assert tool.run("true").ok and tool.run("true", timeout_s=of_numpy).ok
    limits = {"default": of_numpy, "background": type(of_numpy)(9)}
    tool = BashTool(profile=dataclasses.replace(MODES, on_timeout=bash_tool.OnTimeout.KEEP, timeouts_s=limits))
    assert tool.run("true").ok and tool.run("true", mode="background").ok
    for value in (-1, True, "3", 1.5):
        with pytest.raises(ValueError, match=re.escape("max_jobs takes a whole number from 0 up, got %r" % value)):
            BashTool(max_jobs=value)
    rows = 'profile takes a Profile or one of "modes", "jobs", "streams", "guarded", got \'Modes\''
    with pytest.raises(ValueError, match=re.escape(rows)):
        BashTool(profile="Modes")
    with pytest.raises(ValueError, match="profile takes a Profile or one of .*, got None"):
        BashTool(profile=None)
    kinds = dict(streams="merged", truncation="tail", format="json", cleaning="x", timeouts_s=2)
    for name, value in dict(kinds, saves="no", nonzero_is_error="false").items():
        with pytest.raises(ValueError, match="%s takes a value such as JOBS.%s, got " % (name, name)):
            dataclasses.replace(MODES, **{name: value})
    with pytest.raises(ValueError, match=re.escape("required takes names of `parameters`, got ('x',)")):
        dataclasses.replace(MODES, required=("x",))
    for second in "slow", 60:
        with pytest.raises(TypeError):
            BashTool().run("touch ran", second)
    names = {"max_output_bytes", "max_output_lines", "max_output_chars", "snip_size", "rolling_bytes"}
    for row in PROFILES.values():
        used = set(row.truncation.limits)
        for name in names - used:
            with pytest.raises(ValueError) as refused:
                dataclasses.replace(row, **{name: 7})
            assert str(refused.value).startswith(name + " is not used: the truncation uses ")
            assert all(other in str(refused.value).partition("truncation uses ")[2] for other in used)
    tool, job = BashTool(), bash_tool.Job.__new__(bash_tool.Job)
    wrong = {
        "cwd": (5, "", "a\0", b"/"),
        "env": ({"A=B": "1"}, {"": "1"}, {"A\0": "1"}, {1: "1"}, 5, "A=1", ["A=1"]),
        "env['A']": ({"A": "secret\0"},),
    }
    calls = [(name, BashTool, {name.partition("[")[0]: value}) for name in wrong for value in wrong[name]]
    calls += [(name, tool.run, {"command": "touch ran", **given}) for name, _, given in calls]
    wrong = dict.fromkeys(("keep_env", "drop_env", "deny", "shell"), (5, "", ["a", 5]))
    no_names = ("A,B", "A B", ["A", "A=secret"], {"A": "secret"}, ["A\n"])
    wrong.update({name: (*wrong[name], *no_names) for name in ("keep_env", "drop_env")})

    async def awaited(*_):
        pass

    wrong.update(dict.fromkeys(("on_job_end", "on_call"), ("yes", True, awaited)), confirm=("yes", True))
    wrong.update(carry=("yes",), ephemeral=(1,), state_dir=("",))
    calls += [(name, BashTool, {name: value}) for name in wrong for value in wrong[name]]
    calls += [
        *(("shell", BashTool, {"shell": ()}), ("jobs", tool.wait, {"jobs": [4711]})),
        ("timeouts_s", dataclasses.replace, {"obj": MODES, "timeouts_s": {"slow": 60}}),
        ("on_timeout", dataclasses.replace, {"obj": MODES, "on_timeout": "keep"}),
        ("stdin", tool.run, {"command": "touch ran", "stdin": ["a"]}),
        ("cancel", tool.run, {"command": "touch ran", "cancel": 5}),
        *[("on_output", tool.call, {"arguments": {"command": "touch ran"}, "on_output": on}) for on in (5, awaited)],
        *[("timeout_s", tool.wait, {"timeout_s": value}) for value in ("5", True, float("nan"))],
        *[("until", job.wait, {"until": value}) for value in (5, b"x", ["x"])],
    ]
    for name, call, arguments in calls:
        with pytest.raises(ValueError, match="^%s (takes|must)" % re.escape(name)) as refused:
            call(arguments.pop("obj"), **arguments) if "obj" in arguments else call(**arguments)
        assert "secret" not in str(refused.value)
    for env in ({"A": 5}, {"A": None}):
        for call in (lambda: BashTool(env=env), lambda: tool.run("touch ran", env=env)):
            with pytest.raises(ValueError, match=r"^env\['A'\] takes a string without NUL, got <class '\w+'>$"):
                call()
    for name in "keep_env", "drop_env":
        with pytest.raises(ValueError, match=r"^base_env takes neither keep_env nor drop_env, got"):
            BashTool(base_env={}, **{name: "GH_*"})
    BashTool(keep_env=("A", "[!B]_*", "BASH_FUNC_a%%"), drop_env="C*").close()
    for row in PROFILES.values():
        with pytest.raises(ValueError, match=r"^parameters takes .*, got \['cwd', 'stdin'\]$"):
            dataclasses.replace(row, parameters={**row.parameters, "stdin": {}, "cwd": {}})
    assert not os.path.exists("ran")


@clause("026.2", ("choose_profile", '**row.timeouts_s, "default": timeout_s', '"default": 30.0, **row.timeouts_s'))
def test_req_bash_026_2_a_row_by_its_name_with_a_limit():
    for name, row in PROFILES.items():
        with BashTool(profile=name) as named, BashTool(profile=row, timeout_s=77) as limited:
            assert named.profile is row and named.definition() == BashTool(profile=row).definition()
            assert limited.profile == dataclasses.replace(row, timeouts_s={**row.timeouts_s, "default": 77})
    assert "default (77s timeout)" in json.dumps(BashTool(timeout_s=77).definition())
    begun = time.monotonic()
    with BashTool(profile=tiny(grace=0.3), timeout_s=0.4) as tool:
        assert tool.run(lasting("sleep 600")).status == "timed_out" and time.monotonic() - begun < 5 + slack_s()


latin = st.text(st.characters(min_codepoint=1, max_codepoint=0x2FF))


@clause("026.3", saboteur=("make_plan", "**env, **own}", "**own, **env}"))
@few(any_of("default", "background"), st.dictionaries(any_of("MY_TOKEN", "PAGER", "LANG", "EMPTY", "é"), latin))
def test_req_bash_026_3_a_directory_and_variables_of_one_command(mode, env):
    Path("sub").mkdir(exist_ok=True)
    names = " ".join(["MY_TOKEN", "PAGER", "LANG", "EMPTY"])
    probe = 'pwd -P; for name in %s; do printf "%%s\\0" "${!name-unset}"; done >told' % names
    with BashTool(env={"LANG": "C.UTF-8", "MY_TOKEN": "the tool's"}) as tool:
        for own, folder in ((env, "sub"), (env, str(Path("sub").resolve())), ({}, None)):
            with long_look():
                result = tool.run(probe, mode=mode, cwd=folder, env=own)
            here = Path("sub" if folder else ".").resolve()
            assert result.stdout.startswith("%s\n" % here) and result.exit_code == 0, result
            has = {"PAGER": "cat", "LANG": "C.UTF-8", "MY_TOKEN": "the tool's", "EMPTY": "unset", **own}
            assert (here / "told").read_bytes().decode().split("\0")[:4] == [has[name] for name in names.split()]
    with pytest.MonkeyPatch.context() as patch:  # a variable of the call is passed: no note says that it is not
        patch.setenv("AN_API_KEY", "withheld")
        with BashTool() as tool:
            assert tool.run("echo $AN_API_KEY", env={"AN_API_KEY": "mine"}).text == "mine\n"
            assert "because it looks secret: AN_API_KEY" in tool.run("echo ${AN_API_KEY-none}").text
    for wrong in (dict(env={"A": 1}), dict(env={1: "A"}), dict(stdin=7), dict(stdin=["x"]), dict(cwd="a\0b")):
        with pytest.raises((ValueError, TypeError)):
            BashTool().run("touch ran", **wrong)
    assert not os.path.exists("ran")


@clause("026.4", saboteur=("make_plan", "cwd_required=has_cwd", "cwd_required=False"))
@few(
    any_of(("%s", "No such file or directory"), ("file/%s", "Not a directory"), ("%s/file", "Not a directory")),
    *(folders, st.booleans(), any_of(*MODES.timeouts_s), known_commands()),
)
@example(("/proc/self/nothing", "No such file or directory"), "", False, "default", Known(""))
@example(("x" * 300, "File name too long"), "", False, "background", Known(""))
@example(("file", "Not a directory"), "", False, "background", Known(""))
def test_req_bash_026_4_a_directory_of_a_call_that_cannot_be_entered(where, name, absolute, mode, known):
    folder, (path, why) = Path(tempfile.mkdtemp()), where
    (folder / "file").write_text("")
    if path == "%s/file":
        path = "dir/" + path
        (folder / "dir" / name).mkdir(parents=True)
        (folder / "dir" / name / "file").write_text("")
    path = path.replace("%s", name if name != "file" else "other")
    os.chdir(folder)
    with BashTool() as tool:
        result = tool.run(": > ran\n" + known.text, mode=mode, cwd=str(folder / path) if absolute else path)
        shown = bash_tool.make_printable(os.path.abspath(path))
        shown = shown if len(shown) <= 200 else shown[:100] + "…" + shown[-99:]
        shown = shown.replace("]", "\\u005d")
        told = "the working directory %s cannot be entered (%s)" % (shown, why)
        assert (result.status, result.error, result.text) == ("failed", "cwd_missing", "[system error: %s]\n" % told)
        assert (result.exit_code, result.notes) == (None, ()) and tool.jobs() == []
        assert tool.run("pwd", cwd=Path("/")).text == "/\n" and not list(folder.rglob("ran"))


@clause("026.5", saboteur=("Shell._make_text", "self._stdin_fd >= 0", "False"))
@few(
    st.one_of(st.binary(max_size=200_000), st.text(max_size=2000), any_of(b"\0" * 70_000, "", b"\r\n")),
    any_of("bash", ["env", "bash"]),
    any_of("default", "background"),
)
def test_req_bash_026_5_standard_input(data, shell, mode):
    data = "ab" if isinstance(data, str) and re.search("[\ud800-\udfff]", data) else data
    sent = data.encode() if isinstance(data, str) else data
    with BashTool(shell=shell) as tool:
        with long_look():
            result = tool.run("cat >copy; ls /proc/self/fd | wc -l", mode=mode, stdin=data)
            assert Path("copy").read_bytes() == sent and result.stdout.startswith("4\n"), result  # ls itself opens one
            in_two = tool.run("head -c 3 >copy; cat >>copy", mode=mode, stdin=data)
        assert in_two.exit_code == 0 and shell != "bash" or Path("copy").read_bytes() == sent
        if shell == "bash":  # what opens its input anew, or reads it from its end, finds nothing else
            assert tool.run("cat /dev/stdin >copy; tac </dev/stdin | wc -c", stdin=data).stdout == "%d\n" % len(sent)
            assert Path("copy").read_bytes() == sent


@clause("026.6", saboteur=("Result.ok", "and self.error is None", ""))
@few(any_of(*sorted(PROFILES)), known_commands())
@example("guarded", Known("exit 3", code=3))
@example("jobs", Known("sleep 5", code=None))
def test_req_bash_026_6_ok(name, known):
    row = tiny(0.5 if known.code is None else 30, profile=PROFILES[name])
    with BashTool(profile=row, deny="not this") as tool:
        assert tool.run(known.text).ok is (known.code == 0)
        assert tool.run("echo not this").ok is False
    with tempfile.TemporaryDirectory() as gone:
        tool = BashTool(gone, profile=row)
    result = tool.run(known.text)  # in a scratch folder
    assert result.ok is False and result.is_error is (known.code != 0 if name == "modes" else result.is_error)


@clause("026.7", saboteur=("BashTool.call", "cwd,", "None,"))
@few(st.dictionaries(any_of("MY_TOKEN", "PAGER", "é"), latin))
def test_req_bash_026_7_call_takes_a_directory_and_variables(env):
    Path("sub").mkdir(exist_ok=True)
    probe = 'pwd; for name in MY_TOKEN PAGER; do printf "%s\\0" "${!name-unset}"; done >told; echo $PAGER'
    with BashTool() as tool:
        for place in ("sub", Path("sub"), os.path.abspath("sub"), None):
            tool.run(probe, cwd=place, env=env)
            here = Path(place or ".")
            expected = (here / "told").read_bytes()
            (here / "told").unlink()
            assert tool.call({"command": probe}, cwd=place, env=env).stdout.startswith(str(here.resolve()) + "\n")
            assert (here / "told").read_bytes() == expected
        assert tool.call({"command": "pwd; echo $PAGER"}).text == "%s\ncat\n" % os.getcwd()
        assert tool.call({"command": "touch ran"}, cwd="/no/such").error == "cwd_missing"
        for wrong in (dict(env={"A": 1}), dict(env=[1]), dict(cwd="a\0b"), dict(cwd=5)):
            with pytest.raises(ValueError):
                tool.call({"command": "touch ran"}, **wrong)
    assert not os.path.exists("ran")


@clause("026.8", saboteur=("BashTool._answer", "arguments,", "request,"))
@few(known_commands(), any_of(OSError, KeyboardInterrupt))
def test_req_bash_026_8_told_of_each_call(known, error):
    told = []

    def on_call(sent, result):
        told.append((sent, result, threading.get_ident()))
        if failing:
            raise error("full")

    failing, whole = False, json.dumps({"command": known.text})
    with BashTool(on_call=on_call, deny="not this") as tool:
        answers = [tool.call(whole), tool.run(known.text, timeout_s=9)]
        answers += [tool.call({"cmd": 5}), tool.run("not this", stdin="x")]
        runs = [dict(command=known.text, mode="default", timeout_s=9, stdin=None)]
        runs += [dict(command="not this", mode="default", timeout_s=None, stdin="x")]
        sent = [whole, runs[0], {"cmd": 5}, runs[1]]
        assert told == [(one, answer, threading.get_ident()) for one, answer in zip(sent, answers)]
        failing = True
        with pytest.raises(error, match="^full$"):
            tool.run("touch ran")
    assert len(told) == 5 and told[-1][1].ok and os.path.exists("ran")


@clause("026.9", saboteur=("BashTool.run", "raise ValueError(request.report.reason)", "pass"))
@few(
    any_of(*[dict(command=value) for value in (5, None, b"x", ["ls"], "a\0b")])
    | any_of(*[dict(command="touch ran", mode=value) for value in ("fast", " ", 5, b"slow", "Default")])
)
def test_req_bash_026_9_mistakes_of_a_program_are_raised(arguments):
    with BashTool() as tool:
        with pytest.raises(ValueError, match="^invalid arguments: "):
            tool.run(**arguments)
        answer = tool.call(arguments)
        assert (answer.status, answer.error) == ("rejected", "invalid_arguments")
        value = arguments["command"]
        if not isinstance(value, str):
            with pytest.raises(ValueError, match="got %s$" % type(value).__name__):
                tool.run(value)
            mistakes = [(tool.wait, value or 5, "jobs takes a Job"), (tool.wait, [value], "jobs takes a Job")]
            mistakes += [
                (bash_tool.serve, value, "serve takes a BashTool"),
                (bash_tool.Job, value, "Job takes the path"),
                (tool.job, str(value), "pid takes the number"),
            ]
            for function, wrong, words in mistakes:
                with pytest.raises(ValueError, match="^" + words):
                    function(wrong)
            job = tool.job(tool.run("exit", mode="background").pid)
            with pytest.raises(ValueError, match="^read takes a whole number"):
                job.read("x")
            assert tool.wait(job) == tool.wait([job]) == [job]
        assert tool.run("printf 'a\udcffb' | od -An -tx1").stdout.split() == ["61", "ff", "62"]
    assert not os.path.exists("ran")


@clause("026.10", saboteur=("tool_env", "() if name not in added", "()"))
@few(st.dictionaries(names.map("{}_TOKEN".format), st.text(any_of(*"ab é$'\""), max_size=9), max_size=4))
@example({"A_TOKEN": "mine"})
def test_req_bash_026_10_variables_that_a_tool_adds(added):
    with pytest.MonkeyPatch.context() as patch:
        for name in ("A_TOKEN", "B_TOKEN"):
            patch.setenv(name, "the host's secret")
        with BashTool(env={**added, "PAGER": "less"}) as tool:
            rest = {"A_TOKEN", "B_TOKEN"} - set(added)
            assert not set(tool.withheld) & set(added) and set(tool.withheld) >= rest
            result = tool.run("env -0 >shown; : A_TOKEN")
        assert all("A_TOKEN" in note for note in result.notes) and len(result.notes) == ("A_TOKEN" in rest)
    env = dict(line.split("=", 1) for line in Path("shown").read_bytes().decode().split("\0") if line)
    assert {**env, **added} == env and env["PAGER"] == "less" and not rest & set(env)


@clause("026.11", saboteur=("present", "stream.head + stream.tail", "stream.tail"))
@few(st.binary(max_size=30), st.binary(max_size=30), any_of(*sorted(PROFILES)))
@example(b"a\0\xff\r\n\x1b[m", b"\r", "modes")
@example(b"", b"", "jobs")
def test_req_bash_026_11_bytes_as_they_were_written(out, err, name):
    writes = ["printf '%s'" % "".join("\\%03o" % byte for byte in data) for data in (out, err)]
    with BashTool(profile=in_profile(name)) as tool:
        result = tool.run("%s; %s >&2; exit 3" % tuple(writes), timeout_s=AMPLE_S)
        kept = (out + err, b"") if name == "modes" else (out, err)
        assert (result.stdout_bytes, result.stderr_bytes) == kept and "_bytes=b" not in repr(result)
        assert not {"stdout_bytes", "stderr_bytes"} & set(result.to_dict()) and json.dumps(result.to_dict())
        long = tool.run("seq 700000; echo on >&2", timeout_s=20)
        assert (long.stdout_bytes, long.stderr_bytes) == (None, b"" if name == "modes" else b"on\n")
        stopped, refused = tool.run(lasting("echo on; sleep 600"), timeout_s=0.5), tool.call({"nonsense": 1})
        assert (stopped.stdout_bytes, refused.stdout_bytes, refused.stderr_bytes) == (b"on\n", None, None)
        if name == "modes":
            assert tool.run(lasting("echo on; sleep 600"), mode="background").stdout_bytes is None


OTHERS = "sh dash ash zsh fish ksh csh tcsh busybox pwsh cmd".split()
WRAPPERS = any_of((), ("env",), ("docker", "exec", "-i", "C"), ("bash", "-lc", 'exec "$@"', "-"), ("./sh-here",))


@clause("026.12", saboteur=("_NO_BASH", "|zsh|", "|"))
@draws(10)
@example((), "zsh", "", "-l")
@given(WRAPPERS, any_of(*OTHERS), any_of("", "/bin/", "/opt/my tools/"), any_of("-l", "-x -e", "-o posix"))
def test_req_bash_026_12_what_no_command_can_run_behind(wrapper, other, folder, options):
    last = folder + other
    wrong = [(last,), (last, "-f"), (last + " -c",), (folder + "bash", *options.split())]
    for shell in (*((*wrapper, *words) for words in wrong), *([last, "bash " + options] if not wrapper else [])):
        with pytest.raises(ValueError, match="^shell takes words that end in bash"):
            BashTool(shell=shell)
    for shell in "nice bash", ("nice -n 5", *wrapper, "bash"):
        with pytest.raises(ValueError, match="; `nice bash` is two words, got .*nice"):
            BashTool(shell=shell)
    for right in ("bash", *(["bash-5.2", "rbash", other + "-here", "sandbox"] if "bash" not in wrapper else [])):
        BashTool(shell=(*wrapper, folder + right))
        BashTool(shell=("sandbox", "--shell=/bin/bash", "--flag"))
    file = Path("file")
    file.touch()
    if not os.path.lexists("circle"):
        os.symlink("circle", "circle")
    for path in ("/dev/null/x", "file", file / other, "x" * 300, "circle"):
        with pytest.raises(OSError, match="state_dir takes a folder .*%s" % re.escape(str(path))):
            BashTool(state_dir=path)
    for path in (other, "/no/such", "/proc/self/cwd/" + other, "."):
        BashTool(state_dir=path)
    assert sorted(os.listdir()) == ["circle", "file"]


limits = st.fixed_dictionaries({}, optional={"grace_s": st.floats(0, 99), "drain_idle_s": st.integers(0, 9)})


@clause("026.13", saboteur=("Profile", "hash(self.name)", "id(self)"))
@draws(10)
@given(any_of(*PROFILES.values()), limits, st.dictionaries(any_of("slow", "night"), st.floats(1, 99)))
def test_req_bash_026_13_profiles_are_copied(profile, given_limits, more):
    modes = {**profile.timeouts_s, **more}
    row = dataclasses.replace(profile, timeouts_s=modes if more else profile.timeouts_s, **given_limits)
    copies = [copy.copy(row), copy.deepcopy(row), *(pickle.loads(pickle.dumps(row, n)) for n in range(2, 6))]
    copies.append(bash_tool.Profile(**dataclasses.asdict(row)))
    assert {*copies, row} == {row} and json.dumps(dataclasses.asdict(row)["timeouts_s"]) == json.dumps(modes)
    assert BashTool("/", profile=copies[-2]).definition() == BashTool("/", profile=row).definition()
    for mapping in (profile.timeouts_s, profile.parameters, PROFILES):
        for act in (lambda: mapping.update(default=1), mapping.clear, lambda: mapping.pop("default"), mapping.popitem):
            with pytest.raises(TypeError, match="cannot be changed"):
                act()
        with pytest.raises(TypeError, match="cannot be changed"):
            mapping["default"] = 1
    assert BashTool(profile=copies[3]).run("seq 2; exit 3").text == BashTool(profile=row).run("seq 2; exit 3").text


@clause("026.14", saboteur=("NotCopied.__deepcopy__", "return self", "return object.__new__(type(self))"))
def test_req_bash_026_14_what_lives_is_itself():
    with BashTool() as tool:
        job = tool.job(background(tool, lasting("sleep 600")).pid)
        agent = {"tools": [tool], "stop": Cancel(), "jobs": [job]}
        for again in (copy.deepcopy(agent), copy.copy(agent)):
            assert again == agent and again["tools"][0] is tool and copy.copy(tool) is tool
        for one in (tool, agent["stop"], job):
            for dump in (pickle.dumps, lambda one: pickle.dumps([one], 2)):
                with pytest.raises(TypeError) as raised:
                    dump(one)
                said = "a (BashTool|Cancel|Job) cannot be pickled; make one in each process"
                assert re.fullmatch(said, str(raised.value))  # without the notes that Python 3.14 adds
        assert copy.deepcopy(agent)["jobs"][0].kill()


@clause("026.15", saboteur=("BashTool.__repr__", '" closed" * self.closed', '""'))
@given(any_of(*PROFILES.values()), st.floats(0, 99))
def test_req_bash_026_15_closed(profile, grace):
    row = dataclasses.replace(profile, grace_s=grace, timeouts_s={"default": 7})
    with BashTool("/", profile=row, env={"A": "secret"}) as tool:
        assert tool.closed is False and repr(tool) == "<BashTool cwd='/' profile='%s'>" % profile.name
    assert tool.closed is True and repr(tool).endswith(" closed>") and tool.run("ls").error == "closed"
    said = repr(row)
    assert said.startswith("<Profile name='%s', timeouts_s={'default': 7}, grace_s=%r" % (profile.name, grace))
    assert all("%s=%r" % (name, getattr(row, name)) in said for name in row.truncation.limits)


def hints_of(thing):
    """What typing.get_type_hints gives, on Python 3.9 too, which knows no `X | Y`."""
    parts = {name: text.split(" | ") for name, text in thing.__annotations__.items()}
    return {name: typing.Union[tuple(eval(part, vars(bash_tool)) for part in many)] for name, many in parts.items()}


@clause("026.16", saboteur=("Confirm", "bool", "object"))
def test_req_bash_026_16_types():
    # Here as annotations; tests/integration/test_wheel.py has mypy read programs.
    hints = {method: hints_of(getattr(BashTool, method)) for method in ("__init__", "run", "definition")}
    status = hints_of(bash_tool.Result)["status"]
    assert list(typing.get_args(status)) == bash_tool.OUTPUT_SCHEMA["properties"]["status"]["enum"]
    assert hints_of(bash_tool.Job.status.fget)["return"] is status
    assert list(typing.get_args(hints["run"]["mode"])) == list(MODES.timeouts_s)
    tool, styles = BashTool(carry=True), typing.get_args(hints["definition"]["style"])
    assert all(map(tool.definition, styles))
    with pytest.raises(ValueError, match="^style must be one of %s, got" % ", ".join(map('"{}"'.format, styles))):
        tool.definition("xml")
    confirm = typing.get_args(hints["__init__"]["confirm"])
    assert confirm == (typing.Callable[[str], bool], type(None))
    (job,) = [node for node in ast.parse(SOURCE).body if getattr(node, "name", "") == "Job"]
    waits = [ast.unparse(node.returns) for node in job.body if getattr(node, "name", "") == "wait"]
    assert waits == ["bool", "str | None", "bool | str | None"]


LINES = "a line\n", "\x1b[31mé\x1b[m\r\n", "10%\r20%\n", "\0\xff€"


@clause("026.17", saboteur=("make_plan", "WHOLE_BYTES - tail_bytes", "0"))
@fewest(
    any_of(*sorted(PROFILES)), any_of(*LINES), sizes_about(131072, 4 << 20), any_of(0, 70_000, 4 << 20, (4 << 20) + 1)
)
@example("modes", LINES[1], 4 << 20, 0)
@example("jobs", LINES[0], 4 << 20, 4 << 20)
@example("streams", LINES[3], (4 << 20) + 1, 4 << 20)
def test_req_bash_026_17_whole_streams_for_a_program(name, line, first, second):
    row, written = PROFILES[name], []
    for number, size in enumerate((first, second), 1):
        data = line.encode("latin-1", "replace")
        written.append((data * (size // len(data) + 1))[:size])
        Path("stream-%d" % number).write_bytes(written[-1])
    if name == "modes":
        written = [b"".join(written), b""]
    command = "cat stream-1; cat stream-2 >&2"
    with BashTool(profile=row) as tool:
        result, shown = tool.run(command), tool.call({"command": command})
        known = [row.cleaning(bash_tool.decode(data)) for data in written]
        if name == "jobs":
            known = [text.removesuffix("\n") for text in known]
        for whole, cut, data, text in zip("stdout stderr".split(), (shown.stdout, shown.stderr), written, known):
            fits = len(data) <= 4 << 20
            assert getattr(result, whole) == (text if fits else cut)
            assert getattr(result, whole + "_bytes") == (data if fits else None)
        for field in "truncated total_bytes details is_error exit_code notes".split():
            assert getattr(result, field) == getattr(shown, field), field
        paths = str(result.output_file), str(shown.output_file)
        assert result.text.replace(paths[0], "") == shown.text.replace(paths[1], "")
    lines = "".join("%d\n" % n for n in range(1, 50_001))
    with BashTool(profile=in_profile("jobs")) as tool:
        kept = tool.run(lasting("seq 50000; sleep 600"))
        assert kept.status == "running" and lines.startswith(kept.stdout) and len(kept.stdout) >= kept.total_bytes - 1
    output = cli("--json", "seq 50000").stdout
    assert json.loads(output)["stdout"] == BashTool().call({"command": "seq 50000"}).stdout


@clause("026.18", saboteur=("Result.check", "self.exit_code or", "self.exit_code if self.exit_code is not None else"))
@few(any_of(*sorted(PROFILES)), known_commands() | endless())
@example("guarded", Known("echo out; echo err >&2; exit 3", "out\n", "err\n", code=3))
@example("streams", Known("exit 137", code=137))
def test_req_bash_026_18_check(name, known):
    def failure(result):
        with pytest.raises(subprocess.CalledProcessError) as raised:
            result.check()
        failed = raised.value
        assert failed.stderr == result.stderr and failed.output.endswith(result.stdout)
        return failed.returncode, failed.cmd, failed.output[: len(failed.output) - len(result.stdout)]

    row = tiny(0.4 if known.code is None else 30, profile=PROFILES[name], on_timeout=bash_tool.OnTimeout.KILL)
    with tempfile.TemporaryDirectory() as gone, BashTool(gone, profile=row, deny="not this") as tool:
        result = tool.run(known.text)
        if known.code == 0:
            assert result.check() is result
        elif known.code is None:
            code, command, said = failure(result)
            assert (code, command) == (124, known.text) and said.startswith("[command timed out after 0.4s]\n")
        else:
            is_signal = known.code - 128 in bash_tool.SIGNAL_NAMES
            line = "[command failed: exit code %d (SIG" % known.code if is_signal else ""
            code, command, said = failure(result)
            assert (code, command) == (known.code, known.text) and said.startswith(line) and bool(said) is bool(line)
        refused = "[system error: Command blocked by safety policy: contains 'not this']\n"
        assert failure(tool.run("echo not this")) == (125, "echo not this", refused)
        used = Cancel()
        used.cancel()
        assert failure(tool.run("echo it", cancel=used)) == (130, "echo it", "[command cancelled]\n")
        os.rmdir(gone)
        code, command, said = failure(tool.run("true"))
        assert (code, command) == (125, "true") and said.startswith("[the working directory ")
        os.mkdir(gone)
    assert failure(tool.run("echo it")) == (125, "echo it", "[system error: this tool is closed]\n")
    with BashTool(profile=in_profile("jobs")) as tool:
        kept = tool.run(lasting("sleep 600"))
        assert kept.check() is kept and kept.status == "running"


ROWS = any_of(*PROFILES.values())


def line_numbers(text):
    return [line for line in text.split("\n") if re.fullmatch("[0-9]+", line)]


@clause("026.19", saboteur=("Profile.__post_init__", "tells_of == keeps", "True"))
@given(
    ROWS, ROWS, ROWS, ROWS, ROWS, st.integers(1, 3000), st.integers(1, 300), st.integers(1, 60), st.integers(0, 2000)
)
@example(*[MODES] * 3, JOBS, MODES, 50_000, 5, 4096, 100)
@example(*[STREAMS] * 4, MODES, 3000, 5, 4096, 100)
@example(*[JOBS] * 5, 3000, 5, 60, 1000)
def test_req_bash_026_19_mixtures(row, streams, cleaning, truncation, format_, most, lines, snip, count):
    numbers = {"max_output_bytes": most, "max_output_chars": most, "rolling_bytes": most, "max_output_lines": lines}
    numbers["snip_size"] = snip
    changes = {name: numbers[name] for name in truncation.truncation.limits}
    unused = {name: getattr(bash_tool.Profile, name) for name in numbers if name not in changes}
    changes.update(streams=streams.streams, cleaning=cleaning.cleaning, truncation=truncation.truncation)
    merged = streams is MODES
    limits = {mode: 9 for mode in row.timeouts_s if mode != "background" or format_.format.tells_jobs}
    try:
        mixed = dataclasses.replace(
            row, format=format_.format, timeouts_s=limits, on_timeout=bash_tool.OnTimeout.KILL, **changes, **unused
        )
    except ValueError as refused:
        alike = {STREAMS: "head", bash_tool.GUARDED: "head"}
        pair = "truncation" if alike.get(truncation, truncation) != alike.get(format_, format_) else "streams"
        assert str(refused).startswith(pair + " takes what goes with the format: take both from one row, got ")
        assert pair == "truncation" or (merged and format_ is not MODES)
        return
    told = BashTool("/", profile=mixed).definition()["description"]
    assert not re.search("{(streams|lines|size|cwd)}", told) and ("combined" in told) == (merged and row is MODES)
    if row is JOBS:
        limits = "last %d lines or %s" % (mixed.max_output_lines, bash_tool.format_size(mixed.max_output_bytes))
        for saves, said in (True, "; if truncated, full output saved to temp file"), (False, ""):
            tool = BashTool(profile=dataclasses.replace(mixed, saves=saves))
            assert tool.definition()["description"].endswith(limits + said + ". Commands exceeding timeout are killed.")
            assert "in ms before killing (" in json.dumps(tool.definition())
    written = "".join("%d\n" % n for n in range(count)).encode()
    outcome = outcome_of("exited", written, *([] if merged else [b""]), row=mixed, exit_code=0)
    result = bash_tool.present(outcome, mixed)
    known = [str(n) for n in range(count)]
    text = result.text if format_ is not STREAMS else json.loads(result.text)["stdout"]
    middle = re.search(r"\[output truncated in middle: got (\S+), max is (\S+)\]", text)
    last = re.search(r"\[stdout: Showing last (\d+) (of|bytes of line) (\d+)", text)
    first = text.endswith(("\n[truncated]", "\n... (output truncated)"))
    assert [bool(middle), bool(last), first].count(True) == result.truncated
    if middle:
        assert middle.groups() == tuple(map(bash_tool.format_size, (len(written), most))) and len(written) > most
        assert "[snip]" in text
    elif last and last[2] == "of":
        shown = line_numbers(result.stdout)
        assert shown == known[-int(last[1]) :] and int(last[3]) == count
    elif first:
        assert written.decode().startswith(result.stdout.rpartition("\n[t" if "[truncated]" in text else "\n... (")[0])
    elif not last:
        assert line_numbers(result.stdout) == known


# ---- 027 Jobs that tell --------------------------------------------------------------------------------------------
@clause("027.1", saboteur=("JobTable.take_end_notes", "job is not told", "job is ended[-1][0]"))
@pytest.mark.parametrize("name", first_of(["modes", "jobs"], "modes"))
def test_req_bash_027_1_the_next_answer_tells(name):
    cases = [
        ("echo out; {}; echo 'last ]\"'; exit 3", "failed: exit status 3", 'last ]"'),
        ("{}", "completed", None),
        ("{}; kill -TERM $$", "ended by signal 15 (SIGTERM)", None),
        ("{}; printf '\\e[31mred\\e[0m\\n\\n  \\n'", "completed", "red"),
        ("echo lost; {}; kill -9 $PPID; sleep 9", "error: lost", None),
    ]
    ended = []
    with BashTool(profile=in_profile(name), on_job_end=ended.append) as tool:
        mode = {"mode": "background"} if name == "modes" else {}
        nexts = {"exit code": {"command": "false"}, "nonsense": {"nonsense": 1}, "": {"command": "true"}}
        for marks, next_call in (*nexts.items(), ("", {"command": "kill -9 $PPID"})):
            go = Path(unique())
            started = at_once(lambda case: tool.call({"command": case[0].format(until(go)), **mode}), cases)
            assert not any(told_in(result.text) for result in started), started
            go.touch()
            tool.wait(timeout_s=20)
            assert eventually(lambda: len(ended) == len(cases))
            ended.clear()
            result = tool.call(next_call)
            told = told_in(result.text)
            wanted = [(job.pid, how, text.format(until(go)), last) for job, (text, how, last) in zip(started, cases)]
            assert sorted(told) == sorted(wanted) and marks in result.text, (told, wanted, result.text)
            lines = result.text.splitlines()
            places = [n for n, line in enumerate(lines) if line.startswith("[background process")]
            first = int(name == "modes" and lines[0].startswith(("[command ", "[system error")))
            first = first if name == "modes" else len(lines) - 5
            assert places == list(range(first, first + 5)), lines
            assert all(note[0] != "[" for note in result.notes) and len(result.notes) >= 5
            assert not told_in(tool.call({"command": "true"}).text)


@clause("027.2", saboteur=("JobTable.take_end_notes", "job is not told", "True"))
def test_req_bash_027_2_what_the_model_has_seen_is_not_told_again():
    with BashTool(profile=in_profile("jobs")) as tool, BashTool() as modes:
        for verb in ("check_pid", "kill_pid"):
            job = tool.run("echo x; %s; exit 5" % until("go") if verb == "check_pid" else lasting("sleep 600"))
            Path("go").touch()
            if verb == "check_pid":
                assert tool.wait(timeout_s=20) and not told_in(tool.call({"check_pid": job.pid}).text)
            else:
                assert tool.call({"kill_pid": job.pid}).status == "exited"
            assert tool.wait(timeout_s=20) == [] and told_in(tool.run("true").text) == []
        with long_look():
            assert modes.run("exit 4", mode="background").exit_code == 4 and told_in(modes.run("true").text) == []


@clause("027.3", saboteur=("JobTable._monitor", "on_end is not None", "False"))
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_req_bash_027_3_the_host_is_told_in_the_monitor_thread():
    seen = []

    def ends(job):
        elsewhere = threading.current_thread() is not threading.main_thread()
        seen.append((job.pid, job.status, job.exit_code, job.read()[0], elsewhere))
        raise RuntimeError("of the host")

    with BashTool(on_job_end=ends) as tool:
        ends = "; echo %d; exit %d"
        started = [tool.run(until("go") + ends % (n, n), mode="background") for n in range(3)]
        pids = [result.pid for result in started]
        Path("go").touch()
        with long_look():  # the first is over before the answer; what the second leaves is no job
            results = [tool.run("exit 1", mode="background"), tool.run("sleep 0.4 >/dev/null 2>&1 &")]
        assert eventually(lambda: len(seen) == 3)
        note = lambda n: "failed: exit status: %d" % n if n else "completed"
        ended = [(pid, "exited", n, "%d\n" % n, True) for n, pid in enumerate(pids)]
        assert sorted(seen, key=lambda one: one[2]) == ended
        for n, result in enumerate(started):
            assert notes_in(result.output_file) == ["\n\n[background process %s]\n" % note(n)]
        told = [one for result in (*started, *results, tool.run("true")) for one in told_in(result.text)]
        assert sorted(one[0] for one in told) == sorted(pids) and tool.run("echo hi").text == "hi\n"
    assert not eventually(lambda: len(seen) > 3, 0.3)


@clause("027.4", saboteur=("BashTool.wait", "waited, any,", "waited, False,"))
def test_req_bash_027_4_waiting_for_jobs():
    with BashTool(state_dir="state") as tool:
        with ThreadPoolExecutor(3) as pool:
            commands = NAP, until("go-1"), until("go-2")
            started = list(pool.map(lambda command: tool.run(command, mode="background"), commands))
        jobs = [tool.job(result.pid) for result in started]
        begun = time.monotonic()
        assert tool.wait(timeout_s=0) == [] and tool.wait(jobs[:1], timeout_s=0.1) == []
        threading.Timer(0.3, Path("go-1").touch).start()
        assert tool.wait(jobs, any=True, timeout_s=PATIENCE_S) == jobs[1:2]
        threading.Timer(0.3, Path("go-2").touch).start()
        assert tool.wait(jobs[1:], timeout_s=PATIENCE_S) == jobs[1:]
        assert time.monotonic() - begun < PATIENCE_S and tool.wait(any=True, timeout_s=0.1) == []
        others = BashTool(state_dir="state").jobs()  # the same jobs, of another tool: by their records
        assert {job.pid for job in tool.wait(others, any=True, timeout_s=20)} == {job.pid for job in jobs[1:]}
        threading.Timer(0.3, jobs[0].kill).start()
        assert tool.wait(timeout_s=20) == jobs[:1] and tool.wait() == []
        assert tool.wait([]) == [] and tool.wait([], any=True) == []
        assert len(told_in(tool.run("true").text)) == 3  # to wait is not to be told

    ending = st.lists(known_commands(pause_s=0.5), min_size=1, max_size=4)

    @fewest(ending, st.lists(endless(), max_size=2), st.booleans())
    def whatever_they_do(commands, others, elsewhere):
        folder = tempfile.mkdtemp()
        with BashTool(state_dir=folder) as tool:
            go = Path(unique())
            held = [known.held(go) for known in commands] + [known.text for known in others]
            jobs = at_once(lambda command: background(tool, command), held)
            threading.Timer(0.2, go.touch).start()
            ending, going = jobs[: len(commands)], jobs[len(commands) :]
            waiting = BashTool(state_dir=folder) if elsewhere else tool
            same = {job.pid: waiting.job(job.pid) for job in jobs}
            first = waiting.wait([same[job.pid] for job in jobs], any=True, timeout_s=20)
            assert first and {job.pid for job in first} <= {job.pid for job in ending}
            assert all(job.status == "exited" for job in first)
            ended = waiting.wait([same[job.pid] for job in ending], timeout_s=20)
            assert [job.pid for job in ended] == [job.pid for job in ending]
            assert [job.exit_code for job in ended] == [known.code for known in commands]
            ended = waiting.wait([same[job.pid] for job in jobs], timeout_s=0 if going else 20)
            assert [job.pid for job in ended] == [job.pid for job in ending] and all(alive(job.pid) for job in going)
            for job in going:
                os.killpg(job.pid, signal.SIGKILL)

    whatever_they_do()


@clause("027.5", saboteur=("Job.wait", "(part + data)", "data"))
def test_req_bash_027_5_waiting_for_a_line():
    with BashTool(state_dir="state") as tool:
        command = "echo first; printf 'half '; %s; echo line; " % until("later")
        command += "printf 'please wait ...\\r\\e[1mready\\e[0m on 80\\r\\n'; sleep 0.5; printf end"
        for job in (tool.job(tool.run(command, mode="background").pid), BashTool(state_dir="state").jobs()[-1]):
            if job.status == "running" and not Path("later").exists():
                assert job.wait(0.1, until="half") is None
                threading.Timer(0.3, Path("later").touch).start()
                assert job.wait(20, until="half") == "half line"
            assert job.wait(20, until="first") == "first"
            assert job.wait(20, until=re.compile(r"^ready on (\d+)$")) == "ready on 80"
            assert job.wait(20, until=re.compile("^end$")) == "end" and job.status == "exited"
            assert job.wait(20, until="completed") is None  # the note is no output
            assert job.wait(20, until="half line") == "half line"
            assert job.wait(0, until="first") == "first" and job.wait(0, until="nothing") is None
        running = background(tool, "seq 30000; echo x; " + NAP)
        assert running.wait(20, until=re.compile("^30000$")) == "30000" and running.wait(0.2, until="30001") is None
        assert running.kill() and running.wait(20, until="x") == "x"

    some_text = st.text("abcXYZ089 .,:;é€", min_size=1, max_size=3)

    @fewest(known_commands(pause_s=0.5, most=8), st.lists(some_text, min_size=1))
    def whatever_is_written(known, sought):
        lines = known.merged.split("\n")
        wanted = [next((line for line in lines if text in line), None) for text in sought]
        with BashTool() as tool:
            go = Path(unique())
            job = background(tool, known.held(go))
            threading.Timer(0.2, go.touch).start()
            patterns = [re.compile(re.escape(text)) if n % 2 else text for n, text in enumerate(sought)]
            found = at_once(lambda pattern: job.wait(20, until=pattern), patterns)
            assert found == wanted == [job.wait(0, until=text) for text in sought]

    whatever_is_written()


@clause("027.6", saboteur=("Server._next_message", "call.id]", "call.id]\nself._tool._session._finish(answer)"))
@pytest.mark.parametrize("name", first_of(["modes", "jobs"], "modes"))
def test_req_bash_027_6_a_withdrawn_call_takes_no_note_with_it(name):
    # A job ends while a call runs that is then withdrawn.
    with Client(timeouts={"default": 60, "grace_s": 0.5}) as client:
        started = client.said("until [ -e go ]; do sleep 0.1; done", mode="background")
        pid, file = int(re.search(r"<pid>(\d+)</pid>", started)[1]), re.search(r"<output_file>(.*)</", started)[1]
        number = client.begin("echo $$ > withdrawn; touch go; sleep 50")
        assert eventually(lambda: "[background process completed]" in Path(file).read_text())
        client.cancel(number)
        assert eventually(lambda: not alive(number_in("withdrawn")))
        assert [one[0] for one in told_in(client.said("sleep 0.5"))] == [pid]
    os.unlink("go")
    slow = {"default": 20} if name == "modes" else {"default": 0.3}
    with Client(profile=name, timeouts={**slow, "grace_s": 0.5}) as client:
        mode = {"mode": "background"} if name == "modes" else {}
        pids, told = [], []
        for n in range(8):
            text = client.said("%s; sleep %.2f; exit %d" % (until("go"), n % 4 / 4, n % 2), **mode)
            pids.append(int(re.search(r"<pid>(\d+)</pid>" if mode else r"\(pid (\d+)\)", text).group(1)))
            told += told_in(text)
        Path("go").touch()
        for _ in range(200):
            if name == "modes":  # withdrawn: its answer is never sent
                number = client.begin("sleep 0.2")
                client.cancel(number)
            told += told_in(client.said("true"))
            if len(told) >= 8:
                break
            time.sleep(0.05)
        told += told_in(client.said("true"))
        assert sorted(one[0] for one in told) == sorted(pids), (told, pids)


# ---- 028 State that is carried over, and the tools of vendors ------------------------------------------------------
SHOW = "{ builtin pwd; /usr/bin/printf '\\0'; /usr/bin/env -0; } >%s"  # whatever PATH is
values = st.binary(max_size=40).map(lambda data: data.replace(b"\0", b"")) | any_of(
    b"", b"\n", b"\x01\x7f\x1bE", b"\\E\\001", b"'\"$`!\\", b'x\ndeclare -x T_A_="1"\n', "é€😀".encode(), b"\xff\xc3"
)
BEFORE = [  # what a command may do to its shell before it ends: none of it is carried
    *("", "set -euf -o pipefail; IFS=1234567890", "set -xv", "set -o posix"),
    *("trap 'echo no' DEBUG; trap 'echo no' ERR RETURN", "set -ET; trap 'echo no' DEBUG"),
    "printf() { :; }; pwd() { :; }; export() { builtin export \"$@\"; }; trap() { :; }",
    *("exec >/dev/null 2>&1 <&- 10>&2 20>/dev/null", "exec 11>&- 20>&-; exec 20</dev/null"),
    "shopt -s expand_aliases extdebug; alias printf=false pwd=false",
    *("T_silent_=1; readonly IFS; BASH_EXECUTION_STRING=x", "sleep 0.01 & ( cd /; exit 3 )"),
]
AFTER = ["", "exit 3", "false", "f() { g() { exit 5; }; g; }; f", "set -e; false; cd /", "(exit 9)", "if"]
AFTER.append("eval 'exit 7'")


@st.composite
def acts(draw):
    """A command that changes the directory or an exported variable of its shell."""
    name, value = draw(any_of("T_A_", "T_b1", "_T", "PATH", "LC_ALL") | names), in_bytes(draw(values))
    folder = draw(any_of("a b", "link", "new\nline", "..", ".", "link/..", "gone", "é"))
    cd = ["cd -- {folder}", "cd -- {folder}", "cd -P -- {folder}", "pushd -- {folder}", "cd -", "cd"]
    export = ["export {name}={value}", "export {name}={value}", "{name}={value}", "export -n {name}", "unset {name}"]
    way = draw(any_of(*cd, *export, "( cd /; export {name}={value} )", "declare -x {name}={value}"))
    return way.format(name=name, value=value, folder=in_bytes(os.fsencode(folder)))


def shown_state(path):
    """What SHOW has written: the directory, and the variables but for two that each shell sets for itself."""
    folder, *entries = Path(path).read_bytes().split(b"\0")[:-1]
    variables = dict(entry.split(b"=", 1) for entry in entries)
    return folder, {name: value for name, value in variables.items() if name not in (b"_", b"SHLVL")}


@clause("028.1", saboteur=("_unquoted", "codecs.escape_decode(", "(lambda value: (value,))("))
@given(
    st.lists(st.tuples(any_of(*BEFORE), acts(), any_of(*AFTER)), min_size=1, max_size=6),
    st.dictionaries(any_of("T_A_", "a-b", "1x", "T é", "BASH_FUNC_t%%"), any_of("", "x", "() { :; }")),
)
@example([("", "export T_A_=" + in_bytes(b"\x1b\n\\n"), "")], {})
@draws(20)
def test_req_bash_028_1_goes_on_as_one_shell_would(commands, env):
    # Each command is given to the tool, and all of them to one bash, which is spared what would break it.
    with tempfile.TemporaryDirectory() as base:
        base = os.path.realpath(base)
        for name in ("a b", "new\nline", "é", "real/deep"):
            os.makedirs(os.path.join(base, name))
        os.symlink("real/deep", os.path.join(base, "link"))
        ours, theirs = ([os.path.join(base, "%s-%d" % (side, n)) for n in range(len(commands))] for side in ("o", "t"))
        env = {"PATH": os.environ["PATH"], "HOME": "/usr", "LC_ALL": "C.UTF-8", **env}
        with BashTool(base, base_env=env, carry=True) as tool:
            for (before, act, after), path in zip(commands, ours):
                assert tool.run("\n".join([before, act, after])).status == "exited"
                tool.run(SHOW % shlex.quote(path))
        lines = ["cd -- %s; unset OLDPWD; declare -x OLDPWD" % shlex.quote(base)]
        for (_, act, _), path in zip(commands, theirs):
            lines += [act, SHOW % shlex.quote(path)]
        plain_bash("\n".join(lines), env={**bash_tool.NON_INTERACTIVE, **env})
        for n, (one, other) in enumerate(zip(map(shown_state, ours), map(shown_state, theirs))):
            assert one == other, commands[: n + 1]


@clause("028.2", saboteur=("next_start", "return None", "return Start(b\"/\", {**first}), []"))
@few(any_of("limit", "cancel", "end"), st.data())
def test_req_bash_028_2_is_left_as_it_was(way, data):
    change = "cd /; export T_A_=wrong; unset T_B_\n"
    ends = ["trap - EXIT", "trap 'echo bye' EXIT", "exec true", "kill -9 $$", "kill -TERM $$; sleep 9", "kill -INT $$"]
    ends += ["(sleep 0.1; kill -9 $PPID) & wait", "enable -n export", "ulimit -f 0"]
    ends += ["exec 1023>&- 9>&-; g() { exit; }; g"]
    with BashTool(profile=tiny(default=0.5), carry=True) as tool:
        tool.run("mkdir -p sub; cd sub; export T_A_=$'right\\n' T_B_=")
        if way == "end":
            result = tool.run(change + data.draw(any_of(*ends)), timeout_s=60)
        else:
            command = data.draw(endless())
            cancel = Cancel()
            if way == "cancel":
                threading.Timer(0.2, cancel.cancel).start()
            result = tool.run(change + command.text, cancel=cancel)
            assert result.status in ("timed_out", "cancelled")
        shown = tool.run("basename \"$PWD\"; echo ${T_A_@Q} ${T_B_-gone}").text
        assert shown == "sub\n$'right\\n'\n", (way, result)


@clause("028.3", saboteur=("next_start", "exported if line[1] not in NOT_CARRIED", "exported"))
def test_req_bash_028_3_nothing_bends_the_next_shell(monkeypatch, tmp_path):
    (tmp_path / "rc").write_text("echo noise\n")
    (tmp_path / "usr").mkdir()
    monkeypatch.setenv("APP_TOKEN", "hunter2-of-the-host")
    dropped = sorted(["BASH_ENV", *filter(str.isupper, bash_tool.DROPPED_NAMES)])
    with BashTool(carry=True) as tool:
        tool.run("set -eu -o noglob; shopt -s nullglob; ls() { echo wrong; }; export -f ls; export T_A_=1 CDPATH=/")
        tool.run("export %s; export BASH_ENV=rc ENV=rc GPG_TTY=x GLOBIGNORE='*'" % " ".join(dropped))
        bent = "env | grep -E '^(%s|BASH_FUNC_.*)=|hunter2'" % "|".join(dropped)
        result = tool.run("false; echo $T_A_ *; cd usr; " + bent)
        assert result.stdout == "1 rc usr\n" and result.exit_code == 1, result
    given = {"PATH": os.environ["PATH"], "BASH_ENV": str(tmp_path / "rc"), "BASH_FUNC_ls%%": "() { echo ours; }"}
    with BashTool(base_env=given, carry=True) as tool:  # the host's own choice stays
        for _ in range(2):
            assert tool.run("ls; export BASH_ENV=/no/file T_A_=1; unset -f ls").text == "noise\nours\n"


@clause("028.4", saboteur=("_SAVE_STATE", "; } >/dev/null 2>&1", "; }"))
@given(st.one_of(known_commands(), any_of(*SNIPPETS).map(lambda text: Known(text.replace("\\n", "\n")))), st.booleans())
@draws(25)
def test_req_bash_028_4_is_not_seen(known, traced):
    if "trap)" in known.text:  # which shows the trap
        return
    text = "set -x\n" * traced + known.text
    with BashTool(profile="streams") as plain, BashTool(profile="streams", carry=True) as tool:
        one, other = plain.run(text), tool.run(text)
    for name in ("status", "exit_code", "signal", "stdout"):
        assert getattr(one, name) == getattr(other, name), (name, one, other)
    assert list(one.notes) == [note for note in other.notes if note != NOT_KEPT]
    # A trace names processes, and the sides of a pipe write theirs in any order, also into a line of the command's.
    one_said, other_said = (sorted(re.sub(r"\d", "", side.stderr)) for side in (one, other))
    assert one_said == other_said, (one, other)


@clause(
    "028.5",
    saboteur=(
        "Carry.take_over",
        "self.next, omitted = taken",
        "omitted = taken[1]; self.next = taken[0] if start is self.next else self.next",
    ),
)
@few(st.permutations(range(4)))
def test_req_bash_028_5_each_starts_from_the_last_that_was_answered(order):
    with tempfile.TemporaryDirectory() as base, BashTool(base, carry=True) as tool, ThreadPoolExecutor(4) as pool:
        tool.run("mkdir {0..3}; export T_A_=first; cd 0")
        text = ": > ../begun-{0}; until [ -e ../go-{0} ]; do sleep 0.1; done; cd ../{0}; export T_A_+=-{0}; echo $PWD"
        ours = [pool.submit(tool.run, text.format(n), timeout_s=PATIENCE_S) for n in range(4)]
        assert eventually(lambda: all(Path(base, "begun-%d" % n).exists() for n in range(4)))
        for n in order:
            Path(base, "go-%d" % n).write_text("")
            assert ours[n].result().exit_code == 0
            assert tool.run("basename $PWD; echo $T_A_").text == "%d\nfirst-%d\n" % (n, n)


@clause("028.6", saboteur=("make_plan", "carries and env is start.env and not has_cwd", "carries"))
@pytest.mark.parametrize(
    "given",
    [{"mode": "background"}, {"cwd": "/etc"}, {"env": {"T_B_": "own"}}, {"cwd": "/etc", "env": {"PATH": "/bin"}}],
)
def test_req_bash_028_6_what_leaves_the_state(given):
    with BashTool("/", carry=True) as tool:
        tool.run("cd /usr; export T_A_=1")
        with long_look():
            result = tool.run("echo $PWD $T_A_ $T_B_; cd /; export T_A_=2 T_B_=3", **given)
        shown = "%s 1%s\n" % (given.get("cwd", "/usr"), " own" if "T_B_" in given.get("env", ()) else "")
        assert shown in result.stdout
        assert tool.run("echo $PWD $T_A_ ${T_B_-none}").text == "/usr 1 none\n"
    with BashTool("/", profile="jobs", carry=True) as tool:
        tool.run("cd /usr")
        go = Path(unique()).absolute()
        kept = tool.run("cd /etc; " + until(go), timeout_s=0.3)
        go.touch()
        assert kept.status == "running" and tool.job(kept.pid).wait(20)
        assert tool.run("pwd").stdout == "/usr"


@clause("028.7", saboteur=("carrying", "required=()", "required=profile.required"))
def test_req_bash_028_7_says_what_persists():
    for row in PROFILES.values():
        carrying = BashTool("/", profile=row, carry=True)
        told = {style: carrying.definition(style) for style in ("anthropic", "openai", "mcp")}
        plain = BashTool("/", profile=row).definition()
        assert "restart" not in json.dumps(plain) and BashTool("/", profile=row).profile is row
        for definition in told.values():
            assert definition["description"].count(bash_tool.CARRIES) == 1
            assert bash_tool.NOTHING_PERSISTS not in definition["description"]
        schema = told["anthropic"]["input_schema"]
        assert list(schema["properties"]) == [*plain["input_schema"]["properties"], "restart"]
        assert "required" not in schema
        strict = told["openai"]["parameters"]
        assert strict["required"] == list(schema["properties"])
        assert strict["properties"]["restart"]["type"] == ["boolean", "null"]
        wrong = BashTool("/", profile=row).call({"restart": True})
        assert wrong.error == "invalid_arguments" and 'unknown key "restart"' in wrong.text.replace("\\", "")
    with BashTool("/", carry=True) as tool:
        for given in ({"command": "echo hi", "restart": False}, {"command": "echo hi", "restart": None}):
            assert tool.call(given).text == "hi\n"
        for given in ({"restart": False}, {"restart": True, "command": ":"}, {}, {"restart": 1}, {"restart": "true"}):
            assert tool.call(given).error == "invalid_arguments"


@clause(
    "028.8",
    saboteur=(
        "Session.answer",
        "Carry(self.config.first)",
        "vars(self._carry).update(next=self.config.first) or self._carry",
    ),
)
@pytest.mark.parametrize("row", PROFILES.values(), ids=PROFILES)
def test_req_bash_028_8_restart(row):
    with BashTool("/", profile=row, carry=True) as tool, ThreadPoolExecutor(1) as pool:
        tool.run("cd /usr; export T_A_=1 PATH=/nowhere; unset HOME")
        here = os.getcwd()
        waits = ": > %s/begun; builtin cd /etc; until [ -e %s/go ]; do /bin/sleep 0.1; done" % (here, here)
        slow = pool.submit(tool.run, waits)
        assert eventually(lambda: os.path.exists("begun"))
        result = tool.call({"restart": True})
        assert "the working directory and the exported variables are those of the beginning again" in result.text
        assert (result.is_error, result.exit_code) == (False, 0)
        Path("go").write_text("")
        assert slow.result().status == "exited"
        assert tool.run("echo $PWD ${T_A_-unset} $HOME; sleep 0").stdout.strip() == "/ unset " + os.environ["HOME"]


@clause("028.9", saboteur=("define", '"bash_20250124"', '"bash_20241022"'))
def test_req_bash_028_9_the_tools_of_vendors():
    for row in PROFILES.values():
        tool, carrying = BashTool("/", profile=row), BashTool("/", profile=row, carry=True)
        assert carrying.definition("anthropic-native") == {"type": "bash_20250124", "name": "bash"}
        for one in (tool, carrying):
            assert one.definition("openai-native") == {"type": "shell", "environment": {"type": "local"}}
        with pytest.raises(ValueError, match="^the style 'anthropic-native' goes with carry=True$"):
            tool.definition("anthropic-native")


@clause("028.11", saboteur=("Shell.carried", "self._plan.cwd", "self.scratch"))
def test_req_bash_028_11_the_directory_is_gone():
    with BashTool(carry=True) as tool:
        tool.run("mkdir a; cd a; export T_A_=1; rmdir ../a")
        gone = os.path.abspath("a")
        for command, there in (("export T_A_=2; : >made; pwd", True), ("pwd", False), ("mkdir in; cd in; pwd", True)):
            result = tool.run(command)
            assert result.notes[0].startswith("the working directory %s is gone" % gone)
            assert result.error == "cwd_missing"
            folder = result.stdout.strip()
            assert os.path.isdir(folder) == there and "scratch-" in folder
        assert tool.run("echo $PWD $T_A_").text == folder + " 2\n"
        assert tool.run("cd %s; mkdir a; cd a" % shlex.quote(os.getcwd())).exit_code == 0
        assert tool.run("echo $PWD $T_A_").text == gone + " 2\n"
    os.mkdir("b")
    with BashTool("b", carry=True) as tool:  # one that comes back
        os.rmdir("b")
        for command in "true", "cd ..", "cd ..; cd scratch", "true":  # `cd ..` leads to the folder around the empty one
            assert "%s is gone" % os.path.abspath("b") in tool.run(command).text, command
        os.mkdir("b")
        assert tool.run("pwd").text == os.path.abspath("b") + "\n"


IN_A_GROUP = "cd /usr; { echo one >&%d; } %d>&1 >/dev/null; echo two; exit 5"
IN_A_FUNCTION = "cd /usr; f() { exec %d>&1 >/dev/null; echo one >&%d; exit 3; }; f"
KEPT_OPEN = "cd /usr; echo in >$OLDPWD/in; exec %d<$OLDPWD/in; read -r x <&%d; echo $x; (read -r y <&%d || echo end)"
EACH_NUMBER = """for n in {3..255}; do eval "exec $n>&1"; eval "echo $n >&$n"; eval "exec $n<&0 $n<&-"; done; cd /usr"""


@clause("028.12", saboteur=[("_KEEP_FILE", "1023<&1022", "254<&1022"), ("_SAVE_STATE", "in 1023 9", "in 254 9")])
@given(any_of(IN_A_GROUP, IN_A_FUNCTION, KEPT_OPEN), st.integers(3, 255), any_of("", "ulimit -n 64"))
@example(EACH_NUMBER, 0, "")
@example(EACH_NUMBER, 0, "ulimit -n 256")
@example(IN_A_FUNCTION, 254, "")
@example(KEPT_OPEN, 9, "ulimit -n 64")
@example(IN_A_GROUP, 10, "ulimit -n 1022")
@draws(12)
def test_req_bash_028_12_every_number_is_the_commands(text, number, limit):
    # Below a limit the descriptor of the state is 9: then what the command ended with may be lost, and never output.
    if limit == "ulimit -n 64" and number > 50:
        return
    text = text % ((number,) * text.count("%d"))
    shell = ["bash"] if not limit else ["bash", "-c", limit + '; exec "$@"', "bash", "bash"]
    with tempfile.TemporaryDirectory() as base, BashTool(base, carry=True, shell=shell) as tool:
        plain = subprocess.run([*shell, "-c", text], capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=base)
        result = tool.run("OLDPWD=$PWD; " + text if "$OLDPWD" in text else text)
        if "$OLDPWD" not in text:
            assert (result.stdout, result.exit_code) == (plain.stdout + plain.stderr, plain.returncode), number
        else:
            assert result.stdout == "in\nend\n", number
        is_lost = NOT_KEPT in result.notes and limit and number in (0, 9)
        assert tool.run("pwd").stdout == "/usr\n" or is_lost, (text, number)


@clause("028.13", saboteur=("next_start", "> VARIABLE_BYTES", "> 2 * VARIABLE_BYTES"))
@few(any_of([131060], [140000, 5], [3000000], [100000] * 9, [131066, 131067]))
def test_req_bash_028_13_what_is_too_large_is_left_out(sizes):
    lines = ["export T_%d=$(head -c %d /dev/zero | tr '\\0' x)" % pair for pair in enumerate(sizes)]
    with BashTool("/", carry=True) as tool:
        result = tool.run("\n".join(["cd /usr", *lines, "export T_LAST=1"]))
        shows = "pwd; for n in {0..199}; do v=T_$n; echo ${#v} ${!v+$n}; done | grep ' ' ; ls -d /; echo $T_LAST"
        shown = tool.run(shows)
        assert shown.exit_code == 0 and shown.stdout.startswith("/usr\n") and shown.stdout.endswith("/\n1\n")
        kept = {int(line.split()[1]) for line in shown.stdout.splitlines() if " " in line}
        lost = set(range(len(sizes))) - kept
        assert {n for n, size in enumerate(sizes) if size + len("T_%d=" % n) + 1 > 131072} == lost
        notes = [note for note in result.notes if note.startswith("too large to carry over to the next command: ")]
        assert len(notes) == bool(lost) and set(re.findall('"T_([0-9]+)"', "".join(notes))) == set(map(str, lost))
        assert not shown.notes and not tool.run("true").notes


@clause("028.14", saboteur=("Carry.take_over", "self.next, self._last = self._last, self._first", "pass"))
@few(st.integers(1, 3), st.booleans())
def test_req_bash_028_14_a_state_that_starts_no_shell_is_dropped(before, background):
    os.makedirs("bad", exist_ok=True)
    Path("bad/libc.so.6").write_text("")
    with BashTool("/", carry=True) as tool:
        for n in range(before):
            tool.run("cd /usr; export T_A_=%d" % n)
        tool.run("cd /etc; export T_A_=bad LD_LIBRARY_PATH=%s" % shlex.quote(os.path.abspath("bad")))
        with long_look():
            failed = tool.run("echo hi", mode="background" if background else "default")
        assert failed.error == "spawn_failed" and "before it read the command" in failed.text
        assert failed.notes == (
            "with what the last command had exported no shell starts: "
            "the next command starts in the directory and with the variables from before it",
        )
        told = tool.run("echo $PWD $T_A_ ${LD_LIBRARY_PATH-unset}")
        assert told.stdout == "/usr %d unset\n" % (before - 1) and not told.notes
    os.makedirs("later", exist_ok=True)
    Path("later/libc.so.6").unlink(missing_ok=True)
    with BashTool("/", carry=True) as tool:
        tool.run("export LD_LIBRARY_PATH=%s" % shlex.quote(os.path.abspath("later")))
        tool.run("cd /usr")
        Path("later/libc.so.6").write_text("")  # the state before starts no shell either, now
        assert [tool.run(":").error for _ in range(2)] == ["spawn_failed"] * 2 and tool.run("echo $PWD").stdout == "/\n"


UNSAVED = ["trap : EXIT", "exec true", "kill -9 $$", "kill $$; sleep 9", "sleep 60", "kill -9 $PPID; sleep 60"]


@clause("028.15", saboteur=("Carry.take_over", "if was_taken else []", ""))
@few(st.lists(any_of(*UNSAVED, "true", "false"), min_size=2, max_size=6))
@example(["sleep 60", "exec true", "true", "kill -9 $$"])
def test_req_bash_028_15_says_what_was_not_kept(ends):
    kept = True
    with BashTool("/", profile=tiny(default=2 * short_limit_s()), carry=True) as tool:
        for end in ends:
            result = tool.run("cd /usr; " + end)
            assert (NOT_KEPT in result.notes) == (kept and end in UNSAVED), (ends, result)
            kept = end not in UNSAVED
    with BashTool("/", profile="jobs", carry=True) as tool:
        assert NOT_KEPT in tool.run("cd /usr; sleep 600", timeout_s=0.1).notes
        assert not tool.run("true", cwd="/etc").notes


# ---- 029 Ephemeral tools -------------------------------------------------------------------------------------------
@clause("029.1", saboteur=("make_plan", "ephemeral=config.ephemeral", "ephemeral=False"))
def test_req_bash_029_1_closing_leaves_nothing():
    def opened():
        return BashTool(profile=tiny(default=AMPLE_S), ephemeral=True, max_jobs=99)

    @fewer(leaving())
    def what_a_command_leaves(known):
        with opened() as tool:
            folder = Path(tempfile.mkdtemp())
            result = tool.run(known.text, cwd=folder)
            pids = {number_in(folder / file) for file in known.leaves}
            assert result.exit_code == known.code and pids <= set(result.leftovers)
        assert not any(map(alive, pids))

    what_a_command_leaves()
    tool, deaf = opened(), lasting("trap '' TERM; sleep 601 & echo up; while :; do sleep 0.1; done")
    with ThreadPoolExecutor(4) as pool:
        started = pool.map(lambda command: tool.run(command, mode="background").pid, [deaf, lasting("sleep 600")] * 4)
    jobs = list(map(tool.job, started))
    assert jobs[0].wait(10, until="up")
    task = lasting("sleep 600 >/dev/null & (setsid sleep 600 >/dev/null &) ; echo left")
    count = 100 if THOROUGH else 40
    with ThreadPoolExecutor(16) as pool:  # an evaluation of many tasks
        many = list(pool.map(tool.run, [task] * count))
    pids = [job.pid for job in jobs] + [pid for result in many for pid in result.leftovers]
    assert len(set(pids)) == len(pids) >= 8 + 2 * count and all(map(alive, pids))
    begun = time.monotonic()
    tool.close()
    assert not any(map(alive, pids)) and time.monotonic() - begun < 10 + slack_s()
    assert all(job.status == "cancelled" for job in jobs)
    assert notes_in(jobs[0].output_file) == ["\n\n[background process failed: cancelled]\n"]
    with Client("--ephemeral") as client:
        pids = [int(client.said(lasting("sleep 600 >/dev/null & echo $!")).split("\n")[1])]
        pids.append(client.start(lasting("sleep 600")))
        assert all(map(alive, pids)) and client.end() == 0 and not any(map(alive, pids))


@clause("029.2", saboteur=("Life._watch", "plan.ephemeral", "False"))
@fewest(leaving())
def test_req_bash_029_2_a_killed_host_leaves_nothing(known):
    program = """
        import os, sys
        from bash_tool import BashTool
        tool = BashTool(ephemeral=True)
        left = tool.run(sys.argv[1]).leftovers
        print(tool.run("trap '' TERM; while :; do sleep 0.1; done", mode="background").pid, *left, flush=True)
        os.kill(os.getpid(), 9)
    """
    os.chdir(tempfile.mkdtemp())
    pids = [int(word) for word in dying_host(program, known.text).split()]
    assert len(pids) > len(known.leaves) and eventually(lambda: not any(map(alive, pids)), 1 + slack_s())


@clause("029.3", saboteur=("Session._run", "exchange.notice_end()", "pass"))
def test_req_bash_029_3_a_long_conversation():
    with BashTool(ephemeral=True) as tool:
        stays = [tool.run(lasting("sleep 600 >/dev/null &")).leftovers[0]]
        stays.append(background(tool, lasting("sleep 600")).pid)
        ended = background(tool, lasting("sleep 600 >/dev/null & echo $! > left; sleep 1"))  # but for what it leaves
        assert ended.wait(PATIENCE_S) and ended.status == "exited"
        stays.append(number_in("left"))
        warm_up()
        before = len(descriptors())
        with ThreadPoolExecutor(6) as pool:
            assert all(result.leftovers for result in pool.map(tool.run, ["sleep 3 >/dev/null 2>&1 &"] * 30))
            jobs = pool.map(lambda command: background(tool, command), ["sleep 3"] * 30)
            assert len({job.pid for job in jobs}) == 30
        assert eventually(lambda: tool.run(":").ok and len(descriptors()) <= before), (before, descriptors())
        assert all(map(alive, stays))
    assert not any(map(alive, stays))
