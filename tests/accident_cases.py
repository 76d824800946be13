"""What the rows of accidents run: tables of commands, and the programs of hosts, each behind `support.PRELUDE`."""

import shlex
import sys


PYTHON = shlex.quote(sys.executable)

# ---- Commands -----------------------------------------------------------------------------------
TREES = {
    "a child": "sleep {n}",
    "a pipeline": "sleep {n} | cat | cat",
    "children": "sleep {n} & sleep {n} & wait",
    "output closed": "sleep {n} >/dev/null 2>&1 & wait",
    "a session": "setsid sleep {n} & wait",
    "a double fork": "(setsid sleep {n} &); sleep {n}",
    "no environment": "env -i setsid sleep {n} & sleep {n}",
    "another directory": "cd / && nohup setsid sleep {n} >/dev/null & wait",
    "stopped": "sleep {n} & kill -STOP $!; wait",
    "a process that replaces the shell": "exec sleep {n}",
    "a nested shell": "bash -c 'sh -c \"sleep {n}; :\"; :'",
}

DEAF = {
    "deaf": "trap '' TERM INT HUP; sleep {n}",
    "deaf in a session": "trap '' TERM; (setsid sleep {n} &); sleep {n}",
    "deaf, and starting others": "trap 'setsid sleep {n} &' TERM; while :; do sleep {n}; done",
}

SERVER = (
    PYTHON
    + """ -c 'import http.server
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print(server.server_port, file=open("port-{n}", "w"), flush=True)
server.serve_forever()' {n} &
until [ -s port-{n} ]; do sleep 0.1; done"""
)

LEFT = {
    "server &": "sleep {n} & echo answer",
    "several": "sleep {n} & sleep {n} & (sleep {n} &); echo answer",
    "nohup": "nohup sleep {n} >log-{n} 2>&1 & echo answer",
    "( &)": "(sleep {n} &); echo answer",
    "disown": "sleep {n} & disown; echo answer",
    "setsid": "setsid sleep {n} & echo answer",
    "setsid, closed": "setsid sleep {n} </dev/null >/dev/null 2>&1 & echo answer",
    "a double fork": "( (setsid sleep {n} &) & ); sleep 0.2; echo answer",
    "a pipeline": "sleep {n} | cat & echo answer",
    "sessions apart": "for i in 1 2 3; do setsid sleep {n} & done; echo answer",
    "a server and curl": SERVER + "; curl -s -o /dev/null -w 'answer\\n' http://127.0.0.1:$(cat port-{n})/",
    "deaf": "(trap '' TERM; exec sleep {n}) & echo answer",
    "a failure": "sleep {n} & echo answer; exit 3",
}

REPOSITORY = "git init -q r-{n} && cd r-{n} && git config user.email a@b.c && git config user.name n && "

PROMPTS = {
    "read": "read -p 'sure? ' x; echo got $x",
    "select": "select x in a b; do echo $x; done",
    "cat": "cat",
    "a loop of reads": "until read x && [ x = y ]; do [ $((++i)) -lt 9 ] || exit 4; done",
    "python": PYTHON,
    "input()": PYTHON + " -c 'input(\"name? \")'",
    "getpass": PYTHON + " -c 'import getpass; getpass.getpass()'",
    "pdb": PYTHON + " -c 'breakpoint(); print(1)'",
    "bash -i": "bash --norc -i",
    "tty": "echo x > /dev/tty",
    **{name: name for name in ("node", "bc", "ed", "top")},
    "sqlite3": "sqlite3 :memory:",
    "gdb": "gdb -q",
    **{pager: pager + " /etc/passwd" for pager in ("less", "more")},
    "pager": 'seq 500 | "${{PAGER:-less}}"',
    "git log": REPOSITORY + "git commit -q --allow-empty -m one && git log",
    "git commit": REPOSITORY + "git commit --allow-empty",
    "git rebase": REPOSITORY + "git commit -q --allow-empty -m a && git commit -q --allow-empty -m b && "
    "git rebase -i --root",
    "git add -p": REPOSITORY + "echo a >a && git add a && git commit -qm a && echo b >a && git add -p",
    "git clone": "GIT_CURL_VERBOSE=0 git clone -q http://127.0.0.1:9/nothing x-{n}",
    "ssh-keygen": "ssh-keygen -q -f key-{n}",
    "man": "man bash",
    "npm": "mkdir n-{n}; cd n-{n}; npm init",
    "editor": '"$EDITOR" file',
    "eval editor": 'eval "$EDITOR file"',
    "visual": '"${{VISUAL}}" file',
}

