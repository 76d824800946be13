"""Background jobs: what no single clause says."""

import dataclasses
import inspect
import itertools
import json
import os
import random
import re
import select
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.known_commands import NAP
from tests.processes import PATIENCE_S, alive, eventually, number_in
from tests.support import IN_A_SUPERVISOR, TOOL, WITHOUT, BashTool, Cancel, Client, background, bash_tool
from tests.support import cancelled_when, changed, dying_host, exhaustive, fault, in_host, in_profile
from tests.support import keeping, lasting, lives_in, needs_proc, notes_in, ran, record_beside, started
from tests.support import supervisor_of, tiny, told_in
from tests.support import variant_module, written


def variant(*places):
    """The folder of a copy of the module in which something is different: a place where a process kills itself."""
    return written(changed(TOOL.read_text(encoding="utf-8"), *places), "variant-").parent


@exhaustive
def test_the_latest_kept_commands_keep_both_streams():
    """SPEC 4.1: the last 32 that have ended; of an older one the file is left, which has both streams as one."""
    profile = dataclasses.replace(bash_tool.JOBS, timeouts_s={"default": 0.05})
    with BashTool(profile=profile) as tool:
        jobs = [tool.job(tool.run("echo out; echo err >&2; sleep 2").pid) for _ in range(34)]
        assert len(tool.wait(jobs, timeout_s=30)) == 34
        texts = [tool.call({"check_pid": job.pid}).text for job in jobs]
    assert sum("stderr:\nerr" in text for text in texts) == 32, texts


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root")
def test_a_host_that_changes_its_user():
    """Commands run as the user that the host is at the call, also where that user may not execute its interpreter."""
    program = """
        tool = BashTool("/")
        print(tool.run("id -u").text, end="")
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        print(tool.run("id -u").text, end="")
    """
    assert in_host(program) == "0\n65534\n"


@needs_proc
def test_a_program_on_standard_input():
    """`python3 -` has no file: its commands have supervisors, and its jobs outlive it."""
    words = [sys.executable, "-", "--state-dir", "state", "--mode", "background", lasting("sleep 600")]
    with open(TOOL) as program:
        pid, _ = started(ran(*words, stdin=program, check=True).stdout.decode())
    job = BashTool(state_dir="state").job(pid)
    assert job.status == "running" and job.kill()


# Faults of jobs, as far as no clause says them.
@exhaustive
@fault("t18", saboteur=("Life.next_action", "seen.nobody_reads and self.attached", "False"))
@needs_proc
def test_t18_the_agent_dies_while_it_starts_a_job():
    """A job that was answered has one note at its end; of a start that was not nothing is left, nor is it listed."""
    program = """
        tool = BashTool(state_dir=sys.argv[1])
        if sys.argv[3] == "warm":
            tool.run(":")
        dies = threading.Timer(float(sys.argv[2]), os.kill, (os.getpid(), 9))
        dies.start() if dies.interval < 0.3 else None
        tool.run("echo $$ > %s/me; sleep %s; exit 3" % (sys.argv[1], sys.argv[4]), mode="background")
        open(sys.argv[1] + "/answered", "w").close()
        dies.start()
        time.sleep(60)
    """

    within_the_look = variant_module(EARLY_END_S="60.0")  # however late a busy machine kills the host

    def dies(moment_s, kind):
        folder = tempfile.mkdtemp(dir=os.getcwd())
        is_early = moment_s < bash_tool.EARLY_END_S
        seconds = lasting("600") if is_early else "2.5"
        dying_host(program, folder, moment_s, kind, seconds, module=within_the_look if is_early else None)
        answered, jobs = os.path.exists(folder + "/answered"), BashTool(state_dir=folder).jobs()
        assert len(jobs) <= 1 and (jobs or not answered), (moment_s, kind)
        assert answered != is_early
        for job in jobs:
            assert job.wait(20)
            if is_early:  # seen before it was ended
                assert job.exit_code is None, (moment_s, kind)
            else:
                assert (job.status, job.exit_code) == ("exited", 3), (moment_s, kind)
                assert notes_in(job.output_file) == ["\n\n[background process failed: exit status: 3]\n"]
        assert eventually(lambda: not lives_in(folder + "/me"))

    moments = [0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.9]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(dies, moments, itertools.repeat("warm")))
        list(pool.map(dies, moments[:-1], itertools.repeat("cold")))


