"""Stops of real programs: no later line runs, nothing acts on half an input, and what was held back is shown."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.processes import alive, dwellers, eventually, number_in, of_proc
from tests.support import (
    PLAIN_PYTHON,
    BashTool,
    bash_tool,
    exhaustive,
    cancelled_when,
    dying_host,
    fault,
    first_of,
    in_fork,
    lasting,
    needs_proc,
    slack_s,
    tiny,
)

pytestmark = needs_proc

# No `open` without a name for its file: an INT that strikes while such a file is closed is lost in CPython. No long
# sleep: one that strikes as it begins does not end it (1 stop of 100 with Python 3.9.2 where the stop follows at once).
# It ends by itself at INT, as pytest, psql and servers in node do: the shell above it must not take that for success.
ENDS = """
import os, sys, time
try:
    print("begun"); os.mkdir("ready"); [time.sleep(0.1) for n in range(6000)]
except KeyboardInterrupt:
    print("asked"); sys.exit(0)
"""
TESTS = "import os, time\ndef test_a(): assert 1 == 2\ndef test_b(): os.mkdir('ready'); [time.sleep(0.1) for n in range(6000)]\n"
UNITS = "import os, time, unittest\nclass T(unittest.TestCase):\n    def test_b(self): os.mkdir('ready'); [time.sleep(0.1) for n in range(6000)]\n"
POOL = """
import os, multiprocessing, sys, time
from concurrent.futures import ProcessPoolExecutor
def task(n):
    os.makedirs("ready", exist_ok=True)
    if n > 1: time.sleep(0 if sys.argv[1] == "fork" else 30); open("later-%d" % n, "w")
    [time.sleep(0.1) for n in range(6000)]
if __name__ == "__main__":
    print("held")
    way = multiprocessing.get_context(sys.argv[1])
    with ProcessPoolExecutor(2, mp_context=way) as pool: list(pool.map(task, range(8)))
"""
# Two of its workers have nothing to do, and one of these holds the lock of the queue.
IDLE_POOL = """
import os, multiprocessing, signal, sys, time
def init(): "deaf" in sys.argv and signal.signal(2, signal.SIG_IGN)
def task(n): os.makedirs("ready", exist_ok=True); [time.sleep(0.1) for n in range(6000)]
if __name__ == "__main__":
    print("held")
    with multiprocessing.get_context(sys.argv[1]).Pool(4, init) as pool: pool.map(task, range(2), 1)
"""
CHILD = """
import os, multiprocessing, sys, time
def child(): print("held"); os.mkdir("ready"); [time.sleep(0.1) for n in range(6000)]
if __name__ == "__main__":
    process = multiprocessing.get_context(sys.argv[1]).Process(target=child)
    process.start(); process.join()
"""
RUNS = """
import os, subprocess, time
try: os.mkdir("ready"); [time.sleep(0.1) for n in range(6000)]
finally: subprocess.run("sleep 0.5; echo cleaned", shell=True)
"""
CLEANS = """
import os, time
try:
    os.mkdir("ready"); [time.sleep(0.1) for n in range(6000)]
finally:
    time.sleep(0.5); print("clea" + "ned")
"""
FORWARDS = """
import signal, subprocess, time
process = subprocess.Popen(["python3", "cleans.py"])
signal.signal(signal.SIGINT, lambda *_: (time.sleep(0.1), process.send_signal(signal.SIGINT)))
process.wait()
"""
# As uvicorn does, and as the reloader of Django does.
SERVER = """
import os, signal, time
caught = []
for number in 2, 15: signal.signal(number, lambda number, _: caught.append(number))
print("held"); os.mkdir("ready")
while not caught: time.sleep(0.01)
signal.signal(2, signal.default_int_handler); signal.signal(15, signal.SIG_DFL)
try: signal.raise_signal(caught[0])
except KeyboardInterrupt: pass
"""
RELOADER = """
import os, signal, subprocess, sys, time
signal.signal(15, lambda *_: sys.exit(0))
try:
    if "IS_CHILD" in os.environ: print("held"); os.mkdir("ready"); [time.sleep(0.1) for n in range(6000)]
    else: subprocess.run([sys.executable, *sys.argv], env=dict(os.environ, IS_CHILD="1"))
