"""What happens to a shell tool in real life: a row for each of the 26 accidents that an engine has to hold.

By behaviour alone: the public names, the command line, the server, processes and files. Each promise of time is given
`slack_s()` more, for a machine that is busy; what tells a promise from its breach is farther apart than that.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.accident_cases import CANNOT_SEE, CANNOT_WRITE, CARRIES, CLOCK, DEAF, ELSEWHERE
from tests.accident_cases import ENDS, FORKS, FULL, GROWING, GROWS, HAS_A_DIRECTORY_THAT_HANGS, HAS_A_FULL_DISK
from tests.accident_cases import HAS_AN_ALARM, HAS_FEW_DESCRIPTORS, HAS_NO_DEV_NULL, HAS_NO_PROCESSES, HAS_SMALL_FILES
from tests.accident_cases import HAS_WORKERS, HOLDS, IS_AN_ORDINARY_USER, IS_FROZEN, LAST_WORDS, LEFT, LIBRARY_ENDS
from tests.accident_cases import LOOPS, NOTEBOOK, PACKED, PLAIN, PROMPTS, PYTHON, SCREENS, STUBBORN, TEXTS
from tests.accident_cases import TOKENS, TREES
from tests.processes import AMPLE_S, PATIENCE_S, alive, eventually, parent_of, running
from tests.support import IMPORTABLE, MOUNTS, PID_NAMESPACE, PLAIN_PYTHON, TOOL, Client, Host, Process, bash_tool
from tests.support import cgroup, checks, cli, content, exhaustive, hanging, has_locale, made, needs, needs_root
from tests.support import refusing, resident, side_by_side, slack_s, started, stop_in, unique, unshared, with_each_face

pytestmark = exhaustive


# ---- 1 Over the limit ---------------------------------------------------------------------------
def test_row_01_all_that_descends_is_gone():
    """A command over its limit: partial output, `timed out`, what to do, nothing left; the deaf after the grace."""

    def act(case):
        deaf, number = case in DEAF, unique()
        tool = made(default=1.0, grace=0.5 if deaf else 15.0)
        result = tool.run("echo partial; " + dict(TREES, **DEAF)[case].format(n=number))
        left = running(number)
        assert not left, left
        assert (result.status, result.exit_code, result.is_error) == ("timed_out", None, True)
        assert result.text.startswith("[command timed out after 1s]\n") and 'mode="slow"' in result.text
        assert "\npartial\n" in result.text and result.stdout.startswith("partial\n")
        assert 1.0 <= result.duration_s < 1.0 + 0.5 * deaf + slack_s(), result.duration_s
        assert not tool.jobs()

    side_by_side(act, [*TREES, *DEAF], workers=14)


def test_row_01_over_each_way_to_the_tool():
    """The same in the other profiles, over the command line, over MCP; a profile that keeps makes a job."""

    def streams(command):
        result = made(profile=bash_tool.STREAMS, default=0.7).run(command)
        assert json.loads(result.text)["stdout"] == "partial\n" and result.status == "timed_out"

    def guarded(command):
        result = made(profile=bash_tool.GUARDED, default=0.7).run(command)
        assert result.text.startswith("Command timed out after 0.7s\n") and "partial" in result.text

    def keeping(command):
        with made(profile=bash_tool.JOBS, default=0.7) as tool:
            result = tool.run(command)
            assert result.status == "running" and "partial" in result.text
            assert "pid %d" % result.pid in result.text and running(command.split()[-1])

    def command_line(command):
        done = cli("--timeout", "0.7", command)
        assert done.returncode == 124 and done.stdout.startswith(b"[command timed out after 0.7s]\n"), done

    def server(command):
        with Client(started=True, timeouts={"default": 0.7}) as client:
            number = client.begin(command)
            assert client.text(number).startswith("[command timed out after 0.7s]\n")
            assert client.answer(number)["result"]["isError"] is True

    def act(face):
        number = unique()
        face("echo partial; sleep " + number)
        assert not running(number)

    side_by_side(act, [streams, guarded, keeping, command_line, server])


# ---- 2 What is left running ---------------------------------------------------------------------
def test_row_02_is_answered_and_the_named_kill_ends_it():
    """An answer within a second of the shell's end; what lives is named, and the named kill ends all of it."""

    def act(case):
        if "curl" in case and not shutil.which("curl"):
            return
        number, tool = unique(), made(default=AMPLE_S)
        result = tool.run("sleep 0.05; " + LEFT[case].format(n=number))
        assert (result.status, result.exit_code) == ("exited", 3 if case == "a failure" else 0)
        assert "answer\n" in result.stdout
        limit = 0.2 * ("fork" in case) + 1.5 * ("curl" in case) + 1.0
        assert result.duration_s < limit + slack_s(), result.duration_s
        assert "[still running: pid " in result.text
        assert any(re.search(r"\bpid %d\b" % pid, result.text) for pid in running(number)), result.text
        stop = stop_in(result.text)
        tool.run(stop.replace("-TERM", "-9") if case == "deaf" else stop)  # the note names TERM, for databases
        assert eventually(lambda: not running(number)), running(number)
        assert "still running" not in tool.run("echo next").text

    side_by_side(act, LEFT)


def test_row_02_the_output_of_what_is_left_goes_on():
    """What it writes later stands in the file that the answer names, also after the tool was closed."""
    number = unique()
    with made() as tool:
        text = tool.run("(until [ -e go ]; do sleep 0.1; done; echo later; exec sleep %s) & echo first" % number).text
    path = re.search(r"; output goes on to ([^\]]+)\]", text).group(1)
    Path("go").touch()
    assert eventually(lambda: "later\n" in Path(path).read_text()), text
    assert eventually(lambda: running(number)) and text.endswith("first\n")
    made().run(stop_in(text))
    assert eventually(lambda: not running(number))
    assert "output goes on" not in made().run("sleep %s >/dev/null 2>&1 & echo closed" % number).text


def test_row_02_what_is_just_ending_is_not_named():
    """A process that is gone a moment after its shell is no leftover, and costs no second."""
    with made() as tool:
        # Again where a busy machine takes longer for the sleep than the tool waits.
        assert eventually(lambda: tool.run("(exec 1>&- 2>&-; sleep 0.02) & echo quick").text == "quick\n")
        assert eventually(lambda: tool.run("echo piped > >(sleep 0.1; cat)").text == "piped\n")


def test_row_02_leftovers_are_no_job(tmp_path):
    """No record, no number: neither this tool nor the next one lists what a foreground command left."""
    number, place = unique(), tmp_path / "state"
    with made(state_dir=place) as tool:
        tool.run("sleep %s & nohup sleep %s >/dev/null 2>&1 & echo answer" % (number, number))
        assert eventually(lambda: running(number, 2))
        assert not tool.jobs() and not tool.wait(timeout_s=0.1)
        assert not made(state_dir=place).jobs() and not cli("--state-dir", place, "--jobs").stdout.split(b"\n")[1:-1]


# ---- 3 Background -------------------------------------------------------------------------------
def test_row_03_answered_at_once(tmp_path):
    """Within half a second, with number, file and how to stop it; the output is there, and that kill ends it."""

    def act(ask):
        def seconds():
            number, begun = unique(), time.monotonic()
            text = ask("echo up; sleep %s & setsid sleep %s & wait" % (number, number), mode="background")
            took = time.monotonic() - begun
            pid, path = started(text)
            assert alive(pid) and content(path) == "up"
            assert eventually(lambda: running(number, 2))
            ask("kill -9 -%d" % pid)
            assert eventually(lambda: not running(number))
            return took

        assert eventually(lambda: seconds() < 0.1 + slack_s() / 3)

    with_each_face(act, tmp_path)


def test_row_03_fails_at_once(tmp_path):
    """What fails at once is a failure with its text, still with number and file."""

    def act(ask):
        for command, code in [("echo no such thing >&2; exit 3", "3"), ("echo no such thing; kill -9 $$", r"137\b.*")]:
            failed = r"\[command failed: exit code %s" % code
            texts = []  # a busy machine may take longer than the look
            more = lambda: texts.append(ask(command, mode="background"))
            assert eventually(lambda: more() or re.match(failed, texts[-1])), texts
            text = texts[-1]
            assert "no such thing" in text and "<pid>" in text
            path = Path(re.search("<output_file>(.*)</output_file>", text).group(1))
            assert path.read_text().startswith("no such thing\n\n\n[background process failed: ")
            assert ask("echo next") == "next\n"

    with_each_face(act, tmp_path)


