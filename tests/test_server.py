"""The MCP server: what no single clause says."""

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.processes import CHANGED, PATIENCE_S, alive, eventually, number_in
from tests.support import THOROUGH, TOOL, WITHOUT, BashTool, Client, background, birth, compiled_script
from tests.support import exhaustive, fault, forked_program, in_host, keeping, lasting, lives_in, long_look, needs_proc
from tests.support import nowhere_to_write
from tests.support import record_beside, request, stop_in, supervisor_of, tiny, variant_module, with_supervisors_that


@exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_a_server_was_started_to_ignore(number):
    """Stays ignored; where stdin is a terminal, INT ends the server as TERM does (025.22)."""
    words = [sys.executable, compiled_script(), "--mcp"]
    with Client(command=words, preexec_fn=lambda: signal.signal(number, signal.SIG_IGN)) as client:
        client.ask("ping")
        client.begin("sleep 0.5; echo not cancelled")
        client.process.send_signal(number)
        assert client.receive()["result"]["content"][0]["text"] == "not cancelled\n"
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "wb", 0) as keyboard, subprocess.Popen(words, stdin=theirs, stdout=subprocess.PIPE) as server:
        os.close(theirs)
        keyboard.write(json.dumps(request("ping")).encode() + b"\n")
        assert json.loads(server.stdout.readline())["id"] == 1
        server.send_signal(number)
        assert server.wait(timeout=PATIENCE_S) == 0


@fault("a_server_without_a_reader", saboteur=("Server.serve", "self._has_reader and (self._unsent", "(self._unsent"))
def test_a_server_without_a_reader_ends_at_once():
    """A server whose client has closed both ends does not wait until its answers are read."""
    with Client(module=variant_module(FLUSH_S="120.0")) as client:
        client.begin(lasting("echo $$ > shell; sleep 600"))
        pid = number_in(Path("shell"))
        # More than a pipe holds: an answer is being written when the reader goes.
        client.send(*[request("ping", "x" * 4000)] * 20)
        client.process.stdout.close()
        client.process.stdin.close()
        assert client.process.wait(timeout=PATIENCE_S) == 0 and not alive(pid)