OPEN_ONES = '[fd for fd in range(3, 20) if os.path.exists("/proc/self/fd/%d" % fd)]'


@fault("t24", saboteur=("Shell._spawn", "() if self._has_prefix else (fd,)", OPEN_ONES))
@needs_proc
def test_t24_the_lock_is_the_supervisors_alone():
    """A job does not inherit the lock that says that it is supervised, nor does a fork of the host."""
    with BashTool(profile=tiny(grace=0.3)) as tool:
        job = background(tool, lasting("ls -l /proc/self/fd; sleep 600"))
        assert ".job" not in job.read()[0] and ".log" not in job.read()[0]
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        try:
            assert tool.jobs()[0].status == tool.jobs()[0].status == "running"
            os.kill(supervisor_of(job), signal.SIGKILL)
            assert eventually(lambda: job.status == "lost") and eventually(lambda: not alive(job.pid))
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


@needs_proc
def test_a_cancel_in_the_first_moment(monkeypatch):
    """A cancel while the tool looks at a new job ends it: its output is in the answer, our signal is not its failure."""
    monkeypatch.setattr(bash_tool, "EARLY_END_S", 20.0)  # so that the cancel comes within the look on a busy machine
    with BashTool(profile=tiny(grace=0.3)) as tool:
        command, cancel = lasting("echo hi; echo $$ > me; sleep 600"), cancelled_when("me", written=True)
        result = tool.run(command, mode="background", cancel=cancel)
        assert (result.status, result.error, result.exit_code) == ("cancelled", None, None)
        assert result.text == "[command cancelled]\nhi\n" and not alive(number_in("me"))
        token = Cancel()
        token.cancel()
        assert tool.run("echo $$ > never", mode="background", cancel=token).status == "cancelled"
        assert not Path("never").exists()


def test_a_job_in_a_directory_that_is_gone(tmp_path):
    """Background commands know the same faults as others: a missing directory, a missing shell, a full folder."""
    os.mkdir("gone")
    tool = BashTool("gone")
    os.rmdir("gone")
    result = tool.run(lasting("pwd; sleep 600"), mode="background")
    assert "is gone" in result.notes[0] and result.status == "running" and tool.job(result.pid).kill()
    result = BashTool(shell="no-such-shell").run(":", mode="background")
    assert (result.status, result.error, result.pid) == ("failed", "shell_not_found", None)
    result = BashTool(shell="true").run(":", mode="background")
    assert (result.status, result.error) == ("failed", "spawn_failed") and "before it read the command" in result.text
    tool = BashTool(state_dir="file")
    Path("file").write_text("")
    result = tool.run(":", mode="background")
    assert (result.status, result.error) == ("failed", "spawn_failed") and "file" in result.text


@needs_proc
@pytest.mark.parametrize("wrong", [{"pid": "abc"}, {"supervisor": 7}, {"notes": "n"}, {"command": None}, None])
def test_one_bad_record_spoils_no_other(wrong):
    """A record that is no JSON object, or has a field that is not of its type, hides its own job alone."""
    with BashTool(profile=tiny(grace=0.3), state_dir="state") as tool:
        bad = background(tool, "until [ -e go ]; do sleep 0.1; done; exit 3")
        good = background(tool, lasting("sleep 601"))
        Path("go").touch()
        assert bad.wait(20)
        record = Path(record_beside(bad.output_file))
        record.write_text("[[" if wrong is None else json.dumps({**json.loads(record.read_text()), **wrong}))
        assert [job.pid for job in BashTool(state_dir="state").jobs()] == [good.pid]
        with pytest.raises(OSError):
            bash_tool.Job(bad.output_file)
        with pytest.raises(FileNotFoundError, match="not the output file of a job: 'none.log'$"):
            bash_tool.Job("none.log")
        assert good.kill() and not alive(good.pid)