except KeyboardInterrupt: pass
"""
SPAWNER = """
import multiprocessing, runpy
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=runpy.run_path, args=["uvicorn"])
    process.start(); process.join()
"""
FILES = {
    "uvicorn": SERVER,
    "manage.py": RELOADER,
    "spawner.py": SPAWNER,
    "ends.py": ENDS,
    "test_x.py": TESTS,
    "unit_x.py": UNITS,
    "pool.py": POOL,
    "idle.py": IDLE_POOL,
    "child.py": CHILD,
    "cleans.py": CLEANS,
    "runs.py": RUNS,
    "uv.py": FORWARDS,
}
WAYS = ("fork", "forkserver", "spawn")
E = "python3 ends.py"
S = "chmod +x s.sh; "
AND_LATER, WITH_LATER = (E + " </dev/null", "touch later"), (E, "touch later")
ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n"
FOUR_COMMITS = """git init -q r; cd r; for n in 1 2 3 4; do git -c user.name=a -c user.email=b commit -q --allow-empty -m $n; done
git bisect start HEAD HEAD~3; """
IN_TWO_LINES = "printf 'import time; f = open(\"ready\", \"w\"); [time.sleep(0.1) for n in range(6000)]\\nopen(\"later\", \"w\")\\n'"
SAVES = "import signal, sys, time; signal.signal(15, lambda *_: (print('saved'), sys.exit()))"
NODE = """const fs = require("fs"); process.on("SIGINT", () => process.exit(0)); fs.writeFileSync("ready", "");
try { require("child_process").execSync("sleep 600") } catch { } fs.writeFileSync("later", "");"""
NODE_CLEANS = """const clean = () => {
  console.log(require("child_process").execSync("sleep 0.5; echo cleaned").toString()); process.exit(0); };
