"""Commands, their environment, directory and state: what no single clause says."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.known_commands import any_of, known_commands
from tests.processes import AMPLE_S, FUNCTIONS, alive, eventually, functions_of_a_host, number_in
from tests.spec import NOT_KEPT, fenced
from tests.support import PLAIN_PYTHON, ROOT, SHOWN_ANYWAY, THOROUGH, TOOL, BashTool, Client, bash_tool, cancelled_when
from tests.support import descriptors, exhaustive, fault, few, in_bytes, in_host, lasting, long_look
from tests.support import needs_proc, plain_bash, ran, side_by_side, slack_s, stop_in, tiny


@few(known_commands())
def test_known_commands(known):
    """The vocabulary of the properties says of a command what bash itself says."""
    apart = plain_bash(known.text)
    code = apart.returncode if apart.returncode >= 0 else 128 - apart.returncode
    assert (apart.stdout.decode(), apart.stderr.decode(), code) == (known.stdout, known.stderr, known.code)
    assert (apart.returncode < 0) == (known.signal is not None)


@contextlib.contextmanager
def for_an_ordinary_user(token):
    """The words and options that start bash_tool.py for a user without root's capabilities, with this in a variable."""
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if ROOT else {}
    env = dict(os.environ, TMPDIR="/tmp", HOST_TOKEN=token)
    with open(TOOL) as tool:  # its folder may be closed to the other user
        words = [PLAIN_PYTHON if ROOT else sys.executable, "/dev/fd/%d" % tool.fileno()]
        yield words, dict(user, env=env, cwd="/", pass_fds=[tool.fileno()])


@needs_proc
@fault("a_server_is_not_dumpable", saboteur=("_perform", "_prctl(_PR_SET_DUMPABLE, 0)", "pass"))
def test_a_server_is_not_dumpable_by_its_commands():
    """A command cannot read the environment of the server. A user with root's capabilities can: a suite that root has
    started asks as another user."""
    token = "tok-" + os.urandom(6).hex()
    with for_an_ordinary_user(token) as (words, options), Client(command=[*words, "--mcp"], **options) as client:
        server = "/proc/%d/environ" % client.process.pid
        answer = client.said("cat %s" % server)
        # The second where /proc hides other users' processes, by hidepid, proc(5).
        assert re.search("Permission denied|No such file", answer) and token not in answer
        assert os.stat(server).st_uid == 0  # the kernel's sign of a process that is not dumpable, proc(5)


@exhaustive
@needs_proc
@fault("the_command_line_is_not_dumpable", saboteur=("_perform", "_prctl(_PR_SET_DUMPABLE, 0)", "pass"))
def test_the_command_line_is_not_dumpable_by_its_command():
    """A command cannot read the environment of the command line, unless it has root's capabilities."""
    token = "tok-" + os.urandom(6).hex()
    apart = "%s''%s" % (token[:8], token[8:])
    seek = "for environ in /proc/[0-9]*/environ; do grep -qas '%s' $environ && echo found; done; echo sought" % apart
    with for_an_ordinary_user(token) as (words, options):
        answer = ran(*words, seek, **options)
    assert answer.stdout.endswith(b"sought\n") and b"found" not in answer.stdout, answer


HOSTS_THAT_REAP = {
    "ignores SIGCHLD": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "reaps all": "def reap(*_):\n    try:\n        while os.waitpid(-1, os.WNOHANG)[0]: pass\n    except ChildProcessError: pass\n"
    "signal.signal(signal.SIGCHLD, reap)",
}


@pytest.mark.parametrize("host", HOSTS_THAT_REAP)
def test_hosts_that_take_every_status(host):
    """A host that ignores SIGCHLD, or reaps every child, is not the parent of a command: it changes nothing (007.5)."""
    program = "import os, signal\nfrom bash_tool import BashTool\n%s\n" % HOSTS_THAT_REAP[host] + textwrap.dedent("""
        tool = BashTool()
        for n in range(8):
            result = tool.run("echo hi; exit 7")
            print(result.status, result.error, result.exit_code, result.stdout.strip(), result.is_error)
        print(tool.run("sleep 60 & sleep 60", timeout_s=0.3).status)
    """)
    assert in_host(program).splitlines() == 8 * ["exited None 7 hi True"] + ["timed_out"]


