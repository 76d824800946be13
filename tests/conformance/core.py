"""What the judge asks of the level core."""

import base64
import collections
import contextlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import string
import sys
import time
from pathlib import Path

from tests.conformance.judge import Unasked, Wrong, asks, of_bash, on_both_sides, patience, printf, requested, words_of
from tests.processes import FUNCTIONS, alive, eventually, functions_of_a_host, of_proc, parent_of, processes
from tests.spec import LONGER_MODES, LONGER_SLOW, MODES_S, SLOW_MS, fenced, rows_of, size_in_words, verdicts


FULL_OUTPUT = r"\[full output: ([^\n]*)\]\n\Z"  # the path in the last line of an answer
GOES_ON = r"output goes on to ([^\n]*)\]\n"  # the path in a note on leftovers
FILES_LEFT = r"\[files that the command left are in ([^\n]*)\]"
CUT = r"\[output truncated in middle: [^\n]*\]\n"


def timed_out(q, limit):
    """What stands above the output of a command in the mode default that has reached its timeout."""
    longer = LONGER_MODES if "jobs" in q.judge.levels else LONGER_SLOW
    return "[command timed out after %s]\n%s\n" % (limit, longer)


def with_startup(q, script, **env):
    """A server whose shells read this script at their start."""
    (q.folder / "rc").write_text(script + "\n")
    return q.server(env={"BASH_ENV": str(q.folder / "rc"), **env})


@asks("001.1")
def runs_what_bash_runs(q):
    commands = [
        *(r"printf '%s\n' \"a  b\" 'c'\"'\"'d' e\ f $'g\th'", "cat <<'E'\n$HOME `x` \\\nE\n"),
        *("f() { echo \"$# $*\"; return 3; }; f 1 '2 3'", "echo a; exit 7; echo b", "echo 'open", "echo a\\"),
        *("trap 'echo \"$BASH_COMMAND\"' DEBUG; true; echo a", "if true; then echo yes", "true; # said\nfalse"),
        *("set -e; echo on; false; echo never", "(exit 9)", "! true", "trap 'echo bye' EXIT; echo hi"),
        *("echo $0 $# ${1-none}", "printf 'no newline at the end'", "echo {1..3} ~+ [x] \\\n  next"),
        *("alias ll='echo aliased'\nll 2>/dev/null || echo 'no aliases'", "shopt -po noglob history; echo $-"),
        *("echo 'é €' | wc -c", "exec echo replaced", "x=$(printf '\\n\\nq\\n\\n'); echo \"$x\" | wc -l"),
        *("echo a &&\necho b ||\necho c", "exec 7>seven; echo x >&7; cat seven", "sleep 0.1 & wait $!; echo $?"),
        *("kill -TERM $$", "read -r line; echo \"got $? <$line>\"", "unset PATH; echo ${PATH-unset}"),
        *("return 5 2>/dev/null; echo $?", "cd / && pwd; false"),
    ]
    for command in commands:
        done, is_whole = of_bash(q, command), "'open" not in command and "if true" not in command
        reply = q.run("exec 2>/dev/null\n" * is_whole + command)
        code = done.returncode if done.returncode >= 0 else 128 - done.returncode
        first = re.match(r"\[command failed: exit code (\d+)[^\n]*\]\n?", reply.text)
        q.equal(int(first[1]) if first else 0, code, "exit code of %r:" % command)
        if done.stdout.strip() and code != 2:
            q.equal(reply.text[first.end() if first else 0 :], done.stdout.decode(), "output of %r:" % command)
    q.match(r"\[command failed: exit code 127\]\n.*-n.*", q.run("-n").text)  # a command, no option
    q.says("echo $? $LINENO", "0 1\n")
    for nothing in ("", "\n", "# nothing"):
        q.says(nothing, "[no output]\n")
    q.says("", "mine\n", wire=with_startup(q, "echo mine"))  # a shell runs


# What the host of a server has changed: signals ignored and blocked, a descriptor left open, limits, nice, umask, CPUs.
HOST = """
for n in (signal.SIGPIPE, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, 40, 64): signal.signal(n, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGWINCH])
os.dup2(os.open("/dev/null", os.O_RDONLY), 9)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 400))
os.nice(3)
os.umask(0o027)
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
"""


@asks("001.1")
def begins_as_a_plain_shell_does(q):
    """4.8: only the descriptors 0 to 2 are open; Inherited: signals by default, all else as the host has it."""
    wire = q.server(before=HOST, timeouts={"default": 0.5})
    for command in ("seq 100000", "sleep 600 & echo on", "sleep 600", "kill -9 $$", "rm -r $PWD", "echo > f; exit 3"):
        wire.call(command)  # what one of them makes the server change would be seen below
    q.folder.mkdir()
    q.says("ls /proc/$$/fd", "0\n1\n2\n", wire=wire)
    blocks = "for fd in 0 1 2; do sed -n 's/^flags:[^0-9]*//p' /proc/$$/fdinfo/$fd; done"
    flags = [int(word, 8) & os.O_NONBLOCK for word in wire.call(blocks).text.split()]
    q.equal(flags, [0, 0, 0], "O_NONBLOCK of the descriptors 0 to 2:")
    wire.begin("echo $$ > shell; exec sleep 600", "shell", mode="slow")
    proc = Path("/proc/%d" % q.number("shell"))
    eventually(lambda: (proc / "comm").read_text() == "sleep\n", patience(None))
    status = dict(re.findall(r"(\w+):\s*(.*)", (proc / "status").read_text()))
    # Without 32 and 33, glibc's own (nptl(7)): its posix_spawn, by which make starts programs, leaves 32 ignored.
    got = {name: int(status[name], 16) & ~(3 << 31) for name in ("SigIgn", "SigBlk")}
    q.equal(got, {"SigIgn": 0, "SigBlk": 0}, "signals of the command, one bit each:")
    eventually(lambda: len(os.listdir(proc / "fd")) == 3, 10)  # the loader of sleep opens its libraries
    q.equal(sorted(os.listdir(proc / "fd")), ["0", "1", "2"], "descriptors of the command:")
    nice = int((proc / "stat").read_text().rpartition(") ")[2].split()[16])
    got = [status["Umask"], status["Cpus_allowed_list"], nice]
    q.equal(got, ["0027", str(min(os.sched_getaffinity(0))), min(19, os.nice(0) + 3)], "umask, processors, priority:")
    limits = re.findall(r"Max (?:core file size|open files) +(\d+) +(\d+)", (proc / "limits").read_text())
    q.equal(limits, [("0", "0"), ("300", "400")], "limits of a core file and of descriptors:")


@asks("001.2")
def keeps_the_order_of_writing(q):
    text = "".join("o%d\ne%d\n" % (n, n) for n in range(1, 301))
    q.says("for n in $(seq 300); do echo o$n; echo e$n >&2; done", text)


@asks("001.3", "001.4", "009.1")
def cuts_the_middle(q):
    q.says("head -c 131071 /dev/zero | tr '\\0' x; echo", "x" * 131071 + "\n")
    lines = b"".join(b"%07d\n" % n for n in range(1, 40001))
    for data, command in (
        (lines, "seq -f %07.0f 40000"),
        *((b"y" * n, "head -c %d /dev/zero | tr '\\0' y" % n) for n in (131073, 196608, 1048575, 1048576)),
        (b"ab" + "€".encode() * 50000, "printf ab; yes € | head -n 50000 | tr -d '\\n'"),
    ):
        text = q.run(command).text
        path = q.named(FULL_OUTPUT, text)
        head, tail = data[:4096].decode("utf-8", "ignore"), data[-4096:].decode("utf-8", "ignore")
        notice = "[output truncated in middle: got %s, max is 128KB]\n" % size_in_words(len(data))
        q.equal(text, notice + "%s\n\n[snip]\n\n%s\n[full output: %s]\n" % (head, tail.rstrip("\n"), path))
        q.equal(path.read_bytes(), data, "the file:")
    text = q.run("head -c 140000 /dev/zero | tr '\\0' '\\377'").text  # more is shown than came, and not all was kept
    q.match(r"\[output truncated in middle: got 136\.7KB, max is 128KB\]\n\ufffd.*", text)
    text = q.run("head -c 60000 /dev/zero | tr '\\0' '\\377'; exit 3").text  # 180,000 bytes of U+FFFD
    above = r"\[command failed: exit code 3\]\n\[output truncated in middle: got 175\.8KB, max is 128KB\]\n"
    q.match(above + r"\ufffd{1365}\n\n\[snip\]\n\n\ufffd{1365}\n\[full .*\]\n", text)


@asks("001.3")
def renders_as_one_what_it_kept_whole(q):
    text = q.run("head -c 100000 /dev/zero | tr '\\0' '\\377'; printf '\\033[Ghere'").text
    q.match(CUT + r"here\ufffd{1364}\n\n\[snip\]\n\n\ufffd{1365}\n\[full .*\]\n", text)


@asks("001.3")
def leaves_out_halves_of_a_character(q):
    """4.7, at the inner edges of what is kept: the first part ends with some bytes of what stands there. U+0001
    shows nothing, so the edges are shown."""
    blanks, euro = "; head -c %d /dev/zero | tr '\\0' '\\1'; ", b"\xe2\x82\xac"
    for kept, first, last, shown in (
        (1, euro, euro, "a\n\n[snip]\n\nb\n"),
        (2, euro, euro, "a\n\n[snip]\n\nb\n"),
        (1, b"\xff\x80\x80", b"\xe2" + b"\x80" * 4, "a\ufffd\n\n[snip]\n\n\ufffdb\n"),
        (2, b"\xe0\x80", euro, "a\ufffd\ufffd\n\n[snip]\n\nb\n"),  # these begin no valid character
        (2, b"\xf4\x90\x80\x80", euro, "a\ufffd\ufffd\n\n[snip]\n\nb\n"),
    ):
        begin = "printf a" + blanks % (65535 - kept) + printf(first) + blanks % 9 + printf(last)
        text = q.run(begin + blanks % (65535 - len(last)) + "echo b").text
        q.match(r"\[output truncated in middle: got 128\.0KB, max is 128KB\]\n%s\[full .*\]\n" % re.escape(shown), text)


@asks("001.5")
def runs_in_its_directory(q):
    elsewhere = q.folder / "deep" / "here é"
    elsewhere.mkdir(parents=True)
    (q.folder / "link").symlink_to("deep/here é")
    wire = q.server("--cwd", "%s/link/../link/." % q.folder)  # 4.8: `link/..` is taken out of the text
    q.says("pwd; pwd -P", "%s/link\n%s\n" % (q.folder, elsewhere.resolve()), wire=wire)
    for given, path in (("deep/../link/../deep/here é/", "deep/here é"), ("link", "link"), ("link/..", ".")):
        q.says("pwd", "%s\n" % (q.folder / path), wire=q.server("--cwd", given))
    wire = q.server(cwd=elsewhere, env={"PWD": str(q.folder / "link")})
    q.says("pwd; cd /; pwd", "%s\n/\n" % elsewhere.resolve(), wire=wire)
    q.says("pwd -P", "%s\n" % elsewhere.resolve(), wire=wire)


@asks("001.7")
def each_shell_is_fresh(q):
    umask = re.search(r"(?m)^Umask:\s*([0-7]+)", Path("/proc/self/status").read_text())[1]
    sets = "export LEFT=1; other=2; cd /; f() { echo f; }; alias g=h; umask 0; set -f; shopt -s nullglob; "
    q.run(sets + "trap 'echo trap' EXIT; ulimit -n 77; echo done")
    asks = "echo ${LEFT-unset} ${other-unset}; type f >/dev/null 2>&1 || echo none; case $- in *f*) echo f;; esac; "
    q.says(asks + "[ \"$PWD\" != / ] && umask; [ $(ulimit -n) = 77 ]; echo $?", "unset unset\nnone\n%s\n1\n" % umask)


