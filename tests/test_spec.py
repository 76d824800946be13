"""SPEC.md, README and the tests say the same: clauses, tables, constants, levels, and every example, executed."""

import ast
import contextlib
import dataclasses
import doctest
import inspect
import json
import os
import pydoc
import re
import shlex
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import test_bash_tool
from tests.conformance.panel import BROKEN
from tests.spec import CLAUSES, EXAMPLES, HERE, LEVELS_OF, REFERENCE, SPEC, TAG, UPON, Conversation, dumped_examples
from tests.spec import fenced, holds_clause, offers_example, rows_of, spec_for, steps_of
from tests.spec import without_jobs
from tests.processes import PATIENCE_S
from tests.support import MODES, PROFILES, SABOTEURS, SOURCE, TOOL, BashTool, Cancel, Client, bash_tool, changed, cli
from tests.support import compiled_script, exhaustive, long_look, needs_proc, one_or_more, ran, recipes, sabotaged
from tests.support import saboteurs_at_tests, slack_s
from tests.tools.clause import checks_of
from tests.tools.contents import contents, with_contents


PROPERTIES = {
    re.match(r"test_req_bash_(\d{3})_(\d+)_", name).expand(r"\1.\2"): test
    for name, test in vars(test_bash_tool).items()
    if name.startswith("test_req_bash_")
}

# Clauses whose tests draw nothing, and why; all others draw their cases.
NOT_DRAWN = {
    "a constant, a fixed text, or a definition": "002.1 002.2 006.1 006.7 006.8 006.11 006.12 017.5 021.9 026.16 028.7 028.9",
    "each case of a short list is tried": "002.5 002.7 002.8 003.3 003.7 003.18 003.20 003.21 003.25 006.2 007.2 007.5 007.7 009.2 009.9 014.1 014.13 015.1 "
    "017.2 017.3 017.6 017.14 017.15 018.3 020.4 023.4 025.1 025.9 025.19 025.23 026.1 026.2 026.14 028.3 028.6 028.8",
    "a bound of time, memory or number, met by the worst case that is known": "003.16 008.5 009.5 009.6 010.1 010.3 024.3 025.14 "
    "025.15 025.18",
    "a property of processes, the same for every command": "003.2 003.4 003.8 003.14 004.1 005.1 011.7 012.4 014.2 014.7 019.1 020.2 020.3 "
    "025.16",
    "an order of events, each of which waits for the one before": "003.10 003.11 004.6 009.7 011.3 015.3 015.5 015.6 017.9 025.8 025.11 "
    "025.22 025.26 027.1 027.2 027.3 027.6 028.11 029.3",
}


def test_a_property_draws_its_cases_or_says_why_not():
    """The tests of clauses that draw nothing are those of NOT_DRAWN, each of which stands there once."""
    named = " ".join(NOT_DRAWN.values()).split()

    def draws(test):
        return hasattr(test, "hypothesis") or re.search(
            r"\b(given|few|fewer|fewest|agreement)\(", inspect.getsource(test)
        )

    assert sorted(named) == sorted(number for number, test in PROPERTIES.items() if not draws(test))


def test_spec_version():
    """The page says the version of the tool that it belongs to, and its date."""
    assert re.search(r"(?m)\A# .*\n\nVersion %s, 20\d\d-\d\d-\d\d\.$" % re.escape(bash_tool.__version__), SPEC)


def test_spec_ties():
    """Clauses, examples, properties and saboteurs are the same set; each clause has one SHALL and a reason."""
    assert len(CLAUSES) > 80 and SPEC.count("#### REQ-BASH-") == len(CLAUSES)
    assert set(CLAUSES) == set(PROPERTIES) == set(SABOTEURS) == {number for number, _, _ in EXAMPLES}
    assert len(EXAMPLES) == SPEC.count("```example")
    assert not [line for _, _, body in EXAMPLES for line in body.splitlines() if len(line) > 140]
    assert all(sabotaged(number) != SOURCE for number in saboteurs_at_tests())
    broken = [way for ways in BROKEN.values() for way in ways if not isinstance(way, dict)]
    assert all(changed(SOURCE, *one_or_more(way)) != SOURCE for way in broken)
    names = [name for name in vars(test_bash_tool) if name.startswith("test_req_bash_")]
    assert len(names) == len(CLAUSES)
    for number, (sentence, body) in CLAUSES.items():
        assert sentence.count("SHALL") == 1 and "THE SYSTEM SHALL" in sentence and sentence.endswith("."), number
        assert re.match("(WHEN|WHILE|WHERE|IF|THE SYSTEM)", sentence), number
        assert re.match(r"Why: (?:(?!```).+\n)+(?:\nDetail: (?:(?!```).+\n)+)?```example", body), number


