"""The judge: asks a server of the protocol, in any language, each clause of the levels that the server holds.

A clause is asked through what a client has: lines, the server's environment, directory, options and signals, files,
and /proc. A question is a function under `@asks(CLAUSE)`, or an example of SPEC.md that needs no more. It says what it
sent, what came and what it expected. Where it needs nothing particular of its server, an earlier question may have left
one, with an empty folder; what fails there is asked anew on a server of its own. Nothing is expected beyond
the text of SPEC.md. What comes too early is wrong on any machine. What comes late may be right on an idle machine, so a
question that fails is asked again by itself.
"""

import ast
import collections
import contextlib
import fnmatch
import functools
import json
import math
import os
import random
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.processes import alive, eventually, left_by
from tests.spec import CLAUSES, Conversation, EXAMPLES, fenced, holds_clause, on_the_wire, rows_of, without_jobs


UNASKED = {  # clauses of the levels core, server and jobs that no client can ask, and why
    "003.25": "would take a file system without locks",
    "009.9": "would take a file system without modes or locks",
    "015.4": "a client cannot see whether its cancel came before the command began",
    "018.2": "only a program that uses the library can be asked for a confirmation",
    "018.3": "only a program that uses the library can be asked for a confirmation",
    "023.4": "exit_code and success are fields of the library and of --json, not of the protocol",
}
UNASKED_ENTRIES = {  # of section 4 and of core and server, and why
    "4.4 internal": "a bug cannot be ordered",
    "4.4 spawn_failed, where nothing can be started": "would take a machine without memory or processes",
    "4.5 could not be killed, does not answer": "would take a process that KILL does not end",
    "4.5 what the command started … could not be looked for": "would take a machine without /proc",
    "4.9 a new file is opened exclusively": "nobody can know its name before",
    "6": "would take a platform that lacks a feature",
    "4.14 INT where the standard input is a terminal": "the judge speaks through pipes",
}
BORDERS = {  # of SPEC.md, 4.10: the clause and what is bounded there, its unit first, with the number
    (clause, what): float(number.replace(",", ""))
    for clause, borders, _ in rows_of("4.10 Borders")[1:]
    for number, what in re.findall(r"([\d,.]+) ([^;]+)", borders)
}
AT_BORDERS = collections.defaultdict(list)  # of each of them the questions on both of its sides
UNASKED_BORDERS = {  # and why no question stands there
    ("001.8", "commands with pipes of 256 KiB"): "the 65th call is refused (025.18)",
    (
        "002.2",
        "s of `slow`",
    ): "would take as long as a build; what is asked runs longer than `default`, and the definition says it",
    ("003.3", "s of silence in its drain"): "too short to be told from a busy machine; both together are asked",
    ("003.7", "s of `background`"): "would take a day",
    ("004.5", "s for a start that hangs"): "would take a file system that hangs",
    ("004.5", "s after KILL"): "would take a process that KILL does not end",
    ("010.1", "bytes of memory"): "bounds what a server needs: no output brings a right one near it",
    ("016.2", "bytes that wait"): "when the server hands live output on is free",
    ("021.3", "bytes kept"): "what is shown of them is at most half as much",
    ("024.2", "bytes of text"): "bounds what is made: no output of MODES comes near it",
    ("024.2", "bytes of notes"): "bounds what is made: no answer has notes that long",
    ("025.10", "messages a second"): "is about that number",
}
NEEDS_JOBS_PROFILE = {  # clauses that a client can ask in the profile JOBS alone, by what that profile has
    "003.11": "check_pid lists jobs to",
    "003.12": "check_pid reads a job piece by piece for",
    "003.13": "kill_pid ends a job through the tool for",
    "003.14": "kill_pid signals a job by its number for",
}
ROW_OF_LEVEL = {"JOBS": "jobs", "STREAMS": "streams", "GUARDED": "guarded"}
WIRE_LEVELS = ("core", "jobs", "server", *ROW_OF_LEVEL)
QUESTIONS = {}  # of each clause the functions that ask for it
SLOW_QUESTIONS = "002.1 002.2 002.9 003.4 004.5 009.5 010.1 020.4 021.8 025.9 025.11 025.18".split()  # asked first
SLOW_AT_ONCE = 8  # of these, beside the others
START_WAIT_S = 20.0  # for the first answers of a server
LONGEST_WAIT_S = 60.0  # for what must come at all; how long it may take is asked for separately
IN_VAIN = 8  # questions that have waited so long; after that IMPATIENT_S is enough, of a server that hangs
IMPATIENT_S = 5.0
# A question alone on the machine needs less. So a run ends within five minutes whatever the server does: a minute of
# questions, IN_VAIN and those beside them in 12 lanes of LONGEST_WAIT_S, and what is asked again.
ALONE_WAIT_S, AGAIN_S = 20.0, 60.0
LONGEST_QUESTION_S = 120.0
# Questions about all that a server has done, its memory, its descriptors or its files.
ON_A_NEW_SERVER = """a_flood_stays_small long_lines the_longest_line the_wire_is_the_servers_own folders_are_capped
    the_largest_folder the_most_files an_unsafe_folder_is_not_used closing_keeps_what_was_named""".split()
LONGEST_LINE, MOST_LINES = 16 << 20, 100000  # what a server sends in one line, and to one question
MOST_SITUATIONS = 40  # questions that a run asks again in a situation
ASKED_AGAIN = 24  # questions at most that fail by the accident of another load


def asks(*clauses):
    """Decorator: the function asks a server for these clauses; it raises Wrong where the answer is not what they
    say."""

    def decorate(function):
        for number in clauses:
            QUESTIONS.setdefault(number, []).append(function)
        return function

    return decorate


def at_border(clause, what, beyond=True):
    """Decorator: the function asks for a clause with a count, and is told whether the border holds it. It is called at
    the border of this name (4.10), one below it, and one beyond."""
    number = int(BORDERS[clause, what])

    def decorate(function):
        @functools.wraps(function)
        def question(q):
            for count in (number - 1, number, number + 1)[: 3 if beyond else 2]:
                q.note("border", "asked", "%d: %s" % (count, what))
                function(q, count, count <= number)

        AT_BORDERS[clause, what].append(question)
        return asks(clause)(question)

    return decorate


def on_both_sides(*borders):
    """Decorator: the question asks well within and well outside of these times, or at these counts, by itself."""

    def decorate(function):
        for border in borders:
            assert border in BORDERS, border
            AT_BORDERS[border].append(function)
        return function

    return decorate