process.on("SIGINT", clean); process.on("SIGTERM", clean); require("fs").writeFileSync("ready", "");
setTimeout(() => {}, 600000);"""

# While they wait, INT is ignored. An INT that is sent as soon as they handle it again comes too late.
SYSTEM = {
    "Python": """python3 -c 'import os; print("lost"); os.system("touch ready; sleep 600"); os.system("touch later")'""",
    "perl": """perl -e 'system "touch ready; sleep 600"; system "touch later"'""",
}
# What runs; behind it what the answer must hold, and what stands in s.sh. Each makes `ready` when it is time to stop
# it, and names that begin with `later` if it goes on.
CASES = {
    "script": (S + "./s.sh", "", "touch ready; sleep 600\ntouch later"),
    "script or": (S + "./s.sh || true; touch later", "asked", E + " || touch later"),
    "script in a loop": (S + "./s.sh", "asked", "for n in 1 2 3; do %s; touch later-$n; done" % E),
    "timeout": (S + "timeout 500 ./s.sh", "asked", E + "\ntouch later"),
    "timeout bash | tail": ("timeout 500 bash -c '%s | tail -n 2; touch later'; touch later" % E, "asked"),
    "nice and env": (S + "env nice stdbuf -oL nohup setsid ./s.sh", "", E + "\ntouch later"),
    "strace": (S + "strace -f -o /dev/null ./s.sh", "asked", E + "\ntouch later"),
    "sudo": (S + "sudo -n ./s.sh", "", E + "\ntouch later"),
    "script | tail": (S + "./s.sh | tail -n 3; touch later", "asked", E + "\ntouch later"),
    "make": (S + "printf 'all:\\n\\t-./s.sh\\n\\ttouch later\\n' > Makefile; make", "asked", E + "\ntouch later"),
    "make -j": "printf 'all: a b c\\na b c:\\n\\ttouch ready; sleep 600\\n\\ttouch later\\n' > Makefile; make -j3",
    "a recipe of make": ("printf 'all:\\n\\tpython3 ends.py\\n\\ttouch later\\n' > Makefile; make -k", "asked"),
    "bisect": (S + FOUR_COMMITS + "git bisect run ../s.sh", "", "cd ..; %s\ntouch later" % E),
    "find | while read": (
        "mkdir d; touch d/1 d/2; find d -type f | while read f; do %s; %s; done" % AND_LATER,
        "asked",
    ),
    "while read below timeout": "seq 3 | while read n; do touch ready; timeout 500 sleep 600 </dev/null; touch later; done",
    "while read < <()": "while read n; do touch ready; sleep 600 </dev/null; touch later; done < <(seq 3)",
    "| bash": "printf 'touch ready; sleep 600 </dev/null\\ntouch later\\n' | bash",
    "bash <<E": "bash <<E\ntouch ready; sleep 600\ntouch later\nE",
    "sh -c": ("sh -c '%s; touch later'; touch later" % E, "asked"),
    "function": ("f() { %s; touch later; }; f; touch later" % E, "asked"),
    "subshell": ("(%s; touch later) || touch later" % E, "asked"),
    "xargs": ("seq 3 | xargs -n1 sh -c '%s; touch later'" % E, "asked"),
    "xargs -P": "seq 5 | xargs -n1 -P2 sh -c 'touch ready; sleep 600; touch later'",
    "find -exec": ("mkdir q; touch q/1 q/2; find q -type f -exec %s \\; -exec touch later \\;" % E, "asked"),
    "npm": "echo '{\"scripts\": {\"t\": \"%s; %s\", \"postt\": \"touch later\"}}' > package.json; npm run t; touch later"
    % WITH_LATER,
    "half a list": "touch later-1 keep; (echo keep; printf lat; touch ready; sleep 600) | xargs rm",
    "half a file": "(printf x; touch ready; sleep 600) | python3 -c 'import sys; d = sys.stdin.read(); open(\"later\", \"w\")'",
    "python -i < file": IN_TWO_LINES + " > s; python3 -i < s",
    "| python -i": IN_TWO_LINES + " | python3 -i",
    "python < file": ("python3 ends.py < s.sh; touch later", "asked"),
    "script < file": ("python3 < ends.py; touch later", "asked"),
    "| awk": "(echo a; touch ready; sleep 600) | awk 'END { system(\"touch later\") }'",
    "many programs in one file": (
        "cp $(command -v tail) coreutils; ln -s coreutils tail; (echo a; touch ready; sleep 600) | ./tail -n 3",
        "a\n",
    ),
    "what forwards an INT": ("cp %s uv; ./uv uv.py" % os.path.realpath(PLAIN_PYTHON), "cleaned"),
    "bash -ic": "bash -ic 'touch ready; sleep 600; touch later'; touch later",
    "Python in bash -ic": ("bash -ic 'python3 cleans.py; touch later'; touch later", "cleaned"),
    "bash -i <<E": "bash -i <<'E'\ntouch ready; sleep 600\ntouch later\nE",
    # Without exec there may be a shell at the terminal. When that ends, the kernel sends SIGHUP to what it has started.
    "below script": ("script -qec 'exec python3 ends.py' /dev/null; touch later", "asked"),
    "a server in Python": ("python3 ./uvicorn", "held"),
    "a server that multiprocessing spawns": ("python3 spawner.py", "held"),
    "a server with a reloader": ("python3 manage.py runserver", "held"),
    "| base64": ("(echo a; touch ready; sleep 600) | base64", "YQo="),
    "| sort -uo": "echo keep > keep; (echo a; touch ready; sleep 600) | sort -uo keep",
    "sqlite3 -cmd": "sqlite3 -cmd '.shell touch ready' -cmd '%s' f.db '.shell touch later'" % ENDLESS,
    "| od": ("(echo a; touch ready; sleep 600) | od -c", "a  \\n"),
    "python - <<E": ("python3 - <<'E'%sE\ntouch later" % ENDS, "asked"),
    "trap EXIT": ("trap 'sleep 0.5; echo cleaned' EXIT; %s; touch later" % E, "cleaned"),
    "script with a trap": (
        S + "./s.sh",
        "cleaned",
        "trap '(sleep 0.5; echo cleaned) | cat; exit' TERM; %s\ntouch later" % E,
    ),
    "a command in `finally`": ("python3 runs.py; touch later", "cleaned"),
    "node with a handler": ("node -e '%s'" % NODE_CLEANS, "cleaned"),
    **{"an executor: %s" % way: ("python3 pool.py " + way, "held\n") for way in WAYS},
    **{"a pool with idle workers: %s" % way: ("python3 idle.py " + way, "held\n") for way in WAYS},
    **{"a pool that ignores INT: %s" % way: ("python3 idle.py %s deaf" % way, "held\n") for way in WAYS},
    **{"a child: %s" % way: ("python3 child.py " + way, "held\n") for way in WAYS[1:]},
    "trap TERM in Python": (
        "python3 -c \"%s; f = open('ready', 'w'); [time.sleep(0.1) for n in range(6000)]\"" % SAVES,
        "saved",
    ),
    "pytest": ("python3 -m pytest -q -p no:cacheprovider test_x.py; touch later", "1 failed"),
    "pytest | tail": (
        "python3 -m pytest -q -p no:cacheprovider test_x.py 2>&1 | tail -n 15",
        "FAILED test_x.py::test_a",
    ),
    "unittest": ("python3 -m unittest -v unit_x.py; touch later", "KeyboardInterrupt"),
    "buffered lines": (
        "python3 -c \"import time; print('held'); f = open('ready', 'w'); [time.sleep(0.1) for n in range(6000)]\"",
        "held",
    ),
    "compiler | tail": (
        "(echo compiling; echo 'error: x'; touch ready; sleep 600) 2>&1 | tail -n 5",
        "compiling\nerror: x\n",
    ),
    "tee | wc": ("(echo a; echo b; touch ready; sleep 600) | tee f | wc -l", "2\n"),
    "gdb": "gdb -q -batch -ex run -ex 'shell touch later' --args sh -c 'touch ready; sleep 600'",
    "ruby": "ruby -e 'begin; File.write(\"ready\", \"\"); sleep 600; rescue Interrupt; end; File.write(\"later\", \"\")'",
    "gp": "printf 'system(\"touch ready\")\nfor(i=1,10^11,i)\nsystem(\"touch later\")\n' > a.gp; gp -fq a.gp; touch later",
    **{"system(3) in " + each: "%s; touch later" % command for each, command in SYSTEM.items()},
    "node": "node -e '%s'; touch later" % NODE,
}
NEEDS = {
    **{name: name for name in ("strace", "sudo", "npm", "node", "make", "gdb", "gp", "ruby")},
    "system(3) in perl": "perl",
    "bisect": "git",
    "sqlite3 -cmd": "sqlite3",
    "make -j": "make",
    "a recipe of make": "make",
    "below script": "script",
    "node with a handler": "node",
}


def is_ready(command):
    """Whether it has made its file, and its filters run: until then they are forks of bash. The kernel gives a program its
    name before its arguments."""
    filters = {
        name for name in ("base64", "od", "sort", "tail", "tee", "wc") if re.search(r"\| (\./)?%s\b" % name, command)
    }
    names = {pid: of_proc(pid, "comm").strip().decode() for pid in dwellers(os.getcwd())}
    running = {name for pid, name in names.items() if of_proc(pid, "cmdline")}
    return os.path.exists("ready") and filters <= running


# One of each kind: what ends, what must not go on, what acts on half an input, what cleans up.
FIRST = [
    "script",
    "find | while read",
    "half a list",
    "| awk",
    "bash -ic",
    "a server in Python",
    "trap EXIT",
    "tee | wc",
]
KEPT = {"half a list": "", "| sort -uo": "keep\n"}


@pytest.mark.parametrize("name", first_of(CASES, *FIRST))
def test_a_stop_of(name):
    case = CASES[name] if isinstance(CASES[name], tuple) else (CASES[name],)
    command, shown, script = (*case, "", "")[:3]
    if name in NEEDS and not shutil.which(NEEDS[name]):
        pytest.skip("%s is not installed" % NEEDS[name])
    for file, text in {**FILES, "s.sh": "#!/bin/bash\n%s\n" % script}.items():
        Path(file).write_text(lasting(text))
    env = {"PATH": os.path.dirname(sys.executable) + ":" + os.environ["PATH"]}  # whose python3 has pytest
    before = set(os.listdir("."))
    with BashTool(".", profile=tiny(default=120, grace=90), env=env) as tool:  # a third of it for pytest to report
        result = tool.run(lasting(command), cancel=cancelled_when(lambda: is_ready(command)))
    assert result.status == "cancelled" and shown in result.stdout, result.stdout
    kept = {"later-1"} if name == "half a list" else set()
    assert {file for file in set(os.listdir(".")) - before if file.startswith("later")} == kept
    assert name not in KEPT or Path("keep").read_text() == KEPT[name]


@fault("a_filter_that_is_being_executed", saboteur=("inspect_process", "and arguments", ""))
def test_a_filter_that_is_being_executed_is_none_yet(monkeypatch):
    """Its name is there before its arguments: whether it is `sort -o` cannot be told."""
    with subprocess.Popen(["sort"], stdin=subprocess.PIPE) as sort:
        assert eventually(lambda: bash_tool.inspect_process(sort.pid).reads == "live pipe")
        real = bash_tool._read_proc
        monkeypatch.setattr(bash_tool, "_read_proc", lambda pid, name: b"" if name == "cmdline" else real(pid, name))
        assert bash_tool.inspect_process(sort.pid).reads == "pipe"


FORKS_AND_STARTS = """
import os, subprocess, sys
if "AGAIN" not in os.environ and (fork := os.fork()):
    again = subprocess.Popen([sys.executable, *sys.argv], env=dict(os.environ, AGAIN="1"))
    print(fork, again.pid, flush=True)