def test_spec_clauses_stand_in_order():
    """Requirements, and the clauses of each, stand in the order of their numbers."""
    assert [*CLAUSES] == sorted(CLAUSES, key=lambda number: [int(part) for part in number.split(".")])


def test_spec_docstring_is_the_clause():
    """A property has its clause for a docstring, from `@clause`, or word for word; each has the number in its name."""
    for number, test in PROPERTIES.items():
        docstring = getattr(getattr(test, "hypothesis", test), "inner_test", test).__doc__
        assert " ".join(docstring.split()) == CLAUSES[number][0], number


def as_pattern(transcript):
    """A transcript of one run as an example that every run fits: numbers of processes and ports, paths of output files and
    times may be others, each the same wherever it stands, and `…` alone on its line stands for any lines."""
    for shape, name in (
        (r"(\bpid |<pid>|-(?:9|TERM) -|process |port |127\.0\.0\.1:)(\d{4,})", r"\1{{n\2}}"),
        (r"(?<=}} -)(\d{4,})", r"{{n\1}}"),  # a second number for `kill`
        (r"(/tmp/bash-tool-of-0/output-)(\w+)(\.log)", r"{{f\2}}"),
        (r"( after )([\d.]+s)(: )", r"\1{{*}}\3"),
        (r"(?m)^…$", "{{**}}"),
    ):
        transcript = re.sub(shape, name, transcript)
    return transcript


def converse_as(transcript, folder):
    """Says to a tool, in a new folder of this one, what the transcript says, and is told what stands there. `python3` is
    an interpreter: a shim, such as pyenv's, runs programs of its own for a while."""
    folder = Path(tempfile.mkdtemp(dir=folder)) / "example"
    folder.mkdir()
    (folder.parent / "python3").symlink_to(os.path.realpath(sys.executable))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", str(folder.parent), prepend=os.pathsep)
        conversation = LibraryConversation("", folder)
    with conversation.tool:
        conversation.run(as_pattern(transcript), marks=False)


@needs_proc  # it names the processes that still run
def test_readme_is_true(tmp_path, monkeypatch):
    """The Python of README.md runs, its transcripts are what the tool says, and its command does what README says."""
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    assert readme.count("\n") <= 160
    (program,) = recipes("Begin", HERE / "README.md")
    assert ran("bash", "-c", program, cwd=HERE).stdout == b"[command failed: exit code 3]\nhello\nexit code: 3\n"
    monkeypatch.chdir(tmp_path)
    for program in re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL):
        exec(program, {})
    for transcript in re.findall(r"^```transcript\n(.*?)^```", readme, re.MULTILINE | re.DOTALL):
        converse_as(transcript, tmp_path)


@pytest.mark.parametrize("page", ["README.md", "docs/manual.md"])
def test_configurations_of_the_pages(page):
    """Each configuration for clients starts a server in its folder, with the limits and variables that it gives."""
    text = (HERE / page).read_text(encoding="utf-8")
    (configuration,) = re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    server = json.loads(configuration)["mcpServers"]["bash"]
    here = {"/usr/bin/python3": sys.executable, "/PATH/TO/bash_tool.py": str(TOOL), "/PATH/TO/REPO": "/"}
    words = [here.get(word, word) for word in (server["command"], *server["args"])]
    given = server.get("env", {})
    assert bool(given) == (page != "README.md")
    with Client(command=words, env=dict(os.environ, **given)) as client:
        assert client.said("pwd") == "/\n"
        if given:
            assert client.said("echo $GH_TOKEN") == "for commands\n"
            assert client.call("mkfs --help")["isError"]
            assert "default (1min timeout)" in json.dumps(client.ask("tools/list"))


