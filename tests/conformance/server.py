"""What the judge asks of the level server."""

import contextlib
import json
import os
import re
import select
import signal
import time

from tests.conformance.core import CUT, DEAF, FULL_OUTPUT, GOES_ON, LOOKS_SECRET, admits, bring, definition_and_page
from tests.conformance.core import environment_of, gets, timed_out
from tests.conformance.judge import Unasked, asks, on_both_sides, patience, requested, shortened, words_of
from tests.conformance.output import peak_of
from tests.processes import eventually, processes
from tests.spec import fenced


META_VERSION = "io.modelcontextprotocol/protocolVersion"
META = {META_VERSION: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
CANCELLED = "notifications/cancelled"
VERSIONS = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]


def called(number, command):
    """The call of a command."""
    return requested(number, "tools/call", name="bash", arguments={"command": command})


def answers_to(q, wire, *rows):
    """The answers to these lines: of each an error of this code and id, for a code of 0 a result, for None nothing."""
    messages = []
    for line, code, number in rows:
        wire.send(line if isinstance(line, bytes) else json.dumps(line).encode())
        if code is None:
            wire.send({"jsonrpc": "2.0", "id": "probe", "method": "ping"})
            code, number = 0, "probe"
        message = wire.receive()
        code_of_it = (message.get("error") or {}).get("code", 0) if isinstance(message, dict) else message
        got = code_of_it, (message or {}).get("id", "missing"), (message or {}).get("jsonrpc")
        q.equal(got, (code, number, "2.0"), "code, id, version of the answer to %s:" % shortened(repr(line), 200))
        messages.append(message)
    return messages


@asks("006.8")
def the_definition_is_that_of_the_page(q):
    for row in ("modes", *q.rows):
        listed, page = definition_and_page(q, row)
        q.equal(listed.get("annotations"), page["annotations"], "annotations of the profile %s:" % row)
        q.equal(listed.get("title"), page["title"], "title")
        q.equal(listed.get("description"), page["description"], "description of the profile %s:" % row)
        q.equal(sorted(listed), sorted(page), "keys of the definition:")


HEARTBEAT_LINE = r"\[still running after \d+s\]"


def live_text(wire, token):
    """The joined messages of progress under a token, without signs of life."""
    told = [each.get("message", "") for each in wire.progress if each.get("progressToken") == token]
    return "".join(text for text in told if not re.fullmatch(HEARTBEAT_LINE, text))


def skipped(text):
    """The sizes, in bytes, of what the lines in a live output say that it leaves out."""
    found = re.findall(r"\n\[live output skipped: (?:at least )?(\d+(?:\.\d)?)([KM]?)B\]\n", text)
    return [float(size) * {"": 1, "K": 1 << 10, "M": 1 << 20}[unit] for size, unit in found]


@asks("016.1")
def live_output_is_the_decoded_output(q):
    first, then = "printf 'a\\303'; sleep 0.5; printf '\\251\\033[1mb\\377\\r\\n'; ", "seq 1000; printf '\\303'"
    number = q.wire.begin(first + "until [ -e seen ]; do sleep 0.1; done; " + then, token="t")
    expected = "aé\x1b[1mb\ufffd\r\n"
    until = time.monotonic() + patience(None)
    while live_text(q.wire, "t") != expected and time.monotonic() < until:
        message = q.wire.receive() or {}
        q.equal(message.get("method"), "notifications/progress", "while the command runs,")
        q.wire.progress.append(message["params"])
    q.equal(live_text(q.wire, "t"), expected, "live output while the command runs:")
    (q.folder / "seen").touch()
    q.wire.finish(number)
    expected += "".join("%d\n" % n for n in range(1, 1001)) + "\ufffd"
    q.equal(live_text(q.wire, "t"), expected, "the messages joined:")


@asks("016.2")
def a_slow_reader_misses_the_oldest(q):
    q.wire.finish(q.wire.begin("seq 8000000; echo the end; echo > finished", "finished", token="t", mode="slow"))
    text = live_text(q.wire, "t")
    q.that(skipped(text), "a line [live output skipped: …MB], when the command ends before it is read", shortened(text))
    q.that(text.endswith("8000000\nthe end\n"), "the newest output at the end", shortened(text))
    numbers = ((min(10**digits, 8000001) - 10 ** (digits - 1)) * (digits + 1) for digits in range(1, 8))
    whole = sum(numbers) + len("the end\n")
    missing = whole - len(text.encode())
    words = "lines on what was skipped that make up what is missing of %d bytes, %d" % (whole, missing)
    q.that(abs(sum(skipped(text)) - missing) < 0.1 * missing, words, skipped(text))
    sizes = [len(each.get("message", "").encode()) for each in q.wire.progress]
    q.that(max(sizes) <= 8192, "messages of at most 8,192 bytes", "one of %d" % max(sizes))


@asks("017.6")
def the_environment_names_a_profile(q):
    cases = [("BASH_TOOL_PROFILE", "nobody"), ("BASH_TOOL_PROFILE", "")]
    options = ["--no-such-option"], ["extra"], ["--cwd"], ["--profile", "nobody"]
    for case in (*cases, *options):
        wire = q.server(*case) if case in options else q.server(env=[case])
        q.equal(wire.ended(), 125, "exit code of a server with %s:" % (case,))
        q.that(wire.errors.read_bytes().strip(), "a message on standard error, for %s" % (case,), "none")
    q.says("echo on", "on\n", wire=q.server(env={"BASH_TOOL_PROFILE": "MoDeS"}))
    q.says("echo on", "on\n", wire=q.server("--profile", "modes", env={"BASH_TOOL_PROFILE": "nobody"}))
    for row in q.rows:
        listed, page = definition_and_page(q, row)
        q.equal(listed["inputSchema"], page["inputSchema"], "inputSchema with BASH_TOOL_PROFILE=%s:" % row)
        q.has(q.server(profile=row.upper()).call("printf %s 1 2").text, "12")  # a name in any case


