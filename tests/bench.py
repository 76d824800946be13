#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What bash_tool costs: figures, most of them ratios of two things that take turns in one run on one machine.

    python3 tests/bench.py                  # all, some eight minutes
    python3 tests/bench.py call import      # those whose name holds one of the words
    python3 tests/bench.py --json           # for a program: one object
    python3 tests/bench.py engine [[OLD.py] NEW.py] [--rows NAME,...] [--quick] [--json]
    python3 tests/bench.py drain [[OLD.py] NEW.py] [--rows NAME,...] [--quick] [--json]
    python3 tests/bench.py compare OLD.py NEW.py [--rows NAME,...] [--quick] [--json]

`engine` measures what the engine is judged by, within 90 s: one version, by default the bash_tool.py beside this file, or
two, in turns with subprocess, the floor. It prints medians and quartiles of rounds; a ratio is that of two figures of one
round. The last version is judged: a goal is met by the median, and missed if both quartiles are beyond it; then the exit
status is 1. `engine FILE.py FILE.py`, the same file twice, shows what differences are noise.

`drain` does the same for floods: writers of several kinds, each read to its end, beside `| cat >/dev/null`.

`compare` measures these rows and more for two versions, some five minutes, and prints medians and the noise. A row that
fails is named, and the exit status is then 1. Memory needs root, because supervisors are not dumpable: to another user
the row says that it was not measured.

Without these two, most figures are measured in rounds, each of which gives one value; the table shows their median, and as noise how far a round
is from it, again in the median. A target is missed if the median is beyond it by more than the noise; then the exit status is 1. A
target that cannot be had is printed with the bound that holds instead of it, and the reason; figures without a target show the
reasons. Standard library only; Linux; up to 1 GiB in the folder for temporary files while it runs.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import functools
import gc
import hashlib
import importlib.util
import itertools
import json
import os
import platform
import py_compile
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Sequence

HERE = Path(__file__).resolve().parent.parent
FIGURES: list[Figure] = []

for hides in ("PYTHONUNBUFFERED", "FORCE_COLOR"):  # how programs hold back their output
    os.environ.pop(hides, None)


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