def test_spec_numbers_exist():
    """Every number of a clause that the code, the tests or the pages name is one of SPEC.md."""
    for file in [*HERE.glob("*.py"), *HERE.glob("*.md"), *HERE.glob("docs/*.md"), *HERE.glob("tests/**/*.py")]:
        for number in re.findall(r"REQ-BASH-(\d{3}\.\d+)", file.read_text(encoding="utf-8")):
            assert number in CLAUSES, (file, number)


def test_comments_name_what_is_there():
    """Each method that a comment of bash_tool.py names, and each function that its head names, is there."""
    comments = "\n".join(re.findall(r"(?m)^ *#(.*)$", SOURCE))
    methods = {found for found in re.findall(r"\b([A-Z]\w+)\.(_?[a-z]\w+)\b", comments) if hasattr(bash_tool, found[0])}
    assert len(methods) >= 15 and [each for each in methods if not hasattr(getattr(bash_tool, each[0]), each[1])] == []
    head = comments.split("The ways through the code:\n")[1].split(" 1 Limits and words")[0]
    functions = set(re.findall(r"(?<![\w.])_?[a-z]+(?:_[a-z]+)+\b", head)) - {"send_answer"}
    assert functions and [name for name in functions if not hasattr(bash_tool, name)] == []


def table_of(page, heading):
    """The rows of the table below a heading of a page in docs/."""
    section = (HERE / "docs" / page).read_text(encoding="utf-8").split("\n## %s\n" % heading)[1]
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    return [line[2:-2].split(" | ") for line in lines[1:]]


def test_spec_accounts_for_the_seeds():
    """Each of the five seeds has its rows, and each row a clause that exists or a decision; where a profile departs from
    its seed is told for each seed."""
    rows = table_of("design.md", "Appendix: what the five seeds ask")
    assert len(rows) > 40 and {seed for seed, _, _ in rows} == {"000", "001", "002", "003", "004"}
    for _, asks, held in rows:
        numbers = re.findall(r"\d{3}\.\d+", held)
        assert all(number in CLAUSES for number in numbers), asks
        assert numbers or re.search("decided against|not ours|host|nothing is logged|departs", held), asks
    departures = table_of("spec-notes.md", "Where a profile departs from its document")
    assert len(departures) > 30 and all(len(row) == 4 and all(row) for row in departures)
    assert {seed for row in departures for seed in row[0].split(", ")} == {seed for seed, _, _ in rows}


def test_spec_holds_the_seven_requirements():
    """The table of the notes has the 16 demands of document 003 under its titles, each with clauses and their tests, and
    the clauses of the seven stand under the same titles, before all others."""
    seven, beyond = SPEC.split("\n## 3 Clauses\n")[1].split("\n## 4 Reference\n")[0].split("\n## Beyond the seven\n")
    rows = table_of("spec-notes.md", "The seven requirements of document 003")
    titles = re.findall(r"(?m)^### REQ-BASH-(\d{3} .*)$", seven)
    demands = {title: [row[0] for row in rows].count(title) for title in titles}
    assert [title[:3] for title in titles] == ["%03d" % n for n in range(1, 8)]
    assert list(demands.values()) == [2, 3, 3, 2, 1, 3, 2] and sum(demands.values()) == len(rows)
    for _, demand, numbers, tests in rows:
        assert numbers and tests == ", ".join("`%s`" % PROPERTIES[n].__name__ for n in numbers.split(", ")), demand
    assert "REQ-BASH-008" in beyond and not re.search(r"(?m)^#+ REQ-BASH-00[1-7]", beyond)


def test_failures_of_other_tools_are_excluded():
    """Each kind of failure names requirements that SPEC.md has."""
    rows = table_of("design.md", "What goes wrong elsewhere")
    requirements = {number[:3] for number in CLAUSES}
    assert len(rows) == 8
    for kind, _, excluded in rows:
        assert set(excluded.split(", ")) <= requirements, kind


def constants(*types):
    """What the module calls by a name in capitals, of these types."""
    named = {name: value for name, value in vars(bash_tool).items() if name.isupper() and name[0] != "_"}
    return {name: value for name, value in named.items() if type(value) in types}


SOME_LEVELS = [("core",), ("server",), ("command line",), ("library",), ("jobs", "server"), ("JOBS", "server")]
SOME_LEVELS += [("STREAMS", "library"), ("GUARDED", "command line"), tuple(UPON)]