@asks("017.7")
def denied_texts_are_refused(q):
    wire = q.server("--deny", "rm -rf", "--deny", "mkfs")
    for command, pattern in (
        ("echo one; touch made; rm -rf /nonexistent-folder", "rm -rf"),
        ("touch made; mkfs --help", "mkfs"),
        ("touch made; mkfs; rm -rf x", "rm -rf"),
    ):
        q.says(command, "[system error: Command blocked by safety policy: contains '%s']\n" % pattern, True, wire=wire)
    q.that(not (q.folder / "made").exists(), "the command is not run", "it was")
    q.says("echo RM -RF; echo rm  -rf", "RM -RF\nrm -rf\n", wire=wire)


def keeping(*names):
    return [word for name in names for word in ("--keep-env", name)]


@asks("017.8")
def kept_names_pass(q):
    env = {"A_TOKEN": "one", "B_TOKEN": "two", "GH_ONE_TOKEN": "three", "DATABASE_URL": "db://me:pw@h"}
    gets(q, env, {**env, "B_TOKEN": None}, "variables:", keeping("A_TOKEN", "GH_*", "DATABASE_URL"))
    gets(q, env, {**env, "GH_ONE_TOKEN": None}, "variables, with globs:", keeping("?_T*", "gh_*", "[!A]*_URL"))
    group = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "db://me:pw@h"}
    gets(q, group, group, "a group of which all is named that looks secret:", keeping("GIT_CONFIG_VALUE_0"))
    group.update(GIT_CONFIG_COUNT="2", GIT_CONFIG_KEY_1="c.d", GIT_CONFIG_VALUE_1="db://me:pw@i")
    none = dict.fromkeys(group)
    for glob, passed in (("GIT_CONFIG_VALUE_0", none), ("GIT_CONFIG_KEY_*", none), ("GIT_CONFIG_VALUE_?", group)):
        gets(q, group, passed, "a group of which %s is kept:" % glob, keeping(glob))


@asks("004.11")
def what_is_named_in_full_wins(q):
    env = dict(PAGER="my", GIT_PAGER="my", GIT_ASKPASS="ksshaskpass", FORCE_COLOR="1", PY_COLORS="1", EDITOR=None)
    options = keeping("PAGER", "GIT_*", "GIT_ASKPASS", "PY_COLORS", "*_COLOR", "EDITOR")
    got, _ = environment_of(q, q.server(*options, env=env))
    q.has(got.pop("EDITOR", ""), "no-editor-here")  # which the host lacks
    q.equal({name: got.get(name) for name in env}, dict(env, GIT_PAGER="cat", FORCE_COLOR=None), "variables:")


@asks("017.10")
def dropped_names_are_withheld(q):
    env = {"CUSTOMER": "one", "LOCAL_A": "two", "A_TOKEN": "three", "CUSTOM": "four"}
    options = ["--drop-env", "CUSTOMER", "--drop-env", "LOCAL_*", "--drop-env", "A_TOKEN", "--keep-env", "*_TOKEN"]
    gets(q, env, {**dict.fromkeys(env), "CUSTOM": "four"}, "variables:", options)
    wire = q.server(*options, env={**env, "B_SECRET": "five", "PIP_INDEX_URL": "https://me:pw@pypi.example/simple"})
    q.says("true", LOOKS_SECRET % "PIP_INDEX_URL", wire=wire)
    q.says("echo ${CUSTOMER-none}", "[not passed to commands: CUSTOMER]\nnone\n", wire=wire)
    q.says("echo ${CUSTOMER-none}", "none\n", wire=wire)
    both = LOOKS_SECRET % "B_SECRET" + "[not passed to commands: LOCAL_A]\n"
    q.says(": LOCAL_A B_SECRET", both, wire=wire)  # that with the first name stands first
    wire = q.server("--drop-env", "NO_PROXY", "--drop-env", "GIT_*", env={"NO_PROXY": "localhost"})
    q.says("echo $GIT_PAGER $GIT_TERMINAL_PROMPT", "[not passed to commands: NO_PROXY]\ncat 0\n", wire=wire)  # Set


@asks("017.12")
def limits_are_set(q):
    wire = q.server("--set", "max_output_bytes=100", env={"BASH_TOOL_SET": "snip_size=3 max_output_bytes=200"})
    text = wire.call("seq 1000").text
    q.match(CUT + r"1\n2?\n\n\[snip\]\n\n.{3}\[full output: .*\]\n", text)
    q.has(text, " got 3.8KB, max is 100B]")
    wire = q.server("--set", "grace_s=0.3", timeouts={"default": 0.5, "slow": 9})
    q.one_of(3, lambda: q.takes(wire, "trap '' TERM; while :; do sleep 0.1; done", 0.8, 1.5))
    q.says("sleep 0.3; echo on", "on\n", wire=q.server(timeouts={"default": 1000000000, "slow": 1000000000}))
    q.says("echo on", "on\n", wire=q.server(env={"BASH_TOOL_SET": ""}))
    wire = q.server(timeouts={"default": 0.5, "slow": 1.5, "grace_s": 0.3, "drain_idle_s": 20, "drain_total_s": 30})
    q.says("echo on; sleep 600", timed_out(q, "0.5s") + "on\n", True, wire=wire)
    q.match("default=0.5 slow=1.5 .*\n", wire.call("echo $BASH_TOOL_SET").text)  # commands get it too
    deaf, text = "trap '' TERM; echo on; while :; do sleep 0.1; done", "[command timed out after 1.5s]\non\n"
    q.says(deaf, text, True, wire=wire, mode="slow")
    q.match(r"(\[still running[^\n]*\n)?hi\nlate\n", wire.call("(sleep 3; echo late) & echo hi", mode="default").text)
    wrong = ["slow=" + value for value in ("soon", "-1", "0", "true", "null", "NaN", "1000000001")]
    for setting in (*wrong, "nonsense=3", "grace_s=-1", "snip_size=0", "max_output_lines=3", "grace_s"):
        for wire in (q.server("--set", setting), q.server(env={"BASH_TOOL_SET": setting})):
            q.equal(wire.ended(), 125, "exit code of a server with the setting %s:" % setting)