def test_row_03_dies_later(tmp_path):
    """A later end is told once, in the next answer, with code and last line; the file ends with it too."""
    ends = {"exit 3": "failed: exit status", "kill -9 $$": "ended by signal", "exit 0": "completed"}

    def act(ask):
        go = Path("go-" + unique())
        late = "until [ -e %s ]; do sleep 0.1; done; echo last words; " % go
        jobs = {end: started(ask(late + end, mode="background")) for end in ends}
        go.touch()
        for end, (_, path) in jobs.items():
            assert eventually(lambda: "[background process " in path.read_text())
            how = ends[end].replace("ended by", "failed:")  # the file keeps the seed's words
            assert path.read_text().startswith("last words\n\n\n[background process %s" % how)
        texts = []

        def told(end, pid):
            return [text for text in texts if "[background process %d %s" % (pid, ends[end]) in text]

        def all_told():  # a note stands in the file a moment before the tool hears of the end
            texts.append(ask("echo answer"))
            return all(told(end, pid) for end, (pid, _) in jobs.items())

        assert eventually(all_told), texts
        texts.append(ask("echo answer"))
        for end, (pid, path) in jobs.items():
            (text,) = told(end, pid)
            assert 'last line: "last words"' in text and str(path) in text, texts
        assert texts[-1] == "answer\n" and all(text.endswith("answer\n") for text in texts)

    with_each_face(act, tmp_path)


def test_row_03_programs_hear_of_the_end_once(tmp_path):
    """`on_job_end`, `wait` and `until`, once for each job."""
    ended = []
    with made(on_job_end=ended.append, state_dir=tmp_path / "state") as tool:
        late = "until [ -e go ]; do sleep 0.1; done; echo ready; exit %d"
        pids = [tool.run(late % code, mode="background").pid for code in (0, 7)]
        jobs = [tool.job(pid) for pid in pids]
        Path("go").touch()
        assert jobs[0].wait(PATIENCE_S, until="ready") and len(tool.wait(jobs, timeout_s=PATIENCE_S)) == 2
        assert sorted(job.exit_code for job in jobs) == [0, 7]
        assert eventually(lambda: len(ended) == 2) and {job.pid for job in ended} == set(pids)
        tool.run("true")
    assert len(ended) == 2


# ---- 4 Kill by name -----------------------------------------------------------------------------
@needs("pkill")
def test_row_04_a_word_of_the_command_spares_its_own_shell():
    """`pkill -f WORD`: the command that says it goes on, and what it names is gone."""

    def act(before):
        number, word = unique(), "word-" + unique()
        with made(default=AMPLE_S) as tool:
            tool.run("exec -a %s sleep %s" % (word, number), mode="background")
            assert eventually(lambda: running(word))
            text = tool.run("%s; pkill -f %s; echo code $?" % (before, word)).text
            assert text.endswith("code 0\n") and "[command" not in text, text
            assert eventually(lambda: not running(number)) and tool.run("echo next").stdout == "next\n"
            text = tool.run("%s; pkill -9 -f %s; echo code $?" % (before, word)).text
            assert text.endswith("code 1\n") and "[command" not in text, text

    side_by_side(act, ["cd /", "cat <<'x' | wc -l\nhere\nx\n:", "(:)", "x=$(echo a)", "# " + "x" * 100000 + "\n:"])


SPARING = ["pkill node", "pkill -f node", "killall -9 bash", "pkill -x sh", "pkill -f no-such-word"]
STRIKING = [
    *("pkill python", "pkill -f python", "pkill -9 -f python", "pkill -f bash", "pkill -f server"),
    *("pkill -f myproject", "killall -9 python python3"),
    "ps aux | grep python | grep -v grep | awk '{print $2}' | xargs -r kill -9",
]
needs_killers = needs("pkill", "killall")


@needs_root
@needs_killers
@pytest.mark.parametrize("commands", [SPARING, STRIKING], ids=["sparing", "striking"])
def test_row_04_names_of_programs_spare_the_server(commands, tmp_path):
    """By its name, its arguments or its paths: the server, its jobs and the next call go on."""
    for folder in "server", "myproject":
        (tmp_path / folder).mkdir()
    shutil.copy(TOOL, tmp_path / "server" / "bash_tool.py")
    wrap = (*unshared(*PID_NAMESPACE), "sh", "-c", '"$@"; exit $?', "sh")
    server = (*wrap, sys.executable, tmp_path / "server" / "bash_tool.py", "--mcp")

    def act(command):
        with Client("--cwd", tmp_path / "myproject", command=server, cwd="/") as client:
            number = unique()
            pid, _ = started(client.shown("exec sleep " + number, mode="background"))
            assert eventually(lambda: running(number))  # it is no bash any more
            client.shown(command)
            assert client.shown("echo alive").endswith("alive\n")
            assert "background process" not in client.shown("kill -0 %d && echo alive" % pid) and running(number)

    side_by_side(act, commands, workers=4)


@needs_root
@needs_killers
@pytest.mark.parametrize("commands", [SPARING, STRIKING], ids=["sparing", "striking"])
def test_row_04_names_of_programs_spare_the_engine(commands):
    """The same for what a program starts for its library tool; the program itself is process 1, which nothing ends."""
    program = """
        tool = BashTool(profile=row(default=60))
        pid = tool.run("exec sleep " + sys.argv[1], mode="background").pid
        tool.run(sys.argv[2])
        say(tool.run("echo alive").stdout, tool.job(pid).status)
    """
    wrap = unshared(*PID_NAMESPACE)

    def act(command):
        with Host(program, unique(), command, wrap=wrap) as host:
            assert host.hear() == ["alive\n", "running"]

    side_by_side(act, commands, workers=4)


@needs_root
@needs_killers
def test_row_04_a_fork_server_that_is_hit_at_once():
    """In its first milliseconds an interpreter has the name of one: the call asks again, and the host goes on to start one."""
    program = """
        import bash_tool
        for n in range(12):
            with BashTool(profile=row(default=60)) as tool:
                bash_tool._pool.forget_fork_server()
                bash_tool._pool._idle = []
                hit = subprocess.Popen(["sh", "-c", "sleep %g; exec pkill -9 %s" % (n / 200, sys.argv[1])])
                say(tool.run("echo alive").stdout, tool._session.python == sys.executable)
                hit.wait()
    """

    def act(words):
        with Host(program, words, wrap=unshared(*PID_NAMESPACE)) as host:
            assert [host.hear() for _ in range(12)] == [["alive\n", True]] * 12

    side_by_side(act, ["python", "-f python"], workers=2)


# ---- 5 Nobody can press a key -------------------------------------------------------------------
def test_row_05_nothing_waits_for_a_key():
    """Editors, REPLs, questions, passwords and pagers end or print at once."""

    def act(case):
        program = case.split()[0]
        if program in "node bc ed sqlite3 gdb less more git ssh-keygen man top npm" and not shutil.which(program):
            return
        result = made(default=AMPLE_S).run(PROMPTS[case].format(n=unique()))
        assert result.status == "exited" and result.duration_s < 5 + slack_s(), result.text
        if case in ("git log", "less", "more", "pager"):
            assert result.exit_code == 0 and result.stdout.count("\n") > 3
        if case in ("editor", "eval editor", "visual", "git commit", "git rebase"):
            assert result.exit_code and "no" in result.text and "editor" in result.text, result.text

    side_by_side(act, PROMPTS)


def test_row_05_an_editor_unquoted():
    """`$EDITOR file` says what is meant, however it is quoted."""
    with made(default=AMPLE_S) as tool:
        for words in "$EDITOR file", "${EDITOR} file", '"$EDITOR" file', 'eval "$EDITOR" file', 'sh -c "$VISUAL file"':
            result = tool.run(words)
            assert result.exit_code and "no-editor-here" in result.text, result.text


# ---- 6 Long output ------------------------------------------------------------------------------
def test_row_06_both_ends_the_size_and_the_whole():
    """First and last lines, the exact size, and a file with every byte."""
    with made(default=AMPLE_S) as tool:
        for count in 30_000, 200_000:
            whole = "".join("%d\n" % number for number in range(1, count + 1))
            result = tool.call({"command": "seq %d" % count})
            assert result.truncated and result.total_bytes == len(whole) and len(result.text) < 9500
            head, tail = result.stdout.split("\n\n[snip]\n\n")
            assert whole.startswith(head.partition("]\n")[2] or head) and whole.endswith(tail)
            size = "%.1fKB" % (len(whole) / 1024) if len(whole) < 2**20 else "%.1fMB" % (len(whole) / 2**20)
            assert "[output truncated in middle: got %s, max is 128KB]" % size in result.text
            assert "[full output: %s]" % result.output_file in result.text
            assert Path(result.output_file).read_text() == whole
        assert tool.run("seq 20000").stdout == "".join("%d\n" % number for number in range(1, 20001))


