"""docs/manual.md is the code: each option, field, limit and error has its row, and no row names what is not there."""

import dataclasses
import inspect
import json
import re
import subprocess
import sys

import pytest

from tests.spec import HERE, rows_of
from tests.support import MODES, PROFILES, SOURCE, BashTool, Client, Host, bash_tool, needs_proc
from tests.test_spec import converse_as, errors_of_the_code, profile_cell
from tests.tools.surface import RELEASED, surface
from tests.tools.values import stray, too_short, untold, wrong_copies


MANUAL = (HERE / "docs" / "manual.md").read_text(encoding="utf-8")


def table(title):
    """The rows of the tables of the manual whose first column has this title, without the ticks of the first cell."""
    tables = re.findall(r"(?m)^\| %s \|.*\n\|[-|]*\|\n((?:\| .*\n)+)" % re.escape(title), MANUAL)
    rows = [re.split(r" *\| ", line[2:-2]) for body in tables for line in body.splitlines()]
    assert rows, title
    return {re.sub(r"^`([^`]*)`$", r"\1", row[0].strip()): [cell.strip() for cell in row[1:]] for row in rows}


def public(one):
    """The public names of a class that its users call or read, apart from those of a result's own fields."""
    names = {name for name in vars(one) if not name.startswith("_")}
    return names, {name for name in names if inspect.isfunction(inspect.getattr_static(one, name))}


def signature(function, name):
    """A method as the manual writes it: without self, without types."""
    first, *rest = inspect.signature(function).parameters.values()
    rest = [each.replace(annotation=each.empty) for each in rest]
    return name + str(inspect.Signature(rest))


def same(cell, value):
    """Whether a default of the manual is this one of the code."""
    return eval(cell.strip("`"), dict(vars(bash_tool))) == value


def test_options():
    given = list(inspect.signature(BashTool).parameters.values())
    rows = table("option of `BashTool`")
    assert list(rows) == [each.name for each in given]
    assert [each.name for each in given if not same(rows[each.name][1], each.default)] == []


def test_arguments_of_call_and_run():
    known = {}
    for function in ("call", "run"):
        for each in list(inspect.signature(getattr(BashTool, function)).parameters.values())[1:]:
            known.setdefault(each.name, (each.default, []))[1].append("`%s`" % function)
    rows = table("argument of `call` and `run`")
    assert set(rows) == set(known)
    for name, (default, functions) in known.items():
        whose, cell, _ = rows[name]
        assert whose == ", ".join(functions) and (cell == "–") == (default is inspect.Parameter.empty), name
        assert cell == "–" or same(cell, default), name


def test_methods_and_attributes(tmp_path):
    names, methods = public(BashTool)
    rows = table("method of `BashTool`")
    assert {each.partition("(")[0] for each in rows} == methods
    known = {signature(getattr(BashTool, m), m) for m in methods - {"call", "run"}}
    assert {each for each in rows if "…" not in each} == known
    with BashTool(state_dir=tmp_path) as tool:
        job = tool.job(tool.run("true", mode="background").pid)
        attributes = {name for name in vars(tool) if not name.startswith("_")} | (names - methods)
    assert set(table("attribute of `BashTool`")) == attributes
    names, methods = public(bash_tool.Job)
    rows = table("method of `Job`")
    assert {each.partition("(")[0] for each in rows} == methods
    known = {signature(getattr(bash_tool.Job, m), m).replace(", *, until=None", "") for m in methods}
    assert {each for each in rows if "until" not in each} == known
    own = {name for name in vars(job) if not name.startswith("_")}
    assert set(table("attribute of `Job`")) == (names - methods) | own
    told = re.findall(r"`(\w+)(?:\(\))?`", MANUAL.split("`Cancel()` has ")[1][:100])
    assert set(told) >= public(bash_tool.Cancel)[0]
    assert "`serve(tool)`" in MANUAL and inspect.signature(bash_tool.serve).parameters.keys() >= {"tool"}
    styles = table("style of `definition`")
    for style in styles:
        assert BashTool(carry=True).definition(style), style
    (listed,) = (each.help for each in bash_tool._make_parser()._actions if each.dest == "schema")
    assert all(style in listed for style in styles) and set(
        re.findall(r"[a-z]+-(?:native|chat)", inspect.getdoc(BashTool.definition))
    ) <= set(styles)


