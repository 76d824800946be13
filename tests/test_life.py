"""The rules of a command's life and of a stop, without a process: random histories, and cases of `Steps`."""

import itertools
import os
import re
import signal
from math import inf, nextafter

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.known_commands import any_of
from tests.spec import HERE, phases, rows_of, state_diagram
from tests.support import bash_tool, draws, exhaustive, fault

CONSTANTS = "EXITING UNKILLABLE HOST_GONE_GRACE KILL_EVERY FILTERS ASK_EVERY PARENTS_FIRST LAST_TERM".split()
EXITING_S, UNKILLABLE_S, HOST_GONE_GRACE_S, KILL_EVERY_S, FILTERS_S, ASK_EVERY_S, PARENTS_FIRST_S, LAST_TERM_S = (
    getattr(bash_tool, name + "_S") for name in CONSTANTS
)
MIB, INT, TERM = 1 << 20, signal.SIGINT, signal.SIGTERM
ON_INT, ON_TERM = 1 << INT - 1, 1 << TERM - 1  # in the masks of a process
SAME = 1e-6  # two moments that differ by rounding


def words(line):
    """The arguments of a command line, as /proc has them."""
    return b"".join(word.encode() + b"\0" for word in line.split())


def process(parent=0, program="sleep", caught=0, ignored=0, reads=""):
    return bash_tool.Process(parent, program, words(program), caught, ignored, reads)


# What a process is to a stop, and the signals that end it.
KINDS = {
    "plain": (process(), {INT, TERM}),
    "shell": (process(program="bash", caught=ON_INT), {TERM}),
    "python": (process(program="python", caught=ON_INT), {INT, TERM}),
    "swallows": (process(program="python", caught=ON_INT), {TERM}),
    "busy": (process(program="python", caught=ON_INT), {TERM}),  # and uses the processor all the time
    "late": (process(program="python", caught=ON_INT), {TERM}),  # and never takes an INT
    "deaf": (process(program="python", caught=ON_INT, ignored=ON_TERM), set()),
    "traps": (process(program="bash", caught=ON_INT | ON_TERM), {TERM}),
    "filter": (process(program="tail", reads="live pipe"), {TERM}),
    "stuck": (process(), None),  # not even KILL ends it
}
PLAN = bash_tool.Plan(*[None] * len(bash_tool.Plan._fields))._replace(drain_idle_s=0.5, drain_total_s=2.0)
PLANS = {
    "foreground": dict(answer_after_s=inf, limit_s=30.0, background=False),
    "background": dict(answer_after_s=0.3, limit_s=86400.0, background=True),
    "kept": dict(answer_after_s=2.0, limit_s=86400.0, background=False),
}


class Watched(bash_tool.Life):
    """A life whose moves are written down."""

    moves = set()
    endings = 0  # how often it began to end

    def _move(self, phase, action=""):
        self.moves.add((self.phase, phase))
        self.endings += phase == "end"
        return super()._move(phase, action)


