"""Real frameworks and SDKs, each in its own loop; the model is played."""

import contextlib
import dataclasses
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests.integration.support import SHORT, SHORT_MODES, environment, say, sleepers
from tests.processes import eventually
from tests.support import BashTool, MODES, PROFILES, TOOL, bash_tool
from tests.test_recipes import block


STEPS = (  # what the model asks for, what it reads, whether that is an error; the first two in one turn
    ({"command": "echo fine; echo 'and \"quoted\", \u00e9' >&2"}, r'fine\nand "quoted", \u00e9\n', False),
    ({"command": "echo some; exit 3"}, r"\[command failed: exit code 3\]\nsome\n", True),
    (
        {"command": "echo before; sleep 60"},
        r"\[command timed out after 1s\]\n\[for longer .*\]\n(?:\[this command's .* not kept\]\n)?before\n",
        True,
    ),
    (
        {"command": "ls", "mode": "fast"},
        r'\[system error: invalid arguments: "mode" must be one of .*, got "fast"\]\n?',
        True,
    ),
    (
        {"command": "echo up; sleep 600", "mode": "background"},
        r"<pid>(\d+)</pid>\n<output_file>/.+</output_file>\n<reminder>To stop: kill -9 -\1</reminder>\n?",
        False,
    ),
)


class Script:
    """A model that asks for STEPS, then says "done". `told` is what it read: call -> (content, error flag or None)."""

    def __init__(self, every_key=False):
        more = {"mode": None} if every_key else {}
        asked = [("call_%d" % n, {**more, **arguments}) for n, (arguments, _, _) in enumerate(STEPS)]
        self.turns, self.told = [asked[:2], *([one] for one in asked[2:])], {}

    def turn(self, told):
        """The calls of the next turn, as (number, arguments); none when it is done."""
        so_far = len(STEPS) - sum(map(len, self.turns))
        assert set(told) == {"call_%d" % n for n in range(so_far)}  # all of one turn come at once
        self.told = dict(told)
        return self.turns.pop(0) if self.turns else []

    def check(self, results, title):
        """What the model read is what it had to, and word for word what the tool said, where `results` hold that."""
        assert not self.turns and len(self.told) == len(STEPS) == len(results or STEPS)
        say("\n== " + title)
        for n, (arguments, pattern, is_error) in enumerate(STEPS):
            content, flag = self.told["call_%d" % n]
            flagged, text = "" if flag is None else "   is_error: %s" % flag, shown_text(content)
            say("> %s%s\n%s" % (json.dumps(arguments), flagged, str(content).rstrip("\n")))
            assert re.fullmatch(pattern, text) and flag in (None, is_error), (arguments, text, flag)
            result = (results or {}).get(arguments["command"])
            assert results is None or (text, is_error) == (result.text, result.is_error)


def shown_text(content):
    """The text of a result: a string, or a list of texts."""
    return "".join(part["text"] for part in content) if isinstance(content, list) else content


def versions(*packages):
    import importlib.metadata

    return ", ".join("%s %s" % (name, importlib.metadata.version(name)) for name in packages)


@contextlib.contextmanager
def quick_tool(folder, monkeypatch=None, carry=False):
    """A quick tool and what it answered, by command; in place of BashTool if asked for. Ends the jobs that it
    started."""
    results, quick = {}, {"profile": SHORT_MODES, "state_dir": folder}

    class Recorded(BashTool):
        def call(self, arguments, **more):
            result = super().call(arguments, **more)
            results[(json.loads(arguments) if isinstance(arguments, str) else arguments)["command"]] = result
            return result

    try:
        if monkeypatch is not None:
            monkeypatch.setattr(bash_tool, "BashTool", functools.partial(Recorded, "/", **quick))
        with Recorded("/", carry=carry, **quick) as bash:
            yield bash, results
    finally:
        for job in BashTool("/", state_dir=folder).jobs():
            assert job.kill()


@contextlib.contextmanager
def model_server(answer):
    """A loopback server in place of a vendor's: its URL, and the bodies of the requests, each answered by
    `answer(body)`."""
    import http.server

    bodies = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            data = json.dumps(answer(bodies[-1])).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}).start()
        try:
            yield "http://127.0.0.1:%d" % server.server_address[1], bodies
        finally:
            server.shutdown()


def as_message(script, body):
    """What Anthropic's Messages API would answer."""
    calls = script.turn(
        {
            block["tool_use_id"]: (block["content"], block.get("is_error", False))
            for message in body["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_result"
        }
    )
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
        "stop_reason": "tool_use" if calls else "end_turn",
        "content": [
            {"type": "tool_use", "id": number, "name": "bash", "input": arguments} for number, arguments in calls
        ]
        or [{"type": "text", "text": "done"}],
    }