SCREENS = [
    *((r"10%\r50%\r100%\n", "100%\n"), (r"a long line\rshort\033[K\n", "short\n")),
    *((r"\033[1;31mred\033[0m \033[38;5;200mpink\033[m\n", "red pink\n"), (r"|\b/\b-\bdone\n", "done\n")),
    *((r"one\ntwo\n\033[2Auno\033[K\ndos\033[K\n", "uno\ndos\n"), (r"\033]0;title\007text\n", "text\n")),
    *((r"\033]8;;http://x.y\033\\link\033]8;;\033\\\n", "link\n"), (r"\033[?25lhidden\033[?25h\n", "hidden\n")),
    *((r"a\r\nb\r\n", "a\nb\n"), (r"\007bell\n", "bell\n")),
]

PLAIN = "(setsid sleep {n} &); sleep {n} & sleep {n}"

STUBBORN = "trap '' TERM HUP INT; " + PLAIN  # all of it deaf to TERM, in the group and outside of it

LIBRARY_ENDS = {
    **{"SIG" + name: "os.kill(os.getpid(), signal.SIG%s)" % name for name in ("KILL", "TERM", "HUP", "INT")},
    "a segfault": "import ctypes; ctypes.string_at(0)",
    "abort": "os.abort()",
    "exec": "os.execv('/bin/sleep', ['sleep', '30'])",
    "_exit": "os._exit(3)",
    **{"its last line": "", "its last line, frozen": ""},
    "an exception": "1 / 0",
}

LAST_WORDS = [
    *("echo last words; exit 3", "seq 5000; echo last words; kill -9 $$", "echo last words > >(cat)"),
    *("echo first; exec echo last words", "seq 3000 | cat; echo last words | cat | cat"),
    "trap 'echo last words' EXIT; exit 1",
]

TOKENS = {
    "GITHUB_TOKEN": "ghp_" + "a1B2" * 9,
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI" + "K7MDENG" * 3,
    "DJANGO_SECRET_KEY": "django-insecure-" + "q9" * 12,
    "OPENAI_API_KEY": "sk-proj-" + "x8" * 12,
    "DB_PASSWORD": "correct-horse-battery",
    "DATABASE_URL": "postgres://user:tiger-lily@db/x",
    "SSH_PRIVATE": "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n",
}

TEXTS = {
    "a heredoc": "cat <<'END'\n$HOME `x` \"y\" 'z' \\n\nEND\n",
    "heredocs": "cat <<A; cat <<-'B'\na $((1 + 1))\nA\n\t\tb $x\n\tB\necho end",
    "quotes": """echo "a 'b' \\"c\\" $'\\t' \\\\" '"' "$(echo "x y")" \\''""",
    "an unclosed quote": "echo 'a",
    "lines": "echo a\n\n# a comment\necho b \\\n  c\n",
    "CRLF": "echo a\r\necho b\r\n",
    "no newline": "printf x",
    "emoji": "echo '🙂 é 中文 \u202e'; printf '%s\\n' ${#x}",
    "backslashes": "printf '%s\\n' 'C:\\new\\table' \"\\$x\" '\\\\'",
    "200 KB": "cat <<'END' | tail -n 2\n" + "a line of text 中\n" * 10_000 + "END\necho end",
    "history": "echo '!!' \"!x\" !$",
    "NUL": "printf 'a\\0b' | od -An -c",
    "braces": "echo {1..3} ${x:-y} $(( 2 ** 3 )) [[:alpha:]]",
}

GROWING = {
    "make": "printf 'all: a b c\\na b c:\\n\\tsleep {n}\\n' >Makefile; make -s -j3",
    "prefork": PYTHON
    + " -c 'import os, time\nfor _ in range(3):\n    if not os.fork():\n        os.execvp(\"sleep\", [\"sleep\", "
    "\"{n}\"])\nwhile True: time.sleep(9)'",
    "reload": PYTHON + " -c 'import subprocess, time\nworkers = [subprocess.Popen([\"sleep\", \"{n}\"], "
    "start_new_session=x) for x in (False, True, True)]\ntime.sleep(99)'",
    "npm": "echo '{{\"scripts\": {{\"dev\": \"node dev.js\"}}}}' >package.json; "
    "echo 'for (const _ of [1, 2, 3]) require(\"child_process\").spawn(\"sleep\", [\"{n}\"], {{detached: _ > 1}});' "
    "'setInterval(() => 0, 1000)' >dev.js; npm run dev",
    "shell": "sleep {n} & (setsid sleep {n} &); sleep {n}; :",
}

