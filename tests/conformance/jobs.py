"""What the judge asks of the level jobs and of the other profiles."""

import fcntl
import itertools
import json
import os
import re
import resource
import signal
import subprocess
import threading
import time
from pathlib import Path

from tests.conformance.core import GOES_ON, LOOKS_SECRET
from tests.conformance.judge import Unasked, asks, on_both_sides, printf, words_of
from tests.processes import alive, eventually


STARTED = r"<pid>(\d+)</pid>\n<output_file>([^\n]*)</output_file>\n<reminder>To stop: kill -9 -\1</reminder>\n?"
NOTE = re.compile(r"(?m)^\[background process .*\]$")


def job_of(q, command, wire=None):
    """Starts a background command; returns its number and its file."""
    text = (wire or q.wire).call(command, mode="background").text
    found = re.search(STARTED, text)
    q.that(found, "a text that holds %s" % STARTED, repr(text))
    return int(found[1]), Path(found[2])


def kept_job(q, wire, command, timeout):
    """Starts a command that the profile JOBS keeps at its timeout; its number, its file and the answer."""
    text = wire.given({"command": command, "timeout": timeout}).text
    return int(q.match(r".*\(pid (\d+)\).*", text)[1]), q.named(r"Full output: ([^\n]*)\n", text), text


def note_in(q, path, how):
    """The file of a job ends with this completion note, and has no other."""

    eventually(lambda: NOTE.search(path.read_text(errors="replace")), 30)
    time.sleep(0.3)
    text = path.read_text(errors="replace")
    q.equal(NOTE.findall(text), ["[background process %s]" % how], "completion notes in the file:")
    q.has(text, "\n\n[background process %s]\n" % how)


@asks("003.1")
@on_both_sides(("003.1", "s of the first look"), ("003.1", "s until its answer"))
def a_job_is_answered_at_once(q):
    q.run("echo warm")
    reply = q.run("echo $$ > job; echo up; sleep 600", mode="background")
    found = q.match(STARTED, reply.text)
    q.equal((int(found[1]), reply.is_error), (q.number("job"), False), "the number, and isError:")
    q.took(reply.took_s, 0.3, 0.5 + 0.3, "the answer")
    q.equal(oct(Path(found[2]).stat().st_mode & 0o7777), "0o600", "mode of the file:")
    q.holds(Path(found[2]), "up\n")
    q.run("kill -9 -%s; echo" % found[1])
    q.dead("job")
    text = q.run("echo $$ > quick; sleep 0.1; exit 3", mode="background").text
    told = r"(?:\[background [^\n]*\n)?"  # of the job before
    job = r"<pid>%d</pid>\n<output_file>/.*" % q.number("quick")
    q.match(r"\[command failed: exit code 3\]\n" + told + job, text)
    q.match(told + STARTED, q.run("sleep 0.7; exit 3", mode="background").text)


@asks("003.2")
def jobs_outlive_the_server(q):
    _, path = job_of(q, "echo $$ > job; until [ -e go ]; do sleep 0.1; done; seq 30000; exit 7")
    q.number("job")
    q.wire.signal(signal.SIGKILL)
    q.alive("job", for_s=1.5)
    (q.folder / "go").touch()
    note_in(q, path, "failed: exit status: 7")
    q.begins(path.read_text(), "".join("%d\n" % n for n in range(1, 30001)))


@asks("003.3")
@on_both_sides(("003.3", "s of its drain"))
def an_early_failure_is_one(q):
    reply = q.run("echo why; exit 3", mode="background")
    q.equal(reply.is_error, True, "isError")
    job = r"<pid>\d+</pid>\n<output_file>([^\n]*)</output_file>\n"
    found = q.match(r"\[command failed: exit code 3\]\n%swhy\n?" % job, reply.text)
    note_in(q, Path(found[1]), "failed: exit status: 3")
    reply = q.run("sleep 600 & exit 3", mode="background")
    q.begins(reply.text, "[command failed: exit code 3]\n")
    q.took(reply.took_s, 0.1, 0.4, "the answer where something holds the output")  # 2.1, step 9
    reply = q.run("(while sleep 0.05; do echo x; done) & exit 3", mode="background")
    q.took(reply.took_s, 0.2, 0.6, "the answer where something prints on")


