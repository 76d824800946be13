"""What the tests share: the module under test and its variants, hosts, the command line, clients of the server, places."""

import ast
import atexit
import contextlib
import dataclasses
import functools
import gc
import importlib.util
import inspect
import itertools
import json
import marshal
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.accident_cases import CHECK
from tests.processes import CHANGED, PATIENCE_S, alive, eventually, left_by, of_proc, parent_of, processes, running
from tests.spec import CLAUSES, HERE


# ---- Saboteurs -------------------------------------------------------------------------------------------------------
SOURCE = (HERE / "bash_tool.py").read_text(encoding="utf-8")
SABOTEURS = {}  # of clauses
SABOTEURS_OF_FAULTS = {}  # of what no single clause says: the injected faults

# Those that make their property wait for hours; 024.3 computes for hours.
HANGS = {"004.6", "011.1", "015.3", "015.5", "024.3", "t06", "t52"}
TESTS = {}  # of each of them the module and the name of its test
# The clauses of which SPEC.md, section 6, takes something away where a command is its process group: not asked there.
BY_THE_TREE = """002.9 002.10 003.1 003.4 003.6 003.7 003.8 003.9 003.10 003.11 003.13 003.14 003.15 003.17 003.21 003.22 003.23 004.4 004.6
004.13 007.5 011.2 011.5 011.6 011.7 012.4 017.14 020.1 020.2 020.4 021.6 021.7 021.8 021.9 025.14 025.16 027.1 027.2 027.3
027.4 027.5 027.6 029.1 029.2 029.3""".split()


def _register(table, number, saboteur, test):
    if saboteur is not None:
        assert number not in table, "two saboteurs of %s" % number
        table[number], TESTS[number] = saboteur, (test.__module__, test.__name__)


def clause(number, saboteur=None):
    """Decorator: the test is the property of this clause; its docstring is the clause's sentence in SPEC.md."""

    def decorate(test):
        _register(SABOTEURS, number, saboteur, test)
        inner = getattr(getattr(test, "hypothesis", test), "inner_test", test)
        if number in CLAUSES and inner.__doc__ is None:  # a number that SPEC.md lacks is found by test_spec_ties
            inner.__doc__ = test.__doc__ = CLAUSES[number][0]
        return needs_proc(test) if number in BY_THE_TREE else test

    return decorate


def fault(name, saboteur=None):
    """Decorator: the same for a test of faults, which no single clause says. `name` is t and a number, or another begin
    of the test's name after `test_`, with `-1`, `-2`, … where there are several."""

    def decorate(test):
        _register(SABOTEURS_OF_FAULTS, name, saboteur, test)
        return test

    return decorate


def saboteurs_at_tests():
    """The saboteurs of all clauses and faults."""
    return {**SABOTEURS, **SABOTEURS_OF_FAULTS}


def sabotaged(number):
    """The text of bash_tool.py with the wrong change, or changes, for this clause or fault."""
    places = saboteurs_at_tests()[number]
    return changed(SOURCE, *one_or_more(places))


def one_or_more(places):
    """A saboteur as a list of changes: it may be a single one."""
    return [places] if isinstance(places[0], str) else places


@functools.lru_cache(maxsize=4)
def spans(source):
    """Where the definitions of a name stand in the source, decorators left out: {"Class.method": [(begin, end)]}. Functions
    and constants, also those of a class, are definitions too; the signatures of an overload are none."""
    begins = [0, *itertools.accumulate(map(len, source.splitlines(keepends=True)))]
    found = {}

    def look(body, around):
        for node in body:
            if any(getattr(each, "id", "") == "overload" for each in getattr(node, "decorator_list", ())):
                continue  # for those who check types: the definition itself follows
            for target in getattr(node, "targets", [getattr(node, "target", node)]):
                name = around + getattr(target, "name", getattr(target, "id", ""))
                found.setdefault(name, []).append((begins[node.lineno - 1], begins[node.end_lineno]))
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                look(node.body, around + node.name + ".")

    look(ast.parse(source).body, "")
    return found