def description_of_mode(wire):
    return wire.definition()["inputSchema"]["properties"]["mode"]["description"]


@asks("002.1")
@on_both_sides(("002.1", "s of `default`"))
def limit_of_default(q):
    q.has(description_of_mode(q.wire), "default (30s timeout)")
    ends = q.wire.begin("sleep 26; echo done")
    reply = q.says("echo on; sleep 600", timed_out(q, "30s") + "on\n", True, within_s=120)
    q.took(reply.took_s, 30, 32, "the answer")
    q.answered(ends, "done\n")


@asks("002.2")
def limit_of_slow(q):
    q.has(description_of_mode(q.wire), "slow (%dmin timeout)" % (MODES_S["slow"] / 60))
    q.says("sleep 31.5; echo done", "done\n", mode="slow", within_s=120)
    wire = q.server(timeouts={"slow": 1})
    q.says("echo on; sleep 600", "[command timed out after 1s]\non\n", True, wire=wire, mode="slow")


@asks("002.4")
def a_timeout_keeps_the_output(q):
    wire = q.server(timeouts={"default": 2})
    text = wire.call("trap 'echo cleaned; exit' TERM; seq 100000; sleep 600 & wait").text
    q.match(re.escape(timed_out(q, "2s")) + CUT + r"1\n2\n.*\n100000\ncleaned\n\[full output: [^\n]*\]\n", text)
    late = "trap 'sleep 0.5; echo cleaned; exit' TERM; echo > ready; sleep 600 & wait"  # of a child, by then an orphan
    command = "(%s) & until [ -e ready ]; do sleep 0.1; done; sleep 600" % late
    q.says(command, timed_out(q, "2s") + "cleaned\n", True, wire=wire)


@asks("002.5")
def a_timeout_names_the_limit(q):
    for limit, words in ((0.25, "0.25s"), (0.12345, "0.123s"), (1.5, "1.5s"), (2, "2s")):
        wire, text = q.server(timeouts={"slow": limit}), "[command timed out after %s]\non\n" % words
        q.says("echo on; sleep 600", text, True, wire=wire, mode="slow")


@asks("002.6")
def what_was_ended_has_no_code(q):
    wire = q.server(timeouts={"default": 1}, structured=True)
    for end in ("exit 7", "exit 0", "trap - TERM; kill $$"):
        command = "trap 'echo cleaned; %s' TERM; echo on; sleep 600 & wait" % end
        q.fields(q.says(command, timed_out(q, "1s") + "on\ncleaned\n", True, wire=wire), exit_code=None)


@asks("002.7")
def a_timeout_names_the_other_modes(q):
    wire = q.server(timeouts={"default": 0.5, "slow": 0.5})
    q.says("echo on; sleep 600", timed_out(q, "0.5s") + "on\n", True, wire=wire)
    q.says("echo on; sleep 600", "[command timed out after 0.5s]\non\n", True, wire=wire, mode="slow")


@asks("002.8")
def silence_is_told_once(q):
    note = "[nothing was printed; a program may hold its output back: stdbuf -oL, python3 -u]\n"
    for command, told in (("sleep 600", note), ("trap 'echo late; exit' TERM; sleep 600 & wait", "")):
        wire, first = q.server(timeouts={"slow": 0.5}), "[command timed out after 0.5s]\n"
        q.says("echo on; sleep 600", first + "on\n", True, wire=wire, mode="slow")
        q.says(command, first + told + "late\n" * (not told), True, wire=wire, mode="slow")
        q.says("sleep 600", first + ("" if told else note), True, wire=wire, mode="slow")
    number = q.wire.begin("echo > begun; sleep 600", "begun", mode="slow")
    q.wire.signal(signal.SIGINT)
    q.answered(number, "[command cancelled]\n", True)


@asks("002.9")
def what_handles_int_prints_what_it_held(q):
    wire, first = q.server(timeouts={"slow": 3}), "[command timed out after 3s]\n"
    held = """python3 -c 'import time; print("held back"); time.sleep(600)' 2>/dev/null"""
    for around in ("%s", "timeout 500 %s", "(%s; echo never) | tail -n 3"):
        q.says(around % held, first + "held back\n", True, wire=wire, mode="slow")
    lines = 'import time\nprint("held back")\ntime.sleep(600)\nopen("later", "w")\n'
    (q.folder / "s.py").write_text(lines)
    for reads in ("python3 - < s.py", "cat s.py | python3", "python3 -i < s.py", "cat s.py | python3 -i"):
        q.says(reads + " 2>/dev/null", first + "held back\n", True, wire=wire, mode="slow")
        q.that(not (q.folder / "later").exists(), "no later line of a Python that reads lines", reads)
    unknown = """perl -e '$SIG{INT} = sub { open F, ">later" }; $| = 1; print "on\\n"; sleep 600; sleep 600'"""
    q.says(unknown, first + "on\n", True, wire=wire, mode="slow")
    q.that(not (q.folder / "later").exists(), "no INT to a program that is not known to end at it", unknown)
    wraps = """import subprocess
p = subprocess.Popen(["sh", "-c", "sleep 600"])
try: code = p.wait()
except KeyboardInterrupt: code = p.wait()
print("code", code)
"""
    (q.folder / "wraps.py").write_text(wraps)
    for _ in range(5):
        text = wire.call("python3 wraps.py", mode="slow").text
        q.that("code 0" not in text, "a child of a Python that is no success", repr(text))
    sleeps = """try: print("on", file=open("begun", "w"), flush=True), time.sleep(600)"""
    asks = """python3 -c 'import time\n%s\nexcept KeyboardInterrupt: print("asked")'""" % sleeps
    number = q.wire.begin(asks, "begun", mode="slow")
    q.wire.signal(signal.SIGINT)
    q.answered(number, "[command cancelled]\nasked\n", True)


@asks("002.10")
def a_filter_prints_at_the_end_of_its_input(q):
    wire, first = q.server(timeouts={"slow": 1}), "[command timed out after 1s]\n"
    shown = {
        "sort": "a\nb\n",
        "tail -n 1": "a\n",
        "grep b | wc -l": "1\n",
        "tee f | sort": "a\nb\n",
        "awk 'NR > 1'": "a\n",
    }
    for filters, text in shown.items():
        q.says("(echo b; echo a; sleep 600) | " + filters, first + text, True, wire=wire, mode="slow")
    wire.call("touch a b; (echo a; printf b; sleep 600) | xargs rm", mode="slow")
    q.that((q.folder / "a").exists(), "xargs that acts on no half of a list", "a is gone")
    (q.folder / "f").write_text("keep\n")
    for sort in ("sort -o f", "sort -uo f", "sort --output=f"):
        wire.call("(echo b; echo a; sleep 600) | " + sort, mode="slow")
        q.equal((q.folder / "f").read_text(), "keep\n", "the file of `%s`:" % sort)


NAMES_TO_WITHHOLD = """MY_API_KEY dbPassword SSHPASS LDAP_BINDPW GH_TOKEN AWS_SECRET_ACCESS_KEY SESSION_COOKIE MY_AUTH
    A_JWT APIKey KEY2 USER_PASSPHRASE REFRESH_TOKENS DB_CREDS SIGNINGKEY OAUTH_BEARER DEPLOY_PAT USER_PWD DJANGO_SECRETS
    MYSQL_PASSWORDS SSH_KEYS PROXY_AUTHORIZATION AZURE_CREDENTIALS""".split()
PLAIN_VARIABLES = """KEYBOARD_LAYOUT=us MONKEY=m GIT_AUTHOR_NAME=A.B SSH_AUTH_SOCK=/s X_PASSWORD_FILE=/p MAX_TOKENS=4096
    API_AUTH=basic SSH_PUBLIC_KEY=ssh-rsa COMPASS=north POSTGRES_HOST_AUTH_METHOD=trust TOKEN_PATH=/t AUTHOR=x
    CERT_DIR=/c GOOGLE_APPLICATION_CREDENTIALS=/g.json TOKENIZERS_PARALLELISM=false PW_TEST_X=1x SECRETARY=s""".split()


def words_in(rule):
    """The words of a rule of 4.8, one by one: of `(?:A|B)C` it has AC and BC."""
    choice = re.fullmatch(r"(.*?)\(\?:((?:\w|\|)*)\)(.*)", rule, re.DOTALL)
    if choice:
        return [word for part in choice[2].split("|") for word in words_in(choice[1] + part + choice[3])]
    return [rule]


RULES = {int(number): body.replace("\n", "") for number, body in fenced("rule")}
LAST_WORDS = re.match(r"_\(\?:([A-Z_|]*)\)_", RULES[5])[1].split("|")
PLAIN_WORDS = [word + "PASS" for word in re.match(r"_\(\?!\(\?:([A-Z|]*)\)PASS_\)", RULES[6])[1].split("|")]
ENDINGS = [
    ending
    for part in re.findall(r"\(\?:[A-Z|]+\)[A-Z]+|[A-Z]+", re.search(r"\[\^_\]\*\(\?:(.*)\)S\?_", RULES[6])[1])
    for ending in words_in(part)
]
SECRET_WORDS = re.match(r"_\(\?:([A-Z?|]*)\)_", RULES[8])[1].replace("S?", "").split("|")
SECRET_WORDS += "COOKIES CREDS KEY KEYS".split()
PLAIN_VALUES = re.findall(r"\|([a-z0-9-]+)", RULES[4])
FLAGS = {1: re.DOTALL, 2: re.ASCII, 3: re.ASCII, 7: re.ASCII, 8: re.DOTALL}


def is_secret(name, value):
    """By the rules of 4.8."""
    own, word = name[3:] if name.startswith("PW_") else name, dict(fenced("pattern"))["NAME_WORD"]
    words = "_%s_" % "_".join((*own.split("_"), *re.findall(word, own))).upper()
    seen = {"value": value, "pair": name + "=" + value, "words": words}
    for number, where, verdict, *_ in (row for row in rows_of("4.8 Directory, shell, environment") if row[0].isdigit()):
        if re.search(RULES[int(number)], seen[where], FLAGS.get(int(number), 0)):
            return verdict == "secret"
    return False


def names_of_the_words():
    """Names that hold a secret by the words of 4.8, and variables that these words, or their values, excuse."""
    endings = [ending + s for ending in ENDINGS for s in ("", "S")]
    secret = ["W%d_%s" % each for each in enumerate(SECRET_WORDS + endings)]
    secret += ["w%d%s" % each for each in enumerate(word.title() for word in SECRET_WORDS + endings)]
    secret += ["w%d-x%s" % (n, ending.lower()) for n, ending in enumerate(endings)]
    last_words = [word for word in LAST_WORDS if "_" not in word]
    secret += [name % word for word in last_words for name in ("%s_TOKEN", "A_TOKEN_X%s", "A_TOKEN_%s2")]
    secret += "A_PUBLIC_TOKEN PUBLICATION_KEY COMPASS_TOKEN PW_TOKEN pw_debug pwd".split()
    plain = {"W%d_%s" % each: "xyzzy" for each in enumerate(PLAIN_WORDS, 100)}
    plain.update({name % word: "xyzzy" for word in last_words for name in ("A_TOKEN_%s", "key%s")})
    values = [change(value) for value in PLAIN_VALUES for change in (str, str.upper)]
    plain.update({"V%d_SECRET" % n: value for n, value in enumerate([*values, "", "-7", "+1.25"])})
    return secret, dict(plain, MY_PUB_KEYS="x", PW_DEBUG="x")


def environment_of(q, wire, **arguments):
    """The environment of a command of this server."""
    reply = wire.call("env -0 > environment; echo done", **arguments)
    pairs = (q.folder / "environment").read_bytes().decode("utf-8", "surrogateescape").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if pair), reply