@exhaustive
@needs_proc
@pytest.mark.parametrize("how", ["slow", "killed"])
def test_a_supervisor_that_does_not_get_to_its_command(how):
    """Of a supervisor that is cancelled or killed before its command began nothing is left."""
    slow = "open(%r, 'x').close(); time.sleep(2)" % os.path.abspath("begun")
    act = slow if how == "slow" else "os.kill(os.getpid(), 9)"
    spawn = "def spawn(*words: Any, real: Any = subprocess.Popen, **options: Any) -> Any:\n    %s\n" % act
    spawn += "    return real(*words, **options)\nsubprocess.Popen = spawn\n"
    module = variant((*IN_A_SUPERVISOR, spawn + IN_A_SUPERVISOR[1]))
    program = """
        tool, cancel = BashTool(state_dir="state"), Cancel()
        if sys.argv[1] == "slow":
            late = lambda: [time.sleep(0.01) for _ in range(6000) if not os.path.exists("begun")] and cancel.cancel()
            threading.Thread(target=late, daemon=True).start()
        result = tool.run("echo $$ > me; sleep 600", mode="background", cancel=cancel)
        print(json.dumps([result.status, result.error, result.pid, result.text, len(tool.jobs())]))
    """
    printed = in_host(program, how, env=dict(os.environ, PYTHONPATH=str(module)))
    status, error, pid, text, jobs = json.loads(printed)
    if how == "killed":
        assert (status, error, pid, jobs) == ("failed", "status_unknown", None, 0), text
        assert BashTool(state_dir="state").jobs() == []
        assert not eventually(lambda: os.path.exists("me"), 1)
    else:
        assert (status, error, pid) == ("cancelled", None, None), text
        assert [job.status for job in BashTool(state_dir="state").jobs()] == ["cancelled"]
        assert eventually(lambda: not lives_in("me"))


def test_an_exit_in_the_first_moment_is_told_though_somebody_holds_the_pipe():
    """`server & exit 3` has failed, server or not; so has a kept command that ended before its timeout was noticed."""
    with BashTool(profile=tiny(1.0, 0.3, drain_idle_s=1.0, on_timeout=bash_tool.OnTimeout.KEEP)) as tool:
        tries = []  # again where a busy machine takes longer than the look, or the limit

        def has_ended(*words, **options):
            tries.append(tool.run(lasting(*words), **options))
            return tries[-1].status == "exited" and tries[-1]

        result = eventually(lambda: has_ended("sleep 600 & exit 3", mode="background"))
        assert result and (result.exit_code, result.is_error) == (3, True), tries
        unseen = WITHOUT in ("proc", "subreaper")  # the processes outside the group
        assert unseen or re.search(lasting(r'failed: exit status: 3; still running: \d+ "sleep 600"\]'), result.text)
        result = eventually(lambda: has_ended("sleep 600 & sleep 0.4; exit 4"))
        assert result and result.exit_code == 4, tries
        for job in tool.jobs():
            job.kill()


@exhaustive
def test_close_in_the_middle_of_starts():
    """A job that was answered as running keeps its file and its record, whenever the tool is closed."""
    for n in range(4):
        tool = BashTool()
        with ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(tool.run, lasting("sleep 600"), mode="background") for _ in range(4)]
            time.sleep(0.3 + n / 20)
            tool.close()
        for result in (future.result() for future in futures):
            assert result.status in ("running", "cancelled", "rejected"), result
            if result.status == "running":
                assert os.path.exists(result.output_file) and bash_tool.Job(result.output_file, 0.3).kill()


@fault("the_part_of_an_output", saboteur=("JobTable.add", "shown_bytes, FILE_CAP_BYTES", "shown_bytes"))
@needs_proc
def test_the_part_of_an_output_that_was_shown_is_not_new_again_where_the_file_is_capped():
    """What the answer of a kept command has shown is old, also where its file holds less than came."""
    module = variant_module(FILE_CAP_BYTES="200 * KIB")
    profile = dataclasses.replace(module.JOBS, timeouts_s={"default": 1.0}, grace_s=0.5)
    with module.BashTool(profile=profile) as tool:
        result = tool.run("seq 60000; " + NAP)
        assert result.total_bytes > 300_000 and os.stat(result.output_file).st_size < 210_000
        said = tool.call({"check_pid": result.pid}).text
        assert "(2 lines):\n\n[output file capped at 200KB: the rest was not saved]\n" in said, said