@asks("003.4")
def the_supervisor_is_in_no_ones_way(q):
    word = "word%s" % os.urandom(4).hex()
    job_of(q, "echo $PPID > supervisor; echo $$ > job; : %s; sleep 600" % word)
    supervisor, job = q.number("supervisor"), q.number("job")
    fields = Path("/proc/%d/stat" % supervisor).read_text().rpartition(") ")[2].split()
    q.that(int(fields[1]) != q.wire.pid, "a supervisor that is no child of the server", "its parent is the server")
    job_of(q, "echo $PPID > another; sleep 600")
    sid, others = os.getsid(supervisor), (os.getsid(q.wire.pid), job, os.getsid(q.number("another")))
    q.that(sid not in others, "a session of the supervisor's own", "that of the server, the job or another supervisor")
    q.that(word not in words_of(supervisor), "a supervisor that shows nothing of the command", words_of(supervisor))


@asks("003.4")
def a_supervisor_goes_after_its_job(q):
    job_of(q, "echo $PPID > supervisor; sleep 0.5; echo on")
    q.dead("supervisor", within_s=10 + 10.0)


@asks("003.5", "003.6")
def ends_are_noted(q):
    ends = [("exit 3", "exit status: 3"), ("exit 143", "exit status: 143"), ("kill -9 $$", "signal: 9 (SIGKILL)")]
    for end, how in [*ends, ("kill -SEGV $$", "signal: 11 (SIGSEGV)")] if q.clause == "003.6" else [("echo built", "")]:
        note_in(q, job_of(q, "sleep 1; " + end)[1], "failed: " + how if how else "completed")


@asks("003.7")
def jobs_end_at_their_limit(q):
    for name, kill in (("a", False), ("b", True)):
        wire = q.server(timeouts={"background": 2.5, "grace_s": 0.3})
        command = "trap '' TERM; echo $$ > job-{0}; setsid sleep 600 & echo $! > {0}1; "
        command += "(env -i setsid sleep 600 >/dev/null 2>&1 & echo $! > {0}2); while :; do sleep 0.1; done"
        _, path = job_of(q, command.format(name), wire)
        q.number("job-" + name)
        if kill:
            wire.signal(signal.SIGKILL)
        q.dead("job-" + name, name + "1", name + "2")
        note_in(q, path, "failed: timed out after 2.5s")


@asks("003.8")
def a_lost_supervisor_is_told(q):
    daemon = "(setsid sleep 600 >/dev/null 2>&1 & echo $! > daemon); sleep 600"
    _, path = job_of(q, "echo $PPID > supervisor; echo $$ > job; " + daemon)
    q.number("job")
    os.kill(q.number("supervisor"), signal.SIGKILL)
    q.dead("job", "daemon")
    q.equal(NOTE.findall(path.read_text()), [], "completion notes of a lost job:")
    reply = q.run("kill -9 $PPID; sleep 600", mode="background")
    q.has(reply.text, "was killed" if reply.is_error else "<pid>")


@asks("003.8")
def a_lost_job_is_reported(q):
    if "JOBS" not in q.judge.levels:
        raise Unasked("only check_pid looks at a job for a client, and the level JOBS is not claimed")
    wire = q.server(profile="jobs")
    _, path, _ = kept_job(q, wire, "echo $PPID > supervisor; echo $$ > job; sleep 600", 1000)
    os.kill(q.number("supervisor"), signal.SIGKILL)
    q.dead("job")
    text = wire.given({"check_pid": q.number("job")}).text
    q.that("exit code unknown" in text and "exited with code" not in text, "a lost job has no exit code", text)
    q.equal(NOTE.findall(path.read_text()), [], "completion notes of a lost job:")


@asks("003.9")
def one_note(q):
    _, path = job_of(q, "echo $$ > job; until [ -e go ]; do sleep 0.1; done; exit 3")
    q.number("job")
    q.wire.signal(signal.SIGKILL)
    (q.folder / "go").touch()
    wires = [q.server() for _ in range(3)]
    for wire in wires:
        wire.call("echo on")
    note_in(q, path, "failed: exit status: 3")
    for wire in wires:
        wire.call("sleep 600", mode="background")
        wire.end()
    note_in(q, path, "failed: exit status: 3")