class History(RuleBasedStateMachine):
    """A command of which all is invented but its rules. The time passes to the moment at which the life is due, or less
    far, as in the loop of `Command.run`."""

    @initialize(
        kind=any_of(*sorted(PLANS)),
        ephemeral=st.booleans(),
        grace_s=any_of(15.0, 15.0, 0.3, 0.0),
        sees_tree=any_of(True, True, False),
        outsider=st.booleans(),
        others=st.lists(st.tuples(any_of(*KINDS, "filter", "filter", "swallows", "late"), st.booleans()), max_size=3),
        start=st.lists(any_of("due", "due", "exit", "killed", "stop", "kill_job"), max_size=4),
    )
    def begin(self, kind, ephemeral, grace_s, sees_tree, outsider, others, start):
        self.plan = PLAN._replace(ephemeral=ephemeral, grace_s=grace_s, **PLANS[kind])
        self.has_steps = sees_tree and grace_s > 0
        self.outsider = outsider  # another process holds the output
        self.life = Watched(self.plan, sees_tree, 0.0)
        self.now, self.numbers = 0.0, itertools.count(2)
        self.known, self.living = {1: "shell"}, {1: "shell"}  # kinds by number
        self.parents, self.slow = {1: 0}, set()
        self.facts = dict(
            host_stops=0, job_stops=0, nobody_reads=False, returncode=None, exited_at=0.0, heard_at=0.0, heard_bytes=0
        )
        self.has_open_pipe, self.log, self.sent = True, [], {}
        self.accepted = 0  # stops in one end
        self.status, self.limit_s = None, self.plan.limit_s
        self.is_job, self.attached, self.steps_allowed = self.plan.background, True, True
        self.begun_s = self.kill_from_s = inf  # of the end
        self.endings, self.at_begin, self.asked_bytes, self.alone_s = 0, 0, 0, inf
        for other, slow in others:
            self.appears(other, 0, slow)
        self.turn()
        for each in start:
            if each in ("exit", "killed"):
                self.end(1, -9 if each == "killed" else 0)
                self.turn()
            elif each in ("stop", "kill_job"):
                self.somebody_ends_it(each)
            elif self.life.phase != "over":
                self.the_time_comes()

    # What happens

    @rule(count=any_of(1, 2 * MIB), times=any_of(1, 1, 6))
    @precondition(lambda self: self.has_open_pipe)
    def bytes_come(self, count, times):
        """Once, or again and again just in time."""
        for n in range(times):
            self.now = nextafter(self.life.due_at, 0) if n and self.life.due_at < self.now + 1 else self.now
            self.facts.update(heard_at=self.now, heard_bytes=self.facts["heard_bytes"] + count)
            self.turn()

    @rule(code=any_of(0, 3, -9))
    @precondition(lambda self: 1 in self.living)
    def the_shell_exits(self, code):
        self.end(1, code)
        self.turn()

    @rule(kind=any_of(*sorted(KINDS)), above=st.integers(0), slow=st.booleans())
    @precondition(lambda self: self.living)
    def a_process_appears(self, kind, above, slow):
        self.appears(kind, above, slow)
        self.turn()

    @rule(which=st.integers(0))
    @precondition(lambda self: self.living)
    def a_process_ends(self, which):
        self.end(sorted(self.living)[which % len(self.living)])
        self.turn()

    @rule()
    @precondition(lambda self: self.outsider)
    def the_outsider_lets_go(self):
        self.outsider = False
        self.turn()

    @rule(what=any_of("stop", "stop", "stop twice", "kill_job", "kill_job", "leave", "leave"))
    def somebody_ends_it(self, what):
        before, is_over = self.life.phase, self.life.phase == "over"
        if what == "leave" and not self.facts["nobody_reads"]:
            self.facts["nobody_reads"] = True
            if self.attached and not is_over:
                self.attached = self.steps_allowed = False
                self.plan = self.plan._replace(grace_s=min(self.plan.grace_s, HOST_GONE_GRACE_S))
                self.kill_from_s = min(self.kill_from_s, self.now + self.plan.grace_s)
                if not self.accepted:
                    self.accepted, self.status = 1, self.status or "cancelled"
            else:
                self.turn()
                assert self.life.phase in (before, "over"), "a host that left ended what goes on without it"
        elif what == "kill_job":
            self.facts["job_stops"] += 1
            if self.is_job:
                self.accepted, self.steps_allowed = self.accepted + 1, False
        elif what != "leave":
            count = 2 if what == "stop twice" else 1
            self.facts["host_stops"] += count
            if not is_over and (self.attached or self.is_job):
                self.accepted += count
                self.status = self.status or "cancelled"
        self.turn()

    @rule()
    @precondition(lambda self: self.life.phase != "over")
    def the_time_comes(self):
        self.now = min(self.life.due_at, self.now + 1e5)
        self.turn()

    @rule(part=any_of(0.5, 0.01))
    @precondition(lambda self: self.life.phase != "over")
    def a_while_passes(self, part):
        wait_s = min(self.life.due_at - self.now, 1e5)
        self.now = min(self.now + part * wait_s, nextafter(self.life.due_at, 0))
        self.turn()

    # What the loop of Command does

    def appears(self, kind, above, slow):
        pid = next(self.numbers)
        self.parents[pid] = sorted(self.living)[above % len(self.living)]
        self.known[pid] = self.living[pid] = kind
        self.slow |= {pid} if slow else set()

    def end(self, pid, code=0):
        self.living.pop(pid, None)
        self.slow.discard(pid)
        if pid == 1 and self.facts["returncode"] is None:
            self.facts.update(returncode=code, exited_at=self.now)

    def turn(self):
        """Acts until nothing is to be done, and looks whether that was right."""
        if self.living and all(self.known[pid] == "filter" for pid in self.living):  # their input ends
            for pid in [pid for pid in self.living if pid not in self.slow]:
                self.end(pid)
        while True:
            if not self.living and not self.outsider:
                self.has_open_pipe = False
            phase = self.life.phase
            self.is_childless = not self.living
            seen = bash_tool.Seen(**self.facts, childless=self.is_childless, has_open_pipe=self.has_open_pipe)
            self.before_action(phase)
            action = self.life.next_action(self.now, seen)
            self.after_action(phase, action)
            if not action:
                break
            self.log.append(action)
            getattr(self, "on_" + action)()
            if action == "kill":
                break
        self.nothing_is_missed()

    def before_action(self, phase):
        """The limit is a stop; what the model expects of the state before."""
        at_limit = self.now >= self.limit_s and phase in ("watch", "stay")
        if phase == "watch" and at_limit and not self.accepted and self.facts["returncode"] is None:
            self.accepted, self.status = 1, "timed_out"

    def after_action(self, phase, action):
        life, code = self.life, self.facts["returncode"]
        assert phase != "over" or (not action and life.phase == "over")
        if life.endings > self.endings:
            self.endings = life.endings
            killed_job = life.is_announced and code is not None and code < 0 and phase == "watch"
            assert self.accepted or killed_job or (phase == "stay" and self.now >= self.limit_s)
            self.begun_s, self.kill_from_s = self.now, self.now + self.plan.grace_s
            self.ends_s = self.kill_from_s  # at the latest
            self.at_begin, self.sent, self.ends_in_steps = len(self.log), {}, self.has_steps and self.steps_allowed
            self.asked_bytes, self.alone_s = self.facts["heard_bytes"], inf
            assert self.ends_in_steps or action in ("terminate", "kill", "end_output")
        if self.accepted > 1:
            self.kill_from_s = min(self.kill_from_s, self.now)
        if phase == "drain" and life.phase in ("report", "over", "stay") and not self.accepted:
            quiet_s = self.now - max(self.facts["heard_at"], self.facts["exited_at"])
            enough_s = self.plan.drain_idle_s if self.has_open_pipe else EXITING_S
            is_long = self.now >= self.facts["exited_at"] + self.plan.drain_total_s
            assert is_long or quiet_s >= enough_s - SAME or (self.is_childless and not self.has_open_pipe)

    def nothing_is_missed(self):
        """What should have happened by now has happened."""
        life, now = self.life, self.now
        assert life.due_at > now or life.phase == "over", "it waits for nothing"
        assert not self.accepted or life.phase not in ("watch", "drain", "report", "stay"), "a stop was not obeyed"
        assert self.facts["returncode"] is None or life.phase != "watch"
        if life.phase == "watch":
            answers = self.plan.answer_after_s < self.plan.limit_s
            assert not answers or ("answer_as_job" in self.log) == (now >= self.plan.answer_after_s)
            assert now < self.limit_s
        if life.phase == "drain":
            assert self.facts["returncode"] >= 0 or not life.is_announced, "the shell of a job was killed"
            assert now < self.facts["exited_at"] + self.plan.drain_total_s
            assert not self.is_childless or self.has_open_pipe
        if life.phase == "stay":
            assert now < self.limit_s and (self.living or self.has_open_pipe)
        if life.phase == "end":
            assert self.log[-1] == "kill" or now < self.kill_from_s
            assert now < self.kill_from_s + UNKILLABLE_S and not self.is_childless
            in_steps = not {"terminate", "kill"}.intersection(self.log[self.at_begin :])
            assert not in_steps or self.ends_in_steps and self.steps_allowed
            assert not in_steps or self.facts["heard_bytes"] - self.asked_bytes <= MIB, "a flood was read on"
            kinds = {self.known[pid] for pid in self.living}
            is_late = now > self.begun_s + self.plan.grace_s / 3 + ASK_EVERY_S + SAME
            may = "filter" in kinds or ("busy" in kinds and now <= self.last_s() + ASK_EVERY_S + SAME)
            assert not in_steps or not is_late or may, "a step of more than a third of the grace"
            spared = {pid for pid, state in self.life.steps.states.items() if state == "spared"}
            self.alone_s = min(self.alone_s, now) if in_steps and spared.issuperset(self.living) else inf
            assert now <= self.alone_s + min(FILTERS_S, self.plan.grace_s / 10) + 2 * ASK_EVERY_S + SAME

    # What a life asks for

    def signal(self, pid, number):
        assert (pid, number) not in self.sent, "signalled twice"
        self.sent[pid, number] = self.now
        ending = KINDS[self.known[pid]][1]
        if ending and number in ending and pid not in self.slow:
            self.end(pid, -number)

    def in_order(self):
        """Parents before their children."""
        return sorted(self.living)

    def on_ask(self):
        assert self.ends_in_steps and self.steps_allowed and self.now < self.kill_from_s
        self.pass_of_steps(self.now)

    def pass_of_steps(self, now):
        inspected = {pid: KINDS[self.living[pid]][0]._replace(parent=self.parents[pid]) for pid in self.in_order()}
        for pid in inspected:
            if self.living[pid] == "busy":
                inspected[pid] = inspected[pid]._replace(used=int(self.now * 100))
            elif self.living[pid] == "late" and (pid, INT) in self.sent:
                inspected[pid] = inspected[pid]._replace(pending=ON_INT)
        chosen = self.life.steps.choose(inspected, now)
        is_soon = now < self.begun_s + min(PARENTS_FIRST_S, self.plan.grace_s / 10)
        untaken = {pid for pid, seen in inspected.items() if chosen.get(pid) == INT or (is_soon and seen.pending)}
        for pid, number in chosen.items():
            assert number == TERM or self.now < self.begun_s + self.plan.grace_s / 3
            assert untaken.isdisjoint(self.above(pid)), "it was ended before its parent has taken INT"
        for pid, number in chosen.items():
            self.signal(pid, number)

    def above(self, pid):
        """The living processes that this one is below."""
        while (pid := self.parents.get(pid)) in self.living:
            yield pid

    def last_s(self):
        """When what is busy with its ending gets TERM."""
        return self.begun_s + self.plan.grace_s - min(LAST_TERM_S, self.plan.grace_s / 10)

    def on_terminate(self):
        states = self.life.steps.states
        if states:
            self.pass_of_steps(inf)
        for pid in self.in_order():
            if states.get(pid) not in ("got TERM", "handles TERM", "cleans up"):
                self.signal(pid, TERM)
        left = [pid for pid in self.living if states.get(pid) != "cleans up" and (pid, TERM) not in self.sent]
        assert self.is_childless or not left

    def on_kill(self):
        assert self.now >= self.kill_from_s - SAME, "KILL came early"
        for pid in list(self.living):
            if self.known[pid] != "stuck":
                self.end(pid, -9)

    def on_end_output(self):
        assert self.is_childless or self.now >= self.kill_from_s + UNKILLABLE_S - SAME
        assert self.now <= self.ends_s + UNKILLABLE_S + KILL_EVERY_S + SAME
        self.has_open_pipe = self.outsider = False
        if "report" in self.log:
            self.accepted, self.limit_s, self.begun_s = 0, inf, inf

    def on_answer_as_job(self):
        assert "answer_as_job" not in self.log[:-1] and "report" not in self.log
        assert self.now >= self.plan.answer_after_s and not self.accepted
        self.is_job = True
        self.attached = self.attached and (self.plan.ephemeral or not self.plan.background)

    def on_report(self):
        assert "report" not in self.log[:-1]
        assert self.life.status == self.status and self.life.is_job == self.is_job
        assert (self.life.phase == "over") == (self.is_childless and not self.has_open_pipe)
        self.attached = self.plan.ephemeral and not self.facts["nobody_reads"]
        self.accepted, self.begun_s = 0, inf
        self.limit_s = self.limit_s if self.plan.background else inf

    def teardown(self):
        """Whatever has happened, the life comes to its end, and has told the caller once."""
        for _ in range(2000):  # 1,500 for two ends with a grace of 15 s and a look every 20 ms
            if not hasattr(self, "life") or self.life.phase == "over":
                break
            if self.life.phase == "stay" or self.life.due_at == inf:
                self.outsider = False
                for pid in list(self.living):
                    self.end(pid)
                self.turn()
            else:  # of the thousand passes of KILL one is enough
                self.now = self.kill_from_s + UNKILLABLE_S if self.log[-1:] == ["kill"] else self.life.due_at
                self.turn()
        assert not hasattr(self, "life") or (self.life.phase == "over" and self.log.count("report") == 1)


