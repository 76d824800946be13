"""Real clients of the Model Context Protocol, and real links."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.integration.support import SHORT, SHORT_ENV, SHORT_MODES, environment, say, sleepers
from tests.processes import alive, eventually, number_in, of_proc, processes
from tests.support import BashTool, Client, TOOL, bash_tool, recipes


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_interop_python_client(mode):
    """The official Python client, in both eras: list, call, fail, time out, background, progress, cancel, goodbye."""
    import asyncio
    from mcp import Client as Official, StdioServerParameters
    from mcp.types import Tool

    async def converse():
        server = StdioServerParameters(
            command=sys.executable, args=[str(TOOL), "--mcp"], cwd=os.getcwd(), env=dict(os.environ, **SHORT_ENV)
        )
        told, said = [], []

        async def progress(done, total, message):
            told.append((done, message))

        async def call(**arguments):
            result = await client.call_tool("bash", arguments, progress_callback=progress)
            assert result.structured_content is None
            say(json.dumps(arguments), "->", repr(result.content[0].text), "isError" if result.is_error else "")
            said.append((result.content[0].text, result.is_error))
            return result.content[0].text

        async with Official(server, mode=mode) as client:
            say(client.server_info, client.protocol_version)
            assert client.protocol_version == {"auto": "2026-07-28", "legacy": "2025-11-25"}[mode]
            (tool,) = (await client.list_tools()).tools
            assert isinstance(tool, Tool) and tool.model_dump(by_alias=True, exclude_none=True) == BashTool(
                profile=SHORT_MODES
            ).definition("mcp")
            for command in ("echo hi", "echo out; exit 3", "echo on; sleep 60"):
                await call(command=command)
            job = int(
                re.search(r"<pid>(\d+)</pid>", await call(command="echo up; sleep 600", mode="background")).group(1)
            )
            await call(cmd="ls")
            withdrawn = asyncio.create_task(
                client.call_tool("bash", {"command": "echo $$ > shell; sleep 600", "mode": "slow"})
            )
            while not (Path("shell").exists() and Path("shell").read_text()):
                await asyncio.sleep(0.05)
            withdrawn.cancel()
            await asyncio.gather(withdrawn, return_exceptions=True)
            assert eventually(lambda: not alive(number_in(Path("shell"))))
            await call(command="echo still here")
        assert alive(job)
        os.killpg(job, signal.SIGKILL)
        assert [text for text, _ in said][:3] == [
            "hi\n",
            "[command failed: exit code 3]\nout\n",
            "[command timed out after 1s]\n[for longer commands use mode=\"slow\", for servers mode=\"background\"]\non\n",
        ]
        assert [is_error for _, is_error in said] == [
            False,
            True,
            True,
            False,
            True,
            False,
        ] and 'unknown key "cmd"' in said[4][0]
        assert said[5][0] == "still here\n" and (1.0, "on\n") in told

    asyncio.run(converse())


TYPESCRIPT = """
import { Client } from "%(package)s";
import { StdioClientTransport } from "%(stdio)s";
const client = new Client({ name: "interop", version: "1" }, %(options)s);
await client.connect(new StdioClientTransport({ command: process.argv[2], args: [process.argv[3], "--mcp"], env: process.env }));
const said = [];
const call = async (args, options) => {
  const params = { name: "bash", arguments: args };
  const result = await (%(third)s ? client.callTool(params, undefined, options) : client.callTool(params, options));
  said.push([result.content[0].text, result.isError, result.structuredContent?.status ?? null, result.structuredContent?.pid ?? null]);
};
const { tools } = await client.listTools();
const told = [];
for (const command of ["echo hi", "echo out; exit 3", "echo on; sleep 60"])
  await call({ command }, { onprogress: (progress) => told.push(progress) });
