"""Faults that the engine has to stand, as far as no clause says them."""

import dataclasses
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import termios
import textwrap
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.processes import AMPLE_S, CHANGED, PATIENCE_S, alive, carriers, eventually, number_in, of_proc, parent_of
from tests.spec import LONGER_MODES
from tests.support import ABSENT_FEATURES, MODES, PROFILES, WITHOUT, BashTool, Cancel, background, bash_tool, cli
from tests.support import (
    compiled_script,
    descriptors,
    exhaustive,
    fault,
    has_locale,
    in_host,
    keeping,
    lasting,
    needs_proc,
    needs_root,
    ran,
    slack_s,
)
from tests.support import supervisor_of, tiny, variant_module, warm_up, with_supervisors_that

pytestmark = exhaustive


@fault(
    "an_exception_at",
    saboteur=(
        "Command.report",
        "self.channel.abandoned or (self.channel.nobody_reads and not life.is_announced)",
        "False",
    ),
)
@pytest.mark.parametrize("kind", ["foreground", "background"])
def test_an_exception_at_any_moment(kind, nothing_is_left):
    """An exception while a call begins, ends or is answered leaves no process, job or file; the next call answers."""
    command = "sleep 600 & echo $!; kill -9 %1" if kind == "foreground" else "sleep 600"
    program = """
        tool, chance = BashTool(state_dir="s"), random.Random(7)

        class Struck(Exception):
            pass

        def strike(*_):
            raise Struck

        signal.signal(signal.SIGALRM, strike)
        tool.run("true; seq 30000")  # a file that an answer has named
        (named,) = os.listdir("s")
        struck, answered = 0, []
        for n in range(int(sys.argv[1])):
            options = {"mode": "background"} if sys.argv[3] == "background" else {}
            result = None
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.choice([0.001, 0.012, 0.33 if options else 0.02]) * chance.random())
                result = tool.run(sys.argv[2], **options)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Struck:
                struck += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            if result is not None and options:
                assert tool.job(result.pid).kill()
                answered.append(result.pid)
                for end in "log", "job":
                    os.unlink(result.output_file[:-3] + end)
            end = time.monotonic() + 20
            while os.listdir("s") != [named] and time.monotonic() < end:
                time.sleep(0.01)
            known = [job.pid for job in tool.jobs()]
            assert os.listdir("s") == [named] and known == answered, (n, os.listdir("s"), known, answered)
            if n % 5 == 4:
                assert tool.run("echo on").stdout == "on\\n"
        print("struck" if struck else "never struck")
    """
    assert in_host(program, 60 if kind == "foreground" else 20, lasting(command), kind) == "struck\n"
    words = lambda: [of_proc(pid, "cmdline") for pid in carriers(nothing_is_left)]
    assert eventually(lambda: not any(each.startswith(b"sleep") for each in words()))


@fault("an_exception_behind", saboteur=("Session._run", "exchange.abandon() self.jobs.forget(job)", "pass"))
@pytest.mark.parametrize("profile", ["modes", "jobs"])
def test_an_exception_behind_the_answer(monkeypatch, profile, nothing_is_left):
    """A job of which the caller does not learn, because an exception strikes behind its answer, is ended, its files
    are removed, and close() does not wait."""

    def struck(*_):
        raise KeyboardInterrupt

    row = dataclasses.replace(PROFILES[profile], grace_s=0.3)
    with BashTool(profile=row, state_dir="s") as tool:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(bash_tool, "present", struck)
            mode = "background" if profile == "modes" else "default"
            tool.run(lasting("echo $$ > pid; sleep 600"), mode=mode, timeout_s=None if profile == "modes" else 0.3)
        assert not alive(number_in("pid"))
        begun = time.monotonic()
    assert time.monotonic() - begun < bash_tool.UNKILLABLE_S and not list(Path("s").iterdir())


@fault("a_kept_job_without_a_thread", saboteur=("Exchange.wait_until_over", "self.state == \"held\"", "False"))
def test_a_kept_job_without_a_thread_ends_with_its_tool(monkeypatch, nothing_is_left):
    """Where no thread can be started a kept job goes on; close() ends it and waits for no thread."""

    def fails(thread):
        raise RuntimeError("can't start new thread")

    row = dataclasses.replace(PROFILES["jobs"], grace_s=0.3)
    with BashTool(profile=row) as tool:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", fails)
            result = tool.run(lasting("sleep 600"), timeout_s=0.3)
        assert result.status == "running" and alive(result.pid)
        begun = time.monotonic()
    assert time.monotonic() - begun < bash_tool.UNKILLABLE_S
    assert eventually(lambda: not alive(result.pid))


A_MONITOR_COMES = (
    "Exchange.wait_until_over",
    "is_detached or self.state == \"over\" or self._caller == threading.get_ident()",
    "True",
)