def test_row_06_a_flood_is_capped():
    """The file ends at its cap, the answer says so, the size is exact and the last line is there."""
    size = 70 * 2**20
    with made(default=AMPLE_S) as tool:
        result = tool.run("head -c %d /dev/zero | tr '\\0' '\\n'; echo the end" % size)
        assert result.total_bytes == size + 8 and result.stdout.endswith("the end\n")
        assert 60 * 2**20 < os.path.getsize(result.output_file) <= 2**26 + 200
        assert "64MB" in result.text


def test_row_06_as_a_terminal_shows_it_in_the_end():
    """Progress bars, spinners, colours, titles."""
    with made() as tool:
        shown = [tool.run("printf '%s'" % written.replace("%", "%%")).text for written, _ in SCREENS]
        assert shown == [expected for _, expected in SCREENS]
        bar = "for i in $(seq 3000); do printf '\\r%d%% of it [=====>     ]' $i; done; echo"
        assert tool.run(bar).text == "3000% of it [=====>     ]\n"


# ---- 7 The exit code ----------------------------------------------------------------------------
def test_row_07_codes_and_signals():
    """True and first, a signal with its name."""
    with made(default=AMPLE_S) as tool:
        for code in 0, 1, 2, 3, 42, 100, 124, 126, 127, 128, 255:
            result = tool.run("echo text; exit %d" % code)
            first = "[command failed: exit code %d" % code if code else "text"
            assert (result.exit_code, result.is_error) == (code, code != 0) and result.text.startswith(first)
            assert result.text.endswith("text\n")
        for name in "HUP INT ILL ABRT FPE KILL USR1 SEGV PIPE ALRM TERM".split():
            number = getattr(signal, "SIG" + name)
            for command in "echo text; kill -%s $$" % name, "echo text; sh -c 'kill -%s $$' 2>&1; exit $?" % name:
                result = tool.run(command)
                assert result.exit_code == 128 + number and "]\ntext\n" in result.text, result.text
                assert re.match(r"\[command failed: exit code %d\b.*SIG%s" % (128 + number, name), result.text)
            assert tool.run("kill -%s $$" % name).signal == "SIG" + name
        assert "not sent by this tool; possibly out of memory" in tool.run("kill -9 $$").text
        assert tool.run("false | true").exit_code == 0 and tool.run("set -o pipefail; false | true").exit_code == 1
        assert tool.run("no-such-program-" + unique()).exit_code == 127


def test_row_07_two_streams_in_true_order():
    """As they were written, one after the other, whoever wrote them."""
    expected = "".join("out %d\nerr %d\n" % (number, number) for number in range(400))
    shell = "for i in $(seq 0 399); do echo out $i; echo err $i >&2; done"
    python = "import os\nfor i in range(400): os.write(1, b\"out %d\\n\" % i), os.write(2, b\"err %d\\n\" % i)"
    program = "%s -c '%s'" % (PYTHON, python)
    with made(default=AMPLE_S) as tool:
        for command in shell, program, "bash -c %s" % shlex.quote(shell):
            assert tool.run(command).text == expected


def test_row_07_the_last_line_before_the_exit():
    """Written a moment before the end, whatever the end is, by whatever process of the pipeline."""
    with made(default=AMPLE_S) as tool:

        def act(command):
            for _ in range(15):
                assert tool.run(command).stdout.endswith("last words\n"), command

        side_by_side(act, LAST_WORDS, workers=3)


# ---- 8 The host ends ----------------------------------------------------------------------------
def lives_and_is_found(job, pid, place, listed):
    """The job goes on; another tool and the command line find it, and its kill ends it."""
    assert eventually(lambda: running(job)), "the job has ended with its host"
    found = made(state_dir=place).job(pid)
    assert found is not None and found.status == "running"
    assert not listed or str(pid).encode() in cli("--state-dir", place, "--jobs").stdout
    assert found.kill() and found.wait(PATIENCE_S) and not running(job)


def gone_with_its_host(number, since):
    """The foreground command is gone a second after this moment."""
    gone = eventually(lambda: not running(number), since + 1.0 + slack_s() - time.monotonic())
    assert gone, "left running: %s" % running(number)


def test_row_08_a_program_ends(tmp_path):
    """In whatever way: foreground gone within a second; jobs live and are found by the next process."""

    def act(case):
        number, job, place = unique(), unique(), tmp_path / re.sub(r"\W", "-", case)
        prelude = "import sys; sys.frozen = True\n" if "frozen" in case else ""
        with Host(ENDS, place, STUBBORN.format(n=number), job, LIBRARY_ENDS[case], prelude=prelude) as host:
            pid = host.hear()
            assert eventually(lambda: running(number, 3)), host.complaints()
            since = time.monotonic()
            host.tell()
            gone_with_its_host(number, since)
            lives_and_is_found(job, pid, place, case == "SIGKILL")

    side_by_side(act, LIBRARY_ENDS, workers=4)


def test_row_08_a_client_or_server_ends(tmp_path):
    """The end of its input, TERM, HUP: the deaf have the grace. SIGKILL: they have half a second."""

    def act(case):
        number, job, place = unique(), unique(), tmp_path / case
        grace = 30 if case == "SIGKILL" else 0.4
        with Client("--state-dir", place, started=True, timeouts={"default": 60, "grace_s": grace}) as client:
            pid, _ = started(client.shown("exec sleep " + job, mode="background"))
            client.begin(STUBBORN.format(n=number))
            assert eventually(lambda: running(number, 3))
            since = time.monotonic()
            if case == "EOF":
                client.process.stdin.close()
            elif case == "both":
                client.process.stdin.close(), client.process.stdout.close()
            else:
                client.process.send_signal(getattr(signal, case))
            gone_with_its_host(number, since)
            client.ended()
            lives_and_is_found(job, pid, place, case == "SIGKILL")

    side_by_side(act, ["EOF", "both", "SIGTERM", "SIGHUP", "SIGKILL"], workers=4)