@exhaustive
def test_programs_that_want_a_screen():
    """What vim, watch and top leave until the timeout, or say at once, is short."""
    with BashTool(profile=tiny(default=3.0)) as tool:

        def says_little(command):
            result = tool.run(command)
            assert result.is_error and len(result.text) < 3000, result.text

        side_by_side(says_little, [each for each in ("vim x", "watch date", "top") if shutil.which(each.split()[0])])


@needs_proc
def test_a_loop_is_named_by_its_shell():
    """Of a loop the note names the shell that runs it."""
    with BashTool() as tool:
        result = tool.run("(while :; do sleep 0.1; done) >/dev/null 2>&1 & echo $!")
        (note,) = result.notes
        named = re.findall(r"pid (\d+) \"([^\"]*)\"", note)  # in the order of their numbers, which may have wrapped
        assert (result.stdout.strip(), "a subshell of the command") in named
        os.system(stop_in(result.text))


@fault("a_directory_that_is_shut", saboteur=("Shell.start", " if is_gone else NO_CWD", ""))
def test_a_directory_that_is_shut_is_not_gone():
    """It is there and cannot be entered, by a user who is not root."""
    program = """
        if os.getuid() == 0:
            os.setgroups([])
            os.setresgid(*3 * [int(sys.argv[1])])
            os.setresuid(*3 * [int(sys.argv[1])])
        os.chdir("/")
        os.environ["TMPDIR"] = tempfile.mkdtemp(dir="/tmp")
        shut = tempfile.mkdtemp(dir="/tmp")
        os.chmod(shut, 0)
        print(BashTool(shut).run("echo ran").text.replace(shut, "SHUT"), end="")
        os.rmdir(shut)
    """
    why = "cannot be entered (Permission denied); the command ran in an empty scratch folder"
    assert in_host(program, NOBODY) == "[the working directory SHUT %s]\nran\n" % why


STARTUP_FILES = [
    *("cat; read -r x; echo read=$x", "echo noise; echo more >&2", "cd /usr"),
    "eval() { echo wrong; }; exec() { echo wrong; }; exit() { echo wrong; }; read() { echo wrong; }",
    *("readonly TMOUT=1; TMOUT=1", "set -eu; shopt -s nullglob", "exec 9>&1 8</dev/null"),
    *("module() { eval \"export LOADED=$2\"; }; export -f module", "trap 'echo the end' EXIT", "false", "if", None),
]


@fault("what_bash_reads-1", saboteur=("DROPPED_NAMES", '"ENV SHELLOPTS', '"BASH_ENV ENV SHELLOPTS'))
@fault("what_bash_reads-2", saboteur=("_READ_TEXT", '"IFS= builtin', '"IFS= TMOUT=0 builtin'))
@pytest.mark.parametrize("startup", STARTUP_FILES)
def test_what_bash_reads_and_imports_is_what_bash_c_does(startup, monkeypatch, tmp_path):
    """BASH_ENV and exported functions do what they do to `bash -c`, each time where state is carried over."""
    if startup is not None:
        (tmp_path / "rc").write_text(startup + "\n")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "rc"))
    monkeypatch.setenv("BASH_FUNC_get_token%%", "() { echo token; }")
    command = "echo hi; cat; pwd; get_token; type -t module; module load gcc; echo $LOADED"
    plain = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=-1, stderr=-2)
    for carry in (False, True):
        with BashTool(carry=carry) as tool:
            assert not tool.withheld
            for _ in range(2):
                result = tool.run(command)
                if not (carry and startup and "EXIT" in startup):  # 028.4: the tool's own trap stands in its place
                    shown = result.stdout.replace(str(tmp_path / "rc"), "rc")
                    assert shown == plain.stdout.decode().replace(str(tmp_path / "rc"), "rc"), startup
                assert result.exit_code == plain.returncode
    with BashTool(shell=("env", "bash")) as tool:
        result = tool.run("read -r x; echo ${BASH_ENV-none} $x", stdin="of the command\n")
        assert result.text == "[not passed to commands: BASH_ENV]\nnone of the command\n"
        assert tool.withheld == ("BASH_ENV",) and tool.run("get_token").text == "token\n"


