"""In what situations the judge asks its questions again: later, beside other calls, in another form, at another place.

A question is written for a new server that does nothing else. What is right there may be wrong in the 20th call, or in the
last part of a long output. So a question is asked again in a situation that it allows. `SITUATIONS` has them all, and
`pairs` says which question is asked in which. A run draws some of the pairs, by a seed that the verdict names.
"""

import random
import re

from tests.conformance.judge import QUESTIONS, Situation, Wrong, shortened

OWN = "situation-"  # the ids of the calls that a situation makes; the question does not see their answers


def call_of(wire, name, command):
    """Sends a call of the situation's own."""
    arguments = {"command": command} if wire.profile != "modes" else {"command": command, "mode": "slow"}
    wire.send_own(OWN + name, arguments)


class Later(Situation):
    words = "as the 20th call"

    def first(self, wire):
        for n in range(19):
            call_of(wire, str(n), "true" if n % 3 else "exit 3")
            wire.own_answer(OWN + str(n))


class Beside(Situation):
    words = "beside nine other calls"

    def first(self, wire):
        for n in range(9):
            call_of(wire, str(n), "echo beside; exec sleep 600")


class Batch(Situation):
    words = "in a batch"

    def line(self, line):
        return b'[{"jsonrpc": "2.0", "method": "notifications/none"}, %s]' % line if line[:1] == b"{" else line


class CarriageReturns(Situation):
    words = "with CRLF and blank lines"

    def line(self, line):
        return b"\r\n%s\r\n" % line if line[:1] == b"{" else line


class Socket(Situation):
    words, sockets = "through sockets", True  # as the clients of Node start a server


class Place(Situation):
    """At one place of a long output. The lines around it have six digits."""

    before, behind = "", ""

    def command(self, command):
        return self.before + command + "; echo" * (not command.endswith("\\012'")) + self.behind

    def text(self, command, text):
        whole = command.endswith("\\012'")
        head = r"\[output truncated in middle: [^\n]*\]\n" if "140000" in self.before + self.behind else ""
        lines = r"(?:\d{6}\n|\d*\n\n\[snip\]\n\n\d*\n|\n\n\[snip\]\n\n)*"
        tail = r"(?:\[full output: [^\n]*\]\n)?"
        parts = lines * bool(self.before), r"(.*?)", lines * bool(self.behind), tail
        found = re.fullmatch(head + "%s%s%s%s" % parts, text, re.DOTALL)
        if found is None:
            raise Wrong("a text in a long output, %s" % self.words, shortened(text))
        return found[1] if whole else found[1][:-1]


class First(Place):
    words, behind = "first in a long output", "; seq 100000 140000"


class Middle(Place):
    words, before, behind = "in the middle of a long output", "seq 100000 108000; ", "; seq 110000 118000"


class Last(Place):
    words, before = "last in a long output", "seq 100000 140000; "


class Script(Situation):
    """As a script that another bash reads."""

    how = ""

    def command(self, command):
        end = "END_OF_SCRIPT"
        return "cat > .script-$$ <<'%s'\n%s\n%s\n%s" % (end, command, end, self.how)


class FromFile(Script):
    words, how = "as a script from a file", "exec bash < .script-$$"


class FromPipe(Script):
    words, how = "as a script from a pipe", "set -o pipefail; cat .script-$$ | bash"


FORMS = (Later(), Beside(), Batch(), CarriageReturns(), Socket())
PLACES, SCRIPTS = (First(), Middle(), Last()), (FromFile(), FromPipe())
SITUATIONS = (*FORMS, *PLACES, *SCRIPTS)

# The questions, by name, that a situation would change, and why.
NOT_IN = (
    (
        (Later, Beside),
        "a first answer tells what it asks for, or all calls are counted",
        "a_withheld_index_is_told withheld_names_told dropped_names_are_withheld calls_are_logged "
        "a_withdrawn_call_takes_no_name_along",
    ),
    ((Beside,), "it counts the calls that are under way", "pipes_of_many_commands sixty_four_calls calls_under_way"),
    ((Batch, CarriageReturns), "it counts the bytes of a line", "long_lines the_longest_line"),
    ((Socket,), "it fills a pipe, of which the size is known", "a_slow_reader_gets_what_is_due"),
)
# The questions that ask for the text of output alone, and those whose commands a script may hold.
AT_PLACES = "renders_as_the_page_says"
AS_SCRIPTS = """states_the_code_and_the_output keeps_the_order_of_writing cuts_the_middle renders_as_one_what_it_kept_whole
    leaves_out_halves_of_a_character renders_as_the_page_says a_character_in_pieces a_timeout_keeps_the_output
    a_timeout_names_the_limit a_timeout_names_the_other_modes what_was_ended_has_no_code ends_the_tree
    nothing_written_is_lost an_output_of_the_maximum what_is_kept_of_each_end what_is_shown_of_each_end
    no_answer_is_blank texts_end_alike reads_to_the_end streams_apart calls_do_not_meet a_second_cancel_kills
    goes_on_reading a_normal_end_kills_nothing the_end_of_a_server_cancels live_output_is_the_decoded_output
    files_hold_the_bytes an_interrupt_cancels_each_call withdrawn_calls_end the_commands_of_a_dead_server_end
    both_bounds_of_a_drain labels_of_what_went_wrong bytes_of_a_head lines_of_a_tail an_interrupt_cancels
    a_cancel_ends_what_drains silence_is_told_once leftovers_named a_filter_prints_at_the_end_of_its_input
    what_handles_int_prints_what_it_held"""


def allows(clause, function, situation):
    """Whether the question can be asked in this situation, with the same answers."""
    name = function.__name__
    if situation in PLACES:
        return name in AT_PLACES.split() and clause != "008.6"  # 008.6: it moves into the lines around it
    if situation in SCRIPTS:
        return name in AS_SCRIPTS.split()
    return not any(name in names.split() and type(situation) in kinds for kinds, _, names in NOT_IN)


def pairs(clauses):
    """The questions of these clauses with the situations in which they are asked again."""
    asked = [(clause, function) for clause in clauses for function in QUESTIONS.get(clause, ())]
    return [(*each, situation) for each in asked for situation in SITUATIONS if allows(*each, situation)]


def drawn(clauses, seed, most):
    """Some of them."""
    every = pairs(clauses)
    return random.Random(seed).sample(every, min(most, len(every)))