PATHS_OF_NO_PYTHON = {"empty": "''", "another program": "'/bin/false'", "ends": "script('exit 1')"}
PATHS_OF_NO_PYTHON["hangs"] = "script('exec sleep 60')"
NOT_PYTHON = """
import os, sys, tempfile
def script(line):
    path = os.path.join(tempfile.mkdtemp(), "python")
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o755), "w") as file:
        file.write("#!/bin/sh\\n%%s\\n" %% line)
    return path
sys.executable = sys._base_executable = %s
"""
PACKED = {
    **{words: dict(python=(sys.executable, *words.split())) for words in ("-I", "-S -E -OO", "-W error -b")},
    "-X dev": dict(python=(sys.executable, "-X", "dev", "-W", "error")),
    "no sys.executable": dict(first="import sys; sys.executable = sys._base_executable = None\n"),
    "one that is gone": dict(first="import sys; sys.executable = sys._base_executable = '/nowhere/python'\n"),
    "frozen": dict(first="import sys; sys.frozen = True; sys._MEIPASS = '/tmp'; sys.executable = '/bin/false'\n"),
    **{name: dict(first=NOT_PYTHON % path) for name, path in PATHS_OF_NO_PYTHON.items()},
}

FULL = {
    "a full disk": "mount -t tmpfs -o size=64k none $TMPDIR; head -c 1000000 /dev/zero >$TMPDIR/full 2>/dev/null",
    "almost full": "mount -t tmpfs -o size=128k none $TMPDIR",
    "no inodes": "mount -t tmpfs -o size=9m,nr_inodes=3 none $TMPDIR; touch $TMPDIR/a $TMPDIR/b $TMPDIR/c 2>/dev/null",
    "read-only": "mount -t tmpfs none $TMPDIR; mount -o remount,ro $TMPDIR",
}

ELSEWHERE = {
    "tmux": ("SHELL=/bin/sh tmux -L t{n} -f /dev/null new -d 'exec sleep {n}' && tmux -L t{n} ls", ": 1 windows"),
    "screen": ("screen -dmS s{n} sleep {n} && screen -ls", "s{n}"),
    "expect": ("expect -c 'spawn sleep {n}; expect eof'", "spawn sleep {n}"),
    "script": ("script -qc 'tty; exec sleep {n}' /dev/null", "/dev/pts/"),
    "strace": ("strace -f -e trace=none sh -c 'echo traced; sleep {n}; :'", "traced"),
    "gdb": ("gdb -q -batch -ex 'run' --args sh -c 'echo traced; sleep {n}; :'", "traced"),
    "timeout": ("echo within; timeout 600 sleep {n}", "within"),
    "nohup": ("echo within; nohup setsid sleep {n}", "within"),
    "xargs": ("echo {n} | xargs -t -n1 -P4 sleep", "sleep {n}"),
    "python": (PYTHON + " -c 'import pty; pty.spawn([\"sh\", \"-c\", \"tty; sleep {n}; :\"])'", "/dev/pts/"),
}

# ---- Programs -----------------------------------------------------------------------------------

# test_row_08_a_program_ends
ENDS = """
place, command, job, way = sys.argv[1:]
tool = BashTool(state_dir=place, profile=row(60, 30))
pid = tool.run("exec sleep " + job, mode="background").pid
threading.Thread(target=tool.run, args=(command,), daemon=True).start()
say(pid)
hear()
exec(way)
"""

# test_row_09_ctrl_c_in_a_notebook
NOTEBOOK = """
tool = BashTool(profile=row(60, 30))
for number in sys.argv[1].split("+"):
    say("ready")
    try:
        tool.run("(setsid sleep %s &); sleep %s" % (number, number))
        say("not interrupted")
    except KeyboardInterrupt:
        say("interrupted", tool.run("echo next").text)
"""

