"""The own tests of packages from PyPI, with the tool and without it; schemas beside jsonschema."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from tests.integration.support import say
from tests.support import BashTool, PROFILES, bash_tool, few


PACKAGES = {  # which of their tests: those that need nothing but Python and take less than half a minute
    "tqdm": "tests/tests_tqdm.py tests/tests_main.py",
    "click": "tests/test_termui.py tests/test_basic.py tests/test_formatting.py tests/test_testing.py",
    "httpie": "tests/test_cli.py tests/test_errors.py tests/test_tokens.py tests/test_parser_schema.py",
    "humanize": "tests --ignore tests/test_benchmarks.py",
    "termcolor": "tests",
    "tabulate": "test",
    "colorama": "colorama/tests",
    "pexpect": "tests/test_run.py tests/test_which.py tests/test_unicode.py",
    "sh": "tests -k 'env or pipe or glob or tty'",
    "prompt_toolkit": "tests -k 'not completion and not cli'",
}
AGAINST_DUMB = {"termcolor"}  # half of its tests fail in a dumb terminal, also without the tool, which sets TERM=dumb


def unpacked(package):
    """The folder with the source distribution of the version that is installed here."""
    from importlib.metadata import version

    folder = Path(sys.prefix, "sdists", package)
    if not folder.exists():
        arguments = [
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
            "--dest",
            str(folder),
            "%s==%s" % (package, version(package)),
        ]
        subprocess.run([sys.executable, "-m", "pip", "download", *arguments], check=True)
        (archive,) = folder.glob("*.tar.gz")
        shutil.unpack_archive(archive, folder)
    return next(path for path in folder.iterdir() if path.is_dir())


def counts(output):
    """How many tests passed, failed and were skipped, by the last line of pytest."""
    return {
        word.rstrip("s"): int(number)
        for number, word in re.findall(
            r"(\d+) (passed|failed|skipped|xfailed|xpassed|errors?)", output.splitlines()[-1]
        )
    }


@pytest.mark.packages
@pytest.mark.parametrize("package", PACKAGES)
def test_packages_test_themselves(package):
    """The own tests of a package pass, fail and are skipped in the same numbers through the tool as under plain bash
    without the same secrets."""
    folder = unpacked(package)
    command = "%s -m pytest -q -p no:cacheprovider -o addopts= -o filterwarnings= -W ignore %s 2>&1" % (
        sys.executable,
        PACKAGES[package],
    )
    with BashTool(folder) as tool:
        environ = {name: value for name, value in os.environ.items() if name not in tool.withheld}
        if package in AGAINST_DUMB:
            environ["TERM"] = "dumb"
        for attempt in range(3):  # some of these tests are about time
            begun = time.monotonic()
            plain = subprocess.run(
                ["bash", "-c", command], cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
            )
            through = tool.run(command, mode="slow")
            without, within = counts(plain.stdout.decode()), counts(through.stdout)
            if without == within:
                break
    say(
        "%-16s plain bash %-40s through the tool %-40s %4.0f s"
        % (folder.name, without, within, time.monotonic() - begun)
    )
    assert without == within and without["passed"] > 10, through.text[-3000:]


@functools.lru_cache(None)
def schema_of(name, style):
    import jsonschema

    key = {"anthropic": "input_schema", "openai": "parameters", "mcp": "inputSchema"}[style]
    return jsonschema.Draft202012Validator(BashTool("/", profile=PROFILES[name]).definition(style)[key])


def refused_keys(name, style, arguments):
    """The keys for which the schema refuses these arguments. A null means "not given": it is asked without that key, or, the
    strict one, which lets none be left out, with a null for each that is not required."""
    parameters, required = PROFILES[name].parameters, PROFILES[name].required
    given = {key: value for key, value in arguments.items() if value is not None or key not in parameters}
    asked = {**{key: None for key in parameters if key not in required}, **given} if style == "openai" else given
    keys = {"required": set(parameters) - set(asked), "additionalProperties": set(asked) - set(parameters)}
    return {
        key
        for error in schema_of(name, style).iter_errors(asked)
        for key in (keys.get(error.validator) or [error.path[0]])
    }


def unsayable_keys(name, arguments):
    """The keys for which the tool refuses them, although the schema does not: what REQ-BASH-006.9 excepts."""
    given = {key: value for key, value in arguments.items() if value is not None}
    pids = {"check_pid", "kill_pid"} & set(PROFILES[name].parameters)
    verbs = {"command"} | pids
    keys = verbs if pids and len(verbs & set(given)) != 1 else set()
    keys = keys | {
        pid for pid in pids & set(given) if isinstance(given[pid], (int, float)) and abs(given[pid]) >= 2**31
    }
    return keys | {"command"} if re.search("[\0\ud800-\udfff]", str(given.get("command"))) else keys


NUMBERS = st.sampled_from(
    [
        -1,
        0,
        1,
        2,
        1500,
        86400000,
        86400001,
        2**31,
        2**63,
        10**400,
        -(10**30),
        -0.0,
        0.5,
        1.0,
        1.5,
        86400000.0,
        86400000.5,
        1e300,
        float("inf"),
        float("nan"),
    ]
)
STRINGS = st.sampled_from([":", "", "default", "slow", "background", "fast", "Default", "a\0b", "\ud800"]) | st.text(
    max_size=5
)
ODD = st.one_of(
    NUMBERS,
    STRINGS,
    st.none(),
    st.booleans(),
    st.lists(st.sampled_from([":", 1, None]), max_size=2),
    st.dictionaries(st.sampled_from(["command", "type"]), st.sampled_from([":", 1, None]), max_size=2),
)
RIGHT = {"string": STRINGS, "integer": NUMBERS | st.integers(1, 2**22)}
NEW = st.sampled_from(["cmd", "Command", "mode", "workdir", "check_pid", "timeout_ms", "", "command "]) | st.text(
    max_size=3
)


@st.composite
def almost_right(draw):
    """A profile's name, and arguments: mostly one of its verbs, maybe more of its keys, some of an odd value, maybe new
    ones."""
    name = draw(st.sampled_from(list(PROFILES)))
    parameters = PROFILES[name].parameters
    verb = draw(st.sampled_from(["command"] + [key for key in parameters if key != "mode"]))
    keys = {verb} | {
        key for key in parameters if draw(st.integers(0, 3 if key.endswith("pid") or key == "command" else 1)) == 1
    }
    keys |= set(draw(st.lists(NEW, max_size=2))) if draw(st.integers(0, 3)) == 3 else set()
    return name, {
        key: draw(RIGHT[parameters[key]["type"]] if key in parameters and draw(st.integers(0, 3)) else ODD)
        for key in sorted(keys)
    }


def has_one_meaning(value):
    return value in ("", 0) or isinstance(value, str) and re.fullmatch("-?[0-9]{1,15}|true|false", value)


@pytest.mark.interop
@settings(max_examples=1500)
@given(asked=almost_right())
@example(asked=("jobs", {"kill_pid": 1, "timeout": 0}))
@example(asked=("jobs", {"check_pid": 2**31}))
def test_interop_schema_agrees(asked):
    """What a schema refuses, the tool refuses, naming a key; what it admits, the tool admits, but for what no schema
    says."""
    name, arguments = asked
    verdict, unsayable = bash_tool.parse_arguments(arguments, PROFILES[name]), unsayable_keys(name, arguments)
    for style in ("anthropic", "openai", "mcp"):
        keys = refused_keys(name, style, arguments) | unsayable
        if any(map(has_one_meaning, arguments.values())):  # 006.13: it is taken, though no schema says so
            continue
        assert isinstance(verdict, bash_tool.Outcome) == bool(keys), (style, keys, verdict)
        if keys:
            assert verdict.report.error == "invalid_arguments"
            assert any('"%s"' % bash_tool.shorten(key) in verdict.report.reason for key in keys), (style, keys, verdict)


@pytest.mark.interop
@few
@given(asked=almost_right())
@example(asked=("modes", {"command": ":"}))
@example(asked=("jobs", {"check_pid": 7}))
@example(asked=("guarded", {"command": ":", "cmd": None}))
def test_interop_schema_agrees_with_call(asked):
    """The same through `.call`, as a mapping and as the JSON text of one, with a command that does nothing."""
    name, arguments = asked
    if isinstance(arguments.get("command"), str):
        arguments = {**arguments, "command": ":"}
    keys = refused_keys(name, "anthropic", arguments) | unsayable_keys(name, arguments)
    with BashTool("/", profile=PROFILES[name]) as bash:
        for sent in (arguments, json.dumps(arguments)):
            result = bash.call(sent)
            if keys:
                assert (result.status, result.error, result.is_error) == ("rejected", "invalid_arguments", True), result
            else:
                assert result.status in ("exited", "running") or result.error == "no_such_job", result
