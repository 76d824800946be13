"""The judge is judged: a panel of servers that each break a clause, which the judge must find.

python -m tests.conformance.panel               all of them
python -m tests.conformance.panel third         those of a third of the clauses, another one each day
python -m tests.conformance.panel '003.*'       those of these clauses
"""

import collections
import contextlib
import json
import signal
import sys
import time

import test_bash_tool  # noqa: F401  (its properties fill SABOTEURS)
from tests.conformance import core, jobs, judge, output, server  # noqa: F401  (each registers its questions)
from tests.conformance.judge import Judge, SLOW_QUESTIONS, WIRE_LEVELS, several_at_once
from tests.support import SABOTEURS, SOURCE, TOOL, changed, one_or_more, written

PANEL_AT_ONCE = 16  # servers

# Stands between the judge and a server, and changes what goes through as a row of JSON says: `options` are added, those
# of `without` are dropped, `env` is set, `at_end` is a last command, and of a pair of a pattern and what takes its
# place `command` changes the commands of calls, `heard` and `said` the lines to and from the server.
MIDDLEMAN = r"""
import ctypes, json, os, re, signal, subprocess, sys, threading
row, words = json.loads(sys.argv[1]), sys.argv[2:]
for name in row.get("without", ()):
    while name in words:
        n = words.index(name)
        del words[n:n + 2]
words += row.get("options", ())
with open("/proc/self/environ", "rb") as file:  # os.environ may hold an LC_CTYPE that Python has set
    env = dict(pair.split("=", 1) for pair in os.fsdecode(file.read()).split("\0") if pair)
env = {name: value for name, value in {**env, **row.get("env", {})}.items() if value is not None}
if not {"command", "heard", "said", "at_end"} & set(row):
    os.execvpe(words[0], words, env)  # nothing is to be changed on the way
dies_with_this = lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, preexec_fn=dies_with_this)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _: server.send_signal(number))

def changed(key, text):
    for pattern, new in row.get(key, ()):
        text = re.sub(pattern, new, text, flags=re.DOTALL)
    return text

def hear():
    for line in sys.stdin.buffer:
        text = changed("heard", line.decode("utf-8", "surrogateescape"))
        if row.get("command") and '"tools/call"' in text:
            try:
                message = json.loads(text)
                arguments = message["params"]["arguments"]
                arguments["command"] = changed("command", arguments["command"])
                text = json.dumps(message) + "\n"
            except (ValueError, KeyError, TypeError):
                pass
        server.stdin.write(text.encode("utf-8", "surrogateescape"))
        server.stdin.flush()
    server.stdin.close()

threading.Thread(target=hear, daemon=True).start()
for line in server.stdout:
    sys.stdout.buffer.write(changed("said", line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()
code = server.wait()
subprocess.run(row.get("at_end", ":"), shell=True)
os._exit(code if code >= 0 else 128 - code)  # a thread still reads the standard input
"""

KILLS_WHAT_DWELLS_HERE = """
for p in /proc/[0-9]*; do
    [ $(readlink $p/cwd) = $PWD ] && case $p in */$$|*/$PPID);; *) kill -9 ${p#/proc/};; esac
done"""
COUNTS_UNITS = (
    "return text if len(text) <= ECHO_CHARS",
    "return text if len(text.encode('utf-16-le')) <= 2 * ECHO_CHARS",
)
WITHDRAWN = "        if cancel._withdrawn:\n            return"  # where a withdrawn call ends


def wrong(line, *values):
    """Changes of the source that give a constant other values."""
    return [(line, "%s = %g " % (line.split()[0], value)) for value in values]