@exhaustive
@fault("no_message_is_lost", saboteur=("Server._write", "self._ends_at = monotonic() + FLUSH_S", "pass"))
def test_no_message_is_lost_at_the_end_of_input():
    """A client that wrote all its requests and closed the pipe gets each answer, however late and slowly it reads."""
    ids = ["%d%s" % (n, "x" * 4000) for n in range(80)]
    messages = b"".join(b'{"jsonrpc": "2.0", "id": "%s", "method": "ping"}\n' % id_.encode() for id_ in ids)
    patient = variant_module(FLUSH_S="1.0")
    with forked_program("--mcp", module=patient, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        writer = threading.Thread(target=lambda: (server.stdin.write(messages), server.stdin.close()))
        writer.start()
        answers = []
        for line in server.stdout:
            answers.append(json.loads(line)["id"])
            if len(answers) % 8 == 0:
                time.sleep(0.4)  # of more than FLUSH_S in all: some 48 are left to read when the input ends
        writer.join()
    assert answers == ids


@exhaustive
@needs_proc
def test_what_is_said_of_a_job():
    """A record says which command, when and by which supervisor; a leftover is told by its whole command line."""

    def record_of(job):
        return json.loads(Path(record_beside(job.output_file)).read_text())

    with BashTool(profile=tiny(grace=0.3)) as tool:
        before = time.time()
        job = background(tool, lasting("sleep 600 # what"))
        known = record_of(job)
        assert before - 1 <= known["created"] <= time.time() + 1
        assert (known["command"], known["pid"], known["status"]) == (lasting("sleep 600 # what"), job.pid, "running")
        assert known["supervisor"] == [supervisor_of(job), birth(supervisor_of(job))]
        assert known["at"] == -1 and job.kill() and record_of(job)["at"] == 0
        start = "setsid sh -c 'echo > begun; sleep 600; :' toX & while [ ! -e begun ]; do sleep 0.05; done"
        *_, note = tool.run(lasting(start)).notes
        assert lasting(' "sh -c echo > begun; sleep 600; : toX"') in note
        os.system(stop_in(note))
        other = background(tool, lasting("env -i setsid sleep 600.25 & echo $! > left; sleep 2"))
        assert other.wait(20) and other.status == "exited"
        assert alive(number_in("left")) and other.kill() and not alive(number_in("left"))
        said = [BashTool(shell="no-such-shell").run("x", mode=mode).text for mode in ("default", "background")]
        assert said == 2 * ["[system error: the shell no-such-shell was not found]\n"]
    os.mkdir("gone")
    with BashTool("gone", profile=keeping(0.5)) as tool:
        os.rmdir("gone")
        result = tool.run(lasting("sleep 600"))
        assert result.notes and tuple(record_of(tool.job(result.pid))["notes"]) == result.notes[:1]


def test_files_that_are_not_to_be_had():
    """What could not be saved says why; without a scratch folder a command whose directory is gone is not run."""
    with nowhere_to_write(below="folder") as tool:
        last = tool.run("seq 100000").text.splitlines()[-1]
        assert last.startswith("[full output was not saved: /") and last.endswith("/file/folder: Not a directory]")
    os.mkdir("gone")
    with nowhere_to_write("gone") as tool:
        os.rmdir("gone")
        result = tool.run("touch made")
        assert (result.status, result.error) == ("failed", "cwd_missing"), result
        assert "gone cannot be entered (No such file or directory)" in result.text


def test_the_shell_is_looked_for_along_the_path():
    """As a spawn would: in order, what can be executed, from the commands' directory; again where it has gone."""
    for folder in ("first", "second", "here/relative", "third/sh-here"):
        os.makedirs(folder)
        Path(folder, "sh-here").write_text("#!/bin/sh\nFOUND=%s exec bash \"$@\"\n" % folder)
        Path(folder, "sh-here").chmod(0o755)

    def found(*path):
        return BashTool("here", shell="sh-here", env={"PATH": ":".join((*path, os.environ["PATH"]))})

    first, second, third = map(os.path.abspath, ("first", "second", "third"))
    tool = found(third, first, second)
    assert tool.run("echo $FOUND").stdout == "first\n"
    os.unlink("first/sh-here")
    assert tool.run("echo $FOUND").stdout == "second\n"
    with long_look():
        assert tool.run("echo $FOUND", mode="background").stdout.startswith("second\n")
    assert BashTool().run("echo $0 $BASH").stdout == subprocess.check_output(["bash", "-c", "echo $0 $BASH"]).decode()
    assert found("relative", second).run("echo $FOUND").stdout == "here/relative\n"
    os.unlink("second/sh-here")
    assert tool.run(":").text == "[system error: the shell sh-here was not found]\n"  # third's is a folder
    assert BashTool(shell=first + "/sh-here").run(":").error == "shell_not_found"


@pytest.mark.parametrize("call", ["subprocess.Popen", "os.waitpid"], ids=["before the spawn", "behind it"])
def test_a_bug_is_told_as_one(call):
    """What goes wrong in the tool itself is the answer, with its reason, and leaves nothing that runs."""
    wrong = "def wrong(*_: object, **__: object) -> None:\n    print(1 / 0)\n%s = wrong\n"
    module = with_supervisors_that(wrong % call)
    result = module.BashTool(timeout_s=1).run(lasting("echo $$ > me; sleep 600"))
    assert result.status == "failed" and "ZeroDivisionError" in result.text, result
    assert WITHOUT in ("proc", "subreaper") or eventually(lambda: not lives_in("me"))


@needs_proc
def test_what_a_fork_of_the_host_does_not_hold():
    """A child that the host has forked keeps nothing alive: when the host has died, its commands end, and its fork
    server when the last job has ended."""
    in_host("""
        tool = BashTool()
        threading.Thread(target=tool.run, args=("echo $$ > shell; sleep 600",), daemon=True).start()
        job = tool.run("echo $$ > job; sleep 600", mode="background")
        while not os.path.exists("shell") or not os.path.getsize("shell"):
            time.sleep(0.01)
        child = os.fork()
        if child == 0:
            for fd in (1, 2):       # our reader waits for their end
                os.close(fd)
            time.sleep(60)
            os._exit(0)
        parent = int(open("/proc/%s/stat" % open("job").read().strip()).read().rpartition(") ")[2].split()[1])
        server = int(open("/proc/%d/stat" % parent).read().rpartition(") ")[2].split()[1])
        for name, pid in (("child", child), ("server", server)):
            with open(name, "w") as file:
                file.write("%d\\n" % pid)
        os._exit(0)
    """)
    server = number_in("server")
    try:
        assert eventually(lambda: not alive(number_in("shell")), 3) and alive(number_in("child"))
        assert alive(number_in("job")) and alive(server)
        os.killpg(number_in("job"), signal.SIGKILL)
        assert eventually(lambda: not alive(server))
    finally:
        os.kill(number_in("child"), signal.SIGKILL)


def test_a_cancel_among_many_calls():
    """Calls that start side by side do not lose each other's signals, whenever one of them is cancelled."""
    with Client(timeouts={"grace_s": 0.5}) as client:
        for round_ in range(4 if THOROUGH or CHANGED else 2):
            cancelled = [client.begin(lasting("sleep 600")) for _ in range(12)]
            kept = [client.begin("sleep 0.2; echo ok") for _ in range(12)]
            for id_ in cancelled:
                client.cancel(id_)
            answers = [client.receive() for _ in kept]
            said = {answer["id"]: answer["result"]["content"][0]["text"] for answer in answers}
            assert said == dict.fromkeys(kept, "ok\n")


@exhaustive
@pytest.mark.parametrize("numbers", ["TERM", "TERM INT", "HUP TERM TERM", "TERM TERM INT HUP"])
def test_signals_of_a_busy_server(numbers):
    """Signals end a server wherever they meet it, idle or with a full outbox, and leave no word on stderr."""
    for full in (False, True):
        with Client(stderr=subprocess.PIPE) as client:
            client.ask("ping")
            stdin, line = client.process.stdin.fileno(), json.dumps(request("ping", "x" * 4000)).encode() + b"\n"
            os.set_blocking(stdin, False)
            while full and select.select([], [stdin], [], 1.0)[1]:  # until it reads no more
                os.write(stdin, line)
            for number in numbers.split():
                client.process.send_signal(getattr(signal, "SIG" + number))
            assert client.process.wait(timeout=PATIENCE_S) == 0 and client.process.stderr.read() == b""
            client.process.stderr.close()


@exhaustive
def test_a_sink_that_does_not_block():
    """Answers come whole through a descriptor made non-blocking elsewhere; after a full one nothing is run blindly."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        server = subprocess.Popen([sys.executable, str(TOOL), "--mcp"], stdin=subprocess.PIPE, stdout=theirs)
        for id_ in (1, 2):
            asks = request("tools/call", id_, name="bash", arguments={"command": "seq 20000"})
            server.stdin.write(json.dumps(asks).encode() + b"\n")
        server.stdin.flush()
        theirs.close()
        with ours.makefile("rb") as lines:
            assert {json.loads(lines.readline())["id"] for _ in range(2)} == {1, 2}
            server.stdin.close()
            assert server.wait(timeout=PATIENCE_S) == 0 and not lines.read()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        words = [sys.executable, compiled_script(), "seq 20000; exit 3"]
        shell = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=theirs)
        theirs.close()
        with ours.makefile("rb") as lines:  # the command line too
            assert lines.read().endswith(b"\n20000\n") and shell.wait(timeout=PATIENCE_S) == 3
    with open("/dev/full", "wb") as full:
        server = subprocess.Popen([sys.executable, str(TOOL), "--mcp"], stdin=subprocess.PIPE, stdout=full)
    server.stdin.write(json.dumps(request("ping")).encode() + b"\n")
    server.stdin.flush()
    assert server.wait(timeout=PATIENCE_S) == 0  # though its input is still open
    server.stdin.close()