def test_row_08_a_command_line_ends(tmp_path):
    """Ctrl-C, TERM, HUP, SIGKILL, a terminal that is closed."""

    def act(case):
        number, (ours, theirs) = unique(), os.openpty()
        command = STUBBORN if case == "SIGKILL" else PLAIN  # else the deaf have a grace of 15 s
        words = [sys.executable, TOOL, "--timeout", "60", command.format(n=number)]
        before = dict(start_new_session=True, stdin=theirs, stdout=theirs, stderr=theirs)
        if case == "terminal":
            before["preexec_fn"] = lambda: fcntl.ioctl(0, 0x540E, 0)  # TIOCSCTTY: its terminal
        with Process(words, **before) as process:
            os.close(theirs)
            assert eventually(lambda: running(number, 3))
            since = time.monotonic()
            if case == "terminal":
                os.close(ours)
            else:
                process.process.send_signal(getattr(signal, case))
            gone_with_its_host(number, since)
            code = process.ended()
            assert code == 130 if case == "SIGINT" else code != 0, code

    side_by_side(act, ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL", "terminal"], workers=4)


# ---- 9 Several at once --------------------------------------------------------------------------
def test_row_09_a_cancel_ends_its_own_command_alone():
    """In a library and over MCP: the others go on, to their own ends."""
    numbers = [unique() for _ in range(5)]
    commands = ["echo begun; until [ -e go-%s ]; do sleep 0.1; done; echo own-%s; :" % (n, n) for n in numbers]
    cancels = [bash_tool.Cancel() for _ in numbers]
    with made(default=AMPLE_S, grace=5) as tool, ThreadPoolExecutor(5) as pool, Client(started=True) as client:
        calls = [pool.submit(tool.run, command, cancel=cancel) for command, cancel in zip(commands, cancels)]
        ids = [client.begin(command) for command in commands]
        client.shown("true")
        cancels[2].cancel()
        client.cancel(ids[2])
        result = calls[2].result(PATIENCE_S)
        assert result.status == "cancelled" and result.text == "[command cancelled]\nbegun\n"
        assert not any(call.done() for call in calls[:2] + calls[3:])
        for number in numbers:
            Path("go-" + number).touch()
        for index in 0, 1, 3, 4:
            expected = "begun\nown-%s\n" % numbers[index]
            assert calls[index].result(PATIENCE_S).text == client.text(ids[index]) == expected
        assert client.shown("echo next") == "next\n" and ids[2] not in client.answers


def test_row_09_no_answer_is_another_ones():
    """16 threads with one tool, 200 calls of one client."""
    with made(default=AMPLE_S) as tool, ThreadPoolExecutor(16) as pool:
        wanted = [unique() for _ in range(160)]
        results = pool.map(lambda n: tool.run("echo %s; echo err-%s >&2; exit %d" % (n, n, int(n[-1]))), wanted)
        for number, result in zip(wanted, results):
            assert result.stdout == "%s\nerr-%s\n" % (number, number) and result.exit_code == int(number[-1])
    with Client(started=True) as client:
        ids = {}
        while len(ids) < 200:
            ids.update((client.begin("echo %d" % n), n) for n in range(len(ids), len(ids) + 40))
            for number, n in ids.items():
                assert client.text(number) == "%d\n" % n


def test_row_09_ctrl_c_in_a_notebook():
    """The command is gone, KeyboardInterrupt comes, the next call works; again and again."""
    numbers = [unique() for _ in range(4)]
    with Host(NOTEBOOK, "+".join(numbers)) as host:
        for number in numbers:
            assert host.hear() == "ready" and eventually(lambda: running(number, 2))
            host.process.send_signal(signal.SIGINT)
            assert host.hear(1.0 + slack_s()) == ["interrupted", "next\n"] and not running(number)
        assert host.ended() == 0


# ---- 10 From call to call -----------------------------------------------------------------------
def test_row_10_nothing_leaks_from_call_to_call():
    """No directory, variable, function, alias, option, trap, limit, mask, descriptor or history."""
    look = (
        "pwd; echo ${LEAKED-none}; type -t leaked || echo none; echo $-; trap; umask; ulimit -n -c; alias; "
        "shopt -p; ls /proc/self/fd | wc -l; ps -o nice= $$ | tr -d ' '; set +o; jobs; dirs; echo $SHLVL"
    )
    with made() as tool:
        before = tool.run(look).text
        for leak in (
            "cd /; pushd /usr; export LEAKED=1; LEAKED=2; leaked() { :; }; alias leaked=ls",
            "set -eux; shopt -s extglob nullglob; trap 'echo trapped' EXIT DEBUG; umask 0; ulimit -n 50 -c 0",
            "exec 5</dev/null 6>&1 </dev/zero; renice 5 $$; hash -p /bin/true ls; false",
            "exec >/dev/null 2>&1; kill -9 $$",
            "set -o posix; readonly BASHOPTS; export PATH=/nowhere",
        ):
            tool.run(leak)
            assert tool.run(look).text == before


def test_row_10_a_directory_that_is_removed_is_told(tmp_path):
    """The command runs in an empty folder, and a note says so; it is back when the directory is."""
    (tmp_path / "there").mkdir()
    with made(tmp_path / "there") as tool, Client("--cwd", tmp_path / "there", started=True) as client:
        assert client.shown("true") == "[no output]\n"
        assert tool.run("rm -rf $PWD; echo removed").stdout == "removed\n"
        result = tool.run("ls -A; echo $PWD")
        assert result.error == "cwd_missing" and "there" in result.text and "is gone" in result.text
        assert str(tmp_path / "there") not in result.stdout
        assert "is gone" in client.shown("echo there") and "there\n" in client.shown("echo there")
        (tmp_path / "there").mkdir()
        assert tool.run("pwd").text == client.shown("pwd") == "%s\n" % (tmp_path / "there")


def test_row_10_a_mistyped_directory_is_an_error_at_the_start(tmp_path):
    """Of the constructor, of the command line, of a server."""
    (tmp_path / "file").touch()
    for name, problem in ("nowhere", FileNotFoundError), ("file", NotADirectoryError):
        with pytest.raises(problem):
            made(tmp_path / name)
        done = cli("--cwd", tmp_path / name, "echo ran")
        assert done.returncode not in (0, 124) and b"ran" not in done.stdout
        assert name.encode() in done.stdout + done.stderr
        done = cli("--mcp", "--cwd", tmp_path / name)
        assert done.returncode and name.encode() in done.stderr


# ---- 11 Tokens ----------------------------------------------------------------------------------
def test_row_11_tokens_are_not_in_the_environment(monkeypatch, tmp_path):
    """Of the command, of what it starts, or of its parents; nor in a file of the tool. All else passes."""
    passing = dict(MY_FLAG="yes", SSH_AUTH_SOCK="/run/agent", KEYBOARD="us", TOKENIZERS_PARALLELISM="false")
    env = dict(os.environ, **TOKENS, **passing)
    look = "env -0; tr '\\0' '\\n' </proc/$PPID/environ; seq 30000"
    with Client("--state-dir", tmp_path / "state", started=True, env=env) as client:
        text = client.shown(look + " >&2; env")
        assert "MY_FLAG=yes" in text and "SSH_AUTH_SOCK=/run/agent" in text and "KEYBOARD=us" in text
        client.shown("env; sleep 20", mode="background")
        saved = b"".join(path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file())
        for name, value in TOKENS.items():
            assert value not in text and name + "=" not in text and value.encode() not in saved
    for name, value in TOKENS.items():
        monkeypatch.setenv(name, value)
    tool = made()
    assert set(TOKENS) <= set(tool.withheld) and not any(value in tool.run("env").text for value in TOKENS.values())
    assert made(keep_env=("GITHUB_*",)).run("echo $GITHUB_TOKEN").text == TOKENS["GITHUB_TOKEN"] + "\n"


def test_row_11_what_is_missing_is_named_where_it_matters(monkeypatch):
    """Where the command, or what it prints when it fails, has the name; once; and not where nobody asks."""
    for name, value in TOKENS.items():
        monkeypatch.setenv(name, value)
    with made() as tool:
        assert tool.run("echo hi").text == "hi\n"
        assert "GITHUB_TOKEN" in tool.run("echo token: $GITHUB_TOKEN").text.partition("token:")[0]
        program = PYTHON + " -c 'import os; os.environ[\"_\".join([\"DJANGO\", \"SECRET\", \"KEY\"])]'"
        text = tool.run(program).text
        assert "DJANGO_SECRET_KEY" in text.partition("Traceback")[0] and TOKENS["DJANGO_SECRET_KEY"] not in text
        assert "DJANGO_SECRET_KEY" not in tool.run(program).text.partition("Traceback")[0]


# ---- 12 What goes in and comes out --------------------------------------------------------------
def test_row_12_commands_arrive_unchanged():
    """As bash has them from a file: to a library, over MCP, on the stdin of the command line."""
    with Client(started=True) as client, made(default=AMPLE_S) as tool:
        for case, command in TEXTS.items():
            Path("script").write_bytes(command.encode())
            plain = subprocess.run(["bash", "script"], capture_output=True, stdin=subprocess.DEVNULL)
            expected = plain.stdout.decode().replace("\r\n", "\n")
            quiet = "exec 2>/dev/null\n" + command
            result = tool.run(quiet)
            assert (result.exit_code, result.stdout) == (plain.returncode, expected), case
            assert client.shown(quiet) == result.text and result.text.endswith(expected), case
            if case in ("a heredoc", "emoji", "200 KB"):
                done = cli("-", input=quiet.encode())
                assert (done.returncode, done.stdout.decode()) == (0, expected), case


def test_row_12_bytes_come_out_as_valid_text():
    """Invalid bytes, split characters, NUL, all bytes there are; the file has them as they were."""
    with made(default=AMPLE_S) as tool, Client(started=True) as client:
        for command in (
            *("printf 'a\\xff\\xfeb\\xc3\\n'", "printf '\\xf0\\x9f'; sleep 0.05; printf '\\x99\\x82\\n'"),
            *("printf 'a\\0b\\n'", "head -c 3000 /dev/urandom"),
            *("for i in $(seq 0 255); do printf \"\\\\x$(printf %x $i)\"; done", "yes 中 | head -c 200001"),
        ):
            for text in tool.run(command).text, client.shown(command):
                text.encode("utf-8")
                assert not re.search("[\0-\b\x0b-\x1f\x7f]", text), (command, text)
        assert tool.run("printf 'a\\xffb\\n'").text == "a\ufffdb\n"
        assert tool.run("printf '\\xf0\\x9f'; sleep 0.05; printf '\\x99\\x82\\n'").text == "🙂\n"
        result = tool.run("head -c 300000 /dev/urandom | tee raw")
        assert Path(result.output_file).read_bytes() == Path("raw").read_bytes()
        number = client.begin("echo \ud800")
        assert client.answer(number)["result"]["isError"] and client.shown("echo next") == "next\n"


# ---- 13 What the host holds ---------------------------------------------------------------------
def test_row_13_free_when_the_host_has_ended():
    """Pipes, a lock and a port of the host, though a job lives: `agent | tee log`, `$(agent)`."""

    def soon(claim):
        def tried():
            with contextlib.suppress(OSError):
                return claim()

        return eventually(tried, 1.0 + slack_s())

    def act(way):
        job, lock = unique(), Path("lock-" + unique())
        with socket.socket() as port, open(lock, "w") as locked:
            port.bind(("127.0.0.1", 0))
            port.listen()
            address = port.getsockname()
            fcntl.flock(locked, fcntl.LOCK_EX)
            passed = port.fileno(), locked.fileno()  # to this host alone, not to those of the other threads
            host = Host(HOLDS, job, way, TOOL, pass_fds=passed, stderr=subprocess.PIPE)
        with host, host.process.stderr as stderr, open(lock) as again, socket.socket() as another:
            another.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            host.ended()
            for fd in host.process.stdout.fileno(), stderr.fileno():
                os.set_blocking(fd, False)
                assert soon(lambda: os.read(fd, 65536) == b""), "a pipe is held"
            assert soon(lambda: fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB) is None), "the lock is held"
            assert soon(lambda: another.bind(address) is None), "the port is held"
            assert eventually(lambda: running(job)), "no job lives"

    side_by_side(act, ["exit", "killed", "command line"])