@asks("003.10")
def daemons_of_jobs_are_named(q):
    _, path = job_of(q, "sleep 1; nohup sleep 605.5 >/dev/null 2>&1 & echo $! > daemon; sleep 1; exit 4")
    note_in(q, path, 'failed: exit status: 4; still running: %d "sleep 605.5"' % q.number("daemon"))
    q.alive("daemon", for_s=1)
    wire = q.server(timeouts={"background": 3, "grace_s": 0.3})
    job_of(q, "sleep 1; (setsid sleep 600 >/dev/null 2>&1 & echo $! > limited)", wire)
    q.dead("limited")


@asks("003.11")
def jobs_of_other_servers_are_found(q):
    number, _ = job_of(q, "echo one; echo $$ > job; sleep 600")
    other = q.server("--state-dir", str(q.state()), profile="jobs")
    text = other.given({"check_pid": number}).text
    new = r"New output since last check \(1 lines\):\none\n\n"
    q.match(r"\[Process %d still running\.\n\n%sFull output: [^\n]*\](\n.*)?" % (number, new), text)
    ended, _ = job_of(q, "sleep 0.6; exit 5")
    until = time.monotonic() + 30
    while "exited" not in text and time.monotonic() < until:
        text = other.given({"check_pid": ended}).text
        time.sleep(0.1)
    q.begins(text, "[Process %d exited with code 5.\n" % ended)


@asks("003.12")
def pieces_are_the_whole(q):
    wire = q.server(profile="jobs")
    command = "for i in 1 2 3 4 5 6; do printf 'x\\342'; sleep 0.3; printf '\\202\\254\\n'; sleep 0.2; done; "
    number, _, text = kept_job(q, wire, command + "echo > finished; sleep 600", 500)
    pieces = [re.search(r"\n\nstdout:\n(.*?)\n\nstderr:", text, re.DOTALL)[1]]
    while True:
        done = (q.folder / "finished").exists()
        text = wire.given({"check_pid": number}).text
        pieces.append(re.search(r"\(\d+ lines\):\n(.*?)\n\nFull output:", text, re.DOTALL)[1])
        if done:
            break
        time.sleep(0.15)
    q.equal(re.sub("\n", "", "".join(pieces)), "x€" * 6, "the pieces joined, without newlines:")


@asks("003.13")
def jobs_are_stopped(q):
    others = "setsid sleep 600 & echo $! > a; (env -i setsid sleep 600 >/dev/null 2>&1 & echo $! > b); "
    command = "trap 'echo heard' TERM; echo $$ > job; %swhile :; do sleep 0.1; done" % others
    number, path = job_of(q, command, q.server(timeouts={"grace_s": 0.5}))
    q.number("b")
    q.server("--state-dir", str(q.state()), profile="jobs", timeouts={"grace_s": 0.5}).given({"kill_pid": number})
    q.equal([name for name in ("job", "a", "b") if alive(q.number(name))], [], "alive once kill_pid is answered:")
    eventually(lambda: NOTE.search(path.read_text()), 20)
    q.has(path.read_text(), "heard\n")  # TERM came first
    (note,) = NOTE.findall(path.read_text())
    q.match(r"\[background process failed: signal: (?:15 \(SIGTERM|9 \(SIGKILL)\)\]", note)
    wire = q.server(profile="jobs", timeouts={"grace_s": 0.5})
    command = "trap '' TERM; echo $$ > deaf; setsid sleep 600 & echo $! > c; while :; do sleep 0.1; done"
    number, _, _ = kept_job(q, wire, command, 1000)
    q.begins(wire.given({"kill_pid": number}).text, "[Process ")
    q.equal([name for name in ("deaf", "c") if alive(q.number(name))], [], "alive once kill_pid is answered:")


@asks("003.14")
def strangers_are_spared(q):
    number, path = job_of(q, "echo $PPID > supervisor; echo $$ > job; sleep 600")
    q.number("job")
    q.wire.signal(signal.SIGKILL)
    q.wire.process.wait()
    os.kill(q.number("supervisor"), signal.SIGKILL)  # the job is lost
    q.dead("job")
    waits = ["bash", "-c", "trap exit URG TERM HUP INT; while :; do sleep 0.1; done"]
    process = subprocess.Popen(waits, env=q.env, cwd=q.folder, start_new_session=True)
    threading.Thread(target=process.wait, daemon=True).start()
    stranger = process.pid
    (q.folder / "stranger").write_text("%d\n" % stranger)
    record = path.with_suffix(".job")
    text = record.read_text().replace('"pid": %d' % number, '"pid": %d' % stranger)  # 4.9
    record.write_text(re.sub(r'"supervisor": \[\d+', '"supervisor": [%d' % stranger, text))
    wire = q.server("--state-dir", str(q.state()), profile="jobs", timeouts={"grace_s": 0.3})
    with open(record) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as if the supervisor lived
        wire.given({"kill_pid": stranger})
    q.alive("stranger", for_s=1)