@fault("functions_break_nothing-1", saboteur=("_ENTER", "builtin cd", "cd"))
@fault("functions_break_nothing-2", saboteur=("_SAVE_STATE", "p && builtin printf", "p && printf"))
@pytest.mark.parametrize("shell", ["bash", ("env", "bash")])
@pytest.mark.parametrize("carry", [False, True])
def test_functions_break_nothing_of_a_command_or_its_state(shell, carry, monkeypatch):
    """A host exports functions named like builtins, as wrappers of `cd` do: commands call them, the tool does not."""
    for name, value in functions_of_a_host(*FUNCTIONS).items():
        monkeypatch.setenv(name, value)
    with BashTool("/", shell=shell, carry=carry) as tool:
        assert tool.run("builtin echo hi; cd /usr; builtin pwd").text == "hi\nwrong cd\n/\n"
        assert tool.run("builtin cd /usr; builtin export T_A_=1; builtin exit 3").exit_code == 3
        assert tool.run("builtin pwd; builtin echo ${T_A_-none}").text == ("/usr\n1\n" if carry else "/\nnone\n")
        assert tool.run("unset -f cd; cd /; type -t cd ls").text == "builtin\nfunction\n"
        assert tool.run("cd").text == "[command failed: exit code 1]\nwrong cd\n"  # again, of the host


@fault("the_text_of_a_command", saboteur=("DROPPED_NAMES", "BASH_EXECUTION_STRING GPG_TTY", "GPG_TTY"))
def test_the_text_of_a_command_is_in_no_environment(monkeypatch):
    """A host that `bash -a -c` started has BASH_EXECUTION_STRING; bash would go on exporting it, with each command's text."""
    monkeypatch.setenv("BASH_EXECUTION_STRING", "host")
    assert BashTool().run("env | grep -c BASH_EXECUTION_STRING").stdout == "0\n"


@given(st.dictionaries(any_of(*sorted(SHOWN_ANYWAY)), any_of("", "0", "1", "x")))
def test_what_a_program_prints_is_its_own(environ):
    """A variable for colours, progress bars or widths is neither set nor changed nor taken out, whatever it is, but for
    one that forces colours (014.9)."""
    forces = {"CARGO_TERM_COLOR": "1", "GCC_COLORS": "1", "LS_COLORS": "1"}.items()
    environ = {name: value for name, value in environ.items() if (name, value) not in forces}
    for env in (bash_tool.scrub_env(environ)[0], {**bash_tool.NON_INTERACTIVE, **environ}):
        assert {name: env[name] for name in SHOWN_ANYWAY if name in env} == environ
        asks = "PAGER|EDIT|ASKPASS|PROMPT|INTERACTIVE|FRONTEND|^TERM$|^LANG$|NO_INPUT|SUSPEND|VISUAL"
        assert all(re.search(asks, name) for name in env if name not in environ)


def test_input_that_is_no_text_costs_no_descriptor():
    with BashTool() as tool:
        tool.run("true")
        before = descriptors()
        for _ in range(3):
            with pytest.raises(ValueError):
                tool.run("cat", stdin="ok\udc80")
        assert descriptors() == before


@exhaustive
@pytest.mark.parametrize("shell", ["bash", "env bash"])
def test_a_large_standard_input(shell):
    """64 MiB arrive (16 outside `make thorough`), with no second copy in the host, in no argument and no file with a name; a
    command that does not read them is not held up, nor is a leftover that holds them."""
    program = """
        def peak():
            return int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) / 1024
        tool = BashTool(shell=sys.argv[1].split(), state_dir="state")
        size = int(sys.argv[2])
        tool.run(":", stdin="warm")
        told = []
        for data in (os.urandom(1 << 20) * size, "é" * (size << 19)):
            wanted = hashlib.sha256(data if isinstance(data, bytes) else memoryview(data.encode())).hexdigest()
            open("/proc/self/clear_refs", "w").write("5")
            before = peak()
            result = tool.run("sha256sum", stdin=data)
            encoded = 0 if isinstance(data, bytes) else size  # a string is encoded once
            told.append([result.stdout.split()[0] == wanted, peak() - before - encoded])
        begun = time.monotonic()
        result = tool.run("echo no; sleep 600 >/dev/null & ", stdin=data)
        told.append([result.stdout, time.monotonic() - begun])
        result = tool.run("read -r mark; ps axww -o args >words; grep -c $mark words; grep -rl $mark . | wc -l",
                          stdin=(os.urandom(16).hex() + chr(10)) * 100000)
        print(json.dumps([*told, result.stdout]))
    """
    printed = in_host(program, shell, 64 if THOROUGH else 16)
    *large, (output, took_s), (seen) = json.loads(printed)
    assert all(right and more < 8 for right, more in large), large
    assert output == "no\n" and took_s < 10 + slack_s() and seen == "0\n0\n", printed