def changed(source, *places):
    """The source with changes. Each is (place, old, new): within that definition (see `spans`) `old` must stand exactly
    once, wherever its lines break, and `new` takes its place. Further lines of `new` are indented from the line where
    `old` begins."""
    edits = []
    for place, old, new in places:
        defined = spans(source).get(place, [])
        assert len(defined) == 1, "%d definitions of %s" % (len(defined), place)
        begin, end = defined[0]
        found = list(re.finditer(_anyhow_laid_out(old), source[begin:end]))
        assert len(found) == 1, "%d times in %s: %s" % (len(found), place, old)
        first = begin + found[0].start()
        indent = re.match(r"[ ]*", source[source.rindex("\n", 0, first) + 1 :])[0]
        edits.append((first, begin + found[0].end(), new.replace("\n", "\n" + indent)))
    for first, last, new in sorted(edits, reverse=True):  # from the end: the places before keep their numbers
        source = source[:first] + new + source[last:]
    return source


def _anyhow_laid_out(text):
    """A pattern of this text, whatever blanks and line breaks stand between its words and signs."""
    pattern = r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", text)))
    return re.sub(r"(?<=\w)\\s\*(?=\w)", r"\\s+", pattern)


def written(source, prefix, folder=None):
    """The path of a file bash_tool.py, in a folder of its own, with this source."""
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=folder)) / "bash_tool.py"
    path.write_text(source, encoding="utf-8")
    return path


# ---- The module under test -------------------------------------------------------------------------------------------


# What a platform may lack, and the change that takes it away; see SPEC.md, "Fallbacks". The note that each stop has
# there would stand in most texts: test_row_21_a_kernel_that_refuses_a_subreaper asks for it.
TOLD = "append(note)"
NO_NOTE = ("Command.end_output", TOLD, "extend([note] * bool(names))")
ABSENT_FEATURES = {
    "proc": [("PROC", '"/proc" if', '"/dev/null/proc" if'), NO_NOTE],
    "subreaper": [("_become_subreaper", "HAS_CHILDREN_FILES and _prctl(_PR_SET_CHILD_SUBREAPER, 1)", "False"), NO_NOTE],
    "memfd": [("data_file", 'fd = os.memfd_create("btool")', "raise OSError")],
    "python": [("_python", "def _python() -> str | None:", "def _python() -> str | None:\n    return None")],
}
TOOL = Path(os.environ.get("BASH_TOOL_MUTANT", HERE / "bash_tool.py"))  # a changed one: a saboteur's, a mutant
WITHOUT = os.environ.get("BASH_TOOL_WITHOUT", "")
if WITHOUT:
    TOOL = written(changed(TOOL.read_text(encoding="utf-8"), *ABSENT_FEATURES[WITHOUT]), "without-")


def load_tool(path=TOOL, name="bash_tool"):
    """The module that a file holds, under a name of its own in `sys.modules`."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


bash_tool = load_tool()
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:  # by `make test &` or nohup; the tests send these signals
        signal.signal(number, signal.SIG_DFL)
BashTool, Cancel, MODES, PROFILES = bash_tool.BashTool, bash_tool.Cancel, bash_tool.MODES, bash_tool.PROFILES


def variant_module(*places, **constants):
    """A copy of the module with other constants, `FILE_CAP_BYTES="200 * KIB"`, and changes, (place, old, new): in this
    process, in its fork server and in its supervisors. A constant's assignment is replaced whole."""
    source = changed(TOOL.read_text(encoding="utf-8"), *places)
    for name, value in constants.items():
        line = r"(?m)^(%s(?:: [^=\n]+)?) = .*$" % name
        source, count = re.subn(line, lambda found: "%s = %s" % (found[1], value), source)
        assert count == 1, (name, count)
    return load_tool(written(source, "variant-"), "bash_tool_variant_%d" % next(variants))


variants = itertools.count(1)

# Where a supervisor begins; the fork server that forks it has not been here.
IN_A_SUPERVISOR = ("Supervisor.serve", 'channel.send("hello", os.getpid())')


def with_supervisors_that(act, **constants):
    """A copy of the module, in whose supervisors these lines are executed before anything else."""
    return variant_module((*IN_A_SUPERVISOR, act + IN_A_SUPERVISOR[1]), **constants)


JOBS, STREAMS, GUARDED = (getattr(bash_tool, name) for name in ("JOBS", "STREAMS", "GUARDED"))


