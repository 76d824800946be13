"""What tests of behaviour share: the module under test, processes as /proc shows them, hosts, and a client of MCP.

Nothing here looks into bash_tool: only its public names, its command line, and its server on stdin and stdout.
"""

import atexit
import contextlib
import dataclasses
import functools
import importlib.util
import itertools
import json
import os
import py_compile
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cases import CHECK

TOOL = Path(os.environ.get("BASH_TOOL_MUTANT") or Path(__file__).parent.parent / "bash_tool.py").resolve()
ROOT = os.getuid() == 0
SLACK_S = 1.5  # by which a machine that is busy may be late
PATIENCE_S = 20.0  # for what has no limit of its own


def load_tool(path=TOOL, name="bash_tool"):
    """The module that a file holds, under a name of its own in `sys.modules`."""
    loaded = sys.modules.get(name)
    if loaded is not None and Path(getattr(loaded, "__file__", "") or "/").resolve() == Path(path):
        return loaded
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


bash_tool = load_tool()


def _importable():
    """A folder from which every program, of any user, imports the module under test, compiled once."""
    folder, owner = Path(tempfile.mkdtemp(prefix="importable-", dir="/tmp")), os.getpid()
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    shutil.copy(TOOL, folder / "bash_tool.py")
    cached = folder / "__pycache__" / ("bash_tool.%s.pyc" % sys.implementation.cache_tag)  # whatever the prefix is
    py_compile.compile(str(folder / "bash_tool.py"), cfile=str(cached))
    for each in folder, folder / "__pycache__":
        each.chmod(0o755)
    return str(folder)


IMPORTABLE = _importable()


def row(default=1.0, grace=0.4, profile=bash_tool.MODES, **changes):
    """A profile with tiny limits."""
    return dataclasses.replace(profile, timeouts_s=dict(profile.timeouts_s, default=default), grace_s=grace, **changes)


def made(cwd=None, default=1.0, grace=0.4, profile=bash_tool.MODES, **options):
    """A tool with tiny limits."""
    return bash_tool.BashTool(cwd, profile=row(default, grace, profile), **options)


# ---- Names that are this run's alone ------------------------------------------------------------

_numbers = itertools.count(1)


def unique():
    """A number that stands in no other run's command: six digits of this process, then a count."""
    return "1%06d%04d" % (os.getpid() % 1000000, next(_numbers))


# ---- Processes ----------------------------------------------------------------------------------


def processes():
    """The numbers of all processes but this one's."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and int(entry) != os.getpid()]


def of_proc(pid, name):
    """The bytes of a file in /proc/PID; none where the process is gone, or not ours to read."""
    try:
        return Path("/proc/%d/%s" % (pid, name)).read_bytes()
    except OSError:
        return b""


def alive(pid):
    """Whether a process runs; a zombie does not."""
    return of_proc(pid, "stat").rpartition(b") ")[2][:1] not in (b"", b"Z", b"X")


def parent(pid):
    return int(of_proc(pid, "stat").rpartition(b") ")[2].split()[1])


def running(word, count=None):
    """The live processes that have this word among their arguments; with a count, whether there are so many."""
    found = [pid for pid in processes() if word.encode() in of_proc(pid, "cmdline").split(b"\0") and alive(pid)]
    return found if count is None else len(found) == count


def carriers(mark):
    """The processes that have this variable in their environment."""
    return [pid for pid in processes() if mark.encode() in of_proc(pid, "environ")]


def dwellers(folder):
    """The processes whose directory lies in this folder."""
    found = []
    for pid in processes():
        with contextlib.suppress(OSError):
            if os.readlink("/proc/%d/cwd" % pid).startswith(str(folder)):
                found.append(pid)
    return found


def end_all(mark, folder):
    """Kills what carries the mark or dwells in the folder, by number, until nothing does."""
    for _ in range(500):
        left = {*carriers(mark), *dwellers(folder)}
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not any(map(alive, left)):
            return
        time.sleep(0.01)


def eventually(claim, within_s=PATIENCE_S):
    """What the claim says, as soon as that is true, else at the deadline."""
    end = time.monotonic() + within_s
    while True:
        said = claim()
        if said or time.monotonic() > end:
            return said
        time.sleep(0.01)


def content(path, within_s=PATIENCE_S):
    """The text of a file, once it is there and ends with a newline."""

    def text():
        with contextlib.suppress(OSError):
            return (Path(path).read_bytes().decode(errors="replace") or "-").rpartition("\n")[0]

    return eventually(text, within_s)


def side_by_side(act, cases, workers=8):
    """Does this with each of the cases, in threads, and says for which of them it failed."""

    def tried(case):
        try:
            act(case)
        except Exception as problem:
            return "%s: %s: %s" % (case, type(problem).__name__, problem)

    with ThreadPoolExecutor(workers) as pool:
        failed = list(filter(None, pool.map(tried, cases)))
    assert not failed, "\n".join(failed)


# ---- Hosts --------------------------------------------------------------------------------------

PRELUDE = """\
import dataclasses, json, os, re, signal, subprocess, sys, threading, time
sys.path.insert(0, %r)
from bash_tool import MODES, BashTool, Cancel

