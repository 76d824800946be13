"""Both ends of a command together: an exchange and a life, without a process, a socket and a clock. What the table at the
head of section 7 says is held against thousands of random histories."""

import itertools
import re
import types
from contextlib import suppress
from math import inf

import pytest
from hypothesis import given, strategies as st

from tests.known_commands import any_of
from tests.support import SOURCE, bash_tool, draws, exhaustive, fault

PLAN = bash_tool.Plan(*[None] * len(bash_tool.Plan._fields))._replace(drain_idle_s=0.5, drain_total_s=2.0, grace_s=3.0)
PLANS = {
    "foreground": dict(answer_after_s=inf, limit_s=6.0, background=False),
    "background": dict(answer_after_s=0.3, limit_s=8.0, background=True),
    "kept": dict(answer_after_s=2.0, limit_s=8.0, background=False),
}
LONGEST_S = 200.0  # of a history


def table(first):
    """The rows of a table in the comments of section 7, by the words of its first column: {name: [cell, …]}."""
    lines = re.findall(r"(?m)^# \| (.*) \|$", SOURCE)
    heads = [n for n, line in enumerate(lines) if line.startswith(first)]
    rows, name = {}, ""
    for line in lines[heads[0] + 1 :]:
        cells = [cell.strip() for cell in line.split("|")]
        if cells[0] in ("exchange", "who reads the end of file"):
            break
        name = cells[0] or name
        rows[name] = [" ".join(pair).strip() for pair in zip(rows.get(name, itertools.repeat("")), cells[1:])]
    return rows


ALLOWED = table("exchange | what it is")
PHASES, BY_HOST, BY_SUPERVISOR = (
    {state: set(re.findall(r"\w+", row[n])) - {"-"} for state, row in ALLOWED.items()} for n in (1, 2, 3)
)
NEXT = {state: set(re.findall(r"(\w+)(?=: )", row[0])) for state, row in table("exchange | next state").items()}
NEXT["job"] |= NEXT["sent"] & {"held"}


class Struck(Exception):
    """What strikes the caller."""


class World:
    """One command: the time, what happens in it, and the two ends."""

    def __init__(self, kind, ephemeral, events, leftover, delay_s):
        self.now, self.delay_s, self.leftover = 0.0, delay_s, leftover
        self.events = sorted([(at, n, what) for n, (at, what) in enumerate(events)])
        self.plan = PLAN._replace(ephemeral=ephemeral, **PLANS[kind])
        self.lines, self.closing, self.cancel = [], bash_tool.Cancel(), bash_tool.Cancel()
        self.lock, self.exchanges, self.returned = None, set(), []
        self.refusals = [what for _, _, what in self.events if what in ("full", "no server")]
        self.moves = set()

    # What the module asks of the engine and of the clock

    def borrow(self, python, stops_wanted):
        if self.refuses("no server"):
            raise OSError("no fork server")
        self.lines.append(Line(self))
        return self.lines[-1]

    def refuses(self, what):
        """Each once."""
        return what in self.refusals and not self.refusals.remove(what)

    def return_idle(self, line):
        self.returned.append(line)

    def forget_fork_server(self):
        pass

    def sleep(self, wait_s):
        self.pass_time(self.now + wait_s)

    def pass_time(self, until, wanted=lambda: False):
        """Lets the time pass to this moment, or until what is wanted has happened."""
        until = min(until, LONGEST_S)
        while not wanted():
            line = self.lines[-1] if self.lines else None
            due = [self.events[0][0]] if self.events else []
            due += [line.due_at()] if line else []
            self.now = max(self.now, min([until, *due]))
            if self.events and self.events[0][0] <= self.now:
                self.happen(self.events.pop(0)[2])
            elif line and line.due_at() <= self.now:
                line.turn()
            elif self.now >= until:
                assert self.now < LONGEST_S, "nothing ends the wait"
                return

    def happen(self, what):
        supervisor = self.lines[-1] if self.lines else None
        if what == "cancel":
            self.cancel.cancel()
        elif what == "close":
            self.closing.cancel()
        elif what == "struck":
            raise Struck
        elif supervisor and supervisor.lives:
            supervisor.happen(what)