def test_row_13_a_pipeline_of_the_shell_goes_on(tmp_path):
    """What a user types, with the real shell."""
    job = unique()
    agent = "%s %s --state-dir %s --mode background" % (PYTHON, TOOL, tmp_path / "state")
    script = "%s 'sleep %s' | tee log >/dev/null; x=$(%s 'exec sleep %s'); echo ended" % (agent, job, agent, job)
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=PATIENCE_S)
    assert done.stdout == b"ended\n" and "<pid>" in Path("log").read_text() and len(running(job)) >= 2


# ---- 14 Nothing grows ---------------------------------------------------------------------------
def test_row_14_nothing_grows():
    """Descriptors, threads, processes and memory of a program and of what works for it, over calls and over tools."""
    with Host(GROWS) as host:
        before, after = host.hear(), host.hear()
    for index, most in enumerate([2, 0, 2, 2, 400, 400]):  # of pages: 1.6 MB
        assert after[index] <= before[index] + most, (before, after)


def test_row_14_one_folder_of_the_user(tmp_path):
    """Library, server and command line keep their files in one folder, and so under one cap; a tool lists its own."""
    long_one, place = "seq 30000", tmp_path / ("bash-tool-of-%d" % os.getuid())
    for _ in range(5):
        with made(default=AMPLE_S) as tool:
            result = tool.run(long_one)
            assert Path(result.output_file).parent == place
    pid = made().run("sleep 20", mode="background").pid
    with Client(started=True) as client:
        client.shown(long_one)
        started(client.shown("sleep 20", mode="background"))
    cli(long_one)
    assert [path.name for path in tmp_path.iterdir()] == [place.name]
    assert not made().jobs() and str(pid).encode() in cli("--jobs").stdout
    with pytest.raises(LookupError):
        made().job(pid)
    assert place.stat().st_mode & 0o777 == 0o700


# ---- 15 Trees -----------------------------------------------------------------------------------
KILLS = ["Job.kill", "kill {pid}", "kill -9 -{pid}"]


def test_row_15_one_kill_takes_all(tmp_path):
    """Build, server with workers, reloader, npm → node → worker: whichever way the job is ended."""

    def act(case):
        tree, way = case
        if tree in ("make", "npm") and not shutil.which(tree):
            return
        number, folder = unique(), tmp_path / re.sub(r"\W", "-", "%s %s" % case)
        folder.mkdir()
        with made(folder, grace=1.0, state_dir=folder / "state") as tool:
            job = tool.job(tool.run(GROWING[tree].format(n=number), mode="background").pid)
            assert eventually(lambda: running(number, 3)), job.read(0)
            if way == "Job.kill":
                assert job.kill() and job.wait(PATIENCE_S)
            else:
                assert "[command failed" not in tool.run(way.format(pid=job.pid)).text
                assert job.wait(1.0 + PATIENCE_S)
            assert eventually(lambda: not running(number), 1.0 + slack_s()), running(number)
            assert job.status == "exited" and job.exit_code in (143, 137)

    side_by_side(act, [(tree, way) for tree in GROWING for way in KILLS if tree != "npm" or way == "kill {pid}"])


# ---- 16 The model removes the tool's files ------------------------------------------------------
def removal(ask, folder):
    """Long outputs and jobs, before and after all of the folder is removed."""
    full = r"\[full output: (.*)\]"
    first = Path(re.search(full, ask("seq 30000")).group(1))
    number = unique()
    waits = "until [ -e %s/go ]; do sleep 0.1; done; echo more; sleep %s" % (Path.cwd(), number)
    pid, path = started(ask(waits, mode="background"))
    assert first.exists() and path.exists()
    assert ask("rm -rf %s/*; echo removed" % folder).endswith("removed\n")
    assert not first.exists()
    Path("go").touch()
    again = Path(re.search(full, ask("seq 30000")).group(1))
    assert again.read_text().endswith("30000\n")
    _, other = started(ask("echo up; sleep %s" % number, mode="background"))
    assert content(other) == "up"
    text = ask("rm -rf %s; kill -9 -%d; echo killed" % (folder, pid))
    assert "system error" not in text and text.endswith("killed\n")
    assert "system error" not in ask("seq 30000") and ask("echo next").endswith("next\n")


def test_row_16_files_are_made_anew(tmp_path):
    """A log or all of a folder is removed, also that of the user: no error, and the next file is there."""
    place = tmp_path / "place"
    place.mkdir()
    users = tmp_path / ("bash-tool-of-%d" % os.getuid())
    for state_dir, folder in (place / "library", place / "library"), (None, users):
        with made(tmp_path, state_dir=state_dir, default=AMPLE_S) as tool:
            removal(lambda command, **mode: tool.call(dict(mode, command=command)).text, folder)
            assert isinstance(tool.jobs(), list)
        Path("go").unlink()
    with Client("--state-dir", place / "server", "--cwd", tmp_path, started=True) as client:
        removal(client.shown, place / "server")


# ---- 17 Programs that fork, and loops of events -------------------------------------------------
def test_row_17_a_child_is_no_end_of_its_parent():
    """Forked in the middle of calls: a child that exits, fails, closes or calls ends nothing of its parent's."""
    with Host(FORKS, "state", unique(), Path.cwd() / "go") as host:
        assert host.hear() == [0, 0, 0, 0, 256, 0, 0, 9, 0]
        assert host.hear() == ["next\n", "running"]
        assert all(host.hear())


def test_row_17_workers_of_multiprocessing(tmp_path):
    """fork, spawn, forkserver; gunicorn --preload and celery do the same: workers with a tool made before the fork."""
    (tmp_path / "worker.py").write_text(
        "from bash_tool import BashTool\ntool = BashTool()\ntool.run('true')\n"
        "def work(n):\n    return tool.run('echo %d; exit %d' % (n, n % 5)).text, BashTool().run('echo %d' % n).text\n"
    )

    def act(method):
        env = dict(os.environ, TMPDIR="/tmp")  # the path of a socket has 107 bytes at most
        with Host(HAS_WORKERS, tmp_path, method, env=env) as host:
            assert host.hear() == [True, "next\n"] and host.ended() == 0

    side_by_side(act, ["fork", "spawn", "forkserver"], workers=2)


def test_row_17_a_task_that_is_cancelled():
    """asyncio, as Starlette does it when the browser leaves: the command is gone, the other one goes on."""

    async def call(tool, command):
        cancel = bash_tool.Cancel()
        try:
            return await asyncio.to_thread(tool.run, command, cancel=cancel)
        finally:
            cancel.cancel()

    async def program(tool, number):
        kept = asyncio.create_task(call(tool, "sleep 0.5; echo kept"))
        task = asyncio.create_task(call(tool, "(setsid sleep %s &); sleep %s" % (number, number)))
        while len(running(number)) < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        deadline = time.monotonic() + slack_s()
        while running(number) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        return running(number), (await kept).text

    assert asyncio.run(program(made(default=AMPLE_S), unique())) == ([], "kept\n")


@pytest.mark.parametrize("loop", LOOPS)
def test_row_17_other_loops(loop):
    """gevent's patched modules; uvloop's own waiting for children."""
    pytest.importorskip(loop, reason="not installed: " + loop)
    patched = {"gevent": "import gevent.monkey; gevent.monkey.patch_all()\n", "uvloop": "import asyncio, uvloop\n"}
    with Host(LOOPS[loop], prelude=patched[loop]) as host:
        assert host.hear() == ["%d\n" % n for n in range(5)]


# ---- 18 Exceptions in the caller ----------------------------------------------------------------
class Problem(Exception):
    pass


def test_row_18_an_exception_of_on_output():
    """The command is gone, the exception goes on, the next call works."""
    with made(default=60, grace=10) as tool:
        for problem in Problem, KeyboardInterrupt, SystemExit, BrokenPipeError, GeneratorExit:
            number = unique()

            def fail(text, problem=problem):
                raise problem(text)

            begun = time.monotonic()
            with pytest.raises(problem, match="first"):
                tool.run("echo first; (setsid sleep %s &); sleep %s" % (number, number), on_output=fail)
            assert time.monotonic() - begun < 1.0 + slack_s()
            assert eventually(lambda: not running(number), slack_s()), problem
            assert tool.run("echo next").text == "next\n"