# test_row_13_free_when_the_host_has_ended
HOLDS = """
job, way = sys.argv[1:3]
if way == "command line":
    subprocess.run([sys.executable, sys.argv[3], "--mode", "background", "sleep " + job], close_fds=False)
else:
    tool = BashTool(profile=row(60, 30))
    tool.run("exec sleep " + job, mode="background")
    tool.run("sleep %s >/dev/null 2>&1 &" % job)
    threading.Thread(target=tool.run, args=("sleep 60",), daemon=True).start()
time.sleep(0.1)
os.kill(os.getpid(), signal.SIGKILL) if way == "killed" else None
os._exit(0)
"""

# test_row_14_nothing_grows
GROWS = """
profile = row(0.3, 0.2)

def some(count):
    for index in range(count):
        with BashTool(profile=profile) as tool:
            for _ in range(4):
                tool.run("echo hi; exit 3")
            tool.run("seq 30000")
            if index % 25 == 0:
                tool.run("sleep 9 & sleep 9")
                job = tool.job(tool.run("sleep 9", mode="background").pid)
                job.kill()
            cancel = Cancel()
            cancel.cancel()
            tool.run("sleep 9", cancel=cancel)
        BashTool(profile=profile).run("true")

def at_once(name):      # each waits until all have begun, so that all idle supervisors are there
    command = "echo >> %s; until [ $(wc -l < %s) = 20 ]; do sleep 0.1; done" % (name, name)
    with BashTool(profile=profile) as tool:
        threads = [threading.Thread(target=tool.run, args=(command,), kwargs={"timeout_s": 60}) for _ in range(20)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()

def pages(pid):
    return int(open("/proc/%d/statm" % pid).read().split()[1])

def open_in(pid):
    try:
        return len(os.listdir("/proc/%d/fd" % pid))
    except PermissionError:   # of a process that is not dumpable root alone may see them
        return 0

def measure():
    above = BashTool().run("echo $PPID; cut -d' ' -f4 /proc/$PPID/stat").stdout.split()
    supervisor, server = map(int, above)
    deadline = time.monotonic() + 5
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    below = open("/proc/%d/task/%d/children" % (server, server)).read().split()
    return [len(os.listdir("/proc/self/fd")), threading.active_count(), len(below),
            open_in(server), pages(os.getpid()), pages(server)]

some(12), at_once("first")
say(measure())
some(40), at_once("second")
say(measure())
"""

# test_row_17_a_child_is_no_end_of_its_parent
FORKS = """
place, job, go = sys.argv[1:]
tool = BashTool(state_dir=place, profile=row(60, 1))
pid = tool.run("exec sleep " + job, mode="background").pid
calls, results = [], {}
def call(name):
    results[name] = tool.run("echo begun-%s; until [ -e %s ]; do sleep 0.1; done; echo own-%s" % (name, go, name)).text
def own():
    assert tool.run("echo child").text == "child\\n"
def fails():
    1 / 0
def new_tool():
    with BashTool(profile=row(60, 1)) as mine:
        assert mine.run("echo child").text == "child\\n"
        assert mine.run("sleep 9", timeout_s=0.2).status == "timed_out"
def grandchild():
    if os.fork() == 0:
        own()
acts = [lambda: os._exit(0), lambda: sys.exit(0), own, tool.close, fails, new_tool, grandchild,
        lambda: os.kill(os.getpid(), 9), lambda: os.closerange(3, 200)]
codes = []
for name, act in enumerate(acts):
    calls.append(threading.Thread(target=call, args=(name,)))
    calls[-1].start()
    time.sleep(0.02)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        except SystemExit:
            code = 0
        finally:
            os._exit(code)
    codes.append(os.waitpid(child, 0)[1])
say(codes)
say(tool.run("echo next").text, tool.job(pid).status)
open(go, "w").close()
for thread in calls: thread.join()
say([results[name] == "begun-%s\\nown-%s\\n" % (name, name) for name in range(len(acts))])
"""

