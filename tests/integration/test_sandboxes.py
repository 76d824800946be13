"""Real sandboxes: bubblewrap."""

import dataclasses
import os
import re
from pathlib import Path

import pytest

from tests.integration.support import sleepers
from tests.processes import alive, eventually, of_proc, processes
from tests.support import BashTool, PROFILES, bash_tool, cancelled_after, tiny, unique


BUBBLEWRAP = (
    "bwrap",
    "--ro-bind",
    "/",
    "/",
    "--tmpfs",
    "/tmp",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    "--unshare-net",
    "--unshare-pid",
    "bash",
)


@pytest.mark.interop
@pytest.mark.parametrize("name", PROFILES)
def test_interop_bubblewrap(name):
    """Every profile runs in bubblewrap: the kernel refuses what the sandbox forbids, and nothing outlives a kill."""
    row = dataclasses.replace(
        PROFILES[name],
        timeouts_s=dict(PROFILES[name].timeouts_s, default=2.0),
        grace_s=0.5,
        on_timeout=bash_tool.OnTimeout.KILL,
    )
    with BashTool("/", shell=BUBBLEWRAP, profile=row) as tool:
        inside = Path("/tmp/private-" + unique())
        result = tool.run(
            "touch /usr/x; echo private > %s && cat %s; ls /proc | grep -c '^[0-9]'; echo x > /dev/tcp/203.0.113.1/1; exit 4"
            % (inside, inside)
        )
        everything = result.stdout + result.stderr
        assert (
            result.exit_code == 4
            and "Read-only file system" in everything
            and "private" in everything
            and "Network is unreachable" in everything
        )
        assert not inside.exists() and int(re.search(r"^\d+$", result.stdout, re.MULTILINE).group()) < 9
        seconds = "6%d.25" % os.getpid()
        result = tool.run("echo on; trap '' TERM; setsid sleep %s & sleep %s" % (seconds, seconds))
        assert (result.status, result.notes) == ("timed_out", ()) and not sleepers(seconds)
        result = tool.run("echo $$ > /dev/null; sleep %s" % seconds, cancel=cancelled_after(1.0))
        assert result.status == "cancelled" and not sleepers(seconds)
        result = BashTool("/", shell=("bwrap", "--no-such-option", "bash"), profile=row).run("echo hi")
        assert (result.status, result.error, result.is_error) == (
            "failed",
            "spawn_failed",
            True,
        ) and "exit code 1" in result.text
        result = BashTool("/", shell=("no-such-sandbox", "bash"), profile=row).run("echo hi")
        assert (result.status, result.error) == ("failed", "shell_not_found")
        assert BashTool("/", shell=BUBBLEWRAP[:-1] + ("true",), profile=row).run("echo hi").error == "spawn_failed"


@pytest.mark.interop
def test_interop_bubblewrap_jobs_and_bombs():
    """A job in a sandbox ends with it, and a fork bomb stays within the limits that it was given."""
    seconds = "7%d.25" % os.getpid()
    with BashTool("/", shell=BUBBLEWRAP, profile=tiny(grace=0.5)) as tool:
        started = tool.run("sleep %s & sleep %s" % (seconds, seconds), mode="background")
        assert "kill" not in started.text  # the number would mean nothing inside
        job = tool.job(started.pid)
        assert len(sleepers(seconds)) == 2 and job.kill() and not sleepers(seconds) and job.exit_code == 143
    bounded = (
        "setpriv",
        "--reuid=65533",
        "--regid=65533",
        "--clear-groups",
        "--",
        "prlimit",
        "--nproc=64",
        "--",
        *BUBBLEWRAP,
    )
    with BashTool("/", shell=bounded, profile=tiny(default=3.0, grace=0.5)) as tool:
        result = tool.run("id -u; :(){ :|:& };: ; sleep %s" % seconds)
        assert result.status == "timed_out" and "65533" in result.stdout and not result.notes
        its_own = re.compile(rb"(?m)^Uid:\t65533\t")
        assert eventually(lambda: not any(its_own.search(of_proc(pid, "status")) for pid in processes() if alive(pid)))
        assert tool.run("echo fine").text == "fine\n"