def test_results():
    fields = [one.name for one in dataclasses.fields(bash_tool.Result) if one.name[0] != "_"]
    methods = public(bash_tool.Result)[1]
    assert set(table("method of `Result`")) == {signature(getattr(bash_tool.Result, m), m) for m in methods}
    properties = {name for name, value in vars(bash_tool.Result).items() if isinstance(value, property)}
    rows = table("field of `Result`")
    assert set(rows) == set(fields) | properties
    assert [name for name in rows if name in fields] == fields
    assert set(table("`status`")) == set(bash_tool.OUTPUT_SCHEMA["properties"]["status"]["enum"])
    rows, ids = table("error id"), errors_of_the_code()
    assert set(rows) == ids
    for name in ids:
        told = {row[1] for row in rows_of("4.4 Errors") if len(row) == 5 and row[0] == "`%s`" % name}
        assert set(rows[name][0].replace("`", "").split(", ")) == told, name


def test_names_of_the_module():
    """Each public name of the module is on the page, and in `help`."""
    assert [name for name in bash_tool.__all__ if not re.search(r"`%s\b" % name, MANUAL)] == []
    assert all(name in bash_tool.__doc__ for name in bash_tool.__all__ if name != "__version__")


@needs_proc
def test_sockets_of_a_host():
    """A host that runs nothing holds the sockets that the page tells of, and no more."""
    told = int(re.search(r"up to (\d+) kept for later ones", MANUAL).group(1))
    program = """
        import contextlib
        tool, sockets = BashTool(), []
        threads = [threading.Thread(target=tool.run, args=("sleep 0.2",)) for _ in range(%d)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        for fd in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                sockets += [fd] * os.readlink("/proc/self/fd/" + fd).startswith("socket:")
        say(len(sockets))
    """
    with Host(program % (told + 8)) as host:
        assert 0 < host.hear() <= told


def test_linters_leave_a_copy_alone(tmp_path):
    """Under all rules of ruff, a copy in another project has no finding; flake8 and isort, which are not installed here,
    obey the lines that stand at its head."""
    pytest.importorskip("ruff")
    (tmp_path / "bash_tool.py").write_text(SOURCE)
    words = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "ALL", "bash_tool.py"]
    done = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stdout.decode()[-1000:]
    head = SOURCE.partition('"""')[0].splitlines()
    assert {"# flake8: noqa", "# isort: skip_file", "# SPDX-License-Identifier: MIT"} < set(head)
    (owner,) = re.findall(r"(?m)^Copyright \(c\) (.*)$", (HERE / "LICENSE").read_text())
    assert "# SPDX-FileCopyrightText: " + owner in head


def test_arguments_of_a_model():
    of_profiles = {name: set(row.parameters) for name, row in PROFILES.items()}
    rows = table("argument of a model")
    assert set(rows) == {"restart"}.union(*of_profiles.values())
    for name, (profiles, _) in rows.items():
        told = {"all": set(PROFILES)}.get(profiles, {one.lower() for one in profiles.split(", ")})
        assert name == "restart" or told == {one for one, has in of_profiles.items() if name in has}, name


def test_profiles():
    fields = [one.name for one in dataclasses.fields(MODES)]
    assert sorted(table("field of `Profile`")) == sorted(fields)
    rows = table("value")
    assert sorted(rows) == sorted(set(fields) - {"description", "parameters", "required"})
    for field, cells in rows.items():
        for cell, profile in zip(cells, ("MODES", "JOBS", "STREAMS", "GUARDED")):
            told = cell if cell == "–" else profile_cell(profile, field, cell)
            assert cell in ("–", told), (field, profile)
    assert list(table("profile")) == [name.upper() for name in PROFILES]


WRITTEN = {  # of each row, an output that has it between two letters
    "colours and other escape sequences": "a\033[1mb",
    r"\r\n": "a\r\nb",
    r"\r` within a line": "a\rb",
    "backspace, cursor movement": "a\bb",
    "other control characters": "a\ab",
    "NUL": "a\0b",
}
DONE = {"removed": "ab", "a newline": "a\nb", "overwrites": "b", "`U+FFFD`": "a\ufffdb"}


def test_what_is_done_to_output():
    rows = table("written")
    for (written, output), (name, cells) in zip(WRITTEN.items(), rows.items()):
        assert name.strip("`") == written
        for cell, profile in zip(cells, (MODES, bash_tool.JOBS, bash_tool.STREAMS)):
            cleaned = profile.cleaning(output)
            assert cleaned == DONE.get(cell, output), (written, profile)
    assert len(rows) == len(WRITTEN) + 1 and bash_tool.STREAMS.cleaning is bash_tool.GUARDED.cleaning