# test_row_17_workers_of_multiprocessing
HAS_WORKERS = """
import multiprocessing
sys.path.insert(0, sys.argv[1])
import worker
def main(method):
    busy = threading.Thread(target=worker.tool.run, args=("sleep 0.3; touch finished-" + method,))
    busy.start()
    with multiprocessing.get_context(method).Pool(2) as pool:
        for n, (text, own) in enumerate(pool.map(worker.work, range(8))):
            assert text.endswith("%d\\n" % n) and own == "%d\\n" % n, (text, own)
            assert text.startswith("[command failed: exit code %d]" % (n % 5)) or n % 5 == 0, text
    busy.join()
    say(os.path.exists("finished-" + method), worker.tool.run("echo next").text)
main(sys.argv[2])
"""

# test_row_18_an_alarm_in_the_main_thread
HAS_AN_ALARM = """
class Late(Exception):
    pass
def late(*_):
    raise Late
number = sys.argv[1][1:]
tool = BashTool(profile=row(60, 10))
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
say(tool.run("sleep 0.5; echo quiet").text)
signal.setitimer(signal.ITIMER_REAL, 0), signal.signal(signal.SIGALRM, late)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    tool.run("(setsid sleep %s &); sleep %s" % (number, number))
except Late:
    say("late", tool.run("echo next").text)
hear()
"""

# test_row_21_a_root_that_is_read_only
CANNOT_WRITE = """
tool = BashTool("/", profile=row(60))
result = tool.run("touch /tmp/x$$ || echo read-only; seq 40000")
say(result.status, result.exit_code, "read-only" in result.stdout, "40000" in result.stdout,
    result.output_file, result.text)
result = tool.run("sleep 9", mode="background")
say(tool.run("echo next").text)
"""

# test_row_21_processes_that_are_hidden
CANNOT_SEE = """
os.setgroups([]), os.setgid(65534), os.setuid(65534)
tool = BashTool("/", profile=row(60, 0.3))
job = tool.job(tool.run("exec sleep " + sys.argv[1][1:], mode="background").pid)
say(job.status, job.kill(), job.wait(5), job.status, tool.run("echo next").stdout)
"""

# test_row_22_a_disk_that_takes_nothing
HAS_A_FULL_DISK = """
tool = BashTool("/", profile=row(60), state_dir=os.path.join(os.environ["TMPDIR"], "state"))
result = tool.run("seq 100000")
whole = "".join("%d\\n" % n for n in range(1, 100001))
named = re.search("full output: (.*)]", result.text)
honest = not named or open(named.group(1)).read() == whole
say(result.status, result.exit_code, result.total_bytes == len(whole), result.stdout.endswith("100000\\n"),
    honest, result.text[-300:])
said = tool.run("echo up; sleep 2; exit 3", mode="background")
say(said.status, said.text)
say(tool.run("echo next; exit 3").text.rpartition("]\\n")[2])
"""

# test_row_22_few_descriptors
HAS_FEW_DESCRIPTORS = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
tool = BashTool(profile=row(60))
results = {}
def call(n):
    results[n] = tool.run("sleep 0.2; echo %d" % n)
threads = [threading.Thread(target=call, args=(n,)) for n in range(40)]
for thread in threads: thread.start()
for thread in threads: thread.join()
say(all(results[n].text == "%d\\n" % n for n in range(40)))
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
results = [tool.run("echo %d; exit 3" % n) for n in range(3)]
say([[result.status, result.exit_code, result.is_error, result.stdout] for result in results])
for fd in taken: os.close(fd)
say(tool.run("echo next").text)
"""

# test_row_22_few_descriptors, with state that is carried
CARRIES = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
tool = BashTool(profile=row(60), carry=True)
say(tool.run("echo hi; export CARRIED=yes").text, tool.run("echo ${CARRIED-no}").text)
"""

# test_row_22_small_files
HAS_SMALL_FILES = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
tool = BashTool(profile=row(60))
say(tool.run("cat", stdin="x" * 5000).text, tool.run("# " + "x" * 5000).text, tool.run("echo next").text)
"""

# test_row_22_without_dev_null
HAS_NO_DEV_NULL = """
tool = BashTool("/", profile=row(60))
results = [tool.run("echo hi") for _ in range(2)]
os.mknod("/dev/null", 0o020666, os.makedev(1, 3))
say([[result.status, result.text] for result in results], tool.run("echo next").text)
"""

# test_row_22_no_processes
HAS_NO_PROCESSES = """
limit = sys.argv[1] + "/pids.max"
tool = BashTool(profile=row(5, 0.3))
for warm in False, True:
    if warm:
        tool.run("true")
    open(limit, "w").write(open(sys.argv[1] + "/pids.current").read())
    result = tool.run("echo ran; exit 0")
    open(limit, "w").write("60")
    say(result.status, result.exit_code, result.error, result.text, tool.run("echo next").text)