@pytest.mark.parametrize("levels", SOME_LEVELS, ids=",".join)
def test_spec_for_levels(levels):
    """The text for some levels has all their clauses and no other, and names nothing that it does not have."""
    text, known = spec_for(*levels)
    held = {level for level in UPON if level in levels or any(level in UPON[one] for one in levels)} | {"core"}
    assert set(re.findall(r"^#### (\d\S+)", text, re.MULTILINE)) == {n for n in CLAUSES if holds_clause(held, n)}
    examples = [body for n, head, body in EXAMPLES if holds_clause(held, n) and offers_example(held, head, body)]
    examples = examples if "jobs" in held else [*map(without_jobs, examples)]
    assert re.findall(r"(?ms)^```example[^\n]*\n(.*?)^```$", text) == examples
    for head in ("environment", "rule 1", "groups", "pattern TOKEN", "grammar"):
        assert "\n```%s\n" % head in text
    for table in re.findall(r"(?m)^\|(?!.*MODES).* level \|\n\|[-|]*\n((?:\| .*\n)+)", SPEC):
        rows = [re.split(r" \| ", line[2:-2]) for line in table.splitlines()]
        missing = [
            row[0] for row in rows if held & {*row[-1].split(", ")} and row[0].split("](")[0].strip("[") not in text
        ]
        assert not missing
    assert not re.search(r"^(?:Level: |%s)" % TAG.pattern, text, re.MULTILINE)
    prose = re.sub(r"^```[^\0]*?^```$|`[^`\n]*`", "", text, flags=re.MULTILINE)
    named = set(re.findall(r"(?<![\d.,-])%s(?![\d.]*\d|,\d|:| ?(?:s|seconds|bytes)\b)" % REFERENCE, prose))
    assert not named & (spec_for(*UPON)[1] | {number[:3] for number in CLAUSES}) - known
    assert {number for number in re.findall(r"\(([1-7]\.\d+)[,)]", prose)} <= known
    others = "|".join({"JOBS", "STREAMS", "GUARDED", "kill_pid"} - held)
    assert not re.search(r"\b(?:%s)\b" % others, prose.replace("`", ""))


def test_spec_contents():
    """The contents of SPEC.md are made from its clauses, its examples and the names of the properties."""
    assert SPEC == with_contents(SPEC)


def test_spec_stays_short():
    """The page, and its text for the levels that most ports build, without the contents."""
    assert SPEC.count("\n") - contents().count("\n") <= 4500
    text = spec_for("core", "server")[0]
    listed = "\n".join(line for line in text.splitlines() if re.match(r"\| \d{3}\.\d+ \| .* \| (yes|no) \|$", line))
    assert len(text.encode()) - len(listed.encode()) <= 110000


def test_spec_levels():
    """Every clause is in a level of conformance, and every number that a table or the index names is a clause."""
    levels = {"core", "jobs", "server", "command line", "library", "JOBS", "STREAMS", "GUARDED"}
    assert [*LEVELS_OF] == [*CLAUSES] and set(UPON) == levels
    assert {level for known in LEVELS_OF.values() for level in known} == levels
    assert all(known == [level for level in UPON if level in known] for known in LEVELS_OF.values())
    assert set(re.findall(r"\b\d{3}\.\d{1,2}\b", SPEC.split("\n## 4 Reference\n")[1])) <= set(CLAUSES)
    index = table_of("spec-notes.md", "Index")
    assert set(CLAUSES) == {number for row in index for number in row[1].split()}
    sections = {number for row in index for number in row[2].split(", ")}
    assert sections <= set(re.findall(r"(?m)^###? (\d\.?\d*) ", SPEC))


CLEANING = {bash_tool.render: "rendered", bash_tool.sanitise: "sanitised", bash_tool.without_nul: "plain"}


def profile_cell(profile, field, cell):
    """The value of a field as a table of the pages writes it; the cell itself, where that is the same value as JSON."""
    value = getattr(getattr(bash_tool, profile), field)
    if field == "truncation":
        units = {"max_output_chars": ", counted in characters", "max_output_bytes": ", counted in bytes"}
        is_head = value.fit is bash_tool.keep_head
        return value.fit.__name__.replace("keep_", "") + units[value.limits[0]] * is_head
    if field == "format":
        return value.write.__name__.replace("format_", "")
    if field == "cleaning":
        return CLEANING[value]
    if field == "streams":
        return value.name.lower()
    value = getattr(value, "value", value)
    if isinstance(value, str):
        return value
    value = dict(value) if hasattr(value, "items") else value
    return cell if json.loads(cell) == value and type(json.loads(cell)) in (type(value), int) else json.dumps(value)