@asks("003.15")
def leftovers_are_read_without_the_server(q):
    command = "(until [ -e go ]; do sleep 0.1; done; echo later; sleep 600) & echo $! > left; echo now"
    path = q.named(GOES_ON, q.run(command).text)
    q.wire.signal(signal.SIGKILL)
    q.wire.process.wait()
    (q.folder / "go").touch()
    q.holds(path, "now\nlater\n")
    q.alive("left", for_s=1)
    if "JOBS" in q.judge.levels:
        text = q.server("--state-dir", str(q.state()), profile="jobs").given({"check_pid": q.number("left")}).text
        q.begins(text, "[system error: no background process has the pid %d;" % q.number("left"))


@asks("003.16")
@on_both_sides(("003.16", "jobs alive"))
def jobs_are_counted(q):
    numbers = [job_of(q, "sleep 606.%d" % n)[0] for n in range(32)]
    reply = q.run("touch made; sleep 600", mode="background")
    refused = "[system error: too many background jobs (32 of at most 32); stop one with kill -9 -PID to make room: "
    q.that(reply.is_error and reply.text.startswith(refused), "a refusal", reply.text)
    for n, number in enumerate(numbers):
        q.has(reply.text, '%d "sleep 606.%d"' % (number, n))
    q.has(q.run("echo fine").text, "fine\n")
    q.that(not (q.folder / "made").exists(), "the refused command is not run", "it was")
    q.run("kill -9 -%d; while kill -0 %d 2>/dev/null; do sleep 0.1; done; sleep 1; echo" % (numbers[0], numbers[0]))
    job_of(q, "sleep 607")
    q.run("kill -9 %s; echo" % " ".join("-%d" % number for number in numbers[1:]))


@asks("003.17")
def what_is_kept_ends_with_the_server(q):
    wire = q.server(profile="jobs", timeouts={"grace_s": 0.5})
    command = "echo $$ > job; echo early; until [ -e go ]; do sleep 0.1; done; echo late > late; sleep 600"
    number, _, text = kept_job(q, wire, command, 700)
    q.equal(number, q.number("job"), "the number:")
    first = r"\[Command backgrounded after 0\.7s timeout \(pid \d+\)\. Partial output:\n\n"
    last = r"Full output: /[^\n]*\nUse check_pid or kill_pid to manage\.\]"
    q.match(first + r"stdout:\nearly\n\nstderr:\n\n\n" + last, text)
    (q.folder / "go").touch()
    q.there("late")
    q.alive("job", for_s=2)
    q.equal(wire.end(), 0, "exit code of the server:")
    q.dead("job")


@asks("003.18")
def no_supervisor_is_an_error(q):
    wire = q.server()
    wire.ask("ping")
    if not os.access("/proc/%d/fd" % wire.pid, os.R_OK):
        raise Unasked("the descriptors of a server that is not dumpable can be counted by root alone")
    taken = {int(fd) for fd in os.listdir("/proc/%d/fd" % wire.pid)}
    most = next(fd for fd in itertools.count() if fd not in taken)  # the lowest that is free; those above stay open
    resource.prlimit(wire.pid, resource.RLIMIT_NOFILE, (most, most))
    for mode in ("default", "background"):
        reply = wire.call("touch made", mode=mode)
        reason = r"\[system error: .*(?:could(?: not)? be started: .+|Too many open files.*)\]"
        q.that(reply.is_error and re.match(reason, reply.text), "spawn_failed with its reason", reply.text)
    q.that(not (q.folder / "made").exists(), "the command is not run", "it was")


@asks("003.19")
def opened_anew(q):
    command = "echo one; echo two > /dev/stderr; echo three | tee /dev/stderr >/dev/null; echo four > /proc/self/fd/1; "
    _, path = job_of(q, command + "sleep 1; exit 1")
    note_in(q, path, "failed: exit status: 1")
    q.begins(path.read_text(), "one\ntwo\nthree\nfour\n")


