"""Where one clause stands; and what is said of it and of its neighbours in the same requirement, tried side by side. Asked
too are the other clauses that show a value of these, such as the limit of `slow`, as it is and as the last release had it.

python -m tests.tools.clause 011.2      the clauses of requirement 011
python -m tests.tools.clause 011        the same
"""

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import time

from tests.conformance import core, jobs, output, server  # noqa: F401  (they register questions)
from tests.conformance.judge import QUESTIONS, WIRE_LEVELS
from tests.spec import CLAUSES, EXAMPLES, HERE, holds_clause
from tests.support import SOURCE, one_or_more, saboteurs_at_tests, spans
from tests.tools.values import RELEASED, VALUES, codings


# Beside the properties and examples: what holds the pages, borders, texts and vectors to each other and to the code.
FILES = [*("tests/test_%s.py" % name for name in ("spec", "pages", "texts", "vectors", "judge")), "test_bash_tool.py"]
BOTH_HALVES = "not (interop or packages or hosts or ray)"  # `make test` and `make exhaustive`


def places_of(number):
    """Where a clause stands: in SPEC.md, its property, where the code names it, and where the code upholds it,
    which its saboteur changes."""
    heads = {"SPEC.md": r"#### REQ-BASH-%s$" % re.escape(number)}
    heads["test_bash_tool.py"] = r"def (test_req_bash_%s_\w+)" % number.replace(".", "_")
    heads["bash_tool.py"] = r".*\b%s\b" % re.escape(number)
    for page, head in heads.items():
        text = (HERE / page).read_text(encoding="utf-8")
        for line, words in enumerate(text.splitlines(), 1):
            found = re.match(head, words)
            if found:
                around = definitions_around(line, ast.parse(text)) if page == "bash_tool.py" else found.groups()
                yield " ".join(["%s:%d" % (page, line), ".".join(around)]).rstrip()
    importlib.import_module("test_bash_tool")  # which registers the saboteurs
    for place, old, _ in one_or_more(saboteurs_at_tests()[number]):
        line = SOURCE.count("\n", 0, spans(SOURCE)[place][0][0]) + 1
        yield "bash_tool.py:%d %s (where the code upholds it: the saboteur changes `%s`)" % (line, place, old)


def definitions_around(line, node):
    """The names of the classes and functions in which a line stands, the outermost first."""
    for inner in node.body:
        if isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and inner.lineno <= line <= inner.end_lineno:
            return [inner.name, *definitions_around(line, inner)]
    return []


def that_show_values_of(requirement):
    """The clauses of other requirements in whose words, example, property or question a value of this one stands."""
    released, names, properties = json.loads(RELEASED.read_text(encoding="utf-8"))["values"], [], {}
    for name, (value, clause) in VALUES.items():
        if clause.startswith(requirement + "."):
            names += codings(name, value) | codings(name, released[name])
    if not names:
        return []
    shown = re.compile(
        r"(?<![\w.,])(?:%s)(?![\w,]*\d)" % "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    )
    for name, test in vars(importlib.import_module("test_bash_tool")).items():
        if name.startswith("test_req_bash_"):
            test = inspect.unwrap(getattr(getattr(test, "hypothesis", test), "inner_test", test))
            properties[".".join(name.split("_")[3:5])] = inspect.getsource(test)
    found = []
    for number, said in CLAUSES.items():
        texts = [*said, properties[number], *(body for clause, _, body in EXAMPLES if clause == number)]
        texts += map(inspect.getsource, QUESTIONS.get(number, []))
        if not number.startswith(requirement + ".") and any(map(shown.search, texts)):
            found.append(number)
    return found


def checks_of(requirement):
    """The name of each check and the words that run it."""
    neighbours = [number for number in CLAUSES if number.startswith(requirement + ".")]
    others = that_show_values_of(requirement)
    chosen = "not req_bash and not test_example or req_bash_%s_ or (example and %s.)" % (requirement, requirement)
    for number in others:
        chosen += " or req_bash_%s_ or example[%s]" % (number.replace(".", "_"), number)
    workers = ["-n", str(4 * (os.cpu_count() or 1)), "--dist", "worksteal"]
    server_words = "%s %s --mcp" % (sys.executable, HERE / "bash_tool.py")
    checks = {
        "properties, examples, pages, texts and vectors": ["pytest", *workers, *FILES, "-m", BOTH_HALVES, "-k", chosen],
        "saboteurs": ["tests.tools.saboteurs", *neighbours],
        "the judge's questions": ["tests.conformance", server_words, requirement + ".*", *others],
        "the judge's panel": ["tests.conformance.panel", requirement + ".*"],
    }
    if not any(holds_clause(WIRE_LEVELS, number) for number in neighbours):
        del checks["the judge's questions"]  # nothing of it is on the wire
    return checks


def main(asked):
    """Runs the checks of one requirement; returns the names of those that failed."""
    requirement = asked.partition(".")[0]
    if asked not in CLAUSES and not (asked == requirement and requirement + ".1" in CLAUSES):
        sys.exit("SPEC.md has no clause and no requirement %r; OF is a number like 011.2 or 011" % asked)
    for place in places_of(asked):
        print(place, flush=True)
    others = that_show_values_of(requirement)
    if others:
        print("clauses that show a value of these: " + " ".join(others), flush=True)
    begun, running, failed = time.monotonic(), {}, []
    for name, words in checks_of(requirement).items():
        output = tempfile.TemporaryFile()
        command = [sys.executable, "-m", *words]
        running[name] = subprocess.Popen(command, cwd=HERE, stdout=output, stderr=subprocess.STDOUT), output
    while running:
        time.sleep(0.05)
        for name, (process, output) in list(running.items()):
            if process.poll() is None:
                continue
            del running[name]
            output.seek(0)
            said = output.read().decode(errors="replace").rstrip()
            counts = [line for line in said.splitlines() if re.search(r"\b(passed|caught) \d|\d passed", line)]
            has_failed = process.returncode or not counts or "no question was written" in said
            verdict = "FAILED:\n%s" % said if has_failed else counts[-1]
            failed += [name] * verdict.startswith("FAILED")
            print("%3d s  %s: %s" % (time.monotonic() - begun, name, verdict), flush=True)
    return failed


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    failures = main(sys.argv[1])
    print("REQ-BASH-%s: %s" % (sys.argv[1], "FAILED: " + ", ".join(failures) if failures else "all passed"))
    sys.exit(bool(failures))