def row(default=1.0, grace=0.4, **changes):
    return dataclasses.replace(MODES, timeouts_s=dict(MODES.timeouts_s, default=default), grace_s=grace, **changes)

def say(*values):
    sys.stdout.write(json.dumps(values) + chr(10))
    sys.stdout.flush()

def hear():
    return sys.stdin.readline().strip()
"""


class Process:
    """A process with pipes, whose lines are awaited until a deadline, and which is ended with the block."""

    def __init__(self, words, **options):
        self.errors = tempfile.TemporaryFile()
        options = dict(dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, bufsize=0), **options)
        self.process = subprocess.Popen([str(word) for word in words], **options)
        self.pid, self._buffer = self.process.pid, b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for stream in self.process.stdin, self.process.stdout, self.errors:
            with contextlib.suppress(OSError, AttributeError):
                stream.close()

    def complaints(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")[-2000:]

    def line(self, within_s=PATIENCE_S):
        """The next line; None at the end."""
        deadline, fd = time.monotonic() + within_s, self.process.stdout.fileno()
        while b"\n" not in self._buffer:
            ready = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]
            assert ready, "nothing came within %g s: %s" % (within_s, self.complaints())
            chunk = os.read(fd, 1 << 16)
            if not chunk:
                return None
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def write(self, data):
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def ended(self, within_s=PATIENCE_S):
        """Its exit code."""
        return self.process.wait(timeout=within_s)


class Host(Process):
    """A program with the tool imported, in an interpreter of its own. `tell` writes a line to it, `hear` takes what it
    says. `wrap` stands before the interpreter."""

    def __init__(self, program, *arguments, wrap=(), python=(sys.executable,), prelude="", **options):
        text = prelude + PRELUDE % IMPORTABLE + textwrap.dedent(program)
        super().__init__([*wrap, *python, "-c", text, *arguments], **options)

    def hear(self, within_s=PATIENCE_S):
        line = self.line(within_s)
        assert line is not None, "the host has ended: " + self.complaints()
        said = json.loads(line)
        return said[0] if len(said) == 1 else said

    def tell(self, word=""):
        self.write(b"%s\n" % str(word).encode())


def cli(*arguments, wrap=(), within_s=PATIENCE_S, **options):
    """The command line, as a user runs it."""
    words = [*wrap, sys.executable, str(TOOL), *map(str, arguments)]
    options = dict(dict(stdin=subprocess.DEVNULL, capture_output=True, timeout=within_s), **options)
    return subprocess.run(words, **options)


class Client(Process):
    """A client of `--mcp` on stdin and stdout; it can be slow, rude or gone."""

    def __init__(self, *arguments, wrap=(), tool=TOOL, timeouts=None, env=None, **options):
        env = dict(os.environ if env is None else env, BASH_TOOL_TIMEOUTS=json.dumps(timeouts or {}))
        super().__init__([*wrap, sys.executable, tool, "--mcp", *arguments], env=env, **options)
        self.number, self.answers, self.told = 0, {}, []

    def send(self, **message):
        self.write(json.dumps(dict(jsonrpc="2.0", **message)).encode() + b"\n")

    def begin(self, command, token=None, **arguments):
        """Sends a call; returns its id."""
        self.number += 1
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        params = dict(name="bash", arguments=dict(arguments, command=command), **meta)
        self.send(id=self.number, method="tools/call", params=params)
        return self.number

    def cancel(self, number):
        self.send(method="notifications/cancelled", params={"requestId": number})

    def answer(self, number, within_s=PATIENCE_S):
        """The answer to this id, whatever comes before it."""
        while number not in self.answers:
            line = self.line(within_s)
            assert line is not None, "the server has ended: " + self.complaints()
            message = json.loads(line)
            if "method" in message:
                self.told.append(message)
            else:
                assert message["id"] not in self.answers, "answered twice: %s" % message
                self.answers[message["id"]] = message
        return self.answers[number]

    def text(self, number, within_s=PATIENCE_S):
        return self.answer(number, within_s)["result"]["content"][0]["text"]

    def call(self, command, within_s=PATIENCE_S, **arguments):
        """The text of the answer to a call."""
        return self.text(self.begin(command, **arguments), within_s)

    def end(self, within_s=PATIENCE_S):
        """Closes the server's input; its exit code."""
        self.process.stdin.close()
        return self.ended(within_s)