# Clauses whose property has a saboteur that shows nothing over the wire.
UNSEEN = "002.3 003.12 003.13 003.17 008.5 014.3 019.2 021.3 027.6".split()
# Of each clause the servers that break it, beside the saboteur of its property. A pair is a change of the source.
# Several pairs together are changes of one source. A dict is a row of the middleman.
BROKEN = {
    "001.1": [
        *({"command": [["^", how]]} for how in ("trap '' PIPE; ", "exec 9</dev/null; ", "umask 022; ")),
        {"command": [["\\Z", "\n"]]},
    ],
    "001.3": [
        ("{1,3}\", b\"\", stream.tail)", "{1,2}\", b\"\", stream.tail)"),
        (  # takes E0 80 for the begin of a character
            'codecs.utf_8_decode(stream.head, "replace")  # without',
            r'decode(re.sub(rb"[\xe0-\xef][\x80-\xbf]?\Z", b"", stream.head)), 0  # without',
        ),
    ],
    "001.5": [{"command": [["^", "cd /; "]]}, ("= _path(\"cwd\", cwd, base)", "= os.path.realpath(cwd)")],
    "002.2": [{"env": {"BASH_TOOL_TIMEOUTS": '{"slow": 30}'}, "said": [[r"slow \(30s", "slow (15min"]]}],
    "002.3": [
        (
            ("        self.shell.terminate()\n", "        os.kill(self.shell.popen.pid, signal.SIGKILL)\n"),
            ("            self.shell.signal_group(signal.SIGKILL)\n            _kill_below()\n", "            pass\n"),
        )
    ],
    "002.4": [
        (  # reads nothing more when the shell has ended
            "            self.turn(begun_s + self.grace_s)\n",
            "            self.turn(begun_s + self.grace_s)\n"
            "            [self.output._close_pipe(n) for n in [*self.output.pipes] if self.exited_s]\n",
        )
    ],
    "003.1": wrong("LOOK_S = 0.3 ", 0.1, 1),
    "003.3": [("min(LEAVING_S, idle_s), min(2 * LEAVING_S, total_s)", "idle_s, total_s")],
    "003.9": [  # two notes
        {"command": [["^", "trap 'printf \"\\\\n\\\\n[background process completed]\\\\n\"' EXIT; "]]}
    ],
    "003.12": [{"said": [[r"\\u20ac", r"\\ufffd"]]}],
    "003.13": [{"heard": [['"kill_pid"', '"check_pid"']]}],
    "003.17": [{"command": [["^", "(sleep 1.5; kill -9 $$) >/dev/null 2>&1 & "]]}],
    "003.19": [  # output goes into a plain file, which opening empties
        {"command": [["^", 'f=$(mktemp); exec 3>&1 >$f 2>&1; trap "cat $f >&3; rm $f" EXIT; ']]}
    ],
    "004.2": [
        {"options": ["--keep-env", "REFRESH_*"]},
        ("PRIVKEY ", ""),
        (" jwt", ""),
        ("words[-1] in LOCATION_WORDS", "words[-1].endswith(tuple(LOCATION_WORDS))"),
    ],
    "004.3": [
        ("://[^\\s/?#@:\\[]*:", "://[^\\s/?#@:\\[]+:"),  # a URL with an empty user passes
        ("|npm_", "|nqm_"),
        ("office(?:365)?", "office365"),
        ("[^\\s;]{4})", "[^\\s\\xa0;]{4})"),  # a no-break space is a blank
        ('r"(?a)://', 'r"://'),
    ],
    "004.4": [
        (
            ("        self.shell.terminate()\n", "        known = descendants()\n        self.shell.terminate()\n"),
            (
                "            _kill_below()\n            self.turn",
                "            [_signal(n, 9) for n in known]\n            self.turn",
            ),
        )
    ],
    "004.5": [
        ("if group != self.popen.pid or not reached", "if number == signal.SIGTERM and group != self.popen.pid"),
        *wrong("GRACE_S = 15.0 ", 12, 17),
    ],
    "004.7": [{"at_end": KILLS_WHAT_DWELLS_HERE}],
    "004.9": [
        ("_prctl(_PR_SET_DUMPABLE, 0)  # commands", "pass  # commands"),
        ("_prctl(_PR_SET_DUMPABLE, 0)  # /proc", "pass  # /proc"),
    ],
    "006.1": [
        ('round(seconds, 3) if seconds < 999_999 else "%ds" % seconds', "round(seconds, 3)"),
        {"said": [['"minLength": 1|"additionalProperties": false', '"additionalProperties": true']]},
    ],
    "006.3": [{"said": [["30s timeout", "31s timeout"], ["<pwd>/[^<]*", "<pwd>/"]]}],
    "006.4": [COUNTS_UNITS],
    "006.10": [
        ('"maximum": 1000 * longest_s', '"maximum": 900000'),
        ("longest_s = max(", "longest_s = profile.timeouts_s.get('slow') or max("),
    ],
    "007.4": [('b"/bin:/usr/bin"', 'b""')],
    "007.7": [{"said": [['"error": "spawn_failed"', '"error": "shell_not_found"']]}],
    "008.2": [{"command": [["^(.*)$", r"{ \1" + "\n" + r"} | sed 's/\\x1b\\[[0-9]*G//g'"]]}],  # CSI G does nothing
    "008.5": [("        line.write(run)\n", "        line.write(run), sum(map(ord, 9 * line.getvalue()))\n")],
    "009.2": [
        ("is_private and info.st_uid == os.geteuid() and usable(path)", "usable(path)"),
        ("is_safe = not info.st_mode & 0o022 or", "is_safe = True or"),
        ("is_safe or info.st_uid not in (os.geteuid(), 0)", "is_safe"),
    ],
    "009.4": [("FULL_OUTPUT_PARTLY, FULL_OUTPUT_LOST)", "FULL_OUTPUT, FULL_OUTPUT_LOST)")],
    "009.6": [
        ("used = FILE_CAP_BYTES + sum", "used = sum"),
        ("sorted(files, key=files.__getitem__)", "sorted(files)"),
        ("is_free = _lock(fd)", "is_free = True"),
        ("    _lock(fd)\n    return fd, path", "    return fd, path"),
    ],
    "009.7": [
        {"at_end": "rm -f $TMPDIR/bash-tool-of-*/output-*.log"},
        {"at_end": "touch $TMPDIR/bash-tool-of-$(id -u)/output-0123456789ab.log"},
    ],
    "011.1": [
        ("max(self.output.last_s, self.exited_s)", "self.exited_s"),
        ("max(self.output.last_s, self.exited_s)", "self.output.last_s or self.exited_s"),
        *wrong("DRAIN_IDLE_S = 0.5 ", 0.3, 1),
        *wrong("DRAIN_TOTAL_S = 2.0 ", 1, 3),
    ],
    "011.2": [
        ("sorted(set(left.values()))[:20]", "sorted(set(left.values()))[:5]"),
        ("sorted(set(left.values()))[:20]", "list(left.values())[:20]"),
        *wrong("LEAVING_S = 0.1 ", 0, 1),
        COUNTS_UNITS,
        ('return \'"%s"\' % escaped.replace', 'return \'"%s"\' % escaped[:79].replace'),
        {"said": [[r"\[still running: (?:(?!output goes on)[^\]])*\]\\n", ""]]},  # what closed its output is not named
    ],
    "011.4": [{"env": {"BASH_TOOL_TIMEOUTS": '{"drain_idle_s": 0, "drain_total_s": 0}'}}],
    "012.2": [{"command": [["^(.{131072})", r"set -- x; \1"]]}],
    "012.3": [('% command.index("\\0")', '% (len(command.partition("\\0")[0].encode("utf-16-le")) // 2)')],
    "013.1": [
        ("isinstance(problem, (FileNotFoundError, NotADirectoryError))", "isinstance(problem, FileNotFoundError)"),
        ('{"cwd": make_printable(plan.cwd)', '{"cwd": os.fsdecode(plan.cwd)'),
    ],
    "014.1": [("kept_out = DROPPED_NAMES | withheld", "kept_out = DROPPED_NAMES - kept | withheld")],
    "014.2": [
        *({"command": [["^", "unset %s; " % name]]} for name in ("GIT_SEQUENCE_EDITOR", "PSQL_PAGER", "PIP_NO_INPUT"))
    ],
    "014.3": [('if not any(env.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG")):', "if True:")],
    "014.6": [
        {"said": [["HTTPS_PROXY, ", ""]]},
        ('if outcome.status != "rejected":', "if True:"),
        *(("names in reasons.items()", "names in sorted(reasons.items())[::%d]" % step) for step in (1, -1)),
        (  # 20 names for each of the two notes
            "in told[:NAMES_TOLD]:",
            "in [n for why in {*untold.values()} for n in [n for n in told if untold[n] == why][:NAMES_TOLD]]:",
        ),
    ],
    "014.8": [
        ('{word for text in texts for word in re.findall(r"\\w+", text)}', '" ".join(texts)'),
        ("withheld = secret - kept", "withheld = secret - kept - set(NON_INTERACTIVE)"),
    ],
    "015.1": [("while not self.stops and not self.is_over():", "while not self.is_over():")],
    "015.3": [
        ("not self.childless and self.stops < 2 and", "not self.childless and not self.runs_for(self.plan.limit_s) and")
    ],
    "016.1": [("live.take(0, (), final=True)", "pass")],
    "017.7": [{"without": ["--deny"]}],
    "017.8": [
        ("if group & withheld:", "if group & withheld and not group & kept:"),
        {"without": ["--keep-env"]},
        {"options": ["--keep-env", "B_*"]},
    ],
    "010.3": [(WITHDRAWN, WITHDRAWN.replace("return", "os.pipe()\n            return"))],
    "017.12": [{"without": ["--set"]}, ("os.environ.get(\"BASH_TOOL_SET\", \"\")", '""')],
    "017.13": [{"without": ["--log"]}, ("os.O_APPEND | os.O_CREAT, 0o600", "os.O_APPEND | os.O_CREAT, 0o644")],
    "029.1": [{"without": ["--ephemeral"]}],
    "017.10": [{"without": ["--drop-env"]}, {"options": ["--drop-env", "CUSTOM*"]}],
    "019.2": [("threading.Thread(target=self._work, args=(underway,), daemon=True).start()", "self._work(underway)")],
    "020.1": [
        ("min(self.grace_s, HOST_LEFT_GRACE_S)", "HOST_LEFT_GRACE_S"),
        *wrong("HOST_LEFT_GRACE_S = 0.5 ", 0.3, 1.5),
        ("if self.attached and line.closed:", "if self.attached and line.closed and not self.exited_s:"),
    ],
    "020.2": [("if self.stops or monotonic() >= until:", "if self.stops or self.supervisor.line.closed:")],
    "021.3": [("TAIL_LINES = 2000", "TAIL_LINES = 1999")],
    "024.4": [("if not text.strip():", 'if not text.strip("\\ufeff \\t\\n"):')],
    "006.13": [("_meant", "{1,15}", "+"), ("_meant", 'return value == "true"', "return value")],
    "025.2": [{"said": [['"2024-11-05"', '"2024-11-06"']]}],
    "025.3": [
        ("asked if asked in HANDSHAKE_VERSIONS", "asked if asked in (*HANDSHAKE_VERSIONS, '2026-07-28')"),
        ('version = None if method == "initialize" else', "version ="),
    ],
    "025.5": [
        ("_handle_request", "_id(token) is token", '_id(token) is token and (token or "progressToken" not in meta)')
    ],
    "025.6": [
        *(("(self.exited_s or monotonic()) - self.started_s", took) for took in ("0.0", "monotonic() - self.started_s"))
    ],
    "025.7": [
        (
            "Server._work",
            "call = underway.call",
            "call = underway.call\nwhile [*self._calls.values()].index(underway) > 31:\n    time.sleep(0.1)",
        )
    ],
    "025.8": [
        (" or self.cancel._withdrawn:", ":"),
        ("self._calls.get(asked.id)\n", "{str(n): c for n, c in self._calls.items()}.get(str(asked.id))\n"),
    ],
    "025.9": [
        {"env": {"BASH_TOOL_TIMEOUTS": '{"grace_s": 0}'}},
        {"at_end": KILLS_WHAT_DWELLS_HERE},
        ("if signal.getsignal(number) is not signal.SIG_IGN", "if True"),
        *wrong("FLUSH_S = 2.0 ", 0.5, 5),
    ],
    "025.24": [{"heard": [["^\ufeff(?=.)", "x"]]}],
    "025.25": wrong("LAST_CALLS_S = 1.0 ", 0, 5),
    "025.26": wrong("GOODBYE_S = 2.5 ", 1, 60),
    "025.10": wrong("LIVE_EVERY_S = 0.1 ", 0.001, 0.5),
    "025.11": [("if not text or self.call.token is None or", "if not text or"), *wrong("HEARTBEAT_S = 10.0 ", 9, 12)],
    "025.12": [
        ("handle", "error_message(id_, INVALID_REQUEST", 'error_message(message.get("id"), INVALID_REQUEST'),
        ('if "method" not in message and (', 'if message.get("jsonrpc") == "2.0" and "method" not in message and ('),
        ("handle", "and isinstance(params, dict)", "and params"),
    ],
    "025.13": [("reversed(message)", "reversed(sorted(message, key=lambda n: isinstance(n, dict) and 'id' in n))")],
    "025.14": [
        ("Server._take", "error_message(None, INVALID_REQUEST", "error_message(1, INVALID_REQUEST"),
        ("MAX_MESSAGE_BYTES = 16 * MIB", "MAX_MESSAGE_BYTES = 4 * MIB"),
    ],
    "025.16": [("            stderr=subprocess.DEVNULL,\n", "            stderr=None,\n")],
    "025.17": [
        ("if call.id in self._calls:", "if call.id in [n for n in self._calls if type(n) is type(call.id)]:"),
        (
            "if call.id in self._calls:",
            "def of(n): return n if isinstance(n, str) else float(n)\n        if of(call.id) in map(of, self._calls):",
        ),
        (
            ("self._calls.get(asked.id)\n", "self._calls.pop(asked.id, None)\n"),
            ("del self._calls[underway.call.id]", "self._calls.pop(underway.call.id, None)"),
        ),
    ],
    "025.18": [
        ("call_message(call, refusal, self._structured)", "call_message(call, refusal)"),
        ("if len(self._calls) >= MAX_CALLS", "if sum(not n.cancel._withdrawn for n in self._calls.values()) >= 64"),
    ],
    "025.20": [("self._output_bytes += skipped + len(text.encode())", "self._output_bytes += skipped + len(text)")],
    "025.22": [
        ("if signal.getsignal(number) is not signal.SIG_IGN", "if True"),
        ("for underway in self._calls.values():\n", "for underway in ():\n"),
        (
            "                        underway.cancel.cancel()\n",
            "                        underway.cancel._withdrawn = True\n"
            "                        underway.cancel.cancel()\n",
        ),
    ],
    "027.6": [
        (WITHDRAWN, WITHDRAWN.replace("return", "self._%s\n            return" % taken))
        for taken in ("jobs.take_end_notes(None)", "untold.clear()")
    ],
}