def test_spec_profiles():
    """The table of the profiles is the profiles; a limit that does not hold for one is a dash."""
    head, *rows = [row for row in rows_of("4.1 Profiles") if len(row) == 6]
    assert head[1:5] == ["MODES", "JOBS", "STREAMS", "GUARDED"]
    elsewhere = {"description", "parameters", "required"}
    assert {row[0].strip("`") for row in rows} == {one.name for one in dataclasses.fields(MODES)} - elsewhere
    for field, *cells in rows:
        for cell, name in zip(cells, head[1:5]):
            assert cell == "–" or cell == profile_cell(name, field.strip("`"), cell), (field, name)


def test_spec_definitions():
    """The definitions in SPEC.md are those that the tool gives, in its order."""
    known = {name: json.loads(body) for name, body in fenced("definition")}
    assert set(known) == {*PROFILES, "mcp", "structured"}
    assert known["structured"]["outputSchema"] == dict(bash_tool.OUTPUT_SCHEMA)
    ((_, without),) = fenced("without-jobs")
    modes = re.sub(r"With mode=.*?\\n\\n", "", json.dumps(known["modes"])).replace(", background (detached)", "")
    assert json.dumps(json.loads(without)) == modes.replace(', "background"]', "]") and "background" not in without
    for name, profile in PROFILES.items():
        same, tool = known[name], bash_tool.BashTool("/", profile=profile)
        mcp = dict(known["mcp"], inputSchema=same["input_schema"], name=same["name"], description=same["description"])
        assert json.dumps(tool.definition()) == json.dumps(same) and tool.definition("mcp") == mcp
    assert json.dumps(dict(bash_tool.OUTPUT_SCHEMA)) == json.dumps(known["structured"]["outputSchema"])