class Wrong(Exception):
    """An answer that is not what the clause says; `late` where it is wrong by its time alone. `differ` says where two
    texts differ."""

    def __init__(self, expected, got, late=False, differ=""):
        super().__init__(expected, got)
        self.expected, self.got, self.late, self.differ = expected, got, late, differ


class Unasked(Exception):
    """The clause cannot be asked of this server; the reason."""


def patience(within_s):
    """How long to wait, in seconds; None: as long as for what must come at all."""
    return LONGEST_WAIT_S if within_s is None else within_s


def shortened(text, most=400):
    """The text, of a long one both ends."""
    if len(text) <= most:
        return text
    return "%s … (%d characters) … %s" % (text[: most // 2], len(text), text[-most // 2 :])


def around(text, at):
    """What stands around a place in a text or in bytes, and the bytes from there on."""
    data = text if isinstance(text, bytes) else text[at:].encode("utf-8", "surrogatepass")
    data = data[at:] if isinstance(text, bytes) else data
    return "%r, then %r, bytes %s" % (text[max(0, at - 30) : at], text[at : at + 30], data[:12].hex(" ") or "none")


def difference(expected, got):
    """Where two long texts differ, and what stands there; for short ones, or equal ones, nothing."""
    if type(got) is not type(expected) or not isinstance(got, (str, bytes)) or max(len(got), len(expected)) < 60:
        return ""
    at = next((n for n, pair in enumerate(zip(expected, got)) if pair[0] != pair[1]), min(len(expected), len(got)))
    sizes = (at, len(expected), len(got))
    return "after %d equal of %d and %d: expected %s; got %s" % (*sizes, around(expected, at), around(got, at))


class Adapter:
    """Speaks to a server whose tool has another name, other arguments, or comes in two: one that starts and one that is
    polled.

    BASH_TOOL_ADAPTER is JSON, or the path of a file of JSON, with these keys, all optional: `tool`; `arguments`, in
    which "{command}" stands for the command and "{folder}" for the server's directory; `error`, a pattern whose match
    in the text of an answer marks an error; `fields`: of an answer that is an object of JSON or Python the names of its
    outputs, `output`, and that of its exit code, `code`; `rewrite`, pairs of a pattern and what takes its place in the
    text; `poll`: {`tool`, `arguments`, in which "{1}" stands for the first group of `number`, `number`, a pattern that
    the first answer must match to be polled for, `until`, a pattern, `every_s`, `whole`: true where each answer holds
    all output}.
    """

    def __init__(self, said):
        if said and not said.lstrip().startswith("{"):
            said = Path(said).read_text(encoding="utf-8")
        self.row = json.loads(said or "{}")
        self.tool = self.row.get("tool", "bash")

    def filled(self, shape, words):
        if isinstance(shape, dict):
            return {key: self.filled(value, words) for key, value in shape.items()}
        if isinstance(shape, list):
            return [self.filled(value, words) for value in shape]
        return words.get(shape, shape) if isinstance(shape, str) else shape

    def message(self, message, folder):
        """A request; a call of `bash` under the name and with the arguments of the server's own tool."""
        params = message.get("params") if isinstance(message, dict) and message.get("method") == "tools/call" else None
        arguments = params.get("arguments") if isinstance(params, dict) and params.get("name") == "bash" else None
        if not self.row or not isinstance(arguments, dict):
            return message
        if "arguments" in self.row:
            words = {"{command}": arguments.get("command"), "{folder}": str(folder)}
            arguments = self.filled(self.row["arguments"], words)
        return dict(message, params=dict(params, name=self.tool, arguments=arguments))

    def polled(self, wire, text):
        """The text of the whole: what the tool for polling says, again and again until it has ended."""
        poll = self.row.get("poll")
        found = poll and re.search(poll["number"], text)
        if not found:
            return text
        value = int(found[1]) if found[1].isdigit() else found[1]
        parts, until = [text], time.monotonic() + LONGEST_WAIT_S
        while not re.search(poll["until"], parts[-1]) and time.monotonic() < until:
            time.sleep(poll.get("every_s", 0.3))
            arguments = self.filled(poll["arguments"], {"{1}": value})
            number = wire.request("tools/call", name=poll["tool"], arguments=arguments)
            parts.append(text_of(wire.response(number).get("result", {})))
        return parts[-1] if poll.get("whole") else "".join(parts)

    def answer(self, text, is_error):
        if "error" in self.row:
            is_error = bool(re.search(self.row["error"], text))
        if "fields" in self.row:
            text = self.of_fields(text)
        for pattern, new in self.row.get("rewrite", ()):
            text = re.sub(pattern, new, text)
        return text, is_error

    def response(self, message):
        """A response of another tool, its text as that of this page."""
        result = message.get("result") if self.row and isinstance(message, dict) else None
        if not isinstance(result, dict) or "content" not in result:
            return message
        text, is_error = self.answer(text_of(result), bool(result.get("isError")))
        return dict(message, result={**result, "content": [{"type": "text", "text": text}], "isError": is_error})

    def of_fields(self, text):
        """The text that the fields of an answer would have had, with the exit code as 4.5 has it."""
        fields = None
        for read in (json.loads, ast.literal_eval):
            with contextlib.suppress(ValueError, SyntaxError):
                fields = read(text)
                break
        if not isinstance(fields, dict):
            return text
        output = "".join(str(fields.get(name, "")) for name in self.row["fields"]["output"])
        code = fields.get(self.row["fields"].get("code"), 0)
        return ("[command failed: exit code %s]\n" % code if code else "") + output


def text_of(result):
    """The text of a result of the protocol."""
    return "".join(part.get("text", "") for part in result.get("content", ()) if isinstance(part, dict))


def requested(number, method, **params):
    """A request of the protocol."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


Reply = collections.namedtuple("Reply", "text is_error result took_s")  # the answer to a call


def started_on_pipes(command, **how):
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **how)


def started_on_sockets(command, **how):
    """A process whose standard input and output are sockets."""
    (our_end, stdin), (stdout, our_start) = socket.socketpair(), socket.socketpair()
    with stdin, stdout, our_end, our_start:
        process = subprocess.Popen(command, stdin=stdin.fileno(), stdout=stdout.fileno(), **how)
        process.stdin = open(os.dup(our_end.fileno()), "wb", buffering=0)
        process.stdout = open(os.dup(our_start.fileno()), "rb", buffering=0)
    return process


class Wire:
    """A server under question, and the client's end of its wire. Each line goes into the question's transcript."""

    def __init__(
        self, question, *options, env=(), cwd=None, timeouts=None, profile=None, structured=False, before="", left=None
    ):
        """`before`: Python that runs right before the program of the server, in its process. `left`: the Wire of an
        earlier question, whose server this is from now on."""
        self.question, self.adapter, self.number = question, question.judge.adapter, 0
        self.sent_s, self.came_s = {}, {}  # of each request when it was sent, and when its answer came
        self.buffer, self.lines = bytearray(), 0
        self.progress = []  # the notifications of progress that came
        self.waiting = {}  # responses that came before they were asked for
        self.profile, self.own, self.begun, self.commands = profile or "modes", {}, False, {}
        settings = " ".join("%s=%s" % limit for limit in (timeouts or {}).items())
        given = {"BASH_TOOL_SET": settings, "BASH_TOOL_STRUCTURED": structured and "1"}
        given["BASH_TOOL_PROFILE"] = profile if profile != "modes" else None  # a server of one profile need not know it
        environ = {**question.env, **dict(env), **{name: value for name, value in given.items() if value}}
        environ = {name: value for name, value in environ.items() if value is not None}
        command = [*question.judge.words, *options]
        if before:  # Python itself ignores two signals
            start = "import ctypes, os, resource, signal, sys\nfor n in (13, 25): signal.signal(n, signal.SIG_DFL)\n"
            command = [*(sys.executable, "-c", start + before + "\nos.execvp(sys.argv[1], sys.argv[1:])"), *command]
        self.errors = left.errors if left else question.place / ("stderr-%d" % len(question.wires))
        where = dict(env=environ, cwd=cwd or question.folder, start_new_session=True, bufsize=0)
        with open(self.errors, "ab") as errors:
            start = started_on_sockets if question.situation.sockets else started_on_pipes
            self.process = left.process if left else start(command, stderr=errors, **where)
        self.pid, self.name = self.process.pid, "server %d" % (len(question.wires) + 1)
        question.wires.append(self)
        shown = {**dict(env), **({"timeouts": timeouts} if timeouts else {})}
        question.note(self.name, "started", " ".join([*options, *("%s=%s" % each for each in shown.items())]))
        if self.adapter.row:
            self.greet()

    def greet(self):
        """The handshake, for servers that answer nothing before it."""
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "judge", "version": "1"}}
        result = self.response(self.request("initialize", **hello))
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def send(self, *messages):
        """Lines: bytes as they are, all else as JSON."""
        lines = [each if isinstance(each, bytes) else json.dumps(self.adapted(each)).encode() for each in messages]
        lines = [self.question.situation.line(line) for line in lines]
        for line in lines:
            self.question.note(self.name, "sent", line.decode("utf-8", "backslashreplace"))
        view = memoryview(b"".join(line + b"\n" for line in lines))
        try:
            while view:
                view = view[self.process.stdin.write(view) :]
        except OSError:
            raise Wrong("the server reads its input", self.end_of_it()) from None

    def adapted(self, message):
        """A message as the server takes it."""
        return self.adapter.message(message, self.question.folder)

    def end_of_it(self):
        """How the server ended, in words."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(5)
            said = self.errors.read_bytes().decode("utf-8", "replace").strip().rpartition("\n")[2]
            return "the server has ended with exit code %d%s" % (code, said and ": " + shortened(said))
        return "the server has closed its output and lives"

    def send_own(self, number, arguments):
        """Sends a call of the situation, whose answer the question does not see."""
        self.own[number] = None
        self.send(requested(number, "tools/call", name="bash", arguments=arguments))

    def own_answer(self, number):
        """Waits for the answer to such a call."""
        until = time.monotonic() + patience(None)
        while self.own[number] is None:
            message = self.received(max(0.0, until - time.monotonic()))
            if message is None:
                raise Wrong("an answer to the call %s" % number, self.end_of_it())
            self.taken(message)

    def taken(self, message):
        """Whether the message is the answer to a call of the situation, which is then kept."""
        number = message.get("id") if isinstance(message, dict) else None
        is_own = isinstance(number, str) and number in self.own
        if is_own:
            self.own[number] = message
        return is_own

    def receive(self, within_s=None):
        """The next message for the question; None at the end of the server's output."""
        deadline = time.monotonic() + patience(within_s)
        message = self.received(patience(within_s))
        while self.taken(message):
            message = self.received(max(0.0, deadline - time.monotonic()))
        return message

    def received(self, within_s):
        """The next message."""
        deadline, looked_at = time.monotonic() + within_s, 0
        while self.buffer.find(b"\n", looked_at) < 0:
            looked_at = len(self.buffer)
            if looked_at > LONGEST_LINE:
                raise Wrong("lines of at most %d bytes" % LONGEST_LINE, "a longer one")
            if not select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise Wrong("a line from the server within %.3g s" % within_s, "none came", late=True)
            chunk = os.read(self.process.stdout.fileno(), 1 << 20)
            if not chunk:
                if self.buffer:
                    raise Wrong("lines that end in a newline", repr(bytes(self.buffer[:300])))
                return None
            self.buffer += chunk
        end = self.buffer.index(b"\n")
        self.line = bytes(self.buffer[:end])
        del self.buffer[: end + 1]
        self.lines += 1
        if self.lines > MOST_LINES:
            raise Wrong("at most %d lines" % MOST_LINES, "more")
        self.question.note(self.name, "came", self.line.decode("utf-8", "backslashreplace"))
        try:
            message = json.loads(self.line.decode("utf-8"))
        except ValueError:
            raise Wrong("a line of JSON", shortened(repr(self.line))) from None
        if isinstance(message, dict) and isinstance(message.get("id"), (int, str)):
            self.came_s[message["id"]] = time.monotonic()
        return message

    def request(self, method, **params):
        """Sends a request; returns its id."""
        self.number += 1
        arguments = params.get("arguments") if method == "tools/call" else None
        if isinstance(arguments, dict):
            if not self.begun:
                self.begun = True
                self.question.situation.first(self)
            if isinstance(arguments.get("command"), str):
                self.commands[self.number] = arguments["command"]
                params["arguments"] = dict(arguments, command=self.question.situation.command(arguments["command"]))
        self.sent_s[self.number] = time.monotonic()
        self.send(requested(self.number, method, **params))
        return self.number

    def response(self, number, within_s=None):
        """The response to a request; progress is kept, what else the server says on its own account is passed over."""
        within_s = patience(within_s)
        deadline = time.monotonic() + within_s
        while number not in self.waiting:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise Wrong("an answer to the request %r within %.3g s" % (number, within_s), "other lines", late=True)
            message = self.receive(left_s)
            if message is None:
                raise Wrong("an answer to the request %r" % number, self.end_of_it())
            if isinstance(message, dict) and message.get("method") == "notifications/progress":
                self.progress.append(message.get("params") or {})
            elif isinstance(message, dict) and "method" not in message:
                self.waiting[message.get("id")] = message
        return self.waiting.pop(number)

    def ask(self, method, **params):
        """The result of a request."""
        message = self.response(self.request(method, **params))
        if "result" not in message:
            raise Wrong("a result of %s" % method, json.dumps(message))
        return message["result"]

    def begin(self, command, *made, token=None, **arguments):
        """Sends a call, and waits until its command has written a line into each of these files; returns its id."""
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        number = self.request("tools/call", name="bash", arguments=dict(arguments, command=command), **meta)
        self.question.there(*made)
        return number

    def finish(self, number, within_s=None):
        """The answer to a call that was begun."""
        message = self.response(number, within_s)
        result = message.get("result")
        if not isinstance(result, dict):
            raise Wrong("a result of the call", json.dumps(message))
        text, is_error = self.adapter.answer(self.adapter.polled(self, text_of(result)), bool(result.get("isError")))
        text = self.question.situation.text(self.commands.get(number, ""), text)
        return Reply(text, is_error, result, self.came_s.get(number, math.nan) - self.sent_s.get(number, math.nan))

    def call(self, command, within_s=None, **arguments):
        """The answer to a command."""
        return self.finish(self.begin(command, **arguments), within_s)

    def given(self, arguments):
        """The answer to a call with these arguments."""
        return self.finish(self.request("tools/call", name="bash", arguments=arguments))

    def cancel(self, number):
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})

    def definition(self):
        """The tool that the server lists, one alone."""
        tools = self.ask("tools/list").get("tools", [])
        chosen = [tool for tool in tools if tool.get("name") == self.adapter.tool] if self.adapter.row else tools
        if len(chosen) != 1:
            raise Wrong("one tool in the answer to tools/list", [tool.get("name") for tool in tools])
        return chosen[0]

    def end(self, within_s=None):
        """Closes the server's input and waits for its end; returns its exit code."""
        self.question.note(self.name, "closed", "")
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        return self.ended(within_s)

    def ended(self, within_s=None):
        try:
            return self.process.wait(patience(within_s))
        except subprocess.TimeoutExpired:
            raise Wrong("the server ends within %.3g s" % patience(within_s), "it lives", late=True) from None

    def signal(self, number):
        self.question.note(self.name, "signalled", signal.Signals(number).name)
        os.kill(self.pid, number)

    def close(self, until):
        """Ends the server however it takes it. Its input is closed; it has time until then."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, until - time.monotonic()))
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Situation:
    """How a question is asked. This one is the plain one: on a new server that does nothing else."""

    words, sockets = "", False

    def first(self, wire):
        """What comes before the first call of a question to a server."""

    def line(self, line):
        """A message as it is sent, as bytes without their newline."""
        return line

    def command(self, command):
        """The text of a command, as it is sent."""
        return command

    def text(self, command, text):
        """Of the text of an answer what belongs to the command of the question."""
        return text


class Question:
    """What one function, or one example, asks of a server: a folder, the servers that it starts, and the transcript."""

    def __init__(self, judge, clause, name, situation=None, left=None):
        """`left`: an earlier question that has left its place, and in it a server that is as new."""
        self.judge, self.clause, self.name = judge, clause, name
        self.situation = situation or Situation()
        self.place = left.place if left else Path(tempfile.mkdtemp(prefix="question-", dir=judge.folder))
        self.mark = left.mark if left else "JUDGE_OF_BASH_TOOL_%d_%s" % (os.getpid(), os.urandom(4).hex())
        self.folder, self.files = self.place / "folder", self.place / "tmp"
        for folder in self.folder, self.files:
            folder.mkdir(exist_ok=True)
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not re.search(r"(?i)^(BASH_TOOL_|LC_|MAKE|MFLAGS)|(PROXY|INDEX|INDEX_URL|REGISTRY)$", name)
        }
        self.env.update({"TMPDIR": str(self.files), "LANG": "C.UTF-8", self.mark: "1"})
        self.wires, self.transcript, self.begun = [], [], time.monotonic()
        self.plain, self.is_left = Wire(self, left=left.plain) if left else None, False

    @property
    def rows(self):
        """The names of the profiles that the server claims beside MODES."""
        return [row for level, row in ROW_OF_LEVEL.items() if level in self.judge.levels]

    def note(self, who, what, text):
        at_s = round(time.monotonic() - self.begun, 3)
        self.transcript.append({"at_s": at_s, "server": who, "what": what, "text": shortened(text, 20000)})

    def server(self, *options, **how):
        """A server of this question."""
        return Wire(self, *options, **how)

    @functools.cached_property
    def wire(self):
        """The server of this question that nothing is particular about."""
        self.plain = self.plain or self.server()
        return self.plain

    def run(self, command, **arguments):
        """The answer of that server to a command."""
        return self.wire.call(command, **arguments)

    def refused(self, arguments, sentence, wire=None):
        """A call with these arguments is refused with this sentence. The form of JOBS has no newline at its end."""
        reply = (wire or self.wire).given(arguments)
        end = "" if "check_pid" in arguments else "\n"
        self.equal((reply.text, reply.is_error), ("[system error: %s]%s" % (sentence, end), True))
        return reply

    def says(self, command, text, is_error=False, wire=None, within_s=None, **arguments):
        """The command is answered with this text, and with this error mark."""
        wire = wire or self.wire
        return self.answered(wire.begin(command, **arguments), text, is_error, wire, within_s)

    def answered(self, number, text, is_error=False, wire=None, within_s=None):
        """The answer to a call that was begun has this text, and this error mark."""
        reply = (wire or self.wire).finish(number, within_s)
        self.equal(reply.text, text)
        self.equal(reply.is_error, is_error, "isError")
        return reply

    def fields(self, reply, **expected):
        """Of a server with structured results, 4.3; an error has no exit code."""
        content = reply.result.get("structuredContent") or {}
        got = {key: content.get(key, "missing") for key in ("exit_code", *expected)}
        self.equal(got, {"exit_code": None, **expected}, "fields of %r:" % reply.text)

    def equal(self, got, expected, what=""):
        if got != expected or type(got) is not type(expected):
            if isinstance(got, dict) and isinstance(expected, dict):
                differ = {key for key in {*got, *expected} if got.get(key, "missing") != expected.get(key, "missing")}
                got, expected = ({key: each.get(key, "missing") for key in sorted(differ)} for each in (got, expected))
            words, differ = what and what + " ", difference(expected, got)
            raise Wrong("%s%r" % (words, expected), "%s%r" % (words, got), differ=differ)

    def match(self, pattern, got):
        """The text matches the pattern whole."""
        found = re.fullmatch(pattern, got, re.DOTALL)
        if found:
            return found
        for end in range(len(pattern), -1, -1 - len(pattern) // 200):  # the longest part that the text begins with
            with contextlib.suppress(re.error):
                begins = re.match(pattern[:end], got, re.DOTALL)
                if begins:
                    at = (begins.end(), pattern[end : end + 40], around(got, begins.end()))
                    differ = "fits for %d characters; then expected %s; got %s" % at
                    raise Wrong("a text of the form %s" % pattern, repr(got), differ=differ)
        raise Wrong("a text of the form %s" % pattern, repr(got))

    def that(self, holds, expected, got, late=False):
        if not holds:
            raise Wrong(expected, got, late)

    def has(self, text, part):
        self.that(part in text, "a text that holds %r" % part, shortened(text))

    def begins(self, text, start):
        self.that(text.startswith(start), "a text that begins with %r" % shortened(start), shortened(text))

    def took(self, took_s, least_s, most_s, what):
        """What took so many seconds came neither before its time nor, on a quiet machine, much later."""
        words = "%s after at least %.3g s, and on a quiet machine within %.3g s" % (what, least_s, most_s)
        self.that(least_s <= took_s, words, "after %.3f s" % took_s)
        self.that(took_s <= most_s, words, "after %.3f s" % took_s, late=True)

    def takes(self, wire, command, least_s, more_s=0.4):
        """The answer to a command that takes so long, and little more than a command beside it that only sleeps."""
        sleeps = wire.begin("sleep %g" % least_s)
        reply = wire.call(command)
        asleep_s = max(least_s, wire.finish(sleeps).took_s)
        self.took(reply.took_s, least_s, asleep_s + more_s, "the answer to %s" % command)
        return reply

    def one_of(self, tries, ask):
        """What a busy machine may spoil: one of these tries holds."""
        for left in reversed(range(tries)):
            try:
                return ask()
            except Wrong:
                if not left:
                    raise

    def below(self, got, most, what):
        self.that(got < most, "%s: less than %g" % (what, most), got)

    def number(self, name, within_s=None):
        """The number that a command writes into a file, as a line."""
        return int(self.match(r"(\d+)\n", self.written(name, within_s))[1])

    def there(self, *names, within_s=None):
        """Waits until a command has written a line into each of these files."""
        for path in map(self.folder.joinpath, names):
            written = eventually(lambda: path.exists() and b"\n" in path.read_bytes(), patience(within_s))
            got = "none within %.3g s" % patience(within_s)
            self.that(written, "the command writes a line into the file %s" % path.name, got, late=True)

    def dead(self, *names, within_s=20.0):
        """The processes whose numbers stand in these files have ended."""
        for name in names:
            pid = self.number(name)
            ended, got = eventually(lambda: not alive(pid), within_s), "it lives after %g s: %s"
            self.that(ended, "the process %d (%s) has ended" % (pid, name), got % (within_s, words_of(pid)), late=True)

    def alive(self, *names, for_s=0.0):
        """The processes whose numbers stand in these files live, and go on to."""
        pids, until = {name: self.number(name) for name in names}, time.monotonic() + for_s
        while True:
            self.equal([name for name in names if not alive(pids[name])], [], "processes that have ended:")
            if time.monotonic() >= until:
                return
            time.sleep(0.1)

    def written(self, name, within_s=None):
        """What a command writes into a file of the folder."""
        self.there(name, within_s=within_s)
        return (self.folder / name).read_text(encoding="utf-8", errors="surrogateescape")

    def holds(self, path, text):
        """A file comes to hold this text."""
        eventually(lambda: path.read_text() == text, 20)
        self.equal(path.read_text(), text, "the file:")

    def named(self, pattern, text):
        """The path that an answer names."""
        found = re.search(pattern, text)
        self.that(found, "a text that holds %s" % pattern, repr(text))
        self.that(Path(found[1]).is_absolute(), "an absolute path", found[1])
        return Path(found[1])

    def state(self, *names):
        """The state folder of a server of this question, 4.9, made before it starts."""
        folder = self.files / ("bash-tool-of-%d" % os.getuid())
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder.joinpath(*names)

    def end(self, wires):
        """Ends these of its servers."""
        for wire in wires:
            with contextlib.suppress(OSError):
                wire.process.stdin.close()
        until = time.monotonic() + 2
        for wire in wires:
            wire.close(until)

    def leave(self):
        """Whether its plain server is as new, and the place too: nothing else runs there, the server knows no news, owes no
        answer, and has lost nothing."""
        if self.plain is None or self.plain.process.poll() is not None or self.situation.words:
            return False
        self.end([wire for wire in self.wires if wire is not self.plain])
        if left_by(self.mark, self.place) - {self.plain.pid}:
            return False
        try:
            is_as_new = not self.plain.number or self.plain.call("true", within_s=5).text == "[no output]\n"
            for path in [*self.folder.iterdir(), *self.files.iterdir()]:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        except (Wrong, OSError):
            return False
        return is_as_new and not self.plain.waiting and not self.plain.buffer

    def close(self):
        self.end(self.wires)
        for pid in left_by(self.mark, self.place):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.place, ignore_errors=True)


def words_of(pid):
    """The arguments of a process, for a message."""
    with contextlib.suppress(OSError):
        return Path("/proc/%d/cmdline" % pid).read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return "gone"


def of_bash(q, command):
    """What bash itself makes of a command."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    words = ["bash", "-c", command]
    return subprocess.run(words, cwd=q.folder, env=q.env, start_new_session=True, timeout=patience(None), **streams)