@asks("017.13")
def calls_are_logged(q):
    log, begun_s = q.place / "log", time.time()
    wires = [q.server("--log", str(log), timeouts={"grace_s": 0.3}) for _ in range(2)]
    expected = []
    for n, wire in enumerate(wires * 2):
        wire.call("echo %d; sleep 0.6; exit 3" % n)
        expected.append([{"command": "echo %d; sleep 0.6; exit 3" % n}, "exited", 3, None])
    wires[0].cancel(wires[0].begin("echo $$ > shell; sleep 611", "shell"))
    q.dead("shell")
    wires[1].given({"cmd": "ls"})
    expected += [[{"command": "echo $$ > shell; sleep 611"}, "cancelled", None, None]]
    expected += [[{"cmd": "ls"}, "rejected", None, "invalid_arguments"]]
    eventually(lambda: log.exists() and log.read_text().count("\n") == len(expected), 20)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    shown = [[line.get(key) for key in ("arguments", "status", "exit_code", "error")] for line in lines]
    q.equal(sorted(map(repr, shown)), sorted(map(repr, expected)), "lines of the log:")
    keys = {"time", "arguments", "status", "exit_code", "signal", "error", "duration_s", "total_bytes", "pid"}
    q.equal(set().union(*lines), keys, "keys of the log:")
    q.that(all(begun_s - 1 < line["time"] < time.time() + 1 for line in lines), "seconds since 1970", lines)
    took = [line["duration_s"] for line in lines if line["exit_code"] == 3]
    q.that(all(0.6 <= seconds < 60 for seconds in took), "duration_s in seconds, after 0.6 s", took)
    q.equal([line["total_bytes"] for line in lines if line["exit_code"] == 3], [2] * 4, "total_bytes")
    q.equal(oct(log.stat().st_mode & 0o7777), "0o600", "mode of the log:")
    q.equal(q.server("--log", str(q.place / "no" / "log")).ended(), 125, "exit code where the log cannot be opened:")


@asks("025.1")
def each_era_has_its_form(q):
    (message,) = answers_to(q, q.wire, (requested("b", "server/discover"), 0, "b"))
    q.equal(message["result"].get("resultType"), "complete", "server/discover without a version in _meta, resultType:")
    q.run("echo é€😀")
    q.that(q.wire.line.isascii(), "a line of ASCII", q.wire.line)
    call = {"name": "bash", "arguments": {"command": "echo hi"}}
    for method, params in ("server/discover", {}), ("tools/list", {}), ("ping", {}), ("tools/call", call):
        (message,) = answers_to(q, q.wire, (requested("a", method, _meta=META, **params), 0, "a"))
        result = message["result"]
        info = result.get("_meta", {}).get("io.modelcontextprotocol/serverInfo", {})
        got = [type(info.get("name")), type(info.get("version")), result.get("resultType")]
        q.equal(got, [str, str, "complete"], "name and version in _meta, and resultType, in the answer to %s:" % method)
        if method in ("server/discover", "tools/list"):
            q.equal({*result} >= {"ttlMs", "cacheScope"}, True, "ttlMs and cacheScope in the answer to %s:" % method)
        if method == "server/discover":
            q.equal((result.get("supportedVersions"), result.get("capabilities")), (VERSIONS, {"tools": {}}))
            continue
        (message,) = answers_to(q, q.wire, (requested(2, method, **params), 0, 2))
        q.equal("resultType" in message["result"], False, "resultType without a version in _meta:")


@asks("025.2")
def an_unknown_version_is_refused(q):
    for version in ("2031-01-01", "2025-11-25", "", "x"):
        for method in ("tools/list", "ping", "tools/call", "server/discover", "resources/list"):
            line = requested(1, method, _meta=dict(META, **{META_VERSION: version}))
            (message,) = answers_to(q, q.wire, (line, -32022, 1))
            q.equal(message["error"].get("data"), {"requested": version, "supported": VERSIONS}, "data of the error:")


@asks("025.3")
def versions_are_agreed(q):
    for asked in (*VERSIONS[1:], "2026-07-28", "1999-01-01"):
        named = VERSIONS[0] if asked == VERSIONS[1] else "x"
        hello = requested(1, "initialize", protocolVersion=asked, _meta={META_VERSION: named}, capabilities={})
        (message,) = answers_to(q, q.server(), (hello, 0, 1))
        result = message["result"]
        q.that("resultType" not in result, "the form of the handshake", json.dumps(result))
        agreed = asked if asked in VERSIONS[1:] else "2025-11-25"
        q.equal(result.get("protocolVersion"), agreed, "the version for a client of %s:" % asked)
        q.equal(result.get("capabilities", {}).get("tools"), {}, "capabilities")
        q.equal(sorted(result.get("serverInfo", {})), ["name", "version"], "serverInfo")
    odd = requested(2, "initialize", protocolVersion=7, _meta={META_VERSION: 7})
    for message in answers_to(q, q.wire, ({"jsonrpc": "2.0", "id": 1, "method": "initialize"}, 0, 1), (odd, 0, 2)):
        q.equal(message["result"].get("protocolVersion"), "2025-11-25", "the version that is offered:")


@asks("025.4")
def the_model_reads_what_went_wrong(q):
    wire = q.server(timeouts={"default": 0.5})
    q.says("echo hi", "hi\n", wire=wire, mode="slow")
    q.says("echo hi; exit 3", "[command failed: exit code 3]\nhi\n", True, wire=wire, mode="slow")
    q.says("echo hi; sleep 600", timed_out(q, "0.5s") + "hi\n", True, wire=wire)
    for arguments in ({"cmd": "ls"}, {}, {"command": 3}, {"command": "a\0"}):
        reply = wire.given(arguments)
        q.equal(reply.is_error, True, "isError")
        q.begins(reply.text, "[system error: invalid arguments: ")
        q.equal([part.get("type") for part in reply.result["content"]], ["text"], "the parts of content:")