# ---- How much is drawn, and what a test needs ------------------------------------------------------------------------
ROOT = os.getuid() == 0
PLAIN_PYTHON = next(  # an interpreter that any user may start
    (path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if os.access(path, os.X_OK)), sys.executable
)
needs_root = pytest.mark.skipif(not ROOT, reason="takes root")
IS_BLIND = WITHOUT in ("proc", "subreaper")
needs_proc = pytest.mark.skipif(IS_BLIND, reason="SPEC.md, Fallbacks: a command is its process group then")
THOROUGH = "BASH_TOOL_THOROUGH" in os.environ  # make thorough: more examples, larger sizes, longer soaks
settings.register_profile(
    "suite",
    derandomize=not THOROUGH,  # `make test` says the same each time; `make thorough` looks for what is new
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    **dict(deadline=None, max_examples=500 if THOROUGH else 100 if CHANGED else 30, print_blob=True),
)
settings.register_profile("sabotage", settings.get_profile("suite"), phases=[Phase.explicit, Phase.generate])
settings.load_profile("sabotage" if CHANGED else "suite")
exhaustive = pytest.mark.exhaustive  # not in `make test`, but in `make exhaustive`, which CI runs, and `make thorough`


def first_of(variants, *named):
    """The variants of a test, of which `make test` runs these alone."""
    return [each if each in named else pytest.param(each, marks=exhaustive) for each in variants]


def draws(count):
    """So many examples of a property, of which each costs milliseconds; twenty-five times as many in `make thorough`."""
    return settings(max_examples=25 * count if THOROUGH else 2 * count if CHANGED else count)


def _drawing(ordinary, thorough, **more):
    """A decorator for a property of so few examples: `@few(…)` draws what `@given(…)` does; `@few` alone stands beside it."""
    limits = settings(max_examples=thorough if THOROUGH else 2 * ordinary if CHANGED else ordinary, **more)

    def drawing(*strategies, **named):
        if strategies and inspect.isfunction(strategies[0]):
            return limits(*strategies)
        return lambda test: limits(given(*strategies, **named)(test))

    return drawing


few = _drawing(6, 60)  # where each example is a process
fewer = _drawing(3, 25)  # ... that runs into a timeout
# ... where several commands run side by side, and to shrink a failure would take minutes
fewest = _drawing(2, 25, phases=[Phase.explicit, Phase.reuse, Phase.generate])


# ---- Places and names of a test --------------------------------------------------------------------------------------
TEMPORARY = tempfile.gettempdir()  # for what outlives a test, each of which has a folder of its own


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch, tmp_path):
    """Each test runs in a folder of its own; what carries its mark or dwells there is ended with it, also when it fails."""
    mark = "TEST_OF_BASH_TOOL_%d_%s" % (os.getpid(), os.urandom(4).hex())
    monkeypatch.setenv(mark, "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # kept from its first use on, whatever TMPDIR is
    monkeypatch.chdir(tmp_path)
    for name in "BASH_TOOL_PROFILE", "BASH_TOOL_SET", "BASH_TOOL_STRUCTURED":
        monkeypatch.delenv(name, raising=False)
    older = frozenset(processes())
    yield mark
    end_all(mark, tmp_path, older)


def end_all(mark, folder, older=frozenset()):
    """Kills what carries the mark or dwells in the folder, by number, until nothing does."""

    def ended():
        left = left_by(mark, folder, older)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return not any(map(alive, left))

    eventually(ended)


RUN = "%05d" % (os.getpid() % 100000)
_numbers = itertools.count(1)


def slack_s():
    """By how many seconds a machine that is as busy as now may be late."""
    return min(20.0, 1.5 + 1.5 * os.getloadavg()[0] / (os.cpu_count() or 1))


def short_limit_s():
    """A short limit, within which a command has printed its first line also on a machine as busy as now."""
    return round(slack_s() / 6, 2)


def unique():
    """A number that stands in no other run's command: six digits of this process, then a count."""
    return "1%06d%04d" % (os.getpid() % 1000000, next(_numbers))


def lasting(text):
    """The text with `sleep 600` (601, 600.5, …) as a sleep of a number of seconds that is this run's alone: nobody
    else's pkill ends it, and where one is left it is known whose."""
    return re.sub(r"sleep 60(?=\d|%d)", "sleep 60" + RUN, text)


def until_lasting(last, count):
    """In a command: waits until `sleep 60` and these last figures run so often, as `lasting` writes them. What has been
    forked a moment ago is not yet `sleep`."""
    pattern = "-e60%s%s" % (RUN, last)
    return "until [ $(grep -lszx %s /proc/[0-9]*/cmdline | wc -l) -ge %d ]; do sleep 0.1; done; " % (pattern, count)


def _kept_folder(prefix):
    """A new folder that is removed when this process, and no fork of it, ends."""
    folder, owner = tempfile.mkdtemp(prefix=prefix, dir=TEMPORARY), os.getpid()
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    return folder


# ---- This process ----------------------------------------------------------------------------------------------------
def descriptors():
    return sorted(os.listdir("/proc/self/fd"))


def tasks():
    return len(os.listdir("/proc/self/task"))


OWN_THREADS = tasks()  # before any test: one, and in a worker of pytest-xdist the thread that listens


def children():
    found = set()
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError):  # a thread that ends just now
            found.update(map(int, Path("/proc/self/task", task, "children").read_text().split()))
    return found