def test_row_18_after_an_exception_half_a_second_of_grace():
    """Deaf to TERM, with a grace of a minute: it is gone when the exception goes on, within half a second or so."""
    number, cancel = unique(), bash_tool.Cancel()

    def fail(text):
        raise Problem(text)

    rescue = threading.Timer(40, lambda: (cancel.cancel(), cancel.cancel()))
    rescue.daemon = True
    rescue.start()
    with made(default=60, grace=60) as tool:
        begun = time.monotonic()
        with pytest.raises(Problem):
            command = "trap '' TERM; (setsid sleep %s &); sleep 0.1; echo up; sleep %s" % (number, number)
            tool.run(command, on_output=fail, cancel=cancel)
        assert time.monotonic() - begun < 0.1 + 0.5 + slack_s() and not running(number)
        assert tool.run("echo next").text == "next\n"


def test_row_18_an_alarm_in_the_main_thread():
    """A handler that raises, as timeouts of test runners do; one that does not raise changes nothing."""
    number = unique()
    with Host(HAS_AN_ALARM, "=" + number) as host:
        assert host.hear() == "quiet\n"
        assert host.hear() == ["late", "next\n"]
        assert eventually(lambda: not running(number), slack_s())


def test_row_18_a_broken_pipe():
    """`| head -1`, of a long answer or of live output: it ends, as soon as its command does, without a traceback."""

    def act(arguments):
        number = unique()
        script = '"$@" %s 2>&1 | head -n 1; echo ended' % arguments.format(n=number)
        words = ["bash", "-c", script, "x", sys.executable, TOOL]
        done = subprocess.run(words, capture_output=True, timeout=PATIENCE_S)
        assert done.stdout == b"1\nended\n", done
        assert eventually(lambda: not running(number), slack_s())

    live = "--follow --timeout 0.7 'echo 1; bash -c \"while echo 2; do sleep 0.02; done\" {n}'"
    side_by_side(act, ["'seq 20000; : {n}'", live, "--follow 'echo 1; sleep 0.3; seq 100000; : {n}'"])


# ---- 19 How the program is packed ---------------------------------------------------------------
def test_row_19_however_the_interpreter_runs():
    """Options, warnings as errors, no `sys.executable`, a frozen program."""
    side_by_side(lambda case: checks(**PACKED[case]), PACKED, workers=4)


def test_row_19_however_the_file_is_kept(tmp_path):
    """In a zip, on standard input, edited or removed after the import; its own .venv removed while it runs."""

    def copied(name):
        (tmp_path / name).mkdir()
        shutil.copy(TOOL, tmp_path / name / "bash_tool.py")
        return tmp_path / name

    def imported(folder):
        return "import sys; sys.dont_write_bytecode = True; sys.path.insert(0, %r); import bash_tool\n" % str(folder)

    def zipped():
        folder = copied("zip")
        (folder / "__main__.py").write_text("import sys, bash_tool\nsys.exit(bash_tool.main(sys.argv[1:]))\n")
        subprocess.run([sys.executable, "-m", "zipapp", folder, "-o", tmp_path / "app.pyz"], check=True)
        done = subprocess.run([sys.executable, tmp_path / "app.pyz", "echo hi; exit 3"], capture_output=True)
        assert (done.returncode, done.stdout) == (3, b"[command failed: exit code 3]\nhi\n"), done
        checks(first=imported(tmp_path / "app.pyz"))

    def streamed():
        done = subprocess.run([sys.executable, "-", "echo hi; exit 3"], input=TOOL.read_bytes(), capture_output=True)
        assert (done.returncode, done.stdout) == (3, b"[command failed: exit code 3]\nhi\n"), done

    def edited():
        folder = copied("edited")
        checks(first=imported(folder) + "open(%r, 'w').write('1 / 0')\n" % str(folder / "bash_tool.py"))

    def removed():
        folder = copied("removed")
        checks(first=imported(folder) + "import shutil; shutil.rmtree(%r)\n" % str(folder))

    def without_venv(name, before=""):
        venv = tmp_path / name
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        removal = before + "import shutil; shutil.rmtree(%r)\n" % str(venv)
        checks(python=(venv / "bin" / "python",), then=removal)

    cases = {act.__name__: act for act in (zipped, streamed, edited, removed)}
    cases["venv before the first call"] = lambda: without_venv("one")
    cases["venv after a call"] = lambda: without_venv("two", "BashTool().run('true')\n")
    side_by_side(lambda name: cases[name](), cases, workers=4)


# ---- 20 A bare environment ----------------------------------------------------------------------
def test_row_20_no_home_no_path_no_locale():
    """cron, systemd, desktop clients: library, command line and server with an empty environment, or a strange one."""
    bare = {name: value for name, value in os.environ.items() if name == "TMPDIR" or name.startswith("MARK_")}
    odd = dict(LANG="xx_XX.nothing", LC_ALL="C", HOME="/nowhere", PATH="/usr/bin:/bin:relative", SHELL="/bin/false")

    def command_line():
        command = "echo 'é 🙂' ${HOME-none}; ls / >/dev/null && sort /etc/passwd | head -n 0; printf '🙂' | wc -m"
        done = cli(command, env=bare)
        assert (done.returncode, done.stdout.decode()) == (0, "é 🙂 none\n1\n"), done

    def server():
        with Client(started=True, env=bare, cwd="/") as client:
            assert client.shown("echo 'é 🙂'; pwd; ls / >/dev/null && sort /etc/passwd | head -n 0") == "é 🙂\n/\n"
            started(client.shown("exec sleep 20", mode="background"))

    acts = {"library": lambda: checks(env=bare), "odd": lambda: checks(env=dict(bare, **odd))}
    acts.update(command_line=command_line, server=server)
    side_by_side(lambda case: acts[case](), acts)


def test_row_20_a_locale_that_is_not_utf8(tmp_path):
    """A command that is typed as bytes reaches bash as these bytes."""
    for name, charmap in ("ja_JP.eucJP", "EUC-JP"), ("de_DE.ISO88591", "ISO-8859-1"):
        if not has_locale(tmp_path, name, charmap):
            pytest.skip("takes localedef and its sources, %s and %s" % (name, charmap))
    cases = [("de_DE.ISO88591", "日本 é".encode()), ("de_DE.ISO88591", b"\xe9"), ("ja_JP.eucJP", b"\xc6\xfc")]
    for name, typed in (*cases, ("C.UTF-8", b"\xff\xfe \xc3\xa9")):
        env = dict(os.environ, LC_ALL=name, LOCPATH=str(tmp_path))
        done = cli(b"printf %s '" + typed + b"' | od -An -tx1", env=env, started=True)
        assert bytes.fromhex(done.stdout.decode()) == typed, done


def test_row_20_modules_of_a_cluster(tmp_path):
    """`module load`: an exported function, BASH_ENV: what `bash -c` would have."""
    (tmp_path / "init.sh").write_text('ml() { module "$@"; }\n')
    env = dict(os.environ, BASH_ENV=str(tmp_path / "init.sh"))
    env["BASH_FUNC_module%%"] = '() {  eval "export LOADED=$2"\n}'
    command = "module load gcc; echo $LOADED; ml load cuda; echo $LOADED"
    assert subprocess.run(["bash", "-c", command], env=env, capture_output=True).stdout == b"gcc\ncuda\n"
    assert cli(command, env=env).stdout == b"gcc\ncuda\n"
    with Client(started=True, env=env) as client:
        assert client.shown(command) == "gcc\ncuda\n"


# ---- 21 Containers ------------------------------------------------------------------------------
@needs_root
def test_row_21_places_in_a_container():
    """As process 1 of a container, below an init, below one that reaps nobody, and with a limit of processes."""
    namespace = unshared(*PID_NAMESPACE)
    waits = (sys.executable, "-c", "import subprocess, sys; subprocess.call(sys.argv[1:])")
    side_by_side(lambda init: checks(wrap=(*namespace, *init)), [(), ("sh", "-c", '"$@"; exit $?', "sh"), waits])

    with cgroup("pids", pids__max=40) as (wrap, _):
        checks(wrap=wrap)


@needs_root
def test_row_21_a_root_that_is_read_only():
    """No place for a file: commands run, and what is too long says that it was not saved."""
    places = "for p in / /tmp /dev/shm /var/tmp $TMPDIR; do mount --bind $p $p; mount -o remount,bind,ro $p; done"
    wrap = (*unshared(*MOUNTS), "sh", "-c", places + '; exec "$@"', "sh")
    with Host(CANNOT_WRITE, wrap=wrap) as host:
        *said, text = host.hear()
        assert said == ["exited", 0, True, True, None] and "[full output was not saved: " in text, text
        assert host.hear() == "next\n"
    checks(wrap=wrap, jobs=False)