@asks("025.5")
def the_client_is_wrong(q):
    call = {"name": "bash", "arguments": {"command": "echo hi"}}
    rows = [
        (requested(1, "resources/list"), -32601, 1),
        (requested(2, "no/such"), -32601, 2),
        (requested(3, "tools/call", name="zsh", arguments=call["arguments"]), -32602, 3),
        (requested(4, "tools/call", name="bash", arguments="echo hi"), -32602, 4),
        (requested(5, "tools/call", name="bash", arguments=["echo hi"]), -32602, 5),
        (requested(6, "tools/call", arguments={"command": "echo hi"}), -32602, 6),
        (dict(requested(7, "tools/list"), params=7), -32602, 7),
        (dict(requested(8, "tools/list"), params=[]), -32602, 8),
        (requested(9, "tools/list", _meta=7), -32602, 9),
        *((dict(requested(9, method), params=[]), -32602, 9) for method in ("no/such", "initialize", "ping")),
        (requested(10, "tools/list", _meta={META_VERSION: 7}), -32602, 10),
        (requested(11, "tools/call", **call, _meta={"progressToken": 1.5}), -32602, 11),
        (requested(12, "tools/call", **call, _meta={"progressToken": True}), -32602, 12),
        (dict(requested(13, "tools/list"), params=None), 0, 13),
        (requested(14, "tools/list", cursor="x"), 0, 14),
        (requested(15, "tools/list", _meta=None), 0, 15),
        (requested(16, "tools/list", _meta={META_VERSION: None}), 0, 16),
        (requested(17, "tools/call", **call, _meta={META_VERSION: "x", "progressToken": {}}), -32022, 17),
        ({"jsonrpc": "2.0", "method": "tools/call", "params": {**call, "arguments": {"command": ">ran"}}}, None, 0),
        (requested(30, "tools/call", **call, _meta={"progressToken": None}), 0, 30),
    ]
    answers_to(q, q.wire, *rows)
    for number, more in enumerate(({}, {"arguments": None}), 18):
        q.wire.send(requested(number, "tools/call", name="bash", **more))
        q.that("is required" in q.wire.finish(number).text, "arguments that are missing are {}", q.wire.line)
    q.that(not (q.folder / "ran").exists(), "a call without an id does nothing", "it was run")


@asks("025.6")
def structured_content_conforms(q):
    q.that("structuredContent" in q.server("--structured").call("echo on").result, "fields, for --structured", "none")
    wire = q.server("--deny", "mkfs", structured=True, timeouts={"default": 0.5})
    page = json.loads(dict(fenced("definition"))["structured"])["outputSchema"]
    q.equal(wire.definition().get("outputSchema"), page, "outputSchema")
    plain = dict.fromkeys(("signal", "error", "pid", "output_file"))
    for arguments, shown in (
        ({"command": "echo hi"}, {**plain, "status": "exited", "exit_code": 0, "truncated": False, "total_bytes": 3}),
        ({"command": "echo hi; kill -9 $$"}, {"exit_code": 137, "signal": "SIGKILL", "total_bytes": 3}),
        ({"command": "echo hi; exit 143"}, {"status": "exited", "exit_code": 143, "signal": None}),
        ({"command": "printf '\\033[1mhi\\n'"}, {"total_bytes": 7}),
        ({"command": "mkfs"}, {"status": "rejected", "error": "denied", "exit_code": None, "duration_s": 0}),
        ({"command": "seq 100000"}, {"status": "exited", "truncated": True, "total_bytes": 588895}),
        ({"command": "echo hi; sleep 600", "mode": "default"}, {**plain, "status": "timed_out", "exit_code": None}),
        ({"cmd": "x"}, {"status": "rejected", "error": "invalid_arguments", "exit_code": None, "duration_s": 0}),
    ):
        reply = wire.given(dict({"mode": "slow"} if "command" in arguments else {}, **arguments))
        content = reply.result.get("structuredContent") or {}
        q.equal(sorted(content), sorted(page["required"]), "keys of structuredContent:")
        q.equal(content["text"], reply.text, "text")
        q.equal({key: content[key] for key in shown}, shown, "structuredContent after %s:" % json.dumps(arguments))
        wrong = {key: content[key] for key, row in page["properties"].items() if not admits(row, content[key])}
        q.equal(wrong, {}, "fields that their schema does not admit:")
    reply = wire.given({"command": "seq 100000", "mode": "slow"})
    q.fields(reply, exit_code=0, output_file=str(q.named(FULL_OUTPUT, reply.text)))
    number = wire.begin("sleep 0.6; echo on; echo > said; sleep 600", "said", mode="slow")
    wire.signal(signal.SIGINT)
    reply = wire.finish(number)
    q.fields(reply, status="cancelled", total_bytes=3)
    took = reply.result["structuredContent"]["duration_s"]
    q.that(0.6 <= took < 60, "seconds", took)
    wire = q.server(structured=True, timeouts={"drain_idle_s": 4, "drain_total_s": 4})
    reply = wire.given({"command": "sleep 600 & echo hi", "mode": "slow"})
    took = reply.result["structuredContent"]["duration_s"]
    q.that(took < 3, "the seconds to the end of the shell, without the 4 s of the drain", took)
    q.fields(reply, exit_code=0, output_file=str(q.named(GOES_ON, reply.text)), truncated=False)  # nothing was cut
    wire.call("rm -r \"$PWD\"")
    q.fields(wire.call("exit 3"), status="exited", exit_code=3, error="cwd_missing")  # in a scratch folder


@asks("025.7", "025.18")
def sixty_four_calls(q):
    wire = q.server(timeouts={"grace_s": 600}, structured=True)
    wire.cancel(wire.begin(DEAF.format("deaf"), "deaf", mode="slow"))  # counts until its command has ended
    q.there("heard-deaf")
    wait = "echo > in-%d; until [ -e go ]; do sleep 0.5; done; echo on"
    numbers = [wire.begin(wait % n, mode="slow") for n in range(63)]
    sentence = "too many calls are under way (64); wait for the answer of one, or cancel one"
    for arguments in ({"command": "echo over > over"}, {"cmd": 7}):  # before the arguments are checked
        q.fields(q.refused(arguments, sentence, wire=wire), status="rejected", error="too_many_calls", duration_s=0)
    # Its row stands before that of 64 calls.
    answers_to(q, wire, (called(numbers[0], "echo over > over"), -32600, numbers[0]))
    q.that(not (q.folder / "over").exists(), "the 65th call is not run", "it was")
    q.equal(wire.ask("ping"), {})
    q.there(*("in-%d" % n for n in range(63)))  # all of them run at the same time
    (q.folder / "go").touch()
    q.equal({wire.finish(number).text for number in numbers}, {"on\n"}, "answers to the others:")
    q.says("echo on", "on\n", wire=wire)