WRONG_LIVES = [
    ("Life._watch", "now < self._answer_at", "now < self._limit_at"),
    *(("Life._watch", "now >= self._limit_at:", "False:"), ("Life._watch", "plan.ephemeral or", "")),
    ("Life._watch", "self.is_announced and code < 0", "False"),
    ("Life._drain", "max(seen.heard_at, seen.exited_at)", "seen.exited_at"),
    ("Life._drain", "min(quiet_at + plan.drain_idle_s, last_at)", "quiet_at + plan.drain_idle_s"),
    *(("Life._end", "self.stops > 1", "False"), ("Life._end", "self.seen.childless or", "")),
    *(("Life._end", "self._kill_at + UNKILLABLE_S", "inf"), ("Life._end", "now >= self._kill_at:", "True:")),
    *(("Life._step", "not self._has_steps or", ""), ("Life._step", "or is_flood", "")),
    ("Life._report", "self.stops = 0", "pass"),
    ("Life._report", "self._limit_at = inf", "pass"),
    *(("Life._stay", "self.stops or", ""), ("Life.next_action", "and (self.attached or self.is_job)", "")),
    ("Life.next_action", "before.job_stops self._has_steps = False", "before.job_stops"),
    ("Life.next_action", "self._kill_at = min(self._kill_at, now + self._grace_s)", "pass"),
    *(("Life._stop", "self.status or status", "status"), ("Life._is_over", "and not self.seen.has_open_pipe", "")),
]