await call({ command: "echo up; sleep 600", mode: "background" });
const withdraw = new AbortController();
setTimeout(() => withdraw.abort("enough"), 1000);
let aborted = false;
await call({ command: "echo $$ > shell; sleep 600", mode: "slow" }, { signal: withdraw.signal }).catch(() => { aborted = true; });
await call({ command: "echo still here" });
const server = [client.getServerVersion(), client.getNegotiatedProtocolVersion?.() ?? null];
await client.close();
console.log(JSON.stringify({ tools, said, told, aborted, server }));
"""


@pytest.mark.interop
@pytest.mark.parametrize(
    "package, stdio, options",
    [
        (
            "@modelcontextprotocol/client",
            "@modelcontextprotocol/client/stdio",
            '{ versionNegotiation: { mode: "auto" } }',
        ),
        ("@modelcontextprotocol/client", "@modelcontextprotocol/client/stdio", "{}"),
        ("@modelcontextprotocol/sdk/client/index.js", "@modelcontextprotocol/sdk/client/stdio.js", "{}"),
    ],
    ids=["auto", "legacy", "v1"],
)
def test_interop_typescript_client(package, stdio, options):
    """The official TypeScript clients, which check every answer against the output schema."""
    program = Path(sys.prefix, "interop-%d.mjs" % os.getpid())  # beside its node_modules
    program.write_text(
        TYPESCRIPT
        % {"package": package, "stdio": stdio, "options": options, "third": "true" if "sdk" in package else "false"}
    )
    try:
        done = subprocess.run(
            ["node", str(program), sys.executable, str(TOOL)],
            env=dict(os.environ, BASH_TOOL_STRUCTURED="1", **SHORT_ENV),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=60,
        )
    finally:
        program.unlink()
    seen = json.loads(done.stdout)
    say(package, options, seen["server"])
    for line in seen["said"]:
        say(line)
    os.killpg(seen["said"][3][3], signal.SIGKILL)
    definition = dict(BashTool(profile=SHORT_MODES).definition("mcp"), outputSchema=dict(bash_tool.OUTPUT_SCHEMA))
    assert seen["tools"] == [definition] and seen["aborted"] and {"progress": 1, "message": "on\n"} in seen["told"]
    assert [line[:3] for line in seen["said"][:3]] == [
        ["hi\n", False, "exited"],
        ["[command failed: exit code 3]\nout\n", True, "exited"],
        [
            "[command timed out after 1s]\n[for longer commands use mode=\"slow\", for servers mode=\"background\"]\non\n",
            True,
            "timed_out",
        ],
    ]
    assert seen["said"][3][1:3] == [False, "running"] and seen["said"][4][0] == "still here\n"
    assert eventually(lambda: not alive(number_in(Path("shell"))))


@pytest.mark.interop
def test_interop_server_in_bubblewrap():
    """The whole server in a sandbox: its commands and its jobs are in there with it, and end with it."""
    seconds = "8%d.25" % os.getpid()
    words = [
        "bwrap",
        "--ro-bind",
        "/",
        "/",
        "--bind",
        os.getcwd(),
        os.getcwd(),
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--unshare-net",
        "--unshare-pid",
        "--die-with-parent",
        sys.executable,
        str(TOOL),
        "--mcp",
        "--state-dir",
        os.getcwd(),
    ]
    with Client(command=words, timeouts=SHORT) as client:
        assert "Read-only file system" in client.call("touch /usr/x")["content"][0]["text"]
        assert (
            client.call("echo on; sleep 60")["content"][0]["text"]
            == "[command timed out after 1s]\n[for longer commands use mode=\"slow\", for servers mode=\"background\"]\non\n"
        )
        assert client.start("sleep %s" % seconds) > 1
        client.begin("sleep %s" % seconds, mode="slow")
        assert eventually(lambda: len(sleepers(seconds)) == 2)
        assert client.end() == 0
    assert eventually(lambda: not sleepers(seconds))


@pytest.fixture
def far_side(tmp_path, monkeypatch):
    """An sshd of our own on loopback, and an `ssh` that knows it as HOST."""
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    folder = tmp_path / "ssh"
    (folder / "bin").mkdir(parents=True)
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)], check=True)
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "sshd_config").write_text(
        textwrap.dedent(
            """\
        Port %d
        ListenAddress 127.0.0.1
        HostKey %s/host
        AuthorizedKeysFile %s/user.pub
        StrictModes no
        UsePAM no
        PidFile none
        PermitRootLogin yes
        AcceptEnv BASH_TOOL_*"""
            % (port, folder, folder)
        )
    )
    (folder / "config").write_text(
        textwrap.dedent(
            """\
        Host HOST
          HostName 127.0.0.1
          Port %d
          IdentityFile %s/user
          IdentitiesOnly yes
          StrictHostKeyChecking no
          UserKnownHostsFile /dev/null
          SendEnv BASH_TOOL_*
          LogLevel ERROR"""
            % (port, folder)
        )
    )
    (folder / "bin" / "ssh").write_text("#!/bin/sh\nexec %s -F %s/config \"$@\"\n" % (shutil.which("ssh"), folder))
    (folder / "bin" / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", "%s/bin:%s" % (folder, os.environ["PATH"]))
    shutil.copy(str(TOOL), "bash_tool.py")
    sshd = subprocess.Popen(
        [shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin"), "-D", "-e", "-f", str(folder / "sshd_config")],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert eventually(lambda: subprocess.run(["ssh", "HOST", "true"], stdin=subprocess.DEVNULL).returncode == 0)
        yield folder
    finally:
        sshd.kill()
        sshd.wait()


@pytest.mark.interop
def test_interop_ssh(far_side):
    """The recipes for other machines, with a real sshd: one command without a trace, a server that is there already; and
    what happens to commands when the client leaves and when the link dies."""
    once, installed = recipes("On other machines")
    done = subprocess.run(["bash", "-c", once], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60)
    say(once.strip(), "->", done.stdout)
    assert done.returncode == 3 and done.stdout == b"[command failed: exit code 3]\nfar\n"
    install, serve = installed.strip().split("\n")
    folder = "far-%d" % os.getpid()  # not a name that the account may have
    subprocess.run(["bash", "-c", install.replace(".cache", folder)], check=True)
    try:
        for death in ("goodbye", "link"):
            words = ["bash", "-c", "exec " + serve.replace(".cache", folder)]
            with Client(command=words, timeouts=SHORT) as client:
                assert (
                    client.call("echo on; sleep 60")["content"][0]["text"]
                    == "[command timed out after 1s]\n[for longer commands use mode=\"slow\", for servers mode=\"background\"]\non\n"
                )
                job = client.call("sleep 600", mode="background")
                say(words[-1][:60], "->", job["content"][0]["text"].replace("\n", " "))
                client.begin("echo $$ > %s/shell; sleep 600" % os.getcwd(), mode="slow")
                shell = number_in(Path("shell"))
                if death == "link":
                    for pid in with_words("ssh", str(far_side / "config")):
                        os.kill(pid, signal.SIGKILL)
                else:
                    client.process.stdin.close()
                pid = int(re.search(r"<pid>(\d+)</pid>", job["content"][0]["text"]).group(1))
                assert eventually(lambda: not alive(shell)) and alive(pid)
                assert "ends with" not in job["content"][0]["text"]  # it was taken over by a copy
                os.killpg(pid, signal.SIGKILL)
                Path("shell").unlink()
    finally:
        shutil.rmtree(Path.home() / folder)


def with_words(*words):
    """The processes with all of these in their command line."""
    found = [pid for pid in processes() if alive(pid)]
    return [pid for pid in found if all(word.encode() in of_proc(pid, "cmdline") for word in words)]


LEAVES = """
import asyncio, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

