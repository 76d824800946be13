"""The judge of any server: that it asks at every border of SPEC.md, and that its situations leave what it asks as it is."""

import re

from tests.conformance import borders, situations  # noqa: F401  (the first registers questions)
from tests.conformance.judge import AT_BORDERS, BORDERS, ON_A_NEW_SERVER, QUESTIONS, UNASKED_BORDERS, WIRE_LEVELS
from tests.spec import CLAUSES, holds_clause, spec_for
from tests.tools.mutants import changed, mutants


# Numbers of the page that are no borders.
NO_BORDERS = {
    "50 ms": "how often a stop reads the tree: no client sees it",
    "200 characters": "a path in a note of carry, which a server does not keep",
    "8 KiB": "8,128 bytes of live output, and the line about what was skipped",
    "300 bytes": "of the lines of the tool, a part of a bound from above",
    "30,012 characters": "the border of 022.2 with HEAD_CHARS_CUT, a bound from above",
    "262,167 bytes": "the border of 023.2 with HEAD_BYTES_CUT, a bound from above",
    "6 bytes": "what JSON makes of a character",
    "6 digits": "how seconds are written; the judge reads them in many answers",
    "1,280 bytes": "an example",
    "4 digits": "counts within patterns are asked by what is drawn from the patterns",
}
UNITS = {"KiB": 1 << 10, "KB": 1 << 10, "MiB": 1 << 20, "MB": 1 << 20, "GiB": 1 << 30, "minutes": 60, "hours": 3600}
UNITS.update(dict.fromkeys("bytes s ms seconds milliseconds lines characters calls digits levels live".split(), 1))


def numbers_of_the_page():
    """Each number with a unit that a client can see, in what is normative, but for the table of borders."""
    page = re.sub(r"(?ms)^```.*?^```$", "", spec_for(*WIRE_LEVELS)[0])
    page = re.sub(r"(?ms)^### 4\.10 .*?(?=^### )", "", page[page.index("## 2 Words") :])
    for number, unit in re.findall(r"(?<![\w.,/#-])(?!0|4\.\d)(\d[\d,]*(?:\.\d)?) (%s)\b" % "|".join(UNITS), page):
        yield "%s %s" % (number, unit), float(number.replace(",", "")) * UNITS[unit]


def test_every_number_of_the_page_is_a_border():
    found = dict(numbers_of_the_page())
    assert len(found) > 40
    assert {text for text, number in found.items() if number not in BORDERS.values()} == {*NO_BORDERS}


def test_every_border_is_asked_on_both_sides_or_cannot_be():
    """A clause of 4.10 has a question at the border, which is asked for that clause, or the judge says why not."""
    assert len(BORDERS) > 60
    assert {*AT_BORDERS} | {*UNASKED_BORDERS} == {*BORDERS}
    assert not {*AT_BORDERS} & {*UNASKED_BORDERS}
    for (clause, what), questions in AT_BORDERS.items():
        assert set(questions) & set(QUESTIONS[clause]), (clause, what)
        assert CLAUSES[clause] and holds_clause(WIRE_LEVELS, clause)


def test_situations_are_drawn_by_their_seed():
    every = situations.pairs(QUESTIONS)
    assert {situation for *_, situation in every} == {*situations.SITUATIONS}
    assert (
        situations.drawn(QUESTIONS, 7, 50) == situations.drawn(QUESTIONS, 7, 50) != situations.drawn(QUESTIONS, 8, 50)
    )
    names = {function.__name__ for functions in QUESTIONS.values() for function in functions}
    told = {name for _, _, omitted in situations.NOT_IN for name in omitted.split()}
    assert told | {*situations.AT_PLACES.split(), *situations.AS_SCRIPTS.split(), *ON_A_NEW_SERVER} <= names


MUTANT_SOURCE = """
LIMIT = 8 * 1024
NAMES = frozenset("alpha beta gamma".split())
class Row:
    limit_s: float = 0.5
def keep(text, most):
    if len(text) <= most and text:
        return text
    return text[: min(most, LIMIT)]
"""


def test_mutants_are_found_by_the_syntax():
    found = {changed(MUTANT_SOURCE, each) for each in mutants(MUTANT_SOURCE)}
    for old, *others in (
        *(("8 *", "9 *", "7 *", "4 *", "16 *"), ("0.5", "1.5", "0.25", "1.0"), ("beta ", " "), ("<= most", "< most")),
        *(("len(text) <= most", "True"), ("len(text) <= most and text", "False"), ("min(", "max(")),
        (": min(most, LIMIT)", ":"),
    ):
        for new in others:
            assert any("".join(each.split()) == "".join(MUTANT_SOURCE.replace(old, new).split()) for each in found), new
    assert len({each.kind for each in mutants(MUTANT_SOURCE)}) == 5
