#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What bash_tool costs: figures, most of them ratios of two things that take turns in one run on one machine.

    python3 bench_bash_tool.py                  # all, some eight minutes
    python3 bench_bash_tool.py call import      # those whose name holds one of the words
    python3 bench_bash_tool.py --json           # for a program: one object

Most figures are measured in rounds, each of which gives one value; the table shows their median, and as noise how far a round
is from it, again in the median. A target is missed if the median is beyond it by more than the noise; then the exit status is 1. A
target that cannot be had is printed with the bound that holds instead of it, and the reason; figures without a target show the
reasons. Standard library only; Linux; up to 1 GiB in the folder for temporary files while it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
import os
import platform
import py_compile
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Iterator

HERE = Path(__file__).resolve().parent
FIGURES: list[Figure] = []


@dataclasses.dataclass(frozen=True)
class Figure:
    """`measure` yields a value a round. `instead`: the bound that holds where `because` names why the target cannot be had.
    Without a target it is there for comparison."""
    name: str
    target: float | None
    unit: str
    measure: Callable[[], Iterator[float]]
    at_least: bool = False
    instead: float | None = None
    because: str = ""


def figure(name: str, target: float | None = None, unit: str = "", **more: Any) -> Callable[[Callable[[], Iterator[float]]], Callable[[], Iterator[float]]]:
    """Registers a function as a figure of the table."""
    def _registered(measure: Callable[[], Iterator[float]]) -> Callable[[], Iterator[float]]:
        FIGURES.append(Figure(name, target, unit, measure, **more))
        return measure
    return _registered


# ---- what is measured with ------------------------------------------------------------------------------

def took(act: Callable[[], object]) -> float:
    """Seconds."""
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def ratios(ours: Callable[[], object], other: Callable[[], object], times: int, rounds: int = 7) -> Iterator[float]:
    """A round: both in turns, `times` times each; the ratio of the medians."""
    ours(), other()
    for _ in range(rounds):
        pairs = [(took(ours), took(other)) for _ in range(times)]
        yield statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)


def plain(command: str) -> subprocess.CompletedProcess[bytes]:
    """What subprocess.run can give of the same: a session of its own, an empty standard input, one stream."""
    return subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True)


def floor(text: bytes = b":\0") -> None:
    """The least of what the contract asks for, and no more: another thread waits, the text is in no argv, and stdin is empty."""
    def _work() -> None:
        fd = os.memfd_create("text")
        os.write(fd, text)
        os.lseek(fd, 0, os.SEEK_SET)
        reader, writer = os.pipe()
        shell = subprocess.Popen(["bash", "--norc", "-c", bash_tool.BOOTSTRAP], stdin=fd, stdout=writer, stderr=writer, start_new_session=True)
        os.close(writer)
        while os.read(reader, 65536):
            pass
        shell.wait()
        os.close(reader)
        os.close(fd)

    thread = threading.Thread(target=_work)
    thread.start()
    thread.join()