def printf(data):
    """A command that writes these bytes."""
    return "printf '%s'" % "".join("\\%03o" % byte for byte in data)


class Exchange(Conversation):
    """An example of SPEC.md, told to a server."""

    def __init__(self, q, head):
        how = {}
        for key, value in re.findall(r"(\w+)=(\[[^\]]*\]|\S+)", head):
            if key in ("profile", "structured"):
                how[key] = value
            else:
                seconds = json.loads(value)
                how.setdefault("timeouts", {}).update(seconds if key == "timeouts_s" else {key: seconds})
        self.q, self.folder, self.bound, self.took, self.wires = q, q.folder, {}, 0.0, {}
        self.start = functools.partial(q.server, **how)

    def wire(self, of):
        """One server for the calls, one for the lines of an example."""
        if of not in self.wires:
            is_plain = not self.start.keywords and not self.wires
            self.wires[of] = self.q.wire if is_plain else self.start()
            if of == "calls" and not self.q.judge.adapter.row:
                self.wires[of].ask("ping")  # what a step takes is counted from here
        return self.wires[of]

    def step(self, line):
        wire, begun = self.wire("calls") if line.startswith("> ") else None, time.monotonic()
        if wire:
            reply = wire.given(json.loads(self.fill(line[2:])))
            text, is_error = reply.text, reply.is_error
        else:
            text, is_error = of_bash(self.q, self.fill(line[2:])).stdout.decode("utf-8"), False
        self.took = time.monotonic() - begun
        return text[:-1] if text.endswith("\n") else text, is_error

    def speak(self, line):
        wire = self.wire("lines")
        begun = time.monotonic()
        if line == "EOF":
            self.q.equal(wire.end(), 0, "exit code of the server:")
        else:
            message = self.fill(line)
            with contextlib.suppress(ValueError):
                message = wire.adapted(json.loads(message)) if wire.adapter.row else message
            wire.send(message.encode() if isinstance(message, str) else message)
        self.took = time.monotonic() - begun

    def hear(self, line):
        begun = time.monotonic()
        got = self.wire("lines").receive()
        while isinstance(got, dict) and got.get("method") == "notifications/message":  # not asked for: no news
            got = self.wire("lines").receive()
        self.took += time.monotonic() - begun
        if got is None:
            raise Wrong("the line %s" % line, self.wire("lines").end_of_it())
        got = self.wire("lines").adapter.response(got)
        try:
            self.holds(got, json.loads(line), "")
        except AssertionError:
            raise Wrong("the line %s" % line, json.dumps(got, ensure_ascii=False)) from None

    def probe(self, words):
        kind, *rest = self.fill(words).split()
        if kind in ("dead", "alive"):
            getattr(self.q, kind)(rest[0])
        elif kind == "within":
            self.q.took(self.took, 0, float(rest[0]), "the end of the step")
        else:
            try:
                super().probe(words)
            except (AssertionError, OSError) as problem:
                raise Wrong("? " + words, str(problem)) from None


