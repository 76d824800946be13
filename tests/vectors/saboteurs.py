"""Which saboteurs the vectors find, of those that change a function that they call or a constant that it looks up."""

import importlib
import sys

from tests.support import SOURCE, bash_tool, load_tool, one_or_more, sabotaged, saboteurs_at_tests, spans, written
from tests.vectors import KINDS, wrong_cases


def reached():
    """The places of the oracle that the vectors reach: functions that are called, and constants that these look up."""
    codes = set()
    sys.setprofile(lambda frame, event, _: codes.add(frame.f_code) if event == "call" else None)
    for kind in KINDS:
        assert not list(wrong_cases(bash_tool, kind)), kind
    sys.setprofile(None)
    codes = [code for code in codes if code.co_filename == bash_tool.__file__ and code.co_name != "<module>"]
    places = {name for code in codes for name in code.co_names}
    for place, ((begin, end), *_) in spans(SOURCE).items():
        first, last = (SOURCE.count("\n", 0, at) + 1 for at in (begin, end))
        inside = [code for code in codes if code.co_name == place.rpartition(".")[2]]
        if any(first - 3 < code.co_firstlineno < last for code in inside):  # decorators stand above
            places.add(place)
    return places


def main(_):
    """Prints of each saboteur the kinds of vectors that find it."""
    importlib.import_module("test_bash_tool")
    places, found = reached(), {}
    for number, changes in saboteurs_at_tests().items():
        if {place for place, _, _ in one_or_more(changes)} & places:
            try:
                broken = load_tool(written(sabotaged(number), "vectors-"), "bash_tool_sabotaged")
            except SyntaxError as problem:
                print("%-8s is no Python: %s" % (number, problem))
                continue
            found[number] = [kind for kind in KINDS if next(wrong_cases(broken, kind), None)]
            print("%-8s %s" % (number, ", ".join(found[number]) or "NOT FOUND"))
    print("found %d of %d saboteurs" % (sum(map(bool, found.values())), len(found)))
    return 0