def in_child(code: str, *arguments: object, use: bool = True) -> Any:
    """What a fresh interpreter prints last, read as JSON. It finds bash_tool and this file, and imports bash_tool where it is of `use`."""
    begin = "import sys; sys.path[:0] = %r%s\n" % ([str(FOLDER), str(HERE)], "; import bash_tool" * use)
    done = subprocess.run([sys.executable, "-c", begin + code,
                           *map(str, arguments)], stdout=subprocess.PIPE, env=ENV, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def proportional_kib(pid: int) -> int:
    """The memory of a process, what it shares divided among those who share it (PSS)."""
    rollup = Path("/proc/%d/smaps_rollup" % pid).read_text()
    return int(re.findall(r"^Pss:\s+(\d+)", rollup, re.M)[0])


@contextlib.contextmanager
def strangers(count: int) -> Iterator[None]:
    """Other processes, whose parent is not this one."""
    group = subprocess.Popen(["bash", "-c", "for ((n = 0; n < %d; n++)); do sleep 600 & done; echo; wait" % count],
                             stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert group.stdout is not None
        group.stdout.readline()
        yield
    finally:
        os.killpg(group.pid, signal.SIGKILL)
        group.wait()


# A copy with its bytecode beside it, as a user has it after the first import, whatever the environment says about bytecode.
SCRATCH = tempfile.TemporaryDirectory(prefix="bench-bash-tool-")
FOLDER = Path(SCRATCH.name)
shutil.copy(HERE / "bash_tool.py", FOLDER)
# Beside it a module that has nothing but its import statements.
(FOLDER / "its_modules.py").write_text("".join(re.findall(r"^(?:import|from) .*\n", (FOLDER / "bash_tool.py").read_text(), re.M)))
for module in ("bash_tool.py", "its_modules.py"):
    py_compile.compile(str(FOLDER / module))
os.environ.pop("BASH_ENV", None)        # it would be run in what is compared with, and not in the tool
ENV = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
sys.path.insert(0, str(FOLDER))

import bash_tool                            # the copy, not the file beside this one
from bash_tool import MODES, Saving

tool = bash_tool.BashTool(state_dir=FOLDER / "state")
counting = bash_tool.BashTool(profile=dataclasses.replace(bash_tool.JOBS, saving=Saving.NEVER))
quiet = bash_tool.BashTool(profile=dataclasses.replace(MODES, saving=Saving.NEVER))
QUICK = False


def ran(command: str, *, by: bash_tool.BashTool = tool, status: str = "exited", **more: Any) -> bash_tool.Result:
    """The result of a call that went as it should: what fails at once costs little."""
    result = by.run(command, **more)
    assert result.status == status, result
    return result


def scaled(count: int, least: int = 1) -> int:
    """A tenth of it where only a glance is wanted."""
    return max(least, count // 10) if QUICK else count


# ---- a call ---------------------------------------------------------------------------------------------

OURS = "beyond the next line's: 0.2 to 0.3 ms of Python for guard, supervision and answer"


@figure("call: run(':') / subprocess.run", 1.05, instead=1.30, because=OURS)
def _() -> Iterator[float]:
    return ratios(lambda: ran(":"), lambda: plain(":"), scaled(200))


@figure("call: a thread that waits and a text on stdin / subprocess.run")
def _() -> Iterator[float]:
    return ratios(floor, lambda: plain(":"), scaled(200))


@figure("call: run(':') / subprocess.run, with 1,000 other processes", 1.05, instead=1.30, because="as without them")
def _() -> Iterator[float]:
    with strangers(1000):
        yield from ratios(lambda: ran(":"), lambda: plain(":"), scaled(200))


@figure("call: run('ls /') / subprocess.run", 1.30)
def _() -> Iterator[float]:
    return ratios(lambda: ran("ls /"), lambda: plain("ls /"), scaled(200))


def at_once(act: Callable[[], object]) -> Callable[[], None]:
    """The same from 16 threads, 40 times each."""
    def _all() -> None:
        with ThreadPoolExecutor(16) as pool:
            for _ in pool.map(lambda _: [act() for _ in range(scaled(40))], range(16)):
                pass
    return _all


@figure("call: 16 threads, throughput / that of subprocess.run", 0.8, at_least=True, instead=0.68, because=OURS + ", one thread at a time")
def _() -> Iterator[float]:
    return (1 / ratio for ratio in ratios(at_once(lambda: ran(":")), at_once(lambda: plain(":")), 1))


@figure("call: 16 threads, a thread that waits and a text on stdin / subprocess.run", at_least=True)
def _() -> Iterator[float]:
    return (1 / ratio for ratio in ratios(at_once(floor), at_once(lambda: plain(":")), 1))


@figure("call: --mcp round trip of ':' / run(':')", 1.5)
def _() -> Iterator[float]:
    server = subprocess.Popen([sys.executable, str(FOLDER / "bash_tool.py"), "--mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENV)
    assert server.stdin is not None and server.stdout is not None
    sends, hears = server.stdin, server.stdout
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "bash", "arguments": {"command": ":"}}}).encode() + b"\n"

    def _round_trip() -> None:
        sends.write(line)
        sends.flush()
        assert b'"exited"' in hears.readline()

    try:
        yield from ratios(_round_trip, lambda: ran(":"), scaled(200))
    finally:
        sends.close()
        server.wait()


def against_bare(*arguments: str) -> Iterator[float]:
    """Python with these arguments against `python3 -c pass` and one `bash -c :`."""
    def _bare() -> None:
        subprocess.run([sys.executable, "-c", "pass"], env=ENV)
        plain(":")
    return ratios(lambda: subprocess.run([sys.executable, *arguments], env=ENV, cwd=FOLDER, check=True), _bare, scaled(20, 3))


@figure("call: `python3 bash_tool.py :` / `python3 -c pass` and `bash -c :`", 4.0, instead=8.5, because="the next line's alone is more")
def _() -> Iterator[float]:
    return against_bare("bash_tool.py", ":")


@figure("call: compiling it, and importing its modules / `python3 -c pass` and `bash -c :`")
def _() -> Iterator[float]:
    return against_bare("-c", "import its_modules; compile(open('bash_tool.py').read(), '', 'exec')")


@figure("call: `bash-tool :`, as pip installs it / `python3 -c pass` and `bash -c :`")
def _() -> Iterator[float]:
    return against_bare("-c", "import bash_tool, sys; sys.exit(bash_tool.main([':']))")


LONG_RUN = """
import json, resource
import bench_bash_tool as bench

def resident_kib():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() // 1024

def now():
    return list(bench.ratios(lambda: bench.ran(":"), lambda: bench.plain(":"), 150))

first, memory = now(), resident_kib()
for _ in range(int(sys.argv[1])):
    bench.ran(":")
memory = resident_kib() / memory
print(json.dumps([[after / before for before, after in zip(first, now())], [memory]]))
"""


@functools.lru_cache(None)
def long_run() -> list[list[float]]:
    """How time and memory of a call have changed after 100,000."""
    answer: list[list[float]] = in_child(LONG_RUN, scaled(100_000))
    return answer


@figure("call: time after 100,000 calls / the first 1,000 (both against subprocess.run)", 1.05)
def _() -> Iterator[float]:
    yield from long_run()[0]


@figure("call: memory after 100,000 calls / the first 1,000", 1.05)
def _() -> Iterator[float]:
    yield from long_run()[1]


# ---- output ---------------------------------------------------------------------------------------------

GIGABYTE = "head -c %d /dev/zero"
LINES = "yes 'a short line' | head -n %d"


def drained(by: bash_tool.BashTool, command: str) -> Iterator[float]:
    assert ran(command, by=by).truncated
    return ratios(lambda: ran(command, by=by), lambda: plain(command + " | cat >/dev/null"), 3, 3 if QUICK else 7)


@figure("output: 1 GB drained / head … | cat >/dev/null", 0.9)
def _() -> Iterator[float]:
    return drained(quiet, GIGABYTE % scaled(10 ** 9))


@figure("output: 1 GB with the file up to its cap / head … | cat >/dev/null", 1.5)
def _() -> Iterator[float]:
    return drained(tool, GIGABYTE % scaled(10 ** 9))


@figure("output: 5 million short lines / yes | head … | cat >/dev/null", 1.0)
def _() -> Iterator[float]:
    return drained(quiet, LINES % scaled(5 * 10 ** 6))


@figure("output: the same lines, counted (JOBS) / yes | head … | cat >/dev/null")
def _() -> Iterator[float]:
    return drained(counting, LINES % scaled(5 * 10 ** 6))


FLOOD = """
import re
def peak_mib():         # not ru_maxrss, which begins with the peak of who started this process
    return int(re.findall("VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[0]) / 1024
with bash_tool.BashTool() as tool:
    tool.run(":")
    open("/proc/self/clear_refs", "w").write("5")       # the peak begins anew
    before = peak_mib()
    assert tool.run(sys.argv[1], "slow").truncated
    print(peak_mib() - before)
"""


@figure("output: memory that 10 GB add", 4.0, "MiB")
def _() -> Iterator[float]:
    yield in_child(FLOOD, GIGABYTE % scaled(10 ** 10))


DENSE = (b"\x1b[31ma\x1b[0m", b"\x1b[m", b"\x1b", b"\x1b[111111", b"a\r", b"\xff", b"\xff\r", b"ab\x1b[K\r", b"\x1b[1;32m\xff\r50%\x1b[K\xf0\x9f\r")


@figure("output: 128 KiB of escapes, returns and invalid UTF-8 to text, the worst of %d kinds" % len(DENSE), 15.0, "ms")
def _() -> Iterator[float]:
    def _to_text(piece: bytes) -> float:
        data = (piece * 131072)[:131072]
        return statistics.median(1000 * took(lambda: bash_tool.fit(bash_tool.Captured(data, b"", len(data)), MODES)) for _ in range(3))

    for _ in range(7):
        yield max(map(_to_text, DENSE))


# ---- ending ---------------------------------------------------------------------------------------------

def beyond(limit_s: float, clean_up_s: float, times: int) -> float:
    """Milliseconds that a call takes beyond its timeout and what the command does about its end."""
    command = "trap 'sleep %g; exit' TERM; sleep 600 & wait" % clean_up_s if clean_up_s else "sleep 600"
    return statistics.median(1000 * (took(lambda: ran(command, timeout_s=limit_s, status="timed_out")) - limit_s - clean_up_s) for _ in range(times))


@figure("ending: control back after a timeout", 20.0, "ms")
def _() -> Iterator[float]:
    for _ in range(5):
        yield beyond(0.2, 0.0, 5)


@figure("ending: control back after a timeout and 0.2 s of cleaning up", 20.0, "ms")
def _() -> Iterator[float]:
    for _ in range(5):
        yield beyond(0.2, 0.2, 3)


@figure("ending: control back after a timeout, with 1,000 other processes", 60.0, "ms")
def _() -> Iterator[float]:
    with strangers(1000):
        for _ in range(5):
            yield beyond(0.2, 0.0, 5)


# ---- import ---------------------------------------------------------------------------------------------

@figure("import: bash_tool / the standard modules that it imports", 1.25, instead=1.60, because="its classes, and 320 KB of bytecode")
def _() -> Iterator[float]:
    def _import_s(name: str) -> float:
        return float(in_child("import time; begun = time.perf_counter(); import %s; print(time.perf_counter() - begun)" % name, use=False))

    for _ in range(7):
        pairs = [(_import_s("bash_tool"), _import_s("its_modules")) for _ in range(scaled(10, 3))]
        yield statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)


def what_imports_cost() -> dict[str, float]:
    """Milliseconds of each standard module with what it imports for the first time, in the order in which bash_tool comes to them."""
    told = subprocess.run([sys.executable, "-X", "importtime", "-c", "import sys; sys.path.insert(0, %r); import bash_tool" % str(FOLDER)],
                          stderr=subprocess.PIPE, env=ENV, check=True).stderr.decode()
    rows = [(len(indent), name, int(own), int(total)) for own, total, indent, name in
            re.findall(r"import time:\s+(\d+) \|\s+(\d+) \|( +)(\S+)", told)]
    depth = next(depth for depth, name, _, _ in rows if name == "bash_tool")
    begin = max([n for n, (d, name, _, _) in enumerate(rows) if d == depth and name != "bash_tool"], default=-1) + 1
    costs = {name: total / 1000 for d, name, _, total in rows[begin:] if d == depth + 2}
    costs["bash_tool itself"] = next(own for _, name, own, _ in rows if name == "bash_tool") / 1000
    return costs


# ---- jobs -----------------------------------------------------------------------------------------------

@contextlib.contextmanager
def jobs_of(count: int) -> Iterator[list[float]]:
    """So many background jobs under way; the seconds that the start of each took."""
    with bash_tool.BashTool(profile=dataclasses.replace(MODES, grace_s=0.5)) as mine:
        times = [took(lambda: mine.run("exec sleep 600", "background")) for _ in range(count)]
        jobs = mine.jobs()
        try:
            assert len(jobs) == count and all(job.status == "running" for job in jobs)
            supervisors[:] = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_supervisor(pid)]
            assert len(supervisors) == count, supervisors
            yield times
        finally:
            for job in jobs:
                job.kill()