@fault("a_monitor_that", A_MONITOR_COMES)
def test_a_monitor_that_comes_late(monkeypatch):
    """A monitor thread that starts while close() waits receives its job's end, and no message of the next command."""
    begin, ended, start = threading.Event(), [], threading.Thread.start
    keeping = dataclasses.replace(tiny(default=0.5, grace=1.0), on_timeout=bash_tool.OnTimeout.KEEP)
    tool = BashTool(profile=keeping, on_job_end=ended.append)
    with monkeypatch.context() as patched:

        def late(thread):
            start(threading.Thread(target=lambda: (begin.wait(30), start(thread)), daemon=True))

        patched.setattr(threading.Thread, "start", late)
        result = tool.run("trap 'touch asked' TERM; while :; do sleep 0.1; done")
    assert result.status == "running"
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(tool.close)
        assert eventually(lambda: os.path.exists("asked")) and not eventually(closing.done, 0.3)
        begin.set()
        closing.result(30)
        assert eventually(lambda: ended)
        (job,) = ended
        assert job.status == "cancelled"
        other = BashTool()
        for n in range(5):
            assert pool.submit(other.run, "echo %d" % n).result(30).text == "%d\n" % n


def test_close_returns_while_a_call_still_writes_its_input():
    """A call that is on its way to a supervisor when its tool is closed is over all the same (015.5)."""
    tool = BashTool()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(tool.run, lasting("sleep 600"), stdin=b"x" * 2**26)
        time.sleep(0.01)
        tool.close()
        assert answer.result(20).status in ("cancelled", "rejected")


def test_a_supervisor_that_drains_is_not_given_up(monkeypatch):
    """The wait for the output after the exit counts in the moment at which the host gives a supervisor up."""
    monkeypatch.setattr(bash_tool, "UNKILLABLE_S", 0.1)  # of the host: its supervisors have their own
    monkeypatch.setattr(bash_tool, "HOST_SLACK_S", 0.1)
    profile = dataclasses.replace(MODES, timeouts_s={"default": 1.0}, grace_s=0.1, drain_idle_s=4.0, drain_total_s=4.0)
    result = BashTool(profile=profile).run("sleep 2.5 & echo hi; exit 3")
    assert (result.status, result.exit_code, result.stdout) == ("exited", 3, "hi\n"), result


@fault("the_seconds_of_a_job-1", ("Command.describe", "(life.seen.exited_at or monotonic()) - life.started_at", "0.5"))
@needs_proc
def test_the_seconds_of_a_job_go_on_at_its_end():
    """A kept command has run since its shell began: while it runs, and then."""
    with BashTool(profile=keeping(0.5)) as tool:
        kept = tool.job(tool.run("until [ -e go ]; do sleep 0.1; done; sleep 0.5").pid)
        Path("go").touch()
        assert kept.duration_s >= 0.5 and kept.wait(20) and kept.duration_s >= 1


@fault("a_line_that_never_comes", saboteur=("Job.wait", "deadline + SEARCH_S", "inf"))
def test_a_line_that_never_comes_is_sought_no_longer_than_asked_for():
    """`wait` with `until` returns in time, also where output comes as fast as it is searched."""
    found = []
    with BashTool(profile=tiny(grace=0.3)) as tool:
        job = background(tool, "sleep 0.5; yes 'a line'")  # 64 MiB in the file, which take 15 s to search
        assert eventually(lambda: job.total_bytes > 2**25)
        thread = threading.Thread(target=lambda: found.append(job.wait(0.1, until="no")), daemon=True)
        thread.start()
        thread.join(PATIENCE_S / 2)
        in_time = list(found)
        assert job.kill()
        Path(job.output_file).write_bytes(b"")  # where it is searched all the same, the search ends here
        assert in_time == [None]


@fault("a_reader_of_a_record", saboteur=("read_record", "(), fcntl.LOCK_SH | fcntl.LOCK_NB", "()"))
@needs_proc
def test_a_reader_of_a_record_leaves_no_lock_to_a_forked_child():
    """A child that the host forks while a thread reads the record holds no lock by which the job would seem supervised."""
    with BashTool(profile=tiny(grace=0.3)) as tool:
        job = background(tool, lasting("sleep 600"))
        os.kill(supervisor_of(job), signal.SIGKILL)
        assert eventually(lambda: job.status == "lost")
        stop, forks, seen = threading.Event(), [], set()

        def read():
            while not stop.is_set():
                seen.add(bash_tool.Job(job.output_file).status)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for _ in range(400 if CHANGED else 40):  # of the saboteur's many tries one is enough
                forks.append(os.fork() or (time.sleep(60), os._exit(0)))
        finally:
            stop.set()
            reader.join()
            seen.add(bash_tool.Job(job.output_file).status)
            for child in forks:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        assert seen == {"lost"}


@needs_proc
def test_a_lost_job_keeps_its_size():
    with BashTool() as tool:
        job = background(tool, lasting("echo first; seq 300000; echo last; echo > said; exec sleep 600.25"))
        assert eventually(lambda: Path("said").exists() and job.total_bytes > 1_900_000)
        os.kill(supervisor_of(job), signal.SIGKILL)
        assert job.wait(20) and job.status == "lost"
        assert job.total_bytes > 1_900_000 and job.duration_s > 0