@asks("004.2")
def withholds_by_name(q):
    plain_variables = dict(pair.split("=", 1) for pair in PLAIN_VARIABLES)
    for secret, plain in ((NAMES_TO_WITHHOLD, plain_variables), names_of_the_words()):
        env, _ = environment_of(q, q.server(env={**dict.fromkeys(secret, "xyzzy"), **plain}))
        q.equal(sorted(set(secret) & set(env)), [], "secret names that a command gets:")
        q.equal({name: env.get(name) for name in plain}, plain, "names that hold no secret:")


def gets(q, env, expected, what="variables:", options=()):
    """A command of a new server has these variables with these values; None: not at all."""
    got, _ = environment_of(q, q.server(*options, env=env))
    q.equal({name: got.get(name) for name in expected}, expected, what)


def kept_back(q, variables):
    """Which of these variables a command of a new server does not get."""
    env, _ = environment_of(q, q.server(env=variables))
    return {name for name in variables if name not in env}


PLACES = """/root/.ssh/id ~/.netrc ./certs/Server1.pem /home/user1/keys /Tq0vb/X8mLw2R /k2/Ab https://example.org/a/b
    https://me@example.org/ https://example.org/?a=b http://[::1]:80/@s/a ftp://h/ ../x ~me/x /a:b /abc /Tq0vbX8mLw2R /a_b/c""".split()
PLACES += ["/x/%s/y" % ("Ab1" * n) for n in (6, 7)] + ["https://example.org/" + "a1" * n for n in (7, 8)]


@asks("004.12")
def where_who_and_how_long_pass(q):
    chance, base64 = random.Random(5), string.ascii_letters + string.digits + "+/"
    paths = ["/" + "".join(chance.choices(base64, k=39)) for _ in range(300)]
    variables = {"V%d_KEY" % n: value for n, value in enumerate(PLACES + paths)}
    variables.update({"V%d_TOKEN" % n: value for n, value in enumerate(PLACES)})
    for word in [*LAST_WORDS, "KEY_ID", "ID", "IN", "SOURCE", "ROLE", "BACKENDS"]:
        names = ["W_%s_%s" % (kind, word) for kind in ("AUTH", "SECRET", "TOKEN", "PASS", "KEY")]
        variables.update(dict.fromkeys([*names, "wKey" + word.title().replace("_", "")], "xyzzy"))
    variables.update(T_TOKEN="1" * 15, U_TOKEN="1" * 16)
    secret = {name for name, value in variables.items() if is_secret(name, value)}
    got = kept_back(q, variables)
    q.equal({name: variables[name] for name in secret - got}, {}, "secrets that a command gets:")
    q.equal({name: variables[name] for name in got - secret}, {}, "settings that a command does not get:")
    for name, value, verdict, _ in verdicts():
        q.equal(is_secret(name, value), verdict == "secret", "%s=%s by the rules of SPEC.md:" % (name, value))
    aws = {"AWS_ACCESS_KEY_ID": "x", "AWS_REGION": "r"}
    q.equal(kept_back(q, aws), set(), "withheld of %s:" % aws)
    for name in ("AWS_SESSION_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        q.equal(kept_back(q, {**aws, name: "y"}), {name, "AWS_ACCESS_KEY_ID"}, "withheld of a group:")


VALUES_TO_WITHHOLD = [
    *"postgres://me:pw@db/x redis://:pw@db https://me:pw@example.org/ https://x.y/?access_token=abcdefgh12".split(),
    *"https://hooks.slack.com/services/T0/B0/x -Dstore.keyPassword=x xoxb-1234567890-x éPassword=hunter22".split(),
    *"Server=h;Password=hunter22; DefaultEndpointsProtocol=https;AccountKey=abcd1234==".split(),
    *("ghp_" + "a1" * 18, "AKIA" + "A1" * 8, "sk-" + "a1" * 12, "glpat-" + "x1" * 10, "hf_" + "A1" * 15),
    *("AIza" + "x1" * 18, "npm_" + "A1" * 18, "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abcdefghij"),
    *("-----BEGIN RSA PRIVATE KEY-----\nx", "Authorization: Bearer abcd1234"),
    *("Password=%sabc" % blank for blank in "\u00a0\u2028\u3000"),  # 4.8: white space is that of ASCII
]
PLAIN_TEXTS = """https://example.org/ https://user@example.org/ postgres://user@host/db http://[::1]:8080/ host:5432
    a@b.c sk-short Password= eyJ""".split()


CHARACTERS = [chr(n) for n in range(32, 127)] + ["\t", "é"]
sre_parse = getattr(re, "_parser", None) or __import__("sre_parse")  # from Python 3.11 on; before that
sre_compile = getattr(re, "_compiler", None) or __import__("sre_compile")


def alternatives(tree):
    """How many texts of a parsed pattern it takes to meet each alternative of each branch, and each repetition."""
    most = 1
    for kind, what in tree:
        if str(kind) == "BRANCH":
            most = max(most, sum(map(alternatives, what[1])))
        elif str(kind) in ("SUBPATTERN", "MAX_REPEAT"):
            most = max(most, alternatives(what[-1]), 2 * (str(kind) == "MAX_REPEAT"))
    return most


def drawn(chance, tree, taken):
    """A text of a parsed pattern. What it looks at ahead or behind, and where it stands, is left to chance; of a branch
    and of a repetition it draws what it has `taken` least, so that each comes."""

    def rarest(ways):
        """Of pairs of a name and a weight, one that was taken least for its weight."""
        name = min(ways, key=lambda way: (taken[way[0]] / way[1], chance.random()))[0]
        taken[name] += 1
        return name

    text = ""
    for kind, what in tree:
        if str(kind) == "LITERAL":
            text += chr(what)
        elif str(kind) in ("NOT_LITERAL", "IN"):
            one = sre_compile.compile(sre_parse.SubPattern(tree.state, [(kind, what)]))
            text += chance.choice([character for character in CHARACTERS if one.match(character)])
        elif str(kind) == "BRANCH":
            _, n = rarest([((id(what), n), alternatives(one)) for n, one in enumerate(what[1])])
            text += drawn(chance, what[1][n], taken)
        elif str(kind) == "SUBPATTERN":
            text += drawn(chance, what[-1], taken)
        elif str(kind) == "MAX_REPEAT":
            _, times = rarest([((id(what), n), 1) for n in range(what[0], min(int(what[1]), what[0] + 3) + 1)])
            text += "".join(drawn(chance, what[2], taken) for _ in range(times))
    return text


@asks("004.14")
def passes_what_is_published(q):
    begin = "NEXT_PUBLIC_ NUXT_PUBLIC_ EXPO_PUBLIC_ PUBLIC_ VITE_ REACT_APP_ VUE_APP_ GATSBY_ STORYBOOK_".split()
    plain = {name + end: "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK" for name in begin for end in ("A_TOKEN", "ANON_KEY")}
    plain["VITE_DB"] = "db://me:pw@host/"
    key = "-----BEGIN RSA PRIVATE " + "KEY-----\nMII"
    secret = {"VITE_A": key, "PUBLIC_B": base64.b64encode(key.encode()).decode(), "AN_EXPO_PUBLIC_TOKEN": "x"}
    env, _ = environment_of(q, q.server(env={**secret, **plain}))
    q.equal({name: env.get(name) for name in plain}, plain, "what bundlers publish:")
    q.equal([name for name in secret if name in env], [], "secrets that a command gets:")


@asks("004.3")
def withholds_what_the_pattern_matches(q):
    """Values of the whole grammar of rule 2, and values that miss it by a character."""
    pattern, chance, values = re.compile(RULES[2], re.ASCII), random.Random(4), []
    tree, taken = sre_parse.parse(pattern.pattern, re.ASCII), collections.Counter()
    while len(values) < 1200:
        value = drawn(chance, tree, taken)
        at = chance.randrange(len(value))
        other = chance.choice([chance.choice(CHARACTERS), ""])
        values += [value, "x " + value, "x" + value, value[:at] + other + value[at + 1 :]]
    names = ["DRAWN_%d" % n if n % 3 else "DRAWN_%d_FILE" % n for n in range(len(values))]
    env, _ = environment_of(q, q.server(env=dict(zip(names, values))))
    wrong = [value for name, value in zip(names, values) if bool(pattern.search(value)) == (name in env)]
    q.equal([value for value in wrong if pattern.search(value)], [], "values of rule 2 that a command gets:")
    q.equal([value for value in wrong if not pattern.search(value)], [], "values that rule 2 does not find:")


@asks("004.3")
def withholds_by_value(q):
    secret = {"INNOCENT_%d" % n: value for n, value in enumerate(VALUES_TO_WITHHOLD)}
    plain = {"PLAIN_%d" % n: value for n, value in enumerate(PLAIN_TEXTS)}
    secret["BUNDLE_GEMS__EXAMPLE"], plain["BUNDLE_PATH"] = "me:pw", "a:b"
    secret.update(E_TOKEN="1e5", F_TOKEN="none ", G_TOKEN=".5", H_TOKEN="1_0")
    plain["BASH_FUNC_get_token()"] = "() { :; }"
    secret["GOOGLE_APPLICATION_CREDENTIALS"] = secret["BASH_FUNC_x%%"] = "() { curl https://me:pw@h; }"
    group = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "db://me:pw@h"}
    env, _ = environment_of(q, q.server(env={**secret, **plain, **group}))
    q.equal({name: env[name] for name in secret if name in env}, {}, "secret values that a command gets:")
    q.equal({name: env.get(name) for name in plain}, plain, "values that are no secret:")
    q.equal([name for name in group if name in env], [], "the group of git, one of which is secret:")
    group.update(GIT_CONFIG_VALUE_0="c")
    gets(q, group, group, "the group of git, none of which is secret:")


ESCAPES_OF_THREE_KINDS = (
    "setsid sleep 600 & echo $! > e1; (setsid sh -c 'echo $$ > e2; exec sleep 600' >/dev/null 2>&1 </dev/null &); "
    "(env -i setsid sh -c 'echo $$ > e3; exec sleep 600' >/dev/null 2>&1 </dev/null &); "
    "set -m; (nohup sleep 600 >/dev/null 2>&1 & echo $! > e4); "
    "(setsid sh -c '(sh -c \"echo \\$\\$ > e5; trap : TERM; while :; do sleep 1; done\" &)' >/dev/null 2>&1 &); "
    "sleep 600 & disown; echo $! > e6; "
)
ESCAPED = ["e%d" % n for n in range(1, 7)]


@asks("004.4")
def ends_the_tree(q):
    wire = q.server(timeouts={"grace_s": 2})  # in which a busy machine has run the trap
    late = "set +m; trap 'setsid sleep 600 >/dev/null 2>&1 & echo $! > late; exit' TERM; echo > ready; sleep 600 & wait"
    wire.cancel(wire.begin(ESCAPES_OF_THREE_KINDS + late, "ready", *ESCAPED, mode="slow"))
    q.dead(*ESCAPED, "late")


@asks("004.5")
@on_both_sides(("004.5", "s of grace"))
def kill_comes_after_fifteen_seconds(q):
    wire = q.server(timeouts={"default": 2})
    cleans = wire.begin("trap 'sleep 11; echo cleaned; exit' TERM; sleep 600 & wait")
    on = "while :; do sleep 0.1; done"
    stopped = "trap \"echo > stopped-heard; exit\" TERM; echo > stopping; kill -STOP $$; " + on
    reply = wire.call("trap 'echo heard' TERM; setsid bash -c '%s' & echo deaf; %s" % (stopped, on), within_s=120)
    q.equal((reply.text.split("\n")[0], reply.is_error), ("[command timed out after 2s]", True))
    q.that("heard" in reply.text, "TERM before KILL: the command's trap says heard", reply.text)
    q.took(reply.took_s, 2 + 15, 2 + 15 + 1.5, "the answer")
    q.there("stopped-heard", within_s=1)  # CONT follows TERM
    q.answered(cleans, timed_out(q, "2s") + "cleaned\n", True, wire)
    wire = q.server(timeouts={"default": 1, "grace_s": 0.5})
    q.says("trap '' TERM; echo deaf; while :; do sleep 0.1; done", timed_out(q, "1s") + "deaf\n", True, wire=wire)