sys.stdin.read()
"""


@fault("a_fork_by_its_memory", saboteur=("inspect_process", "arguments + fields[45]", "arguments"))
def test_a_fork_is_told_from_a_program_with_the_same_arguments():
    """As Flask's reloader starts one: the program gets INT and prints what it holds, a fork would get TERM."""
    Path("twice.py").write_text(FORKS_AND_STARTS)
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with subprocess.Popen([sys.executable, "twice.py"], **pipes) as program:
        fork, again = map(int, program.stdout.readline().split())
        line = bash_tool.inspect_process(program.pid).arguments
        assert bash_tool.inspect_process(fork).arguments == line
        assert eventually(lambda: bash_tool.inspect_process(again).arguments != line)
        assert eventually(lambda: of_proc(again, "cmdline") == of_proc(program.pid, "cmdline"))


@fault("a_python_by_its_file-1", saboteur=("inspect_process", '"python", "pypy"', '"python",'))
@fault(
    "a_python_by_its_file-2",
    saboteur=("inspect_process", 'name.startswith(("python", "pypy"))', "name.rstrip('3') == 'python'"),
)
def test_a_python_is_known_by_its_file():
    for name in "python3", "python3.13", "python3.13t", "python3-dbg", "pypy3.10":
        shutil.copy(os.path.realpath(shutil.which("sleep")), name)
        with subprocess.Popen(["./" + name, "600"]) as program:
            known = eventually(lambda: bash_tool.inspect_process(program.pid).program == "python")
            program.kill()
        assert known, name


