"""Random commands, cut outputs, cancels, jobs, forks, and kills of supervisors and fork servers, in one host.

python -m tests.tools.soak 600              ten minutes; [SEED] [--calm] behind it
python -m tests.tools.soak --calls 100000   so many calls
"""

import argparse
import collections
import contextlib
import ctypes
import gc
import math
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.processes import alive, eventually, of_proc, processes
from tests.support import BashTool, Cancel, OWN_THREADS, bash_tool, descriptors, end_all, side_by_side, stop_in, tasks
from tests.support import notes_in, tiny, unique


def ancestors(pid):
    """A process and those above it."""
    fields = of_proc(pid, "stat").rpartition(b") ")[2].split()
    return [pid, *ancestors(int(fields[1]))] if fields else []


# In a command: what follows may signal $S, its supervisor, and $F, the fork server. Where the tool works without
# them, and these would be this process or an ancestor of it, the command ends.
OWN = " ".join(map(str, ancestors(os.getpid())))
GUARD = (
    """S=$PPID; F=$(sed 's/.*) . //; s/ .*//' /proc/$S/stat); for pid in %s; do
[ $S != $pid ] && [ $F != $pid ] || { echo no supervisor; exit 99; }; done;"""
    % OWN
)


def running(*words):
    """The live processes that have one of these words among their arguments."""
    wanted = {word.encode() for word in words}
    return [pid for pid in processes() if wanted & set(of_proc(pid, "cmdline").split(b"\0")) and alive(pid)]


def free_memory_is_returned():
    """Collects garbage, and has glibc return what it keeps of freed memory: how much that is depends on what sixteen
    threads did last, and says nothing of what the host holds."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def memory_kib(pid):
    """The proportional share of a process's memory; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return int(re.search(r"Pss:\s+(\d+)", Path("/proc/%d/smaps_rollup" % pid).read_text())[1])
    return 0