def example_as_question(head, body):
    """The function that tells an example to a server."""

    def the_example_of_the_page(q):
        row = dict(re.findall(r"(\w+)=(\[[^\]]*\]|\S+)", head)).get("profile", "modes")
        if row not in ("modes", *q.rows):
            raise Unasked("the profile %s is not claimed" % row)
        if '"mode": "background"' in body and "jobs" not in q.judge.levels:
            raise Unasked("the level jobs is not claimed")
        try:
            Exchange(q, head).run(body if "jobs" in q.judge.levels else without_jobs(body))
        except AssertionError as problem:
            expected, _, got = str(problem).partition("\ngot\n")
            raise Wrong(expected.replace("expected\n", "", 1), got) from None

    return the_example_of_the_page


OPEN = set()  # the questions that are being asked


def end_what_hangs(is_over):
    """Kills the servers of each question that takes too long, which ends it, until the event is set."""
    while not is_over.wait(2):
        for question in tuple(OPEN):
            for wire in tuple(question.wires) if time.monotonic() - question.begun > LONGEST_QUESTION_S else ():
                with contextlib.suppress(OSError):
                    os.killpg(wire.pid, signal.SIGKILL)  # the group, where a program stands before the server


def several_at_once(count, function, rows, apart=0):
    """What the function returns for each row of arguments, some at once. The first `apart` rows wait more than others
    and have threads of their own. At an interrupt the questions that are being asked end too."""
    with ThreadPoolExecutor(count) as pool, ThreadPoolExecutor(SLOW_AT_ONCE) as slow_pool:
        try:
            parts = (slow_pool, rows[:apart]), (pool, rows[apart:])
            found = [one.map(lambda row: function(*row), part) for one, part in parts]
            return [answer for part in found for answer in part]
        except BaseException:
            for one in (slow_pool, pool):
                one.shutdown(wait=False, cancel_futures=True)
            for wire in [wire for question in tuple(OPEN) for wire in tuple(question.wires)]:
                wire.process.kill()
            raise