def default_signals():
    """In a child before its exec: commands start with the default dispositions, whatever `make &` ignores."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def long_look(look_s=60.0):
    """Within the block a command that ends by itself has ended when its start in the background is answered."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bash_tool, "EARLY_END_S", look_s)
        yield


def warm_up(module=bash_tool):
    """Fills the place for idle supervisors, each of which holds a descriptor of the host: how many of them there are
    after some calls is a matter of luck, but never more than now."""
    tool, begun = module.BashTool(), Path(tempfile.mkdtemp(), "begun")
    each = "echo >> %s; until [ $(wc -l < %s) = %d ]; do sleep 0.1; done" % (begun, begun, module.MAX_IDLE)
    with ThreadPoolExecutor(module.MAX_IDLE) as pool:
        assert all(result.ok for result in pool.map(tool.run, [each] * module.MAX_IDLE))


def no_leak(calls, rounds=3):
    """Runs `calls`; descriptors, threads and children come back to what they were after the first round."""
    assert eventually(lambda: tasks() == OWN_THREADS)  # what an earlier test left running has ended
    calls()
    warm_up()
    assert eventually(lambda: tasks() == OWN_THREADS)
    before = descriptors()
    for _ in range(rounds):
        calls()
    flat = eventually(lambda: len(descriptors()) <= len(before) and tasks() == OWN_THREADS)
    assert flat, (before, descriptors(), tasks())
    assert not children()


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


# ---- Tools with tiny limits, and tokens ------------------------------------------------------------------------------
def tiny(default=1.0, grace=0.4, profile=None, module=bash_tool, **changes):
    """A profile, MODES if none is given, with tiny limits: a second for the first words, on a busy machine."""
    row = profile or module.MODES
    return dataclasses.replace(row, timeouts_s=dict(row.timeouts_s, default=default), grace_s=grace, **changes)


def made(cwd=None, default=1.0, grace=0.4, profile=None, **options):
    """A tool with tiny limits."""
    return BashTool(cwd, profile=tiny(default, grace, profile), **options)


def nowhere_to_write(cwd=None, below="", **options):
    """A tool whose folder for files can no longer be made: a file stands there, or where the folder above it should."""
    place = Path(tempfile.mkdtemp(dir="."), "file")
    tool = BashTool(cwd, state_dir=place / below, **options)
    place.touch()
    return tool


def cancelled_after(seconds):
    """A token that is cancelled after so many seconds."""
    cancel = Cancel()
    threading.Timer(seconds, cancel.cancel).start()
    return cancel


def cancelled_when(sign, times=1, written=False):
    """A token that is cancelled as soon as a file of this name is there, or has a whole line; or a function says so."""
    cancel, path = Cancel(), not callable(sign) and Path(sign)

    def has_come():
        return path.exists() and (not written or path.read_text().endswith("\n"))

    def watch():
        if eventually(has_come if path else sign):
            for _ in range(times):
                cancel.cancel()
                time.sleep(0.3)

    threading.Thread(target=watch, daemon=True).start()
    return cancel


def keeping(timeout_s=1.0, **changes):
    return dataclasses.replace(JOBS, timeouts_s={"default": timeout_s}, grace_s=0.5, **changes)


def in_profile(name, **changes):
    """A row with tiny limits that can have jobs of its own: JOBS keeps them, MODES starts them in the background."""
    row = dataclasses.replace(PROFILES[name], grace_s=0.5, drain_idle_s=0.1, **changes)
    return row if name == "modes" else dataclasses.replace(row, timeouts_s={"default": 0.3})


def ran(*words, **options):
    """A program that has run to its end, with what it wrote; it has no input."""
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": PATIENCE_S, **options}
    return subprocess.run(words, **options)