def leaves(problem):
    return [leaf for each in problem.exceptions for leaf in leaves(each)] if hasattr(problem, "exceptions") else [problem]

async def main():
    async with stdio_client(StdioServerParameters(command=sys.executable, args=[sys.argv[1], "--mcp"])) as ends:
        async with ClientSession(*ends) as session:
            await session.initialize()
            command = "trap 'sleep 1.3; echo > cleaned; exit' TERM; echo > begun; sleep 600 & wait"
            call = asyncio.create_task(session.call_tool("bash", {"command": command}))
            while not os.path.exists("begun"):
                await asyncio.sleep(0.05)
            raise ValueError("the client's own error")

try:
    asyncio.run(main())
except BaseException as problem:
    print([str(leaf) for leaf in leaves(problem)])
"""


@pytest.mark.interop
@pytest.mark.parametrize("version", ["mcp<2", "mcp>=2"])
def test_interop_a_client_that_leaves(version, tmp_path):
    """The official clients for Python leave with a call under way: they get no late answer, which hid their own error, and
    the TERM that they send two seconds later takes no time from the command."""
    python = sys.executable if version == "mcp>=2" else environment("mcp1")
    words = [str(python), "-c", LEAVES, str(TOOL)]
    done = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
    say(version, done.stdout.decode().strip())
    assert done.stdout.decode().strip() == str(["the client's own error"]) and (tmp_path / "cleaned").exists()