class Judge:
    """Asks a server the clauses that it claims, several at a time, and says what it found."""

    AT_ONCE = 10  # most of a question is waiting

    def __init__(self, words, adapter=None, claims=None, only=(), draw=lambda *_: [], seed=0, most_situations=0):
        """`draw` gives some of the questions with the situations in which they are asked again (situations.py)."""
        self.draw, self.seed, self.most_situations = draw, seed, most_situations
        self.words, self.adapter = self.absolute(words), adapter or Adapter("")
        self.claims, self.only = claims or {}, only
        self.folder = tempfile.mkdtemp(prefix="judge-")
        self.waited_in_vain = 0
        self.left = []  # questions that have left a server to others
        self.levels = list(self.claims.get("levels", ()))
        self.found = not self.levels  # by asking
        self.outcomes = {}  # of each clause what its questions found

    @staticmethod
    def absolute(words):
        """The command line, fit for another directory: its program, and what it names that is there, by absolute
        paths."""
        first, *others = words
        named = [shutil.which(first), *(not word.startswith("-") and os.path.exists(word) and word for word in others)]
        return [os.path.abspath(path) if path else word for word, path in zip(words, named)]

    def unfit(self):
        """Why no question can be asked of this server, in one line; None if they can."""
        global LONGEST_WAIT_S
        if not (os.path.isfile(self.words[0]) and os.access(self.words[0], os.X_OK)):
            return "cannot be judged: there is no program %s" % self.words[0]
        question, step, usual_s = Question(self, "", "start"), "starts", LONGEST_WAIT_S
        LONGEST_WAIT_S = min(START_WAIT_S, usual_s)
        try:
            wire = question.wire
            step = "answers initialize"
            message = wire.greet()
            question.that(isinstance(message.get("result"), dict), "a result", json.dumps(message))
            step = "lists a tool named %s" % self.adapter.tool
            names = [tool.get("name") for tool in wire.ask("tools/list").get("tools", ())]
            question.that(self.adapter.tool in names, step, "tools named %s" % ", ".join(map(str, names)))
            step = "answers a call of %s" % self.adapter.tool
            wire.call("echo hi")
            question.is_left = question.leave()
            return None
        except Wrong as wrong:
            came = [each["text"] for each in question.transcript if each["what"] == "came"]
            none = "none within %.3g s%s" % (LONGEST_WAIT_S, came and "; the last line was " + came[-1] or "")
            got = none if wrong.late else str(wrong.got)
        except Exception as problem:
            got = "%s: %s" % (type(problem).__name__, problem)
        finally:
            self.closed(question)
            LONGEST_WAIT_S = usual_s
        return "cannot be judged: expected that it %s; got: %s" % (step, shortened(" ".join(got.split())))

    def doubtful(self):
        """What may be wrong with the program that starts the server, rather than with the server; None if nothing is."""
        with contextlib.suppress(OSError), open(self.words[0], "rb") as file:
            if file.read(2) == b"#!":
                said = "%s is a script (#!), such as a shim of pyenv: what it changes of environment, PATH, signals or"
                return said % self.words[0] + " descriptors counts as the server's; name the program that it starts"
        return None

    def find_levels(self):
        """The levels that the server seems to hold, by what it lists in each profile."""
        self.levels = ["server"]
        no_answer = contextlib.suppress(Wrong, OSError, AttributeError, TypeError)
        for level, row in {"core": "modes", **ROW_OF_LEVEL}.items():
            with contextlib.closing(Question(self, "", "levels")) as question, no_answer:
                listed = question.server(profile=row).definition()
                keys = listed.get("inputSchema", {}).get("properties", {})
                page = json.loads(dict(fenced("definition"))[row])
                of_page = page["description"], {*page["input_schema"]["properties"]}
                if level == "core":
                    self.levels.append("core")
                    self.levels += ["jobs"] * ("background" in keys.get("mode", {}).get("enum", ()))
                elif (listed.get("description"), {*keys}) == of_page:
                    self.levels.append(level)

    def claimed(self):
        """The clauses that the server claims and a wire may ask, in the order of the page."""

        def among(number, globs):
            return any(fnmatch.fnmatch(number, glob) for glob in globs)

        left_out = self.claims.get("not claimed", ())
        held = [number for number in CLAUSES if holds_clause(self.levels, number) and not among(number, left_out)]
        return [number for number in held if not self.only or among(number, self.only)]

    def questions(self, number):
        """What is asked for a clause: functions."""
        examples = [(head, body) for clause, head, body in EXAMPLES if clause == number and on_the_wire(head, body)]
        return QUESTIONS.get(number, []) + [example_as_question(*each) for each in examples]

    def closed(self, question):
        """Closes a question, or keeps what it leaves for another one."""
        if question.is_left:
            self.left.append(question)
        else:
            question.close()

    def answer(self, number, function, situation=Situation()):
        """What one question found; on a server that another question has left, only where that passes."""
        if self.left and not situation.words and function.__name__ not in ON_A_NEW_SERVER:
            with contextlib.suppress(IndexError):  # another thread has taken it
                found = self.asked(number, function, situation, self.left.pop())
                if found["outcome"] in ("passed", "not asked"):
                    return found
        return self.asked(number, function, situation)

    def asked(self, number, function, situation, left=None):
        """What one question found: its outcome, and what there is to say of it."""
        global LONGEST_WAIT_S
        question = Question(self, number, function.__name__, situation, left)
        OPEN.add(question)
        name = function.__name__.replace("_", " ") + (situation.words and ", asked " + situation.words)
        found = {"question": name, "outcome": "passed", **({"situation": situation.words} if situation.words else {})}
        try:
            function(question)
            question.is_left = not self.adapter.row and question.leave()
        except Unasked as why:
            found.update(outcome="not asked", reason=str(why))
        except Wrong as wrong:
            found.update(outcome="late" if wrong.late else "failed", expected=str(wrong.expected), got=str(wrong.got))
            found.update({"differ": wrong.differ} if wrong.differ else {})
        except Exception as problem:  # an answer of a form that no question foresaw
            line = "".join(traceback.format_exception(type(problem), problem, problem.__traceback__)[-2:])
            came = [each["text"] for each in question.transcript if each["what"] == "came"] or ["nothing"]
            got = "%s (%s: %s)" % (came[-1], type(problem).__name__, problem)
            found.update(outcome="failed", expected="an answer of the form of the page", got=got, where=line)
        finally:
            self.closed(question)
            OPEN.discard(question)
        found.update(took_s=round(time.monotonic() - question.begun, 2), transcript=question.transcript)
        self.waited_in_vain += found["outcome"] == "late" and found["took_s"] >= LONGEST_WAIT_S
        if self.waited_in_vain >= IN_VAIN:
            LONGEST_WAIT_S = min(LONGEST_WAIT_S, IMPATIENT_S)
        return found

    def run(self):
        """Asks everything, several questions at a time."""
        asked = [number for number in self.claimed() if self.reason(number) is None]
        todo = [(number, function) for number in asked for function in self.questions(number)]
        if not self.adapter.row:
            todo += self.draw(asked, self.seed, self.most_situations)
        todo.sort(key=lambda each: each[0] not in SLOW_QUESTIONS)
        is_over = threading.Event()
        threading.Thread(target=end_what_hangs, args=(is_over,), daemon=True).start()
        try:
            answers = self.asked_twice(todo)
        finally:
            is_over.set()
        self.outcomes = {number: [] for number in self.claimed()}
        for (number, *_), found in zip(todo, answers):
            self.outcomes[number].append(found)

    def asked_twice(self, todo):
        """What each question found; what failed once more, by itself: another load may have been in its way."""
        global LONGEST_WAIT_S
        slow = sum(number in SLOW_QUESTIONS for number, *_ in todo)
        answers = several_at_once(self.AT_ONCE, self.answer, todo, apart=slow)
        self.end_left()
        wrong = [n for n, found in enumerate(answers) if found["outcome"] in ("failed", "late")]
        wrong.sort(key=lambda n: answers[n]["took_s"])
        usual_s, until = LONGEST_WAIT_S, time.monotonic() + AGAIN_S
        LONGEST_WAIT_S = min(usual_s, ALONE_WAIT_S)
        for n in wrong if len(wrong) <= ASKED_AGAIN and not self.adapter.row else ():
            if time.monotonic() < until:
                answers[n] = dict(self.answer(*todo[n]), first=answers[n])
        LONGEST_WAIT_S = usual_s
        return answers

    def reason(self, number):
        """Why a clause cannot be asked; None if it can."""
        if number in UNASKED:
            return UNASKED[number]
        if number in NEEDS_JOBS_PROFILE and "JOBS" not in self.levels:
            return "only %s a client, and the level JOBS is not claimed" % NEEDS_JOBS_PROFILE[number]
        return None if self.questions(number) else "no question was written"

    def verdict(self, number):
        """passed, failed or not asked, and of the last why."""
        kinds = {found["outcome"] for found in self.outcomes[number]}
        if kinds & {"failed", "late"}:
            return "failed", None
        if "passed" in kinds:
            return "passed", None
        return "not asked", self.reason(number) or "; ".join(found.get("reason", "") for found in self.outcomes[number])

    def end_left(self):
        """Ends the servers that no question has taken."""
        while self.left:
            self.left.pop().close()

    def close(self):
        self.end_left()
        shutil.rmtree(self.folder, ignore_errors=True)

    def report(self):
        """The verdict as an object."""
        verdicts = {number: self.verdict(number) for number in self.outcomes}
        known = self.claims.get("known failures", ())
        passed = [number for number, (word, _) in verdicts.items() if word == "passed"]
        return {
            "server": self.words,
            "levels": self.levels,
            "levels found by asking": self.found,
            "claims": self.claims,
            "only": list(self.only),
            "seed": self.seed,
            "asked again in a situation": sum(
                "situation" in found for each in self.outcomes.values() for found in each
            ),
            "claimed": len(verdicts),
            "passed": passed,
            "failed": [number for number, (word, _) in verdicts.items() if word == "failed"],
            "not asked": {number: why for number, (word, why) in verdicts.items() if word == "not asked"},
            "entries not asked": UNASKED_ENTRIES,
            "doubtful": self.doubtful(),
            "passed the second time": [n for n in passed if any("first" in found for found in self.outcomes[n])],
            "known failures that pass": [number for number in known if verdicts.get(number, ("",))[0] != "failed"],
            "clauses": {
                number: {"sentence": CLAUSES[number][0], "verdict": verdicts[number][0], "questions": found}
                for number, found in self.outcomes.items()
            },
        }