def faults(name, saboteurs):
    """Decorator: a test with a saboteur for each rule."""

    def decorate(test):
        for n, saboteur in enumerate(saboteurs, 1):
            test = fault("%s-%d" % (name, n), saboteur=saboteur)(test)
        return test

    return decorate


@exhaustive
@faults("a_life", WRONG_LIVES)
def test_a_life_of_any_history_keeps_the_rules():
    """What the rules of `History` ask of each moment; and the moves of all histories are those of the docstring."""
    Watched.moves.clear()
    run_state_machine_as_test(History, settings=settings(draws(400), stateful_step_count=20))
    told = {(phase, to) for phase, (_, moves) in phases(bash_tool.Life.__doc__).items() for to in moves if to}
    assert Watched.moves == told


def test_the_table_of_the_states():
    """The states of 2.2 of SPEC.md are the phases of the code, in its order, and each goes where the code's does."""
    rows = [row for row in rows_of("2.2 How to build it") if len(row) == 3][1:]
    known = phases(bash_tool.Life.__doc__)
    told = {state: {*re.findall(r"\b([a-z]+):", to)} for state, _, to in rows}
    assert [*told] == [*known] and told == {phase: {to for to in moves if to} for phase, (_, moves) in known.items()}


def test_the_picture_of_the_phases():
    """docs/design.md shows the phases as the docstring of `Life` has them."""
    page = (HERE / "docs" / "design.md").read_text(encoding="utf-8")
    shown = page.split("<!-- phases -->\n")[1].split("<!-- /phases -->")[0]
    assert shown == state_diagram(bash_tool.Life.__doc__)


# ---- Whom a stop asks, and by what -----------------------------------------------------------------------------------
BOTH = ON_INT | ON_TERM
PLAIN = process()
BASH, TRAPPING = process(program="bash", caught=ON_INT), process(program="bash", caught=BOTH)
DEAF = BASH._replace(ignored=ON_TERM, arguments=words("bash -ic a"))
PYTHON = process(program="python", caught=ON_INT)
NODE = process(program="node", caught=BOTH)
TAIL = process(program="tail", reads="live pipe")
PSQL, DD = process(program="psql", caught=ON_INT), process(program="dd", caught=ON_INT)
IGNORES = BASH._replace(ignored=ON_TERM)
OTHER = PYTHON._replace(arguments=words("other"))
TIMEOUT = process(program="timeout", caught=BOTH)
MAKE = process(program="make", caught=BOTH)


def below(parent, one, **fields):
    return one._replace(parent=parent, **fields)


SPAWNED = PYTHON._replace(arguments=b"python3\0-c\0from multiprocessing.spawn import main\0--multiprocessing-fork\0")
FORK_SERVER = process(program="python")._replace(
    arguments=b"python3\0-c\0from multiprocessing.forkserver import main\0"
)
TAKES_INT = {"caught": ON_INT}
INTERACTIVE = PYTHON._replace(reads="pipe", arguments=words("python3 -i"))
INTERRUPTED, TRAPPED, WAITS = (PYTHON, "INT"), (TRAPPING, "TERM"), (below(2, PYTHON), "waits")
PENDING, WAIT = (PYTHON._replace(pending=ON_INT), "INT"), ("waits", "waits")


def busy(moment, one=PYTHON):
    """What got INT, and has used as much of the processor by then."""
    return one._replace(used=int(10 * moment)), "INT"