supervisors: list[int] = []


def is_supervisor(pid: str) -> bool:
    """True for a process that runs this benchmark's copy of bash_tool."""
    try:
        return str(FOLDER).encode() in Path("/proc/%s/cmdline" % pid).read_bytes() and Path("/proc/%s/comm" % pid).read_text() == "bash-tool-job\n"
    except OSError:
        return False


def memory_per_job(count: int) -> Iterator[float]:
    for _ in range(3):
        with jobs_of(count):
            yield sum(map(proportional_kib, supervisors)) / count / 1024


@figure("job: start beyond its look of 0.3 s", 100.0, "ms")
def _() -> Iterator[float]:
    for _ in range(3):
        with jobs_of(scaled(10, 3)) as times:
            yield 1000 * (statistics.median(times) - bash_tool.LOOK_S)


@figure("job: memory of its supervisor, alone (PSS)", 14.0, "MiB")
def _() -> Iterator[float]:
    return memory_per_job(1)


@figure("job: memory of each of 20 supervisors (PSS)", 6.0, "MiB", instead=9.5, because="the next line's alone is more")
def _() -> Iterator[float]:
    return memory_per_job(20)


@figure("job: memory of each of 20 interpreters that import the same (PSS)", None, "MiB")
def _() -> Iterator[float]:
    others = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "import sys; sys.path.insert(0, %r); import its_modules; print(flush=True); "
                                "sys.stdin.read()" % str(FOLDER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENV) for _ in range(20)]
    for other in others:
        assert other.stdout is not None
        other.stdout.readline()
    yield sum(proportional_kib(other.pid) for other in others) / 20 / 1024
    for other in others:
        other.communicate()


