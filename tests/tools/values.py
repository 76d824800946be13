"""The values of bash_tool.py that pages repeat, where they repeat them, and what the last release had.

python -m tests.tools.values            writes the values of the file into the pages
python -m tests.tools.values release    does that, and keeps values and surface as those of the release that the file is

A page that says such a value in a text that is not here is told of by `stray`: add the text to COPIES, or to UNRELATED
where the number only happens to be the same.
"""

import json
import re
import sys

from tests.spec import HERE
from tests.support import GUARDED, JOBS, MODES, STREAMS, bash_tool
from tests.tools.surface import RELEASED, differences, surface

# The value and the clause that says it, or the section.
VALUES = {
    "default": (MODES.timeouts_s["default"], "002.1"),
    "slow": (MODES.timeouts_s["slow"], "002.2"),
    "background": (MODES.timeouts_s["background"], "003.7"),
    "others": (JOBS.timeouts_s["default"], "4.1"),
    "grace": (MODES.grace_s, "004.5"),
    "grace_after_host": (bash_tool.HOST_GONE_GRACE_S, "020.1"),
    "silence": (MODES.drain_idle_s, "2.1"),
    "drain": (MODES.drain_total_s, "2.1"),
    "ends": (MODES.snip_size, "001.3"),
    "shown": (MODES.max_output_bytes, "001.3"),
    "tail_bytes": (JOBS.max_output_bytes, "021.3"),
    "tail_lines": (JOBS.max_output_lines, "021.3"),
    "head_chars": (STREAMS.max_output_chars, "022.2"),
    "head_bytes": (GUARDED.max_output_bytes, "023.2"),
    "file": (bash_tool.FILE_CAP_BYTES, "009.5"),
    "folder": (bash_tool.FOLDER_CAP_BYTES, "009.6"),
    "files": (bash_tool.FOLDER_CAP_FILES, "009.6"),
    "live": (bash_tool.LIVE_BYTES, "016.2"),
    "jobs": (bash_tool.MAX_JOBS, "003.16"),
    "calls": (bash_tool.MAX_CALLS, "025.18"),
    "message": (bash_tool.MAX_MESSAGE_BYTES, "025.14"),
    "longest": (bash_tool.LONGEST_S, "026.1"),
}
UNITS = {"ms": 0.001, "min": 60, "h": 3600, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
SECONDS = "default slow background others grace grace_after_host silence drain longest".split()
BYTES = "ends shown tail_bytes head_bytes file folder live message".split()

# Each page and its copies: {name} is the plain number, {name:min} the number of minutes, {name:,} has commas.
COPIES = {
    "README.md": [
        "`default` ({default} s), `slow` ({slow:min} min, for builds) or `background` ({background:h} h, for servers)",
        "returns after {silence} s, and names",
        "keeps the first {file:MiB} MiB in a file",
        "Over {shown:KiB} KiB, counted before cleaning, the model sees the first and last {ends:KiB} KiB.",
        "a file with the first {file:MiB} MiB of it. A user's files share a folder; beyond {files:,} or {folder:GiB} GiB",
        "at its timeout, or [{grace} s later]",
    ],
    "docs/manual.md": [
        "falls {live:KiB} KiB behind",
        "the file with the output, up to {file:MiB} MiB of it",
        "from 1 to {background:ms,}; then",
        "{default} s, {slow:min} min or {background:h} h, by mode | {others} s, or the model's | {others} s | {others} s |",
        '{"default":{default},"slow":{slow},"background":{background}}',
        '{"default":{others}} | {"default":{others}} | {"default":{others}}',
        "| `grace_s` | {grace} | {grace} | {grace} | {grace} |",
        "| `drain_idle_s` | {silence} | {silence} | {silence} | {silence} |",
        "| `drain_total_s` | {drain} | {drain} | {drain} | {drain} |",
        "| `max_output_bytes` | {shown} | {tail_bytes} | – | {head_bytes} |",
        "| `max_output_lines` | – | {tail_lines} |",
        "| `max_output_chars` | – | – | {head_chars} |",
        "| `snip_size` | {ends} |",
        "leaves {ends:KiB} KiB of each end",
        "more than {shown:KiB} KiB is cut",
        "more than {tail_bytes:KiB} KiB:",
        "Beyond {files:,} files or {folder:GiB} GiB",
        "until {silence} s of silence, at most {drain} s",
        "| after {grace} s, the grace |",
        "in steps | {grace} s; a second cancel",
        "by SIGTERM to all of it | {grace} s; a second kill",
        "by SIGTERM to all of it | {grace_after_host} s |",
        "the same way | {grace_after_host} s |",
        "kept commands, in steps | {grace} s |",
        "leftovers and jobs too | {grace_after_host} s |",
        "in steps | {grace} s; a second Ctrl-C",
        "the server stays | {grace} s; a second SIGINT",
        "to end by themselves | {grace} s |",
        "{grace} s stands for",
        "| time of the mode `default` | {default} s (JOBS, STREAMS, GUARDED: {others} s) |",
        "| time of `slow` | {slow} s |",
        "above the {slow:min} min of",
        "| time of `background` | {background} s |",
        "| time of a kept command in all | {background} s |",
        "| from the first signal to SIGKILL | {grace} s |",
        "| reading on after the shell's end | {silence} s of silence, {drain} s in all |",
        "| each end of longer output (MODES) | {ends:KiB} KiB |",
        "| one output file | {file:MiB} MiB |",
        "| all output files of a folder | {folder:GiB} GiB, {files} files |",
        "| live background jobs of a tool | {jobs} |",
        "| live output that waits for `on_output` | {live:KiB} KiB |",
        "| running calls of one MCP client | {calls} |",
        "| one message to the MCP server | {message:MiB} MiB |",
        "| `timeout_s`, in the longest case | {longest:e} s |",
        'timeouts_s={"default": {default}, "slow": {slow}})` has no `background`',
        "{calls} calls of this MCP client",
    ],
    "docs/recipes.md": ["beyond {files:,} files or {folder:GiB} GiB", "takes up to {slow:min} min"],
    "docs/contributing.md": ["the {slow:min} minutes of `slow`"],
    "docs/design.md": [
        "until {silence} s of silence, at most {drain} s",
        "a stop in steps, at most {grace} s, KILL",
        "{file:MiB} MiB of it to a file",
        "TERM, {grace_after_host} s, KILL",
    ],
    "docs/spec-notes.md": [
        "at most {grace} s, then KILL",
        "after {grace_after_host} s when the host has left",
        "{tail_bytes:,} bytes without the last newline",
        "passes {tail_bytes:,} bytes, takes both streams",
        "at most {file:MiB} MiB",
        "{head_bytes:,} bytes, twice",
    ],
    "tests/vectors/README.md": ["with {default} and {slow} seconds, its own"],
    "SPEC.md": [
        "apply a timeout of {default} seconds.",
        "apply a timeout of {slow:min} minutes.",
        "default ({default}s timeout)",
        "slow ({slow:min}min timeout)",
        "In the place of {default}s and {slow:min}min stand",
        "has run for {background:h} hours,",
        "append `failed: timed out after {background}s`",
        "IF a tool has {jobs} live jobs",
        "still alive {grace} seconds after",
        "from 1000 to {slow:ms} milliseconds, got 120]",
        "(006.10), {slow:ms} or what was set",
        "| 002.2 | {slow} s of `slow` |",
        "at least; {slow:ms,} ms at most;",
        '{"default": {default}, "slow": {slow}',
        '"background": {background}}',
        "IF more than {file:MiB} MiB of output",
        "write the first {file:MiB} MiB alone",
        "more than {folder:GiB} GiB, or be more than {files:,},",
        "more than {tail_lines:,} lines or {tail_bytes:,} bytes",
        "from 1 to {background:ms,} and",
        "more than {head_chars:,} of them",
        "return the first {head_chars:,} and",
        "takes more than {message:MiB} MiB",
        "IF {calls} calls of a client",
        "ended {background:,} s after",
        "`tools/call`: {calls} calls",
    ],
}
# Where a page that users read says such a number of something else: in the tables of what the five documents ask they
# are the documents' own.
UNRELATED = {
    "README.md": [
        "returns after 30 s",
        "limit 2 s | raises after 2 s",
        "returns after 2 s; nothing",
        "timed out after 2s",
    ],
    "docs/manual.md": [
        "after 0.5 s; if the shell",
        "0.5 s and the last second are never",
        "of more than 128 KiB",
        "was idle for 0.5 s",
        "has more, up to 64 MiB",
        "goes to a file, raw, up to 64 MiB",
        "after it, at most 0.5 s",
        "after 0.5 s; if the shell ends",
        "timed out after 30s]",
    ],
    "docs/design.md": [
        "| `default`, or no mode: 30 seconds,",
        "| `slow`: 15 minutes,",
        "| `background`: 24 hours,",
        "the process group, 15 seconds",
        "after 120 seconds the command goes on",
        "in milliseconds, 120,000 if missing",
        "1 GiB of output,",
        "A user has 64 MiB of pipes",
        "One argument has at most 128 KiB",
        "over 128 KiB; quotes",
    ],
    "docs/recipes.md": ["the limit is 30 s"],
    "tests/vectors/README.md": [],
}
FIELD = re.compile(r"\{(\w+)(?::([a-zA-Z]*)(,?))?\}")


def number(value, unit="", commas=""):
    """A value in this unit, as a page writes it; the unit e is a power of ten."""
    if unit == "e":
        return ("%e" % value).replace(".000000e+0", "e")
    value = round(value / UNITS.get(unit, 1), 6)
    return "{:{}}".format(int(value) if value == int(value) else value, commas and ",")


def numbers(copy):
    """The numbers of a copy, with the values of the file."""
    return [number(VALUES[field[1]][0], field[2] or "", field[3] or "") for field in FIELD.finditer(copy)]


def filled(copy):
    """The text of a copy with the values of the file."""
    found = iter(numbers(copy))
    return FIELD.sub(lambda field: next(found), copy)


def places(page, copy):
    """Where a page has the copy, whatever the numbers: its matches, with the numbers as groups."""
    texts = [r"\s+".join(map(re.escape, re.split(r"\s+", text))) for text in FIELD.split(copy)[::4]]
    return re.finditer(r"(?<![\d.,])" + r"([\d.,e]*\d)".join(texts), page)


def page_text(name):
    return (HERE / name).read_text(encoding="utf-8")


def wrong_copies():
    """What pages say that is not the value of the file: "PAGE: `what stands there` should be `…`"."""
    for name, copies in COPIES.items():
        page = page_text(name)
        for copy in copies:
            found = [match[0] for match in places(page, copy)]
            if not found:
                yield "%s: `%s` stands nowhere; `COPIES` names it" % (name, copy)
            for text in found:
                if " ".join(text.split()) != filled(copy):
                    yield "%s: `%s` should be `%s`" % (name, text, filled(copy))


def writings(name, value):
    """The ways in which pages write such a value with its unit."""
    if name in BYTES:
        return ["%s %s" % (number(value, unit), unit) for unit in ("KiB", "MiB", "GiB") if not value % UNITS[unit]]
    if name not in SECONDS:
        return []
    found = ["%s %s" % (number(value), unit) for unit in ("s", "seconds")] + [number(value) + "s"]
    for unit, word in ("min", "minutes"), ("h", "hours"):
        if not value % UNITS[unit]:
            found += ["%s %s" % (number(value, unit), each) for each in (unit, word)] + [number(value, unit) + unit]
    return found + [number(value, "ms"), number(value, "ms", ",")] * (value >= 60)


def codings(name, value):
    """The ways in which tests and examples write it: also as a plain number, and by the name of the constant."""
    known = {each for each, other in vars(bash_tool).items() if each.isupper() and other == value}
    known |= {"SLOW_MS", "MODES_S"} if name in ("default", "slow", "background") else set()
    is_plain = value >= 100 and name in SECONDS + BYTES
    return {*writings(name, value), *known, *[number(value)] * is_plain}


def stray():
    """What pages that users read say of a value in a text that is no copy: nothing would hold it."""
    for name, unrelated in UNRELATED.items():
        page = page_text(name)
        held = [match.span() for copy in COPIES[name] + unrelated for match in places(page, copy)]
        for value in VALUES:
            for text in writings(value, VALUES[value][0]):
                for found in re.finditer(r"(?<![\w.,])%s(?!\w)" % re.escape(text), page):
                    if not any(first <= found.start() < last for first, last in held):
                        line = page[: found.start()].count("\n") + 1
                        yield "%s:%d: `%s`, as long as %s: put it into COPIES or UNRELATED" % (name, line, text, value)


def too_short():
    """The limits that the pages give to clients, which must be longer than `slow`: seconds, or milliseconds in JSON."""
    given = r'(?:read_timeout|client_session_timeout_seconds|tool_timeout_sec)\s*=\s*(\d+)|"timeout": (\d{4,})000\b'
    for name in ("docs/manual.md", "docs/recipes.md"):
        for found in re.finditer(given, page_text(name)):
            if int(found[1] or found[2]) <= VALUES["slow"][0]:
                yield "%s: `%s` ends a call in the mode `slow` before its own limit" % (name, found[0])


def untold():
    """The values and names that differ from those of the last release without a word in docs/changes.md above it."""
    released = json.loads(RELEASED.read_text(encoding="utf-8"))
    news = page_text("docs/changes.md").partition("\n## %s\n" % released["version"])[0]
    for name, (value, clause) in VALUES.items():
        was = released["values"].get(name, value)
        lines = [line for line in re.split(r"\n(?=- |\n)", news) if clause in line]
        if was != value and not any(text in line for line in lines for text in [number(value), *writings(name, value)]):
            said = (clause, name, number(was), number(value))
            yield "docs/changes.md: no entry with (%s) says that %s is no longer %s but %s" % said
    for name, difference in differences():
        function, _, parameter = name.rstrip(")").partition("(")
        words = [re.escape(function)] + [r"\([^`\n]*\b" + parameter] * bool(parameter)
        if not re.search(r"`[^`\n]*(?<![\w-])%s\b" % "".join(words), news):
            yield "docs/changes.md: nothing above %s names `%s`. %s" % (released["version"], name, difference)


def main(is_release):
    """Writes the values into the pages; returns what has to be done by hand."""
    for name, copies in COPIES.items():
        page = before = page_text(name)
        for copy in copies:
            for match in reversed([*places(page, copy)]):
                for n, text in reversed([*enumerate(numbers(copy), 1)]):
                    page = page[: match.start(n)] + text + page[match.end(n) :]
        if page != before:
            (HERE / name).write_text(page, encoding="utf-8")
            print("written: " + name)
    if is_release:
        values = {name: value for name, (value, _) in VALUES.items()}
        known = {"version": bash_tool.__version__, "values": values, "surface": surface()}
        known = json.dumps(known, indent=1, ensure_ascii=False)
        RELEASED.write_text(known + "\n", encoding="utf-8")
    return [*wrong_copies(), *stray(), *too_short(), *untold()]


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["release"]):
        sys.exit(__doc__)
    sys.exit("\n".join(main(sys.argv[1:] == ["release"])) or None)