class Soak:
    """Random commands with known outcomes, from several threads, while whatever can fail fails."""

    def __init__(self, folder, seed, calm):
        self.folder, self.seed, self.calm = folder, seed, calm
        self.marks = []  # numbers of seconds for sleepers, by which they are found
        self.counts, self.violations = collections.Counter(), []
        self.calls = 0
        self.lock = threading.Lock()
        self.killed_servers = set()
        self.blind = {}  # marks of commands whose supervisor we killed: what is left may be another's to end
        self.row = tiny(default=30, grace=0.3)
        self.tool = self.made()

    def made(self):
        return BashTool(self.folder, profile=self.row, state_dir=str(self.folder / "state"), on_call=self.called)

    def called(self, arguments, result):
        with self.lock:
            self.calls += 1

    def expect(self, name, claim, *shown):
        with self.lock:
            self.counts[name] += 1
            if not claim:
                self.violations.append((name, *shown))
                print("VIOLATION", name, *[str(one)[:600] for one in shown], flush=True)

    def expect_ended(self, name, status, result, mark):
        ended = (result.status, result.exit_code) == (status, None) and not running(mark)
        self.expect(name, ended, result, running(mark))

    def seconds(self):
        with self.lock:
            self.marks.append(unique())
            return self.marks[-1]

    def plain(self, tool, rng, name="plain", before=""):
        word, code, size = "w%d" % rng.getrandbits(60), rng.choice([0, 0, 1, 3, 77]), rng.choice([0, 0, 0, 20000])
        pause = rng.choice(["", "", "sleep 0.0%d; " % rng.randrange(10)])
        result = tool.run("%s seq %d; %s echo %s; exit %d" % (before, size, pause, word, code))
        counted = sum(len(str(n)) + 1 for n in range(1, size + 1)) + len(word) + 1
        if self.unguarded(name, result):
            return
        right = (result.status, result.exit_code, result.total_bytes) == ("exited", code, counted)
        self.expect(name, right and result.stdout.endswith(word + "\n"), result)

    def unguarded(self, name, result):
        """Whether a fault found its supervisor without a fork server (that was killed): then the command did nothing
        else."""
        missed = result.exit_code == 99 and result.stdout == "no supervisor\n"
        self.counts["(missed) " + name] += missed
        return missed

    def cut(self, tool, rng):
        word, last = "w%d" % rng.getrandbits(60), rng.randrange(30000, 60000)  # from 165 KiB on
        result = tool.run("seq %d; echo %s" % (last, word))
        end, size = "\n%d\n%s\n" % (last, word), os.stat(result.output_file).st_size if result.output_file else -1
        whole = len(result.stdout) == result.total_bytes == size and result.stdout.endswith(end)
        shown = result.truncated and "[output truncated in middle: got " in result.text and end in result.text
        self.expect("cut", whole and shown, size, result)

    def timeout(self, tool, rng):
        mark, starts = self.seconds(), ["", "sleep {0} &", "nohup sleep {0} >/dev/null 2>&1 &"]
        start = rng.choice([*starts, "(env -i setsid sleep {0} >/dev/null 2>&1 </dev/null &)"])
        result = tool.run(start.format(mark) + "\necho begun; sleep " + mark, timeout_s=rng.uniform(0.05, 0.3))
        self.expect_ended("timeout", "timed_out", result, mark)

    def cancel(self, tool, rng):
        mark, token = self.seconds(), Cancel()
        timer = threading.Timer(rng.choice([0.0, rng.uniform(0, 0.02), rng.uniform(0, 0.3)]), token.cancel)
        timer.start()
        result = tool.run("(env -i setsid sleep %s >/dev/null 2>&1 &); sleep %s" % (mark, mark), cancel=token)
        timer.join()
        if not self.calm and result.error == "status_unknown" and not running(mark):
            self.counts["(a cancel while its fork server was killed)"] += 1  # two faults: a true answer is enough
            return
        self.expect_ended("cancel", "cancelled", result, mark)

    def job(self, tool, rng):
        mark, code = self.seconds(), rng.choice([0, 3, 9])
        if rng.random() < 0.5:
            result = tool.run("echo up; sleep 0.%d; exit %d" % (rng.randrange(1, 7), code), mode="background")
            job = tool.job(result.pid)
            waited, said = job.wait(20), (job.exit_code, job.read(0)[0], len(notes_in(result.output_file)))
            self.expect("job", waited and said == (code, "up\n", 1), result, said)
        else:
            command = "(env -i setsid sleep %s >/dev/null 2>&1 &); sleep %s" % (mark, mark)
            job = tool.job(tool.run(command, mode="background").pid)
            gone = job.kill() and not running(mark) and job.status != "running"
            self.expect("job killed", gone, job.status, running(mark))

    def leftover(self, tool, rng):
        mark = self.seconds()
        starts = "setsid nohup sleep %s >/dev/null 2>&1 &\n" % mark  # in its own group only from `setsid` on
        result = tool.run(starts + "until grep -q sleep /proc/$!/comm; do sleep 0.01; done; echo $!")
        pid = int(result.stdout)
        named = any("pid %d" % pid in note for note in result.notes)
        if named:
            os.system(stop_in(result.text))
        self.expect("leftover", named and eventually(lambda: not alive(pid), 5), result)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)

    def kill_supervisor(self, tool, rng):
        mark = self.seconds()
        path = self.folder / mark
        leaves = "(env -i setsid sleep %s >/dev/null 2>&1 </dev/null &)" % mark
        result = tool.run("%s echo $F >%s; %s; kill -9 $S; sleep %s" % (GUARD, path, leaves, mark))
        if self.unguarded("KILL supervisor", result):
            return
        right = (result.status, result.error, result.exit_code) == ("failed", "status_unknown", None)
        if path.exists():
            with self.lock:
                self.blind[mark] = int(path.read_text() or 0)
        self.expect("KILL supervisor", right, result)

    def kill_fork_server(self, tool, rng):
        path = self.folder / ("server-" + self.seconds())
        self.plain(tool, rng, "KILL fork server", "%s echo $F >%s; kill -9 $F;" % (GUARD, path))
        if path.exists():
            with self.lock:
                self.killed_servers.add(int(path.read_text() or 0))

    def fork(self, tool, rng):
        pid = os.fork()
        if not pid:
            time.sleep(rng.choice([0, 1]))
            os._exit(0)
        self.plain(tool, rng, "fork of the host")
        os.waitpid(pid, 0)

    def work(self, number, until, calls):
        rng, tool = random.Random("%s %s" % (self.seed, number)), self.made()
        acts = [self.plain] * 8 + [self.cut, self.timeout, self.cancel, self.cancel, self.job, self.leftover, "reopen"]
        acts += [] if self.calm else [self.kill_supervisor, self.kill_fork_server, self.fork]
        while time.monotonic() < until and self.calls < calls and len(self.violations) < 30:
            act = rng.choice(acts)
            try:
                if act == "reopen":
                    tool.close()
                    tool = self.made()
                    self.expect("reopen", True)
                else:
                    act(rng.choice([tool, tool, self.tool]), rng)
            except BaseException as problem:
                self.expect(getattr(act, "__name__", act), False, repr(problem))
        tool.close()

    def phase(self, seconds, calls, first):
        """Works for so long, or until there were so many calls in all."""
        end = time.monotonic() + seconds
        side_by_side(lambda number: self.work(number, end, calls), range(first, first + 8))

    def state(self):
        """What there is when nothing runs: of the host, of its fork server, of its supervisors. By then every idle
        supervisor has ended, also one whose fork server was killed, so that the command has a new one."""
        time.sleep(bash_tool.IDLE_S + 1)
        shown = self.tool.run(GUARD + " echo $S $F").stdout.split()
        server = int(shown[1]) if len(shown) == 2 and shown[1].isdigit() else 0
        self.expect("a fork server", server > 0, shown)
        eventually(lambda: tasks() == OWN_THREADS, 15)  # monitors of jobs that have ended
        free_memory_is_returned()
        below = [int(pid) for pid in of_proc(server, "task/%d/children" % server).split()]
        return {
            "descriptors": len(descriptors()),
            "threads": tasks(),
            "host PSS KiB": memory_kib(os.getpid()),
            "fork server": server,
            "fork server PSS KiB": memory_kib(server),
            "fork server descriptors": fds_of(server),
            "supervisors": len(below),
            "largest supervisor PSS KiB": max(map(memory_kib, below), default=0),
            "most descriptors of a supervisor": max(map(fds_of, below), default=0),
        }