@exhaustive
def test_a_long_state_with_all_bytes():
    """A variable of all bytes, 200 variables, and a directory of a long name; from 64 MiB on nothing is carried."""
    every = bytes(range(1, 256))
    with BashTool(carry=True, profile=tiny(default=AMPLE_S)) as tool:
        tool.run("d=$(printf %%0200d 0); mkdir -p $d/$d/$d; cd $d/$d/$d; export T_all=%s" % in_bytes(every))
        tool.run("for n in {1..200}; do export T_$n=$(printf '%0900d' $n); done")
        result = tool.run("printf %s \"$T_all\" | od -An -v -tx1; env | grep -c '^T_[0-9]*=0*[0-9]*$'; echo ${#PWD}")
        shown, count, length = result.stdout.rsplit("\n", 3)[:3]
        assert bytes.fromhex(shown) == every and count == "200" and int(length) > 600
        result = tool.run("export T_all=$(head -c 70000000 /dev/zero | tr '\\0' x)")
        assert result.notes == (NOT_KEPT,) and tool.run("echo ${#T_all}").text == "255\n"


def test_no_state_through_a_program_that_copies_its_input():
    """A prefix that gives bash another standard input than the tool's: commands run, and nothing is carried."""
    with BashTool("/", shell=("sh", "-c", "cat | \"$@\"", "-", "bash"), carry=True) as tool:
        result = tool.run("cd /usr; export T_A_=1; echo hi")
        assert (result.stdout, tool.run("echo $PWD ${T_A_-unset}").text) == ("hi\n", "/ unset\n")
        assert result.notes == (NOT_KEPT,)


def test_state_behind_a_prefix_that_drops_descriptors():
    """As sudo does: standard input alone is handed on."""
    closing = "import os, sys; os.closerange(3, 99); os.execvp(sys.argv[1], sys.argv[1:])"
    with BashTool("/", shell=(sys.executable, "-c", closing, "bash"), carry=True) as tool:
        assert tool.run("cd /usr; export T_A_=1; echo hi").text == "hi\n"
        assert tool.run("echo $PWD $T_A_; cat; cd /etc", stdin="data").stdout == "/usr 1\ndata"
        # Of a command with an input nothing is carried over (028.2).
        assert tool.run("echo $PWD $T_A_").text == "/usr 1\n"


def test_programs_get_no_descriptor_of_the_state():
    with BashTool(carry=True) as tool:
        for data in (None, "data"):
            assert tool.run("ls /proc/self/fd", stdin=data).text == "0\n1\n2\n3\n"  # ls itself opens one
            assert tool.run("cat", stdin=data).stdout == (data or "")
        left = tool.run("sleep 600 >/dev/null 2>&1 & echo $!; cd /usr")
        open_ones = "/proc/%d/fd" % int(left.stdout)  # until it is `sleep`, it is a fork of the shell
        assert eventually(lambda: sorted(os.listdir(open_ones)) == ["0", "1", "2"])
        assert tool.run("pwd").text == "/usr\n"


@fault("what_saves_the_state-1", saboteur=("DROPPED_NAMES", "BASH_EXECUTION_STRING GPG_TTY", "GPG_TTY"))
@fault("what_saves_the_state-2", saboteur=("_SAVE_STATE", "[[ ! $BASH_EXECUTION_STRING ]] && \\", "\\"))
def test_what_saves_the_state_leaves_no_trace_in_it():
    """The trap that saves the state sets no variable of the user, and writes into no file but its own."""
    Path("data").write_bytes(b"head\0tail")
    with BashTool(carry=True) as tool:
        tool.run("export REPLY=keep")
        tool.run("set -a; x=1")
        assert tool.run("echo $REPLY $x $(env | grep -c BASH_EXECUTION_STRING)").stdout == "keep 1 0\n"
        tool.run("readonly REPLY=1; cd /")
        assert tool.run("pwd").stdout == "/\n"
        tool.run("cd %s; exec 1023<>data; f() { exit 0; }; f" % shlex.quote(os.getcwd()))
    assert Path("data").read_bytes() == b"head\0tail"
    in_host("""
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        BashTool(carry=True).run("exec 9<>data; f() { exit 0; }; f")
    """)
    assert Path("data").read_bytes() == b"head\0tail"