"""

# test_row_23_a_process_of_another_user
IS_AN_ORDINARY_USER = """
mighty, number = sys.argv[1].split("+")
tool = BashTool("/", profile=row(0.8, 0.3))
become = "exec setpriv --reuid 0 --regid 0 --clear-groups sleep " + number
result = tool.run("%s -p -c '%s' & sleep 60" % (mighty, become))
say(result.status, result.exit_code, result.duration_s, result.text)
say(tool.run("echo next").text)
"""

# test_row_25_a_freezer_is_no_timeout
IS_FROZEN = """
tool = BashTool(profile=row(6, 0.3))
pid = tool.run("sleep 0.5; echo last; exit 3", mode="background").pid
say("ready")
result = tool.run("echo begun; sleep 0.7; echo done")
job = tool.job(pid)
say(result.status, result.stdout, job.wait(5), job.status, job.exit_code)
"""

# test_row_26_a_directory_that_hangs
HAS_A_DIRECTORY_THAT_HANGS = """
tool, other = BashTool(sys.argv[1], profile=row(0.5, 0.2)), BashTool("/", profile=row(0.5, 0.2))
say(tool.run("echo hi", timeout_s=20).text)
hear()
cancel, results = Cancel(), {}
def call(name, **options):
    begun = time.monotonic()
    result = tool.run("echo ran", **options)
    results[name] = [result.status, result.exit_code, "ran" in result.stdout, time.monotonic() - begun]
threads = [threading.Thread(target=call, args=("limit",)),
           threading.Thread(target=call, args=("cancel",), kwargs=dict(cancel=cancel, timeout_s=60))]
for thread in threads: thread.start()
time.sleep(0.2)
cancel.cancel()
begun = time.monotonic()
say(other.run("echo next", timeout_s=20).text, time.monotonic() - begun)
for thread in threads: thread.join()
say(results["limit"], results["cancel"], other.run("echo next", timeout_s=20).text)
threading.Thread(target=call, args=("left",), daemon=True).start()
time.sleep(0.1)
os._exit(0)
"""

# What every tool in every place answers; nothing of it leaves its process group.
CHECK = """
def check(tool, number, jobs, left):
    said = []
    for command in ("echo hi", "echo no >&2; exit 3", "exec sh -c 'kill -9 $$'", "cat",
                    "echo partial; sleep %s & sleep %s" % (number, number), "seq 40000 | tail -n 1",
                    "printf '\\\\360\\\\237\\\\231\\\\202'"):
        result = tool.run(command, timeout_s=1.0 if "partial" in command else None)
        said.append([result.status, result.exit_code, result.stdout])
    result = tool.run("sleep %s >/dev/null 2>&1 & echo left" % number)
    stop = re.search("; to stop: (kill -TERM -?[0-9]+)", result.text).group(1) if left else "pkill -f 'sleep %s'" % number
    said.append([result.stdout, tool.run(stop).exit_code])
    if jobs:
        started = tool.run("echo up; sleep %s & wait" % number, mode="background")
        job = tool.job(started.pid)
        said.append([started.status, job.wait(60, until="up"), job.kill(), job.wait(60), job.status, job.exit_code])
    return said
"""

# A library that is loaded before all others: the time of day goes years back and forth.
CLOCK = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long jump(void) { static int calls; return (++calls / 5 % 3 - 1) * 100000000L; }
int clock_gettime(clockid_t id, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, id, at);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += jump();
    return failed;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec, at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
"""

LOOPS = {
    "gevent": """
        import gevent
        tool = BashTool(profile=row(60))
        calls = [gevent.spawn(tool.run, "sleep 0.2; echo %d" % n) for n in range(5)]
        gevent.joinall(calls)
        say([call.value.text for call in calls])
    """,
    "uvloop": """
        async def main():
            tool = BashTool(profile=row(60))
            await (await asyncio.create_subprocess_exec("true")).wait()
            return await asyncio.gather(*(asyncio.to_thread(tool.run, "sleep 0.2; echo %d" % n) for n in range(5)))
        uvloop.install()
        say([result.text for result in asyncio.run(main())])
    """,
}
