"""The suite again and again, disturbed in six ways: python -m tests.tools.disturbances 30 [arguments of pytest].

Prints which tests were ever red, and under which disturbance.
"""

import collections
import contextlib
import os
import re
import signal
import subprocess
import sys
import time

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
DISTURBANCES = {  # what runs beside the suite, its environment, and what stands before its words
    "nothing": ([], {}, []),
    "shuffled": ([], {"BASH_TOOL_SHUFFLE": "1"}, []),
    "two busy loops": ([BUSY, BUSY], {}, []),
    "a second suite": ([SUITE], {}, []),
    "one processor": ([], {}, ["taskset", "-c", str(min(os.sched_getaffinity(0)))]),
    "forks and scans": (PROGRAMS, {}, []),
}
QUIET = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


@contextlib.contextmanager
def beside(commands):
    """These commands run within the block."""
    running = [subprocess.Popen(words, cwd=HERE, **QUIET) for words in commands]
    try:
        yield
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGINT)  # a suite then ends what it runs
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()


def main(runs, *arguments):
    """Runs the suite so often, under each disturbance in turn; returns how many tests were ever red."""
    red, table = collections.defaultdict(list), {name: [] for name in DISTURBANCES}
    for n in range(int(runs)):
        name = list(DISTURBANCES)[n % len(DISTURBANCES)]
        commands, more, before = DISTURBANCES[name]
        if "BASH_TOOL_SHUFFLE" in more:
            more = {"BASH_TOOL_SHUFFLE": str(n)}
        begun = time.monotonic()
        with beside(commands):
            options = dict(QUIET, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=False)
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
    for test, names in sorted(red.items()):
        print("red %d times: %s, beside %s" % (len(names), test, ", ".join(names)))
    return len(red)


if __name__ == "__main__":
    sys.exit(min(main(*(sys.argv[1:] or ["30"])), 99))