@needs_proc
def test_a_cancel_after_the_answer_ends_no_leftover():
    """The host is told of the end of the shell and of what goes on; a cancel that comes then is not for these."""
    told = threading.Event()

    def slow(text):
        told.wait(20)  # so that the answer waits in the socket

    token = Cancel()
    with BashTool(state_dir="state") as tool:
        with ThreadPoolExecutor(1) as pool:
            start = lasting("echo hi; echo $$ > shell; (setsid sleep 600.125 >/dev/null 2>&1 & echo $! > left); exit 3")
            answer = pool.submit(tool.run, start, cancel=token, on_output=slow)
            left = number_in("left")
            assert eventually(lambda: not alive(number_in("shell")))
            time.sleep(0.8)  # and its leftover was seen
            token.cancel()
            told.set()
            result = answer.result(20)
        assert result.exit_code == 3 and "still running: pid %d" % left in result.text
        assert not eventually(lambda: not alive(left), 0.5)
        os.kill(left, signal.SIGKILL)


def test_a_command_that_ends_in_half_a_character_of_its_locale_is_run(tmp_path):
    """In GBK the last byte of UTF-8 and what follows it are one character: not the NUL that ends the command."""
    if not has_locale(tmp_path, "zh_CN.GBK", "GBK"):
        pytest.skip("takes localedef and its sources, zh_CN and GBK")
    env = {"PATH": os.environ["PATH"], "LOCPATH": str(tmp_path), "LC_ALL": "zh_CN.GBK"}
    with BashTool(base_env=env) as tool:
        assert tool.run("echo price 5€").text == "price 5€\n"
        assert tool.run("echo ok # 你").text == "ok\n"
        assert tool.run("printf %s \"$BASH_EXECUTION_STRING\"").text == "printf %s \"$BASH_EXECUTION_STRING\""


# Of a supervisor, which is busy when a request comes.
LATE = """
    def late(until, real=self.wait_until):
        real(until)
        if self.channel.plans:
            time.sleep(0.6)
    self.wait_until = late
"""


@fault("a_request_that_comes", saboteur=("Supervisor.serve", "channel.plans or", ""))
def test_a_request_that_comes_as_a_supervisor_would_end_is_run():
    """What was read of it cannot be asked of another supervisor: the command would be lost, its end unknown."""
    module = with_supervisors_that(textwrap.dedent(LATE), IDLE_S="0.5")
    with module.BashTool() as tool:
        assert [tool.run("echo %d" % n).text for n in range(3)] == ["0\n", "1\n", "2\n"]


# Runs in a supervisor as soon as it begins: what it signals and reaps is written to a file, a line each, in order.
SPY = """
    for name in ("kill", "killpg", "waitpid"):
        def spy(*arguments, name=name, real=getattr(os, name)):
            answer = None
            try:
                answer = real(*arguments)
                return answer
            finally:
                if name != "waitpid" or answer and answer[0]:
                    fd = os.open(%r, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                    os.write(fd, ("%%s %%d %%d\\n" %% (name, *(answer if name == "waitpid" else arguments))).encode())
                    os.close(fd)
        spy.spies = True
        if not hasattr(getattr(os, name), "spies"):
            setattr(os, name, spy)
"""


def spying_module(path="signals"):
    """The module whose supervisors write down in a file what they signal and reap: (name, pid, signal or status)."""
    module = with_supervisors_that(textwrap.dedent(SPY) % os.path.abspath(path))

    def signals():
        lines = [line.split() for line in Path(path).read_text().splitlines()]
        return [(name, int(pid), int(number)) for name, pid, number in lines]

    return module, signals


@fault("t01", saboteur=("Shell.signal_group", "self.popen.returncode is None or not SEES_TREE", "True"))
@needs_proc
def test_t01_nothing_is_signalled_after_the_reap():
    """After the reap of a process its number is never used, neither for it nor for its group."""
    module, signals = spying_module()
    with module.BashTool(profile=tiny(default=60, drain_idle_s=60, drain_total_s=60, module=module)) as tool:
        cancel = module.Cancel()
        thread = threading.Thread(target=lambda: eventually(lambda: Path("begun").exists()) and cancel.cancel())
        thread.start()
        command = "setsid sleep 600 & sleep 600 & echo $! > child; echo $$ > shell; "
        result = tool.run(lasting(command + "(sleep 0.5; touch begun; exec sleep 600) &"), cancel=cancel)
        thread.join()
    assert result.status == "cancelled" and not alive(number_in("child"))
    calls, reaped = signals(), set()
    for name, pid, number in calls:
        if name == "waitpid":
            reaped.add(pid)
        else:
            assert pid not in reaped or number == 0, (name, pid, number, calls)
    assert number_in("shell") in reaped
    assert any(name != "waitpid" and number == signal.SIGTERM for name, _, number in calls)