def fds_of(pid):
    with contextlib.suppress(OSError):
        return len(os.listdir("/proc/%d/fd" % pid)) if pid else 0
    return 0


def soak(seconds, calls, seed, calm):
    print("seed", seed, flush=True)
    folder = Path(tempfile.mkdtemp(prefix="bash-tool-soak-"))
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    try:
        return verdict(Soak(folder, seed, calm), seconds, calls)
    finally:
        end_all("TMPDIR=%s" % folder, folder)
        shutil.rmtree(folder, ignore_errors=True)


def verdict(run, seconds, calls):
    """Runs both phases, and says what they did and what they left. Returns whether anything was wrong."""

    def table(rows, form="%-36s %10d"):
        for row in rows:
            print(form % row)

    begun = time.monotonic()
    run.phase(max(2.0, seconds / 4), max(calls / 20, 400), 0)
    before = run.state()
    run.phase(seconds * 3 / 4, calls, 8)
    after = run.state()
    print("%d calls of one host, in %.0f s" % (run.calls, time.monotonic() - begun))
    run.tool.close()
    eventually(lambda: not running(*run.marks), 3)
    survivors = {*running(*run.marks)}
    orphans = [mark for mark, server in run.blind.items() if server in run.killed_servers]
    found = sorted(survivors - {*running(*orphans)})
    table([("", "beginning", "end")], "%-36s %10s %10s")
    table([(name, before[name], after[name]) for name in before if name != "fork server"], "%-36s %10d %10d")
    of_server = {"fork server PSS KiB": 1024, "fork server descriptors": 4}
    of_supervisors = {"largest supervisor PSS KiB": 1024, "most descriptors of a supervisor": 2}
    allowed = {"descriptors": 0, "threads": 0, "host PSS KiB": 4096 + before["host PSS KiB"] // 10}
    for name, more in {**allowed, **of_server, **of_supervisors}.items():
        run.expect("flat", after[name] <= before[name] + more, name, before[name], after[name])
    for name in () if run.calm else ("KILL supervisor", "KILL fork server"):
        run.expect("each fault was met", run.counts[name] > 0 or seconds < 10, name)
    run.expect("one idle supervisor", after["supervisors"] == 1, after["supervisors"])
    run.expect("survivors", not found, [of_proc(pid, "cmdline") for pid in found])
    print("\n%-36s %10s" % ("act", "times"))
    table(sorted(run.counts.items()))
    table([("left by a supervisor without server", len(survivors) - len(found)), ("VIOLATIONS", len(run.violations))])
    table(collections.Counter(one[0] for one in run.violations).items(), "    %-32s %10d")
    return int(bool(run.violations))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", help="600 if there is no --calls")
    parser.add_argument("seed", nargs="?", default=os.urandom(4).hex())
    parser.add_argument("--calls", type=float, default=math.inf)
    parser.add_argument("--calm", action="store_true", help="without forks and kills")
    given = parser.parse_args()
    SECONDS = given.seconds or (600.0 if given.calls == math.inf else math.inf)
    sys.exit(soak(SECONDS, given.calls, given.seed, given.calm))