ON_A_FULL_DISK = "_write_all(self._fd, chunk[:1000])\nraise OSError(28, 'No space left on device')"


@exhaustive
@fault("the_part_of_an_output_on_a_full_disk-1", saboteur=("JobTable.add", ", job._size()", ""))
@fault("the_part_of_an_output_on_a_full_disk-2", saboteur=("Job._next_outcome", "or report.problem", ""))
def test_the_part_of_an_output_that_was_shown_is_not_new_again_on_a_full_disk():
    module = variant_module(("Output._write", "_write_all(self._fd, chunk[: self.room])", ON_A_FULL_DISK))
    profile = dataclasses.replace(module.JOBS, timeouts_s={"default": 1.0}, grace_s=0.5)
    with module.BashTool(profile=profile) as tool:
        result = tool.run("seq 60000; " + NAP)
        assert result.status == "running" and "may be incomplete" in result.text
        said = tool.call({"check_pid": result.pid}).text
        assert "(0 lines)" in said and "may be incomplete" in said, said


def test_the_end_of_a_kept_command_without_a_file_is_told():
    with BashTool(profile=keeping(0.2), state_dir="/proc/nowhere") as tool:
        job = tool.job(tool.run("echo a; sleep 1").pid)
        assert job.wait(PATIENCE_S) and "output: nowhere (no file could be written: " in tool.run("true").text


@exhaustive
@needs_proc
def test_another_tools_job_at_its_limit_and_a_number_given_again():
    """A tool reads the limit of another tool's job; a number is that of the latest job which has it."""
    other = BashTool(state_dir="state", profile=tiny(grace=0.3))
    with other, BashTool(state_dir="state", profile=keeping(0.2)) as tool:
        over = other.run(lasting("sleep 600"), mode="background", timeout_s=0.8).pid
        assert other.job(over).wait(20)
        assert "ended, exit code none (timed out after 0.8s)" in tool.call({"check_pid": over}).text
        old = tool.run("echo old; sleep 2; exit 7").pid
        assert tool.job(old).wait(20)
        new = other.run(lasting("echo new; sleep 600"), mode="background")
        record = Path(record_beside(new.output_file))  # as if the kernel had given it again
        record.write_text(json.dumps({**json.loads(record.read_text()), "pid": old}))
        try:
            text, note, _ = tool.call({"check_pid": old}).text.partition("[background process %d failed" % old)
            assert "still running" in text and "new" in text and "old" not in text and note
        finally:
            os.killpg(new.pid, signal.SIGKILL)


# What 0.4.0 left of three jobs: the file of each, and its record, which ends in 32 KiB of blanks. The supervisor of the
# last one is not there any more, as after a restart of the machine.
OF_0_4_0 = {
    "output-7b6ec09da785": (
        "up\nbye\n\n\n[background process failed: exit status: 3]\n",
        """{"pid": 28862, "total_bytes": 7, "at": 7, "created": 1795864194.3487406, "duration_s": 0.512556241999846, \
"limit_s": 86400.0, "command": "echo up; sleep 0.5; echo bye; exit 3", "status": "exited", "reason": "", \
"supervisor": [28861, 1560739], "notes": [], "exit_code": 3, "signal": null, "error": null}""",
    ),
    "output-83f3894d66c5": (
        "limit\n\n\n[background process failed: timed out after 0.8s]\n",
        """{"pid": 28877, "total_bytes": 6, "at": 6, "created": 1795864195.58474, "duration_s": 0.8066516930011858, \
"limit_s": 0.8, "command": "echo limit; sleep 50", "status": "timed_out", "reason": "", \
"supervisor": [28876, 1560862], "notes": [], "exit_code": null, "signal": null, "error": null}""",
    ),
    "output-bc4f1a7d2e90": (
        "up\n",
        """{"pid": 3832, "total_bytes": 3, "at": -1, "created": 1795864250.8769083, "duration_s": 0.30249689299853344, \
"limit_s": 86400.0, "command": "echo up; exec sleep 300", "status": "running", "reason": "", \
"supervisor": [3828, 1566390], "notes": [], "exit_code": null, "signal": null, "error": null}""",
    ),
}