class Line:
    """The line to a supervisor, and the supervisor: what `HostEnd` is to an exchange, `SupervisorEnd` and `Command` to a
    life. A message takes `delay_s`."""

    def __init__(self, world):
        self.world, self.socket = world, self
        self.supervisor_pid = self.stops_sent = 0
        self.to_host, self.to_supervisor = [], []  # (moment, message)
        self.life, self.lives, self.is_shut, self.is_closed = None, True, False, False  # closed by the supervisor
        self.host_closed = False
        self.facts = dict(
            host_stops=0, job_stops=0, nobody_reads=False, returncode=None, exited_at=0.0, heard_at=0.0, heard_bytes=0
        )
        self.abandoned, self.leftover_lives, self.shell_lives = False, False, False
        self.send("hello", 4242)

    # The host's end

    def send_plan(self, plan, fds):
        if self.world.refuses("full"):
            raise OSError("not read in time")
        self.check(BY_HOST, "run")
        self.to_supervisor.append((self.world.now + self.world.delay_s, ("run", plan)))

    def send_stops(self, count, behind=b""):
        self.stops_sent = count
        self.check(BY_HOST, "stop")
        self.to_supervisor.append((self.world.now + self.world.delay_s, ("stop", count)))
        if behind:
            self.check(BY_HOST, "leave")
            self.to_supervisor.append((self.world.now + self.world.delay_s, ("leave",)))

    def half_close(self):
        if not self.is_shut:
            self.is_shut = True
            self.to_supervisor.append((self.world.now + self.world.delay_s, None))

    def close(self):
        self.host_closed = True
        self.half_close()

    def has_come(self):
        return bool(self.to_host) and self.to_host[0][0] <= self.world.now

    def wait(self, until):
        self.world.pass_time(until, self.has_come)
        return self.has_come()

    def next_message(self, until):
        if not self.wait(until):
            return None
        message = self.to_host[0][1]
        if message is None:
            raise bash_tool.ChannelLost if self.supervisor_pid else bash_tool.NotRun
        del self.to_host[0]
        return message

    def recv(self, size, flags=0):
        if not self.has_come():
            raise BlockingIOError
        return b"" if self.to_host[0][1] is None else self.to_host.pop(0) and b"x"

    def check(self, table, message):
        assert message in table[self.world.exchange.state], (self.world.exchange.state, message)

    # The supervisor's end

    def send(self, *message):
        if not self.host_closed and self.lives and not self.is_closed:
            if message[0] != "hello":
                self.check(BY_SUPERVISOR, message[0])
            self.to_host.append((self.world.now + self.world.delay_s, message))

    def hang_up(self):
        if not self.is_closed:
            self.is_closed = True
            self.to_host.append((self.world.now + self.world.delay_s, None))

    def due_at(self):
        moments = [moment for moment, _ in self.to_supervisor[:1] if self.lives]
        moments += [moment for moment, _ in self.to_host if moment > self.world.now][:1]
        if self.life and self.lives and self.life.phase != "over":
            moments.append(max(self.life.due_at, self.world.now))
        return min(moments, default=inf)

    def happen(self, what):
        if what in ("killed", "killed at once"):
            self.lives = False
            if what == "killed at once":  # before it has greeted
                self.to_host.clear()
            self.hang_up()
        elif what == "exit" and self.shell_lives:
            self.shell_lives = False
            self.facts.update(returncode=0, exited_at=self.world.now)
        elif what == "leftover ends":
            self.leftover_lives = False
        self.turn()

    def turn(self):
        while self.lives and self.to_supervisor and self.to_supervisor[0][0] <= self.world.now:
            self.hear(self.to_supervisor.pop(0)[1])
        while self.life and self.lives:
            childless = not self.shell_lives and not self.leftover_lives
            action = self.life.next_action(
                self.world.now, bash_tool.Seen(**self.facts, childless=childless, has_open_pipe=False)
            )
            self.pair()
            if not action:
                break
            getattr(self, action)()
        if self.life and self.life.phase == "over" and self.facts["nobody_reads"]:
            self.hang_up()

    def hear(self, message):
        if message is None or message[0] == "leave":
            self.facts["nobody_reads"] = True
            self.abandoned |= message is not None
            if not self.life:
                self.hang_up()
        elif message[0] == "run":
            self.life = bash_tool.Life(message[1], False, self.world.now)
            self.shell_lives, self.leftover_lives = True, self.world.leftover
        else:
            self.facts["host_stops"] = max(self.facts["host_stops"], message[1])

    def pair(self):
        """The state of one end goes with the phase of the other."""
        if not self.host_closed:
            phases = PHASES[self.world.exchange.state]
            assert self.life.phase in phases, (self.world.exchange.state, self.life.phase)

    def report_as(self, status, **more):
        self.send("answer", bash_tool.Report(status, path=b"/out", pid=7, supervisor=(4242, 1), **more), [])

    def answer_as_job(self):
        self.report_as("running")

    def report(self):
        status = self.life.status or "exited"
        self.report_as(status, exit_code=0 if status == "exited" else None, is_over=self.life.phase == "over")
        if self.facts["nobody_reads"]:
            self.hang_up()

    def end_output(self):
        if self.life.has_stayed and self.facts["nobody_reads"]:
            self.hang_up()

    def terminate(self):
        self.end_all()

    def kill(self):
        self.end_all()

    def end_all(self):
        if self.shell_lives:
            self.facts.update(returncode=-15, exited_at=self.world.now)
        self.shell_lives = self.leftover_lives = False


class Watched(bash_tool.Exchange):
    """An exchange whose moves are written down."""

    def _move(self, state, is_idle=False):
        world, before, line = self.world, self.state, self._channel
        super()._move(state, is_idle)
        world.moves.add((before, state))
        assert state in NEXT.get(before, {"over"}), (before, state)
        assert (self in world.exchanges) == (state not in ("new", "over"))
        assert state not in ("asking", "over") or self._channel is None
        if state in ("asking", "over") and line is not None:
            assert line.host_closed != (line in world.returned), "a channel is closed or returned, once"