LACKING = ["pidfd", "subreaper", "memfd", "pidfd subreaper memfd"]


def test_row_21_a_kernel_that_lacks_something():
    """No pidfd, no subreaper, no memfd: the same answers, but that leftovers are not named without a subreaper."""
    wraps = {lacking: refusing(*lacking.split()) for lacking in LACKING}
    side_by_side(lambda lacking: checks(wrap=wraps[lacking], left="sub" not in lacking), LACKING, workers=4)


def test_row_21_a_kernel_that_refuses_a_subreaper():
    """After a stop the answer says that what left the process group was not looked for."""
    with Host("say(BashTool(profile=row(0.5, 0.2)).run('echo on; sleep 9').notes)", wrap=refusing("subreaper")) as host:
        blind = "what the command started outside its process group may still run: it could not be looked for"
        assert host.hear() == [blind]


@needs_root
def test_row_21_processes_that_are_hidden():
    """`hidepid`, as an ordinary user: the tool's own processes too; a job runs, and `kill()` ends it all the same."""
    number, folder = unique(), tempfile.mkdtemp(dir="/tmp")
    os.chmod(folder, 0o777)
    wrap = (*unshared(*PID_NAMESPACE), "sh", "-c", 'mount -o remount,hidepid=2 /proc && exec "$@"', "sh")
    try:
        if subprocess.run([*wrap, "true"], capture_output=True).returncode:
            pytest.skip("takes a /proc that can hide processes")
        env = dict(os.environ, TMPDIR=folder)
        with Host(CANNOT_SEE, "=" + number, wrap=wrap, python=(PLAIN_PYTHON,), env=env, cwd="/") as host:
            assert host.hear() == ["running", True, True, "exited", "next\n"] and not running(number)
    finally:
        shutil.rmtree(folder)


# ---- 22 Nothing left to use ---------------------------------------------------------------------
@needs_root
def test_row_22_out_of_memory():
    """The OOM kill of a command is told as what it is; the next call works."""
    eats = PYTHON + " -c 'x = bytearray(300 << 20); print(len(x))'"
    with made(default=AMPLE_S) as tool:
        result = tool.run("ulimit -v 100000; " + eats)
        assert result.exit_code and "MemoryError" in result.text
        with cgroup("memory", memory__limit_in_bytes=64 << 20) as (_, folder):
            result = tool.run("echo $$ >%s/cgroup.procs; exec %s" % (folder, eats))
            assert (result.exit_code, result.signal) == (137, "SIGKILL") and "possibly out of memory" in result.text
            result = tool.run("echo before; (echo $BASHPID >%s/cgroup.procs; exec %s); exit $?" % (folder, eats))
            assert result.exit_code == 137 and "before" in result.text
            assert tool.run("echo next").text == "next\n"


@needs_root
def test_row_22_a_fork_bomb_under_a_limit():
    """It is ended at its limit, all of it, and the next call works."""
    with cgroup("pids", pids__max=60) as (_, folder), made(default=1.0, grace=0.5) as tool:
        number = unique()
        bomb = "echo $$ >%s/cgroup.procs; bomb() { bomb & bomb; sleep %s; }; bomb 2>/dev/null; wait; sleep %s"
        result = tool.run(bomb % (folder, number, number))
        assert result.status == "timed_out" and result.duration_s < 1.5 + 5 + slack_s()
        assert eventually(lambda: not (folder / "cgroup.procs").read_text())
        assert tool.run("echo next").text == "next\n"


@needs_root
def test_row_22_a_disk_that_takes_nothing(tmp_path):
    """Full, without inodes, read-only: an answer, no lie about the file, the next call works."""
    unshare = unshared(*MOUNTS)

    def act(case):
        folder = tmp_path / case.replace(" ", "-")
        folder.mkdir()
        wrap = (*unshare, "sh", "-c", FULL[case] + '; exec "$@"', "sh")
        with Host(HAS_A_FULL_DISK, wrap=wrap, env=dict(os.environ, TMPDIR=str(folder))) as host:
            *said, text = host.hear()
            assert said == ["exited", 0, True, True, True], (said, text)
            status, text = host.hear()
            assert status in ("running", "failed"), text
            assert host.hear() == "next\n"

    side_by_side(act, FULL)


def test_row_22_few_descriptors():
    """256 of them and 40 calls side by side; none left, and some again."""
    with Host(HAS_FEW_DESCRIPTORS) as host:
        assert host.hear() is True
        for number, (status, code, is_error, stdout) in enumerate(host.hear()):
            assert is_error and (status, code, stdout) in [("exited", 3, "%d\n" % number), ("failed", None, "")]
        assert host.hear() == "next\n"
    with Host(CARRIES) as host:  # 20 of them: nothing of the tool's own stands in the output
        assert host.hear() == ["hi\n", "yes\n"]


def test_row_22_small_files():
    """A limit on the size of files below that of the input, or of the command: the answer names which; the next works."""
    with Host(HAS_SMALL_FILES) as host:
        *refused, text = host.hear()
        words = "[system error: the %s of the command could not be stored: File too large]\n"
        assert refused == [words % "input", words % "text"] and text == "next\n"


@needs_root
def test_row_22_without_dev_null():
    """The answer names the file that is missing; the next call works when it is there."""
    bare = "mount -t tmpfs none /dev && mknod /dev/urandom c 1 9 && ln -s /proc/self/fd /dev/fd && exec "
    wrap = (*unshared(*MOUNTS), "sh", "-c", bare + '"$@"', "sh")
    with Host(HAS_NO_DEV_NULL, wrap=wrap, python=(os.path.realpath(sys.executable),)) as host:
        results, text = host.hear()
        for status, reason in results:
            assert status == "failed" and "/dev/null: No such file or directory" in reason, reason
        assert text == "next\n"


@needs_root
def test_row_22_no_processes():
    """None can be made: an answer that says so; the next call works when there are some again."""
    with cgroup("pids", pids__max=60) as (wrap, folder), Host(HAS_NO_PROCESSES, folder, wrap=wrap) as host:
        for _ in range(2):
            status, code, error, text, following = host.hear()
            assert (status, code) == ("failed", None) and error and text.startswith("[system error: "), text
            assert following == "next\n"