def as_response(script, body):
    """What OpenAI's Responses API would answer."""
    calls = script.turn(
        {
            item["call_id"]: (item["output"], None)
            for item in body["input"]
            if item.get("type") == "function_call_output"
        }
    )
    said = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "done", "annotations": []}],
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": body["model"],
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "output": [
            {
                "type": "function_call",
                "id": "fc_" + number,
                "call_id": number,
                "name": "bash",
                "status": "completed",
                "arguments": json.dumps(arguments),
            }
            for number, arguments in calls
        ]
        or [said],
    }


def as_completion(script, body):
    """What OpenAI's Chat Completions API would answer."""
    calls = script.turn(
        {
            message["tool_call_id"]: (message["content"], None)
            for message in body["messages"]
            if message["role"] == "tool"
        }
    )
    message = {"role": "assistant", "content": None if calls else "done"}
    if calls:
        message["tool_calls"] = [
            {"id": number, "type": "function", "function": {"name": "bash", "arguments": json.dumps(arguments)}}
            for number, arguments in calls
        ]
    return {
        "id": "chat_1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message}],
    }


def as_cut_completion(script, body):
    answer = as_completion(script, body)
    answer["choices"][0]["finish_reason"] = "length"
    return answer


def admitted(kind, value):
    """Whether this TypedDict of an SDK knows every key of the value. Raises if it refuses the value."""
    import pydantic

    pydantic.TypeAdapter(kind).validate_python(value)
    return set(value) <= set(getattr(kind, "__annotations__", value))  # a union of them has none


def recipe(word, name="converse", folder=None):
    """A function of the one recipe that holds this word. With a folder, its server is quick and has its files there."""
    program = block(word) if folder is None else with_places(block(word), folder)
    names = {}
    exec(program, names)
    return names[name]


def with_places(program, folder):
    """A recipe over MCP with the places filled in: a Python that starts the server with short limits."""
    python = Path(folder, "quick python")
    limits = " ".join("%s=%s" % limit for limit in SHORT.items())
    words = "BASH_TOOL_SET='%s' exec '%s' \"$@\" --state-dir '%s'" % (limits, sys.executable, folder)
    python.write_text("#!/bin/sh\n%s\n" % words)
    python.chmod(0o755)
    for place, real in (("/usr/bin/python3", python), ("/PATH/TO/bash_tool.py", TOOL), ("/PATH/TO/REPO", "/")):
        assert program.count(place) == 1
        program = program.replace(place, str(real))
    return program


@pytest.mark.interop
@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_interop_definitions(profile):
    """The SDKs' own types take the definition of each style, whole, for each profile, and a strict one is strict."""
    import jsonschema
    import mcp.types
    from anthropic.types import ToolParam
    from openai.types.chat import ChatCompletionFunctionToolParam
    from openai.types.responses import FunctionToolParam
    from openai.types.shared_params import FunctionDefinition

    bash = BashTool("/", profile=profile)
    one, flat, tool = bash.definition("anthropic"), bash.definition("openai"), bash.definition("mcp")
    assert admitted(ToolParam, one) and admitted(FunctionToolParam, flat)
    nested = {"type": "function", "function": {key: value for key, value in flat.items() if key != "type"}}
    assert admitted(ChatCompletionFunctionToolParam, nested) and admitted(FunctionDefinition, nested["function"])
    dumped = mcp.types.Tool.model_validate(tool).model_dump(by_alias=True, exclude_none=True, mode="json")
    assert dumped == json.loads(json.dumps(tool))
    for schema in (one["input_schema"], flat["parameters"], tool["inputSchema"], dict(bash_tool.OUTPUT_SCHEMA)):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
    strict = flat["parameters"]
    assert (
        flat["strict"] is True
        and strict["additionalProperties"] is False
        and strict["required"] == list(strict["properties"])
    )


@pytest.mark.interop
def test_interop_anthropic(tmp_path, monkeypatch):
    """The recipe for Anthropic's SDK: the API gets our definition and our texts, flagged, in messages of its own
    types."""
    import anthropic
    from anthropic.types import MessageParam, ToolParam, ToolResultBlockParam, ToolUseBlockParam

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    script = Script()
    answer = functools.partial(as_message, script)
    with quick_tool(tmp_path, monkeypatch) as (bash, results), model_server(answer) as (url, bodies):
        with anthropic.Anthropic(api_key="none", base_url=url) as client:
            assert recipe("client.messages")(client, "the-model", "go") == "done"
        for body in bodies:
            assert body["tools"] == [bash.definition()] and admitted(ToolParam, body["tools"][0])
        for message in bodies[-1]["messages"]:
            assert admitted(MessageParam, message)
            for block in message["content"] if isinstance(message["content"], list) else []:
                assert admitted(
                    {"tool_use": ToolUseBlockParam, "tool_result": ToolResultBlockParam}[block["type"]], block
                )
        script.check(results, "anthropic's Messages, as in the recipe: " + versions("anthropic"))