@asks("003.20")
def a_deleted_file(q):
    command = "echo $$ > job; echo x; until [ -e go ]; do sleep 0.1; done; seq 100000; echo > finished; sleep 600"
    _, path = job_of(q, command)
    path.unlink()
    (q.folder / "go").touch()
    q.there("finished")
    q.alive("job", for_s=1)
    if "JOBS" in q.judge.levels:
        wire = q.server(profile="jobs")
        number, path, _ = kept_job(q, wire, "echo $$ > kept; until [ -e gone ]; do sleep 0.1; done; exit 9", 700)
        path.unlink()
        (q.folder / "gone").touch()
        q.dead("kept")
        eventually(lambda: "still running" not in wire.given({"check_pid": number}).text, 20)
        q.begins(wire.given({"check_pid": number}).text, "[Process %d exited with code 9." % number)


@asks("003.21")
def a_killed_shell_takes_its_job_along(q):
    command = "sleep 600 & echo $! > server; (setsid sleep 600 >/dev/null 2>&1 & echo $! > daemon); wait"
    number, path = job_of(q, command)
    q.number("daemon")
    os.kill(number, signal.SIGTERM)
    q.dead("server", "daemon")
    note_in(q, path, "failed: signal: 15 (SIGTERM)")


@asks("003.22")
def an_early_success_offers_no_kill(q):
    reply = q.run("echo $$ > quick; echo done", mode="background")
    job = r"<pid>%d</pid>\n<output_file>/[^\n]*</output_file>\n" % q.number("quick")
    q.match(job + r"done\n\n\n\[background process completed\]\n", reply.text)
    q.equal(reply.is_error, False, "isError")
    text = q.run("echo $$ > group; sleep 608.25 >/dev/null 2>&1 & echo $! > left", mode="background").text
    found = q.match(STARTED + r"\n\n\[background process completed; still running: (\d+) \"sleep 608\.25\"\]\n", text)
    q.equal((int(found[1]), int(found[3])), (q.number("group"), q.number("left")), "the numbers in %r:" % text)
    q.run("kill -9 -%s" % found[1])
    q.dead("left")


@asks("003.24")
def a_job_that_was_stopped_has_not_failed(q):
    for name in ("HUP", "INT", "KILL", "TERM", "SEGV", "USR1"):
        number, how = signal.Signals["SIG" + name], "failed:" if name in ("SEGV", "USR1") else "ended by"
        waits = "ulimit -c 0; until [ -e go-{0} ]; do sleep 0.1; done; kill -{0} $$; sleep 600"
        pid, path = job_of(q, waits.format(name))
        (q.folder / ("go-" + name)).touch()
        note_in(q, path, "failed: signal: %d (SIG%s)" % (number, name))
        note = r"\[background process %d %s signal %d \(SIG%s\) after [^\n]*\]\n" % (pid, how, number, name)
        q.match(note + "on\n", q.run("sleep 1; echo on").text)


@asks("003.23")
def the_note_is_no_output(q):
    wire = q.server(structured=True)
    leaves, left = "; sleep 608.75 >/dev/null 2>&1 & echo $! > left", '; still running: {} "sleep 608.75"'
    for more, how in (("", "completed"), ("; exit 3", "failed: exit status: 3"), (leaves, "completed" + left)):
        reply = wire.call("printf abc" + more, mode="background")
        fields = reply.result.get("structuredContent") or {}
        note = "\n\n[background process %s]\n" % how.format(q.number("left") if more == leaves else "")
        q.equal(fields.get("total_bytes"), 3, "total_bytes")
        q.equal(Path(fields["output_file"]).read_text(), "abc" + note, "the file:")
        q.match(r".*abc%s" % re.escape(note * ("exit" not in more)), reply.text)
    q.run("kill $(cat left); echo")


@asks("014.13")
def background_output_comes_at_once(q):
    for env, shown in ((None, "1"), ("", ""), ("0", "0")):
        wire = q.server(env={"PYTHONUNBUFFERED": env})
        command = "echo \"<${PYTHONUNBUFFERED-none}>\""
        q.says(command, "<%s>\n" % ("none" if env is None else env), wire=wire)
        q.has(wire.call(command, mode="background").text, "\n<%s>\n" % shown)