@asks("025.8")
def withdrawn_calls_end(q):
    """Nothing is said of a withdrawn command that goes on to print. The id 1 is the same as 1.0, and not as "1"."""
    wire = q.wire = q.server(timeouts={"grace_s": 2})
    kept = wire.begin("until [ -e go ]; do sleep 0.1; done; echo kept")
    trap = "trap 'while :; do echo more; echo > told; sleep 0.1; done' TERM; "
    command = trap + "echo $$ > shell; setsid sleep 600 & echo $! > child; wait"
    number = wire.begin(command, "shell", "child", token="p")
    for other in (str(number), str(kept), "never heard of", number + 1000, True, None, {}, number + 0.5):
        wire.cancel(other)
    q.equal(wire.ask("ping"), {})
    q.alive("shell", "child", for_s=0.3)
    wire.cancel(float(number))
    q.there("told")
    q.equal(wire.ask("ping"), {})
    count = len(q.transcript)
    q.dead("shell", "child")
    wire.cancel(number)
    (q.folder / "go").touch()
    q.equal(wire.finish(kept).text, "kept\n")
    q.says("sleep 1; echo on", "on\n")
    q.that(number not in wire.waiting, "no answer to the withdrawn call", json.dumps(wire.waiting.get(number)))
    said = [each["text"] for each in q.transcript[count:] if each["what"] == "came" and '"p"' in each["text"]]
    q.equal(said, [], "progress after the withdrawal:")


@asks("025.9")
def the_server_ends(q):
    jobs = "jobs" in q.judge.levels
    left = []
    for end in ("input", "SIGTERM", "SIGHUP", "output"):
        wire, left = q.server(), [*left, "holder-" + end, "daemon-" + end, *["job-" + end] * jobs]
        wire.call("sleep 600 & echo $! > holder-%s; setsid sleep 601 &>/dev/null & echo $! > daemon-%s" % (end, end))
        if jobs:
            wire.call("echo $$ > job-%s; sleep 600" % end, mode="background")
        command = "trap 'echo bye; exit' TERM; echo $$ > shell-%s; sleep 600 & echo $! > child-%s; wait"
        number = wire.begin(command % (end, end), "shell-" + end, "child-" + end, mode="slow")
        bring(wire, end, number)
        if end not in ("input", "output"):  # 025.26 says more of the end of the input
            q.answered(number, "[command cancelled]\nbye\n", True, wire)
        q.equal(wire.ended(), 0, "exit code after %s:" % end)
        q.dead("shell-" + end, "child-" + end)
    q.alive(*left, for_s=0.5)
    for first, second in (("SIGTERM", "SIGTERM"), ("input", "SIGHUP"), ("withdrawn", "input"), ("SIGINT", "input")):
        wire, name = q.server(timeouts={"grace_s": 600}), "%s-%s" % (first, second)
        number = wire.begin(DEAF.format(name), name, mode="slow")
        for n, end in enumerate((first, second)):  # the second stop is KILL at once
            bring(wire, end, number)
            q.there("heard-" + name)
            if (n, end) == (0, "input"):
                time.sleep(2.5)  # 025.26
            q.alive(*[name] * (n == 0))
        q.equal(wire.ended(), 0, "exit code after %s:" % name)
        q.dead(name)


@asks("025.24")
def a_byte_order_mark(q):
    for line, number in ((b'{"jsonrpc": "2.0", "id": "a", "method": "ping"}', "a"), (b"", None)):
        wire = q.server()
        wire.send(b"\xef\xbb\xbf" + line)
        if number is not None:
            q.equal(wire.response(number).get("result"), {}, "the answer to a ping behind a byte order mark:")
        q.equal(wire.ask("ping"), {})


@asks("025.25", "025.26")
@on_both_sides(("025.25", "s after the input"), ("025.26", "s after the input"))
def the_input_ends_during_calls(q):
    for n in range(4):
        if signalled_in_time(q, "-%d" % n):
            return
    raise Unasked("the machine let no signal of the judge come in time")


def signalled_in_time(q, name):
    """Whether TERM was sent early enough after the end of the input; on a busy machine it may not be."""
    wire = q.server(timeouts={"grace_s": 600})
    ends = wire.begin("sleep 0.4; echo ended; exit 3")
    cleans = "trap 'echo > told{0}; sleep 2; echo > cleaned{0}; exit' TERM; echo $$ > late{0}; sleep 600 & wait"
    late = wire.begin(cleans.format(name), "late" + name)
    deaf, begun = wire.begin(DEAF.format("deaf" + name), "deaf" + name, token="p"), time.monotonic()
    wire.process.stdin.close()
    q.equal(wire.finish(ends).text, "[command failed: exit code 3]\nended\n")  # it ends by itself
    if q.clause == "025.25":
        q.there("heard-deaf" + name)
        q.took(time.monotonic() - begun, 0.9, 3, "from the end of the input to the end of the others")
        return True
    q.there("told" + name, "heard-deaf" + name)
    wire.signal(signal.SIGTERM)  # as the SDKs do: no second stop
    if time.monotonic() - begun > 2.3:
        return False
    q.there("cleaned" + name)
    q.dead("late" + name)
    q.alive("deaf" + name)
    time.sleep(max(0, begun + 2.8 - time.monotonic()))
    wire.signal(signal.SIGTERM)
    q.dead("deaf" + name)
    said = wire.receive()
    q.that(said is None, "no answer to %d and %d" % (late, deaf), json.dumps(said))
    q.equal(wire.ended(), 0, "exit code of the server:")
    return True