def figure(
    name: str, target: float | None = None, unit: str = "", **more: Any
) -> Callable[[Callable[[], Iterator[float]]], Callable[[], Iterator[float]]]:
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
    return subprocess.run(
        ["bash", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def floor(text: bytes = b":\0") -> None:
    """The least of what the contract asks for, and no more: another thread waits, the text is in no argv, and stdin is empty."""
    reads = "IFS= read -r -d '' BASH_EXECUTION_STRING; exec </dev/null; eval -- \"$BASH_EXECUTION_STRING\""

    def _work() -> None:
        fd = os.memfd_create("text")
        os.write(fd, text)
        os.lseek(fd, 0, os.SEEK_SET)
        reader, writer = os.pipe()
        shell = subprocess.Popen(
            ["bash", "--norc", "-c", reads], stdin=fd, stdout=writer, stderr=writer, start_new_session=True
        )
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
    done = subprocess.run(
        [sys.executable, "-c", begin + code, *map(str, arguments)], stdout=subprocess.PIPE, env=ENV, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def strangers(count: int) -> Iterator[None]:
    """Other processes, whose parent is not this one."""
    group = subprocess.Popen(
        ["bash", "-c", "for ((n = 0; n < %d; n++)); do sleep 600 & done; echo; wait" % count],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert group.stdout is not None
        group.stdout.readline()
        yield
    finally:
        os.killpg(group.pid, signal.SIGKILL)
        group.wait()


def machine() -> str:
    """One line about where this ran."""
    model = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    bash = (
        subprocess.run(["bash", "-c", "echo $BASH_VERSION"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    )
    return "%s, %d cores of %s, Python %s, bash %s, load %.1f" % (
        platform.platform(),
        os.cpu_count() or 1,
        model[0] if model else platform.machine(),
        platform.python_version(),
        bash,
        os.getloadavg()[0],
    )


os.environ.pop("BASH_ENV", None)  # it would be run in what is compared with, and not in the tool
ENV = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


# ---- versions, compared --------------------------------------------------------------------------
# `engine` and `compare` measure one or two versions and the floor in turns, through their public
# interface alone. The floor is subprocess, doing the same as nearly as it can. This part of the
# file imports none but the versions that it is given.

NAP = "86400.%07d" % os.getpid()  # how the argument of each `sleep` of this benchmark begins
CONTENDERS = ("floor", "old", "new")  # or "floor" and "new", where there is one version
EARLY_END_S = 0.3  # how long a background start looks for an early failure
GIB_OF_ZEROS = "head -c 1G /dev/zero"
Rounds = Dict[str, List[float]]  # of each contender, one value a round


def contents(path: str) -> bytes:
    """What a file of /proc holds; nothing if its process has ended."""
    try:
        return Path(path).read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def naps(prefix: str) -> list[int]:
    """The processes that run `sleep` with an argument that begins like this."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        program, _, argument = contents("/proc/%s/cmdline" % pid).partition(b"\0")
        if program.endswith(b"sleep") and argument.startswith(prefix.encode()):
            found.append(int(pid))
    return found


def end_naps(prefix: str) -> None:
    """Ends what a failed row has left: shells and supervisors end when their `sleep` does."""
    for pid in naps(prefix):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_for_naps(prefix: str, count: int, calls: Sequence[Future[Any]] = ()) -> None:
    """Returns when so many are asleep. A call that has failed by then raises its exception."""
    deadline = time.monotonic() + 30
    while len(naps(prefix)) < count:
        for call in calls:
            if call.done():
                call.result()
        if time.monotonic() > deadline:
            raise TimeoutError("after 30 s not all of %d commands are under way" % count)
        time.sleep(0.05)
    time.sleep(0.2)  # for what a contender does after a start


class Floor:
    """The same with subprocess alone."""

    def call(self, command: str) -> None:
        """Runs a command to its end."""
        plain(command)

    def drain(self, command: str) -> None:
        """Runs a command whose output is a flood."""
        plain(command + " | cat >/dev/null")

    def drain_to_file(self, command: str) -> None:
        """The same, where a version of bash_tool writes an output file up to its cap."""
        self.drain(command)

    def expire(self, command: str, limit_s: float) -> str:
        """Runs a command that has to be ended at the limit. Returns its output."""
        shell = self._start(command, subprocess.PIPE)
        try:
            shell.communicate(timeout=limit_s)
            raise RuntimeError("the command ended before its limit")
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            return shell.communicate()[0].decode()

    def background(self, command: str) -> Callable[[], object]:
        """Starts a command. Returns the function that ends it."""
        shell = self._start(command, subprocess.DEVNULL)

        def _end() -> None:
            shell.kill()
            shell.wait()

        return _end

    @contextlib.contextmanager
    def flight(self, commands: Sequence[str]) -> Iterator[Sequence[Future[Any]]]:
        """All commands under way at once; for each there is a thread that waits for its end."""
        shells: list[subprocess.Popen[bytes]] = []

        def _wait(command: str) -> None:
            shell = self._start(command, subprocess.PIPE)
            shells.append(shell)
            shell.communicate()

        with ThreadPoolExecutor(len(commands)) as pool:
            futures = [pool.submit(_wait, command) for command in commands]
            try:
                yield futures
            finally:
                while not all(future.done() for future in futures):
                    for shell in shells:
                        shell.kill()
                    time.sleep(0.05)
        for future in futures:
            future.result()

    def close(self) -> None:
        """Nothing is left to be closed."""

    @staticmethod
    def _start(command: str, output: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


class Version(Floor):
    """One version of bash_tool, loaded from the folder that holds its copy."""

    def __init__(self, folder: Path) -> None:
        name = "bash_tool_" + folder.name
        spec = importlib.util.spec_from_file_location(name, folder / "bash_tool.py")
        assert spec is not None and spec.loader is not None
        self.module: Any = importlib.util.module_from_spec(spec)
        sys.modules[name] = self.module
        spec.loader.exec_module(self.module)
        self.tool = self.module.BashTool(state_dir=folder / "state")
        self.without_file = self.module.BashTool(profile=self.module.STREAMS)

    def call(self, command: str) -> None:
        self._ran("exited", command)

    def drain(self, command: str) -> None:
        result = self.without_file.run(command)
        assert result.status == "exited" and result.truncated, result

    def drain_to_file(self, command: str) -> None:
        assert self._ran("exited", command).truncated

    def expire(self, command: str, limit_s: float) -> str:
        return str(self._ran("timed_out", command, timeout_s=limit_s).text)

    def background(self, command: str) -> Callable[[], object]:
        pid = self._ran("running", command, mode="background").pid
        end: Callable[[], object] = self.tool.job(pid).kill
        return end

    @contextlib.contextmanager
    def flight(self, commands: Sequence[str]) -> Iterator[Sequence[Future[Any]]]:
        cancel = self.module.Cancel()
        with ThreadPoolExecutor(len(commands)) as pool:
            futures = [
                pool.submit(self._ran, "cancelled", command, cancel=cancel, timeout_s=600) for command in commands
            ]
            try:
                yield futures
            finally:
                cancel.cancel()
        for future in futures:
            future.result()

    def close(self) -> None:
        self.tool.close()
        self.without_file.close()

    def _ran(self, status: str, command: str, **more: Any) -> Any:
        """The result of a call that has to end like this: what fails at once costs little."""
        result = self.tool.run(command, **more)
        if result.status != status or (status == "exited" and result.exit_code != 0):
            raise RuntimeError("%r: %s, not %s: %.300s" % (command, result.status, status, result.text))
        return result


# Hosts: fresh processes that hold one contender, so that their memory is not another's.


class Process(NamedTuple):
    """What /proc/PID/stat says."""

    parent: int
    session: int
    started: int


def processes() -> dict[int, Process]:
    """All that live on this machine."""
    table = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        state, *fields = contents("/proc/%s/stat" % pid).rpartition(b") ")[2].split() or [b"Z"]
        if state != b"Z":
            table[int(pid)] = Process(int(fields[0]), int(fields[2]), int(fields[18]))
    return table


class Family(NamedTuple):
    """The processes of a tool. The commands are none of them, and neither is the host."""

    supervisors: set[int]  # parents of the commands' shells
    servers: set[int]  # parents of the supervisors
    others: set[int]  # a guard, or supervisors without a command

    @property
    def all(self) -> set[int]:
        """Their numbers."""
        return self.supervisors | self.servers | self.others


def family(prefix: str, servers: Iterable[int] = ()) -> Family:
    """What belongs to the tool of this host, with `servers` found earlier. Its commands are naps.

    The shell of a command leads the session of its `sleep`. A process that is no descendant of the
    host, as a guard, is known by the last folder of its PATH, which only this host has.
    """
    table, host = processes(), os.getpid()
    young = {pid for pid in table if table[pid].started >= table[host].started} - {host}
    shells = {table[pid].session for pid in naps(prefix) if pid in table}
    commands = {pid for pid in young if table[pid].session in shells}
    supervisors = {table[shell].parent for shell in shells if shell in table} & young
    servers = {*servers, *(table[pid].parent for pid in supervisors)} & young - supervisors
    mark = os.environ["PATH"].rpartition(":")[2].encode()
    known = {host} | supervisors | servers
    known |= {pid for pid in young if mark in contents("/proc/%d/environ" % pid)}
    while True:
        more = {pid for pid in young - commands - known if table[pid].parent in known}
        if not more:
            break
        known |= more
    return Family(supervisors, servers, known - commands - supervisors - servers - {host})


def memory_mib(pids: Iterable[int], kind: str = "Pss") -> float:
    """Their memory, what they share divided among those who share it (PSS), or another `kind`, a regular expression."""
    rollups = [contents("/proc/%d/smaps_rollup" % pid).decode() for pid in pids]
    return sum(int(kib) for rollup in rollups for kib in re.findall(r"^%s:\s+(\d+)" % kind, rollup, re.M)) / 1024


def peak_mib() -> float:
    """The most memory that this process has had at once since its peak was cleared."""
    return int(re.findall(rb"VmHWM:\s+(\d+)", contents("/proc/self/status"))[0]) / 1024


def host_in_flight(contender: Floor, prefix: str, count: int) -> dict[str, float]:
    """The memory that commands in flight take. A host whose new processes share what was its own
    has a growth below 0; the sum with theirs is what the machine pays."""
    gc.collect()
    before = memory_mib([os.getpid()])
    with contender.flight(["sleep %s%05d" % (prefix, number) for number in range(count)]) as calls:
        wait_for_naps(prefix, count, calls)
        found = family(prefix)
        host, rest = memory_mib([os.getpid()]) - before, memory_mib(found.all)
        return {"host": host, "rest": rest, "each_kib": 1024 * (host + rest) / count}


def host_resident(contender: Floor, prefix: str, _: int) -> dict[str, float]:
    """The memory of what stays when idle supervisors have ended, within 12 s of a call."""
    with contender.flight(["sleep %s" % prefix]) as calls:
        wait_for_naps(prefix, 1, calls)
        servers = family(prefix).servers
    deadline = time.monotonic() + 12
    while len(family(prefix, servers).all) > 1 and time.monotonic() < deadline:
        time.sleep(0.5)
    return {"rest": memory_mib(family(prefix, servers).all)}


def host_jobs(contender: Floor, prefix: str, count: int) -> dict[str, float]:
    """The memory of the supervisors of background jobs, and of the tool's other processes."""
    ends: list[Callable[[], object]] = []
    try:
        with ThreadPoolExecutor(5) as pool:  # each start takes its look
            starts = [pool.submit(contender.background, "sleep %s%05d" % (prefix, number)) for number in range(count)]
        ends.extend(start.result() for start in starts)
        wait_for_naps(prefix, count)
        found = family(prefix)
        return {
            "supervisors": memory_mib(found.supervisors) / count,
            "rest": memory_mib(found.all) / count,
            "private": memory_mib(found.all, "Private_(?:Clean|Dirty)") / count,
            "count": len(found.supervisors),
        }
    finally:
        for end in ends:
            end()


def host_flood(contender: Floor, prefix: str, _: int) -> dict[str, float]:
    """What 1 GiB of output adds to the peak of the host, and what the tool's processes have then."""
    contender.call(":")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = peak_mib()
    contender.drain_to_file(GIB_OF_ZEROS)
    host = peak_mib() - before
    with contender.flight(["%s; sleep %s" % (GIB_OF_ZEROS, prefix)]) as calls:
        wait_for_naps(prefix, 1, calls)
        return {"host": host, "rest": memory_mib(family(prefix).all)}


def host_main(kind: str, folder: str, prefix: str, count: str) -> int:
    """What a fresh process does for `Comparison.host`."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = 8192 if hard == resource.RLIM_INFINITY else min(hard, 8192)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))  # a call takes up to ten
    contender = Floor() if Path(folder).name == "floor" else Version(Path(folder))
    work = {"in-flight": host_in_flight, "resident": host_resident, "jobs": host_jobs, "flood": host_flood}
    with contextlib.closing(contender):
        try:
            print(json.dumps(work[kind](contender, prefix, int(count))))
        except PermissionError as problem:
            print(json.dumps(str(problem.filename)))
    return 0


# What a fresh interpreter does to time an import, the constructor and the first call.
FIRST = {
    "floor": """
import sys, time
begun = time.perf_counter()
import subprocess
imported = made = time.perf_counter()
subprocess.run(["bash", "-c", ":"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
               stderr=subprocess.STDOUT, start_new_session=True)
print([imported - begun, 0.0, time.perf_counter() - made])
""",
    "tool": """
import sys, time
sys.path.insert(0, sys.argv[1])
begun = time.perf_counter()
import bash_tool
imported = time.perf_counter()
tool = bash_tool.BashTool()
made = time.perf_counter()
result = tool.run(":")
ended = time.perf_counter()
assert result.status == "exited", result
print([imported - begun, made - imported, ended - made])
tool.close()
""",
}


class Goal(NamedTuple):
    """What a line is to be, as `engine` shows it. Without a bound: not worse than the old version."""

    bound: float | None = None
    aim: float | None = None
    of_ratio: bool = False  # else of the value
    at_least: bool = False


class Line(NamedTuple):
    """A line of the table. `ratio`: the floor does the same, so a ratio to it has a meaning."""

    what: str
    unit: str
    rounds: Rounds
    ratio: bool = True
    goal: Goal | None = None  # a line with one is part of `engine`


class NotReadable(Exception):
    """This user may not read what another process has of memory."""


class Comparison:
    """The versions and the floor, at hand for the rows."""

    def __init__(self, paths: Sequence[str], quick: bool) -> None:
        self.quick = quick
        self.tools = CONTENDERS[-len(paths) :]
        self.names = ("floor", *self.tools)
        self._scratch = tempfile.TemporaryDirectory(prefix="bench-bash-tool-")
        self.folder = Path(self._scratch.name)
        self._hosts = itertools.count()
        self._naps = itertools.count()
        self.versions: dict[str, dict[str, str]] = {}
        for name, path in zip(self.tools, paths):
            sha256 = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            self.versions[name] = {"path": path, "sha256": sha256}
            (self.folder / name).mkdir()
            py_compile.compile(shutil.copy(path, str(self.folder / name / "bash_tool.py")))
        os.environ["TMPDIR"] = self._scratch.name  # whatever they leave goes with it
        self.env = {**ENV, "TMPDIR": self._scratch.name}
        self.contenders: dict[str, Floor] = {"floor": Floor()}
        for name in self.versions:
            version = Version(self.folder / name)
            self.contenders[name] = version
            self.versions[name]["version"] = version.module.__version__

    def close(self) -> None:
        """Ends and removes everything."""
        end_naps(NAP)
        for contender in self.contenders.values():
            contender.close()
        self._scratch.cleanup()

    def times(self, count: int, least: int = 1) -> int:
        """A tenth of it where only a glance is wanted."""
        return max(least, count // 10) if self.quick else count

    def nap(self) -> str:
        """A command that sleeps, unlike any other."""
        return "sleep %s%05d" % (NAP, next(self._naps))

    def in_turns(self, act: Callable[[Floor], float], times: int, rounds: int = 6, names: Sequence[str] = ()) -> Rounds:
        """Each contender acts so many times a round, and a round gives the median. The order
        changes, for what a contender does after its answer falls into the next one's time."""
        names = names or self.names
        orders = itertools.cycle(itertools.permutations(names))
        for name in names:
            act(self.contenders[name])
        medians: Rounds = {name: [] for name in names}
        for _ in range(rounds):
            values: Rounds = {name: [] for name in names}
            for _ in range(times):
                for name in next(orders):
                    values[name].append(act(self.contenders[name]))
            for name in names:
                medians[name].append(statistics.median(values[name]))
        return medians

    def calls(self, times: int, rounds: int, pause_s: float = 0.0) -> tuple[Rounds, Rounds]:
        """Each contender calls `:` so many times in a row. Of each round the median of the milliseconds, and the
        microseconds of CPU that a call takes in the thread of its caller."""
        wall: Rounds = {name: [] for name in self.names}
        own: Rounds = {name: [] for name in self.names}
        orders = itertools.cycle(itertools.permutations(self.names))
        for number in range(rounds + 2):  # two to warm up
            for name in next(orders):
                call, spans, cpu_s = self.contenders[name].call, [], 0.0
                for _ in range(times):
                    time.sleep(pause_s)
                    before = time.thread_time()
                    spans.append(ms(lambda: call(":")))
                    cpu_s += time.thread_time() - before
                if number >= 2:
                    wall[name].append(statistics.median(spans))
                    own[name].append(1e6 * cpu_s / times)
        return wall, own

    def hosts(self, kind: str, count: int, rounds: int, names: Sequence[str] = ()) -> dict[str, Rounds]:
        """What fresh hosts of each contender measure: for each of their values the rounds."""
        told: dict[str, Rounds] = {}
        for _ in range(rounds):
            for name in names or self.names:
                for key, value in self._host(kind, name, count).items():
                    told.setdefault(key, {}).setdefault(name, []).append(value)
        return told

    def _host(self, kind: str, name: str, count: int) -> dict[str, float]:
        number = next(self._hosts)
        mark = "%s/host%d" % (self.folder, number)
        path = os.environ.get("PATH", os.defpath) + ":" + mark
        done = subprocess.run(
            [
                sys.executable,
                __file__,
                "compare-host",
                kind,
                str(self.folder / name),
                "%s9%03d" % (NAP, number),
                str(count),
            ],
            stdout=subprocess.PIPE,
            env={**self.env, "PATH": path},
            check=True,
            timeout=180,
        )
        answer: dict[str, float] | str = json.loads(done.stdout.splitlines()[-1])
        if isinstance(answer, str):
            raise NotReadable("%s is not this user's to read; run it as root" % answer)
        return answer

    @functools.lru_cache(None)
    def first(self) -> list[Rounds]:
        """Milliseconds of the import, the constructor and the first call, in fresh processes."""
        told: list[Rounds] = [{name: [] for name in self.names} for _ in range(3)]
        for number in range(self.times(15, 3) + 1):  # the first one warms up
            for name in self.names:
                code = FIRST["floor" if name == "floor" else "tool"]
                done = subprocess.run(
                    [sys.executable, "-c", code, str(self.folder / name)],
                    stdout=subprocess.PIPE,
                    env=self.env,
                    check=True,
                    timeout=60,
                )
                for rounds, value in zip(told, json.loads(done.stdout) if number else ()):
                    rounds[name].append(1000 * value)
        return told


Row = Callable[[Comparison], Iterator[Line]]
ROWS: dict[str, Row] = {}


def row(name: str) -> Callable[[Row], Row]:
    """Registers a function as a row of the comparison."""

    def _registered(function: Row) -> Row:
        ROWS[name] = function
        return function

    return _registered


def ms(act: Callable[[], object]) -> float:
    """Milliseconds."""
    return 1000 * took(act)


@row("call")
def _(bench: Comparison) -> Iterator[Line]:
    wall, own = bench.calls(20, bench.times(40, 4))
    yield Line("call ':', back to back", "ms", wall, goal=Goal(1.40, 1.25, of_ratio=True))
    yield Line("... of it CPU in the caller's thread", "us", own, goal=Goal())


@row("call-apart")
def _(bench: Comparison) -> Iterator[Line]:
    wall, own = bench.calls(10, bench.times(25, 3), 0.01)
    yield Line("call ':', 10 ms apart", "ms", wall, goal=Goal(1.35, 1.25, of_ratio=True))
    yield Line("... of it CPU in the caller's thread", "us", own, goal=Goal())


@row("threads")
def _(bench: Comparison) -> Iterator[Line]:
    times = bench.times(30)

    def _per_second(one: Floor) -> float:
        def _some(_: int) -> None:
            for _ in range(times):
                one.call(":")

        with ThreadPoolExecutor(16) as pool:
            return 16 * times / took(lambda: list(pool.map(_some, range(16))))

    rounds = bench.in_turns(_per_second, 1, bench.times(6, 3))
    yield Line("':' from 16 threads", "/s", rounds, goal=Goal(0.70, 0.78, of_ratio=True, at_least=True))


@row("ls")
def _(bench: Comparison) -> Iterator[Line]:
    times = bench.times(50)
    yield Line("call 'ls /'", "ms", bench.in_turns(lambda one: ms(lambda: one.call("ls /")), times))


@row("import")
def _(bench: Comparison) -> Iterator[Line]:
    yield Line("import (floor: of subprocess)", "ms", bench.first()[0])


@row("constructor")
def _(bench: Comparison) -> Iterator[Line]:
    yield Line("BashTool()", "ms", {name: bench.first()[1][name] for name in bench.tools})


@row("first")
def _(bench: Comparison) -> Iterator[Line]:
    _, made, called = bench.first()
    both = {name: [a + b for a, b in zip(made[name], called[name])] for name in bench.names}
    yield Line("first BashTool().run(':') of a process", "ms", both, goal=Goal(50, 40))


@row("memory")
def _(bench: Comparison) -> Iterator[Line]:
    for count in (1, 20, 200):
        told = bench.hosts("in-flight", count, bench.times(3))
        yield Line("%d in flight: growth of the host" % count, "MiB", told["host"])
        yield Line("%d in flight: tool's processes" % count, "MiB", told["rest"], ratio=False)
        yield Line("%d in flight: both, each command" % count, "KiB", told["each_kib"])


@row("resident")
def _(bench: Comparison) -> Iterator[Line]:
    told = bench.hosts("resident", 1, bench.times(3), bench.tools)
    yield Line("fork server or guard alone", "MiB", told["rest"])


@row("jobs")
def _(bench: Comparison) -> Iterator[Line]:
    told = bench.hosts("jobs", 20, bench.times(3), bench.tools)
    for name, counts in told["count"].items():
        if set(counts) != {20}:
            raise RuntimeError("%s: 20 jobs have %s supervisors" % (name, counts))
    yield Line("20 jobs: each supervisor", "MiB", told["supervisors"])
    yield Line("20 jobs: tool's processes, each job", "MiB", told["rest"], goal=Goal(2.9))
    yield Line("... of it private pages", "MiB", told["private"], goal=Goal())


@row("background")
def _(bench: Comparison) -> Iterator[Line]:
    def _beyond(one: Floor) -> float:
        begun = time.perf_counter()
        end = one.background(bench.nap())
        elapsed = time.perf_counter() - begun
        end()
        return 1000 * (elapsed - (0 if type(one) is Floor else EARLY_END_S))

    rounds = bench.in_turns(_beyond, bench.times(10), 3)
    yield Line("background start, beyond its look", "ms", rounds)


def beyond_limit(command: str, limit_s: float, word: str = "") -> Callable[[Floor], float]:
    """Milliseconds from the limit to the answer, which has to hold the word."""

    def _beyond(one: Floor) -> float:
        begun = time.perf_counter()
        output = one.expire(command, limit_s)
        elapsed = time.perf_counter() - begun
        if word not in output:
            raise RuntimeError("too slow: not all was started within %.1f s" % limit_s)
        return 1000 * (elapsed - limit_s)

    return _beyond


@row("timeout")
def _(bench: Comparison) -> Iterator[Line]:
    beyond = beyond_limit(bench.nap(), 0.2)
    yield Line("timeout: limit to answer", "ms", bench.in_turns(beyond, 1, bench.times(20, 3)), goal=Goal())


@row("timeout-strangers")
def _(bench: Comparison) -> Iterator[Line]:
    beyond = beyond_limit(bench.nap(), 0.3)
    sleep = shutil.which("sleep") or "sleep"
    pids: list[int] = []
    try:
        for _ in range(1000):
            pids.append(os.posix_spawn(sleep, bench.nap().split(), os.environ))
        rounds = bench.in_turns(beyond, bench.times(5), 5)
        yield Line("... beside 1,000 other processes", "ms", rounds)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)


@row("timeout-descendants")
def _(bench: Comparison) -> Iterator[Line]:
    command = "for i in $(seq 1000); do %s & done; echo started; wait" % bench.nap()
    shell = subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert shell.stdout is not None
        start_s = took(shell.stdout.readline)
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.communicate()
    beyond = beyond_limit(command, 1 + 3 * start_s, "started")
    rounds = bench.in_turns(beyond, 1, bench.times(5, 2))
    yield Line("... of a command of 1,000 processes", "ms", rounds)


def drained_s(bench: Comparison, drain: Callable[[Floor], Callable[[str], None]]) -> Rounds:
    """Seconds."""
    return bench.in_turns(lambda one: took(lambda: drain(one)(GIB_OF_ZEROS)), 1, bench.times(5, 2))


@row("drain")
def _(bench: Comparison) -> Iterator[Line]:
    yield Line(
        "1 GiB drained, 64 MiB of it to a file", "s", drained_s(bench, lambda one: one.drain_to_file), goal=Goal()
    )


@row("drain-streams")
def _(bench: Comparison) -> Iterator[Line]:
    yield Line("1 GiB drained, no file (STREAMS)", "s", drained_s(bench, lambda one: one.drain))


PYTHON = os.path.realpath(sys.executable)  # a shim of a version manager would take half a second to start
BLOCKS = PYTHON + " -c 'import os; block = b\"x\" * %d; [os.write(1, block) for _ in range(%d)]'"
WRITERS = {
    "blocks of 1 MiB": BLOCKS % (2**20, 2000),
    "blocks of 64 KiB": BLOCKS % (2**16, 32000),
    "yes": "yes | head -c 1G",
    "seq": "seq 60000000",
    "head -c": GIB_OF_ZEROS,
}


@row("writers")
def _(bench: Comparison) -> Iterator[Line]:
    for name, command in WRITERS.items():
        rounds = bench.in_turns(lambda one: took(lambda: one.drain(command)), 1, bench.times(12, 3))
        yield Line("a flood of %s, no file" % name, "s", rounds, goal=Goal(1.25, of_ratio=True))


@row("flood")
def _(bench: Comparison) -> Iterator[Line]:
    told = bench.hosts("flood", 1, bench.times(3), bench.tools)
    yield Line("1 GiB: growth of the host's peak", "MiB", told["host"])
    yield Line("1 GiB: tool's processes after it", "MiB", told["rest"])


@row("cli")
def _(bench: Comparison) -> Iterator[Line]:
    def _run(one: Floor) -> None:
        """`python3 bash_tool.py :`; the floor runs a shell, then a Python of the same that does nothing."""
        program = ["-c", "pass"]
        if isinstance(one, Version):
            program = [one.module.__file__, ":"]
        else:
            plain(":")
        subprocess.run(
            [sys.executable, *program], env=bench.env, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )

    rounds = bench.in_turns(lambda one: ms(lambda: _run(one)), 1, bench.times(15, 3))
    yield Line("python3 bash_tool.py ':'", "ms", rounds, goal=Goal(3.0, of_ratio=True))


def middle(values: Sequence[float]) -> tuple[float, float | None]:
    """The median, and as noise the median distance from it; a single value has no noise."""
    value = statistics.median(values)
    if len(values) == 1:
        return value, None
    return value, statistics.median(abs(each - value) for each in values)


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The lower and the upper one; of a single value that value."""
    if len(values) == 1:
        return values[0], values[0]
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, upper


def summed_up(name: str, one: Line) -> dict[str, Any]:
    """A line as data: of each contender value, noise and quartiles, and the same of its ratio to the floor."""
    told: dict[str, Any] = {"row": name, "what": one.what, "unit": one.unit}
    floor = one.rounds.get("floor", []) if one.ratio else []
    for contender, values in one.rounds.items():
        value, noise = middle(values)
        told[contender] = {"value": value, "noise": noise, "quartiles": quartiles(values), "values": values}
        if contender != "floor" and floor and min(floor) > 0:
            ratios_ = [ours / least for ours, least in zip(values, floor)]
            ratio, its_noise = middle(ratios_)
            told[contender].update(ratio=ratio, ratio_noise=its_noise, ratio_quartiles=quartiles(ratios_))
    if one.goal:
        told["goal"] = one.goal._asdict()
        told["verdict"] = verdict_on(told, one.goal)
    return told


def verdict_on(told: dict[str, Any], goal: Goal) -> str:
    """What the newest version comes to: beyond its goal in both quartiles it misses it."""
    what, sign = "ratio" if goal.of_ratio else "value", -1 if goal.at_least else 1
    ours = told["new"]
    span = sorted(sign * each for each in ours["quartiles" if what == "value" else "ratio_quartiles"])
    if goal.bound is not None:
        most = highest = sign * goal.bound
    elif "old" in told:
        most, highest = told["old"]["value"], told["old"]["quartiles"][1]
    else:
        return ""
    value = sign * ours[what]
    if value > most:
        return "MISSED" if span[0] > highest else "within the noise"
    return "met, aim too" if goal.aim is not None and value <= sign * goal.aim else "met"


TABLE = "%-39s %11s %11s %11s %11s %11s"


def digits_of(size: float) -> int:
    """How many decimal places a cell shows."""
    return 0 if abs(size) >= 100 else 1 if abs(size) >= 10 else 2


def engine_line(names: Sequence[str], told: dict[str, Any]) -> str:
    """A line of the table of `engine`."""
    goal = Goal(**told["goal"])

    def _cell(name: str) -> str:
        pair, what = told.get(name, {}), "ratio_" if goal.of_ratio and name != "floor" else ""
        if not pair:
            return ""
        value, (lower, upper) = pair[what[:-1] or "value"], pair[what + "quartiles"]
        digits = digits_of(value)
        return "%s%.*f [%.*f %.*f]" % ("x " if what else "", digits, value, digits, lower, digits, upper)

    sign = "≥" if goal.at_least else "≤"
    bounds = "≤ old" if goal.bound is None else "%s %g" % (sign, goal.bound)
    aim = "" if goal.aim is None else ", aim %g" % goal.aim
    cells = "".join(" %-18s" % _cell(name) for name in names)
    what = "%s, %s" % (told["what"], told["unit"])
    return ("%-42s%s %-16s %s" % (what, cells, bounds + aim, told["verdict"])).rstrip()


def engine_heading(names: Sequence[str]) -> str:
    """What stands above the lines of `engine`."""
    return "%-42s%s %s" % ("median [quartiles]", "".join(" %-18s" % name for name in names), "to be")


def shown_line(told: dict[str, Any]) -> str:
    """A line of the table."""

    def _cell(contender: str, value: str, noise: str) -> str:
        pair = told.get(contender, {})
        if value not in pair:
            return ""
        size = abs(pair[value])
        digits = digits_of(size)
        text = "%.*f" % (digits, pair[value])
        return text if pair[noise] is None else "%s±%.*f" % (text, digits, pair[noise])

    values = [_cell(contender, "value", "noise") for contender in CONTENDERS]
    to_floor = [_cell(contender, "ratio", "ratio_noise") for contender in CONTENDERS[1:]]
    return TABLE % (told["what"] + ", " + told["unit"], *values, *to_floor)


JUDGED = {
    "engine": ("call", "call-apart", "threads", "first", "cli", "jobs", "drain", "timeout"),
    "drain": ("writers", "drain"),
}


def compare(view: str, arguments: Sequence[str]) -> int:
    """Measures versions, prints, and returns 1 if a row failed or a goal was missed."""
    engine = view in JUDGED
    parser = argparse.ArgumentParser(prog="tests/bench.py " + view, description="Versions and subprocess, in turns.")
    if engine:
        parser.add_argument("old", metavar="OLD.py", nargs="?", help="a version to compare with")
        parser.add_argument("new", metavar="NEW.py", nargs="?", help="default: the bash_tool.py beside this file")
    else:
        parser.add_argument("old", metavar="OLD.py")
        parser.add_argument("new", metavar="NEW.py")
    rows = ",".join(JUDGED.get(view, ROWS))
    parser.add_argument("--rows", metavar="NAME,...", default=rows, help="only these of: %(default)s")
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions: a glance, no measurement")
    parser.add_argument("--json", action="store_true", help="one object in place of the table")
    options = parser.parse_args(arguments)
    names = options.rows.split(",")
    for name in names:
        if name not in rows.split(","):
            parser.error("no row is called %r; there are %s" % (name, rows))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is ended

    def say(text: str) -> None:
        if not options.json:
            print(text, flush=True)

    lines: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    begun = time.monotonic()
    bench = Comparison(list(filter(None, (options.old, options.new))) or [str(HERE / "bash_tool.py")], options.quick)
    try:
        say(machine())
        for name, known in bench.versions.items():
            say("{}: {path}, version {version}, sha256 {sha256:.12}".format(name, **known))
        say(engine_heading(bench.names) if engine else TABLE % ("", *CONTENDERS, "old/floor", "new/floor"))
        for name in names:
            try:
                for one in ROWS[name](bench):
                    if one.goal or not engine:
                        lines.append(summed_up(name, one))
                        say(engine_line(bench.names, lines[-1]) if engine else shown_line(lines[-1]))
            except NotReadable as problem:
                unreadable[name] = str(problem)
                say("%s: not measured: %s" % (name, problem))
            except Exception as problem:
                failed[name] = "%s: %s" % (type(problem).__name__, problem)
                say("%s: FAILED: %s" % (name, failed[name]))
            finally:
                end_naps(NAP)
    finally:
        bench.close()
    if engine:
        say(
            "x: times the floor, subprocess.run(start_new_session=True) of `bash -c`; of the command line `python3 -c pass`"
        )
        say(
            "and `bash -c :`; of a flood `| cat >/dev/null`. The rest is in the unit of the line. Took %.0f s, load now %.1f"
            % (time.monotonic() - begun, os.getloadavg()[0])
        )
    if options.json:
        print(
            json.dumps(
                {
                    "machine": machine(),
                    "quick": options.quick,
                    "versions": bench.versions,
                    "lines": lines,
                    "failed": failed,
                    "not measured": unreadable,
                },
                indent=1,
            )
        )
    return 1 if failed or engine and any(told["verdict"] == "MISSED" for told in lines) else 0


# The rest imports the bash_tool.py beside this file, which may be neither of the two.
if __name__ == "__main__" and sys.argv[1:2] in (["compare"], ["engine"], ["drain"]):
    sys.exit(compare(sys.argv[1], sys.argv[2:]))
if __name__ == "__main__" and sys.argv[1:2] == ["compare-host"]:
    sys.exit(host_main(*sys.argv[2:]))


# ---- one version against its targets -------------------------------------------------------------------

# A copy with its bytecode beside it, as after the first import, whatever the environment says about bytecode.
SCRATCH = tempfile.TemporaryDirectory(prefix="bench-bash-tool-")
FOLDER = Path(SCRATCH.name)
shutil.copy(HERE / "bash_tool.py", FOLDER)
# Beside it a module that has nothing but its import statements.
ITS_IMPORTS = [
    ast.unparse(line)
    for line in ast.parse((FOLDER / "bash_tool.py").read_text()).body
    if isinstance(line, (ast.Import, ast.ImportFrom))
]
(FOLDER / "its_modules.py").write_text("\n".join(ITS_IMPORTS))
for module in ("bash_tool.py", "its_modules.py"):
    py_compile.compile(str(FOLDER / module))
sys.path.insert(0, str(FOLDER))

import bash_tool  # the copy, not the file beside this one
from bash_tool import MODES, OnTimeout

tool = bash_tool.BashTool(state_dir=FOLDER / "state")
counting = bash_tool.BashTool(profile=dataclasses.replace(bash_tool.JOBS, saves=False, on_timeout=OnTimeout.KILL))
quiet = bash_tool.BashTool(profile=dataclasses.replace(MODES, saves=False))
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


@figure("call: a thread that waits and a text on stdin / subprocess.run")
def _() -> Iterator[float]:
    return ratios(floor, lambda: plain(":"), scaled(200))


@figure("call: run(':') / subprocess.run, with 1,000 other processes", 1.40)
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


@figure("call: 16 threads, a thread that waits and a text on stdin / subprocess.run", at_least=True)
def _() -> Iterator[float]:
    return (1 / ratio for ratio in ratios(at_once(floor), at_once(lambda: plain(":")), 1))


@figure("call: --mcp round trip of ':' / run(':')", 1.5)
def _() -> Iterator[float]:
    server = subprocess.Popen(
        [sys.executable, str(FOLDER / "bash_tool.py"), "--mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENV
    )
    assert server.stdin is not None and server.stdout is not None
    sends, hears = server.stdin, server.stdout
    line = (
        json.dumps(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": "bash", "arguments": {"command": ":"}},
            }
        ).encode()
        + b"\n"
    )

    def _round_trip() -> None:
        sends.write(line)
        sends.flush()
        assert not json.loads(hears.readline())["result"].get("isError")

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

    return ratios(
        lambda: subprocess.run(
            [sys.executable, *arguments], env=ENV, cwd=FOLDER, check=True, stdout=subprocess.DEVNULL
        ),
        _bare,
        scaled(20, 3),
    )


@figure("call: compiling it, and importing its modules / `python3 -c pass` and `bash -c :`")
def _() -> Iterator[float]:
    return against_bare("-c", "import its_modules; compile(open('bash_tool.py').read(), '', 'exec')")


@figure("call: `bash-tool :`, as pip installs it / `python3 -c pass` and `bash -c :`")
def _() -> Iterator[float]:
    return against_bare("-c", "import bash_tool, sys; sys.exit(bash_tool.main([':']))")


LONG_RUN = """
import json, resource
import tests.bench as bench

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
    return drained(quiet, GIGABYTE % scaled(10**9))


@figure("output: 5 million short lines / yes | head … | cat >/dev/null", 1.0)
def _() -> Iterator[float]:
    return drained(quiet, LINES % scaled(5 * 10**6))


@figure("output: the same lines, counted (JOBS) / yes | head … | cat >/dev/null")
def _() -> Iterator[float]:
    return drained(counting, LINES % scaled(5 * 10**6))


FLOOD = """
import re
def peak_mib():         # not ru_maxrss, which begins with the peak of who started this process
    return int(re.findall("VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[0]) / 1024
with bash_tool.BashTool() as tool:
    tool.run(":")
    open("/proc/self/clear_refs", "w").write("5")       # the peak begins anew
    before = peak_mib()
    assert tool.run(sys.argv[1], mode="slow").truncated
    print(peak_mib() - before)
"""


@figure("output: memory that 10 GB add", 10.0, "MiB")
def _() -> Iterator[float]:
    yield in_child(FLOOD, GIGABYTE % scaled(10**10))


DENSE = (
    b"\x1b[31ma\x1b[0m",
    b"\x1b[m",
    b"\x1b",
    b"\x1b[111111",
    b"a\r",
    b"\xff",
    b"\xff\r",
    b"ab\x1b[K\r",
    b"\x1b[1;32m\xff\r50%\x1b[K\xf0\x9f\r",
)


@figure("output: 128 KiB of escapes, returns and invalid UTF-8 to text, the worst of %d kinds" % len(DENSE), 15.0, "ms")
def _() -> Iterator[float]:
    def _to_text(piece: bytes) -> float:
        data = (piece * 131072)[:131072]
        return statistics.median(
            1000 * took(lambda: MODES.truncation.fit(bash_tool.Captured(data, b"", len(data)), MODES)) for _ in range(3)
        )

    for _ in range(7):
        yield max(map(_to_text, DENSE))


# ---- ending ---------------------------------------------------------------------------------------------


def beyond(limit_s: float, clean_up_s: float, times: int) -> float:
    """Milliseconds that a call takes beyond its timeout and what the command does about its end."""
    command = "trap 'sleep %g; exit' TERM; sleep 600 & wait" % clean_up_s if clean_up_s else "sleep 600"
    return statistics.median(
        1000 * (took(lambda: ran(command, timeout_s=limit_s, status="timed_out")) - limit_s - clean_up_s)
        for _ in range(times)
    )


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


@figure(
    "import: bash_tool / the standard modules that it imports",
    1.25,
    instead=1.60,
    because="its classes, and 320 KB of bytecode",
)
def _() -> Iterator[float]:
    def _import_s(name: str) -> float:
        return float(
            in_child(
                "import time; begun = time.perf_counter(); import %s; print(time.perf_counter() - begun)" % name,
                use=False,
            )
        )

    for _ in range(7):
        pairs = [(_import_s("bash_tool"), _import_s("its_modules")) for _ in range(scaled(10, 3))]
        yield statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)


def what_imports_cost() -> dict[str, float]:
    """Milliseconds of each standard module with what it imports for the first time, in the order in which bash_tool comes to them."""
    told = subprocess.run(
        [
            sys.executable,
            "-X",
            "importtime",
            "-c",
            "import sys; sys.path.insert(0, %r); import bash_tool" % str(FOLDER),
        ],
        stderr=subprocess.PIPE,
        env=ENV,
        check=True,
    ).stderr.decode()
    rows = [
        (len(indent), name, int(own), int(total))
        for own, total, indent, name in re.findall(r"import time:\s+(\d+) \|\s+(\d+) \|( +)(\S+)", told)
    ]
    depth = next(depth for depth, name, _, _ in rows if name == "bash_tool")
    begin = max([n for n, (d, name, _, _) in enumerate(rows) if d == depth and name != "bash_tool"], default=-1) + 1
    costs = {name: total / 1000 for d, name, _, total in rows[begin:] if d == depth + 2}
    costs["bash_tool itself"] = next(own for _, name, own, _ in rows if name == "bash_tool") / 1000
    return costs


# ---- the table ------------------------------------------------------------------------------------------


def judged(one: Figure) -> dict[str, Any]:
    """The figure as a row: its median, noise and verdict."""
    values = list(one.measure())
    value = statistics.median(values)
    noise = statistics.median(abs(each - value) for each in values)

    def _missed(target: float | None, slack: float) -> bool:
        return target is not None and (value + slack < target if one.at_least else value - slack > target)

    verdict = (
        ""
        if one.target is None
        else "met"
        if not _missed(one.target, 0)
        else "met within the noise"
        if not _missed(one.target, noise)
        else "MISSED"
    )
    if verdict == "MISSED" and one.instead is not None and not _missed(one.instead, 0):
        verdict = "out of reach"
    return {
        "figure": one.name,
        "value": value,
        "noise": noise,
        "unit": one.unit,
        "target": one.target,
        "at_least": one.at_least,
        "verdict": verdict,
        "instead": one.instead,
        "because": one.because,
        "values": values,
    }


def line(row: dict[str, Any]) -> str:
    """A row of the table."""

    def _number(value: float) -> str:
        return "%.1f %s" % (value, row["unit"]) if row["unit"] else "%.2f" % value

    target = "" if row["target"] is None else "%s %s" % ("≥" if row["at_least"] else "≤", _number(row["target"]))
    because = " (%s); %s holds" % (row["because"], _number(row["instead"])) if row["verdict"] == "out of reach" else ""
    return "%-74s %9s ± %-5s %-10s %s%s" % (
        row["figure"],
        _number(row["value"]),
        _number(row["noise"]).split()[0],
        target,
        row["verdict"],
        because,
    )


def main() -> int:
    """Measures, prints, and returns 1 if a target was missed."""
    global QUICK
    parser = argparse.ArgumentParser(description="What bash_tool costs.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only figures whose name holds one of them")
    parser.add_argument("--json", action="store_true", help="one object in place of the table")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the repetitions, and of the sizes: a glance, no measurement"
    )
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
