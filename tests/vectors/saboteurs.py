"""Which saboteurs the vectors find, of those that change a function that they reach."""

import ast
import importlib
import sys

from tests.support import SOURCE, bash_tool, load_tool, one_or_more, sabotaged, saboteurs_at_tests, span, written
from tests.vectors import KINDS, wrong_cases

MODULES = "test_bash_tool tests.test_texts tests.test_answers tests.test_server".split()


def reached():
    """The lines of the functions of the oracle that the vectors call, and the names that these look up."""
    codes = set()
    sys.setprofile(lambda frame, event, _: codes.add(frame.f_code) if event == "call" else None)
    for kind in KINDS:
        assert not list(wrong_cases(bash_tool, kind)), kind
    sys.setprofile(None)
    codes = {code for code in codes if code.co_filename == bash_tool.__file__ and code.co_name != "<module>"}
    return {code.co_firstlineno for code in codes}, {name for code in codes for name in code.co_names}


def places_of(changes):
    """Of each change the line of the innermost function around it, or the name of the constant that it changes."""
    for *place, old, _ in one_or_more(changes):
        line = SOURCE.count("\n", 0, span(SOURCE, place[0])[0] if place else SOURCE.index(old)) + 1
        last = line + (0 if place else old.rstrip("\n").count("\n"))
        found = None
        for node in ast.walk(ast.parse(SOURCE)):
            lines = [getattr(node, "lineno", 0), *(each.lineno for each in getattr(node, "decorator_list", ()))]
            if isinstance(node, ast.FunctionDef) and node.lineno <= last and line <= node.end_lineno:
                found = min(lines)
            elif (
                isinstance(node, (ast.Assign, ast.AnnAssign))
                and node.lineno <= line <= node.end_lineno
                and found is None
            ):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                found = getattr(target, "id", None)
        yield found


def main(_):
    for name in MODULES:
        importlib.import_module(name)
    lines, names = reached()
    asked, found = [], {}
    for number, changes in saboteurs_at_tests().items():
        if {*places_of(changes)} & (lines | names):
            asked.append(number)
            try:
                broken = load_tool(written(sabotaged(number), "vectors-"), "bash_tool_sabotaged")
                found[number] = [kind for kind in KINDS if next(wrong_cases(broken, kind), None)]
            except Exception as problem:
                found[number] = [repr(problem)]
    for number in asked:
        print("%-8s %s" % (number, ", ".join(found[number]) or "NOT FOUND"))
    print("found %d of %d saboteurs" % (sum(map(bool, found.values())), len(asked)))
    return 0