@fault(
    "t05",
    saboteur=(
        "Command.terminate",
        "and self.shell.signal_group",
        "and self.shell.signal_group() or self.shell.signal_group",
    ),
)
@needs_proc
@pytest.mark.parametrize("problem", ["PermissionError(1, 'EPERM')", "ProcessLookupError(3, 'ESRCH')"])
def test_t05_a_group_that_cannot_be_signalled(problem):
    """Where a group cannot be signalled, its members are, one by one; nothing is raised, nothing loops."""
    fails = "def killpg(group: int, number: int) -> None:\n    raise %s\nos.killpg = killpg\n"
    module = with_supervisors_that(fails % problem)
    with module.BashTool(profile=tiny(module=module)) as tool:
        heard = "echo; trap 'echo heard > heard' TERM; sleep 600 & echo $! > child; while :; do sleep 0.1; done"
        result = tool.run(lasting(heard))
    assert (result.status, result.notes) == ("timed_out", ()) and not alive(number_in("child"))
    assert Path("heard").exists()  # the TERM, not only the KILL


def module_that_spares():
    """A module whose supervisors cannot end the process `sleep 600.0625`."""
    spare = "def kill(pid: int, number: int, real: Any = os.kill) -> None:\n"
    spare += (
        "    if b'0.0625' not in _read_file('/proc/%d/cmdline' % pid):\n        real(pid, number)\nos.kill = kill\n"
    )
    return with_supervisors_that(spare, UNKILLABLE_S="0.3")


@fault("t06", saboteur=("Life._end", "self._kill_at + UNKILLABLE_S", "inf"))
@needs_proc
def test_t06_what_survives_kill_is_named():
    """A process that cannot be killed is waited for a bounded time, and named; its supervisor reaps it in the end."""
    module = module_that_spares()
    with module.BashTool(profile=tiny(module=module)) as tool:
        begun = time.monotonic()
        result = tool.run(lasting("echo on; setsid sleep 600.0625 & echo $! > child; wait"))
        pid = number_in("child")
        assert result.notes == (lasting('could not be killed: pid %d "sleep 600.0625"') % pid,)
        assert alive(pid) and time.monotonic() - begun < 10 + slack_s()
        assert tool.run("echo $PPID").text != "%d\n" % parent_of(pid)  # not the supervisor that stays with it
    supervisor = parent_of(pid)
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not os.path.exists("/proc/%d" % pid)) and eventually(lambda: not alive(supervisor))


@fault("what_a_job_left", saboteur=("Job._end", "self._read_record()[1]", "False"))
@needs_proc
def test_what_a_job_left_and_nothing_can_kill_is_no_success():
    """Where a process survives that a job has left behind, `kill` returns False, though the job's end was told long ago."""
    module = module_that_spares()
    with module.BashTool(profile=tiny(module=module)) as tool:
        job = background(tool, lasting("setsid sleep 600.0625 & echo $! > child; sleep 0.6"))
        pid = number_in("child")
        try:
            assert job.wait(20) and job.status == "exited" and alive(pid)
            assert not job.kill() and alive(pid)
        finally:
            os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: not os.path.exists("/proc/%d" % pid)) and job.kill()


