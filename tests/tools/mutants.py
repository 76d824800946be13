"""A panel that makes itself: servers that differ from the oracle in one place, and whether the judge sees it.

python -m tests.tools.mutants            draws 200 mutants; BASH_TOOL_SEED and the options say otherwise
python -m tests.tools.mutants --count 8 --seed 1 --minutes 3
python -m tests.tools.mutants --list     all there are, by kind

Mutants are found in the syntax of bash_tool.py, not by names: each number of a module or a class is made one more, one
less, half and double; each comparison by order takes its border in, or leaves it out; `min` and `max` change places; each
word of a table is taken out; each condition on a count or a place is dropped. A mutant is dishonest if it answers a vector
or a recorded call otherwise than the oracle. On the dishonest ones the judge asks the clauses that they touch, with `--all`
then all others too.
"""

import argparse
import ast
import collections
import contextlib
import importlib
import json
import os
import py_compile
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.conformance import borders, core, jobs, judge, output, server, situations  # noqa: F401  (questions)
from tests.conformance.judge import Judge, WIRE_LEVELS, several_at_once
from tests.spec import HERE
from tests.support import SABOTEURS, SOURCE, TOOL, one_or_more, spans
from tests.tools.recorded_calls import differences, recorded

Mutant = collections.namedtuple("Mutant", "kind place line old new begin end")
QUESTIONS_AT_ONCE = 6  # of one mutant
ORDERED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}


class Finder(ast.NodeVisitor):
    """The mutants of a source."""

    def __init__(self, source):
        self.source, self.found, self.around = source, [], []
        self.begins = [0]
        for line in source.encode().split(b"\n"):
            self.begins.append(self.begins[-1] + len(line) + 1)
        self.data = source.encode()
        self.visit(ast.parse(source))

    def span(self, node):
        ends = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        return [self.begins[line - 1] + column for line, column in ends]

    def text(self, node):
        begin, end = self.span(node)
        return self.data[begin:end].decode()

    def add(self, kind, node, new):
        begin, end = self.span(node)
        self.add_at(kind, node.lineno, begin, end, new)

    def add_at(self, kind, line, begin, end, new):
        place = ".".join(self.around)
        self.found.append(Mutant(kind, place, line, self.data[begin:end].decode(), new, begin, end))

    def within(self, node, name):
        self.around.append(name)
        self.generic_visit(node)
        self.around.pop()

    def visit_FunctionDef(self, node):
        self.within(node, node.name)

    visit_ClassDef = visit_FunctionDef

    def visit_Assign(self, node):
        target = getattr(node, "targets", [getattr(node, "target", None)])[0]
        in_function = any(part[:1].islower() or part.startswith("_") for part in self.around)
        if isinstance(target, ast.Name) and not in_function and node.value is not None:
            self.around.append(target.id)
            self.table(node.value)
            self.generic_visit(node)
            self.around.pop()
        else:
            self.generic_visit(node)

    visit_AnnAssign = visit_Assign

    def table(self, value):
        """What stands in a module or a class: its numbers, and the words of its tables."""
        for node in ast.walk(value):
            if isinstance(node, ast.Constant) and type(node.value) in (int, float):
                number = node.value
                for new in (number + 1, number - 1, number / 2, number * 2):
                    new = int(new) if isinstance(number, int) else new
                    if new != number and new >= 0:
                        self.add("number", node, repr(new))
            elif isinstance(node, (ast.Tuple, ast.List, ast.Set)) and len(node.elts) > 2:
                for element in node.elts:
                    self.without(element)
            elif isinstance(node, ast.Dict) and len(node.keys) > 2:
                for key, element in zip(node.keys, node.values):
                    if key is not None:
                        begin, end = self.span(key)[0], self.span(element)[1]
                        self.dropped("word", node.lineno, begin, end)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                self.words(node)

    def without(self, node):
        begin, end = self.span(node)
        self.dropped("word", node.lineno, begin, end)

    def dropped(self, kind, line, begin, end):
        more = re.match(rb"\s*,", self.data[end:])
        self.add_at(kind, line, begin, end + (more.end() if more else 0), "")

    def words(self, node):
        """The words of a text that is split, and the alternatives of a pattern, as they stand in the source."""
        begin, end = self.span(node)
        text = self.data[begin:end].decode()
        if re.search(r"\w+\|\w+", text):
            for word in re.finditer(r"(?<=[|(:])\w+\|", text):
                at = begin + len(text[: word.start()].encode())
                self.add_at("word", node.lineno, at, at + len(word[0].encode()), "")
        elif self.data[end : end + 7] == b".split(":
            for word in re.finditer(r"(?<=[ \"\n])[\w.-]+(?=[ \"\n])", text):
                at = begin + len(text[: word.start()].encode())
                self.add_at("word", node.lineno, at, at + len(word[0].encode()), "")

    def visit_Compare(self, node):
        if len(node.ops) == 1 and type(node.ops[0]) in ORDERED:
            left, right = self.span(node.left)[1], self.span(node.comparators[0])[0]
            between = self.data[left:right].decode()
            old = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}[type(node.ops[0])]
            new = between.replace(old, ORDERED[type(node.ops[0])], 1)
            self.add_at("comparison", node.lineno, left, right, new)
        self.generic_visit(node)

    def visit_Call(self, node):
        name = getattr(node.func, "id", "")
        if name in ("min", "max"):
            self.add("min and max", node.func, {"min": "max", "max": "min"}[name])
        self.generic_visit(node)

    def counts(self, node):
        """Whether an expression is a condition on a count or a place."""
        kinds = [each for each in ast.walk(node) if isinstance(each, ast.Compare) and type(each.ops[0]) in ORDERED]
        return bool(kinds) or re.search(r"\blen\(|\.count\(|\.(?:start|end)swith\(|\[-?[01]\]", self.text(node))

    def visit_If(self, node):
        if self.counts(node.test):
            self.add("condition", node.test, "True")
            self.add("condition", node.test, "False")
        self.generic_visit(node)

    visit_IfExp = visit_If

    def visit_BoolOp(self, node):
        for value in node.values:
            if self.counts(value):
                self.add("condition", value, "True" if isinstance(node.op, ast.And) else "False")
        self.generic_visit(node)

    def visit_Subscript(self, node):
        if isinstance(node.slice, ast.Slice):
            for bound in (node.slice.lower, node.slice.upper):
                if bound is not None:
                    self.add("condition", bound, "")
        self.generic_visit(node)