@asks("004.13")
def no_later_line_runs(q):
    wire, first = q.server(timeouts={"slow": 1.5}), "[command timed out after 1.5s]\n"
    ends = """python3 -c 'import sys, time\ntry: time.sleep(600)\nexcept KeyboardInterrupt: sys.exit(0)' 2>/dev/null"""
    for line in ("sleep 600", ends, "for i in 1 2; do sleep 600 </dev/null; touch later; done"):
        (q.folder / "s.sh").write_text("#!/bin/bash\necho on\n%s\ntouch later\n" % line)
        (q.folder / "s.sh").chmod(0o755)
        (q.folder / "Makefile").write_text("all:\n\t@-./s.sh\n\ttouch later\n")
        by_name = ["./s.sh || true; touch later", "timeout 500 ./s.sh; touch later"]
        for around in (*by_name, "cat s.sh | bash", "make 2>&1 | head -n 1"):
            q.says(around, first + "on\n", True, wire=wire, mode="slow")
            q.that(not (q.folder / "later").exists(), "no later line", "%s, below %s" % (line, around))


@asks("004.7")
def a_normal_end_kills_nothing(q):
    q.run("nohup sleep 600 &>/dev/null & echo $! > a; setsid sleep 600 & echo $! > b; (sleep 600 &) & echo on; exit 3")
    q.alive("a", "b", for_s=1.5)
    q.equal(q.wire.end(), 0, "exit code of the server:")
    q.alive("a", "b", for_s=0.5)


def own_processes(q, shell):
    """The server's process, and those between it and the shell of a command."""
    judges, pid = {1, q.wire.pid}, os.getpid()  # what supervises or wraps the judge is not the server's
    while pid > 1:
        judges.add(pid)
        pid = parent_of(pid)
    own, pid = [q.wire.pid], parent_of(shell)
    while pid not in judges:
        own.append(pid)
        pid = parent_of(pid)
    return own


def without_capabilities(q, **how):
    """A server without what root may do beyond other users, with which it is as if an ordinary user had started it."""
    wire = q.server(before="for n in range(64): ctypes.CDLL(None).prctl(24, n, 0, 0, 0)", **how)  # PR_CAPBSET_DROP
    try:
        caps = wire.call("grep CapEff /proc/self/status").text
    except Wrong:
        raise Unasked("the server does not run without root's capabilities") from None
    if int(caps.split()[1], 16):
        raise Unasked("root's capabilities cannot be taken from the server")
    return wire


@asks("004.9")
def commands_cannot_read_the_tool(q):
    q.wire = without_capabilities(q, env={"MY_TOKEN": "xyzzy"})
    q.wire.begin("echo $$ > shell; sleep 600")
    own = own_processes(q, q.number("shell"))
    for pid in {*own} - {q.wire.pid}:  # the server itself keeps what it was started with
        known = of_proc(pid, "environ") if os.getuid() == 0 else b""
        q.that(b"xyzzy" not in known, "no secret in the environment of a process between server and shell", known)
    readable = "for p in %s; do (: < /proc/$p/environ) 2>/dev/null && echo $p; done; true"
    q.says(readable % " ".join(map(str, own)), "[no output]\n")


@asks("004.9")
def no_secret_in_arguments_or_files(q):
    word = "tok-%s" % os.urandom(8).hex()
    wire = q.server(env={"MY_TOKEN": word})
    count = "| grep -c '%s'[%s]; " % (word[:-1], word[-1])
    words = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' "
    q.says(words + count + "env " + count + "true", "0\n0\n", wire=wire)
    wire.call("seq 100000; sleep 600 & echo $! > left")
    files = [path for path in q.files.rglob("*") if path.is_file()]  # the pipe that ends a job is none
    held = [path.name for path in files if word.encode() in path.read_bytes()]
    q.equal(held, [], "files of the tool that hold the secret:")


@asks("005.1")
def no_controlling_terminal(q):
    opened = "import fcntl, termios\nours, theirs = os.openpty()\nos.set_inheritable(ours, True)\n"
    wire = q.server(before=opened + "fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)")
    command = "(: < /dev/tty) 2>/dev/null || echo none; ps -o tty= -p $$ | tr -d ' '; tty; true"
    q.says(command, "none\n?\nnot a tty\n", wire=wire)


@asks("005.2")
def the_input_is_at_its_end(q):
    rest = "readlink /proc/self/fd/0; wc -c; python3 -c 'print(1)' < /dev/null >/dev/null; (cat; echo sub)"
    q.says("cat; read -r x; echo $?; " + rest, "1\n/dev/null\n0\nsub\n")


def definition_and_page(q, row="modes"):
    """The definition that a server of this profile gives, and that of 4.2."""
    fences = dict(fenced("definition"))
    if row == "modes" and "jobs" not in q.judge.levels:
        ((_, fences[row]),) = fenced("without-jobs")
    page = json.loads(fences[row])
    page["inputSchema"] = page.pop("input_schema")
    page["description"] = page["description"].replace("<pwd>/</pwd>", "<pwd>%s</pwd>" % q.folder)
    return q.server(profile=row).definition(), {**page, **json.loads(fences["mcp"])}


@asks("006.1")
def the_schema_is_that_of_the_page(q):
    for row in ("modes", *q.rows):
        listed, page = definition_and_page(q, row)
        q.equal(listed["inputSchema"], page["inputSchema"], "inputSchema of %s:" % row)
        q.equal(listed["name"], q.judge.adapter.tool, "name")
    for default, slow, words in (  # 4.2, and 4.7: Seconds
        (60, 90, ("1min", "90s")),
        (1234.5678, 1000000.5, ("1234.57s", "1000000s")),
        (0.3, 86400, ("0.3s", "1440min")),
        (90.25, 999999.9, ("90.25s", "999999s")),
    ):
        wire = q.server(timeouts={"default": default, "slow": slow})
        q.has(description_of_mode(wire), "default (%s timeout), slow (%s timeout)" % words)


@asks("006.3")
def the_description_is_that_of_the_page(q):
    listed, page = definition_and_page(q)
    q.equal(listed.get("description"), page["description"], "description")
    q.has(listed["description"], "<pwd>%s</pwd>" % q.folder)


@asks("006.4")
def says_what_is_wrong(q):
    modes = '"default", "slow"' + ', "background"' * ("jobs" in q.judge.levels)
    for arguments, sentence in (
        (dict.fromkeys(["command", *"g9b1cde"]), 'unknown key "g", "9", "b", "1", "c"; allowed: "command", "mode"'),
        ({"😀" * 81: 1}, 'unknown key "%s…"; allowed: "command", "mode"' % ("😀" * 79)),
        ({"😀" * 80: 1}, 'unknown key "%s"; allowed: "command", "mode"' % ("😀" * 80)),
        ({"x\x1b\u202ey\u2028\xa0\ue000z": 1}, 'unknown key "x  y   z"; allowed: "command", "mode"'),
        ({"timeout": "a", "command": 7}, '"timeout" must be an integer, got string'),
        ({"command": 7, "timeout": "a"}, '"command" must be a string, got integer'),
        ({"mode": 3, "run_in_background": 1}, '"run_in_background" must be a boolean, got integer'),
        ({"mode": "fast"}, '"command" is required: the shell command to execute, a string'),
        ({"command": "\0", "mode": "fa\x7fst"}, '"mode" must be one of %s, got "fa st"' % modes),
        ({"command": "é\0\ud800"}, '"command" holds a lone surrogate (U+D800 at index 2), which is no text'),
        ({"command": True}, '"command" must be a string, got boolean'),
        ({"command": 7.0}, '"command" must be a string, got number'),
        ({"command": ["ls"]}, '"command" must be a string, got array'),
        ({"command": {}}, '"command" must be a string, got object'),
        ({"command": None}, '"command" is required: the shell command to execute, a string'),
        ({"command": "ls", "mode": 3}, '"mode" must be one of %s, got integer' % modes),
    ):
        q.refused(arguments, "invalid arguments: " + sentence)


@asks("006.6")
def the_same_bytes(q):
    lines = set()
    for wire in [wire for wire in (q.server() for _ in range(3)) for _ in range(2)]:
        wire.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        wire.receive()
        lines.add(wire.line)
        wire.call("echo hi")
    q.equal(len(lines), 1, "different answers to tools/list of equal servers:")


TYPES = {"string": str, "object": dict, "array": list, "boolean": bool, "null": type(None)}
TYPES.update(integer=(int, float), number=(int, float))


def admits(schema, value):
    """Whether a JSON Schema, of the few words that definitions use, admits the value."""
    kind, known = schema["type"], schema.get("properties", {})
    if isinstance(kind, list):
        return any(admits({**schema, "type": each}, value) for each in kind)
    is_right = isinstance(value, TYPES[kind]) and not (isinstance(value, bool) and kind in ("integer", "number"))
    if not is_right or value not in schema.get("enum", [value]) or kind == "integer" and value != int(value):
        return False
    if kind == "object":
        is_known = schema.get("additionalProperties", True) or set(value) <= set(known)
        is_whole = is_known and set(schema.get("required", ())) <= set(value)
        return is_whole and all(admits(known[key], value[key]) for key in value if key in known)
    return kind != "integer" or schema.get("minimum", value) <= value <= schema.get("maximum", value)


@asks("006.9")
def admits_what_the_schema_admits(q):
    cases = [{}, {"Command": "echo a"}, {"command": "echo a", "cwd": "/"}]
    cases += [{"command": value} for value in ("echo a", "", 1, 1.0, True, ["a"], {"a": 1})]
    ls = {"command": "echo a"}
    cases += [{**ls, "mode": mode} for mode in ("default", "slow", "Default", "fast", 1, True, ["slow"], {})]
    timed = [{**ls, "timeout": n} for n in (0, 1.5, "5.0", True, -1, 86400001, 60000, 60000.0, 6e4)]
    for row in ("modes", *q.rows):
        wire = q.server(profile=row)
        schema = wire.definition()["inputSchema"]
        for arguments in cases + timed * (row == "jobs"):  # elsewhere 006.10 understands this key
            if set(arguments) & {"command", "check_pid", "kill_pid"} or row != "jobs":
                is_admitted = "invalid arguments" not in wire.given(arguments).text
                words = "%s in the profile %s is admitted:" % (json.dumps(arguments), row)
                q.equal(is_admitted, bool(admits(schema, arguments)), words)