@asks("025.9")
@on_both_sides(("025.9", "s without a reader"))
def a_slow_reader_gets_what_is_due(q):
    """4.13, End: answers are offered until the client has read nothing for two seconds."""
    wire, names = q.wire, ["done-%d" % n for n in range(4)]
    numbers = [wire.begin("seq 10000; echo > " + name) for name in names]  # 59 KB each; a pipe holds 64 KiB
    q.there(*names)
    time.sleep(1)
    wire.process.stdin.close()
    chunk = b"-"
    while chunk:
        time.sleep(1)
        there, _, _ = select.select([wire.process.stdout], [], [], 10)
        q.that(there, "the end of the server's output", "none within 10 s", late=True)
        chunk = os.read(wire.process.stdout.fileno(), 32768)
        wire.buffer += chunk
    q.equal([wire.finish(number).text[-6:] for number in numbers], ["10000\n"] * 4, "the ends of four answers:")
    q.equal(wire.ended(), 0, "exit code of the server:")
    wire = q.server()
    for name in ("a", "b", "c", "d"):
        wire.begin("seq 10000; echo > " + name, name)
    begun = time.monotonic()
    q.equal(wire.end(), 0, "exit code of a server whose client reads nothing:")
    q.took(time.monotonic() - begun, 0, 3.5, "the end of that server")


@asks("025.9", "025.22")
def what_was_ignored_stays_ignored(q):
    ends = ("SIGTERM", "SIGHUP") if q.clause == "025.9" else ("SIGINT",)
    wire = q.server(before="".join("signal.signal(signal.%s, signal.SIG_IGN)\n" % end for end in ends))
    command = "echo > begun; until [ -e go ]; do sleep 0.1; done; echo on; kill -%s $$" % ends[-1][3:]
    number = wire.begin(command, "begun")
    for end in ends:
        wire.signal(getattr(signal, end))
    for _ in range(3):
        q.says("sleep 0.1; echo meanwhile", "meanwhile\n", wire=wire)
    (q.folder / "go").touch()
    code = 128 + getattr(signal, ends[-1])  # commands do not ignore it
    q.equal(wire.finish(number).text, "[command failed: exit code %d (%s)]\non\n" % (code, ends[-1]))
    q.equal(wire.end(), 0, "exit code of the server:")


@asks("025.10")
def progress_with_a_token_alone(q):
    for token in ("p", 7, 0, ""):
        q.wire.progress.clear()
        number = q.wire.begin("for i in 1 2 3; do sleep 0.3; echo $i; done", token=token)
        q.equal(q.wire.finish(number).text, "1\n2\n3\n")
        told = [(each.get("progressToken"), each.get("progress")) for each in q.wire.progress]
        q.equal(told, [(token, n) for n in range(1, len(told) + 1)], "progressToken, progress")
        q.equal(live_text(q.wire, token), "1\n2\n3\n", "the messages joined:")
    q.wire.progress.clear()
    reply = q.wire.finish(q.wire.begin("for i in $(seq 200); do echo $i; sleep 0.01; done", token="p"))
    told, words = len(q.wire.progress), "notifications, of which about ten a second come"
    q.below(told, 10 + 20 * reply.took_s, words)
    q.that(told > 5 * reply.took_s, "%s: more than %.3g" % (words, 5 * reply.took_s), told, late=True)
    q.wire.progress.clear()
    q.says("echo one; sleep 1; echo two", "one\ntwo\n")
    q.equal(q.wire.progress, [], "progress without a token:")


@asks("025.11")
@on_both_sides(("025.11", "s of silence"))
def signs_of_life(q):
    begun = time.monotonic()
    number = q.wire.begin("sleep 21.5; echo on", token="t")
    other = q.wire.begin("sleep 4; echo on; sleep 14", token="u")
    silent = q.wire.begin("sleep 11.5")
    q.wire.begin("sleep 7; echo on; sleep 7", token="w")  # too short a silence, twice
    wire = q.server(timeouts={"default": 1, "grace_s": 13})
    ending = wire.begin("trap '' TERM; while :; do sleep 1; done", token="v")
    for each in (number, other, silent):
        q.wire.finish(each, within_s=120)
    q.equal({each.get("progressToken") for each in q.wire.progress}, {*"tuw"}, "tokens of what was told:")
    of_t, of_u, of_w = ([each for each in q.wire.progress if each.get("progressToken") == token] for token in "tuw")
    q.equal("".join(each["message"] for each in of_w), "on\n", "told of a silence of 7 s:")
    q.match(r"on\n\[still running after 1[4-7]s\]", "".join(each["message"] for each in of_u))
    told = [each["message"] for each in of_t if re.fullmatch(HEARTBEAT_LINE, each.get("message", ""))]
    q.that(len(told) >= 2, "at least two signs of life in 21.5 s: [still running after 10s]", of_t)
    q.equal([each["progress"] for each in of_t], list(range(1, len(of_t) + 1)), "progress")
    q.that(len(told) <= (time.monotonic() - begun) / 10, "a sign of life every ten seconds", told)
    q.match(r"\[still running after 1\d+s\]", told[0])
    wire.finish(ending)
    q.match(r"\[still running after 1\d+s\]", "".join(each["message"] for each in wire.progress))


