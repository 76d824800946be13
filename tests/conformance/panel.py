"""The judge is judged: a panel of servers that each break a clause, which the judge must find.

python -m tests.conformance.panel               all of them
python -m tests.conformance.panel eighth        those of an eighth of the clauses, another one each day
python -m tests.conformance.panel '003.*'       those of these clauses
"""

import collections
import contextlib
import json
import py_compile
import signal
import sys
import time

import test_bash_tool  # noqa: F401  (its properties fill SABOTEURS)
from tests.conformance import borders, core, jobs, judge, output, server  # noqa: F401  (each registers its questions)
from tests.conformance.judge import Judge, SLOW_QUESTIONS, WIRE_LEVELS, several_at_once
from tests.spec import MODES_S, SLOW_MS
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

# Clauses whose property has a saboteur that shows nothing over the wire.
UNSEEN = "002.3 003.12 003.13 003.17 003.23 008.5 014.3 019.2 021.3 027.6".split()

COUNTS_UNITS = ("shorten", "if len(text) <= ECHO_CHARS", "if len(text.encode('utf-16-le')) <= 2 * ECHO_CHARS")
TELLS_THE_LAST = ("Life._stop", "self.status or status", "status")  # of a timeout and a cancel
IF_WITHDRAWN = "if cancel._withdrawn:"
LOSES_A_DESCRIPTOR = "if outcome.report.status == %s: os.dup(1)\n" + IF_WITHDRAWN
WITHOUT_A_HALF = 'decode(re.sub(rb"[\\xe0-\\xef][\\x80-\\xbf]?\\Z", b"", stream.head))'
CLOSES_ITS_PIPES = "[output._close_pipe(n) for n in [*output.pipes] if self.life.phase == 'end']"
TWENTY_FOR_EACH_REASON = "[n for why in {*untold.values()} for n in [n for n in told if untold[n] == why][:NAMES_TOLD]]"
NOTIFICATIONS_FIRST = "sorted(message, key=lambda n: isinstance(n, dict) and 'id' in n)"
WAITS_FOR_A_PLACE = "while [*self._calls.values()].index(underway) > 31:\n    time.sleep(0.1)"
FOUND_BY_ITS_TEXT = "{str(n): c for n, c in self._calls.items()}.get(str(asked.id))"
WITH_DOUBLES = "def of(n): return n if isinstance(n, str) else float(n)\nif of(call.id) in map(of, self._calls)"


def wrong(number, name, *values):
    """Servers that break a clause by another value of a constant."""
    return [(number, name, name + " =", "%s = %g  #" % (name, value)) for value in values]