@asks("006.10")
def understands_other_tools(q):
    wire = q.wire
    q.equal(wire.given({"command": "echo hi", "description": 7, "timeout": 1e3, "mode": "slow"}).text, "hi\n")
    number = '"timeout" must be from 1000 to %d milliseconds, got %s'
    for default, slow, most in ((0.3, 5, 5000), (0.3, 1.5, 1500), (0.3, 2000, 2000000), (7, 2, 7000)):
        limited = q.server(timeouts={"default": default, "slow": slow})
        q.equal(limited.given({"command": "sleep 0.6; echo hi", "timeout": most}).text, "hi\n")
        over = {"command": "echo hi", "timeout": most + 1}
        q.refused(over, "invalid arguments: " + number % (most, most + 1), wire=limited)
    has_jobs = "jobs" in q.judge.levels
    beside = 'give one of "mode" and "run_in_background"' if has_jobs else '"run_in_background" cannot be true here'
    null = dict.fromkeys(("timeout", "run_in_background", "description", "mode"))
    q.equal(wire.given({"command": "echo hi", **null}).text, "hi\n", "keys whose value is null:")
    for arguments, sentence in (
        *(({"timeout": wrong}, number % (SLOW_MS, wrong)) for wrong in (SLOW_MS + 1, 999, 10**15 - 1)),
        ({"timeout": 1e2}, number % (SLOW_MS, 100)),
        *(({"timeout": wrong}, number % (SLOW_MS, "a number of another size")) for wrong in (-(10**15), 10**15)),
        ({"timeout": 1500.5}, '"timeout" must be an integer, got number'),
        ({"timeout": True}, '"timeout" must be an integer, got boolean'),
        ({"run_in_background": "yes"}, '"run_in_background" must be a boolean, got string'),
        *(({"run_in_background": True, "mode": mode}, beside) for mode in ("slow", "fast")),
        *([] if has_jobs else [({"run_in_background": True}, beside)]),
    ):
        q.refused({"command": "echo hi", **arguments}, "invalid arguments: " + sentence)
    if "jobs" in q.judge.levels:
        reply = wire.given({"command": "echo $$ > job; sleep 600", "run_in_background": True, "timeout": 1000})
        q.that("<pid>" in reply.text and not reply.is_error, "a background command", reply.text)
        time.sleep(1.5)
        q.alive("job")


@asks("006.13")
def takes_near_misses(q):
    wire = q.wire
    q.begins(wire.given({"command": "sleep 600", "timeout": "01000", "mode": ""}).text, timed_out(q, "1s"))
    for key in ("run_in_background", "mode", "timeout"):
        near = {"run_in_background": "false", "mode": "", "timeout": "20000"}[key]
        q.equal(wire.given({"command": "echo 7", key: near}).text, "7\n", "with %s %r:" % (key, near))
    if "jobs" in q.judge.levels:
        reply = wire.given({"command": "echo $$ > job; sleep 600", "run_in_background": "true", "mode": ""})
        q.that("<pid>" in reply.text and not reply.is_error, "a background command", reply.text)
        q.alive("job")
    said = 'invalid arguments: "timeout" must be from 1000 to %d milliseconds, got 999' % SLOW_MS
    q.refused({"command": "ls", "timeout": "999"}, said)
    for wrong in ("+5000", " 5000", "5e3", "5000.0", "", "5000\n", "\u0665000", "1" * 16):
        q.refused({"command": "ls", "timeout": wrong}, 'invalid arguments: "timeout" must be an integer, got string')
    for wrong in ("True", "yes", "", "1", "false "):
        said = 'invalid arguments: "run_in_background" must be a boolean, got string'
        q.refused({"command": "ls", "run_in_background": wrong}, said)
    for row in set(q.rows) & {"jobs"}:
        jobs = q.server(profile=row)
        reply = jobs.given({"command": "echo 7", "check_pid": 0, "kill_pid": "0", "timeout": "5000"})
        q.that("\n7\n" in reply.text and not reply.is_error, "the command: 0 is no process", reply.text)
        q.has(jobs.given({"check_pid": "4711"}).text, "the pid 4711;")


@asks("006.15")
def takes_an_object_in_a_string(q):
    wire = q.wire
    for arguments in ({"command": "echo hi"}, {"command": 'echo "hi"', "mode": "slow"}):
        q.equal(wire.given(json.dumps(arguments)).text, "hi\n", "arguments that were encoded twice:")
    q.refused(json.dumps({"command": 5}), 'invalid arguments: "command" must be a string, got integer')


@asks("007.1", "007.3")
def states_the_code_and_the_output(q):
    for code in (1, 2, 3, 126, 127, 200, 255):
        q.says("echo why >&2; exit %d" % code, "[command failed: exit code %d]\nwhy\n" % code, True)
    q.says("echo fine; exit 0", "fine\n")


@asks("007.2")
def names_the_signal(q):
    for name in ("HUP", "INT", "ILL", "ABRT", "FPE", "SEGV", "USR1", "PIPE", "ALRM", "TERM"):
        text = "[command failed: exit code %d (SIG%s)]\non\n" % (128 + signal.Signals["SIG" + name], name)
        q.says("echo on; kill -%s $$; sleep 5" % name, text, True)
    names = {number: signal.Signals(number).name for number in (*range(1, 16), *range(17, 32), 34, 64) if number != 9}
    names[16] = "SIGSTKFLT"  # known to Python from 3.11 on
    for code in (*range(128, 137), *range(138, 168), 191, 192, 193, 200, 255):  # 4.3; 137 is 007.6
        said = " (%s)" % names[code - 128] if code - 128 in names else ""
        q.says("echo on; exit %d" % code, "[command failed: exit code %d%s]\non\n" % (code, said), True)
    q.says("kill -40 $$", "[command failed: exit code 168 (signal 40)]\n", True)


def path_without_bash(q):
    """A folder with all programs of the PATH but bash."""
    folder = q.place / "programs"
    folder.mkdir()
    there = [each for each in os.environ["PATH"].split(os.pathsep)[::-1] if each and os.access(each, os.R_OK)]
    programs = {path.name: path for each in there for path in Path(each).iterdir() if path.name != "bash"}
    for name, path in programs.items():
        (folder / name).symlink_to(path)
    return folder


@asks("007.4")
def system_errors(q):
    wire = q.server(env={"PATH": str(path_without_bash(q))}, structured=True)
    missing = "[system error: the shell bash was not found]\n"
    reply = q.says("touch made; exit 1", missing, True, wire=wire)
    q.fields(reply, status="failed", error="shell_not_found", duration_s=0, output_file=None)
    q.that(not (q.folder / "made").exists(), "the command is not run", "it was")
    (q.folder / "relative").mkdir()
    (q.folder / "relative" / "bash").symlink_to(shutil.which("bash"))
    for path, text in ((None, "on\n"), ("", missing), ("relative", "on\n"), ("folder/relative", missing)):  # 4.8, 4.14
        wire = q.server("--cwd", str(q.folder), cwd=q.place, env={"PATH": path})
        wire.request("ping")
        if wire.receive() is not None:  # what stands before the server may need a PATH
            q.equal(wire.call("echo on").text, text, "where PATH is %r:" % path)


@asks("007.4")
def its_supervisor_is_killed(q):
    """4.4 status_unknown: asked where another process than the server is the parent of the shell."""
    wire = q.server(timeouts={"default": 20}, structured=True)
    number = wire.begin("setsid sleep 600 & echo $! > child; echo $$ > shell; sleep 600", "child", "shell")
    parent = parent_of(q.number("shell"))
    if parent == wire.pid:
        raise Unasked("the server itself is the parent of the shell")
    os.kill(parent, signal.SIGKILL)
    text = "[system error: the supervisor of the command was killed: how the command ended is unknown]\n"
    q.fields(q.answered(number, text, True, wire), status="failed", error="status_unknown")
    q.dead("shell", "child")
    q.says("echo on", "on\n", wire=wire)


@asks("007.6")
def a_kill_that_is_not_ours(q):
    first = "[command failed: exit code 137 (SIGKILL); not sent by this tool; possibly out of memory]\n"
    q.says("echo big; kill -9 $$", first + "big\n", True)
    q.says("echo big; exit 137", first + "big\n", True)
    wire = q.server(timeouts={"default": 1, "grace_s": 0.3})
    q.says("trap '' TERM; echo on; while :; do sleep 0.1; done", timed_out(q, "1s") + "on\n", True, wire=wire)


@asks("007.7")
def a_shell_that_reads_nothing(q):
    programs = path_without_bash(q)
    for text, how in (("exit 0", "exit code 0"), ("echo why; exit 3", "exit code 3"), ("kill -9 $$", "SIGKILL")):
        (programs / "bash").write_text("#!/bin/sh\n%s\n" % text)
        (programs / "bash").chmod(0o755)
        said = "[system error: the shell bash ended (%s) before it read the command]\n" % how + "why\n" * (
            "why" in text
        )
        reply = q.says("echo hi", said, True, wire=q.server(env={"PATH": str(programs)}, structured=True))
        q.fields(reply, status="failed", error="spawn_failed", signal=None)
    (programs / "bash").write_text("#!/no/such/interpreter\n")  # 4.4: spawn_failed
    text = "[system error: the shell bash could not be started: %s/bash: No such file or directory]\n"
    q.says("echo hi", text % programs, True, wire=q.server(env={"PATH": str(programs)}))
    (programs / "bash").chmod(0o644)  # what cannot be executed is passed over
    q.says("echo hi", "hi\n", wire=q.server(env={"PATH": "%s:/usr/bin:/bin" % programs}))


@asks("011.1")
def a_held_pipe_is_not_waited_for(q):
    q.run("echo warm")
    for command, bound_s in (
        ("sleep 600 & echo $! > a; echo hi", 0.5),
        ("(while :; do echo hi; sleep 0.1; done) & echo $! > b; echo hi", 2),
    ):
        reply = q.one_of(4, lambda: q.takes(q.wire, command, bound_s))
        note = r"\[still running: pid [^\n]*; to stop: kill -TERM -\d+[^\n]*; output goes on to /[^\n]*\]\n"
        q.match(note + "(hi\n)+", reply.text)
    q.alive("a", "b")
    q.one_of(5, lambda: q.says("(sleep 0.3; echo late) & echo hi", "hi\nlate\n"))
    # Silence of so long after each byte is waited for, and no timeout counts any more (2.1, step 6).
    slow = q.server(timeouts={"default": 1, "drain_idle_s": 4, "drain_total_s": 30})
    q.match(r"hi\n1\n2\n3\n", slow.call("(for i in 1 2 3; do sleep 1.5; echo $i; done) & echo hi").text)
    q.says("(sleep 7; echo late) & echo early; sleep 5", "early\nlate\n", wire=slow, mode="slow")


@asks("011.2")
def names_leftovers(q):
    text = q.run("sleep 600.5 & echo $! > a; (setsid sleep 601.5 >/dev/null 2>&1 & echo $! > b); exit 4").text
    note = r"\[still running: (.*?); to stop: kill -TERM ([-\d ]+); output goes on to [^\n]+\]\n?"
    found = q.match(r"\[command failed: exit code 4\]\n" + note, text)
    named = sorted([(q.number("a"), 600.5), (q.number("b"), 601.5)])
    q.equal(found[1], ", ".join('pid %d "sleep %s"' % each for each in named))
    q.run("kill -9 %s; echo" % found[2])
    q.dead("a", "b")
    # In a new session, its output closed, with a zombie.
    text = q.run("(setsid sh -c 'sleep 0 & echo $$ > c; exec sleep 602.5' >/dev/null 2>&1 &); sleep 0.5; echo hi").text
    q.match(r'\[still running: pid %d "sleep 602\.5"; to stop: kill -TERM -\d+\]\nhi\n' % q.number("c"), text)
    for name, shown in (
        ("x); kill -9 -1 ]" + '"' * 50, r'x\); kill -9 -1 \\u005d(?:\\"){50} 603\.5'),
        ("n" * 90, "n{79}…"),
        ("😀" * 60, r"😀{60} 603\.5"),  # 120 units of UTF-16
    ):
        reply = q.run("(exec -a '%s' sleep 603.5) >/dev/null 2>&1 & echo hi" % name)
        q.match(r'\[still running: pid \d+ "%s"; to stop: kill -TERM -\d+\]\nhi\n' % shown, reply.text)
        q.took(reply.took_s, 0.1, 0.5, "an answer that names what has closed its output")  # 2.1, step 6
    reply = q.run("for i in $(seq 25); do setsid sleep 604.5 >/dev/null 2>&1 & done; echo hi")
    five = r'(?:pid \d+ "sleep 604\.5", ){4}pid \d+ "sleep 604\.5"'
    found = q.match(r"\[still running: %s and 20 more; to stop: kill -TERM((?: -\d+){20})\]\nhi\n" % five, reply.text)
    targets = [int(target) for target in found[1].split()]
    q.equal(targets, sorted(set(targets), reverse=True), "the groups, sorted, each once:")
    q.match(r".*kill -TERM -\d+\]\nhi\n", q.run("for i in 1 2; do sleep 606.5 >/dev/null 2>&1 & done; echo hi").text)
    q.says("sleep 0.03 >/dev/null 2>&1 & echo hi", "hi\n")  # it ends within 0.1 s
    command = "(while :; do sleep 605.5; done) &>/dev/null & echo $! > d; "
    text = q.run(command + "until pgrep -P $! sleep; do sleep 0.1; done >f; echo hi").text
    both = r'pid %d "a subshell of the command"' % q.number("d"), r'pid \d+ "sleep 605\.5"'
    q.match(r"\[still running: (?:%s, %s|%s, %s); to stop: [^\n]*\]\nhi\n" % (*both, *both[::-1]), text)