@fault("the_state_as_each_bash", saboteur=("_unquoted", r"\x01([\x01\x7f])", r"\x01(.)"))
def test_the_state_as_each_bash_writes_it():
    """`export -p` of bash 5.2, of 5.1 and of older versions: control characters, and ESC before a backslash."""
    forms = {
        rb"$'a\001b\177\E\\E'": b"a\1b\x7f\x1b\\E",
        b'"a\1b\x7f\\\\E"': b"a\1b\x7f\\E",
        b'"a\1\1b\1\x7f"': b"a\1b\x7f",
    }
    for written, value in forms.items():
        start, omitted = bash_tool.next_start(b"declare -x A=%s\n\0/usr\n\0" % written, {})
        assert (start.env, start.cwd, omitted) == ({b"A": value}, b"/usr", [])


@fault("a_command_of_a_tool_that_carries", ("Shell._spawn", '[b"PWD"] = cwd', '[b"PWD"] = os.path.realpath(cwd)'))
def test_a_command_of_a_tool_that_carries_state_starts_behind_the_link_that_was_entered():
    """So do commands that leave the state as it was: with variables, with a directory, in the background."""
    os.makedirs("place/below")
    os.symlink("place", "link")
    here, see = os.getcwd(), "pwd; cd ..; pwd"
    below = "%s/link/below\n%s/link\n" % (here, here)
    with BashTool(carry=True, profile=tiny(default=AMPLE_S)) as tool:
        tool.run("cd link/below")
        assert tool.run(see, env={"T_A_": "1"}).stdout == below
        assert tool.run(see, cwd=here + "/link/below").stdout == below
        with long_look():
            assert tool.run(see, mode="background").stdout.startswith(below)
        assert tool.run(see).stdout == below and tool.run("pwd").stdout == here + "/link\n"
    with BashTool(carry=True, profile=tiny(default=AMPLE_S), shell=("env", "bash")) as tool:
        tool.run("cd link/below")
        assert tool.run(see, env={"T_A_": "1"}, stdin="data").stdout == below


@pytest.mark.parametrize("shell", ["bash", ("env", "bash")], ids=["bash", "env bash"])
def test_pwd_is_the_path_as_it_was_given(shell):
    """A directory that was given through a symbolic link is shown so by PWD (4.8)."""
    os.makedirs("place/below")
    os.symlink("place", "link")
    here = os.getcwd()
    with BashTool("link", shell=shell) as tool:
        assert tool.run("echo $PWD; pwd; pwd -P").text == "%s/link\n%s/link\n%s/place\n" % (here, here, here)
        assert tool.run("pwd", cwd="below").text == here + "/link/below\n"


def test_behind_a_prefix_the_shell_enters_the_directory_or_nothing_is_run():
    """A prefix that goes elsewhere moves no command; where the directory is gone, none is run in a scratch folder."""
    os.mkdir("place")
    with BashTool("place", shell=("env", "-C", "/", "bash"), state_dir="state") as tool:
        assert tool.run("echo $PWD; cat", stdin="data").text == os.path.abspath("place") + "\ndata"
        os.rmdir("place")
        result = tool.run("touch made")
        assert (result.status, result.error, result.exit_code) == ("failed", "cwd_missing", None), result
        assert not list(Path().rglob("made")) and not list(Path().rglob("scratch-*"))
    os.mkdir("place")
    leaves = "mv place elsewhere; exec \"$@\""
    with BashTool("place", shell=("sh", "-c", "cd ..; " + leaves, "-", "bash"), state_dir="state") as tool:
        result = tool.run("touch made")
        assert (result.status, result.error) == ("failed", "spawn_failed"), result
        assert "the shell sh ended (exit code 1) before it read the command" in result.text
        assert "No such file or directory" in result.stdout and not list(Path().rglob("made"))