@asks("025.12")
def garbled_lines_cost_nothing(q):
    rows = [
        (b"\xff\xfe", -32700, None),
        (b'{"a": NaN}', -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": -Infinity}}', -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "\xff"}}', -32700, None),
        (b"[" * 100000, -32700, None),
        *((odd, -32600, None) for odd in (7, None)),
        ({"jsonrpc": "1.0", "id": 8, "method": "ping"}, -32600, 8),
        ({"jsonrpc": "2.0", "id": 9, "method": 9}, -32600, 9),
        *(({"jsonrpc": "2.0", "id": odd, "method": "ping"}, -32600, None) for odd in (True, 1.5, {})),
        ({"jsonrpc": "1.0", "id": {}, "method": "ping"}, -32600, None),
        ({"jsonrpc": "2.0", "id": [], "method": 9}, -32600, None),
        *(({"jsonrpc": "2.0", "id": odd}, -32600, known) for odd, known in ((1.5, None), (5, 5))),
        *((odd, -32600, None) for odd in ({"method": "ping"}, {}, {"jsonrpc": 2.0, "method": "notifications/nobody"})),
        *(({"jsonrpc": "2.0", "id": odd, "method": "ping"}, 0, odd) for odd in (2**53 + 1, -1, 0, "é😀\u2028\0")),
        ({"jsonrpc": "2.0", "method": "notifications/nobody"}, None, None),
        *(({"jsonrpc": "2.0", "method": CANCELLED, "params": odd}, None, None) for odd in (7, [], None, {})),
        *(({"jsonrpc": "2.0", "id": odd, "error": {"code": 1, "message": "x"}}, None, None) for odd in (8, None)),
        ({"jsonrpc": "1.0", "id": 1.5, "result": None}, None, None),
        ({"jsonrpc": "2.0", "method": "tools/call", "params": 7}, None, None),
        *((blank, None, None) for blank in (b"", b" \t ")),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\r', 0, 1),
        ({"jsonrpc": "2.0", "id": "", "method": "ping"}, 0, ""),
        (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}', 0, 2),
        (b'{"jsonrpc": "2.0", "id": 1.0, "method": "ping"}', 0, 1),
        (b'{"jsonrpc": "2.0", "id": 3, "method": "ping", "params": {"x": %s}}' % (b"7" * 1000), 0, 3),
        (b'{"jsonrpc": "2.0", "id": 4, "method": "ping", "params": {"x": %s}}' % (b"[" * 498 + b"]" * 498), 0, 4),
    ]
    answers_to(q, q.wire, *rows)
    q.wire.process.stdin.write(b'{"jsonrpc": "2.0", "id": "last", "method": "ping"}')
    q.equal(q.wire.end(), 0, "exit code of the server:")
    q.equal(q.wire.response("last").get("result"), {}, "the answer to a last line without a newline:")


@asks("025.13")
def batches(q):
    slow, note = called(2, "until [ -e go ]; do sleep 0.1; done; echo slow"), {"jsonrpc": "2.0", "method": CANCELLED}
    q.wire.send([requested(1, "ping"), note, 5, slow, [requested(3, "ping")], requested(4, "ping")])
    got = [q.wire.receive() for _ in range(4)]
    got = [(each.get("id"), (each.get("error") or {}).get("code")) if isinstance(each, dict) else each for each in got]
    q.equal(got, [(1, None), (None, -32600), (None, -32600), (4, None)], "id and code of what precedes the slow one:")
    (q.folder / "go").touch()
    q.equal(q.wire.finish(2).text, "slow\n")
    withdrawn = dict(note, params={"requestId": 6})
    q.wire.send([called(6, "echo ran; sleep 1"), withdrawn, requested(7, "ping")])  # in their order
    q.equal(q.wire.response(7).get("result"), {}, "the ping behind a call that is withdrawn:")
    q.wire.number = 7
    q.says("sleep 2; echo on", "on\n")
    q.that(6 not in q.wire.waiting, "no answer to a call that is withdrawn in its batch", "one")


@asks("025.14")
def long_lines(q):
    wire = q.wire
    start, end = b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "', b'"}}'
    fits = b"x" * (16777216 - len(start + end))
    rows = [
        (start + fits + end, 0, 1),
        (start + fits + b"x" + end, -32600, None),
        (start + fits + end + b"\r", -32600, None),
        (b"x" + fits + start + end, -32600, None),
    ]
    answers_to(q, wire, *rows)
    before = peak_of(wire.pid)
    long = b'{"jsonrpc": "2.0", "id": 2, "method": "' + b"x" * 60000000 + b'"}'
    answers_to(q, wire, (long, -32600, None), (requested(3, "ping"), 0, 3))
    q.below(peak_of(wire.pid) - before, 32 << 10, "KiB by which the server grows for a line of 60 MB")


@asks("025.15")
def a_client_that_stops_reading(q):
    wire = q.server(timeouts={"default": 2, "grace_s": 0.5})
    for n in range(4):
        wire.begin("echo $$ > shell-%d; seq 100000; exec sleep 600" % n)
    wire.ask("ping")
    before = peak_of(wire.pid)
    os.set_blocking(wire.process.stdin.fileno(), False)
    line, rest, sent = json.dumps(requested(1, "tools/list")).encode() + b"\n", b"", 0
    quiet = time.monotonic()
    until = quiet + 20
    # A server that reads on would keep the answers to 150,000 requests; a slow one those of 20 s.
    while time.monotonic() - quiet < 5 and sent < 12000000 and time.monotonic() < until:
        rest = rest or line * 500
        with contextlib.suppress(BlockingIOError):
            written = os.write(wire.process.stdin.fileno(), rest)
            rest, sent, quiet = rest[written:], sent + written, time.monotonic()
            continue
        time.sleep(0.05)
    reads_on = time.monotonic() >= until
    q.dead("shell-0", "shell-1", "shell-2", "shell-3")
    grown = peak_of(wire.pid) - before
    q.below(grown, 64 << 10, "KiB by which the server grows while %d bytes are sent and nothing is read" % sent)
    got = "it reads on after 20 s and %d bytes" % sent
    q.that(not reads_on, "the server stops reading while its answers wait", got, late=True)
    os.set_blocking(wire.process.stdin.fileno(), True)
    q.equal(wire.end(within_s=15), 0, "exit code of the server:")


@asks("025.16")
def the_wire_is_the_servers_own(q):
    ends = (q.wire.process.stdin, q.wire.process.stdout)
    pipes = {str(q.wire.errors), *(os.readlink("/proc/self/fd/%d" % end.fileno()) for end in ends)}

    def holders():
        found = set()
        for pid in processes():
            with contextlib.suppress(OSError):
                fds = "/proc/%d/fd/" % pid
                found |= {pid} if pipes & {os.readlink(fds + fd) for fd in os.listdir(fds)} else set()
        return found

    q.wire.ask("ping")
    before = holders()
    stray = "cat; echo stray > /proc/$PPID/fd/1; echo stray > /proc/$PPID/fd/2; "
    q.wire.begin(stray + "sleep 600 & echo $! > left; echo $$ > shell; sleep 600", "shell", mode="slow")
    if "jobs" in q.judge.levels:
        q.wire.call("sleep 600", mode="background")
    found = holders() - before
    time.sleep(0.5)  # a child of the judge, forked for another question, holds them until its exec
    q.equal(sorted(words_of(pid) for pid in found & holders()), [], "processes that hold a stream of the server:")
    q.says("cat; readlink /proc/self/fd/0", "/dev/null\n")
    q.equal(q.wire.errors.read_bytes(), b"", "what the server writes to its standard error:")


