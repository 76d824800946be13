"""SPEC.md as data: its clauses, tables, levels and examples, and its text for some levels. Takes the standard library
alone, because the judge of foreign servers reads the page through this module."""

import functools
import json
import re
import textwrap
from pathlib import Path

from tests.processes import alive, eventually, number_in


HERE = Path(__file__).resolve().parent.parent
SPEC = (HERE / "SPEC.md").read_text(encoding="utf-8")
CLAUSE = re.compile(r"^#### REQ-BASH-(\d{3}\.\d+)\n> (.*?)\n\n(.*?)(?=^#{2,4} |\Z)", re.MULTILINE | re.DOTALL)
CLAUSES = {number: (" ".join(sentence.split()), body) for number, sentence, body in CLAUSE.findall(SPEC)}
FENCE = re.compile(r"^```example REQ-BASH-(\d{3}\.\d+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = [(number, head.strip(), body) for number, head, body in FENCE.findall(SPEC)]


def fenced(kind, page=SPEC):
    """The fences of SPEC.md, or of another page, of this kind: what stands behind the word, and the body."""
    return re.findall(r"^```%s ?([^\n]*)\n(.*?)\n```$" % kind, page, re.MULTILINE | re.DOTALL)


def verdicts():
    """Of each variable in the notes to SPEC.md its name, its value, the verdict, and the rule that decides (0: none)."""
    ((_, lines),) = fenced("verdicts", (HERE / "docs" / "spec-notes.md").read_text(encoding="utf-8"))
    for line in lines.splitlines():
        name, parts, verdict, rule = json.loads(line)
        yield name, "".join(parts), verdict, rule


def rows_of(heading):
    """The rows of the tables of a section of SPEC.md, as lists of cells."""
    section = SPEC.split("\n### %s\n" % heading)[1]
    lines = re.split(r"^###? ", section, flags=re.MULTILINE)[0].splitlines()
    return [re.split(r" \| ", line[2:-2]) for line in lines if line.startswith("| ")]


# A level is built upon others: to ask for it is to ask for them too. "oracle" explains this implementation alone.
UPON = {row[0]: re.findall(r"`(\w+)`", row[1]) for row in rows_of("1.3 Conformance")[1:] if len(row) == 3}
LEVELS_OF = {row[0][1:].split("]")[0]: row[3].split(", ") for row in rows_of("3.1 Contents")[1:]}
TAG = re.compile(r"((?:- |\d+\. )?)\((not )?((?:%s)(?:, (?:%s))*)\)(?: |\Z)" % (("|".join([*UPON, "oracle"]),) * 2))
BLOCK = re.compile(
    r"^```[^\0]*?^```$|^#+ .*$|^\|.*(?:\n\|.*)*|^(?:- |\d+\. |> ).*(?:\n(?!- |\d+\. |\||```).+)*"
    r"|^.+(?:\n(?!- |\d+\. |\||```|#).+)*|^$",
    re.MULTILINE,
)
REFERENCE = r"(?:\d{3}(?:\.\d+)?|[1-7]\.\d{1,2}|section \d)"


def holds_clause(levels, number):
    """Whether one of these levels has the clause."""
    return not set(levels).isdisjoint(LEVELS_OF.get(number, ()))


def table_for(table, held):
    """The table without the rows and columns of other levels, without the column that says so, and without reasons; "" if
    no row is left."""
    head, rule, *rows = [re.split(r" \| ", line[2:-2]) for line in table.splitlines()]
    column = head.index("level") if "level" in head else None
    other = {"because", *UPON} - held
    shown = [n for n, name in enumerate(head) if (n != column or n == 0) and name not in other]
    kept = [row for row in rows if column is None or set(row[column].split(", ")) & held]
    # A row of nothing but dashes is a field that they do not use.
    kept = [row for row in kept if len(shown) < 2 or {row[n] for n in shown[1:]} != {"–"}]
    if len(shown) == 1:
        return ", ".join(row[shown[0]] for row in kept)
    lines = ["| %s |" % " | ".join(row[n] for n in shown) for row in [head, *kept]]
    return "\n".join([lines[0], "|" + "-|" * len(shown), *lines[1:]]) if kept else ""


def without_references(text, known):
    """The text without the references in parentheses to what is not among the known numbers."""

    def kept(match):
        numbers = [number for number in match.group(1).split(", ") if number in known]
        return "%s(%s)" % (match.group()[0], ", ".join(numbers)) if numbers else ""

    return re.sub(r"\s\((%s(?:, %s)*)\)" % (REFERENCE, REFERENCE), kept, text)


# What an example needs beyond `core`, found in its head and its body. The server's own program is `bash_tool --mcp`.
EXAMPLE_NEEDS = {
    "server": r"^-> |--mcp\b",
    "jobs": r"\"mode\": \"background\"|mode=\"background\"\)|--mode background|--jobs\b",
    "library": r"(?:from|import) bash_tool|\b(?:cancel_after|max_output_\w+)=",
    "command line": r"^(?!.*import bash_tool|.*from bash_tool).*\bbash_tool(?:\.py| (?!--mcp))",
}


def offers_example(held, head, body):
    """Whether tools of these levels offer what an example uses."""
    return {level for level, uses in EXAMPLE_NEEDS.items() if re.search(uses, head + "\n" + body, re.MULTILINE)} <= held


NOT_KEPT = "this command's working directory and exported variables were not kept"
SILENT = "nothing was printed; a program may hold its output back: stdbuf -oL, python3 -u"
LONGER_MODES = '[for longer commands use mode="slow", for servers mode="background"]'
LONGER_SLOW = '[for longer commands use mode="slow"]'

# What examples, tables and grammars say of background commands, and what a tool without them says in its place.
WITHOUT_JOBS = (
    *(
        ("| %s\n" % LONGER_MODES, ""),
        (LONGER_MODES + "\n", LONGER_SLOW + "\n"),
        (', "background": 86400', ""),
        ("[job NL]? ", ""),
    ),
    *(
        ("(LONGER_MODES | LONGER_SLOW)", "LONGER_SLOW"),
        (", and not for a background command that runs", ""),
        (" text [end]? ", " text "),
    ),
)


def without_jobs(body):
    """An example, a table or a grammar for a tool that has no background commands."""
    for told, instead in WITHOUT_JOBS:
        body = body.replace(told, instead)
    return re.sub(r"^(?:job|end) +=.*\n", "", body, flags=re.MULTILINE)


# Conditions that always hold for a tool that has MODES alone and the environment of its own process: where no other
# level is asked for, clauses are shown without them.
ALWAYS = re.compile(
    "^> WHERE (?:the profile is MODES|text is rendered|the middle is cut|streams are merged|the environment is the process's own), "
)
CHANGING = {"JOBS", "STREAMS", "GUARDED", "library"}


@functools.lru_cache(maxsize=None)
def spec_for(*levels):
    """The text of SPEC.md for these levels and for those that they are built upon, without the reasons, and the numbers that
    it explains. An example is shown if a tool of these levels offers all that the example uses."""
    held = set(levels)
    while not held >= {below for level in held for below in UPON[level]}:
        held |= {below for level in held for below in UPON[level]}
    scopes = []  # of each heading above: its depth, and whether its text is shown
    last, blocks = True, []  # whether the last block is shown
    for block in BLOCK.findall(SPEC):
        depth, tag = len(re.match("#*", block).group()), TAG.match(block)
        if depth:
            scopes = [(d, shown) for d, shown in scopes if d < depth]
            clause = re.match(r"#### REQ-BASH-(\S+)", block)
            shown = all(shown for _, shown in scopes) and (clause is None or holds_clause(held, clause.group(1)))
            scopes.append((depth, shown))
            last = True
        elif block.startswith("Level: "):
            scopes[-1] = (scopes[-1][0], scopes[-1][1] and bool(held & set(block[7:].rstrip(".").split(", "))))
            continue
        elif tag:
            last = bool(held & set(tag.group(3).split(", "))) != bool(tag.group(2))
            block = tag.group(1) + block[tag.end() :]
        elif block.startswith("```example "):
            ((_, head, body),) = FENCE.findall(block)
            last = offers_example(held, head.strip(), body)
        elif block and not block.startswith(("```", "|")):
            last = True
        if block.startswith("Why: "):
            continue  # SPEC.md has the reasons
        if all(shown for _, shown in scopes) and (depth or last or not block):
            block = table_for(block, held) if block.startswith("|") else block
            fenced_or_table = block.startswith(("```", "|"))
            block = without_jobs(block) if fenced_or_table and "jobs" not in held else block
            block = re.sub(r"^(```example) REQ-BASH-[\d.]+", r"\1", block)  # it stands below its clause
            block = re.sub(r"^#### REQ-BASH-", "#### ", block)
            block = re.sub(r"(?m)^\| \[([\d.]+)\]\(#req-bash-\d+\)", r"| \1", block)  # the contents
            blocks.append(block if held & CHANGING else ALWAYS.sub("> ", block))
    for n in reversed(range(len(blocks))):  # a heading with nothing below it
        below = next((other for other in blocks[n + 1 :] if other), "#")
        if blocks[n].startswith("#") and re.match("#*", below).end() in range(1, re.match("#*", blocks[n]).end() + 1):
            blocks[n] = ""
    numbers = {number for block in blocks for number in re.findall(r"^#+ (?:REQ-BASH-)?([\d.]+)", block)}
    known = numbers | {"section " + number for number in numbers}
    blocks = [
        block for n, block in enumerate(blocks) if block or n == 1 or n and not re.match(r"#|> |\Z", blocks[n - 1])
    ]
    blocks[0] += (
        "\n\nThis is its text for %s, without the reasons. Numbers that are missing belong to other levels, as does "
        "the example of a clause without one." % " and ".join(name for name in UPON if name in held)
    )
    return "\n".join(block if block.startswith("```") else without_references(block, known) for block in blocks), known


def unfolded(lines):
    """The lines of a step, each with the `| ` lines right below it put into it, and what is asked as requests."""
    whole, more = [], []
    for line in [*lines, ""]:
        if re.match(r"\|( |$)", line) and whole and re.match(r"[>$] |-> |<- ", whole[-1]):
            more.append(line[2:])
            continue
        if more:
            script = json.dumps("\n".join(more), ensure_ascii=False)
            as_it_is = whole[-1].startswith("$ ")
            below = re.sub("(?<=: )…(?=[,}])", lambda _: script, whole[-1])
            whole[-1] = below if below != whole[-1] else ("\n" if as_it_is else " ").join([whole[-1], *more])
            more = []
        whole.append(line)
    return [as_request(line) for line in whole[:-1]]


def as_request(line):
    """A line `-> call` or `-> ask` as the request that it stands for; any other line as it is."""
    line = re.sub(r"^-> call (\S+) (.*)", r'-> ask \1 tools/call {"name": "bash", "arguments": \2}', line)
    asked = re.fullmatch(r"-> ask (\S+) (\S+)(?: (.*))?", line)
    if asked is None:
        return line
    params = ', "params": %s' % asked[3] if asked[3] else ""
    return '-> {"jsonrpc": "2.0", "id": %s, "method": "%s"%s}' % (asked[1], asked[2], params)


def steps_of(body):
    """The steps of an example: what is done, the lines below it, and those of them that are the expected text."""
    steps = re.split(r"^(?=[>$] |-> )", body, flags=re.MULTILINE)
    assert steps[0] == "" and len(steps) > 1
    for step in steps[1:]:
        line, *rest = unfolded(step.rstrip("\n").split("\n")) if step.rstrip("\n") else [step]
        expected = [r for r in rest if not re.match(r"(! error$|\? |<- )", r)]
        if step.endswith("\n\n") and step is not steps[-1]:
            expected.append("")
        yield line, rest, expected


def dumped_examples():
    """The examples of SPEC.md, for a runner in any language."""
    kinds = {">": "call", "$": "shell", "-": "send"}

    def dumped(line, rest, expected):
        return {
            kinds[line[0]]: line.partition(" ")[2],
            "expect": "\n".join(expected),
            "error": "! error" in rest,
            "receive": [json.loads(words[3:]) for words in rest if words.startswith("<- ")],
            "probes": [words[2:] for words in rest if words.startswith("? ")],
        }

    return [
        dict(clause=n, head=head, black_box=on_the_wire(head, body), steps=[dumped(*step) for step in steps_of(body)])
        for n, head, body in EXAMPLES
    ]


class Conversation:
    """Runs the steps of one example; see the notation in SPEC.md, section 1. What is asked, and how, is a subclass's:
    `step` does a line and returns text and error mark, `speak` sends a line to a server, `hear` compares its next line."""

    def __init__(self, folder):
        self.folder, self.bound, self.took = folder, {}, 0.0

    def fill(self, text):
        return re.sub(r"\{\{(\w+)\}\}", lambda m: self.bound.get(m.group(1), m.group(0)), text)

    def holds(self, got, shown, where):
        if isinstance(shown, dict):
            assert isinstance(got, dict) and set(shown) <= set(got), where
            for key, value in shown.items():
                self.holds(got[key], value, where)
        elif isinstance(shown, list):
            assert isinstance(got, list) and len(got) == len(shown), where
            for one, other in zip(got, shown):
                self.holds(one, other, where)
        elif isinstance(shown, str) and isinstance(got, str):
            self.expect(got, shown.split("\n"))
        else:
            assert (got, type(got)) == (shown, type(shown)), where

    def expect(self, text, pattern_lines):
        names, pattern = {}, ""
        for n, line in enumerate(pattern_lines):
            if line == "{{**}}":
                pattern += r"(?:.*\n)*?"
                continue
            for piece in re.split(r"(\{\{(?:\*|\w+)\}\})", line):
                name = re.fullmatch(r"\{\{(\w+)\}\}", piece)
                if piece == "{{*}}":
                    pattern += ".*"
                elif name is None:
                    pattern += re.escape(piece)
                elif name.group(1) in self.bound:
                    pattern += re.escape(self.bound[name.group(1)])
                elif name.group(1) in names:
                    pattern += "(?P=%s)" % name.group(1)
                else:
                    names[name.group(1)] = True
                    pattern += "(?P<%s>.+?)" % name.group(1)
            pattern += "\n" if n < len(pattern_lines) - 1 else ""
        match = re.fullmatch(pattern, text)
        assert match, "expected\n%s\ngot\n%s" % ("\n".join(pattern_lines), text[:3000])
        self.bound.update(match.groupdict())

    def probe(self, words):
        kind, *rest = self.fill(words).split()
        path = self.folder / rest[0] if rest else None
        if kind in ("dead", "alive"):
            pid = number_in(path)
            assert eventually(lambda: alive(pid) == (kind == "alive")), words
        elif kind == "within":
            assert self.took < float(rest[0]), (words, self.took)
        else:
            known = {
                "exists": path.exists,
                "absent": lambda: not path.exists(),
                "mode": lambda: path.stat().st_mode & 0o7777 == int(rest[1], 8),
                "size": lambda: path.stat().st_size == int(rest[1]),
            }
            assert known[kind](), (words, path.exists() and path.stat())

    def run(self, body, marks=True):
        for line, rest, expected in steps_of(body):
            if line.startswith("-> "):
                self.speak(line[3:])
                for words in rest:
                    assert words.startswith(("<- ", "? ")), words
                    self.hear(words[3:]) if words.startswith("<- ") else self.probe(words[2:])
                continue
            text, is_error = self.step(line)
            self.expect(text, expected)
            is_right = is_error == ("! error" in rest) or line.startswith("$ ") or not marks
            assert is_right, "is_error is %s after %s" % (is_error, line)
            for words in rest:
                if words.startswith("? "):
                    self.probe(words[2:])


def on_the_wire(head, body):
    """Whether an example asks for nothing but what goes over a wire."""
    heads = {key for key, _ in re.findall(r"(\w+)=(\[[^\]]*\]|\S+)", head)}
    scripts = [line for line, _, _ in steps_of(body) if line.startswith("$ ")]
    is_for_a_server = heads <= {"profile", "timeouts_s", "grace_s", "structured"}
    return is_for_a_server and not re.search(r"\b(bash_tool|python3)\b", "\n".join(scripts))


def size_in_words(count):
    """A size as 4.7 writes it."""
    units = {"GB": 1 << 30, "MB": 1 << 20, "KB": 1 << 10, "B": 1}
    name, unit = next((name, unit) for name, unit in units.items() if count >= unit or unit == 1)
    return "%d%s" % (count // unit, name) if count % unit == 0 else "%.1f%s" % (count / unit, name)


def phases(table):
    """The phases in the docstring of `Life`: {name: (what it is, {next phase: because})}."""
    found, name = {}, ""
    for line in re.findall(r"(?m)^ *\| (.*) \|$", table)[1:]:
        first, what, because = [cell.strip() for cell in line.split(" | ")]
        name = first or name
        words, moves = found.get(name, ("", {}))
        moved = re.match(r"([a-z, ]+): (.+)", because)
        for phase in moved[1].split(", ") if moved else [*moves][-1:]:
            moves[phase] = moved[2] if moved else "%s %s" % (moves[phase], because)
        found[name] = ("%s %s" % (words, what)).strip(), moves
    return {
        name: (what, {phase: text.strip() for phase, text in moves.items()}) for name, (what, moves) in found.items()
    }


def state_diagram(table):
    """The same as a picture that GitHub draws."""

    def label(text):  # a semicolon would end the line
        return "<br/>".join(textwrap.wrap(text.replace(";", ","), 40))

    known = phases(table)
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> %s" % [*known][0].title()]
    lines += [
        '    state "%s" as %s' % (label("%s: %s" % (name, what)), name.title()) for name, (what, _) in known.items()
    ]
    for name, (_, moves) in known.items():
        lines += [
            "    %s --> %s: %s" % (name.title(), to.title(), label(because)) for to, because in moves.items() if to
        ]
    return "\n".join([*lines, "    %s --> [*]" % [*known][-1].title(), "```"]) + "\n"