def has_locale(folder, name, charmap):
    """Makes a locale in a folder for LOCPATH; False where this machine has not what that takes."""
    if not shutil.which("localedef"):
        return False
    ran("localedef", "-i", name.partition(".")[0], "-f", charmap, str(folder / name))
    told = ran("locale", "charmap", env=dict(os.environ, LOCPATH=str(folder), LC_ALL=name))
    return told.stdout.decode().strip() == charmap


def plain_bash(command, **options):
    """What bash says of the command without the tool."""
    return ran("bash", "-c", command, start_new_session=True, preexec_fn=default_signals, **options)


# ---- Hosts, the command line, clients --------------------------------------------------------------------------------
# The module under test as a compiled file that is never checked against its source: to compile it anew takes 0.15 s.
PYC = importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + bytes(8) + marshal.dumps(bash_tool._CODE)


def _importable():
    """A folder from which every program, of any user, imports the module under test, compiled once."""
    owner = os.getpid()
    folder = Path(tempfile.mkdtemp(prefix="importable-%d-" % owner, dir="/tmp"))
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    shutil.copy(TOOL, folder / "bash_tool.py")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / ("bash_tool.%s.pyc" % sys.implementation.cache_tag)).write_bytes(PYC)
    for each in folder, folder / "__pycache__":
        each.chmod(0o755)
    return str(folder)


IMPORTABLE = _importable()
os.environ.pop("PYTHONPYCACHEPREFIX", None)  # where those programs would look for the compiled file in vain


@functools.lru_cache(maxsize=None)
def compiled_script():
    """The path of a script that behaves as bash_tool.py does and starts in half the time: the code comes compiled. Tests
    that start bash_tool.py itself name TOOL."""
    folder = Path(_kept_folder("script-"))
    path = folder / "bash_tool.py"
    text = "import sys\nwith open(%r, 'rb') as code:\n    code = __import__('marshal').load(code)\n"
    text += "__file__ = sys.argv[0] = %r\nsys.path[0] = %r\nexec(code)\n"
    path.write_text(text % (str(folder / "code"), str(TOOL), str(TOOL.parent)))
    (folder / "code").write_bytes(marshal.dumps(bash_tool._CODE))
    for each in folder, path, folder / "code":
        each.chmod(0o755)
    return str(path)


def forked(act, env=None, **options):
    """A process that does this instead of what Popen starts: a fork of this one that does not get to its exec. It costs
    a fifth of an interpreter that starts and imports. What depends on how Python starts or ends (the locale, a closed
    descriptor, the arguments that /proc shows) needs an interpreter."""

    def run():
        code = 70
        try:
            os.closerange(3, 1024)  # with the pipe through which Popen hears of the exec
            gc.freeze()  # finalizers of this process's files would close descriptors of the child's
            gc.enable()
            for number in signal.SIGPIPE, signal.SIGXFSZ:
                signal.signal(number, signal.SIG_IGN)  # as Python starts; Popen has set SIG_DFL
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if env is not None:
                os.environ.clear()
                os.environ.update(env)
            sys.stdin, sys.stdout, sys.stderr = (open(fd, mode, closefd=False) for fd, mode in enumerate("rww"))
            try:
                code = act()
            except SystemExit as end:
                code = end.code
            sys.stdout.flush(), sys.stderr.flush()
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code if isinstance(code, int) else 0 if code is None else 70)

    return subprocess.Popen([sys.executable], preexec_fn=run, **options)


def forked_program(*arguments, module=None, **options):
    """A process that does what bash_tool.py, or this variant of it, does with these arguments."""

    def act():
        sys.argv = [str(TOOL), *arguments]
        return (module or bash_tool).main(arguments)

    return forked(act, **options)


# What the programs of `in_host` and `dying_host` need not say; nor do they need `lasting`.
IMPORTS = """\
import dataclasses, gc, hashlib, json, os, random, resource, signal, sys, tempfile, threading, time
from bash_tool import MODES, BashTool, Cancel
"""


def forked_host(program, *arguments, module=None, **options):
    """A process that runs a program as `python3 -c` does, after IMPORTS, with this variant of the module as the tool."""

    def act():
        main, sys.argv = type(sys)("__main__"), ["-c", *map(str, arguments)]
        sys.modules.update({"__main__": main, "bash_tool": module or bash_tool})
        exec(compile(IMPORTS + textwrap.dedent(lasting(program)), "<string>", "exec"), vars(main))
        threading._shutdown()  # waits for its threads, as an interpreter that ends

    return forked(act, **options)