# Of each pass the moment and the processes; of each process what it has been sent by then. The grace is 15 s.
STOPS = {
    "all get TERM: their group gets it": [(0, {2: (BASH, None), 3: (below(2, PLAIN), None)})],
    "what catches INT": [(0, {2: (PYTHON, "INT"), 3: (PLAIN, "TERM"), 4: (DD, "INT"), 5: (PSQL, "TERM")})],
    "an interactive shell": [(0, {2: (BASH, "TERM"), 3: (below(2, DEAF), "KILL"), 4: (below(3, PYTHON), "waits")})],
    "a shell with -i that does not": [
        (0, {2: (PYTHON, "INT"), 3: (BASH._replace(arguments=words("bash x -i")), "TERM")})
    ],
    "a shell that ignores TERM": [(0, {2: (PYTHON, "INT"), 3: (DEAF._replace(arguments=words("bash -c a")), "TERM")})],
    "a shell by its file": [(0, {2: (BASH._replace(arguments=words("./s.sh")), "TERM"), 3: (below(2, PYTHON), "INT")})],
    "what ignores TERM": [(0, {2: (PYTHON, "INT"), 3: (PYTHON._replace(ignored=ON_TERM), "TERM")})],
    "a Python that catches TERM": [(0, {2: (PYTHON, "INT"), 3: (PYTHON._replace(caught=BOTH), "TERM")})],
    "a server in Python": [
        (0, {2: (PYTHON._replace(caught=BOTH, arguments=words("python3 /bin/uvicorn a:b")), "INT")})
    ],
    "a recipe of make": [
        (0, {2: (MAKE, "INT"), 3: (below(2, PYTHON), "waits"), 4: (below(2, PLAIN), "waits")}),
        (0.05, {2: (MAKE, "INT"), 3: (below(2, PYTHON), "INT"), 4: (below(2, PLAIN), "TERM")}),
    ],
    "a child of what got INT": [
        (0, {2: (PYTHON, "INT"), 3: (below(2, OTHER), "waits"), 4: (below(2, PLAIN), "waits")}),
        (0.001, {2: (PYTHON, "INT"), 3: (below(2, OTHER), "INT"), 4: (below(2, PLAIN), "TERM")}),
    ],
    "a grandchild of what has an INT pending": [
        *((now, {2: PENDING, 3: (below(2, BASH), "waits"), 4: (below(3, PLAIN), "waits")}) for now in (0, 0.49)),
        (0.5, {2: PENDING, 3: (below(2, BASH), "TERM"), 4: (below(3, PLAIN), "TERM")}),
    ],
    "below timeout, below what has an INT pending": [
        (0, {2: PENDING, 3: (below(2, TIMEOUT), "spared"), 4: (below(3, PLAIN), "waits")}),
        (0.1, {2: PENDING, 3: (below(2, TIMEOUT), "spared"), 4: (below(3, PLAIN), "waits")}),
        (0.2, {2: INTERRUPTED, 3: (below(2, TIMEOUT), "spared"), 4: (below(3, PLAIN), "TERM")}),
    ],
    "a child of what has not taken INT": [
        (0, {2: INTERRUPTED, 4: (BASH, "TERM")}),
        (0.1, {2: PENDING, 3: (below(2, PLAIN), "waits")}),
        (
            0.2,
            {
                2: INTERRUPTED,
                3: (below(2, PLAIN), "TERM"),
                4: (below(2, BASH), "TERM"),
                5: (below(2, PLAIN), "cleans up"),
            },
        ),
    ],
    "an INT that comes late": [
        (0.6, {2: INTERRUPTED, 3: (below(2, PLAIN), "waits")}),
        (0.65, {2: PENDING, 3: (below(2, PLAIN), "TERM")}),
    ],
    "a fork of what got INT": [
        (now, {2: (PYTHON, "INT"), 3: (below(2, PYTHON), is_sent)})
        for now, is_sent in ((0, "waits"), (0.15, "waits"), (0.2, "TERM"))
    ],
    "a fork that ignores INT": [
        (now, {2: (PYTHON, "INT"), 3: (below(2, PYTHON, caught=0), is_sent)})
        for now, is_sent in ((0, "waits"), (0.2, "TERM"))
    ],
    "a fork of a shell": [(0, {2: (PYTHON, "INT"), 3: (BASH, "TERM"), 4: (below(3, BASH), "TERM")})],
    "an interactive shell below timeout": [
        (0, {2: (BASH, "TERM"), 3: (below(2, TIMEOUT), "spared"), 4: (below(3, DEAF), "KILL")})
    ],
    "a fork whose parent waits": [(now, {2: TRAPPED, 3: WAITS, 4: (below(3, PYTHON), "waits")}) for now in (0, 0.3)],
    "what multiprocessing has spawned": [
        (now, {2: (PYTHON, "INT"), 3: (below(2, SPAWNED), is_sent)})
        for now, is_sent in ((0, "waits"), (0.2, "INT"), (0.5, "TERM"))
    ],
    "a server that multiprocessing has spawned": [
        (now, {2: INTERRUPTED, 3: (below(2, SPAWNED, caught=BOTH), is_sent)})
        for now, is_sent in ((0, "waits"), (0.01, "INT"), (0.2, "INT"), (0.5, "INT"))
    ],
    "what the fork server of multiprocessing has forked": [
        (now, {2: (PYTHON, "INT"), 3: (below(2, FORK_SERVER), above), 4: (below(3, FORK_SERVER, **TAKES_INT), is_sent)})
        for now, above, is_sent in ((0, *WAIT), (0.2, "INT", "waits"), (0.22, "INT", "INT"), (0.5, "TERM", "TERM"))
    ],
    "a fork whose parent has ended": [
        (0, {2: (PYTHON, "INT"), 3: (below(2, PYTHON), "waits")}),
        (0.1, {3: (below(1, PYTHON), "INT")}),
    ],
    "a file as input": [(0, {2: (PYTHON._replace(reads="file"), "INT"), 3: (DD._replace(reads="file"), "INT")})],
    "python3 -i < file": [(0, {2: (PYTHON, "INT"), 3: (INTERACTIVE._replace(reads="file"), "TERM")})],
    "python3 -i x.py": [(0, {2: (PYTHON._replace(arguments=words("python3 -i x.py")), "INT")})],
    "python3 -m pdb < file": [
        (0, {2: (PYTHON, "INT"), 3: (PYTHON._replace(reads="file", arguments=words("python3 -m pdb")), "TERM")})
    ],
    "below timeout": [(0, {2: (BASH, "TERM"), 3: (below(2, TIMEOUT), "spared"), 4: (below(3, PYTHON), "INT")})],
    "below timeout and a shell with a trap": [
        (0, {2: TRAPPED, 3: (below(2, TIMEOUT), "spared"), 4: (below(3, PYTHON), "waits")}),
        (0.1, {3: (below(1, TIMEOUT), "spared"), 4: (below(3, PYTHON), "INT")}),
    ],
    "timeout without a child": [(0, {2: (PYTHON, "INT"), 3: (TIMEOUT, "spared")})],
    "an option that ends in i": [(0, {2: (PYTHON._replace(reads="pipe", arguments=words("python3 x --cli")), "INT")})],
    "a reader of a file below a shell with a trap": [
        (0, {2: TRAPPED, 3: (below(2, PYTHON, reads="file"), "waits"), 4: (below(1, PYTHON), "INT")})
    ],
    "python - <<E": [(0, {2: (PYTHON._replace(reads="pipe"), "INT")})],
    "… | python3 -i": [(0, {2: (PYTHON, "INT"), 3: (INTERACTIVE, "TERM")})],
    "another reader of a pipe": [
        (0, {2: (DD._replace(reads="pipe"), "INT"), 3: (PSQL._replace(reads="pipe"), "TERM")})
    ],
    "a filter": [(0, {2: (PLAIN, "TERM"), 3: (TAIL, "spared")}), (0.1, {3: (TAIL, "spared")})],
    "a filter of a pipe without a writer": [(0, {2: (PYTHON, "INT"), 3: (TAIL._replace(reads="pipe"), "TERM")})],
    "a filter with a child": [(0, {2: (PYTHON, "INT"), 3: (TAIL, "spared"), 4: (below(3, PLAIN), "TERM")})],
    "what appears later": [
        (0, {2: INTERRUPTED, 5: (BASH, "TERM")}),
        (
            0.05,
            {2: INTERRUPTED, 3: (PYTHON, "TERM"), 4: (TAIL, "TERM"), 5: (BASH, "TERM"), 6: (below(5, PLAIN), "TERM")},
        ),
    ],
    "an interactive shell that appears later": [(0, {2: INTERRUPTED}), (0.1, {2: INTERRUPTED, 3: (DEAF, "KILL")})],
    "the work of a trap, and what it starts": [
        (0, {2: TRAPPED, 3: WAITS}),
        *(
            (now, {2: TRAPPED, 4: (below(2, BASH), "cleans up"), 5: (below(4, PYTHON), "cleans up")})
            for now in (0.1, 6)
        ),
    ],
    "the work of a `finally`": [(0, {2: INTERRUPTED}), (0.1, {2: INTERRUPTED, 3: (below(2, PLAIN), "cleans up")})],
    "work whose parent has ended": [
        (0, {2: INTERRUPTED}),
        (0.1, {2: INTERRUPTED, 3: (below(2, BASH), "cleans up"), 4: (below(3, PLAIN), "cleans up")}),
        (0.2, {3: (BASH, "TERM"), 4: (below(3, PLAIN), "cleans up")}),
        (0.3, {4: (PLAIN, "TERM")}),
    ],
    "the work of a handler": [
        (0, {2: (NODE, "TERM"), 3: INTERRUPTED}),
        (0.1, {2: (NODE, "TERM"), 3: INTERRUPTED, 4: (below(2, PLAIN), "cleans up")}),
    ],
    "what a program starts before it is asked": [
        (0, {2: TRAPPED, 3: WAITS}),
        (0.1, {2: TRAPPED, 3: WAITS, 4: (below(3, PLAIN), "waits")}),
        (0.2, {3: (below(1, PYTHON), "INT"), 4: (below(3, PLAIN), "waits")}),
        (0.25, {3: (below(1, PYTHON), "INT"), 4: (below(3, PLAIN), "TERM")}),
    ],
    "a Python that ignores INT": [(0, {2: INTERRUPTED, 3: (PYTHON._replace(caught=0), "TERM")})],
    "what appears late": [
        (0, {2: INTERRUPTED, 3: (BASH, "TERM")}),
        (5, {2: busy(5), 3: (BASH, "TERM"), 4: (below(3, PLAIN), "TERM")}),
    ],
    "what handles no INT any more": [(0, {2: INTERRUPTED}), (0.1, {2: (PYTHON._replace(caught=0), "INT")})],
    "a child of what ignores TERM": [(0, {2: (IGNORES, "TERM"), 3: (below(2, PYTHON), "waits")})],
    "what such a one starts": [
        (0, {2: (IGNORES, "TERM"), 3: INTERRUPTED}),
        (0.1, {2: (IGNORES, "TERM"), 3: INTERRUPTED, 4: (below(2, PLAIN), "cleans up")}),
    ],
    "a third of the grace": [
        *((moment, {2: INTERRUPTED, 3: (TAIL, "spared")}) for moment in (0, 4.9)),
        (5.0, {2: (PYTHON, "TERM"), 3: (TAIL, "spared")}),
    ],
    "busy with its ending": [
        (0, {2: busy(0), 3: (PLAIN, "TERM")}),
        *((moment, {2: busy(moment)}) for moment in (4.9, 5, 6)),
        (6.4, {2: busy(6)}),
        (6.5, {2: (busy(6)[0], "TERM")}),
    ],
    "what waits for one that is busy": [
        (0, {2: INTERRUPTED, 3: (below(2, OTHER), "waits")}),
        *((moment, {2: INTERRUPTED, 3: busy(moment, below(2, OTHER))}) for moment in (0.1, 5, 9)),
    ],
    "busy to the end": [
        (0, {2: busy(0), 3: (PLAIN, "TERM")}),
        *((moment, {2: busy(moment)}) for moment in (4.9, 13.9)),
        (14.0, {2: (busy(14)[0], "TERM")}),
    ],
    "below a shell with a trap that ends": [(0, {2: TRAPPED, 3: WAITS}), (0.1, {3: (below(1, PYTHON), "INT")})],
    "below a shell with a trap that goes on": [
        *((moment, {2: TRAPPED, 3: WAITS}) for moment in (0, 0.45)),
        (0.5, {2: TRAPPED, 3: (below(2, PYTHON), "TERM")}),
    ],
    "a reader below a shell with a trap": [
        (0, {2: (TRAPPING, "TERM"), 3: (below(2, PYTHON, reads="pipe"), "TERM"), 4: (below(1, PYTHON), "INT")})
    ],
}
TWO_OF_THREE = ('"handles TERM", "cleans up"', '"got INT", "cleans up"', '"got INT", "handles TERM"')
WRONG_STEPS = [
    ("takes_interrupt", "process.program not in INTERRUPTIBLE or", ""),
    ("INTERRUPTIBLE", "python make", "python"),
    ("takes_interrupt", "or not process.caught & _INT", ""),
    ("takes_interrupt", "process.ignored if matches(SERVERS, process) else", ""),
    ("takes_interrupt", "process.caught | process.ignored", "process.ignored"),
    ("takes_interrupt", "process.caught | process.ignored", "process.caught"),
    ("takes_interrupt", "or (process.reads and matches(READS_LINES, process))", ""),
    ("takes_interrupt", "process.reads and", ""),
    ("ending_signal", "process.ignored & _TERM and", ""),
    ("Steps.choose", "ending_signal(process)", "signal.SIGTERM"),
    ("Steps.choose", 'reads == "live pipe"', 'reads == "pipe"'),
    ("Steps.choose", "process.program in WRAPPERS or", ""),
    ("Steps.choose", "if is_first and (", "if ("),
    ("Steps.choose", '"waits" if is_first else ""', '"waits"'),
    ("Steps.choose", "passed_s + min(NO_CPU_S, self._tenth_s),", ""),
    ("Steps.choose", "min(LAST_TERM_S, self._tenth_s)", "0"),
    ("Steps.choose", "if used != self._used", "if is_first"),
    ("Steps.choose", "(process.caught | process.ignored) & _TERM", "process.ignored & _TERM"),
    ("Steps.choose", "(process.caught | process.ignored) & _TERM", "process.caught & _TERM"),
    ("Steps.choose", '"got INT" != before', '"got INT"'),
    ("Steps.choose", 'and self.living_states <= LAST_STATES', "and False"),
    ("Steps._next_state", 'and self.states.get(pid) == "spared"', "and False"),
    ("Steps._next_state", "if not before and above", "if above"),
    *(("Steps._next_state", '"got INT", "handles TERM", "cleans up"', two) for two in TWO_OF_THREE),
    ("Steps._next_state", "passed_s >= self._grace_s / 3", "False"),
    ("Steps._next_state", 'before == "got INT" and passed_s', "passed_s"),
    ("Steps._next_state", "and passed_s < self._busy_until_s", "and False"),
    ("Steps._next_state", 'above == "waits" or', ""),
    ("Steps._next_state", "is_pending or", ""),
    ("Steps._next_state", "and is_patient and parent.pending", "and parent.pending"),
    ("Steps._next_state", "or chosen.get(pid) == signal.SIGINT", ""),
    ("Steps._next_state", 'if not before: return "got TERM"', ""),
    ("Steps._next_state", 'return before if parent else "got TERM"', "return before"),
    ("Steps._next_state", 'return before if parent else "got TERM"', 'return "got TERM"'),
    ("LAST_STATES", '"handles TERM"}', '"handles TERM", "cleans up"}'),
    ("Steps._next_state", 'process.program == "python":', "takes_interrupt(process):"),
    ("Steps._next_state", 'and process.program == "python":', ":"),
    ("Steps._next_state", "is_spawned or process.arguments == parent.arguments", "is_spawned"),
    (
        "Steps._next_state",
        "is_spawned or process.arguments == parent.arguments",
        "process.arguments == parent.arguments",
    ),
    ("Steps._next_state", "and not process.caught & _TERM", ""),
    ("Steps._next_state", "passed_s < min(FILTERS_S, self._tenth_s)", "False"),
    ("Steps._next_state", "is_spawned and is_patient", "is_patient"),
    ("Steps._next_state", "is_spawned and is_patient", "is_spawned"),
    ("Steps._next_state", 'if before == "got INT": return before', ""),
    ("Steps._next_state", "not takes_interrupt(process)", "False"),
    ("Steps._next_state", '(None, "got INT", "got TERM")', '("got INT", "got TERM")'),
    ("Steps._next_state", '(None, "got INT", "got TERM")', '(None, "got TERM")'),
    ("Steps._next_state", '(None, "got INT", "got TERM")', '(None, "got INT")'),
    ("Steps._next_state", '"waits" if is_patient and "pipe" not in process.reads else "got TERM"', '"waits"'),
    ("Steps._next_state", 'and "pipe" not in process.reads', ""),
]