@asks("011.7")
def what_is_ending_is_not_named(q):
    wire = q.server(timeouts={"drain_idle_s": 0.1, "drain_total_s": 0.4})
    for n in range(15):
        text = wire.call("sleep 0.%03d & echo hi" % (96 + n)).text
        q.match(r'(?:\[still running: pid \d+ "sleep 0\.\d+"; [^\n]*\]\n)?hi\n', text)
    call = 60 if os.uname().machine == "x86_64" else 93  # exit(2), of the first thread alone
    ends = "threading.Thread(target=time.sleep, args=(9,)).start(); ctypes.CDLL(None).syscall(%d, 0)" % call
    start = "%s -c 'import ctypes, threading, time; %s' >/dev/null 2>&1 & " % (shlex.quote(sys.executable), ends)
    q.says(start + "until grep -q '^State:.Z' /proc/$!/status; do sleep 0.1; done; echo hi", "hi\n", wire=wire)


@asks("011.3")
def goes_on_reading(q):
    command = "(until [ -e go ]; do sleep 0.1; done; seq 50000; echo later; echo > wrote; sleep 600) & echo $! > left; "
    path = q.named(GOES_ON, q.run(command + "echo now").text)
    (q.folder / "go").touch()
    q.there("wrote")
    q.holds(path, "now\n" + "".join("%d\n" % n for n in range(1, 50001)) + "later\n")
    q.alive("left")


@asks("011.4")
def nothing_written_is_lost(q):
    for n in range(15):
        q.says("seq 3000", "".join("%d\n" % n for n in range(1, 3001)))
    wire = q.server(timeouts={"drain_idle_s": 20, "drain_total_s": 40})  # what is written long after the end
    q.says("exec > >(sleep 1; sort -n); seq 2000 -1 1 | tail -n 3", "1\n2\n3\n", wire=wire)
    q.says("printf x > /dev/stderr; printf y; exit 3", "[command failed: exit code 3]\nxy", True)


@asks("011.6")
def what_still_runs_is_counted(q):
    wire = q.server(structured=True)
    for count in (0, 1, 8):
        reply = wire.call("for n in $(seq %d); do sleep 610 >/dev/null 2>&1 & echo $!; done; exit 3" % count)
        pids = sorted(int(line) for line in reply.text.split("\n") if line.isdigit())
        q.equal(len(pids), count, "numbers in %r:" % reply.text)
        q.fields(reply, exit_code=3, leftovers=pids)


@asks("012.1")
def the_text_is_in_no_arguments(q):
    word = "word%s" % os.urandom(6).hex()
    q.wire.begin("echo $$ > shell; : %s; sleep 600" % word, "shell")
    holders = [words for words in map(words_of, processes()) if word in words]
    q.equal(holders, [], "arguments that hold the command's text:")


@asks("012.2")
def any_length(q):
    for length in (131072, 200000, 1500000):
        text = "x=%s\necho ${#x} $0 $#; readlink /proc/self/fd/0; cat" % ("y" * length)
        q.says(text, "%d bash 0\n/dev/null\n" % length)
    q.says("#" * 70000 + "\necho end", "end\n")
    q.says("echo end", "0\nend\n", wire=with_startup(q, "wc -c; read -r line"))


@asks("012.3")
def no_shell_can_take_that(q):
    for command, sentence in (
        ("é\udc00", "holds a lone surrogate (U+DC00 at index 1), which is no text"),
        ("é😀\udc00", "holds a lone surrogate (U+DC00 at index 2), which is no text"),
        ("😀\0", "holds a NUL character (at index 1), which no shell can take"),
    ):
        q.refused({"command": command}, 'invalid arguments: "command" ' + sentence)
    q.says("echo 😀é", "😀é\n")


@asks("012.4")
def names_of_its_own(q):
    q.wire = q.server("--deny", "bash /python", "--state-dir", str(q.folder / "node"))
    q.wire.begin("echo $$ > shell; sleep 600")
    for pid in own_processes(q, q.number("shell")):
        name = "%s %s" % (Path("/proc/%d/comm" % pid).read_text().strip(), words_of(pid))
        met = re.findall(r"python|node|ruby|perl|java|bash|\bsh\b|server|/", name)
        q.equal(met, [], "what `pkill -f` of a language, a shell or a path meets in %r:" % name)


@asks("012.4")
def a_helper_that_is_killed_is_replaced(q):
    number = q.wire.begin("echo $$ > shell; sleep 600")
    helper = own_processes(q, q.number("shell"))[2:3]
    q.wire.cancel(number)
    q.dead("shell")
    if not helper:
        raise Unasked("the server itself starts the process that starts the shell")
    of_server = parent_of(helper[0]) == q.wire.pid  # it may be the server, behind a program that started both
    os.kill(helper[0], signal.SIGKILL)
    eventually(lambda: not alive(helper[0]))  # what meets it while it ends may find another one by luck
    try:
        numbers = [q.wire.begin("sleep 0.3; echo on") for _ in range(3)]
        q.equal([q.wire.finish(number).text for number in numbers], ["on\n"] * 3, "after the helper was killed:")
    except Wrong:
        if of_server and q.wire.process.poll() is not None:
            raise Unasked("the server cannot be told from what it starts") from None
        raise


@asks("013.1", "013.2", "013.4")
def the_directory_is_gone(q):
    gone = q.folder / "gone\n\u202eé"
    gone.mkdir()
    wire = q.server(cwd=gone, env={"A_TOKEN": "xyzzy"})
    q.says("echo there", "there\n", wire=wire)
    gone.rmdir()
    where = re.sub("[\n\u202e]", "\ufffd", str(gone)) + " is gone (No such file or directory)"  # 4.7: Short
    note = "[the working directory %s; the command ran in an empty scratch folder]\n" % where
    q.says("ls -A; stat -c %a .; grep -c apart /proc/$$/cmdline; true # apart", note + "700\n0\n", wire=wire)
    text = wire.call("pwd; echo x > made").text
    q.begins(text, note[:-1])
    kept = q.named(FILES_LEFT, text)
    q.equal((kept / "made").read_text(), "x\n", "the file in the scratch folder:")
    q.match(re.escape(str(q.state())) + r"/scratch-[0-9a-f]{12}/scratch", str(kept))
    for command in ("pwd", "sleep 600 >/dev/null 2>&1 & pwd"):
        folder = wire.call(command).text.split("\n")[-2]
        q.equal(Path(folder).exists(), False, "an empty scratch folder is there after %s:" % command)
    shutil.rmtree(kept.parent, ignore_errors=True)
    *_, above, listed, mode, folder = wire.call("cd ..; dirname $PWD; ls -A; stat -c %a .; pwd").text.split("\n")[:-1]
    q.equal([Path(above), listed, mode], [q.state(), "scratch", "700"], "the folder above, and what is in the parent:")
    q.equal(Path(folder).exists(), False, "an empty scratch folder is there, whose command went into the one above:")
    reply = wire.call("echo x > made; sleep 600 >/dev/null 2>&1 & echo $! > '%s/child' # A_TOKEN" % q.folder)
    order = r"\[still running: [^\n]*\n\[files that the command left are in [^\n]*\n\[not passed [^\n]*: A_TOKEN\]\n"
    q.match(re.escape(note) + order, reply.text)
    os.kill(q.number("child"), signal.SIGKILL)
    kept = q.named(FILES_LEFT, reply.text)
    q.that((kept / "made").exists(), "a scratch folder with the file, though a process lives in it", kept)
    shutil.rmtree(kept.parent, ignore_errors=True)
    gone.write_text("")
    q.says("echo on", note.replace("No such file or directory", "Not a directory") + "on\n", wire=wire)
    wire = q.server(structured=True)
    wire.call("rm -r \"$PWD\"")
    q.fields(wire.call("true"), exit_code=0, status="exited", error="cwd_missing")
    q.folder.mkdir()
    nowhere = q.folder / "nowhere"
    nowhere.mkdir()
    wire = q.server("--state-dir", str(q.folder / "no-folder"), cwd=nowhere, structured=True)
    wire.ask("ping")
    (q.folder / "no-folder").write_text("")
    nowhere.rmdir()
    text = "[system error: the working directory %s cannot be entered (No such file or directory)]\n" % nowhere
    q.fields(q.says("echo > '%s/ran'" % q.folder, text, True, wire=wire), status="failed", error="cwd_missing")
    q.that(not (q.folder / "ran").exists(), "the command is not run", "it was")


@asks("013.1")
def the_directory_cannot_be_entered(q):
    shut = q.folder / "shut"
    shut.mkdir()
    wire = without_capabilities(q, cwd=shut)
    shut.chmod(0)
    note = "[the working directory %s cannot be entered (Permission denied); the command ran in" % shut
    q.says("ls -A; echo on", note + " an empty scratch folder]\non\n", wire=wire)
    shut.chmod(0o700)
    q.says("pwd", "%s\n" % shut, wire=wire)


@asks("013.3")
def a_missing_directory_is_refused(q):
    (q.folder / "file").write_text("")
    for name in ("missing", "file", "file/below", "~"):
        wire = q.server("--cwd", name, env={"HOME": str(q.folder)})
        q.equal(wire.receive(), None, "what a server with --cwd %s says:" % name)
        q.equal(wire.ended(), 125, "exit code of a server with --cwd %s:" % name)
        said = wire.errors.read_text(errors="replace")
        q.that(said.count("\n") == 1 and name in said, "one line on standard error that names %s" % name, said)


@asks("014.1")
def nothing_bends_the_shell(q):
    (q.folder / "rc").write_text("echo noise >&2\n")
    (q.folder / "usr").mkdir()
    env = dict(ENV=str(q.folder / "rc"), SHELLOPTS="noglob", BASHOPTS="nullglob", CDPATH="/", GLOBIGNORE="*")
    env.update(BASH_XTRACEFD="1", GPG_TTY="/dev/pts/9", BASH_EXECUTION_STRING="x")
    env.update(functions_of_a_host("builtin", "command", "unset"))
    got, reply = environment_of(q, q.server("--keep-env", "*", env=env))
    q.equal(reply.text, "done\n")
    q.equal(sorted(set(env) & set(got)), [], "variables of bash that a command gets:")
    q.says("ls -d usr; cd usr; case $- in *f*) echo noglob;; esac; basename $PWD", "usr\nusr\n", wire=q.wires[-1])
    told = q.server(env=dict.fromkeys(("ENV", "CDPATH", "GPG_TTY"), "https://me:pw@h/")).call(": ENV CDPATH GPG_TTY")
    q.equal(told.text, "[no output]\n", "what is dropped is not told as withheld:")
    env = {"BASH_FUNC_module%%": "() { builtin eval \"export LOADED=$2\"; }"}
    env.update(functions_of_a_host(*FUNCTIONS), **{"BASH_FUNC_get_token%%": "() { echo token; }"})
    del env["BASH_FUNC_export%%"], env["BASH_FUNC_cd%%"]
    wire = with_startup(q, "ml() { module \"$@\"; }; cd usr", **env)
    q.says("module load gcc; echo $LOADED; ml load cuda; echo $LOADED", "gcc\ncuda\n", wire=wire)
    q.says("get_token; basename $PWD; [ a; true", "token\nusr\nwrong [\n", wire=wire)
    q.says("echo on", "on\n", wire=q.server(env={"BASH_ENV": str(q.folder / "missing")}))
    wire = with_startup(q, "echo why; exit 3")
    text = wire.call("echo on").text
    named = r'; the file of BASH_ENV may have ended it: "/[^"]{1,79}"'
    q.match(r"\[system error: the shell bash ended \(exit code 3\) before it read the command%s\]\nwhy\n" % named, text)