# ---- the table ------------------------------------------------------------------------------------------

def judged(one: Figure) -> dict[str, Any]:
    """The figure as a row: its median, noise and verdict."""
    values = list(one.measure())
    value = statistics.median(values)
    noise = statistics.median(abs(each - value) for each in values)

    def _missed(target: float | None, slack: float) -> bool:
        return target is not None and (value + slack < target if one.at_least else value - slack > target)

    verdict = "" if one.target is None else "met" if not _missed(one.target, 0) else "met within the noise" if not _missed(one.target, noise) else "MISSED"
    if verdict == "MISSED" and one.instead is not None and not _missed(one.instead, 0):
        verdict = "not to be had"
    return {"figure": one.name, "value": value, "noise": noise, "unit": one.unit, "target": one.target, "at_least": one.at_least,
            "verdict": verdict, "instead": one.instead, "because": one.because, "values": values}


def machine() -> str:
    """One line about where this ran."""
    model = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    bash = subprocess.run(["bash", "-c", "echo $BASH_VERSION"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    return "%s, %d cores of %s, Python %s, bash %s, load %.1f" % (
        platform.platform(), os.cpu_count() or 1, model[0] if model else platform.machine(), platform.python_version(), bash, os.getloadavg()[0])


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    def _number(value: float) -> str:
        return "%.1f %s" % (value, row["unit"]) if row["unit"] else "%.2f" % value

    target = "" if row["target"] is None else "%s %s" % ("≥" if row["at_least"] else "≤", _number(row["target"]))
    because = " (%s); %s holds" % (row["because"], _number(row["instead"])) if row["verdict"] == "not to be had" else ""
    return "%-74s %9s ± %-5s %-10s %s%s" % (row["figure"], _number(row["value"]), _number(row["noise"]).split()[0], target, row["verdict"], because)


def main() -> int:
    """Measures, prints, and returns 1 if a target was missed."""
    global QUICK
    parser = argparse.ArgumentParser(description="What bash_tool costs.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only figures whose name holds one of them")
    parser.add_argument("--json", action="store_true", help="one object in place of the table")
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions, and of the sizes: a glance, no measurement")
    options = parser.parse_args()
    QUICK = options.quick
    rows: list[dict[str, Any]] = []
    if not options.json:
        print(machine(), flush=True)
    for one in FIGURES:
        if not options.words or any(word in one.name for word in options.words):
            rows.append(judged(one))
            if not options.json:
                print(line(rows[-1]), flush=True)
    if not rows:
        parser.error("no figure's name holds that")
    costs = what_imports_cost() if not options.words or "import" in options.words else {}
    if options.json:
        print(json.dumps({"machine": machine(), "figures": rows, "import_ms": costs}, indent=1))
    elif costs:
        print("importing takes, in ms: " + ", ".join("%s %.1f" % pair for pair in costs.items()))
    for mine in (tool, quiet, counting):
        mine.close()
    return 1 if any(row["verdict"] == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