def test_spec_constants():
    """The constants in the notes to SPEC.md are the module's, all of them. Where one belongs to a clause or a section, the
    notes name it. Each of the module's texts stands in SPEC.md, and each text of its tables in the module."""
    own = table_of("spec-notes.md", "Numbers of the oracle's own choice")
    places = r"(\d{3}\.\d+|[24]\.\d+(, step \d+)?)"
    asked = [where for _, _, where in own if where[0].isdigit()]
    assert len(asked) > 45 and all(re.fullmatch(r"%s(, %s)*" % (places, places), where) for where in asked)
    assert {number for where in asked for number in re.findall(r"\d{3}\.\d+", where)} <= set(CLAUSES)
    known = [(name.strip("`"), value) for name, value, _ in own]
    units = {"KIB": 1024, "MIB": 1024**2}
    assert {**{name: float(value) for name, value in known}, **units} == constants(int, float)
    assert len(known) == len(dict(known))
    texts = [
        each for each in ast.walk(ast.parse(SOURCE)) if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    said = in_blanks("\0".join(each.value for each in texts).replace("\n", "\\n"))
    for name, text in constants(str).items():
        assert name in ("PROC", "LOADER") or in_blanks(text).replace("\n", "\\n") in in_blanks(SPEC), name
    errors, notes = SPEC.split("\n### 4.4 ")[1].split("\n### 4.6 ")[0].split("\n### 4.5 ")
    cells = re.findall(r"(?m)^\| `\w+` \| \w+ \| (.*?) \|", errors)
    cells += re.findall(r"(?m)^\| (`.*?`) \|", notes.split("\n(jobs) `{how}` of")[0])
    told = {text for cell in cells for text in re.findall("`([^`]+)`", cell) if " " in text}
    told -= {'PID "COMMAND"', "error: lost"}
    parts = [
        part
        for text in told
        for part in ([text] if in_blanks(text) in said else re.split("; |(?= could not be stored)", text))
    ]
    assert len(told) > 60 and [part for part in parts if in_blanks(part).removesuffix("_") not in said] == []


def in_blanks(text):
    """A text with one blank for each `{word}` of SPEC.md, and each `%s` of the code."""
    return re.sub(r"%(?:[dg]s|[sdg])|\{[^}\n]*\}", "_", text)


def errors_of_the_code():
    """The identifiers of errors that the code gives."""
    told = re.findall(
        r"(?:reject\(|rejected\(|failed\(|fail\(|SpawnError\(|\berror=|\berror, reason = |\"failed\", )\s*\"(\w+)\"",
        SOURCE,
    )
    return set(told) - set(bash_tool.OUTPUT_SCHEMA["properties"]["status"]["enum"]) | {"lost"}


def test_spec_results_and_errors():
    """The fields of a result in SPEC.md, the statuses and the identifiers of errors are those of the code."""
    rows = [row for row in rows_of("4.3 Results") if len(row) == 5]
    fields = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    assert fields == [one.name for one in dataclasses.fields(bash_tool.Result) if one.name[0] != "_"]
    over_mcp = [name for row in rows if row[2] == "yes" for name in re.findall(r"`(\w+)`", row[0])]
    assert over_mcp == bash_tool.OUTPUT_SCHEMA["required"] == list(bash_tool.OUTPUT_SCHEMA["properties"])
    ids = {row[0].strip("`") for row in rows_of("4.4 Errors") if len(row) == 5} - {"`error`", "error"}
    assert ids == errors_of_the_code()


def not_verbose(pattern):
    """The pattern without the white space and the comments that its flag x allows."""
    if not pattern.startswith("(?x"):
        return pattern
    lines = [re.sub(r"(?:^|\s+)# .*", "", line).strip() for line in pattern.split("\n")]
    return "".join(lines).replace("(?x", "(?", 1).replace("(?)", "").replace("\\ ", " ")


def test_spec_environment_and_patterns():
    """What SPEC.md says of names, values, patterns and the command line's options is what the code holds."""
    ((_, table),) = fenced("environment")
    assert dict(pair.split("=", 1) for pair in table.split()) == dict(bash_tool.NON_INTERACTIVE)
    table = SPEC.split("\n**Dropped** (")[1].split("\n**Set** (")[0]
    dropped = [name for names in re.findall(r"(?m)^\| (`[^|]*`) \|", table) for name in re.findall("`(.+?)`", names)]
    assert sorted(dropped) == sorted(bash_tool.DROPPED_NAMES)
    rules = [(name, body.replace("\n", "")) for name, body in fenced("rule")]
    flags = re.compile(r"^\(\?[ais]+\)")  # SPEC.md says them
    known = [("%d" % n, flags.sub("", not_verbose(rule[1]))) for n, rule in enumerate(bash_tool.SECRET_RULES, 1)]
    assert rules == known
    table = [row for row in rows_of("4.8 Directory, shell, environment") if row[0].isdigit()]
    told = [(row[1], {"secret": True, "plain": False}[row[2]]) for row in table]
    assert told == [(where, is_secret) for where, _, is_secret in bash_tool.SECRET_RULES]
    assert "PROXY, INDEX, INDEX_URL or REGISTRY" in SPEC and bash_tool._REMOTE_NAME.count("|") == 3
    assert fenced("groups") == [("", "\n".join(bash_tool.ENV_GROUPS))]
    patterns = dict(fenced("pattern"))
    assert len(patterns) == 9
    del patterns["TOKEN"]  # by it reads the twin of the renderer, which has patterns of its own
    for name, lines in patterns.items():
        pattern = getattr(bash_tool, "_" + name)
        pattern = flags.sub("", not_verbose(pattern if isinstance(pattern, str) else pattern.decode()))
        assert lines.replace("\n", "") == pattern, name
    options = SPEC.split("\n### 4.12 Command line\n")[1].split("\n### ")[0]
    server = SPEC.split("\n### 4.14 What a server takes\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(--[a-z-]+)", server, re.MULTILINE)) < set(re.findall(r"--[a-z-]+[a-z]", options))
    variables = re.findall(r"^\| (BASH_TOOL_[A-Z]+)", server, re.MULTILINE)
    assert set(variables) == set(re.findall(r"BASH_TOOL_[A-Z]+", SOURCE))
    taken = set(bash_tool._make_parser()._option_string_actions) - {"-h", "--help"}
    assert set(re.findall(r"--[a-z-]+[a-z]", options)) == taken