# The servers that break a clause, beside the saboteur of its property: the number of the clause, then a change of the
# source, in three parts, or several that are made together, or a row of the middleman.
SERVERS = [
    *(("001.1", {"command": [["^", how]]}) for how in ("trap '' PIPE; ", "exec 9</dev/null; ", "umask 022; ")),
    ("001.1", {"command": [["\\Z", "\n"]]}),
    ("001.1", "Output.open_pipes", "(reader, False)", "(reader, False)\nos.set_blocking(writer, False)"),
    ("001.3", "two_ends", '{1,3}", b""', '{1,2}", b""'),
    ("001.3", "two_ends", 'codecs.utf_8_decode(stream.head, "replace")', "%s, 0" % WITHOUT_A_HALF),
    ("008.7", "two_ends", "decode(tail)", "decode(tail.replace(b'\\0', b''))"),
    ("001.3", "size_buffers", "-(-most // 2)", "most // 2"),
    ("001.5", {"command": [["^", "cd /; "]]}),
    ("001.5", "check_directory", 'absolute_path("cwd", cwd, base)', "os.path.realpath(cwd)"),
    (
        "001.8",
        "Exchange._request",
        "len(_pool.exchanges)",
        "(globals().setdefault('_ever', []).append(1) or len(_ever))",
    ),
    ("002.2", {"env": {"BASH_TOOL_SET": "slow=30"}, "said": [[r"slow \(30s", "slow (%dmin" % (MODES_S["slow"] / 60)]]}),
    (
        "002.3",
        [
            ("Command.ask", "_signal(pid, number, signal.SIGCONT)", "_signal(self.shell.popen.pid, signal.SIGKILL)"),
            ("Command.terminate", "states = self.life.steps.states", "return _signal(self.shell.popen.pid, 9)"),
            ("Command.kill", "self.shell.signal_group(signal.SIGKILL) _kill_below()", "pass"),
        ],
    ),
    ("002.4", "Command.observe", "exited_at = monotonic()", "exited_at = monotonic()\n" + CLOSES_ITS_PIPES),
    ("002.8", "Session._finish", "and not report.total_bytes", ""),
    ("002.8", "Session._finish", "(\"timed_out\", \"running\")", "(\"timed_out\", \"cancelled\")"),
    ("002.9", "takes_interrupt", "process.reads and matches(READS_LINES, process)", "process.reads"),
    ("002.9", "takes_interrupt", "or (process.reads and matches(READS_LINES, process))", ""),
    ("002.9", "takes_interrupt", "process.program not in INTERRUPTIBLE or", ""),
    ("002.10", "ACTS_AT_END", '"sort"', '"sorts"'),
    *wrong("003.1", "EARLY_END_S", 0.1, 1),
    ("003.3", "make_plan", "min(EXITING_S, idle_s), min(2 * EXITING_S, total_s)", "idle_s, total_s"),
    # Two notes.
    *wrong("003.4", "IDLE_S", 60),
    ("003.9", {"command": [["^", "trap 'printf \"\\\\n\\\\n[background process completed]\\\\n\"' EXIT; "]]}),
    ("003.12", {"said": [[r"\\u20ac", r"\\ufffd"]]}),
    ("003.13", {"heard": [['"kill_pid"', '"check_pid"']]}),
    ("003.17", {"command": [["^", "(sleep 1.5; kill -9 $$) >/dev/null 2>&1 & "]]}),
    # Output goes into a plain file, which opening empties.
    ("003.19", {"command": [["^", 'f=$(mktemp); exec 3>&1 >$f 2>&1; trap "cat $f >&3; rm $f" EXIT; ']]}),
    ("003.23", "Command.note_end", "self.completion_note = note", "self.output.buffers[0].add(note.encode())"),
    ("003.24", "describe_end", "if in_file:", "if False:"),
    ("004.2", {"options": ["--keep-env", "REFRESH_*"]}),
    ("004.2", "SECRET_RULES", "|PRIVATE|PRIV|", "|PRIVATE|"),
    ("004.2", "SECRET_RULES", "|pam|jwt", "|pam"),
    ("004.2", "SECRET_RULES", "_(?:FILE|PATH|PATHS", "_[^_]*(?:FILE|PATH|PATHS"),
    ("004.3", "SECRET_RULES", "^\\s/?#@:\\[]*", "^\\s/?#@:\\[]+"),  # a URL with an empty user passes
    ("004.3", "SECRET_RULES", "[\\w-]{20}|npm_", "[\\w-]{20}|nqm_"),
    ("004.3", "SECRET_RULES", "office(?:365)?", "office365"),
    ("004.3", "SECRET_RULES", "[^\\s;]{4}", "[^\\s\\xa0;]{4}"),  # a no-break space is a blank
    ("004.3", "SECRET_RULES", '(?xa) ://', '(?x) ://'),
    (
        "004.4",
        [
            ("Command.ask", "= inspect_descendants()", "= vars(self).setdefault('known', inspect_descendants())"),
            ("Command.terminate", "(group != self.shell.popen.pid if pid in inspected else not is_handled)", "False"),
            ("Command.kill", "_kill_below()", "[_signal(n, 9) for n in vars(self).get('known', ())]"),
        ],
    ),
    ("004.5", "Command.terminate", "_signal(pid, number, signal.SIGCONT)", "_signal(pid, number)"),
    *wrong("004.5", "GRACE_S", 12, 17),
    ("004.7", {"at_end": KILLS_WHAT_DWELLS_HERE}),
    ("004.9", "_perform", "_prctl(_PR_SET_DUMPABLE, 0)", "pass"),
    ("004.9", "serve_forks", "_prctl(_PR_SET_DUMPABLE, 0)", "pass"),
    ("004.11", "scrub_env", "(name in keep or", "(name in kept or"),  # a glob wins too
    # forced colours go all the same
    ("004.11", "scrub_env", "name in keep or passes", "passes or name in keep and name in NON_INTERACTIVE"),
    ("004.12", "SECRET_RULES", "|EXPIRES_IN|", "|"),
    ("004.12", "SECRET_RULES", "(?!.*(?:SECRET|TOKEN))", ""),
    ("004.12", "SECRET_RULES", "(?=[^/]{16})", "(?=[^/]{99})"),
    ("004.12", "ENV_GROUPS", "|SESSION_TOKEN", ""),
    ("006.1", "format_seconds", 'if seconds < 999_999 else "%ds" % seconds', ""),
    ("006.1", {"said": [['"minLength": 1|"additionalProperties": false', '"additionalProperties": true']]}),
    ("006.3", {"said": [["30s timeout", "31s timeout"], ["<pwd>/[^<]*", "<pwd>/"]]}),
    ("006.4", *COUNTS_UNITS),
    ("006.10", "argument_schemas", "1000 * longest_s", str(SLOW_MS)),
    ("006.10", "argument_schemas", "= max", "= profile.timeouts_s.get('slow') or max"),
    ("006.13", "interpret", "{1,15}", "+"),
    ("006.13", "interpret", 'value = value == "true"', "pass"),
    ("007.4", "make_plan", 'b"/bin:/usr/bin"', 'b""'),
    ("007.7", {"said": [['"error": "spawn_failed"', '"error": "shell_not_found"']]}),
    ("008.2", {"command": [["^(.*)$", r"{ \1" + "\n" + r"} | sed 's/\\x1b\\[[0-9]*G//g'"]]}),  # CSI G does nothing
    ("008.2", "render", "re.sub(_OVERWRITTEN, _without_remains, _only_moves(text))", "_only_moves(text)"),
    ("008.2", "_draw", '"\\r": line.seek(0)', '"\\r":\n    line.seek(0), line.truncate()'),
    ("008.2", "_OVERWRITTEN", "{1,8}", "{1,7}"),
    ("008.2", "_OVERWRITTEN", "{1,8}", "{1,9}"),
    ("008.2", "_without_remains", "above[-3:]", "above"),
    ("008.2", "_without_remains", 're.sub(_WIDE, "\\\\g<0>\\0", line[0])', "line[0]"),
    ("008.5", "_draw", ".write(run)", ".write(run), sum(map(ord, 9 * line.getvalue()))"),
    ("009.2", "_create", "os.fchmod(fd, 0o600)", "pass"),  # 0600 less the umask
    (
        "009.2",
        "default_folder",
        "info.st_mode & 0o077 or info.st_uid != os.geteuid() or not is_writable",
        "not is_writable",
    ),
    ("009.2", "make_folder", "not info.st_mode & 0o022", "True"),
    ("009.2", "make_folder", "is_safe or info.st_uid not in (os.geteuid(), 0)", "is_safe"),
    ("009.4", "format_brackets", "may be incomplete: {path} ({reason})", ": {path}"),
    ("009.6", "_make_room", "used = FILE_CAP_BYTES", "used = 0"),
    ("009.6", "_make_room", ", key=files.__getitem__", ""),
    ("009.6", "_remove_finished", "_lock(fd)", "True"),
    ("009.6", "Output.save", "_lock(self._fd)", "pass"),
    ("009.7", {"at_end": "rm -f $TMPDIR/bash-tool-of-*/output-*.log"}),
    ("009.7", {"at_end": "touch $TMPDIR/bash-tool-of-$(id -u)/output-0123456789ab.log"}),
    ("010.3", "Session._finish", IF_WITHDRAWN, LOSES_A_DESCRIPTOR % "'cancelled' and outcome.report.duration_s"),
    ("010.3", "Session._finish", IF_WITHDRAWN, LOSES_A_DESCRIPTOR % "'timed_out'"),
    ("011.1", "Life._drain", "max(seen.heard_at, seen.exited_at)", "seen.exited_at"),
    ("011.1", "Life._drain", "max(seen.heard_at, seen.exited_at)", "seen.heard_at or seen.exited_at"),
    *(("011.1", "Profile", "drain_idle_s: float = 0.5", "drain_idle_s: float = %s" % s) for s in (0.3, 1)),
    *(("011.1", "Profile", "drain_total_s: float = 2.0", "drain_total_s: float = %s" % s) for s in (1, 3)),
    ("011.2", "leftover_notes", "groups[:20]", "groups[:5]"),
    (
        "011.2",
        "leftover_notes",
        "sorted({process.group for process in leftovers})",
        "[process.group for process in left]",
    ),
    *wrong("011.2", "EXITING_S", 0, 1),
    ("011.2", *COUNTS_UNITS),
    ("011.2", "quote", '.replace("]"', '[:79].replace("]"'),
    # What closed its output is not named.
    ("011.2", {"said": [[r"\[still running: (?:(?!output goes on)[^\]])*\]\\n", ""]]}),
    ("011.4", {"env": {"BASH_TOOL_SET": "drain_idle_s=0 drain_total_s=0"}}),
    ("012.2", {"command": [["^(.{131072})", r"set -- x; \1"]]}),
    ("012.3", "parse_command", 'command.index("\\0")', '(len(command.partition("\\0")[0].encode("utf-16-le")) // 2)'),
    # A helper that was killed is not replaced.
    ("012.4", "SupervisorPool.borrow", "or _has_ended(self._control)", "or _has_ended(self._control) and os.close(-1)"),
    (
        "012.4",
        [
            ("SupervisorPool.borrow", "or _has_ended(self._control)", ""),
            ("SupervisorPool.forget_fork_server", "self._control is not None", "0"),
        ],
    ),
    ("013.1", "Shell.start", "(FileNotFoundError, NotADirectoryError)", "FileNotFoundError"),
    ("013.1", "Shell.start", "make_printable", "os.fsdecode"),
    ("013.1", {"said": [['"error": "cwd_missing"', '"error": null']]}),
    ("013.4", "Shell.clear_scratch", "os.rmdir(self.scratch)", "pass"),
    ("014.1", "scrub_env", "in DROPPED_NAMES |", "in DROPPED_NAMES - kept |"),
    *(("014.2", {"command": [["^", "unset %s; " % n]]}) for n in ("GIT_SEQUENCE_EDITOR", "PSQL_PAGER", "PIP_NO_INPUT")),
    ("014.3", "scrub_env", 'not any(env.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))', "True"),
    ("014.6", {"said": [["HTTPS_PROXY, ", ""]]}),
    ("014.6", "Session._finish", 'report.status != "rejected"', "True"),
    *(("014.6", "withheld_notes", "notes.items()", "sorted(notes.items())[::%d]" % step) for step in (1, -1)),
    ("014.6", "withheld_notes", "told[:NAMES_TOLD]", TWENTY_FOR_EACH_REASON),
    ("014.8", "withheld_notes", "name in words", "name in outcome.command + output"),
    ("014.8", "scrub_env", "- kept -", "- kept - set(NON_INTERACTIVE) -"),
    ("014.9", "_NEVER_PASSED", "(?:_[^=]*)?=", "="),
    ("014.9", "_NEVER_PASSED", "|true", ""),
    ("014.9", "_NEVER_PASSED", "|CLICOLOR_FORCE|", "|CLICOLOR|"),
    ("014.10", "_UNAUTHENTICATED", "|\\bnot\\ logged\\ in", "|\\bdenied"),
    ("014.10", "withheld_notes", "re.search(_UNAUTHENTICATED, ", "re.search(_UNAUTHENTICATED, outcome.command + "),
    ("014.10", "withheld_notes", "if code else", "if True else"),
    ("014.11", "_OWN_ASKPASS", "(?:.*/)?", ""),
    ("014.11", "_OWN_ASKPASS", "ksshaskpass", ".*askpass.*"),
    ("014.13", "make_plan", "{**default, **env, **own}", "{**env, **default, **own}"),
    ("014.13", "make_plan", '{b"PYTHONUNBUFFERED": b"1"} if background else {}', "{}"),
    ("015.1", "Life._drain", "if self.stops:", "if self.stops and now >= self.due_at:"),
    ("015.3", *TELLS_THE_LAST),
    ("015.3", "Life._end", "self.stops > 1", "now >= self.started_at + self._plan.limit_s"),
    ("016.1", "Exchange._receive", "live.take(0, (), final=True)", "pass"),
    ("017.7", {"without": ["--deny"]}),
    ("017.8", "scrub_env", "& withheld", "& withheld and not group & kept"),
    ("017.8", {"without": ["--keep-env"]}),
    ("017.8", {"options": ["--keep-env", "B_*"]}),
    ("017.10", {"without": ["--drop-env"]}),
    ("017.10", {"options": ["--drop-env", "CUSTOM*"]}),
    ("017.12", {"without": ["--set"]}),
    ("017.12", "main", 'os.environ.get("BASH_TOOL_SET", "")', '""'),
    ("017.13", {"without": ["--log"]}),
    ("017.13", "_make_logger", "O_CREAT, 0o600", "O_CREAT, 0o644"),
    ("017.13", "_make_logger", "**told", "**told, 'duration_s': 1000 * result.duration_s"),
    ("019.2", "Server._start_call", ".start()", ".run()"),
    ("020.1", "Life.next_action", "min(self._grace_s, HOST_GONE_GRACE_S)", "HOST_GONE_GRACE_S"),
    *wrong("020.1", "HOST_GONE_GRACE_S", 0.3, 1.5),
    ("020.1", "Life.next_action", "seen.nobody_reads and", "seen.nobody_reads and seen.returncode is None and"),
    ("020.2", "Life._stay", "now >= self._limit_at", "self.seen.nobody_reads"),
    ("021.3", "Profile", "max_output_lines: int = 2000", "max_output_lines: int = 1999"),
    ("024.4", "present", ".strip():", '.strip("\\ufeff \\t\\n"):'),
    ("025.2", {"said": [['"2024-11-05"', '"2024-11-06"']]}),
    ("025.3", "_handle_request", "in HANDSHAKE_VERSIONS", "in (*HANDSHAKE_VERSIONS, '2026-07-28')"),
    ("025.3", "_handle_request", 'None if method == "initialize" else', ""),
    ("025.5", "_handle_request", "is token,", "is token and (token or 'progressToken' not in meta),"),
    ("025.6", "present", "outcome.stdout.cut or outcome.stderr.cut", "outcome.path is not None"),
    ("025.6", "Command.describe", "(life.seen.exited_at or monotonic())", "life.started_at"),
    ("025.6", "Command.describe", "(life.seen.exited_at or monotonic())", "monotonic()"),
    ("025.7", "Server._run_call", "call = underway.call", "call = underway.call\n" + WAITS_FOR_A_PLACE),
    ("025.8", "CallUnderway.heartbeat_at", "or self.cancel._withdrawn", ""),
    ("025.8", "Server._handle_line", "self._calls.get(asked.id)", FOUND_BY_ITS_TEXT),
    ("025.9", {"env": {"BASH_TOOL_SET": "grace_s=0"}}),
    ("025.9", {"at_end": KILLS_WHAT_DWELLS_HERE}),
    ("025.9", "_signals_handled", "signal.getsignal(number) is not signal.SIG_IGN", "True"),
    *wrong("025.9", "FLUSH_S", 0.5, 5),
    *wrong("025.10", "LIVE_EVERY_S", 0.001, 0.5),
    (
        "025.10",
        "Server._next_message",
        "if progress := underway.progress():",
        "if (progress := underway.progress()) and not answer:",
    ),
    ("025.11", "CallUnderway.heartbeat_at", "self.call.token is None or", ""),
    *wrong("025.11", "HEARTBEAT_S", 9, 12),
    ("025.12", "handle", "id_, INVALID_REQUEST", 'message.get("id"), INVALID_REQUEST'),
    ("025.12", "handle", 'if "method" not in', 'if not {"id", "jsonrpc"} & {*message} or "method" not in'),
    ("025.12", "handle", 'if "method"', 'if message.get("jsonrpc") == "2.0" and "method"'),
    ("025.12", "handle", "isinstance(params, dict)", "params"),
    ("025.13", "Server._handle_line", "reversed(message)", "reversed(%s)" % NOTIFICATIONS_FIRST),
    ("025.14", "MAX_MESSAGE_BYTES", "16 * MIB", "4 * MIB"),
    ("025.16", "_start_python", "stderr=subprocess.DEVNULL", "stderr=None"),
    ("025.17", "Server._start_call", "in self._calls", "in [n for n in self._calls if type(n) is type(call.id)]"),
    ("025.17", "Server._start_call", "if call.id in self._calls", WITH_DOUBLES),
    (
        "025.17",
        [
            ("Server._handle_line", ".get(asked.id)", ".pop(asked.id, None)"),
            ("Server._next_message", "del self._calls[underway.call.id]", "self._calls.pop(underway.call.id, None)"),
        ],
    ),
    ("025.18", "Server._start_call", ", self._structured", ""),
    ("025.18", "Server._start_call", "len(self._calls)", "sum(not n.cancel._withdrawn for n in self._calls.values())"),
    ("025.20", "CallUnderway.add", ".encode()", ""),
    ("025.22", *TELLS_THE_LAST),
    ("025.22", "_signals_handled", "signal.getsignal(number) is not signal.SIG_IGN", "True"),
    ("025.22", "Server._run_once", "in self._calls.values():", "in ():"),
    ("025.22", "Server._run_once", "in self._calls.values():", "in [*self._calls.values()][:4]:"),
    ("025.22", "Server._run_once", ".cancel.cancel", ".cancel._withdrawn = True\nunderway.cancel.cancel"),
    ("025.24", {"heard": [["^\ufeff(?=.)", "x"]]}),
    *wrong("025.25", "LAST_CALLS_S", 0, 5),
    *wrong("025.26", "GOODBYE_S", 1, 60),
    ("027.6", "Session._finish", IF_WITHDRAWN, IF_WITHDRAWN + "\n    self.jobs.take_end_notes(None)"),
    ("027.6", "Session._finish", IF_WITHDRAWN, IF_WITHDRAWN + "\n    self._withheld.clear()"),
    ("029.1", {"without": ["--ephemeral"]}),
    # A fixed sample of what `python -m tests.tools.mutants` has drawn.
    ("001.3", "SNIP_SIZE", "4 *", "3 *"),
    *wrong("003.16", "MAX_JOBS", 64),
    ("004.2", "SECRET_RULES", "|oauth2|", "|"),
    ("004.2", "SECRET_RULES", "|COM|", "|"),
    ("004.2", "SECRET_RULES", "|DIRECTORY|", "|"),
    ("004.3", "SECRET_RULES", "token|auth|access_?key", "token|access_?key"),
    ("004.5", "Life._step", "now < self.due_at", "True"),
    ("006.1", "MODES", "30.0", "29.0"),
    ("008.6", "_draw", "min(len(rows)", "max(len(rows)"),
    ("011.3", "Profile", "drain_idle_s: float = 0.5", "drain_idle_s: float = 1.5"),
    *wrong("014.6", "NAMES_TOLD", 21),
    ("014.9", "_NEVER_PASSED", "|ANSI|", "|"),
    ("014.10", "_UNAUTHENTICATED", "(publickey|", "("),
]
BROKEN = {}  # of each clause its servers
for clause, *way in SERVERS:
    BROKEN.setdefault(clause, []).append(tuple(way) if len(way) == 3 else way[0])