def test_jobs_of_0_4_0_are_read(tmp_path):
    """The state folder of an earlier version: how its jobs ended, and what they printed."""
    for name, (output, record) in OF_0_4_0.items():
        for suffix, text in (".log", output), (".job", record.ljust(32768)):
            (tmp_path / (name + suffix)).write_text(text)
            (tmp_path / (name + suffix)).chmod(0o600)
    with BashTool(state_dir=tmp_path) as tool:
        jobs = tool.jobs()
        told = [(job.pid, job.status, job.exit_code, job.read()[0], job.total_bytes) for job in jobs]
        assert told == [
            (28862, "exited", 3, "up\nbye\n", 7),
            (28877, "timed_out", None, "limit\n", 6),
            (3832, "lost", None, "up\n", 3),
        ]
        assert [job.command for job in jobs] == [json.loads(record)["command"] for _, record in OF_0_4_0.values()]
        assert tool.wait(jobs, timeout_s=0) == jobs and jobs[0].wait(0, until="bye") == "bye"


# Each way to have a job, as the arguments of a call.
HOW_STARTED = {"modes": {"mode": "background"}, "modes, kept": {}, "jobs": {"timeout": 300}}


def twenty_commands(seed):
    """Commands that end after 1.6 to 3.5 s, every second one with an error: (command, seconds)."""
    for hundredths in random.Random(seed).sample(range(160, 350), 20):
        yield "sleep %.2f; echo bye %d; exit %d" % (hundredths / 100, hundredths, hundredths % 2), hundredths / 100


def assert_each_told_once(texts, started):
    """What these answers, as (when they came, text), tell of these jobs, as {pid: (command, its end at the earliest)}."""
    told = [(when, *one) for when, text in texts for one in told_in(text)]
    assert sorted(pid for _, pid, *_ in told) == sorted(started), (told, started)
    for when, pid, how, command, last in told:
        text, due = started[pid]
        assert when >= due and command == text and last.startswith("bye "), (when, due, command, last)
        assert how == ("failed: exit status 1" if text.endswith("exit 1") else "completed")


@exhaustive
@needs_proc
@pytest.mark.parametrize("way", HOW_STARTED)
def test_twenty_jobs_end_while_four_threads_call(way):
    """Jobs that end at random are told each once, to some answer, and never before their end."""
    ended, started, texts, over = [], {}, [], threading.Event()
    kept = {"on_timeout": bash_tool.OnTimeout.KEEP} if way == "modes, kept" else {}
    limits = {"timeouts_s": {"default": 20, **({} if way == "jobs" else {"background": 60})}}
    row = dataclasses.replace(in_profile(way.partition(",")[0], **kept), **limits)
    with BashTool(profile=row, on_job_end=ended.append) as tool:

        def calls(n):
            while not over.is_set():
                arguments = [{"command": "true"}, {"command": "exit 3"}, {"oops": n}, {"command": "echo $$"}][n]
                text = tool.call(arguments).text
                texts.append((time.monotonic(), text))
                time.sleep(0.05)  # four callers without a pause take both processors of a small machine

        def starts(case):
            (command, seconds), begun = case, time.monotonic()
            if kept:
                result = tool.run(command, timeout_s=0.3)
            else:
                result = tool.call({"command": command, **HOW_STARTED[way]})
            started[result.pid] = (command, begun + seconds)
            texts.append((time.monotonic(), result.text))

        callers = [threading.Thread(target=calls, args=(n,)) for n in range(4)]
        for caller in callers:
            caller.start()
        with ThreadPoolExecutor(5) as pool:
            list(pool.map(starts, twenty_commands(7)))
        assert eventually(lambda: len(ended) == 20), (started, ended)
        time.sleep(0.2)
        over.set()
        for caller in callers:
            caller.join()
        texts.append((time.monotonic(), tool.call({"command": "true"}).text))
        assert sorted(job.pid for job in ended) == sorted(started)
    assert_each_told_once(texts, started)