@asks("025.17")
def one_id_is_one_call(q):
    q.wire.send(called(7, "until [ -e go ]; do sleep 0.1; done; echo first"))
    second = json.dumps(called(7, "echo > second"))
    rows = (second.encode(), -32600, 7), (second.replace('"id": 7', '"id": 7.0').encode(), -32600, 7)
    answers_to(q, q.wire, *rows, (requested(7, "tools/call", name="bash", arguments=7), -32602, 7))
    q.wire.send(called(2**53, "sleep 1; echo another"))  # of doubles the next number is the same
    for other in ("7", 2**53 + 1, 2**53):
        q.wire.send(*[called(other, "echo another")] * (other != 2**53))
        q.equal(q.wire.finish(other).text, "another\n", "a call with the id %r beside others:" % other)
    (q.folder / "go").touch()
    q.equal(q.wire.finish(7).text, "first\n")
    q.that(not (q.folder / "second").exists(), "the second call is not run", "it was")
    q.wire.send(called(7, "echo third"))
    q.equal(q.wire.finish(7).text, "third\n", "a call with an id that was answered:")


@asks("025.17")
def the_id_of_a_withdrawn_call_is_in_use(q):
    wire = q.server(timeouts={"grace_s": 600})
    wire.send(called("x", DEAF.format("deaf")))
    q.number("deaf")
    wire.cancel("x")
    q.there("heard-deaf")
    answers_to(q, wire, (called("x", "echo on"), -32600, "x"))
    q.alive("deaf")
    wire.cancel("x")
    q.dead("deaf")

    def is_run():
        wire.send(called("x", "echo on"))
        return "result" in wire.response("x")

    q.that(eventually(is_run, patience(None)), "the id is free when that command has ended", "it is not")


@asks("025.19")
def text_alone(q):
    for value in (None, "", "0"):
        wire = q.server(env={"BASH_TOOL_STRUCTURED": value})
        q.that("outputSchema" not in wire.definition(), "a definition without outputSchema", "one with it")
        for command in ("echo hi", "exit 3"):
            keys = sorted(set(wire.call(command).result) - {"_meta", "resultType"})
            q.equal(keys, ["content", "isError"], "keys of the result:")
    code = q.server(env={"BASH_TOOL_STRUCTURED": "nonsense"}).ended()
    q.equal(code, 125, "exit code of a server with BASH_TOOL_STRUCTURED=nonsense:")


@asks("025.20")
def what_is_left_out_is_counted_in_bytes(q):
    for line in ("€", "é\\377x"):
        q.wire.progress.clear()
        q.wire.finish(q.wire.begin("yes \"$(printf '%s')\" | head -n 20000 > f; cat f; echo end" % line, token="t"))
        text = live_text(q.wire, "t")
        whole = (q.folder / "f").read_text(errors="replace") + "end\n"
        missing = len(whole.encode()) - len(re.sub(r"\n\[live output skipped: [^\n]*\n", "", text).encode())
        sizes = skipped(text)
        right = sizes and abs(sum(sizes) - missing) <= 52 * len(sizes)  # 4.7: rounded to a tenth of a KB
        q.that(right, "sizes that make up the %d bytes left out" % missing, sizes)


@asks("025.22")
def an_interrupt_cancels(q):
    wire = q.server(timeouts={"grace_s": 600})
    wire.call("sleep 600 >/dev/null 2>&1 & echo $! > left")
    withdrawn = wire.begin(DEAF.format("withdrawn"), "withdrawn", mode="slow")
    wire.cancel(withdrawn)
    wire.ask("ping")
    command = "echo begun; echo $$ > shell-%d; sleep 600"
    numbers = [wire.begin(command % n, "shell-%d" % n, mode="slow") for n in range(2)]
    wire.signal(signal.SIGINT)
    for n, number in enumerate(numbers):
        q.equal(wire.finish(number).text, "[command cancelled]\nbegun\n", "the answer after an interrupt:")
        q.dead("shell-%d" % n)
    q.equal(wire.call("echo on").text, "on\n", "the next call:")
    q.that(withdrawn not in wire.waiting, "no answer to a withdrawn call", wire.waiting)
    q.alive("left")
    timed = q.server(timeouts={"default": 1, "grace_s": 600})
    number = timed.begin(DEAF.format("timed"))
    q.there("heard-timed")
    timed.signal(signal.SIGINT)  # 2.1, step 7: the one that came first is told
    q.begins(timed.finish(number).text, timed_out(q, "1s"))
    deaf = wire.begin(DEAF.format("deaf"), "deaf", mode="slow")
    wire.signal(signal.SIGINT)
    q.there("heard-deaf")
    q.alive("deaf")
    wire.signal(signal.SIGINT)
    q.has(wire.finish(deaf).text, "[command cancelled]")
    q.dead("deaf")
    wire.signal(signal.SIGINT)  # no call is under way
    time.sleep(0.5)
    q.equal(wire.call("echo on").text, "on\n", "the next call:")


def leaves_running(q, wire):
    """Leaves a process and a job running; the files with their numbers."""
    wire.call("sleep 612 >/dev/null & echo $! > left")
    if "jobs" in q.judge.levels:
        wire.call("echo $$ > job; sleep 612", mode="background")
    return ["left", *["job"] * ("jobs" in q.judge.levels)]


@asks("029.1")
def closing_an_ephemeral_server_leaves_nothing(q):
    wire = q.server("--ephemeral")
    names = leaves_running(q, wire)
    wire.call("(setsid sh -c 'trap \"\" TERM; echo $$ > deaf; while :; do sleep 0.1; done' &)")
    names += ["deaf"]
    wire.call("echo on")
    q.alive(*names)
    q.equal(wire.end(), 0, "exit code of the server:")
    q.dead(*names, within_s=0.0)


@asks("029.2")
def a_killed_ephemeral_server_leaves_nothing(q):
    wire = q.server("--ephemeral")
    names = leaves_running(q, wire)
    q.alive(*names)
    wire.signal(signal.SIGKILL)
    q.dead(*names, within_s=2.5)