def test_help_lists_the_environment():
    """--help names each variable that is set and each that is taken out."""
    lines = cli("--help").stdout.decode().split("\n")
    assert len(lines) <= 2 * 24 and max(map(len, lines)) <= 80  # two screens
    told = set(re.findall(r"[^\s,]+", " ".join(lines)))
    assert {*bash_tool.NON_INTERACTIVE, *bash_tool.DROPPED_NAMES, "--keep-env", "--drop-env"} <= told


class LibraryConversation(Conversation):
    """An example, told to a tool of the library, to its command line in a shell, and to a server of its own."""

    def __init__(self, head, folder):
        changes, base, deny = {}, MODES, ()
        self.cancel_after, self.structured = None, False
        for key, value in re.findall(r"(\w+)=(\[[^\]]*\]|\S+)", head):
            if key == "cancel_after":
                self.cancel_after = float(value)
            elif key == "timeouts_s":
                changes[key] = dict(base.timeouts_s, **json.loads(value))
            elif key == "profile":
                base = PROFILES[value]
            elif key == "deny":
                deny = json.loads(value)
            elif key == "structured":
                self.structured = json.loads(value)
            elif key == "on_timeout":
                changes[key] = bash_tool.OnTimeout(value)
            else:
                changes[key] = json.loads(value)
        super().__init__(folder)
        self.tool = BashTool(folder, profile=dataclasses.replace(base, **changes), deny=deny)
        limits, self.client = self.tool.profile.timeouts_s.items(), None
        self.timeouts = {mode: limit for mode, limit in limits if limit != base.timeouts_s[mode]}
        commands = folder.parent / "commands"
        commands.mkdir()
        for name, words in (("bash_tool", [sys.executable, compiled_script()]), ("python3", [sys.executable])):
            (commands / name).write_text("#!/bin/sh\nexec %s \"$@\"\n" % " ".join(map(shlex.quote, words)))
            (commands / name).chmod(0o755)
        path, here = "%s:%s" % (commands, os.environ["PATH"]), str(TOOL.parent)
        self.env = dict(os.environ, PATH=path, PYTHONPATH=here, BASH_TOOL_DIR=here, BASH_TOOL_PYTHON=sys.executable)

    def probe(self, words):
        if words.startswith("within "):
            self.took -= slack_s()
        super().probe(words)

    def step(self, line):
        begun = time.monotonic()
        if line.startswith("$ "):
            done = ran("bash", "-c", self.fill(line[2:]), cwd=self.folder, env=self.env)
            text, is_error = done.stdout.decode("utf-8"), False
        else:
            cancel = None
            if self.cancel_after is not None:
                cancel = Cancel()
                threading.Timer(self.cancel_after, cancel.cancel).start() if self.cancel_after else cancel.cancel()
            result = self.tool.call(self.fill(line[2:]), cancel=cancel)
            text, is_error = result.text, result.is_error
        self.took = time.monotonic() - begun
        return text[:-1] if text.endswith("\n") else text, is_error

    def speak(self, line):
        """A line to a server, which is started for the first of them."""
        if self.client is None:
            options = dict(profile=self.tool.profile.name, timeouts=self.timeouts, structured=self.structured)
            self.client = Client(cwd=self.folder, **options)
        begun = time.monotonic()
        if line == "EOF":
            assert self.client.end() == 0
        else:
            self.client.send(self.fill(line).encode())
        self.took = time.monotonic() - begun

    def hear(self, line):
        """The next line of the server holds what this one shows."""
        begun = time.monotonic()
        got = self.client.receive()
        self.took += time.monotonic() - begun
        assert got is not None, "the server has ended, with exit code %s" % self.client.process.wait(timeout=PATIENCE_S)
        self.holds(got, json.loads(line), json.dumps(got)[:3000])


@exhaustive
@pytest.mark.parametrize("number, head, body", EXAMPLES, ids=[number for number, _, _ in EXAMPLES])
def test_example(number, head, body, tmp_path, monkeypatch):
    """Every example of SPEC.md holds."""
    ends = number in ("003.3", "003.10", "003.19", "003.22")  # what it starts has ended when it is answered
    is_timed = number in ("017.9", "025.25")  # a job of no time at all, a second: too short for a busy machine
    for left in reversed(range(40 if is_timed else 1)):
        folder = tmp_path / str(left) / "example"
        folder.mkdir(parents=True)
        conversation = LibraryConversation(head, folder)
        with conversation.tool, long_look() if ends else contextlib.nullcontext():
            try:
                return conversation.run(body)
            except AssertionError:
                if not left:
                    raise
            finally:
                if conversation.client is not None:
                    conversation.client.__exit__()