@exhaustive
@needs_proc
def test_a_withdrawn_call_leaves_no_job():
    """A job that no answer names: ended where the call is withdrawn before the text of its answer is made, else it goes on
    and is listed, though the answer waits behind a text that the client does not read (4.13)."""
    slow = variant_module(EARLY_END_S="2.5")
    with Client("--state-dir", "jobs", module=slow, timeouts={"grace_s": 0.5}) as client:

        def listed():
            return [job.pid for job in BashTool(state_dir="jobs").jobs() if job.status == "running"]

        number = client.begin(lasting("echo $$ > early; sleep 600"), mode="background")
        pid = number_in("early")  # within the look
        client.cancel(number)
        assert eventually(lambda: not alive(pid) and not listed())
        long = client.begin("seq 20000")  # more than a pipe holds
        assert select.select([client.process.stdout], [], [], 20)[0]
        number = client.begin(lasting("echo $$ > late; sleep 600"), mode="background")
        pid = number_in("late")
        assert eventually(lambda: listed() == [pid])
        time.sleep(2 * slow.EARLY_END_S)  # now the text of the answer is made
        client.cancel(number)
        assert client.receive()["id"] == long
        assert client.said("true") == "[no output]\n"  # no answer of a call that was withdrawn
        assert alive(pid) and listed() == [pid]
        os.killpg(pid, signal.SIGKILL)


def test_help_goes_into_a_pipe():
    assert ran(sys.executable, str(TOOL), "--help").stdout.startswith(b"usage: ")


def test_help_is_short_enough_to_read():
    """What `help` prints holds no row of data; each option, field and method has its words."""
    env = dict(os.environ, PYTHONPATH=str(TOOL.parent), PAGER="cat")
    text = ran(sys.executable, "-c", "import bash_tool; help(bash_tool)", env=env).stdout.decode()
    assert text.count("Executes shell commands via bash -c") == 0
    assert re.search(r"profile: '?Profile \| str'? = <Profile name='modes', timeouts_s={", text)  # no quotes in 3.14
    for field in dataclasses.fields(bash_tool.Profile):
        assert re.search(r"^ *%s +\w" % field.name, bash_tool.Profile.__doc__, re.MULTILINE), field.name
    for option in list(inspect.signature(BashTool).parameters):
        assert re.search(r"^ *%s +\w" % option, BashTool.__doc__, re.MULTILINE), option
    for owner in (BashTool, bash_tool.Job, Cancel, bash_tool.Result):
        for name, member in vars(owner).items():
            if not name.startswith("_") and (callable(member) or isinstance(member, property)):
                assert member.__doc__, name
    public = {name for name in vars(bash_tool.Job) if not name.startswith("_")}
    assert public == set("duration_s total_bytes status exit_code read wait kill".split())


def test_a_log_that_is_emptied(tmp_path):
    """What a job writes after its log was emptied is shown by the next check."""
    with BashTool(tmp_path, profile=keeping(0.6), state_dir=tmp_path / "state") as tool:
        begun = tool.run(lasting("seq 20000; until [ -e go ]; do sleep 0.1; done; echo ERROR 42; sleep 600"))
        job = tool.job(begun.pid)
        tool.call({"check_pid": job.pid})
        log = Path(job.output_file)
        log.write_bytes(b"")  # `: > FILE`
        (tmp_path / "go").touch()
        assert eventually(lambda: "ERROR 42" in log.read_text(errors="replace"))
        assert "ERROR 42" in tool.call({"check_pid": job.pid}).text
        job.kill()


@fault("a_job_takes_one_place", saboteur=("JobTable.start_monitor", "self.release_place(exchange)", "pass"))
def test_a_job_takes_one_place_while_its_thread_starts(monkeypatch):
    """Not one as a job and one as a start: of six threads that started 31 of 32 jobs one was refused."""
    start, calls, go = bash_tool.Exchange.start_thread, itertools.count(), threading.Event()

    def late(exchange, receive):
        if next(calls) == 0:
            go.wait(60)
        return start(exchange, receive)

    monkeypatch.setattr(bash_tool.Exchange, "start_thread", late)
    with BashTool(max_jobs=2, ephemeral=True) as tool, ThreadPoolExecutor(1) as pool:
        first = pool.submit(tool.run, lasting("sleep 600"), mode="background")
        try:
            assert eventually(tool._session.jobs.live)
            assert tool.run(lasting("sleep 600"), mode="background").status == "running"
        finally:
            go.set()
        assert first.result().status == "running"