@faults("a_stop", WRONG_STEPS)
def test_a_stop_asks_each_process_in_its_way():
    names = {INT: "INT", TERM: "TERM", signal.SIGKILL: "KILL"}
    for case, passes in STOPS.items():
        steps, sent = bash_tool.Steps(15.0, 0.0), {}
        for now, known in passes:
            chosen = steps.choose({pid: seen for pid, (seen, _) in known.items()}, now)
            assert list(chosen) == [pid for pid in known if pid in chosen], case  # in this order
            assert not [pid for pid, number in chosen.items() if sent.get(pid) == number], case  # once
            sent.update(chosen)
            states = {pid: steps.states.get(pid) for pid in known}
            is_sent = ("got INT", "got TERM", "handles TERM")
            told = {pid: names[sent[pid]] if state in is_sent else state for pid, state in states.items()}
            assert told == {pid: wanted for pid, (_, wanted) in known.items()}, (case, now)


READ_LINES = """python3 -i; python3 -ic 1; python3 -u -qi x.py; python3 -Bui; python3 -m code; python3 -m asyncio; python3 -m IPython; python3 /usr/bin/bpython; pypy3 -i
python3 /usr/bin/ipython3; python3 -m pdb x.py; python3 manage.py shell"""
READ_NONE = """python3 x.py -i; python3 x.py --cli
python3 -I x.py; python3 -c i -i; python3 -Wignore x.py; python3 -m pytest -i; node -i"""
ACT = """sort -o f; sort -uo f; sort -k1,1 -uof; sort --output=f; awk END{system(1)}; gawk -f f; gawk --file=f; mawk END{print|"sh"}
awk {print>"f"}; awk END{"x"|getline}; awk END{print s>out}; awk END{print|c}; awk {print>("a" "b")}"""
SERVE = """python3 /usr/bin/uvicorn a:b; python3 -m uvicorn a:b; python3 v/bin/hypercorn a:b; python3 manage.py runserver 80
pypy3 manage.py runserver_plus; python3 /usr/bin/fastapi dev; python3 -c x --multiprocessing-fork; make; make -k test"""
SPAWNED_LINES = (
    "python3 -c x --multiprocessing-fork; python3 -m joblib.externals.loky.backend.popen_loky_posix --process-name a"
)
NO_SERVERS = "python3 gunicorn -k uvicorn.workers.UvicornWorker; python3 -c uvicorn.run(); python3 uvicorn.py; python3 my-uvicorn"
SHELLS_OF_PEOPLE = "bash -ic a; bash -i; bash -lic a; bash --norc -i; zsh -ic a; sh -i -c a; /bin/bash -l -i -c a"
OTHER_SHELLS = "bash -c a; bash x.sh; bash --init-file f -c a; bash -c -- ls; sh -ec a"
PRINT_ALONE = """sort -r; sort -k1,1 -t,; grep -o x; cut --output-delimiter=,; awk {print}; awk $1>2||$2<3; awk {if($1>2)print}
awk {printf"%s|%s",$1,$2}; awk {print($1>2)}; awk {print $1||$2}; awk /print/||$1>1; awk -F, END{print(n)}"""