@asks("018.1", "023.3")
def labels_of_what_went_wrong(q):
    wire = q.server("--deny", "rm -rf", profile="guarded", timeouts={"default": 1})
    q.says("echo begun; sleep 600", "Command timed out after 1s\nbegun\n", True, wire=wire)
    q.says("rm -rf x", "Command blocked by safety policy: contains 'rm -rf'", True, wire=wire)


@asks("006.16")
def an_empty_command_beside_another_verb(q):
    wire = q.server(profile="jobs", timeouts={"default": 0.3})
    kept = wire.given({"command": "echo on; sleep 600", "check_pid": 0, "kill_pid": None})
    pid = int(re.search(r"timeout \(pid (\d+)\)", kept.text)[1])
    q.has(wire.given({"command": "", "check_pid": pid, "kill_pid": 0}).text, "still running.")
    q.has(wire.given({"command": "", "check_pid": None, "kill_pid": pid}).text, "[Process %d e" % pid)
    both = (
        'invalid arguments: exactly one of "command", "check_pid", "kill_pid" is required, got "check_pid", "kill_pid"'
    )
    q.refused({"command": "", "check_pid": pid, "kill_pid": pid}, both, wire=wire)


@asks("021.2")
def sanitised_text(q):
    wire = q.server(profile="jobs")
    for data, text in (
        (b"\x1b[31mred\x1b[0m\tx\x07\0\r\nok\rgo\n", "red\tx\nok\rgo"),
        (b"\x1b]0;t\x07a\x1b]8;;\x1b\\b\x7fc\x1b(Bd\n", "ab\x7fc(Bd"),
        (b"a\x1b[12", "a[12"),
    ):
        q.equal(wire.given({"command": printf(data)}).text, "stdout:\n%s\n\nstderr:\n\n\nexit code: 0" % text)


@asks("021.3", "021.4")
def the_tail(q):
    wire = q.server(profile="jobs")
    file, lines = r" Full output: /[^\n]*", "\n".join(map(str, range(2, 2002)))
    for command, shown, notice in (
        ("yes \"$(head -c 40000 /dev/zero | tr '\\0' x)\" | head -n 5", "x{40000}", r"1 of 5 lines\." + file),
        ("seq 2001", lines, r"2000 of 2001 lines\."),
        ("head -c 60000 /dev/zero | tr '\\0' x", "x{51200}", r"51200 bytes of line 1\." + file),
    ):
        pattern = r"stdout:\n%s\n\[stdout: Showing last %s\]\n\nstderr:\n\n\nexit code: 0" % (shown, notice)
        q.match(pattern, wire.given({"command": command}).text)


@asks("021.9")
def the_live_jobs_are_listed(q):
    wire = q.server(profile="jobs")
    wire.given({"command": "echo $$ > job; sleep 608.5", "timeout": 500})
    running = 'no background process has the pid 1; running: %d "echo $$ > job; sleep 608.5"'
    q.refused({"check_pid": 1}, running % q.number("job"), wire=wire)


@asks("022.1", "022.3")
def answers_in_json(q):
    wire = q.server(profile="streams", timeouts={"default": 1})
    text = '{"stdout": "out\\n", "stderr": "err\\n", "exitCode": %d}'
    for code in (0, 3):
        q.says("echo out; echo err >&2; exit %d" % code, text % code, wire=wire)
    command = "echo on; sleep 600 # " + "x" * 90
    text = json.dumps({"stdout": "on\n", "stderr": "", "error": "bash '%s': timed out after 1s" % command[:80]})
    q.says(command, text, True, wire=wire)


@asks("022.2")
def the_head_in_characters(q):
    command = "yes é | head -n 30001 | tr -d '\\n'; head -c 30000 /dev/zero | tr '\\0' x >&2"
    text = q.server(profile="streams").call(command).text
    q.equal(json.loads(text), {"stdout": "é" * 30000 + "\n[truncated]", "stderr": "x" * 30000, "exitCode": 0})