def test_the_environment():
    told = {}
    for names, (value, *_) in table("variable that is set").items():
        told.update(dict.fromkeys(re.findall(r"[A-Z_]+", names), value.strip("`")))
    assert told == dict(bash_tool.NON_INTERACTIVE)
    removed = {name for names in table("variable that is taken out") for name in re.findall(r"[\w%]+", names)}
    assert removed <= set(bash_tool.DROPPED_NAMES)
    section = MANUAL.split("**Taken out**")[1]
    assert [name for name in bash_tool.DROPPED_NAMES if name not in section] == []


def test_limits():
    """What the table of limits says to change them with is to be had. `test_values` holds its numbers."""
    rows = table("limit")
    ways = re.findall(r"`(replace\(MODES.*?\))`", MANUAL)
    assert ways and all(eval(way, dict(vars(bash_tool), replace=dataclasses.replace)) for way in ways)
    assert set(bash_tool.LIMITS_ON_OUTPUT) - {"rolling_bytes"} <= set(re.findall(r"`(\w+)`", str(rows)))


def test_values():
    """A value of the code stands on each page as it is in the code, and docs/changes.md says where it is another one than
    the last release had. `python -m tests.tools.values` writes them."""
    said = [*wrong_copies(), *stray(), *too_short(), *untold()]
    assert said == [], "\n".join(said)


def test_the_surface():
    """Each public name is part of what is compared with the last release. What differs from it, and docs/changes.md does not
    name, `test_values` says: write a line there. `python -m tests.tools.values release` keeps it with a release."""
    found = surface()
    assert {
        "BashTool.run() stdin",
        "Result.check()",
        "Job.wait()2 until",
        "Profile.saves",
        "serve()",
        "Cancel.count",
    } < set(found)
    for way in ("argument modes.", "option --", "exit code ", "error id ", "structured content ", "record ", "type "):
        assert sum(key.startswith(way) for key in found) > 1, way
    assert json.loads(RELEASED.read_text(encoding="utf-8"))["surface"].keys() & found.keys()


def test_command_line():
    parser = bash_tool._make_parser()
    known, given = {}, vars(parser.parse_args(["x"]))
    for action in parser._actions:
        value = action.metavar or action.dest.upper()
        value = {0: "", "?": " [%s]" % value}.get(action.nargs, " " + value)
        if action.option_strings and action.dest != "help":
            known[action.option_strings[-1] + value] = given[action.dest] or ""
    rows = table("option of the command line")
    assert {name: cell.strip("`") for name, (cell, _) in rows.items()} == known
    assert set(table("variable of the command line")) == set(re.findall(r"BASH_TOOL_[A-Z]+", SOURCE))
    codes = {int(code) for code in table("exit code") if code.isdigit()}
    assert codes == set(bash_tool.EXIT_CODES.values())


def test_mcp():
    versions = MANUAL.split("- **Versions**: ")[1].split("\n- ")[0]
    known = [*bash_tool.HANDSHAKE_VERSIONS, *bash_tool.STATELESS_VERSIONS]
    assert sorted(re.findall(r"`(\d{4}-\d\d-\d\d)`", versions)) == sorted(known)


@needs_proc
def test_transcripts(tmp_path):
    """What a model says and reads on the page is what the tool says."""
    for transcript in re.findall(r"(?ms)^```transcript\n(.*?)^```", MANUAL):
        converse_as(transcript, tmp_path)


def test_exchange():
    """The server answers the messages of the page with those of the page."""
    (exchange,) = re.findall(r"(?ms)^```text\n(.*?)^```", MANUAL)
    with Client() as client:
        for line in exchange.splitlines():
            if line.startswith("> "):
                client.send(line[2:].encode())
            else:
                pattern = re.escape(line).replace("…", ".*")
                assert re.fullmatch(pattern, json.dumps(client.receive(), ensure_ascii=False)), line


@pytest.mark.parametrize("name", ["README.md", "docs/manual.md", "docs/design.md", "docs/recipes.md"])
def test_links_and_lines(name):
    """Each link within the pages leads to a page or a heading that is there; no line of prose has more than 120 columns,
    but for the table of the seeds."""
    page = HERE / name
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"(?ms)^```.*?^```$", "", text)
    assert [line for line in prose.partition("## Appendix")[0].splitlines() if len(line) > 120] == []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"\]\(\s*", "](", prose)):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            linked = (page.parent / path).resolve() if path else page
            assert linked.exists(), target
            heads = re.findall(r"(?m)^#+ (.*)$", linked.read_text(encoding="utf-8")) if linked.suffix == ".md" else []
            slugs = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
            assert not anchor or anchor in slugs, target