@pytest.mark.interop
def test_interop_openai_responses(tmp_path, monkeypatch):
    """The recipe for OpenAI's SDK: the Responses API gets our strict definition and our texts in items of its own
    types."""
    import openai
    from openai.types.responses import FunctionToolParam, ResponseFunctionToolCallParam
    from openai.types.responses.response_input_item_param import FunctionCallOutput

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    script = Script(every_key=True)
    answer = functools.partial(as_response, script)
    with quick_tool(tmp_path, monkeypatch) as (bash, results), model_server(answer) as (url, bodies):
        with openai.OpenAI(api_key="none", base_url=url) as client:
            assert recipe("function_call_output")(client, "the-model", "go") == "done"
        for body in bodies:
            assert body["tools"] == [bash.definition("openai")] and admitted(FunctionToolParam, body["tools"][0])
        kinds = {"function_call": ResponseFunctionToolCallParam, "function_call_output": FunctionCallOutput}
        assert all(admitted(kinds[item["type"]], item) for item in bodies[-1]["input"][1:])
        script.check(results, "openai's Responses, as in the recipe: " + versions("openai"))


@pytest.mark.interop
def test_interop_recipes_run_no_half_calls(tmp_path, monkeypatch):
    """No recipe runs a call that the limit on the answer cut short."""
    import anthropic
    import openai

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for kind, answer, change, word in (
        (anthropic.Anthropic, as_message, {"stop_reason": "max_tokens"}, "client.messages"),
        (openai.OpenAI, as_response, {"status": "incomplete"}, "function_call_output"),
        (openai.OpenAI, as_cut_completion, {}, '"openai-chat"'),
    ):
        cut_short = functools.partial(lambda answer, change, body: {**answer(Script(), body), **change}, answer, change)
        with quick_tool(tmp_path, monkeypatch) as (_, results), model_server(cut_short) as (url, bodies):
            with kind(api_key="none", base_url=url) as client:
                assert recipe(word)(client, "the-model", "go") == "" and len(bodies) == 1 and not results


NOT_KEPT = r"\[command timed out after 1s\]\n\[this command's working directory [^\n]* not kept\]\nbefore\n"
CARRIED_STEPS = (  # what a model asks of a tool that carries state, and what it reads; where others fail
    ({"command": "mkdir -p sub; cd sub; export GREETING='good day'"}, r"\[no output\]\n", False),
    ({"command": "basename $PWD; echo $GREETING; exit 3"}, r"\[command failed: exit code 3\]\nsub\ngood day\n", True),
    ({"command": "echo before; cd /; sleep 60"}, NOT_KEPT, True),  # partial output
    ({"command": "setsid sleep 600 >/dev/null 2>&1 & echo up"}, r"\[still running: pid (\d+) .*\]\nup\n", False),
    ({"command": "setsid -w true; basename $PWD; echo $GREETING"}, r"sub\ngood day\n", False),  # nothing was lost
    ({"restart": True}, "the working directory and the exported variables are those of the beginning again", False),
    ({"command": "ls -d sub; echo ${GREETING-unset}"}, r"sub\nunset\n", False),
)


class Turns:
    """A model that asks for these steps one after the other, then says "done"; `told` is what it read of each."""

    def __init__(self, steps):
        self.steps, self.told = [arguments for arguments, *_ in steps], {}

    def turn(self, told):
        self.told.update(told)  # some SDKs send the news alone
        so_far = len(self.told)
        return [("call_%d" % so_far, self.steps[so_far])] if so_far < len(self.steps) else []

    def check(self, steps, title):
        say("\n== " + title)
        assert len(self.told) == len(steps)
        for n, (arguments, pattern, is_error) in enumerate(steps):
            content, flag = self.told["call_%d" % n]
            text = shown_text(content)
            say("> %s   is_error: %s\n%s" % (json.dumps(arguments), flag, text.rstrip("\n")))
            assert re.fullmatch(pattern, text) and flag == is_error, (arguments, text, flag)


@contextlib.contextmanager
def carrying_tool(folder, profile):
    """A quick tool that carries state, in a folder; ends what is left."""
    with BashTool(folder, profile=profile, carry=True, state_dir=Path(folder, "state")) as bash:
        yield bash
        for job in bash.jobs():
            assert job.kill()