def compiled(path, folder):
    """The path of the compiled file: to compile is most of a start, and each server is started several times."""
    return py_compile.compile(str(path), cfile=str(written("", "compiled-", folder)) + "c", doraise=True)


def broken_servers(number, folder):
    """The servers that break a clause: a name and the words of each, their files in the folder."""
    tool = compiled(TOOL, folder)
    for way in [SABOTEURS[number]] * (number not in UNSEEN) + BROKEN.get(number, []):
        if isinstance(way, dict):
            shown = json.dumps(way)
            program = ["-I", "-S", written(MIDDLEMAN, "middleman-", folder), shown, sys.executable, "-S", tool]
        else:
            places = one_or_more(way)
            shown = "%s: %r" % (places[0][0], places[0][2][:60])
            program = ["-S", compiled(written(changed(SOURCE, *places), "broken-", folder), folder)]
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
    The argument `eighth` takes those of an eighth of the clauses, another one each day."""
    judge.LONGEST_WAIT_S = 20.0  # what a broken server does not do is waited for in vain
    only = [glob for glob in arguments if glob != "eighth"]
    with contextlib.closing(Judge([sys.executable], claims={"levels": list(WIRE_LEVELS)}, only=only)) as asked:
        numbers = [number for number in asked.claimed() if asked.reason(number) is None]
        if "eighth" in arguments:
            numbers = numbers[int(time.time() // 86400) % 8 :: 8]
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
