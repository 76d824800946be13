"""The suite again and again, disturbed: prints which tests were ever red, and under which disturbance.

python -m tests.tools.disturbances 30                                each disturbance in turn
python -m tests.tools.disturbances 6 'load 25'                       this one alone: a name of DISTURBANCES
python -m tests.tools.disturbances 30 'load 25' tests/test_jobs.py   with these arguments of pytest
python -m tests.tools.disturbances 5 'load 25' -m exhaustive         the other half of the tests
"""

import collections
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.spec import HERE

SUITE = [sys.executable, "-m", "pytest", "-n", str(7 * (os.cpu_count() or 1)), "--dist", "worksteal", "-rf"]
BUSY = [sys.executable, "-c", "while True: pass"]
FORKING = """
import os
while True:             # process numbers wrap within a minute, and /proc is never twice the same
    if os.fork() == 0:
        os._exit(0)
    os.wait()
"""
SCANNING = """
import os
while True:
    for entry in os.listdir("/proc"):
        try:
            open("/proc/%s/stat" % entry, "rb").read()
        except OSError:
            pass
"""
PROGRAMS = [[sys.executable, "-c", text] for text in (FORKING, SCANNING)]
CPUS = os.cpu_count() or 1
# A sleep of less than ten seconds takes twice as long: for it a test waits, or the command has not ended in time.
SLOW_SLEEP = """#!/bin/bash
case $1 in [0-9] | [0-9].* | .*) /bin/sleep "$1" ;; esac
exec -a sleep /bin/sleep "$@"
"""
SLOW = Path(tempfile.gettempdir(), "slow-sleep-%d" % os.getpid())
DISTURBANCES = {  # what runs beside the suite, its environment, and what stands before its words
    "nothing": ([], {}, []),
    "shuffled": ([], {"BASH_TOOL_SHUFFLE": "1"}, []),
    "two busy loops": ([BUSY, BUSY], {}, []),
    "a second suite": ([SUITE], {}, []),
    "two more suites": ([SUITE] * 2, {}, []),  # the load is 35 to 45, and nothing is wasted
    "one processor": ([], {}, ["taskset", "-c", str(min(os.sched_getaffinity(0)))]),
    "forks and scans": (PROGRAMS, {}, []),
    "load 25": ([BUSY] * 25, {}, []),  # beside which the suite gets a third of the processors, or less
    "low priority": ([BUSY] * 2 * CPUS, {}, ["nice", "-n", "5"]),  # it gets a seventh of the processors
    "long sleeps": ([], {"PATH": "%s:%s" % (SLOW, os.environ["PATH"])}, []),
}
QUIET = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def beside(commands):
    """These commands run within the block, in groups of their own, but in this session: sched(7) shares the processors
    among sessions, and 25 sessions beside that of the suite would leave it a 26th."""
    running = [subprocess.Popen(words, cwd=HERE, preexec_fn=os.setpgrp, **QUIET) for words in commands]
    try:
        yield
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGINT)  # a suite then ends what it runs
        deadline = time.monotonic() + 30
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            process.kill()
            process.wait()


def main(runs, *arguments):
    """Runs the suite so often, under each of these disturbances in turn; returns how many tests were ever red."""
    names = [word for word in arguments if word in DISTURBANCES] or list(DISTURBANCES)
    arguments = [word for word in arguments if word not in DISTURBANCES]
    SLOW.mkdir(exist_ok=True)
    (SLOW / "sleep").write_text(SLOW_SLEEP)
    (SLOW / "sleep").chmod(0o755)
    red, table = collections.defaultdict(list), {name: [] for name in names}
    for n in range(int(runs)):
        name = names[n % len(names)]
        commands, more, before = DISTURBANCES[name]
        if "BASH_TOOL_SHUFFLE" in more:
            more = {"BASH_TOOL_SHUFFLE": str(n)}
        begun = time.monotonic()
        with beside(commands):
            options = dict(QUIET, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            env = dict(os.environ, **more)
            done = subprocess.run([*before, *SUITE, *arguments], cwd=HERE, env=env, **options)
        output = done.stdout.decode("utf-8", "replace")
        failed = re.findall(r"(?m)^(?:FAILED|ERROR) \S+?::(.*?)(?: - .*)?$", output)
        for test in failed:
            red[test].append(name)
        table[name].append((time.monotonic() - begun, len(failed)))
        shown = (n + 1, runs, name, table[name][-1][0], done.returncode, len(failed))
        print("run %d of %s, beside it %s: %d s, exit code %d, %d failed" % shown, flush=True)
        if done.returncode:
            print(output[output.find("= FAILURES =") :] if failed else output[-3000:], flush=True)
    for name, rows in table.items():
        took, reds = " ".join("%d" % seconds for seconds, _ in rows), sum(bool(count) for _, count in rows)
        print("%-16s %d runs, %d red; seconds: %s" % (name, len(rows), reds, took))
    for test, beside_it in sorted(red.items()):
        print("red %d times: %s, beside %s" % (len(beside_it), test, ", ".join(beside_it)))
    shutil.rmtree(SLOW)
    return len(red)


if __name__ == "__main__":
    sys.exit(min(main(*(sys.argv[1:] or ["30"])), 99))