def broken_servers(number, folder):
    """The servers that break a clause: a name and the words of each, their files in the folder."""
    for way in [SABOTEURS[number]] * (number not in UNSEEN) + BROKEN.get(number, []):
        if isinstance(way, dict):
            shown = json.dumps(way)
            program = ["-I", "-S", written(MIDDLEMAN, "middleman-", folder), shown, sys.executable, TOOL]
        else:
            places = one_or_more(way)
            shown = repr(places[0][1][:60])
            program = [written(changed(SOURCE, *places), "broken-", folder)]
        yield "%s with %s" % (number, shown), [sys.executable, *map(str, program), "--mcp"]


def catches(number, words):
    """The question by which the judge sees that this server breaks the clause; None if there is none. A server that
    answers nothing fails every question and shows nothing of this one: it is not caught."""
    with contextlib.closing(Judge(words, claims={"levels": list(WIRE_LEVELS)})) as judge:
        for function in judge.questions(number) if judge.unfit() is None else ():
            found = judge.answer(number, function)
            if found["outcome"] in ("failed", "late"):
                return found
    return None


def main(arguments):
    """Judges each clause that is asked, on servers that break it. Returns how many were not caught.
    The argument `third` takes those of a third of the clauses, another one each day."""
    judge.LONGEST_WAIT_S = 20.0  # what a broken server does not do is waited for in vain
    only = [glob for glob in arguments if glob != "third"]
    with contextlib.closing(Judge([sys.executable], claims={"levels": list(WIRE_LEVELS)}, only=only)) as asked:
        numbers = [number for number in asked.claimed() if asked.reason(number) is None]
        if "third" in arguments:
            numbers = numbers[int(time.time() // 86400) % 3 :: 3]
        begun = time.monotonic()
        panel = [(number, *server) for number in numbers for server in broken_servers(number, asked.folder)]
        panel.sort(key=lambda each: each[0] not in SLOW_QUESTIONS)
        found = several_at_once(PANEL_AT_ONCE, lambda number, _, words: catches(number, words), panel)
        # Once more by itself: a machine with much to do makes a wait that is too short long enough.
        found = [each or catches(number, words) for (number, _, words), each in zip(panel, found)]
    caught = collections.Counter(number for (number, _, _), each in zip(panel, found) if each is not None)
    servers = collections.Counter(number for number, _, _ in panel)
    for (_, name, _), each in zip(panel, found):
        if each is None:
            print("NOT CAUGHT: %s" % name)
    print(", ".join("%s %d/%d" % (number, caught[number], servers[number]) for number in numbers))
    counts = sum(caught.values()), len(panel), len(numbers), time.monotonic() - begun
    print("caught %d of %d broken servers, of %d clauses, in %d s" % counts)
    return len(panel) - sum(caught.values())


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves nothing behind
    sys.exit(main(sys.argv[1:]) > 0)
