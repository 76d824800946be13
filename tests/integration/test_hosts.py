"""Real hosts of the Model Context Protocol, each in an environment of its own: what they show a model."""

import json
import os
import re
import subprocess
import textwrap

import pytest

from tests.integration.support import SHORT_ENV, environment, mcp_server, say
from tests.spec import HERE
from tests.support import BashTool


# What each needs, and the way to a call in it: `call` is given the arguments, and returns what a model would be shown
# and, where the host has one, the mark of an error. What a host raises is its mark of an error.
HOSTS = {
    "fastmcp": (
        "fastmcp",
        """
        from fastmcp import Client
        from fastmcp.client.transports import StdioTransport
        async with Client(StdioTransport(**server)) as client:
            async def call(arguments):
                result = await client.call_tool("bash", arguments, raise_on_error=False)
                return result.content[0].text, result.is_error
            await converse(call)
        """,
    ),
    "smolagents": (
        "smolagents mcpadapt mcp<2 websockets",
        """
        from mcp import StdioServerParameters
        from smolagents import ToolCollection
        with ToolCollection.from_mcp(StdioServerParameters(**server), trust_remote_code=True, structured_output=False) as found:
            async def call(arguments):
                return found.tools[0](**arguments), None
            await converse(call)
        """,
    ),
    "strands": (
        "strands-agents",
        """
        from mcp import StdioServerParameters, stdio_client
        from strands.tools.mcp import MCPClient
        with MCPClient(lambda: stdio_client(StdioServerParameters(**server))) as client:
            async def call(arguments):
                result = client.call_tool_sync(tool_use_id="1", name="bash", arguments=arguments)
                return result["content"][0]["text"], result["status"] == "error"
            await converse(call)
        """,
    ),
    "autogen": (
        "autogen-ext[mcp] autogen-agentchat mcp<2",
        """
        from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams
        async with McpWorkbench(StdioServerParams(**server)) as workbench:
            async def call(arguments):
                result = await workbench.call_tool("bash", arguments)
                return result.to_text(), result.is_error
            await converse(call)
        """,
    ),
    "google-adk": (
        "google-adk mcp",
        """
        from unittest.mock import MagicMock
        from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
        from mcp import StdioServerParameters
        tools = McpToolset(connection_params=StdioConnectionParams(server_params=StdioServerParameters(**server), timeout=30))
        (tool,) = await tools.get_tools()
        async def call(arguments):
            result = await tool._run_async_impl(args=arguments, tool_context=MagicMock(), credential=None)
            return json.dumps(result), result.get("isError")
        await converse(call)
        await tools.close()
        """,
    ),
    "llama-index": (
        "llama-index-tools-mcp",
        """
        from llama_index.tools.mcp import BasicMCPClient, McpToolSpec
        client = BasicMCPClient(server["command"], args=server["args"], env=server["env"])
        (tool,) = await McpToolSpec(client=client).to_tool_list_async()
        async def call(arguments):
            return (await tool.acall(**arguments)).content, None
        await converse(call)
        """,
    ),
    "haystack": (
        "mcp-haystack",
        """
        from haystack_integrations.tools.mcp import MCPTool, StdioServerInfo
        tool = MCPTool(name="bash", server_info=StdioServerInfo(**server))
        async def call(arguments):
            return tool.invoke(**arguments), False
        await converse(call)
        tool.close()
        """,
    ),
    "mcp-use": (
        "mcp-use",
        """
        from mcp_use import MCPClient
        client = MCPClient.from_dict({"mcpServers": {"bash": server}})
        await client.create_all_sessions()
        async def call(arguments):
            result = await client.get_session("bash").call_tool("bash", arguments)
            return result.content[0].text, result.isError
        await converse(call)
        await client.close_all_sessions()
        """,
    ),
    "dspy": (
        "dspy mcp",
        """
        import dspy
        from mcp import ClientSession, StdioServerParameters
        from mcp.client.stdio import stdio_client
        async with stdio_client(StdioServerParameters(**server)) as pipes, ClientSession(*pipes) as session:
            await session.initialize()
            tool = dspy.Tool.from_mcp_tool(session, (await session.list_tools()).tools[0])
            async def call(arguments):
                return await tool.acall(**arguments), False
            await converse(call)
        """,
    ),
    "inspect-ai": (
        "inspect-ai mcp",
        """
        import tiktoken  # it would load a table from the network
        class Words:
            def encode(self, text, **more):
                return text.split()
        tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: Words()
        from inspect_ai.tool import mcp_connection, mcp_server_stdio
        found = mcp_server_stdio(name="bash", **server)
        async with mcp_connection([found]):
            (tool,) = await found.tools()
            async def call(arguments):
                result = await tool(**arguments)
                return result if isinstance(result, str) else result[0].text, False
            await converse(call)
        """,
    ),
}
HOST_STEPS = (  # what the model asks for, what it is shown, and whether that is an error
    ({"command": "true"}, r"\[no output\]", False),
    ({"command": "seq 1000"}, r"\b1\n2\n3\n(?s:.*)\n1000\n", False),
    ({"command": "echo some; exit 3"}, r"\[command failed: exit code 3\]\nsome\n", True),
    (
        {"command": "echo on; sleep 60"},
        r'\[command timed out after 1s\]\n\[for longer commands use mode="slow", for servers mode="background"\]\non\n',
        True,
    ),
    (
        {"command": "sleep 600", "mode": "background"},
        r"<pid>(\d+)</pid>\n<output_file>/.+</output_file>\n<reminder>To stop: kill -9 -\1</reminder>",
        False,
    ),
    ({"command": "printf ' \\n'"}, r" \n\[no output\]", False),
)
IN_HOST = """
import asyncio, json, os, sys
server, steps = json.loads(sys.argv[1]), json.loads(sys.argv[2])
server["env"] = {**os.environ, **server["env"]}
said = []
async def converse(call):
    for arguments in steps:
        try:
            said.append(await call(arguments))
        except Exception as problem:
            said.append((str(problem), True))
async def main():
%s
asyncio.run(main())
print("\\n" + json.dumps(said))
"""


@pytest.mark.hosts
@pytest.mark.parametrize("name", HOSTS)
def test_hosts_show_the_text_once(name, tmp_path):
    """Each host shows the model our text, once, in whatever it wraps around it, and no structured content; an error is
    marked where the host has a mark."""
    wanted, program = HOSTS[name]
    python = environment(name, os.environ.get("BASH_TOOL_HOSTS", HERE / ".venv-hosts"), wanted.split())
    program = IN_HOST % textwrap.indent(textwrap.dedent(program), "    ")
    try:
        done = subprocess.run(
            [str(python), "-W", "ignore", "-c", program]
            + [json.dumps({**mcp_server(tmp_path), "env": SHORT_ENV}), json.dumps([step[0] for step in HOST_STEPS])],
            env=dict(os.environ, DO_NOT_TRACK="1", MCP_USE_ANONYMIZED_TELEMETRY="false"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=120,
        )
    finally:
        for job in BashTool("/", state_dir=tmp_path).jobs():
            assert job.kill()
    assert done.returncode == 0
    for (arguments, pattern, is_error), (shown, flag) in zip(HOST_STEPS, json.loads(done.stdout.splitlines()[-1])):
        say(
            "%-12s %-22s %5d characters, error: %-5s %s"
            % (name, arguments["command"], len(shown), flag, shown[-120:].encode())
        )
        plain = shown.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")
        assert len(re.findall(pattern, plain)) == 1 and flag in (None, is_error), (shown, flag)
        assert "exit_code" not in shown  # nothing of a structured result