def shown_verdict(report):
    """The verdict as text: the score, then each failure with what was sent, what came and what was expected."""
    others = [(word, report[word]) for word in ("failed", "not asked") if report[word]]
    said = "".join("; %d %s: %s" % (len(numbers), word, ", ".join(numbers)) for word, numbers in others)
    yield "passed %d of %d claimed clauses%s" % (len(report["passed"]), report["claimed"], said)
    if report["asked again in a situation"]:
        yield "asked %d questions again in situations drawn with BASH_TOOL_SEED=%d" % (
            report["asked again in a situation"],
            report["seed"],
        )
    yield "levels%s: %s" % (" (found by asking)" * report["levels found by asking"], ", ".join(report["levels"]))
    for number, why in report["not asked"].items():
        yield "not asked %s: %s" % (number, why)
    for entry, why in report["entries not asked"].items() if not report["only"] else ():
        yield "not asked, of section %s: %s" % (entry, why)
    for number in report["passed"]:
        for found in report["clauses"][number]["questions"]:
            if found["outcome"] == "not asked" and "claimed" not in found["reason"]:
                yield "not asked, of %s: %s: %s" % (number, found["question"], found["reason"])
    if report["passed the second time"]:
        yield "failed beside other questions and passed alone: %s" % ", ".join(report["passed the second time"])
    if report["failed"] and report["doubtful"]:
        yield "what may be wrong: %s" % report["doubtful"]
    for number in report["failed"]:
        row, known = report["clauses"][number], number in report["claims"].get("known failures", ())
        yield "\nFAILED%s REQ-BASH-%s  %s" % (", as is known," * known, number, row["sentence"])
        for found in row["questions"]:
            if found["outcome"] in ("failed", "late"):
                yield "  asked:    %s%s" % (found["question"], ", twice" * ("first" in found))
                for each in found["transcript"][-6:]:
                    yield "  %8.2f s %s %s %s" % (each["at_s"], each["server"], each["what"], shortened(each["text"]))
                for key in ("expected", "got", "differ"):
                    if key in found:
                        yield "  %-9s %s" % (key + ":", shortened(found[key], 600).replace("\n", "\n            "))
    for number in report["known failures that pass"]:
        yield "\nREQ-BASH-%s is a known failure, and did not fail" % number