@pytest.mark.interop
def test_interop_anthropic_native(tmp_path, monkeypatch):
    """Anthropic's own tool runner has the recipe's `bash_20250124`: state goes on, a timeout keeps the output and the
    state, a daemon does not hold the session, and `restart` begins anew."""
    import anthropic
    from anthropic.types import ToolBash20250124Param
    from anthropic.types.beta import BetaToolBash20250124Param

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    turns, row = Turns(CARRIED_STEPS), dataclasses.replace(MODES, timeouts_s={"default": 1.0}, grace_s=0.5)
    answer = functools.partial(as_message, turns)
    with carrying_tool(tmp_path, row) as bash, model_server(answer) as (url, bodies):
        tool = recipe("anthropic-native", "Bash")(bash)
        assert admitted(ToolBash20250124Param, tool.to_dict()) and admitted(BetaToolBash20250124Param, tool.to_dict())
        with anthropic.Anthropic(api_key="none", base_url=url) as client:
            runner = client.beta.messages.tool_runner(
                model="the-model", max_tokens=1000, tools=[tool], messages=[{"role": "user", "content": "go"}]
            )
            assert runner.until_done().content[0].text == "done"
        assert bodies[0]["tools"] == [{"type": "bash_20250124", "name": "bash"}]
    turns.check(CARRIED_STEPS, "anthropic's tool runner, bash_20250124: " + versions("anthropic"))


@contextlib.contextmanager
def session_server(steps):
    """A loopback server in place of a session of managed agents: its URL, and a dict that takes what each call was
    told. A call is sent when the one before it has its result."""
    import http.server

    told, arrived = {}, threading.Semaphore(0)

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self, kind, data):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self):
            if "/events/stream" not in self.path:
                return self.answer("application/json", b'{"data": [], "next_page": null}')
            self.answer("text/event-stream", b"")
            for n, (arguments, *_) in enumerate(steps):
                self.event("agent.tool_use", id="call_%d" % n, name="bash", input=arguments)
                assert arrived.acquire(timeout=30)
            self.event("session.status_terminated", id="end")

        def event(self, kind, **fields):
            data = json.dumps({"type": kind, "processed_at": "2026-11-01T00:00:00Z", **fields})
            self.wfile.write(("event: %s\ndata: %s\n\n" % (kind, data)).encode())
            self.wfile.flush()

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            for event in body["events"]:
                told[event["tool_use_id"]] = (event["content"], event.get("is_error", False))
                arrived.release()
            self.answer("application/json", b'{"data": []}')

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}).start()
        try:
            yield "http://127.0.0.1:%d" % server.server_address[1], told
        finally:
            server.shutdown()


@pytest.mark.interop
def test_interop_anthropic_worker(tmp_path, monkeypatch):
    """The same recipe is a tool of a worker for managed agents, in place of the SDK's own bash: the runner of the
    worker's sessions calls it, also with a timeout of the model's own."""
    import anthropic
    import asyncio

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    short = (
        {"command": "echo some; sleep 60", "timeout_ms": 300},
        NOT_KEPT.replace("1s", "0.3s").replace("before", "some"),
        True,
    )
    steps, row = (*CARRIED_STEPS, short), dataclasses.replace(MODES, timeouts_s={"default": 1.0}, grace_s=0.5)

    async def work(bash, url):
        tool = recipe("anthropic-native", "Bash")(bash)
        async with anthropic.AsyncAnthropic(api_key="none", base_url=url) as client:
            return [call async for call in client.beta.sessions.events.tool_runner("session_1", tools=[tool])]

    with carrying_tool(tmp_path, row) as bash, session_server(steps) as (url, told):
        calls = asyncio.run(asyncio.wait_for(work(bash, url), 60))
        assert [call.posted for call in calls] == [True] * len(steps)
    turns = Turns(steps)
    turns.told = told
    turns.check(steps, "anthropic's session runner, as in a worker: " + versions("anthropic"))


SHELL_STEPS = (  # the actions of shell calls, and what each command gives: stdout, what stderr begins with, outcome
    (
        {"commands": ["cd /usr; pwd", "pwd; echo oops >&2; exit 3", "kill -9 $$"]},
        [
            ("/usr\n", "", {"type": "exit", "exit_code": 0}),
            ("/usr\n", "oops\n", {"type": "exit", "exit_code": 3}),
            ("", "[this command's working directory", {"type": "exit", "exit_code": 137}),
        ],
    ),
    (
        {"commands": ["echo before; sleep 60", "pwd"], "timeout_ms": 500, "max_output_length": 100},
        [("before\n", "", {"type": "timeout"}), ("/usr\n", "", {"type": "exit", "exit_code": 0})],
    ),
    (
        {"commands": ["seq 9; echo no >&2"], "timeout_ms": None, "max_output_length": 5},
        [("1\n2\n3", "", {"type": "exit", "exit_code": 0})],
    ),
    (
        {"commands": ["cd $OLDPWD; sleep 600 >/dev/null 2>&1 & echo $! >left; echo up", "kill $(cat left)", "a\0b"]},
        [
            ("up\n", "[still running: pid ", {"type": "exit", "exit_code": 0}),
            ("", "", {"type": "exit", "exit_code": 0}),
            ("", "invalid arguments: ", {"type": "exit", "exit_code": 125}),
        ],
    ),
)