def test_spec_says_how_state_is_carried():
    """4.2 and 4.8 have the texts of the description and of the shell's line."""
    ((_, sentences),) = fenced("carried")
    assert sentences.split("\n") == [bash_tool.NOTHING_PERSISTS, bash_tool.CARRIES]
    ((_, schema),) = fenced("restart")
    assert json.loads(schema) == {"restart": dict(bash_tool.RESTART)}
    for kind, number, options in (
        ("bash-text", "N", dict(has_prefix=False, has_input=False, carries=False)),
        ("bash-prefix", "", dict(has_prefix=True, has_input=False, carries=False)),
    ):
        ((_, line),) = fenced(kind)
        assert line == bash_tool.shell_line(7531, **options).replace("7531", number), kind
    line = bash_tool.shell_line(7531, has_prefix=False, has_input=False, carries=True)
    ((_, end),) = fenced("bash-carry")
    assert " %s BASH_EXECUTION_STRING=${" % end.replace("<&N", "<&7531").replace("exec N<", "exec 7531<") in line


@needs_proc
def test_a_timeout_with_an_unreachable_holder():
    """A holder of the output that nothing else tells of is found by it; a fork of the host is spared."""
    with BashTool(profile=tiny()) as tool:
        begun, forked = time.monotonic(), []
        threading.Timer(0.5, lambda: forked.append(os.fork() or (time.sleep(60), os._exit(0)))).start()
        result = tool.run(lasting("(env -i setsid sh -c 'echo $$ > holder; exec sleep 600' &); echo on; sleep 600"))
        assert (result.status, result.stdout) == ("timed_out", "on\n") and time.monotonic() - begun < 5 + slack_s()
        assert not alive(number_in("holder")) and alive(forked[0])
        os.kill(forked[0], signal.SIGKILL)
        os.waitpid(forked[0], 0)


def test_git_leaves_no_lock():
    """git, interrupted while it holds index.lock, takes it away."""
    with BashTool(profile=tiny(default=60, grace=15)) as tool:
        config = "git config user.name a && git config user.email b"
        tool.run("git init -q r && cd r && %s && echo x > f && git add f" % config)
        hook = lasting("cd r/.git/hooks && printf '#!/bin/sh\\ntouch ../begun; sleep 600\\n' > pre-commit && ")
        commit = "chmod +x pre-commit && cd ../.. && git commit -qam m"
        result = tool.run(hook + commit, cancel=cancelled_when("begun"))
        assert result.status == "cancelled" and not Path("r/.git/index.lock").exists()
        assert tool.run("cd r && rm .git/hooks/pre-commit && git commit -qam m && git log --oneline").exit_code == 0


def test_a_leading_dash_is_no_option():
    """A text that begins with a dash is a command like any other."""
    with BashTool() as tool:
        for command in ("-x", "--help", "-c 'echo no'"):
            result = tool.run(command)
            assert result.exit_code == 127 and "command not found" in result.text


# an ordinary user who has no process on this machine, so that limits of his processes can be tried
NOBODY = 61234


def test_umask_and_limits_are_those_of_the_first_command(tmp_path):
    """Commands see the umask and the resource limits that the host had at its first command, though the host changes its
    own later; so do those of another tool."""
    program = """
        place, look = sys.argv[1], "umask; ulimit -n; ulimit -Hn"
        tool = BashTool(place, state_dir=place + "/state")
        os.umask(0o027)
        resource.setrlimit(resource.RLIMIT_NOFILE, (500, 1000))
        print(tool.run(look).stdout.split())
        os.umask(0o022)
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 1000))
        print(tool.run(look).stdout.split())
        job = tool.job(tool.run(look, mode="background").pid)
        job.wait(10)
        print(job.read(0)[0].split("\\n\\n")[0].split())
        print(BashTool(place).run(look).stdout.split())
        print(oct(os.umask(0)), resource.getrlimit(resource.RLIMIT_NOFILE))
    """
    assert in_host(program, tmp_path) == "%r\n" % ["0027", "500", "1000"] * 4 + "0o22 (200, 1000)\n"
