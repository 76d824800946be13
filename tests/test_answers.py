"""What an answer holds in every profile, beyond what a single clause says."""

import dataclasses
import json
import os
import re
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.processes import alive, eventually, number_in
from tests.support import GUARDED, JOBS, MODES, PROFILES, STREAMS, BashTool, bash_tool, cancelled_after, cancelled_when
from tests.support import cli, exhaustive, fault, keeping, lasting, needs_proc, slack_s, stop_in, tiny


@fault("separate_streams", saboteur=("format_brackets", "text = with_newline(text) + outcome.stderr.text", "pass"))
def test_separate_streams_are_both_in_an_answer_with_brackets():
    with BashTool(profile=dataclasses.replace(MODES, streams=bash_tool.Streams.SEPARATE)) as tool:
        assert tool.run("echo err >&2; echo out; exit 3").text == "[command failed: exit code 3]\nout\nerr\n"
        assert tool.run("printf out; printf err >&2").text == "out\nerr" and tool.run("echo err >&2").text == "err\n"
        long = tool.run("echo out; seq 100000 >&2")
        assert long.text.startswith("[output truncated:") or "truncated" in long.text.split("\n")[0], long.text[:200]
        assert os.stat(long.output_file).st_size == long.total_bytes


@exhaustive
@needs_proc
def test_what_a_check_must_not_do():
    """A check splits no character, repeats nothing, costs no memory, never raises; a kill heeds a second stop."""
    with BashTool(profile=keeping()) as tool:
        writes = "printf 'a\\342\\202'; until [ -e go ]; do sleep 0.1; done; printf '\\254\\033[3'; sleep 0.6; "
        result = tool.run(lasting(writes + "printf '1mred\\r'; sleep 0.6; printf '\\nend\\n'; sleep 600"))
        told, job = "", tool.job(result.pid)
        Path("go").touch()

        def check():
            nonlocal told
            text = tool.call({"check_pid": result.pid}).text
            told += re.search(r"\(\d+ lines\):\n(.*)\n\nFull output", text, re.DOTALL).group(1) + "|"
            return "end" in told

        assert eventually(check, 15) and told.replace("|", "") in ("€red\nend", "€redend"), told
        job.kill()
        result = tool.run(lasting("until [ -e on ]; do sleep 0.1; done; yes hello | head -c 40000000; sleep 600"))
        job = tool.job(result.pid)
        Path("on").touch()
        assert eventually(lambda: os.path.getsize(job.output_file) >= 40000000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        answer = tool.call({"check_pid": result.pid})
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 * 1024
        assert answer.total_bytes == 40000000 and "[output: Showing last 2000 of 6666667 lines.]" in answer.text
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: tool.call({"check_pid": result.pid}).text, range(4)))
        assert all("(0 lines)" in text for text in answers)
        os.unlink(job.output_file)
        assert "still running" in tool.call({"check_pid": result.pid}).text
        assert "exited with code 143" in tool.call({"kill_pid": result.pid}).text
        for number in (10**5000, -(10**5000), 2**31):
            for key in ("check_pid", "kill_pid", "timeout"):
                answer = tool.call({key: number, **({"command": "x"} if key == "timeout" else {})})
                assert answer.status == "rejected" and len(answer.text) < 300
        result = tool.run(lasting("sleep 600 & echo $!"))
        for verb in ("check_pid", "kill_pid"):  # what a foreground command left is no job
            answer = tool.call({verb: int(result.stdout)})
            assert (answer.status, answer.error) == ("rejected", "no_such_job") and alive(int(result.stdout))
        os.system(stop_in(result.text))
        result = tool.run("trap '' TERM; while :; do sleep 0.1; done")
    with BashTool(profile=dataclasses.replace(keeping(), grace_s=30.0)) as tool:
        result = tool.run("trap '' TERM; while :; do sleep 0.1; done")
        begun = time.monotonic()
        tool.call({"kill_pid": result.pid}, cancel=cancelled_after(0.5))
        assert time.monotonic() - begun < 5 + slack_s() and not alive(result.pid)


def test_what_a_failed_call_still_says():
    """What the shell of a sandbox wrote before it failed is shown; a format that cannot name a job keeps none; the
    command line keeps none either."""
    result = BashTool(profile=JOBS, shell=("env", "--no-such-option", "bash")).run("echo x")
    assert result.error == "spawn_failed" and result.text.startswith("[system error: ")
    assert "no-such-option" in result.text
    for row in (STREAMS, GUARDED):
        with pytest.raises(ValueError):
            dataclasses.replace(row, on_timeout=bash_tool.OnTimeout.KEEP)
    assert "required" not in BashTool(profile=JOBS).definition()["input_schema"]
    done = cli("--profile", "jobs", "--timeout", "1", lasting("echo o; sleep 600"))
    assert done.returncode == 124 and b"exit code: none (timed out after 1s)" in done.stdout


@exhaustive
@needs_proc
@pytest.mark.parametrize("name", PROFILES)
def test_what_every_profile_promises(name, monkeypatch):
    """In every row: no terminal, secret or survivor; one status, true totals; a leftover is named and read on."""
    monkeypatch.setenv("MY_API_KEY", "hunter2hunter2")
    row = tiny(20, 0.3, PROFILES[name], on_timeout=bash_tool.OnTimeout.KILL)
    with BashTool(profile=row, deny="forbidden") as tool:
        result = tool.run("(: </dev/tty) 2>&1; cat; env | grep -c hunter2; exit 0")
        assert "hunter2" not in result.text and "0" in result.stdout and "/dev/tty" in result.stdout
        assert result.status == "exited"
        assert result.total_bytes == len(result.stdout.encode()) + (name == "jobs")  # a section loses its last newline
        deaf = lasting("echo partial; echo $$ > me; setsid sleep 600 & trap '' TERM; while :; do sleep 0.1; done")
        result = tool.run(deaf, timeout_s=1.0)
        assert (result.status, result.exit_code, result.is_error) == ("timed_out", None, True)
        assert result.stdout.strip() == "partial" and not alive(number_in("me")) and "1s" in result.text
        os.unlink("me")
        result = tool.run(lasting("echo partial; echo $$ > me; sleep 600"), cancel=cancelled_when("me", written=True))
        assert (result.status, result.exit_code, result.is_error) == ("cancelled", None, True)
        assert "cancelled" in result.text.lower()
        assert tool.run("echo forbidden").error == "denied" and tool.call({"nonsense": 1}).error == "invalid_arguments"
        result = tool.run(lasting("sleep 600 >&2 & echo started"))
        assert (result.status, result.exit_code, result.is_error) == ("exited", 0, False)
        (note,), said = (
            result.notes,
            r'still running: pid \d+ "sleep 600"; to stop: kill -TERM -\d+; output goes on to /',
        )
        assert result.stdout.strip() == "started" and re.match(lasting(said), note)
        assert note in result.text or note in json.loads(result.text)["notes"]
        assert not [job for job in tool.jobs() if job.status == "running"]
        os.system(stop_in(note))
        assert eventually(lambda: not alive(int(re.search(r"pid (\d+)", note)[1])))
        pieces = []
        split = "for c in 342 202 254; do printf \\\\$c; printf \\\\$c >&2; sleep 0.15; done"
        tool.run(split, on_output=pieces.append)
        assert row.streams is bash_tool.Streams.MERGED or sorted("".join(pieces)) == ["€", "€"]