def as_shell_response(turns, body):
    """What the Responses API would answer with calls of `shell`."""
    answer = as_response(turns, {"input": [], **body})
    for item in answer["output"]:
        if item["type"] == "function_call":
            action = json.loads(item.pop("arguments"))
            item.update(
                type="shell_call",
                id="sh_" + item["call_id"],
                action={"timeout_ms": None, "max_output_length": None, **action},
            )
            del item["name"]
    return answer


class ShellTurns(Turns):
    def turn(self, told):
        return super().turn({"call_%d" % n: None for n in range(self.answered)})

    answered = 0


@pytest.mark.interop
@pytest.mark.parametrize("way", ["responses", "agents"])
def test_interop_openai_native(way, tmp_path, monkeypatch):
    """The recipe for OpenAI's `shell`, as a loop over the Responses API and with ShellTool of the Agents SDK: each command
    has its output and its end, in items of the SDK's types."""
    import agents
    import asyncio
    import openai
    from openai.types.responses import FunctionShellToolParam
    from openai.types.responses.response_input_item_param import ShellCallOutput

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    turns, outputs = ShellTurns(SHELL_STEPS), []

    def answer(body):
        items = body["input"] if isinstance(body["input"], list) else []
        outputs[:] = [item for item in items if item.get("type") == "shell_call_output"]
        turns.answered = len(outputs)
        return as_shell_response(turns, body)

    quick = functools.partial(BashTool, tmp_path, state_dir=tmp_path / "state")
    monkeypatch.setattr(bash_tool, "BashTool", quick)
    (tmp_path / "shell_calls.py").write_text(block("def answer_shell_call"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shell_calls", raising=False)

    async def with_agents(url):
        async with openai.AsyncOpenAI(api_key="none", base_url=url) as client:
            return await recipe("ShellTool(", "ask")(agents.OpenAIResponsesModel("the-model", client), "go")

    def with_responses(url):
        with openai.OpenAI(api_key="none", base_url=url) as client:
            return recipe("def answer_shell_call")(client, "the-model", "go")

    with model_server(answer) as (url, bodies):
        given = quick(profile="streams", carry=True).definition("openai-native")
        assert admitted(FunctionShellToolParam, given)
        done = asyncio.run(with_agents(url)) if way == "agents" else with_responses(url)
        assert done == "done" and all(body["tools"] == [given] for body in bodies)
    say("\n== openai's shell, %s: %s" % (way, versions("openai", "openai-agents")))
    assert len(outputs) == len(SHELL_STEPS)
    for (action, wanted), item in zip(SHELL_STEPS, outputs):
        say("> %s\n%s" % (json.dumps(action), json.dumps(item["output"])))
        for each, (stdout, begin, outcome) in zip(item["output"], wanted):
            assert (each["stdout"], each["outcome"]) == (stdout, outcome)
            assert each["stderr"].startswith(begin) and bool(each["stderr"]) == bool(begin)
        assert len(item["output"]) == len(wanted) and item.get("max_output_length") == action.get("max_output_length")
        assert way == "agents" or admitted(ShellCallOutput, item)


@pytest.mark.interop
def test_interop_openai_chat(tmp_path, monkeypatch):
    """The recipe for Chat Completions, where the definition is nested one deeper and each result is a message."""
    import openai
    from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionToolMessageParam

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    script = Script(every_key=True)
    answer = functools.partial(as_completion, script)
    with quick_tool(tmp_path, monkeypatch) as (bash, results), model_server(answer) as (url, bodies):
        with openai.OpenAI(api_key="none", base_url=url) as client:
            assert recipe('"openai-chat"')(client, "the-model", "go") == "done"
        assert all(body["tools"] == [bash.definition("openai-chat")] for body in bodies)
        assert admitted(ChatCompletionFunctionToolParam, bodies[0]["tools"][0])
        assert all(
            admitted(ChatCompletionToolMessageParam, one) for one in bodies[-1]["messages"] if one["role"] == "tool"
        )
        script.check(results, "openai's Chat Completions, as in the recipe: " + versions("openai"))


@pytest.mark.interop
@pytest.mark.parametrize("way", ["function", "mcp"])
def test_interop_openai_agents(way, tmp_path, monkeypatch):
    """The recipes for the Agents SDK hand the model our strict definition as it is, or our tool of MCP, and our texts."""
    import agents
    import asyncio
    import openai

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    agents.set_tracing_disabled(True)
    script = Script(every_key=way == "function")
    word, folder = {"function": ("FunctionTool(", None), "mcp": ("MCPServerStdio(", tmp_path)}[way]

    async def converse(url):
        async with openai.AsyncOpenAI(api_key="none", base_url=url) as client:
            return await recipe(word, "ask", folder)(agents.OpenAIResponsesModel("the-model", client), "go")

    answer = functools.partial(as_response, script)
    with quick_tool(tmp_path, monkeypatch, carry=True) as (bash, results), model_server(answer) as (url, bodies):
        assert asyncio.run(converse(url)) == "done"
        one = bash.definition("openai")
        if way == "mcp":
            one.update(parameters=bash.definition("mcp")["inputSchema"], strict=False)
        assert all(body["tools"] == [one] for body in bodies)
        script.check(results if way == "function" else None, "openai-agents, %s: %s" % (way, versions("openai-agents")))


LANGCHAIN_MODEL = """
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool

class Model(BaseChatModel):
    _llm_type = "script"

    def bind_tools(self, tools, **more):
        bound.extend(map(convert_to_openai_tool, tools))
        return self

    def _generate(self, messages, stop=None, run_manager=None, **more):
        told = [message for message in messages if isinstance(message, ToolMessage)]
        calls = script.turn({each.tool_call_id: (each.content, each.status == "error") for each in told})
        asked = [{"id": number, "name": "bash", "args": arguments} for number, arguments in calls]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if calls else "done", tool_calls=asked))])
"""


@pytest.mark.interop
def test_interop_langchain(tmp_path, monkeypatch):
    """The recipe for LangChain, whose agent is a graph of LangGraph: our schema as it is, our texts, and the status of an
    error."""
    import asyncio

    names = {"script": Script(), "bound": []}
    exec(LANGCHAIN_MODEL, names)
    with quick_tool(tmp_path, monkeypatch, carry=True) as (bash, results):
        assert asyncio.run(recipe("StructuredTool", "ask")(names["Model"](), "go")) == "done"
        given = bash.definition()
        one = {"name": given["name"], "description": given["description"], "parameters": given["input_schema"]}
        assert names["bound"] and all(tool["function"] == one for tool in names["bound"])
        names["script"].check(results, "langchain: " + versions("langchain", "langgraph"))


OF_LANGCHAIN = """
import asyncio, json, os, sys
sys.path.insert(0, os.environ["TESTS"])
from tests.integration.test_frameworks import LANGCHAIN_MODEL, Script
script, bound = Script(), []
exec(LANGCHAIN_MODEL)
exec(open("recipe").read())
assert asyncio.run(ask(Model(), "go")) == "done"
script.check(None, "langchain-mcp-adapters")
print(json.dumps([tool["function"] for tool in bound]))
"""


@pytest.mark.interop
def test_interop_langchain_over_mcp(tmp_path):
    """The recipe for LangChain over MCP, in an environment of its own: one server for all calls, and errors as such."""
    (tmp_path / "recipe").write_text(with_places(block("MultiServerMCPClient("), tmp_path))
    words = [str(environment("mcp1")), "-c", OF_LANGCHAIN]
    env = dict(os.environ, TESTS=str(TOOL.parent))
    done = subprocess.run(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, timeout=120)
    say(done.stdout.decode())
    bound = json.loads(done.stdout.splitlines()[-1])
    given = BashTool("/", profile=SHORT_MODES, carry=True).definition()
    assert bound and all(tool["description"] == given["description"] for tool in bound)


@pytest.mark.interop
@pytest.mark.parametrize("way", ["function", "wire", "mcp"])
def test_interop_pydantic_ai(way, tmp_path, monkeypatch):
    """The recipes for Pydantic AI, its tool made from our schema or found over MCP: our texts, and errors as such, down to
    Anthropic's wire."""
    import anthropic
    import asyncio
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    script, seen = Script(), []
    word, folder = ("MCPToolset(", tmp_path) if way == "mcp" else ("Tool.from_schema", None)

    def play(messages, info):
        seen.extend((tool.name, tool.description, tool.parameters_json_schema) for tool in info.function_tools)
        parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        calls = script.turn({part.tool_call_id: (part.content, part.outcome != "success") for part in parts})
        return ModelResponse(
            [ToolCallPart("bash", arguments, number) for number, arguments in calls] or [TextPart("done")]
        )

    answer = functools.partial(as_message, script)
    with quick_tool(tmp_path, monkeypatch, carry=True) as (bash, results), model_server(answer) as (url, bodies):
        given, model = bash.definition(), FunctionModel(play)
        if way == "wire":
            client = anthropic.AsyncAnthropic(api_key="none", base_url=url)
            provider = AnthropicProvider(anthropic_client=client)
            model = AnthropicModel("the-model", provider=provider, settings={"max_tokens": 1000})  # more is streamed
        assert asyncio.run(recipe(word, "ask", folder)(model, "go")) == "done"
        keys = ("name", "description", "input_schema")
        seen += [tuple(tool[key] for key in keys) for body in bodies for tool in body["tools"]]
        assert seen and all(one == tuple(given[key] for key in keys) for one in seen)
        script.check(results if way != "mcp" else None, "pydantic-ai, %s: %s" % (way, versions("pydantic-ai-slim")))


HARBOR = """
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import SimpleNamespace

@dataclass
class ExecResult:
    return_code: int
    stdout: str = None
    stderr: str = None

class BaseEnvironment(ABC):
    default_user, persistent = None, {"KEPT": "by the task"}

    def __init__(self, folder):
        self.task_env_config = SimpleNamespace(workdir=folder)
        self._validate_definition()

    def _resolve_user(self, user):
        return self.default_user if user is None else user

    def _merge_env(self, env):
        return {**self.persistent, **(env or {})}

    def _mount_targets(self, *, writable_only=False):
        return [self.task_env_config.workdir + "/logs"]

    async def ensure_dirs(self, dirs):
        return await self.exec("mkdir -p " + " ".join(dirs), user="root")

    async def _upload_environment_dir_after_start(self):
        pass

for name in "type _validate_definition start stop upload_file upload_dir download_file download_dir exec".split():
    setattr(BaseEnvironment, name, abstractmethod(lambda self: None))
BaseEnvironment.__abstractmethods__ = frozenset(
    "type _validate_definition start stop upload_file upload_dir download_file download_dir exec".split()
)
"""  # harbor.environments.base of 0.26.0, as far as the recipe meets it: the package takes 377 MB and CPython 3.12


@pytest.mark.interop
def test_interop_harbor(monkeypatch):
    """The recipe for Harbor: the streams apart, the code, directory, variables, user and timeout of the call, and files; a
    missing directory and an unknown user are results; a timeout and a cancelled task leave nothing behind, and none of
    them is the agent's own TimeoutError."""
    import asyncio
    import types

    for name in ("harbor", "harbor.environments", "harbor.environments.base", "machine"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    exec(HARBOR, vars(sys.modules["harbor.environments.base"]))
    exec(block("class Machine"), vars(sys.modules["machine"]))
    names, seconds = {}, "9%d.25" % os.getpid()
    exec(block("harbor"), names)
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    (folder / "sub").mkdir()
    folder.chmod(0o755)  # another user enters it
    environment = names["Environment"](str(folder))

    async def converse():
        await environment.start(False)
        result = await environment.exec(
            "pwd; echo $MY_TOKEN $KEPT; echo oh >&2; exit 3", "sub", {"MY_TOKEN": "of it"}, 60
        )
        told = (result.stdout, result.stderr, result.return_code)
        assert told == ("%s/sub\nof it by the task\n" % folder, "oh\n", 3) and (folder / "logs").is_dir()
        assert (await environment.exec("kill -9 $$")).return_code == 137
        missing, unknown = await environment.exec("touch made", "no-such"), await environment.exec(":", user="no-such")
        assert (missing.return_code, unknown.return_code) == (126, 126)
        assert "no-such" in missing.stderr and "no-such" in unknown.stderr and not (folder / "made").exists()
        with pytest.raises(RuntimeError, match="partial"):
            await environment.exec("echo partial; sleep %s & sleep %s" % (seconds, seconds), timeout_sec=1)
        assert not sleepers(seconds)
        (folder / "from" / "deep").mkdir(parents=True)
        (folder / "from" / "deep" / "it's").write_bytes(b"\xff")
        os.mkfifo(folder / "from" / "a fifo")
        await environment.upload_dir(folder / "from", str(folder / "to there"))
        await environment.upload_dir(folder / "from", str(folder / "to there"))
        await environment.download_file(str(folder / "to there/deep/it's"), folder / "new" / "place")
        assert (folder / "new" / "place").read_bytes() == b"\xff" and not (folder / "to there" / "from").exists()
        with pytest.raises(subprocess.CalledProcessError, match="non-zero"):
            await environment.download_dir(str(folder / "not there"), folder / "x")
        task = asyncio.create_task(environment.exec("sleep %s" % seconds))
        while not sleepers(seconds):
            await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert eventually(lambda: not sleepers(seconds))
        if os.getuid() == 0:
            for user, name in (("nobody", "nobody"), (65534, "nobody"), ("65534", "nobody"), (4242, "4242")):
                result = await environment.exec("id -un 2>/dev/null || id -u; sleep 0.1", user=user)
                assert (result.stdout.split()[-1], result.return_code) == (name, 0)
            environment.default_user = "nobody"
            assert (await environment.exec("id -un")).stdout == "nobody\n"
            with pytest.raises(RuntimeError):
                await environment.exec("sleep " + seconds, timeout_sec=1)
            assert not sleepers(seconds)
        await environment.stop(True)

    asyncio.run(converse())
    shutil.rmtree(folder)


INSPECT = """
import pytest
from inspect_ai.util._sandbox.self_check import *
from recipe import Sandbox

@pytest.fixture
async def sandbox_env():
    machines = await Sandbox.sample_init("task", None, {})
    yield machines["default"]
    await Sandbox.sample_cleanup("task", None, machines, False)

async def test_words_as_they_are(sandbox_env):
    assert "A=b" not in (await sandbox_env.exec(["env"])).stdout
    assert (await sandbox_env.exec(["A=b", "env"])).returncode == 127
    words = ["printf", "%s|", "two  words", "$HOME", "*", "it's", "", "new\\nline"]
    assert (await sandbox_env.exec(words)).stdout == "|".join(words[2:]) + "|"
    with pytest.raises(Exception, match="10 MiB") as refused:
        await sandbox_env.exec(["head", "-c", "11000000", "/dev/zero"])
    assert len(refused.value.truncated_output) > 10 * 2**20
    with pytest.raises(TimeoutError) as late:
        await sandbox_env.exec(["sh", "-c", "echo partial; sleep 9"], timeout=1)
    assert "partial" in late.value.truncated_output
    done = await sandbox_env.exec(["bash", "-c", "echo work; /etc/passwd"])
    assert (done.returncode, done.stdout) == (126, "work\\n") and "Permission denied" in done.stderr
    with pytest.raises(PermissionError):
        await sandbox_env.exec(["/etc/passwd"])
    with pytest.raises(ValueError, match="embedded null byte"):         # in these words Inspect tells the model
        await sandbox_env.exec(["bash", "-c", "echo \\0x"])
    with pytest.raises(FileNotFoundError):
        await sandbox_env.exec(["true"], cwd="/nope")
    assert not (await sandbox_env.exec(["true"], user="no-such")).success
"""
LANGCHAIN = """
import pytest, subprocess, tempfile
from langchain_tests.integration_tests.sandboxes import SandboxIntegrationTests
from recipe import ExecuteResponse, Sandbox

class Plain(Sandbox):
    def execute(self, command, *, timeout=None):
        done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout)
        return ExecuteResponse(done.stdout.decode(errors="replace"), done.returncode, False)

class TestSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self, request):
        sandbox = (Plain if %r else Sandbox)(tempfile.mkdtemp())
        yield sandbox
        sandbox.bash.close()
"""
AS_ROOT = "read_file_not_allowed write_text_file_without_permissions write_binary_file_without_permissions".split()


def suite(name, folder, recipes, program, *options):
    """Runs a suite of tests in its environment, with recipes as modules; returns the names of what failed."""
    for module, text in {**recipes, "test_suite": program}.items():
        (folder / (module + ".py")).write_text(text)
    shutil.copy(str(TOOL), str(folder))
    words = [str(environment(name)), "-m", "pytest", "-q", "-rf", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider"]
    env = {**os.environ, "TMPDIR": "/tmp"}  # a test's own is for root alone: another user has no way in
    done = subprocess.run([*words, "test_suite.py", *options], cwd=folder, env=env, stdout=subprocess.PIPE)
    said = done.stdout.decode()
    say(said.splitlines()[-1])
    assert re.search(r"(?m)^\d+ failed|^\d+ passed", said), said
    return set(re.findall(r"(?m)^FAILED \S*::test_(\w+)", said))


@pytest.mark.interop
def test_interop_inspect(tmp_path):
    """Inspect's own checks of a sandbox, all but those that root rules out."""
    recipes = {"machine": block("class Machine"), "recipe": block("sandboxenv(")}
    failed = suite("inspect", tmp_path, recipes, INSPECT)
    assert failed == (set(AS_ROOT) if os.getuid() == 0 else failed & {"exec_as_user"})


@pytest.mark.interop
def test_interop_langchain_sandbox(tmp_path):
    """LangChain's tests of a sandbox, all but those that fail with plain `subprocess` too."""
    recipes = {"recipe": block("deepagents")}
    failed = suite("langchain", tmp_path, recipes, LANGCHAIN % False)
    if failed:
        those = " or ".join("test_%s" % name for name in failed)
        assert failed <= suite("langchain", tmp_path, recipes, LANGCHAIN % True, "-k", those)