def said_until_its_end(process, within_s):
    """What a process has written to its two pipes, once it has ended; a process that has not by then is killed."""
    with process:
        try:
            return process.communicate(timeout=within_s)
        except BaseException:
            process.kill()
            raise


def cli(*arguments, started=False, wrap=(), **options):
    """The command line as a user runs it: in a fork of this process, which costs a tenth of an interpreter that
    starts, or with `started`, or behind the words of `wrap`, in such a one."""
    arguments = [each if isinstance(each, bytes) else str(each) for each in arguments]
    if started or wrap or "input" in options:
        words = [*wrap, sys.executable, compiled_script(), *arguments]
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(words, **{"capture_output": True, "timeout": 60, **options})
    for stream, default in ("stdin", subprocess.DEVNULL), ("stdout", subprocess.PIPE), ("stderr", subprocess.PIPE):
        options.setdefault(stream, default)
    process = forked_program(*arguments, **options)
    out, err = said_until_its_end(process, PATIENCE_S)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def in_host(program, *arguments, imports=IMPORTS, **options):
    """A program in a process of its own, with the tool importable; returns what it printed. It begins in a fork, with the
    tool imported; with options for subprocess, `started=True` among them, in an interpreter that starts for it."""
    pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if options:
        options.pop("started", None)
        options.setdefault("env", dict(os.environ, PYTHONPATH=IMPORTABLE))
        words = [sys.executable, "-c", imports + textwrap.dedent(lasting(program)), *map(str, arguments)]
        host = subprocess.Popen(words, **pipes, **options)
    else:
        host = forked_host(program, *arguments, **pipes)
    out, err = said_until_its_end(host, 90)
    assert host.returncode == 0, err.decode()
    return out.decode()


def in_fork(act):
    """Does this in a fork of this process, where SIGINT and SIGUSR1 raise in the main thread."""

    def host():
        signal.signal(signal.SIGUSR1, _raise_struck)
        act()

    process = forked(host, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, errors = said_until_its_end(process, 90)
    assert process.returncode == 0, errors.decode()


class Struck(Exception):
    """What SIGUSR1 raises in the main thread of a fork."""


def _raise_struck(*_):
    raise Struck


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

    def __init__(self, words, start=subprocess.Popen, **options):
        self.errors = tempfile.TemporaryFile()
        options = dict(dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, bufsize=0), **options)
        self.process = start([str(word) for word in words], **options)
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