def mutants(source=SOURCE):
    """All mutants of the source that are Python."""
    return Finder(source).found


def changed(source, mutant):
    data = source.encode()
    return (data[: mutant.begin] + mutant.new.encode() + data[mutant.end :]).decode()


def places_of(source, mutant):
    """The definitions that a mutant touches: its own, and those that name it, up to two steps away."""
    names = {mutant.place, mutant.place.split(".")[0]}
    for _ in range(2):
        lasts = {re.escape(name.rpartition(".")[2]) for name in names if name}
        pattern = re.compile(r"(?<![\w\"'])(?:%s)\b" % "|".join(lasts or {"(?!)"}))
        near = {name for name, ((begin, end), *_) in spans(source).items() if pattern.search(source[begin:end])}
        if len(near) > 25:  # a name that stands everywhere
            break
        names |= near
    return names


def touched(mutant, clauses):
    """The clauses whose saboteur stands at the same place, and those of the vectors that differ."""
    names = places_of(SOURCE, mutant)
    same = {number for number, way in SABOTEURS.items() if {place for place, _, _ in one_or_more(way)} & names}
    return [number for number in SABOTEURS if number in same | {*clauses}]


def run(*words, within_s):
    """The output of a Python that may hang; None if it did, or failed."""
    try:
        done = subprocess.run(
            [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=HERE, timeout=within_s
        )
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.decode() if done.returncode == 0 else None


WRONG_CASES = """
import itertools, json, sys
from tests.support import load_tool
from tests.vectors import KINDS, wrong_cases
tool, found = load_tool(sys.argv[1], "mutant"), []
for kind in KINDS:
    if kind == "lives":  # for information: no client sees how a life goes
        continue
    wrong = itertools.islice(wrong_cases(tool, kind), 30)
    found += [[case["clause"], json.dumps(case)[:300], json.dumps(got)] for case, got in wrong]
print(json.dumps(found))
"""


class Panel:
    """Judges mutants, some at once."""

    def __init__(self, folder, until, report, asks_all):
        self.folder, self.until, self.report, self.asks_all = Path(folder), until, report, asks_all

    def words(self, path):
        """The words that start a server, which comes compiled: that takes half of the time."""
        compiled = self.folder / path.parent.name / "bash_tool.pyc"
        if not compiled.exists():
            py_compile.compile(str(path), str(compiled), doraise=True)
        return [sys.executable, str(compiled), "--mcp"]

    def record_the_oracle(self):
        """What the oracle answers to the recorded calls, three times, and which vectors it has left behind."""
        self.judge_of_oracle = Judge(self.words(TOOL), claims={"levels": list(WIRE_LEVELS)})
        self.wrong_cases = json.loads(run("-c", WRONG_CASES, str(TOOL), within_s=300) or "[]")
        self.oracle = [recorded(self.words(TOOL)) for _ in range(3)]
        self.unsteady = {*differences(self.oracle, [recorded(self.words(TOOL))]), *differences(*zip(self.oracle[:2]))}

    def differs(self, path):
        """How the mutant differs, if it does, and the clauses of the vectors that say so."""
        said = run("-c", WRONG_CASES, str(path), within_s=300)
        if said is None:
            return "cannot be loaded, or hangs", []
        cases = [case for case in json.loads(said) if case not in self.wrong_cases]
        if cases:
            return "vectors, such as %s" % cases[0][1], [clause for clause, _, _ in cases]
        seen = []
        for _ in range(3):
            seen.append(recorded(self.words(path)))
            found = {*differences(self.oracle, seen)} - self.unsteady
            if not found:
                return "", []
        again = [*self.oracle, recorded(self.words(TOOL)), recorded(self.words(TOOL))]  # on the machine as it is now
        found = {*differences(again, seen)} - self.unsteady
        if not found:
            return "", []
        return "recorded calls %s" % sorted(found)[:5], []

    def seen(self, path, clauses):
        """The question by which the judge sees the mutant, of these clauses; None if there is none."""
        claims = {"levels": list(WIRE_LEVELS)}
        with contextlib.closing(Judge(self.words(path), claims=claims, only=clauses)) as one:
            if one.unfit() is not None:
                return "the server does not start, or answers nothing"
            numbers = [number for number in one.claimed() if one.reason(number) is None]
            asked = [(number, function) for number in numbers for function in one.questions(number)]
            asked.sort(key=lambda each: each[0] in judge.SLOW_QUESTIONS)
            asked += situations.drawn(numbers, 1, 20 if len(numbers) < 40 else 120)
            found = []

            def ask(*row):
                """Asks again where it fails, and the oracle too, which must pass then: the machine may be busy."""
                fails = ("failed", "late")
                if not found and all(one.answer(*row)["outcome"] in fails for _ in range(2)):
                    if (
                        self.judge_of_oracle.answer(*row)["outcome"] == "passed"
                        and one.answer(*row)["outcome"] in fails
                    ):
                        found.append("%s: %s" % (row[0], row[1].__name__.replace("_", " ")))

            several_at_once(QUESTIONS_AT_ONCE, ask, asked)
        return found[0] if found else None

    def judged(self, mutant):
        """A row of the report."""
        if time.monotonic() > self.until:
            return None
        path = Path(tempfile.mkdtemp(dir=self.folder)) / "bash_tool.py"
        row = dict(mutant._asdict(), old=mutant.old[:60], new=mutant.new[:60])
        try:
            text = changed(SOURCE, mutant)
            compile(text, "mutant", "exec")
        except SyntaxError:
            return dict(row, outcome="no Python")
        path.write_text(text, encoding="utf-8")
        try:
            how, clauses = self.differs(path)
            if not how:
                return dict(row, outcome="the same")
            if how.startswith("cannot"):
                return dict(row, outcome="does not start")
            near = touched(mutant, clauses) or [number for number in SABOTEURS if number.endswith(".1")]
            seen, by = self.seen(path, near), "its clauses"
            if not seen and self.asks_all:
                seen, by = self.seen(path, ()), "all clauses"
            if not seen and how.startswith("recorded") and not self.differs(path)[0]:
                return dict(row, outcome="the same")  # a busy machine has made the difference
            return dict(row, outcome="seen" if seen else "not seen", differs=how, touches=near, by=by, seen=seen)
        finally:
            shutil.rmtree(path.parent)

    def told(self, mutant):
        """The same, and a line of the report."""
        row = self.judged(mutant)
        if row and self.report:
            with open(self.report, "a") as file:
                file.write(json.dumps(row) + "\n")
        return row


def main(arguments):
    """Draws and judges mutants; returns whether too few of those that differ were seen."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("BASH_TOOL_SEED") or random.randrange(10**6)))
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=120, help="no mutant is begun later")
    parser.add_argument("--least", type=float, default=95, help="of those that differ, in percent, must be seen")
    parser.add_argument("--report", help="a file for the rows, as JSON, one a line; what stands there is kept")
    parser.add_argument(
        "--all", action="store_true", help="ask all clauses where those that a mutant touches see nothing"
    )
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args(arguments)
    importlib.import_module("test_bash_tool")  # its properties fill SABOTEURS
    every = mutants()
    print("%d mutants: %s" % (len(every), dict(collections.Counter(each.kind for each in every))))
    if given.list:
        return False
    judge.LONGEST_WAIT_S = 20.0
    chosen = random.Random(given.seed).sample(every, min(given.count, len(every)))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        panel = Panel(folder, begun + 60 * given.minutes, given.report, given.all)
        panel.record_the_oracle()
        kept = Path(given.report).read_text().splitlines() if given.report and os.path.exists(given.report) else ()
        rows = [json.loads(line) for line in kept]
        known = {(row["begin"], row["end"], row["new"]) for row in rows}
        todo = [(each,) for each in chosen if (each.begin, each.end, each.new[:60]) not in known]
        rows += several_at_once(given.at_once, panel.told, todo)
        panel.judge_of_oracle.close()
    rows = [row for row in rows if row]
    counts = collections.Counter(row["outcome"] for row in rows)
    for row in rows:
        if row["outcome"] == "not seen":
            print("NOT SEEN  line %(line)d, %(place)s: %(old)r becomes %(new)r; differs: %(differs)s" % row)
    differ = counts["seen"] + counts["not seen"]
    of_them = len(rows), given.seed, dict(counts), counts["seen"], differ, time.monotonic() - begun
    print("%d mutants drawn with the seed %d: %s; the judge sees %d of %d that differ; %d s" % of_them)
    return counts["seen"] < differ * given.least / 100


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves nothing behind
    sys.exit(main(sys.argv[1:]))