@asks("014.2")
def nothing_asks_pages_or_paints(q):
    ((_, table),) = fenced("environment")
    expected = dict(pair.split("=", 1) for pair in table.split())
    known = {*q.env, *expected, "PWD", "OLDPWD", "SHLVL", "_", "BASH_TOOL_SET", "BASH_TOOL_PROFILE"}
    for has in ("less", None):
        env = {**dict.fromkeys(expected, has), "GIT_ASKPASS": has and "ssh-askpass"}
        got, _ = environment_of(q, q.server("--keep-env", "*PAGER", env=env))
        q.equal(sorted(set(got) - known), [], "variables of another kind that are set:")
        where = "what is set, where the server's environment has PAGER=%s:" % has
        q.equal({name: got.get(name) for name in expected}, expected, where)
    for words in ("$%s f", '"$%s" f', 'eval "$%s" f'):
        for name in ("EDITOR", "GIT_SEQUENCE_EDITOR"):
            said = r"\[command failed: exit code 127\]\n[^\n]*%s: command not found\n" % re.escape(expected[name])
            q.match(said, q.run(words % name).text)


@asks("014.3")
def the_locale(q):
    of_text = ("LANG", "LC_ALL", "LC_CTYPE")
    for value in (None, ""):
        env, _ = environment_of(q, q.server(env={**dict.fromkeys(of_text, value), "LC_COLLATE": "C"}))
        effective = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "none"
        q.match(r"(?i).*\.UTF-?8" if env.get("LC_CTYPE") else r"C\.UTF-8", effective)
    for name in of_text:
        env, _ = environment_of(q, q.server(env={"LANG": None, name: "C"}))
        if name != "LC_ALL" and re.match(r"(?i).*UTF-?8$", env.get("LC_CTYPE", "")):
            # SPEC 4.8: an interpreter sets LC_CTYPE for itself where the locale is C (PEP 538)
            env["LC_CTYPE"] = "C" if name == "LC_CTYPE" else ""
        q.equal({other: env[other] for other in of_text if env.get(other)}, {name: "C"}, "the locale:")


@asks("014.4")
def the_rest_passes(q):
    passed = {"LINES_OF": "a\nb\n", "ODD": "%s $x 'y' \"z\" \\", "EMPTY": "", "UMLAUT": "äö€", "RAW": "a\udcffb"}
    passed.update({"lower.dotted-name": "1", "GIT_AUTHOR_NAME": "A  B ", "MY_URL": "https://example.org/?a=b"})
    passed.update(HOME=str(q.folder), SSH_AUTH_SOCK="/s", X_PASSWORD_FILE="/p", JAVA_HOME="/j")
    gets(q, passed, {**passed, "PATH": q.env["PATH"]})


FORCED_COLOURS = """FORCE_COLOR=3 CLICOLOR_FORCE=1 MYPY_FORCE_COLOR=1 ANSIBLE_FORCE_COLOR=true PY_COLORS=1 GTEST_COLOR=yes
    CARGO_TERM_COLOR=always NPM_CONFIG_COLOR=always npm_config_color=true PYTHON_COLORS=1 RUST_LOG_STYLE=always
    COMPOSE_ANSI=always CLANG_FORCE_COLOR_DIAGNOSTICS=ON FORCE_COLOUR=""".split()
PLAIN_COLOURS = """NO_COLOR=1 PIP_NO_COLOR=1 DISABLE_COLORS=true CLICOLOR=1 COLORTERM=truecolor GREP_COLORS=ms=1 LS_COLORS=di=01
    A_COLOR=never B_COLORS=0 FORCE=1 X=a_FORCE_COLOR=1 COLOR_FORCED=1 MY_COLOR=blue""".split()


@asks("014.9")
def no_forced_colours(q):
    variables = dict(pair.split("=", 1) for pair in FORCED_COLOURS + PLAIN_COLOURS)
    wanted = {pair.partition("=")[0] for pair in FORCED_COLOURS}
    q.equal(kept_back(q, variables), wanted, "variables of colours that a command does not get:")


@asks("014.14")
def no_state_of_prompt_hooks(q):
    names = "DIRENV_DIFF DIRENV_WATCHES __MISE_DIFF __MISE_SESSION __FNOX_SESSION _FLOX_HOOK_DIFF _DEVENV_DIFF".split()
    names += ["__shadowenv_data", "HERMIT_ENV_OPS"]
    plain = dict.fromkeys(["DIRENV_DIR", "MISE_SHELL", "HERMIT_ENV", "A_DIFF", "DESKTOP_SESSION"], "x")
    variables = {**dict.fromkeys(names, "eJwLyk+q"), **plain}
    q.equal(kept_back(q, variables), {*names}, "variables of prompt hooks that a command does not get:")


@asks("014.11")
def a_helper_that_answers_stays(q):
    for folder in ("", "/usr/lib/ssh-askpass/"):
        for name in "askpass.sh echo my-ksshaskpass git-gui--askpass2".split():
            env = {"GIT_ASKPASS": folder + name, "SSH_ASKPASS": folder + name}
            gets(q, env, {**env, "SSH_ASKPASS": "false"})
        for name in "x11-ssh-askpass lxqt-openssh-askpass ksshaskpass git-gui--askpass".split():
            gets(q, {"GIT_ASKPASS": folder + name}, {"GIT_ASKPASS": "false"}, "GIT_ASKPASS for %s:" % (folder + name))


LOOKS_SECRET = "[not passed to commands, because it looks secret: %s]\n"


@asks("014.6")
def a_withheld_index_is_told(q):
    proxies = {"PIP_INDEX_URL": "https://me:pw@pypi.example/simple", "HTTPS_PROXY": "http://me:pw@proxy:3128"}
    wire = q.server("--deny", "mkfs", env={**proxies, "NO_PROXY": "localhost"})
    for refused in ({"cmd": 1}, {"command": "mkfs $PIP_INDEX_URL"}):
        text = wire.given(refused).text
        q.that("not passed" not in text, "a refused answer without the note", text)
    told = LOOKS_SECRET % "HTTPS_PROXY, PIP_INDEX_URL"
    q.says("echo ${PIP_INDEX_URL-none} $NO_PROXY", told + "none localhost\n", wire=wire)
    q.says("echo on", "on\n", wire=wire)
    wire = q.server(env={**proxies, "PATH": str(path_without_bash(q))})  # a command that could not be run
    q.says("echo on", "[system error: the shell bash was not found]\n" + told, True, wire=wire)
    env = dict.fromkeys(("https_proxy", "npm_config_registry"), "https://me:pw@h/")
    said = timed_out(q, "0.5s") + LOOKS_SECRET % "https_proxy, npm_config_registry" + "on\n"
    q.says("echo on; sleep 600", said, True, wire=q.server(env=env, timeouts={"default": 0.5}))
    names = ["I%d_INDEX" % n for n in range(10, 55)]  # 20 in an answer, the others in the next ones
    wire = q.server(env=dict.fromkeys(names, "https://me:pw@h/"))
    for part in (names[:20], names[20:40], names[40:]):
        q.says("echo on", LOOKS_SECRET % ", ".join(part) + "on\n", wire=wire)
    q.says("echo on", "on\n", wire=wire)
    first, last = (["%s%d_INDEX" % (letter, n) for n in range(10, 25)] for letter in "AB")
    of_host = "[not passed to commands: %s]\n"
    for glob, one, other in (("A*_INDEX", of_host, LOOKS_SECRET), ("B*_INDEX", LOOKS_SECRET, of_host)):
        wire = q.server("--drop-env", glob, env=dict.fromkeys(first + last, "https://me:pw@h/"))
        text = one % ", ".join(first) + other % ", ".join(last[:5])  # 4.5: the 20 are counted together
        q.says("echo on", text + "on\n", wire=wire)
        q.says("echo on", other % ", ".join(last[5:]) + "on\n", wire=wire)


SPOKEN = """fatal: Authentication failed for x|fatal: could not read Username for x
    |a@b: Permission denied (publickey).|ERROR 1045: Access denied for user x|unauthorized: x
    |403 Client Error: Forbidden|401 Unauthorized|(AccessDenied) x|(error) NOAUTH x|Error: Invalid API key
    |invalid_token|Missing or invalid credentials|expired access token|Unable to locate credentials
    |You are not logged into x"""
UNSPOKEN = """cat: x: Permission denied|access denied|401|status 403|Invalid or unexpected token|unexpected token x
    |missing closing token|test_unauthorized_user|java.nio.file.AccessDeniedException: x|--noauth|4010 Forbidden
    |credentials"""
SPOKEN, UNSPOKEN = ([" ".join(line.split()) for line in text.split("|")] for text in (SPOKEN, UNSPOKEN))


@asks("014.10")
def all_are_told_where_one_may_be_missed(q):
    secrets, failed = {"A_TOKEN": "xyzzy", "B_SECRET": "xyzzy"}, "[command failed: exit code 1]\n"
    fails = "printf '%%s\\n' '%s' >&2; exit 1"
    for line in SPOKEN:
        wire = q.server(env=secrets)
        q.says(fails % line, failed + LOOKS_SECRET % "A_TOKEN, B_SECRET" + line + "\n", True, wire=wire)
        q.says(fails % line, failed + line + "\n", True, wire=wire)
    wire = q.server(env=secrets)
    q.says("echo '%s'" % SPOKEN[0], SPOKEN[0] + "\n", wire=wire)
    q.says(fails % "' '".join(UNSPOKEN), failed + "".join(line + "\n" for line in UNSPOKEN), True, wire=wire)
    q.says(": %s; exit 1" % SPOKEN[-1], failed, True, wire=wire)  # the text of the command does not count
    q.says("echo A_''TOKEN; exit 1", failed + LOOKS_SECRET % "A_TOKEN" + "A_TOKEN\n", True, wire=wire)
    q.says(fails % SPOKEN[0], failed + LOOKS_SECRET % "B_SECRET" + SPOKEN[0] + "\n", True, wire=wire)
    names = ["T%d_TOKEN" % n for n in range(10, 35)]
    wire = q.server(env=dict.fromkeys(names, "xyzzy"))
    for note in (LOOKS_SECRET % ", ".join(names[:20]), LOOKS_SECRET % ", ".join(names[20:]), ""):
        q.says(fails % SPOKEN[0], failed + note + SPOKEN[0] + "\n", True, wire=wire)


@asks("014.7")
def no_startup_files(q):
    for name in (".bashrc", ".bash_profile", ".profile", ".bash_login"):
        (q.folder / name).write_text("echo noise\n")
    wire = q.server(env={"HOME": str(q.folder), "SSH_CLIENT": "1 2 3", "SHLVL": "0"})
    q.says("echo quiet; shopt -q login_shell || echo no login", "quiet\nno login\n", wire=wire)
    q.says("echo quiet", "mine\nquiet\n", wire=with_startup(q, "echo mine"))