WRONG_PATTERNS = [
    *(("READS_LINES", "bBdEIOPqsSuvx", "q"), ("ACTS_AT_END", "[^-", "[^u-")),
    *(("SERVERS", "[\\0/]", ""), ("INTERACTIVE", "[A-Za-z]*", ""), ("SPAWNED", "|\\.popen_loky_posix\\0", "")),
    *(("READS_LINES", "|bpython", ""), ("ACTS_AT_END", "|print[^;}\"(#|>\\n]{,99}[|>](?!\\|)", "")),
    ("SERVERS", '"make": b"",', ""),
]


@faults("what_is_told", WRONG_PATTERNS)
def test_what_is_told_by_the_arguments():
    """What goes on after INT or TERM, what acts at the end of its input, and which servers print at INT what they hold."""
    for patterns, known, harmless in [
        (bash_tool.READS_LINES, READ_LINES, READ_NONE),
        (bash_tool.ACTS_AT_END, ACT, PRINT_ALONE),
        (bash_tool.SERVERS, SERVE, NO_SERVERS),
        (bash_tool.SPAWNED, SPAWNED_LINES, "python3 x.py; python3 -c x"),
        (bash_tool.INTERACTIVE, SHELLS_OF_PEOPLE, OTHER_SHELLS),
    ]:

        def fits(line):
            program = os.path.basename(line.split()[0])
            program = program if program in patterns else program.rstrip("3").replace("pypy", "python")
            return bash_tool.matches(patterns, process(program=program)._replace(arguments=words(line)))

        assert [line for line in re.split("; |\n", known) if not fits(line)] == []
        assert [line for line in re.split("; |\n", harmless) if fits(line)] == []


@fault("filters_that_are_alone", saboteur=("Life._step", "or is_alone", ""))
def test_filters_that_are_alone_get_term_after_a_moment():
    """Nothing is left that could end their input: they have 0.2 s for what they hold."""
    plan = PLAN._replace(grace_s=15.0, ephemeral=False, **{**PLANS["foreground"], "limit_s": 1.0})
    life, now, actions = bash_tool.Life(plan, True, 0.0), 1.0, []
    while now < 3.0 and "terminate" not in actions:
        action = life.next_action(now, bash_tool.Seen())
        actions.append(action)
        if action == "ask":
            life.steps.choose({2: KINDS["filter"][0]}, now)
        elif not action:
            now = life.due_at
    assert "terminate" in actions and 1.0 + FILTERS_S <= now < 1.0 + FILTERS_S + 2 * ASK_EVERY_S