def test_spec_examples_can_be_dumped():
    """The dump holds each example whole: what it tells apart, put together again, is the example."""
    examples = json.loads(json.dumps(dumped_examples()))
    assert [each["clause"] for each in examples] == [number for number, _, _ in EXAMPLES]
    for each, (_, head, body) in zip(examples, EXAMPLES):
        lines = "\n".join("\n".join([line, *rest]) for line, rest, _ in steps_of(body))
        assert each["head"] == head
        assert sum(len(step["probes"]) for step in each["steps"]) == len(re.findall(r"^\? ", body, re.MULTILINE))
        assert sum(len(step["receive"]) for step in each["steps"]) == len(re.findall(r"^<- ", body, re.MULTILINE))
        for step in each["steps"]:
            assert len({"call", "shell", "send"} & set(step)) == 1
            assert all(line in lines for line in step["expect"].split("\n"))


@exhaustive
@pytest.mark.parametrize("asked", ("--levels", "028.*"))
def test_a_judge_that_asks_nothing_says_so(asked):
    """A word that names no clause, or none of the levels, is no verdict; `make clause` then asks no judge."""
    words = [sys.executable, "-m", "tests.conformance", shlex.join([sys.executable, str(TOOL), "--mcp"]), asked]
    env = dict(os.environ, BASH_TOOL_CLAIMS='{"levels": ["core", "server"]}')
    judged = ran(*words, cwd=HERE, env=env, text=True)
    said = "nothing to judge: no clause of the levels core, server is %s\n" % asked
    assert (judged.returncode, judged.stdout, judged.stderr) == (2, "", said)
    assert ("the judge's questions" in checks_of("028"), "the judge's questions" in checks_of("011")) == (False, True)


def test_the_line_in_the_file():
    """Above the line the file imports what is cheap, and a fork server that gets there goes no further; the sections that
    are called pure name nothing of the operating system."""
    lines = SOURCE.splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text.startswith("# ════ Above this line"))
    assert lines[line - 3].strip() == 'serve_forks(globals()["fork_server_control"])'
    heads = {text.split()[2]: n for n, text in enumerate(lines, 1) if re.match(r"# ---- \d+ ", text)}
    for node in ast.walk(ast.parse(SOURCE)):
        pure = heads["4"] < getattr(node, "lineno", 0) < heads["7"]
        if isinstance(node, ast.FunctionDef) and pure:
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            system = {"os", "signal", "subprocess", "select", "threading", "_thread", "time", "fcntl", "open"}
            assert not names & system, node.name
        if isinstance(node, (ast.Import, ast.ImportFrom)) and node.col_offset == 0 and node.lineno < line:
            modules = {name.name for name in node.names} if isinstance(node, ast.Import) else {node.module}
            costly = {"json", "re", "threading", "dataclasses", "enum", "tempfile", "codecs", "asyncio"}
            assert not modules & costly, modules


def test_public_docstrings_and_doctests():
    """Every public name says what it gives; the sessions in docstrings are true."""
    assert doctest.testmod(bash_tool).failed == 0
    page = pydoc.plain(pydoc.render_doc(bash_tool))
    public = [name for name in bash_tool.__all__ if name != "__version__"]
    assert all(page.index(name) < page.index("supervisor") for name in public)
    classes = set(re.findall(r"(?m)^    class (\w+)\(", page))
    assert classes == {name for name in public if inspect.isclass(getattr(bash_tool, name))}
    for name in bash_tool.__all__:
        assert name == "__version__" or name.isupper() or getattr(bash_tool, name).__doc__


def test_depends_on_nothing():
    """The module imports the standard library alone, and parses as Python 3.9."""
    tree = ast.parse(SOURCE, feature_version=(3, 9))
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported = {name.split(".")[0] for name in names}
    assert imported <= getattr(sys, "stdlib_module_names", imported)