@asks("014.8")
def a_withheld_name_is_told_once(q):
    wire = q.server(env=dict.fromkeys(("DJANGO_SECRET_KEY", "OTHER_TOKEN", "THIRD_TOKEN", "B-TOKEN"), "xyzzy"))
    q.says("echo ${DJANGO_SECRET_KEY-unset}", LOOKS_SECRET % "DJANGO_SECRET_KEY" + "unset\n", wire=wire)
    q.says("echo ${DJANGO_SECRET_KEY-unset}; echo OTHER''_TOKEN", "unset\nOTHER_TOKEN\n", wire=wire)
    shown = "[command failed: exit code 3]\n" + LOOKS_SECRET % "OTHER_TOKEN" + "OTHER_TOKEN is unset\n"
    q.says("echo OTHER''_TOKEN is unset; exit 3", shown, True, wire=wire)
    for command in (  # neither another word nor what is not shown
        "echo X_THIRD''_TOKEN THIRD''_TOKENS 9THIRD''_TOKEN; exit 3",
        ": X_THIRD_TOKEN THIRD_TOKENS THIRD_TOKEN2 B-TOKEN éTHIRD_TOKEN THIRD_TOKENß third_token",
        *("seq %d; echo THIRD''_TOKEN; seq 30000; exit 3" % lines for lines in (3000, 30000)),
        "printf 'THIRD_%s\\r%032d\\n' TOKEN 0; exit 3",
        "printf '\\033]0;THIRD_%s\\007x\\n' TOKEN; exit 3",
    ):
        text = wire.call(command).text
        q.that("not passed" not in text, "no note after %s" % command, text)
    shown = "[command failed: exit code 143 (SIGTERM)]\n" + LOOKS_SECRET % "THIRD_TOKEN" + "THIRD_TOKEN\n"
    q.says("printf 'THIRD\\033[0m_TOKEN\\n'; kill $$", shown, True, wire=wire)
    wire = q.server(env=dict.fromkeys(("PAGER", "AWS_PAGER"), "https://me:pw@h/"))  # 4.8: Set
    q.says('echo "$PAGER<$AWS_PAGER>"', LOOKS_SECRET % "AWS_PAGER, PAGER" + "cat<>\n", wire=wire)
    names = ["T%d_TOKEN" % n for n in range(10, 35)]
    wire = q.server(env=dict.fromkeys(names, "xyzzy"), timeouts={"default": 1, "grace_s": 0.3})
    q.says("echo T10''_TOKEN; exec sleep 600", timed_out(q, "1s") + "T10_TOKEN\n", True, wire=wire)
    q.says(": " + " ".join(names), LOOKS_SECRET % ", ".join(names[:20]), wire=wire)
    q.says("echo on", "on\n", wire=wire)
    q.says(": T34_TOKEN T12_TOKEN", LOOKS_SECRET % "T34_TOKEN", wire=wire)


@asks("015.1", "015.5")
def the_end_of_a_server_cancels(q):
    command = "trap 'echo cleaned; exit' TERM; echo begun; setsid sleep 600 & echo $! > child; echo $$ > shell; wait"
    number = q.wire.begin(command, "shell")
    q.wire.signal(signal.SIGTERM)
    q.answered(number, "[command cancelled]\nbegun\ncleaned\n", True)
    q.dead("shell", "child")
    q.equal(q.wire.ended(), 0, "exit code of the server:")


DEAF = "trap 'echo > heard-{0}' TERM; echo $$ > {0}; while :; do sleep 0.1; done"  # a name takes the place of {0}


def bring(wire, end, number):
    """An end of the server, or of its call."""
    if end == "input":
        wire.process.stdin.close()
    elif end == "output":
        wire.process.stdout.close()
        with contextlib.suppress(Wrong):  # it may have ended by now
            wire.request("ping")
    elif end == "withdrawn":
        wire.cancel(number)
    else:
        wire.signal(getattr(signal, end))


@asks("015.1", "020.1")
def a_cancel_ends_what_drains(q):
    for end in ("SIGINT", "SIGTERM", "input", "withdrawn") if q.clause == "015.1" else ("SIGKILL",):
        wire = q.server(timeouts={"drain_idle_s": 300, "drain_total_s": 600})
        number = wire.begin("sleep 600 & echo $! > held-%s; echo $$ > gone-%s; echo on" % (end, end))
        q.dead("gone-" + end)
        q.alive("held-" + end, for_s=0.3)
        bring(wire, end, number)
        if end not in ("input", "withdrawn", "SIGKILL"):
            q.equal(wire.finish(number).text, "[command cancelled]\non\n", "the answer after %s:" % end)
        q.dead("held-" + end)


@asks("015.3")
def a_second_cancel_kills(q):
    def begun(name, **timeouts):
        wire = q.server(timeouts={"grace_s": 600, **timeouts})
        return wire, wire.begin(DEAF.format(name), name)

    wire, number = begun("cancelled")
    wire.cancel(number)
    q.there("heard-cancelled")
    q.alive("cancelled")
    wire.cancel(number)
    q.dead("cancelled", within_s=30)
    for end in ("withdrawn", "SIGINT"):  # the timeout counts as the first cancel, and is what is told
        wire, number = begun(end, default=1)
        q.there("heard-" + end)
        q.alive(end)
        bring(wire, end, number)
        q.dead(end, within_s=30)
        if end != "withdrawn":
            q.begins(wire.finish(number).text, timed_out(q, "1s"))
    wire, number = begun("before", default=3)  # a timeout in the grace of a cancel counts as none
    wire.signal(signal.SIGINT)
    q.there("heard-before")
    q.alive("before", for_s=4)
    wire.signal(signal.SIGINT)
    q.match(r"\[command cancelled\]\n.*", wire.finish(number).text)


@asks("019.2")
def calls_do_not_meet(q):
    command = "until [ -e go ]; do sleep 0.05; done; echo out%d; exit %d"
    numbers = {code: q.wire.begin(command % (code, code)) for code in range(12)}
    q.says("touch go; echo on", "on\n")
    for code, number in sorted(numbers.items(), reverse=True):
        failed = "[command failed: exit code %d]\n" % code * bool(code)
        q.answered(number, "%sout%d\n" % (failed, code), bool(code))


@asks("020.1")
@on_both_sides(("020.1", "s until KILL"))
def the_commands_of_a_dead_server_end(q):
    wire = q.server()
    deaf = "trap 'echo > heard; sleep 0.2; echo > cleaned' TERM; echo $$ > shell; while :; do sleep 0.1; done"
    wire.begin(ESCAPES_OF_THREE_KINDS + deaf, *ESCAPED, "shell", mode="slow")
    left_s = time.monotonic()
    wire.signal(signal.SIGKILL)
    q.dead("shell")
    q.took(time.monotonic() - left_s, 0.5, 1.2, "KILL to a command that TERM does not end")
    q.dead(*ESCAPED, within_s=5)
    q.there("heard", "cleaned", within_s=1)  # TERM came first
    wire = q.server(timeouts={"grace_s": 0})  # a shorter grace of the profile holds (004.5)
    wire.begin("trap 'sleep 0.3; echo > late' TERM; echo $$ > deaf; while :; do sleep 0.05; done", "deaf", mode="slow")
    wire.signal(signal.SIGKILL)
    q.dead("deaf", within_s=5)
    q.that(not (q.folder / "late").exists(), "KILL at once, for a grace of 0", "the command went on for 0.3 s")


@asks("020.2")
def leftovers_outlive_the_server(q):
    ends = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
    for end in ends:
        wire, leaves = (
            q.server(),
            "nohup sleep 600 >/dev/null 2>&1 & echo $! > daemon-%d; sleep 600 & echo $! > holder-%d",
        )
        wire.call((leaves + "; echo on") % (end, end))
        wire.signal(end)
        wire.ended()
    q.alive(*(name % end for end in ends for name in ("daemon-%d", "holder-%d")), for_s=2.5)


@asks("020.4")
def the_inner_tool_ends_with_the_outer_command(q):
    stray = "setsid sleep 600 >/dev/null 2>&1 & echo $! > stray; echo on"
    deaf = "trap '' TERM; echo $$ > inner; while :; do sleep 0.1; done"
    calls = [{"command": command, "mode": "slow"} for command in (stray, deaf)]
    calls = [requested(n, "tools/call", name="bash", arguments=each) for n, each in enumerate(calls)]
    (q.folder / "calls").write_text("".join(json.dumps(call) + "\n" for call in calls))
    wire = q.server(timeouts={"grace_s": 1})
    inner = "(cat calls; sleep 600) | %s > inner.out" % " ".join(map(shlex.quote, q.judge.words))
    number = wire.begin(inner, "inner", mode="slow")
    stray = q.number("stray")
    # The inner tool has answered, and the stray has left the group of its shell: no signal to a group reaches it.
    q.there("inner.out")
    said = eventually(lambda: re.search(r'"id": ?0\b', q.written("inner.out")), patience(None))
    q.that(said and eventually(lambda: os.getsid(stray) == stray), "the inner tool answers", q.written("inner.out"))
    wire.cancel(number)
    q.dead("stray", "inner", within_s=30)


@asks("024.2")
def the_text_can_be_carried(q):
    odd = [bytes(range(256)) * 8, b"\xed\xa0\x80\0\xff\xed\xbf\xbf", b"\xf0\x9f\x98" * 9]
    odd += [b"\xef\xbf\xbe\xef\xbf\xbf\0" * 9, b"\\ud800 \" \x1b]" * 9]
    for wire in [q.server(profile=row) for row in ("modes", *q.rows)]:
        texts = [wire.call(printf(data)).text for data in odd]
        q.equal(re.findall("[\0\ud800-\udfff]", "".join(texts)), [], "NUL and lone surrogates in texts:")
    for command in (
        "head -c 3000000 /dev/zero | tr '\\0' '\\377'",
        "yes \"$(printf '\\303\\251')\" | head -c 1000000",
        "head -c 131072 /dev/urandom",
        "seq 10000000 | head -c 40000000",
    ):
        text = re.sub(r"\n\[full output: [^\n]*\]\n\Z", "", q.run(command).text)
        q.below(len(text.encode("utf-8", "surrogatepass")), 131273, "bytes of a text")


@asks("024.4")
def no_answer_is_blank(q):
    for command, text in (
        ("true", "[no output]\n"),
        ("printf ' \\n\\t'", " \n\t\n[no output]\n"),
        ("printf '\\n'", "\n[no output]\n"),
        ("printf '\u3000\u2003\u00a0'", "\u3000\u2003\u00a0\n[no output]\n"),
        *(("printf '%s'" % c, c) for c in "\u200b\ufeff\u180e\u2060"),
        ("printf '\\033[0m\\1'", "[no output]\n"),
        ("echo x", "x\n"),
    ):
        q.says(command, text)
    for command, code in (("false", 1), ("echo; exit 3", 3)):
        q.begins(q.run(command).text, "[command failed: exit code %d]" % code)


@asks("024.5")
def texts_end_alike(q):
    wire = q.server(timeouts={"default": 0.5, "grace_s": 0.3})
    for command in ("true", "exit 3", "kill -9 $$", "seq 100000", "sleep 609.5", "echo on; sleep 609.5"):
        text = wire.call(command).text
        q.that(text.endswith("\n") and not text.endswith("\n\n"), "a text that ends in a newline", repr(text[-80:]))
    q.that(wire.call("ls", mode="no").text.endswith("]\n"), "a refusal that ends in a newline", "none")
    for text in ("no newline", "two\n\n", "\n\nx "):  # output ends as it was written
        q.says("printf %s" % shlex.quote(text.replace("\n", "\\n")), text)