class Client(Process):
    """A client of `--mcp` that says exactly what it is told to, and can be slow, rude or gone. The server is a fork of this
    process; with `started`, `command`, `wrap` or `env` it is an interpreter that starts."""

    def __init__(self, *arguments, module=None, command=None, wrap=(), started=False, env=None, **options):
        plain, timeouts = not (started or command or wrap or env), options.pop("timeouts", None)
        assert plain or module is None, "a variant runs in a fork"
        profile, structured = options.pop("profile", "modes"), options.pop("structured", False)
        if env is None:
            env = dict(os.environ, BASH_TOOL_PROFILE=profile, BASH_TOOL_STRUCTURED="%d" % structured)
        if timeouts is not None:
            env = dict(env, BASH_TOOL_SET=" ".join("%s=%s" % limit for limit in timeouts.items()))
        if plain:
            options["start"] = lambda words, **more: forked_program(*words, module=module, **more)
            words = ["--mcp"]
        else:
            words = command or [*wrap, sys.executable, compiled_script(), "--mcp"]
        super().__init__([*words, *arguments], env=env, **options)
        self.number, self.answers, self.told = 0, {}, []

    def __exit__(self, *exception):
        try:
            self.end()
        finally:
            super().__exit__(*exception)

    def end(self, within_s=PATIENCE_S):
        """Closes the server's input and waits for its end; returns its exit code."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        return self.ended(within_s)

    def send(self, *messages):
        """Lines: bytes as they are, all else as JSON."""

        def line(message):
            try:
                return message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
            except UnicodeEncodeError:  # lone surrogates
                return json.dumps(message).encode()

        self.write(b"".join(line(message) + b"\n" for message in messages))

    def receive(self, within_s=PATIENCE_S):
        """The next message; None at the end."""
        line = self.line(within_s)
        if line is None:
            assert not self._buffer, self._buffer[:300]
            return None
        assert line.isascii() and not line.endswith(b"\r")
        return json.loads(line)

    def request(self, method, **params):
        """Sends a request; returns its id."""
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        return self.number

    def begin(self, command, token=None, **arguments):
        """Sends a call; returns its id."""
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        return self.request("tools/call", name="bash", arguments=dict(arguments, command=command), **meta)

    def cancel(self, number):
        """Withdraws a call."""
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})

    def ask(self, method, **params):
        """Sends a request; returns the answer, which is the next message."""
        number = self.request(method, **params)
        answer = self.receive()
        assert answer is not None, "the server has ended, with exit code %s" % self.ended()
        assert answer["jsonrpc"] == "2.0" and answer["id"] == number, answer
        return answer

    def call(self, command, **arguments):
        """The result of a call, whose answer is the next message."""
        return self.ask("tools/call", name="bash", arguments=dict(arguments, command=command))["result"]

    def said(self, command, **arguments):
        """The text of this result."""
        return self.call(command, **arguments)["content"][0]["text"]

    def start(self, command):
        """The number of a job."""
        return started(self.said(command, mode="background"))[0]

    def answer(self, number, within_s=PATIENCE_S):
        """The answer to this id, whatever comes before it."""
        while number not in self.answers:
            message = self.receive(within_s)
            assert message is not None, "the server has ended: " + self.complaints()
            if "method" in message:
                self.told.append(message)
            else:
                assert message["id"] not in self.answers, "answered twice: %s" % message
                self.answers[message["id"]] = message
        return self.answers[number]

    def text(self, number, within_s=PATIENCE_S):
        """The text of the answer to this id."""
        return self.answer(number, within_s)["result"]["content"][0]["text"]

    def shown(self, command, within_s=PATIENCE_S, **arguments):
        """The text of the answer to a call, whatever comes before it."""
        return self.text(self.begin(command, **arguments), within_s)


def dying_host(program, *arguments, module=None):
    """Runs a program that is killed before its end, in a fork with this variant; returns what it printed."""
    pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    host = forked_host(program, *arguments, module=module, **pipes)
    out, err = said_until_its_end(host, PATIENCE_S)
    assert host.returncode == -signal.SIGKILL, (host.returncode, out, err)
    return out.decode()


def request(method, id_=1, **params):
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def with_each_face(act, place):
    """Does this with a library tool and with a server: each a function of a command that gives the text."""

    def with_this(face):
        if face == "library":
            with made(state_dir=place / face) as tool:
                act(lambda command, **mode: tool.call(dict(mode, command=command)).text)
        else:
            with Client("--state-dir", place / face, started=True) as client:
                act(client.shown)

    side_by_side(with_this, ["library", "server"])


# ---- Machines that lack something ------------------------------------------------------------------------------------
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

        eventually(removed)


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


# ---- Answers, jobs and what is left ----------------------------------------------------------------------------------
def lives_in(path):
    """Whether the process lives whose number stands in this file; it may have been killed before it wrote."""
    written = Path(path).read_text() if Path(path).exists() else ""
    return written.endswith("\n") and alive(int(written))


NOTE = re.compile(r"\n\n\[background process [^\n]*\]\n")


def notes_in(path):
    return NOTE.findall(Path(path).read_text())


def news_in(result):
    """The notes of a result that tell of jobs that have ended."""
    of_an_end = r"background process \d+ (completed|failed|ended by|error)"
    return [note for note in result.notes if re.match(of_an_end, note)]


def without_news(result):
    """The result as it would be if no job had ended before."""
    text = result.text
    for note in news_in(result):
        line = "[%s]\n" % note
        text = text.replace(line, "", 1) if line in text else text.replace("\n[%s]" % note, "", 1)
    return dataclasses.replace(result, text=text, notes=tuple(n for n in result.notes if n not in news_in(result)))


def background(tool, command, **options):
    """The job of a command that is still running when it is answered."""
    result = without_news(tool.run(command, mode="background", **options))
    assert (result.status, result.is_error, result.exit_code) == ("running", False, None), result
    said = "<pid>%d</pid>\n<output_file>%s</output_file>\n<reminder>To stop: kill -9 -%d</reminder>\n"
    assert result.text == said % (result.pid, result.output_file, result.pid)
    return tool.job(result.pid)


def supervisor_of(job):
    """The number of the process that runs a job which is the child of it."""
    return parent_of(job.pid)


SHOWN_ANYWAY = """NO_COLOR=1 PIP_NO_COLOR=true DISABLE_COLORS=1 CLICOLOR=1 GCC_COLORS=error=01 LS_COLORS=di=01;34 CARGO_TERM_COLOR=auto
    TQDM_DISABLE= PIP_PROGRESS_BAR=on NO_UPDATE_NOTIFIER= npm_config_progress=true BUILDKIT_PROGRESS=tty