def judge(server, only=(), draw=lambda *_: []):
    """Judges the server that these words start, all its clauses or those of `only`; returns the exit code."""
    global LONGEST_WAIT_S
    try:
        words = shlex.split(server)
        seed = int(os.environ.get("BASH_TOOL_SEED") or random.randrange(10**6))
        most_situations = int(os.environ.get("BASH_TOOL_SITUATIONS") or MOST_SITUATIONS)
        adapter = Adapter(os.environ.get("BASH_TOOL_ADAPTER", ""))
        claims = json.loads(os.environ.get("BASH_TOOL_CLAIMS") or "{}")
    except (ValueError, OSError) as problem:
        print("cannot be judged: the command, or one of the variables BASH_TOOL_…: %s" % problem)
        return 2
    if adapter.row:  # for information: most of what another tool does not do is waited for in vain
        LONGEST_WAIT_S = 10.0
    with contextlib.closing(Judge(words, adapter, claims, only, draw, seed, most_situations)) as one:
        unfit = one.unfit()
        if unfit:
            print(unfit)
            return 2
        if one.found:
            one.find_levels()
        if not one.claimed():
            asked = ", ".join(only) or "all"
            print(
                "nothing to judge: no clause of the levels %s is %s" % (", ".join(one.levels), asked), file=sys.stderr
            )
            return 2
        begun = time.monotonic()
        one.run()
        report = dict(one.report(), took_s=round(time.monotonic() - begun, 1))
    if os.environ.get("BASH_TOOL_VERDICT"):
        text = json.dumps(report, indent=1, ensure_ascii=False)
        Path(os.environ["BASH_TOOL_VERDICT"]).write_text(text, encoding="utf-8", errors="backslashreplace")
    for line in shown_verdict(report):
        print(line.encode("utf-8", "backslashreplace").decode())
    known = report["claims"].get("known failures", ())
    return int(bool(set(report["failed"]) - set(known) or report["known failures that pass"]))