@fault("t08", saboteur=("Command.run", "wait_until(self.life.due_at)", "wait_until(0.0)"))
@needs_proc
def test_t08_no_busy_waiting():
    """A command that closes its output, or ignores TERM, costs next to no processor time while it is waited for."""

    def used_s(pid):
        fields = Path("/proc/%d/stat" % pid).read_bytes().rpartition(b") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    with BashTool(profile=tiny(default=AMPLE_S, grace=1.5)) as tool:
        for command, limit_s in (("exec >&- 2>&-; sleep 1.5", None), ("trap '' TERM; while :; do sleep 1; done", 0.2)):
            tool.run(":")
            begun, used = time.process_time(), []
            command = "echo $PPID > supervisor; " + command
            thread = threading.Thread(target=tool.run, args=(command,), kwargs={"timeout_s": limit_s})
            thread.start()
            supervisor = number_in("supervisor")
            while thread.is_alive():
                used.append(used_s(supervisor))
                thread.join(0.1)
            os.unlink("supervisor")
            assert time.process_time() - begun < 0.2 and used[-1] - used[0] < 0.2, used  # a busy loop takes a second


SIGNALS_ALL = """states = self.life.steps.states
for name in filter(str.isdigit, os.listdir('/proc')):
    is_here = os.path.realpath('/proc/%s/cwd' % name) == os.fsdecode(self.plan.cwd)
    if is_here and _command_line(int(name)).startswith('sleep'):
        _signal(int(name), signal.SIGTERM)"""


@fault("t13", saboteur=("Command.terminate", "states = self.life.steps.states", SIGNALS_ALL))
@needs_proc
def test_t13_strangers_are_spared():
    """Processes of the host, and processes younger than a command, live through its end."""
    strangers = []

    def begin():
        assert eventually(lambda: Path("begun").exists())
        for new, env in (False, None), (True, None), (True, {"PATH": os.environ["PATH"]}):
            strangers.append(subprocess.Popen(lasting("sleep 600").split(), start_new_session=new, env=env))
        cancel.cancel()

    cancel = Cancel()
    thread = threading.Thread(target=begin)
    thread.start()
    try:
        with BashTool(profile=tiny(default=60, grace=0.3)) as tool:
            command = lasting("touch begun; setsid sleep 600 & trap '' TERM; sleep 600; sleep 600")
            assert tool.run(command, cancel=cancel).status == "cancelled"
        assert len(strangers) == 3 and all(stranger.poll() is None for stranger in strangers)
    finally:
        thread.join()
        for stranger in strangers:
            stranger.kill()
            stranger.wait()


WAITS_AT_THE_SIGNAL = """
def killpg(group: int, number: int, really: Any = os.killpg) -> None:
    def wait_for(path: str) -> None:
        while number == signal.SIGTERM and path and not os.path.exists(path):
            time.sleep(0.01)
    if number == signal.SIGTERM:
        open(%r, "x").close()
    wait_for(%r)
    really(group, number)
    wait_for(%r)
os.killpg = killpg
"""


HEARS_TERM = "trap 'echo > heard; exit' TERM; echo > left; sleep 600 & wait"


def hears_term(command):
    """Whether HEARS_TERM does, which the command starts in another group after the look of a stop and before its signal."""
    module = with_supervisors_that(WAITS_AT_THE_SIGNAL % (os.path.abspath("leave"), os.path.abspath("left"), ""))
    with module.BashTool(".", profile=tiny(default=0.3, grace=2, module=module)) as tool:
        assert tool.run(lasting(command)).status == "timed_out"
    return Path("heard").exists()  # the TERM, not only the KILL


@fault(
    "leaves_its_group",
    saboteur=("Command.terminate", "group != self.shell.popen.pid if pid in inspected", "False if pid in inspected"),
)
@needs_proc
def test_a_process_that_leaves_its_group_just_before_the_signal():
    """It was looked at within the group, and the signal of the group does not reach it: it gets TERM by itself."""
    assert hears_term('(until [ -e leave ]; do sleep 0.01; done; exec setsid sh -c "%s") & sleep 600' % HEARS_TERM)


@fault("forked_at_the_signal", saboteur=("Command.terminate", "else not is_handled", "else False"))
@needs_proc
def test_a_process_that_is_forked_into_a_session_of_its_own_just_before_the_signal():
    """It was not looked at, and the signal of the group does not reach it. Where nothing handles TERM it gets TERM."""
    assert hears_term('until [ -e leave ]; do sleep 0.01; done; setsid sh -c "%s" & sleep 600' % HEARS_TERM)


@fault("starts_at_the_signal", saboteur=("Command.terminate", "else not is_handled", "else True"))
@needs_proc
def test_what_a_trap_starts_in_a_session_of_its_own_just_after_the_signal():
    """It may clean up: the stop looks at the processes again after the signal, and spares what is new."""
    module = with_supervisors_that(WAITS_AT_THE_SIGNAL % (os.path.abspath("asked"), "", os.path.abspath("begun")))
    Path("clean.sh").write_text("trap 'echo > heard; exit' TERM\necho > begun\nsleep 600 &\nwait\n")
    with module.BashTool(".", profile=tiny(default=0.3, grace=1, module=module)) as tool:
        result = tool.run(lasting("trap 'setsid sh clean.sh' TERM; sleep 600 & wait"))
    assert result.status == "timed_out" and Path("begun").exists()
    assert not Path("heard").exists()


@fault("t36", saboteur=("Command.terminate", "SIGTERM, signal.SIGCONT", "SIGCONT, signal.SIGTERM"))
@needs_proc
def test_t36_order_of_signals():
    """TERM, then CONT, then KILL; no CONT before TERM."""
    module, signals = spying_module()
    with module.BashTool(profile=tiny(grace=0.3, module=module)) as tool:
        loop = "while :; do sleep 1; done"
        tool.run("trap '' TERM; echo $$ > me; setsid sh -c 'trap \"\" TERM; echo $$ > other; %s' & %s" % (loop, loop))
    for pid in (number_in("me"), number_in("other")):
        numbers = [number for name, to, number in signals() if name != "waitpid" and to == pid and number]
        assert numbers[:3] == [signal.SIGTERM, signal.SIGCONT, signal.SIGKILL] and set(numbers[3:]) <= {signal.SIGKILL}


@pytest.mark.parametrize("lacking", ["memfd", "memfd and files"])
def test_other_ways_for_the_text(lacking):
    """Without a memfd the text travels in an unlinked file; where none can be made, the command is not run."""
    places = [("data_file", "fd = os.dup(file.fileno())", "raise OSError")] if lacking == "memfd and files" else []
    if WITHOUT != "memfd":
        places += ABSENT_FEATURES["memfd"]
    module = variant_module(*places)
    tool = module.BashTool(profile=tiny(default=AMPLE_S, module=module))
    for size in (0, 10, 70000, 300000):
        result = tool.run("x=%s\necho ${#x}; cat; exit 3" % ("y" * size))
        if lacking == "memfd":
            assert result.text == "[command failed: exit code 3]\n%d\n" % size
        else:
            assert (result.status, result.error) == ("failed", "spawn_failed"), result
    silent = module.BashTool(shell="true")
    assert silent.run("x").error == silent.run("x" * 100000).error == "spawn_failed"
    if lacking == "memfd":  # where no text travels, nothing runs and no supervisor is idle
        warm_up(module)
    before = len(descriptors())
    for _ in range(8):
        tool.run(":")
    assert len(descriptors()) <= before


def test_a_fork_server_that_starts_slowly():
    """A fork server that a busy machine lets read little by little has read all of its code when it is asked for a
    supervisor: on Python 3.9 the code fills the socket, and a request found no room."""
    slow = "__import__('time').sleep(0.05) or os.read(control, min(65536, left - len(code)))"
    with variant_module(("LOADER", "os.read(control, left - len(code))", slow))._pool._start_server(
        sys.executable
    ) as end:
        assert fcntl.ioctl(end, termios.TIOCOUTQ, bytes(4)) == bytes(4)  # what the other end has not read (unix(7))


def test_no_socket_is_left_to_the_garbage_collector():
    """A supervisor that ends while it is idle, or that is one too many, gives a host's tests no ResourceWarning."""
    module = variant_module(IDLE_S="0.1", MAX_IDLE="1")
    with warnings.catch_warnings(record=True) as told, module.BashTool() as tool:
        warnings.simplefilter("always")
        with ThreadPoolExecutor(2) as pool:
            supervisors = [int(result.stdout) for result in pool.map(tool.run, ["echo $PPID; sleep 0.3"] * 2)]
        assert eventually(lambda: not any(map(alive, supervisors)))
        assert tool.run("echo hi").ok
    assert told == []


def test_close_is_final(monkeypatch):
    """A command whose confirmation was under way when the tool was closed does not run on."""
    tool = BashTool(confirm=lambda _: tool.close() or True)
    assert tool.run(lasting("sleep 600; touch made")).status == "cancelled" and not Path("made").exists()


def test_a_host_without_a_directory():
    """A host whose own directory is gone gets its commands run in an empty folder, not somewhere else."""
    printed = in_host("""
        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir("../gone")
        result = BashTool().run("ls -A; pwd")
        print(result.error, "scratch-" in result.stdout)
        for folder in "sub", "..", "../..":
            try:
                print(BashTool(folder).cwd)
            except FileNotFoundError as problem:
                print("no sub" if "/sub'" in str(problem) else problem.errno)
        print(BashTool().run("touch made", cwd="..").error)
        print(BashTool("/").run("pwd").text, end="")
    """)
    assert printed == "cwd_missing True\nno sub\n2\n2\ncwd_missing\n/\n"


def test_a_finalizer_that_calls():
    """An object whose end runs a command, collected in any thread at any moment, also at the exit, blocks nothing."""
    program = """
        tool = BashTool()
        answers = []

        class Cycle:
            def __init__(self):
                self.me = self
            def __del__(self):
                answers.append(tool.run("echo from the end", timeout_s=5).status)

        gc.set_threshold(1)
        for _ in range(30):
            Cycle()
            assert tool.run("echo hi").text == "hi\\n"
        gc.set_threshold(700)
        gc.collect()
        print(set(answers))
        last = Cycle()
    """
    assert in_host(program, started=True) == "{'exited'}\n"


@needs_proc
def test_a_sweep_that_cannot_look_says_so():
    """Where the supervisor cannot read what lives below it, the note says that something lives."""
    blind = "def listdir(path: str = '.', real: Any = os.listdir) -> Any:\n    if str(path).startswith('/proc'):\n"
    blind += "        raise OSError(24, 'Too many open files')\n    return real(path)\nos.listdir = listdir\n"
    module = with_supervisors_that(blind, UNKILLABLE_S="0.3")
    with module.BashTool(profile=tiny(default=0.5, grace=0.2, module=module)) as tool:
        result = tool.run(lasting("setsid sleep 600 & echo $! > escaped; sleep 600"))
    assert result.status == "timed_out" and (not alive(number_in("escaped")) or result.notes)


def test_a_handler_that_closes():
    """A signal handler that closes the tool, while it is closed or calls, hangs nothing."""
    printed = in_host(
        """
        random.seed(5)
        for _ in range(20):
            tool = BashTool()
            signal.signal(signal.SIGUSR1, lambda *_: tool.close())
            threading.Timer(random.random() * 0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            threading.Timer(random.random() * 0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            status = tool.run("sleep 600", timeout_s=20, on_output=lambda _: None).status
            assert status in ("cancelled", "rejected"), status
            tool.close()
            time.sleep(0.06)
        print("done")
    """
    )
    assert printed == "done\n"


@needs_proc
@pytest.mark.parametrize("path", ["/nonexistent", ""])
def test_a_host_without_a_path(path):
    """What ends the commands of a dead host does not depend on the host's PATH."""
    program = """
        real, os.environ["PATH"] = os.environ["PATH"], %r
        tool = BashTool(env={"PATH": real})
        threading.Thread(target=tool.run, daemon=True, args=(
            "setsid sh -c 'echo $$ > p0; exec sleep 600' & echo $$ > p1; sleep 600",)).start()
        while not all(os.path.exists(name) and open(name).read().endswith("\\n") for name in ("p0", "p1")):
            pass
        os._exit(0)
    """
    in_host(program % path)
    assert eventually(lambda: not alive(number_in("p0")) and not alive(number_in("p1")), 5 + slack_s())


@fault("an_input_that_is_not_taken", saboteur=("data_file", "_close(fd)", "pass"))
def test_an_input_that_is_not_taken_leaves_no_descriptor():
    """Where files may have 1,000 bytes, the input of a command is refused, and the host has as many descriptors as before."""
    program = """
        with BashTool() as tool:
            tool.run(":")
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
            before = len(os.listdir("/dev/fd"))
            print({tool.run("cat", stdin=b"x" * 5000).error for _ in range(5)}, len(os.listdir("/dev/fd")) - before)
    """
    assert in_host(program) == "{'spawn_failed'} 0\n"


@fault("the_folder_of_the_user-1", saboteur=("default_folder", "or info.st_uid != os.geteuid() ", ""))
@fault("the_folder_of_the_user-2", saboteur=("default_folder", "info.st_mode & 0o077", "False"))
@fault("the_folder_of_the_user-3", saboteur=("default_folder", "or not is_writable(path)", ""))
@fault("the_folder_of_the_user-4", saboteur=("default_folder", "os.lstat", "os.stat"))
@needs_root
@pytest.mark.parametrize(
    "user, owner, mode",
    [(1, 1, 0o700), (0, 1, 0o700), (1, 0, 0o700), (1, 1, 0o750), (1, 1, 0o500), (1, 1, "file"), (1, 1, "link")],
)
def test_the_folder_of_the_user_is_private(user, owner, mode):
    """Where another user's stands there, a link, a file, or one that is open to others or not writable, a private one is
    made beside it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as base:
        os.chmod(base, 0o777)
        folder = Path(base, "own" if mode == "link" else "bash-tool-of-%d" % user)
        folder.touch(0o600) if mode == "file" else folder.mkdir(0o700 if mode == "link" else mode)
        if mode == "link":
            Path(base, "bash-tool-of-%d" % user).symlink_to("own")
        os.chown(folder, owner, owner)
        program = """
            os.environ["TMPDIR"] = sys.argv[1]
            os.setuid(int(sys.argv[2]))
            result = BashTool("/").run("seq 50000")
            folder = os.path.dirname(result.output_file or result.text)
            print(os.path.basename(folder), oct(os.stat(folder).st_mode)[-3:])
        """
        name, shown = in_host(program, base, user).split()
    own = "" if user == owner and mode == 0o700 else "[0-9a-f]{12}"
    assert shown == "700" and re.fullmatch("bash-tool-" + (own or "of-%d" % user), name)


@fault(
    "a_folder_of_others-1", saboteur=("make_folder", "not info.st_mode & 0o022 or info.st_mode & stat.S_ISVTX", "True")
)
@fault("a_folder_of_others-2", saboteur=("make_folder", "or info.st_uid not in (os.geteuid(), 0)", ""))
@needs_root
@pytest.mark.parametrize("owner, mode", [(0, 0o755), (0, 0o1777), (0, 0o777), (0, 0o770), (1, 0o755)])
def test_a_folder_of_others_is_not_written_into(owner, mode, tmp_path):
    """A state folder in which another user can change files, or that is one's own, takes none: the answer says so."""
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    os.chown(folder, owner, owner)
    result = BashTool(state_dir=folder).run("seq 50000")
    own = owner == 0 and mode in (0o755, 0o1777)
    assert (result.output_file is not None) is own is bool(list(folder.iterdir()))
    assert own or ": other users can change what is in it]" in result.text


@fault("a_file_of_another_kind-1", saboteur=("_open_own", "not stat.S_ISREG(info.st_mode) or ", ""))
@fault("a_file_of_another_kind-2", saboteur=("_open_own", " or info.st_uid not in (os.geteuid(), 0)", ""))
@needs_root
@pytest.mark.parametrize("suffix", [".job", ".log"])
@pytest.mark.parametrize("kind", ["a link", "a pipe", "another user's"])
def test_a_file_of_another_kind_is_not_read(suffix, kind):
    """What another user could have put in the place of a job's file is no record and no output."""
    program = """
        tool, (suffix, kind) = BashTool(state_dir="s"), sys.argv[1:]
        job = tool.job(tool.run("echo hi; sleep 0.4", mode="background").pid)
        print(job.wait())
        path = job.output_file[:-4] + suffix
        if kind == "another user's":
            os.chown(path, 2, 2)
        else:
            os.rename(path, "kept")
            os.symlink(os.path.abspath("kept"), path) if kind == "a link" else os.mkfifo(path)
        try:
            print((Job(job.output_file) if suffix == ".job" else job).read())
        except OSError as problem:
            print(type(problem).__name__)
    """
    assert (
        in_host("from bash_tool import Job\n" + textwrap.dedent(program), suffix, kind) == "True\nFileNotFoundError\n"
    )


@fault("a_job_of_another_tool", saboteur=("JobTable.live", "self._started", "self._by_pid"))
def test_a_job_of_another_tool_takes_no_place():
    """A tool counts the jobs that it has started, not those that it was asked about."""
    with BashTool(state_dir="s") as tool, BashTool(state_dir="s", max_jobs=1) as other:
        job = background(tool, lasting("sleep 600"))
        assert other.job(job.pid).pid == job.pid
        assert other.run("echo mine", mode="background").error is None
        job.kill()


@fault("a_host_without_streams", saboteur=("_above_standard", "F_DUPFD_CLOEXEC, 3", "F_DUPFD_CLOEXEC, 0"))
@pytest.mark.parametrize("frozen", ["sys.frozen = True", ""], ids=["a fork of the host", "an interpreter"])
def test_a_host_without_streams(frozen):
    """Commands run in a host whose descriptors 0 to 2 are closed, and the tool takes none of these."""
    program = """
        said = os.dup(1)
        os.closerange(0, 3)
        %s
        text = BashTool().run("seq 9 | tail -n 1; exit 3").text
        os.write(said, repr((text, [fd for fd in range(3) if os.path.exists("/dev/fd/%%d" %% fd)])).encode())
    """
    assert in_host(program % frozen) == repr(("[command failed: exit code 3]\n9\n", []))


def test_a_command_line_without_streams():
    """With a standard descriptor closed, or full, the command line says 125 and shows no traceback."""
    codes = {">&-": 125, ">/dev/full": 125, "2>&-": 3, "<&-": 3, "<&- 2>&-": 3, "--follow 2>/dev/full": 3}
    for redirection, code in codes.items():
        words = '"$0" "$1" "echo hi; exit 3" ' + redirection
        done = ran("bash", "-c", words, sys.executable, compiled_script(), stdin=None)
        assert done.returncode == code and b"Traceback" not in done.stderr, (redirection, done)
        assert done.stdout == (b"[command failed: exit code 3]\nhi\n" if code == 3 else b"")


@needs_proc
def test_the_command_line_hides_its_command():
    """The text of a command on the command line is in no argument once it runs, equal arguments included."""
    word = "sought" + os.urandom(4).hex()
    command = "grep -l %s[%s] /proc/[0-9]*/cmdline 2>/dev/null; : %s" % (word[:-1], word[-1], word)
    done = cli(command, started=True)
    assert done.stdout.strip() == b"[no output]" and done.returncode == 0
    os.mkdir("echo hi")
    assert cli("--cwd", "echo hi", "echo hi").stdout == b"hi\n"


@needs_proc
def test_the_command_line_hides_its_environment():
    """No parent of a command shows an environment, not even to root, also where it is a fork of the host."""
    parents = "$PPID $(cut -d ' ' -f 4 /proc/$PPID/stat)"
    command = "for pid in %s; do tr -d '\\0' </proc/$pid/environ; done 2>/dev/null; true" % parents
    shown = json.loads(cli("--json", command, started=True).stdout)
    assert (shown["stdout"], shown["exit_code"]) == ("", 0)


@fault("t49", saboteur=("serve_forks", "SIG_SETMASK, ()", "SIG_SETMASK, [signal.SIGPIPE]"))
def test_t49_signals_of_the_host():
    """A host that ignores or blocks signals: a pipeline ends as it should, and every command can be ended."""
    printed = in_host(
        """
        for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGQUIT, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, [signal.SIGTERM, signal.SIGALRM])
        tool = BashTool(profile=dataclasses.replace(MODES, grace_s=0.5))
        print(tool.run("yes | head -n 1; echo ${PIPESTATUS[0]}").text.split())
        begun = time.monotonic()
        print(tool.run("echo on; sleep 600", timeout_s=0.2).text, time.monotonic() - begun < 10)
        print(signal.pthread_sigmask(signal.SIG_BLOCK, []) == {signal.SIGTERM, signal.SIGALRM})
    """
    )
    assert printed == "['y', '141']\n[command timed out after 0.2s]\n%s\non\n True\nTrue\n" % LONGER_MODES