# ---- Places -------------------------------------------------------------------------------------

needs_root = pytest.mark.skipif(not ROOT, reason="takes root")


def needs(*programs):
    """Skips a test where one of these programs is not installed."""
    lacking = [program for program in programs if not shutil.which(program)]
    return pytest.mark.skipif(bool(lacking), reason="not installed: " + " ".join(lacking))


@functools.lru_cache(maxsize=None)
def unshared(*options):
    """What stands before a program that gets namespaces of its own; skips where there are none."""
    words = ("unshare", "--kill-child", "--fork", *options)
    if not shutil.which("unshare") or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("takes root and unshare: " + " ".join(options))
    return words


PID_NAMESPACE = ("--pid", "--mount-proc")
MOUNTS = ("--mount", "--propagation", "private")


@contextlib.contextmanager
def cgroup(controller, **limits):
    """A control group below the one of its controller, whatever version; skips where none can be made. It yields what
    stands before a program that is to live in it, and its folder."""
    place = Path("/sys/fs/cgroup", controller)
    place = place if place.is_dir() else Path("/sys/fs/cgroup")
    folder = place / ("of-a-test-" + unique())
    try:
        folder.mkdir()
    except OSError as problem:
        pytest.skip("takes a control group for %s: %s" % (controller, problem))
    try:
        try:
            for name, value in limits.items():
                (folder / name.replace("__", ".")).write_text(str(value))
        except OSError as problem:
            pytest.skip("takes the controller %s: %s" % (controller, problem))
        yield ("sh", "-c", 'echo $$ > %s/cgroup.procs && exec "$@"' % folder, "sh"), folder
    finally:

        def removed():
            with contextlib.suppress(OSError):
                for pid in (folder / "cgroup.procs").read_text().split():
                    with contextlib.suppress(OSError):
                        os.kill(int(pid), signal.SIGKILL)
                folder.rmdir()
            return not folder.exists()

        eventually(removed, 5)


# A program that refuses system calls to itself and all its descendants, as kernels and sandboxes without them do, and
# becomes another one: words like pidfd subreaper, then `--` and the program.
REFUSING = r"""
import ctypes, os, struct, sys
CALLS = {"pidfd": [(434, None), (424, None)], "memfd": [(319, None)], "subreaper": [(157, 36)]}   # of x86_64
end = sys.argv.index("--")
code = lambda *each: struct.pack("HBBI", *each)
program = b""
for word in sys.argv[1:end]:
    for number, first in CALLS[word]:
        program += code(0x20, 0, 0, 0)                                  # the number
        if first is None:
            program += code(0x15, 0, 1, number)
        else:
            program += code(0x15, 0, 3, number) + code(0x20, 0, 0, 16) + code(0x15, 0, 1, first)
        program += code(0x06, 0, 0, 0x50000 | 38)                       # ENOSYS
program += code(0x06, 0, 0, 0x7FFF0000)
text = ctypes.create_string_buffer(program)
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(text)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, filter, 0, 0):
    sys.exit("no seccomp: " + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[end + 1], sys.argv[end + 1:])
"""