HF_HUB_DISABLE_PROGRESS_BARS=0 COLUMNS=80 CI=x"""
SHOWN_ANYWAY = dict(pair.split("=", 1) for pair in SHOWN_ANYWAY.split())


def sections(stdout, stderr, code):
    return "stdout:\n%s\n\nstderr:\n%s\n\nexit code: %s" % (stdout, stderr, code)


NEWS = re.compile(
    r"\[background process (\d+) (.*?)(?: after [0-9.]+s)?: (\"(?:[^\"\\]|\\.)*\")"
    r"(?:; last line: (\"(?:[^\"\\]|\\.)*\"))?; output: ([^\n]*)\]"
)


def told_in(text):
    """What a text, or the JSON of one, says of jobs that have ended: [(pid, how, command, last line)]."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        text = "\n".join("[%s]" % note for note in json.loads(text)["notes"])
    found = NEWS.findall(text)
    return [(int(pid), how, json.loads(command), json.loads(last or "null")) for pid, how, command, last, _ in found]


def in_bytes(data):
    """A word of bash that stands for these bytes, in ASCII."""
    return "$'%s'" % "".join("\\x%02x" % byte for byte in data)


def birth(pid):
    """The start of a live process, in the kernel's ticks, or None: with it a number means one process."""
    try:
        fields = Path("/proc/%d/stat" % pid).read_bytes().rpartition(b") ")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except OSError:
        return None


def record_beside(output):
    """The path of the record of the job with this output file."""
    return output[: -len(".log")] + ".job"


RECIPES = HERE / "docs" / "recipes.md"


def recipes(heading, page=RECIPES, kind="sh"):
    """The shell recipes of a section of a page, or what else is fenced there."""
    section = page.read_text(encoding="utf-8").split("\n## %s\n" % heading)[1].split("\n## ")[0]
    return re.findall(r"^```%s\n(.*?)^```" % kind, section, re.MULTILINE | re.DOTALL)


def content(path, within_s=PATIENCE_S):
    """The text of a file, once it is there and ends with a newline."""

    def text():
        with contextlib.suppress(OSError):
            return (Path(path).read_bytes().decode(errors="replace") or "-").rpartition("\n")[0]

    return eventually(text, within_s)


def stop_in(text):
    """The command by which a note says that a leftover is ended."""
    found = re.search(r"; to stop: (kill -TERM( -?\d+)+)", text)
    assert found, text
    return found.group(1)


def started(text):
    """Number and file of a job, out of the answer to its start."""
    found = re.search(r"<pid>(\d+)</pid>\n<output_file>(.*)</output_file>\n<reminder>To stop: kill -9 -\1<", text)
    assert found, text
    return int(found.group(1)), Path(found.group(2))


def resident(pid):
    return int(of_proc(pid, "statm").split()[1]) * resource.getpagesize()


CHECKED = [
    *(["exited", 0, "hi\n"], ["exited", 3, "no\n"], ["exited", 137, ""], ["exited", 0, ""]),
    *(["timed_out", None, "partial\n"], ["exited", 0, "40000\n"], ["exited", 0, "🙂"], ["left\n", 0]),
    ["running", "up", True, True, "exited", 143],
]


def checks(wrap=(), python=(sys.executable,), first="", then="", jobs=True, left=True, **options):
    """The tool answers there as it does everywhere, and leaves nothing."""
    number = unique()
    ending = "tool = BashTool(profile=row(60, 0.3))\nsay(check(tool, '%s', %r, %r))\nhear()\n" % (number, jobs, left)
    with Host(CHECK + then + ending, wrap=wrap, python=python, prelude=first, **options) as host:
        said = host.hear()
        assert said == CHECKED[: None if jobs else -1], (said, host.complaints())
        assert eventually(lambda: not running(number), slack_s())