@fault("an_interactive_shell_that_forks", saboteur=("inspect_process", " | blocked & ~caught", ""))
def test_an_interactive_shell_that_forks_is_ended():
    """While it forks, TERM is blocked in place of ignored, and is ignored again before it is unblocked."""
    program = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [15]); print(flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as blocks:
        blocks.stdout.readline()
        seen = bash_tool.inspect_process(blocks.pid)
    assert bash_tool.ending_signal(seen._replace(program="bash", arguments=b"bash\0-ic\0:\0")) == signal.SIGKILL


@fault(
    "a_shell_with_a_trap_that_forks",
    saboteur=("inspect_process", "fields[45], caught", "fields[45], caught & ~blocked"),
)
def test_a_shell_with_a_trap_that_forks_handles_term():
    """While it forks, TERM is blocked. Its trap comes then, and what the trap starts is no process that goes on."""
    program = "import signal; signal.signal(15, print); signal.pthread_sigmask(signal.SIG_BLOCK, [15]); print(flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as blocks:
        blocks.stdout.readline()
        assert bash_tool.inspect_process(blocks.pid).caught & bash_tool._TERM


@fault("an_int_that_is_pending", saboteur=("inspect_process", 'b"ShdPnd"', 'b"SigPnd"'))
def test_an_int_that_was_not_taken_is_pending():
    program = "import sys, time\ntry: print(flush=True); time.sleep(600)\nexcept KeyboardInterrupt: print(flush=True), sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as waits:
        waits.stdout.readline()
        waits.send_signal(signal.SIGSTOP)
        assert eventually(lambda: bash_tool._stat(waits.pid)[0] == b"T")  # else it may take INT first
        waits.send_signal(signal.SIGINT)
        pending = bash_tool.inspect_process(waits.pid).pending
        waits.send_signal(signal.SIGCONT)
        waits.stdout.readline()
        assert pending & bash_tool._INT and not bash_tool.inspect_process(waits.pid).pending & bash_tool._INT


@exhaustive
@fault("time_of_ended_children", saboteur=("inspect_process", "fields[11:15]", "fields[11:13]"))
def test_the_time_of_ended_children_counts():
    """A handler that runs one short command after the other is busy."""
    program = "import os, sys; os.system('i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as runs:
        before = bash_tool.inspect_process(runs.pid).used
        runs.stdout.readline()
        assert bash_tool.inspect_process(runs.pid).used > before + 10


@pytest.mark.parametrize("name, command", [("dd", "dd if=/dev/zero of=/dev/null"), ("ping", "ping 127.0.0.1")])
def test_a_program_of_the_closed_list(name, command):
    """Python is in most of the cases above. Without its handler it gets TERM."""
    if not shutil.which(name):
        pytest.skip("%s is not installed" % name)

    def is_ready():
        found = [pid for pid in dwellers(os.getcwd()) if of_proc(pid, "comm").strip() == name.encode()]
        return any(bash_tool.inspect_process(pid).caught & 1 << signal.SIGINT - 1 for pid in found)

    with BashTool(".", profile=tiny(default=120, grace=90)) as tool:
        result = tool.run(command + " 2>&1; touch later", cancel=cancelled_when(is_ready))
    assert {"dd": "records out", "ping": "packets transmitted"}[name] in result.stdout and not Path("later").exists()


WRAPS = """
import os, subprocess
p = subprocess.Popen(%s)
os.mkdir("ready")
try: rc = p.%s
except KeyboardInterrupt: rc = p.wait()
print("code", rc)
"""


@pytest.mark.parametrize("around", first_of(["%s", "sh -c '%s; touch later'", "trap : EXIT; %s"], "%s"))
@pytest.mark.parametrize("waits", first_of(["wait()", "communicate()", "wait() # below a shell"], "wait()"))
def test_what_is_stopped_is_no_success(around, waits):
    """CPython takes a child for a success that ends before the INT of its parent is taken."""
    words = "'sleep 600; touch later', shell=True" if "#" in waits else "['sh', '-c', 'sleep 600']"
    Path("wrap.py").write_text(lasting(WRAPS % (words, waits)))
    for _ in range(3):
        with BashTool(".", profile=tiny(default=120, grace=60)) as tool:
            result = tool.run(around % "python3 wrap.py", cancel=cancelled_when("ready"))
        os.rmdir("ready")
        assert result.status == "cancelled" and "code 0" not in result.stdout, result.stdout
        assert not Path("later").exists()


BUSY = """
import os, time
try: os.mkdir("ready"); [time.sleep(0.1) for n in range(6000)]
except KeyboardInterrupt:
    end = time.monotonic() + 4
    while time.monotonic() < end: %s
    print("summary")
"""


@exhaustive
@fault("busy_with_its_ending", saboteur=("Steps._next_state", "and passed_s < self._busy_until_s", "and False"))
def test_what_is_busy_with_its_ending_may_end():
    """For longer than a third of the grace."""
    Path("busy.py").write_text(BUSY % "pass")
    with BashTool(".", profile=tiny(default=120, grace=9)) as tool:
        result = tool.run("python3 busy.py", cancel=cancelled_when("ready"))
    assert result.stdout == "summary\n"


@exhaustive
@fault("an_ending_that_was_cut_short-1", saboteur=("Session._finish", "and not report.cut_short", ""))
@fault("an_ending_that_was_cut_short-2", saboteur=("Steps.choose", '|= before == "got INT"', "|= True"))
def test_an_ending_that_was_cut_short_is_not_told_as_silence():
    Path("slow.py").write_text(BUSY % "time.sleep(1)")
    hint = "nothing was printed; a program may hold its output back: stdbuf -oL, python3 -u"
    for limit_s in (2, 20):  # a busy machine may not have begun it by then
        with BashTool(".", profile=tiny(default=limit_s, grace=1.5)) as tool:
            results = [tool.run(command) for command in ("python3 slow.py", "sleep 600")]
        if Path("ready").exists():
            break
    assert [(result.stdout, hint in result.text) for result in results] == [("", False), ("", True)]


# Swallows INT, and TERM too.
STUBBORN = """
import os, signal, time
def told(number, _): open("got-%d" % number, "w")
signal.signal(2, told)
if os.environ.get("DEAF"): signal.signal(15, told)
print(os.getpid(), file=open("me.new", "w"))
os.rename("me.new", "me")
while True: time.sleep(0.05)
"""
STEPS = {
    "INT": ("exec %s stubborn.py", 30, "got-2"),
    "a filter is spared": ("%s stubborn.py | tail", 30, "got-2"),
    "a trap is waited for": ("trap 'touch got-15; sleep 600' TERM; %s stubborn.py; :", 30, "got-15"),
    "TERM": ("DEAF=1 exec %s stubborn.py", 30, "got-15"),
}


@fault(
    "the_host_is_killed",
    saboteur=[
        ("Life.next_action", "self._grace_s = min(self._grace_s, HOST_GONE_GRACE_S)", "pass"),
        ("Life.next_action", "self.attached = self._has_steps = False", "self.attached = False"),
    ],
)
@pytest.mark.parametrize("step", STEPS)
def test_the_host_is_killed_in_a_step(step):
    """Whatever step a stop is in, nothing of the command is left soon after its host was killed."""
    command, grace_s, sign = STEPS[step]
    Path("stubborn.py").write_text(STUBBORN)
    program = """
        command, grace_s, sign = sys.argv[1:]
        cancel = Cancel()

        def until(path):
            while not os.path.exists(path):
                time.sleep(0.01)

        def go():
            until("me")
            cancel.cancel()
            until(sign)
            os.kill(os.getpid(), 9)

        threading.Thread(target=go, daemon=True).start()
        BashTool(profile=dataclasses.replace(MODES, grace_s=float(grace_s))).run(command, cancel=cancel)
    """
    dying_host(program, lasting(command % sys.executable), grace_s, sign)
    assert eventually(lambda: not alive(number_in("me")), 8)  # the grace would take longer


@fault("an_interactive_shell", saboteur=("Command.terminate", "ending_signal(process)", "signal.SIGTERM"))
@pytest.mark.parametrize(
    "how", first_of(["a cancel", "a cancel without a grace", "Job.kill", "the end of the host"], "a cancel")
)
def test_an_interactive_shell_runs_no_later_line(how):
    """It ignores TERM, and would go on when the command that it waits for gets TERM."""
    command = lasting("bash -ic 'echo $$ > me; touch ready; sleep 600; touch later'; touch later")
    if how == "the end of the host":
        program = """
            until_ready = lambda: os.path.exists("ready") and os.kill(os.getpid(), 9) or threading.Timer(0.05, until_ready).start()
            until_ready()
            BashTool(".").run(sys.argv[1])
        """
        dying_host(program, command)
    else:
        with BashTool(".", profile=tiny(default=120, grace=0 if "without" in how else 60)) as tool:
            if how == "Job.kill":
                job = tool.job(tool.run(command, mode="background").pid)
                assert eventually(lambda: Path("ready").exists()) and job.kill()
            else:
                tool.run(command, cancel=cancelled_when("ready"))
    assert eventually(lambda: not alive(number_in("me"))) and not Path("later").exists()


@fault("a_second_cancel", saboteur=("Life._end", "self.stops > 1", "False"))
def test_a_second_cancel_ends_what_swallows_int():
    """The way out for programs that a stop in steps keeps longer."""
    Path("stubborn.py").write_text(STUBBORN)
    begun_s = time.monotonic()
    with BashTool(".", profile=tiny(default=120, grace=120)) as tool:
        cancel, asked = cancelled_when("got-2"), lambda: eventually(lambda: Path("me").exists()) and cancel.cancel()
        threading.Thread(target=asked, daemon=True).start()
        result = tool.run("exec %s stubborn.py" % sys.executable, cancel=cancel)
    assert result.status == "cancelled" and time.monotonic() - begun_s < 10 + slack_s() and not alive(number_in("me"))


@fault("what_loses_its_parent", saboteur=("descendants", "range(2 if", "range(1 if"))
def test_what_loses_its_parent_while_it_is_looked_for_is_found():
    """It is below neither process when the children of each are listed: a stop took it for ended, and sent it TERM."""

    def act():
        bash_tool._become_subreaper()
        words = ["sh", "-c", lasting("sleep 600 & echo $!; wait")]
        parent = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        child, children = int(parent.stdout.readline()), bash_tool._children

        def listed(pid):
            if pid == parent.pid:
                parent.kill()
                parent.wait()
            return children(pid)

        bash_tool._children = listed
        assert child in bash_tool.descendants()

    in_fork(act)


@fault("what_forks_and_exits", saboteur=("descendants", "range(2 if SEES_TREE else 0)", "iter(int, 1)"))
def test_what_forks_and_exits_all_the_time_is_looked_at_for_a_bounded_time():
    """There is always another child of it: a walk that went on as long as there is one never sent KILL."""

    def act():
        bash_tool._become_subreaper()
        children = iter(range(10**7, 10**7 + 100))
        bash_tool._children = lambda pid: [next(children)]
        assert bash_tool.descendants() == {}

    in_fork(act)


def test_a_plain_sleep_ends_at_once():
    """The steps cost what ends at TERM nothing."""
    assert BashTool(".", profile=tiny(default=0.3, grace=60)).run(lasting("sleep 600; :")).duration_s < 3 + slack_s()