@asks("023.2")
def the_head_in_bytes(q):
    text = q.server(profile="guarded").call("printf x; yes € | head -n 90000 | tr -d '\\n'").text
    q.equal(text, "Exit code: 0\nx" + "€" * ((262144 - 1) // 3) + "\n... (output truncated)")


@asks("023.3")
def labels_of_what_was_cancelled(q):
    wire = q.server(profile="guarded")
    number = wire.begin("echo begun; echo $$ > shell; sleep 600", "shell")
    wire.signal(signal.SIGTERM)
    q.equal(wire.finish(number).text, "Cancelled\nbegun\n")


@asks("024.1")
def streams_apart(q):
    command, out, err = "for i in 1 2 3; do echo o$i; echo e$i >&2; done", "o1\no2\no3\n", "e1\ne2\ne3\n"
    forms = {
        "jobs": "stdout:\n%s\nstderr:\n%s\nexit code: 0" % (out, err),
        "streams": json.dumps({"stdout": out, "stderr": err, "exitCode": 0}),
        "guarded": "Exit code: 0\nSTDOUT:\n%s\nSTDERR:\n%s" % (out, err),
    }
    for row in q.rows:
        q.says(command, forms[row], wire=q.server(profile=row))


@asks("027.1")
def every_end_is_told_once(q):
    word = "until [ -e %s ]; do sleep 0.1; done; exit %d"
    wait = "until grep -q '^\\[background' %s; do sleep 0.1; done; "
    note = r"\[background process %d failed: exit status %d after [^\n]*; output: %s\]\n"
    jobs = [(*job_of(q, word % ("go", code)), code) for code in (3, 4)]
    notes = [note % (number, code, re.escape(str(path))) for number, path, code in jobs]
    (q.folder / "go").touch()
    text = q.run("".join(wait % path for _, path, _ in jobs) + "sleep 2; echo both").text  # both ended long before
    holds = re.fullmatch("(?:%s%s|%s%s)both\n" % (*notes, *notes[::-1]), text)
    q.that(holds, "the notes of two jobs that have ended, each once", text, late=True)
    number, path = job_of(q, word % ("on", 5))
    (q.folder / "on").touch()
    q.that(eventually(lambda: "[background" in path.read_text(), 30), "a completion note in the file", path.read_text())
    time.sleep(2)
    text = q.wire.given({"command": "echo", "mode": "nonsense"}).text  # "whatever that answers"
    found = re.search(note % (number, 5, re.escape(str(path))), text + "\n")
    q.that(found, "the note of the third job", text, late=True)
    q.says("echo once", "once\n")


@asks("027.6")
def a_withdrawn_call_takes_no_name_along(q):
    wire = q.server(env={"DJANGO_SECRET_KEY": "xyzzy"})
    wire.cancel(wire.begin("echo $$ > shell; exec sleep 600 # DJANGO_SECRET_KEY", "shell"))
    q.dead("shell")
    q.says("echo ${DJANGO_SECRET_KEY-unset}", LOOKS_SECRET % "DJANGO_SECRET_KEY" + "unset\n", wire=wire)
    q.says("echo ${DJANGO_SECRET_KEY-unset}", "unset\n", wire=wire)
    names = ["I%d_INDEX" % n for n in range(10, 35)]
    wire = q.server(env=dict.fromkeys(names, "https://me:pw@h/"))
    for part in (names[:20], names[20:]):
        wire.cancel(wire.begin("echo $$ > of-%s; exec sleep 600" % part[0], "of-" + part[0]))
        q.dead("of-" + part[0])
        q.says("echo on", LOOKS_SECRET % ", ".join(part) + "on\n", wire=wire)
    q.says("echo on", "on\n", wire=wire)


@asks("027.6")
def a_withdrawn_call_takes_no_note_along(q):
    if "jobs" not in q.judge.levels:
        raise Unasked("the level jobs is not claimed")
    number, path = job_of(q, "until [ -e go ]; do sleep 0.1; done; exit 3")
    command = "trap '' TERM; echo $$ > shell; until grep -q '^.background' '%s'; do sleep 0.1; done; sleep 1"
    q.wire.cancel(q.wire.begin(command % path, "shell"))
    (q.folder / "go").touch()
    q.dead("shell")  # it has outlived the job
    text = q.run("sleep 1; echo hi").text
    found = re.fullmatch(r"\[background process %d failed: exit status 3 after [^\n]*\]\nhi\n" % number, text)
    q.that(found, "the note on the job in the first answer after the withdrawn call", text, late=True)