# ---- 23 What cannot be killed -------------------------------------------------------------------
@needs_root
@needs("setpriv")
def test_row_23_a_process_of_another_user():
    """As sudo leaves it, over the limit of a tool of an ordinary user: named, a bounded wait, the next call works."""
    number = unique()
    folder = Path("/tmp/of-a-test-" + number)
    folder.mkdir()
    folder.chmod(0o777)
    # A /proc of its own: that of the machine may hide other users' processes, by hidepid, proc(5).
    own_proc = (*unshared(*MOUNTS), "sh", "-c", 'mount -t proc proc /proc && exec "$@"', "sh")
    wrap = (*own_proc, "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    try:
        shutil.copy("/bin/bash", folder / "mighty")
        (folder / "mighty").chmod(0o4755)
        probe = subprocess.run([*wrap, folder / "mighty", "-p", "-c", "setpriv --reuid 0 id -u"], capture_output=True)
        runs = subprocess.run([*wrap, sys.executable, "-c", ""], cwd="/", capture_output=True)
        if probe.stdout.strip() != b"0" or runs.returncode:
            pytest.skip("takes a /tmp that is not mounted nosuid, and an interpreter for every user")
        env = dict(os.environ, TMPDIR=str(folder))
        with Host(IS_AN_ORDINARY_USER, "%s+%s" % (folder / "mighty", number), wrap=wrap, env=env, cwd="/") as host:
            status, code, took, text = host.hear()
            left = running(number)
            assert left and (status, code) == ("timed_out", None) and took < 0.8 + 0.3 + 5 + slack_s()
            assert "could not be killed" in text and any(str(pid) in text for pid in left), text
            assert host.hear() == "next\n"
    finally:
        for pid in running(number):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def test_row_23_a_deaf_command_while_the_client_leaves():
    """It is gone after the grace, all of it, however often it starts anew, and so is the server."""
    number = unique()
    with Client(started=True, timeouts={"default": 60, "grace_s": 0.5}) as client:
        client.begin("trap '' TERM HUP; while :; do sleep %s; done & (setsid sleep %s &); sleep %s" % ((number,) * 3))
        assert eventually(lambda: running(number, 3))
        client.process.stdin.close()
        client.process.stdout.close()
        gone_with_its_host(number, time.monotonic())
        assert client.ended() == 0


# ---- 24 Clients ---------------------------------------------------------------------------------
def test_row_24_a_slow_client():
    """One that reads nothing while commands shout: no deadlock, no growth, and every call is answered."""
    with Client(started=True, timeouts={"default": 30}) as client:
        client.shown("seq 30000")
        before = resident(client.pid)
        shouts = "yes 'a line of some length, again and again' | head -c 100000000; touch done-%s; echo the end"
        names = [unique() for _ in range(2)]
        ids = [client.begin(shouts % name, token=name) for name in names]
        other = [client.begin("touch other-%d" % n) for n in range(20)]
        assert eventually(lambda: Path("other-19").exists() and all(Path("done-" + name).exists() for name in names))
        assert resident(client.pid) < before + 60 * 2**20
        for number in ids:
            assert "the end\n" in client.text(number)
        assert all(client.text(number) == "[no output]\n" for number in other)
        assert client.shown("echo next") == "next\n"


def test_row_24_a_silent_client():
    """One that says nothing while a job shouts; half a message, and the rest later; what is no message."""
    with Client(started=True) as client:
        started(client.shown("head -c 30000000 /dev/zero; echo; sleep 20", mode="background"))
        params = dict(name="bash", arguments={"command": "echo hi"})
        message = json.dumps(dict(jsonrpc="2.0", id=900, method="tools/call", params=params)).encode()
        client.write(message[:40])
        time.sleep(0.3)
        client.write(message[40:] + b"\n")
        assert client.text(900) == "hi\n"
        client.write(b"\nnot JSON\n")
        assert client.shown("echo next") == "next\n"


@pytest.mark.parametrize("sizes", [(1, 3), (5, 15, 17)], ids=["small", "large"])
def test_row_24_a_message_of_any_size(sizes):
    """An answer under its id: the command's, or an error. Over 16 MiB the error has the id null, and the server goes on."""

    def act(mib):
        with Client(started=True, timeouts={"default": 20}) as client:
            number = client.begin("# %s\necho hi" % ("x" * (mib << 20)))
            if mib < 16:
                answer = client.answer(number)
                assert "error" in answer or answer["result"]["isError"] or client.text(number) == "hi\n"
            assert client.shown("echo next") == "next\n"

    side_by_side(act, sizes)


def test_row_24_ctrl_c_of_a_terminal_client():
    """INT reaches the server too: what runs is cancelled and answered, and the server stays."""
    with Client(started=True, timeouts={"default": 60}) as client:
        client.shown("true")
        for _ in range(3):
            numbers = [unique(), unique()]
            ids = [client.begin("echo begun; (setsid sleep %s &); sleep %s" % (n, n)) for n in numbers]
            assert eventually(lambda: all(running(n, 2) for n in numbers))
            client.process.send_signal(signal.SIGINT)
            for number in ids:
                assert client.text(number, 2 + slack_s()).startswith("[command cancelled]\nbegun")
            assert not any(running(n) for n in numbers) and client.shown("echo next") == "next\n"
        assert client.end() == 0


# ---- 25 Programs that take processes elsewhere --------------------------------------------------
def test_row_25_what_detaches_or_traces():
    """tmux, screen, expect, script, strace, gdb, a terminal of their own: they work, and at the timeout all is gone."""

    def act(case):
        if not shutil.which(case) and case != "python":
            return
        number = unique()
        command, says = (text.format(n=number) for text in ELSEWHERE[case])
        for limit in 2.0, 10.0, 50.0:  # on a busy machine it takes long until they have begun
            result = made(default=limit, grace=0.5).run("export TMUX_TMPDIR=/tmp\n%s; sleep %s" % (command, number))
            assert result.status == "timed_out" and not running(number)
            assert result.duration_s < limit + 0.5 + slack_s()
            if says in result.text:
                return
        raise AssertionError(result.text)

    side_by_side(act, ELSEWHERE, workers=10)


def test_row_25_a_nested_agent():
    """A tool below a command: it works; at the outer timeout its commands and its jobs are gone as well."""
    number = unique()
    program = (
        "import sys; sys.path.insert(0, %r); from bash_tool import BashTool; tool = BashTool(); "
        "tool.run('exec sleep %s', mode='background'); print(tool.run('echo inner').text, end='', flush=True); "
        "tool.run('(setsid sleep %s &); sleep %s')" % (IMPORTABLE, number, number, number)
    )
    for limit in 2.0, 10.0, 50.0:
        with made(default=limit, grace=0.5) as tool:
            result = tool.run("%s -c %s" % (PYTHON, shlex.quote(program)))
            assert result.status == "timed_out" and not running(number)
            assert tool.run("echo next").text == "next\n"
        if result.stdout.startswith("inner\n"):
            return
    raise AssertionError(result.text)


@needs_root
def test_row_25_a_freezer_is_no_timeout():
    """All of it frozen for longer than the grace, and thawed within the limit: as if nothing had been."""
    with cgroup("freezer") as (wrap, folder):
        state = folder / "freezer.state"
        if not state.exists():
            pytest.skip("takes the freezer of control groups, version 1")
        with Host(IS_FROZEN, wrap=wrap) as host:
            assert host.hear() == "ready"
            time.sleep(0.1)
            state.write_text("FROZEN")
            try:
                time.sleep(1.5)
            finally:
                state.write_text("THAWED")
            assert host.hear() == ["exited", "begun\ndone\n", True, "exited", 3]


@needs("gcc")
def test_row_25_a_clock_that_jumps(tmp_path):
    """The time of day goes years back and forth with every few looks at it: no false timeout, no late one."""
    (tmp_path / "clock.c").write_text(CLOCK)
    if subprocess.run(["gcc", "-shared", "-fPIC", "-o", "clock.so", "clock.c"], capture_output=True).returncode:
        pytest.skip("gcc makes no library here")
    env = dict(os.environ, LD_PRELOAD=str(tmp_path / "clock.so"))
    checks(env=env)
    with Client(started=True, env=env, timeouts={"default": 5}) as client:
        assert client.shown("sleep 0.5; echo slept") == "slept\n"


# ---- 26 The supervisor is killed ----------------------------------------------------------------
def test_row_26_the_status_is_unknown():
    """Never 0; what it left is killed; the next call works."""
    with made(default=AMPLE_S) as tool:
        for command in "kill -9 $PPID; exec sleep {n}", "(setsid sleep {n} &); sleep {n} & kill -9 $PPID; wait; exit 0":
            for profile in bash_tool.MODES, bash_tool.STREAMS, bash_tool.GUARDED:
                number = unique()
                result = made(profile=profile, default=AMPLE_S).run(command.format(n=number))
                assert (result.status, result.error, result.exit_code) == ("failed", "status_unknown", None)
                assert result.is_error and result.duration_s < 3 + slack_s()
                assert eventually(lambda: not running(number), 1 + slack_s()), running(number)
                assert tool.run("echo next").text == "next\n"
    with Client(started=True) as client:
        number = client.begin("kill -9 $PPID; sleep 9")
        assert client.answer(number)["result"]["isError"] and "unknown" in client.text(number)
        assert client.shown("echo next") == "next\n"


def test_row_26_a_job_whose_supervisor_was_killed_is_lost(tmp_path):
    """Told as lost, never as ended well; no note in its file; `kill()` is False; what it left is killed."""
    number = unique()
    with made(state_dir=tmp_path / "state", grace=0.5) as tool:
        job = tool.job(tool.run("echo up; (setsid sleep %s &); sleep %s; :" % (number, number), mode="background").pid)
        assert job.wait(PATIENCE_S, until="up") and eventually(lambda: running(number, 2))
        os.kill(parent_of(job.pid), signal.SIGKILL)
        assert job.wait(PATIENCE_S) and job.status == "lost" and job.exit_code is None
        assert eventually(lambda: not running(number), 1 + slack_s()), running(number)
        assert Path(job.output_file).read_text() == "up\n" and job.kill() is False
        text = tool.run("echo next").text
        assert "lost" in text and text.endswith("next\n") and "completed" not in text
        assert tool.run("echo next").text == "next\n"
    again = made(state_dir=tmp_path / "state").job(job.pid)
    assert (again.status, again.exit_code, again.kill()) == ("lost", None, False)


@needs_root
def test_row_26_a_directory_that_hangs(tmp_path):
    """Once the tool is made: other calls go on, the call is answered, a cancel is heard, the host can leave."""
    folder = tmp_path / "hangs"
    folder.mkdir()
    with Host(HAS_A_DIRECTORY_THAT_HANGS, folder, cwd="/") as host:
        assert host.hear() == "hi\n"
        with hanging(folder):
            host.tell()
            text, took = host.hear()
            assert text == "next\n" and took < slack_s()
            *hung, text = host.hear(0.5 + 0.2 + 5 + 2 + 2 * slack_s())
            for status, code, ran, took in hung:
                assert status in ("timed_out", "cancelled", "failed") and code is None and not ran
                assert took < 0.5 + 0.2 + 5 + 2 + slack_s()
            assert text == "next\n" and host.ended() == 0