def perform(world):
    """The call, and what follows it; what became of it."""
    exchange = world.exchange
    try:
        outcome = exchange.perform(None, None)
        if outcome.report.status != "running":
            return outcome.report
        with exchange.await_end() as end:
            return end.report if end else None
    except Struck:
        with suppress(Struck):  # a second one does not wait
            exchange.abandon()
        return "struck"


MOMENTS = any_of(0.0, 0.001, 0.05, 0.3, 0.301, 0.35, 1.0, 2.0, 2.001, 5.0, 5.999, 6.0, 7.0, 8.0)
EVENTS = any_of(
    "exit",
    "exit",
    "leftover ends",
    "killed",
    "cancel",
    "close",
    "close",
    "struck",
    "full",
    "no server",
    "killed at once",
)


HISTORIES = (
    any_of(*PLANS),
    st.booleans(),
    st.lists(st.tuples(MOMENTS, EVENTS), max_size=5),
    st.booleans(),
    any_of(0.0, 0.001, 0.04),
)


@fault("both_ends_in_random_histories", saboteur=("Exchange._settle", 'report.status == "exited" and', ""))
@draws(300)
@given(*HISTORIES)
def test_both_ends_in_random_histories(kind, ephemeral, events, leftover, delay_s):
    """Messages, states and phases are those of the table; each channel is closed or returned once; what is attached ends."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        play(monkeypatch, World(kind, ephemeral, events, leftover, delay_s))


@exhaustive
@draws(3000)
@given(*HISTORIES)
def test_both_ends_in_thousands_of_histories(kind, ephemeral, events, leftover, delay_s):
    with pytest.MonkeyPatch.context() as monkeypatch:
        play(monkeypatch, World(kind, ephemeral, events, leftover, delay_s))


def play(monkeypatch, world):
    monkeypatch.setattr(bash_tool, "_pool", world)
    monkeypatch.setattr(bash_tool, "monotonic", lambda: world.now)
    monkeypatch.setattr(bash_tool, "time", types.SimpleNamespace(sleep=world.sleep))
    monkeypatch.setattr(bash_tool, "remove_files", lambda path: None)
    exchange = world.exchange = Watched(world.plan, None, world.closing, world.cancel)
    exchange.world = world
    with suppress(Struck):
        world.pass_time(0.0)
    ended = perform(world)
    line = world.lines[-1] if world.lines else None
    if exchange.state == "held":
        world.events = [event for event in world.events if event[2] not in ("struck",)]
        world.pass_time(world.now + 10, lambda: line.has_come())
        exchange.notice_end()
        if exchange.state == "held":
            world.closing.cancel()
            exchange.wait_until_over()
    assert exchange.state == "over" and exchange not in world.exchanges
    if line is None or line.life is None:
        assert ended == "struck" or ended.status in ("cancelled", "failed")
        return
    if line in world.returned:
        assert line.life.phase == "over" and line.stops_sent == 0
        return
    attached = line.life.attached
    world.events = []
    world.pass_time(world.now + bash_tool.HOST_GONE_GRACE_S + 1)
    if line.lives and (attached or line.abandoned):
        assert not line.shell_lives and not line.leftover_lives, "the host has left, and something lives on"
    if ended is None:
        assert not line.lives, "the end of a job was lost, and its supervisor lives"


def test_histories_make_every_move():
    """A few histories make each move of the table, but those without a call and without a thread."""
    histories = [
        ("foreground", False, [(0.0, "cancel")], False),
        ("foreground", False, [(0.0, "full"), (0.0005, "killed at once"), (1.0, "exit")], False),
        ("foreground", True, [(1.0, "exit")], True),
        ("background", True, [(1.0, "exit")], True),
        ("kept", False, [(5.0, "killed")], False),
    ]
    moves = {("new", "over"), ("job", "held")}
    for kind, ephemeral, events, leftover in histories:
        with pytest.MonkeyPatch.context() as monkeypatch:
            world = World(kind, ephemeral, events, leftover, 0.001)
            play(monkeypatch, world)
            moves |= world.moves
    assert {(state, to) for state, more in NEXT.items() for to in more} == moves


def test_the_messages_are_those_of_their_table():
    """The kinds of message that the code packs or sends stand at the head of Channel, and in the table of the states."""
    head = SOURCE[SOURCE.index("# -- Messages between the host and a supervisor") : SOURCE.index("class Channel:")]
    listed = set(re.findall(r'(?m)^#   "(\w+)"', head))
    sent = set(re.findall(r'(?:channel\.send|pack\()\(\s*"(\w+)"', SOURCE))
    assert listed == sent
    in_states = {word for cells in ALLOWED.values() for cell in cells[2:] for word in re.findall(r"\w+", cell)}
    assert in_states == sent