def refusing(*words):
    """What stands before a program whose kernel lacks these."""
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers of system calls are those of x86_64")
    wrap = (sys.executable, "-I", "-S", "-c", REFUSING, *words, "--")
    if subprocess.run([*wrap, "true"], capture_output=True).returncode:
        pytest.skip("takes seccomp")
    return wrap


# A file system whose server takes each request and answers none, so that what waits cannot be killed.
HANGING = r"""
import ctypes, os, signal, struct, sys, time
signal.alarm(90)
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("/dev/fuse", os.O_RDWR)
if libc.mount(b"hanging", sys.argv[1].encode(), b"fuse", 0, b"fd=%d,rootmode=40000,user_id=0,group_id=0" % fd):
    sys.exit(os.strerror(ctypes.get_errno()))
asked = os.read(fd, 1 << 21)
unique, ahead = struct.unpack_from("<Q", asked, 8)[0], struct.unpack_from("<I", asked, 48)[0]
reply = struct.pack("<IIIIHHI", 7, 31, ahead, 0, 12, 9, 65536).ljust(64, b"\0")
os.write(fd, struct.pack("<IiQ", 16 + len(reply), 0, unique) + reply)
print("up", flush=True)
while True:
    os.read(fd, 1 << 21)
"""


@contextlib.contextmanager
def hanging(path):
    """The directory hangs within the block. Nothing waits any more at its end."""
    if not ROOT or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("takes root and /dev/fuse")
    server = subprocess.Popen([sys.executable, "-I", "-S", "-c", HANGING, str(path)], stdout=subprocess.PIPE)
    try:
        if server.stdout.readline() != b"up\n":
            pytest.skip("nothing can be mounted here")
        yield
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
        subprocess.run(["umount", "-l", str(path)], capture_output=True)


# ---- Answers ------------------------------------------------------------------------------------


def stop_in(text):
    """The command by which a note says that a leftover is ended."""
    found = re.search(r"; to stop: (kill -9( -?\d+)+)", text)
    assert found, text
    return found.group(1)


def with_each_face(act, place):
    """Does this with a library tool and with a server: each a function of a command that gives the text."""

    def with_this(face):
        if face == "library":
            with made(state_dir=place / face) as tool:
                act(lambda command, **mode: tool.call(dict(mode, command=command)).text)
        else:
            with Client("--state-dir", place / face) as client:
                act(client.call)

    side_by_side(with_this, ["library", "server"])


def started(text):
    """Number and file of a job, out of the answer to its start."""
    found = re.search(r"<pid>(\d+)</pid>\n<output_file>(.*)</output_file>\n<reminder>To stop: kill -9 -\1<", text)
    assert found, text
    return int(found.group(1)), Path(found.group(2))


def resident(pid):
    return int(of_proc(pid, "statm").split()[1]) * resource.getpagesize()


CHECKED = [
    ["exited", 0, "hi\n"],
    ["exited", 3, "no\n"],
    ["exited", 137, ""],
    ["exited", 0, ""],
    ["timed_out", None, "partial\n"],
    ["exited", 0, "40000\n"],
    ["exited", 0, "🙂"],
    ["left\n", 0],
    ["running", "up", True, True, "exited", 143],
]


def checks(wrap=(), python=(sys.executable,), first="", then="", jobs=True, left=True, **options):
    """The tool answers there as it does everywhere, and leaves nothing."""
    number = unique()
    ending = "tool = BashTool(profile=row(0.6, 0.3))\nsay(check(tool, '%s', %r, %r))\nhear()\n" % (number, jobs, left)
    with Host(CHECK + then + ending, wrap=wrap, python=python, prelude=first, **options) as host:
        said = host.hear()
        assert said == CHECKED[: None if jobs else -1], (said, host.complaints())
        assert eventually(lambda: not running(number), SLACK_S)
