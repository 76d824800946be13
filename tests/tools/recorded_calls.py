"""Four hundred calls that say whether two servers differ. They come from what models type and from what has befallen
tools; the judge's questions were not looked at, and are not theirs.

`recorded(words)` starts the server and gives of each call what a client sees, without what changes from run to run.
"""

import contextlib
import json
import os
import re
import signal
import time

from tests.accident_cases import LAST_WORDS, LEFT, SCREENS, TEXTS, TOKENS, TREES
from tests.conformance.judge import Judge, Question, Wrong, several_at_once
from tests.known_commands import SNIPPETS

NAP = "4711.5"  # what a command sleeps that does not end by itself
SIZES = (1, 80, 4097, 8192, 50000, 65537, 99999, 131071, 131073, 140000, 262145, 1200000)
KINDS = ("x", "\\n", "\\377")

EVERYDAY = """ls -la | head -n 1|git --version|python3 -c "print('hi')"|echo "$PAGER $TERM $EDITOR $LANG"|umask; ulimit -n
    |cd /; pwd; cd -|false|exit 1|exit 77|exit 130|kill -TERM $$|kill -KILL $$|kill -SEGV $$|kill -40 $$|seq 20000
    |for i in 1 2 3; do echo $i; sleep 0.05; done|cat /etc/hostname >/dev/null|tty; echo $?|cat|read x; echo $?
    |echo out; echo err >&2|echo err >&2; exit 2|printf "a\\tb\\n"|printf "   \\n"|true|printf "no newline"|echo one; echo; echo
    |ps -o pid= -p $$ >/dev/null|command -v bash|nosuchcommand|ls nosuchfile|./nosuchscript|cd nosuchdir|env | grep -c TOKEN
    |stat -c %a $0 2>/dev/null; echo|mkdir -p a/b && ls|(exit 5)|exec 2>&1; ls nosuch|sleep 0.2; echo done
    |yes | head -n 40000|seq 300000 | tail -n 1|printf "\\r\\n\\r\\n"|head -c 100 /dev/zero|echo $SHLVL|echo -n|exec true"""
STOPPED = """sleep {n}|echo on; sleep {n}|trap "echo bye; exit 4" TERM; sleep {n} & wait|trap "" TERM; while :; do sleep 0.1; done
    |(trap "" TERM; exec sleep {n}) & wait|seq 9|sort; sleep {n}|(echo b; echo a; sleep {n}) | sort|(seq 9; sleep {n}) | tail -n 2
    |python3 -u -c "print(1); import time; time.sleep(99)"|python3 -c "print(1); import time; time.sleep(99)"|kill -STOP $$
    |seq 90000; sleep {n}|trap "sleep 0.3; echo later; exit" TERM; sleep {n} & wait|sleep {n} | cat|exec sleep {n}
    |echo x; while :; do sleep 0.1; done|bash -c "sleep {n}; echo never"|sleep 0.7|sleep 1.3; echo on|(sleep 0.3; echo late) & sleep {n}
    |trap "exit 0" INT TERM; while :; do sleep 0.1; done|xargs sleep < <(echo {n})|timeout 90 sleep {n}|setsid sleep {n} & wait"""
WRONG = [{}, {"command": 1}, {"command": ""}, {"command": "echo a", "mode": "fast"}, {"cmd": "ls"}, {"command": "a\0b"}]
WRONG += [
    {"command": "echo a", key: value}
    for key in ("timeout", "run_in_background", "description", "cwd")
    for value in (None, 1500, 999, "2000", True, 10**16)
]
# fmt: off
LINES = [
    b"nonsense", b"[]", b"[1]", b"7", b'{"jsonrpc": "2.0"}', b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', b'{"id": 3}',
    *(json.dumps({"jsonrpc": "2.0", "id": 5, "method": method, "params": params}).encode()
      for method in ("ping", "initialize", "tools/list", "server/discover", "nosuch", "tools/call")
      for params in ({}, {"name": "bash"}, {"protocolVersion": "2025-06-18"}, 3)),
    b'{"jsonrpc": "2.0", "id": 6, "method": "' + b"x" * 200 + b'"}', b'{"jsonrpc": "2.0", "id": null, "method": "ping"}',
]
# fmt: on


def listed(text):
    return [line.strip() for line in re.split(r"(?<! )\||\n +\|", text)]


def sessions():
    """Of each server how it is started, with `together` if its calls are under way at the same time, and its calls: a
    command, arguments, a line of bytes, or a pair of a command and what befalls it when it has begun."""
    stops = dict(timeouts={"default": 0.6, "slow": 1.5, "grace_s": 1.5})
    sized = ["head -c %d /dev/zero | tr '\\0' '%s'" % (size, kind) for size in SIZES for kind in KINDS]
    drawn = ["printf '%%b' '%s'" % text for text, _ in SCREENS] + [*TEXTS.values()]
    named = ["echo ${%s-none}" % name for name in TOKENS] + [": " + " ".join(TOKENS)]
    trees = [tree.format(n=NAP) for tree in TREES.values()] + [each.format(n=NAP) for each in listed(STOPPED)]
    left = [each.format(n=NAP) for name, each in LEFT.items() if "curl" not in name]
    far = [
        "for n in $(seq %d); do setsid sleep %s >/dev/null 2>&1 & done; sleep 0.2; echo on" % (n, NAP) for n in (6, 21)
    ]
    yield {}, [each.replace("\\n", "\n") for each in SNIPPETS if "/proc/self" not in each] + listed(EVERYDAY)
    yield {}, sized
    yield {}, [*drawn, *LAST_WORDS, "printf '%s'" % ("a\\rb\\r" * 5), "for n in $(seq 99); do printf \"$n%%\\r\"; done"]
    yield (
        dict(env={**TOKENS, "PIP_INDEX_URL": "https://me:pw@h/", "FORCE_COLOR": "1"}),
        [*named, "echo on", "env | sort"],
    )
    for n in range(0, len(trees), 9):
        yield dict(stops, together=True), trees[n : n + 9]
    yield dict(stops, together=True), [{"command": each, "mode": "slow"} for each in trees[:5]]
    yield dict(together=True), left
    yield {}, far
    yield (
        dict(structured=True, timeouts={"default": 0.6}),
        ["echo on", "exit 3", "sleep 9", "seq 90000", "kill -9 $$", *LAST_WORDS],
    )
    yield {}, WRONG
    yield {}, LINES
    yield {}, [("echo on; sleep %s" % NAP, how) for how in ("withdrawn", "withdrawn", "SIGINT", "SIGINT")]
    yield dict(timeouts={"grace_s": 0.5}), [("trap '' TERM; while :; do sleep 0.1; done", "SIGINT"), "echo on"]
    yield {}, [("trap 'echo bye; exit' TERM; sleep %s & wait" % NAP, "SIGTERM")]
    yield {}, [("sleep 0.6; echo on", "input")]
    yield {}, [{"command": each, "mode": "background"} for each in ("sleep 0.1", "exit 3", "echo on; sleep 2", "seq 9")]
    yield {}, [{"command": "sleep 0.8; exit 3", "mode": "background"}, "sleep 1.5", "echo on", "seq 50000"]
    for row in ("jobs", "streams", "guarded"):
        calls = [each.replace("\\n", "\n") for each in SNIPPETS[:5]] + sized[9:24] + LAST_WORDS
        yield dict(profile=row, timeouts={"default": 1.5}), [*calls, "echo out; echo err >&2; exit 2", "sleep 9"]


PLACES = (
    (r"/tmp/[^\s\"'\\\];:)]*", "PATH"),
    (r"\b(pid|Process|kill -9|kill -TERM|exit code:?) (-?\d{3,}(?: -\d+)*)", r"\1 N"),
    (r"<pid>\d+</pid>", "<pid>N</pid>"),
    (r"(?<![\d.])\d{3,7}(?= \"sleep|: line|\")", "N"),
    (r"process \d+ ", "process N "),
    (r"after [\d.]+s([:;\]])", r"after Ns\1"),
    (r'"(duration_s|pid)": [\d.]+', r'"\1": N'),
    (r'"leftovers": \[[\d, ]+\]', '"leftovers": [N]'),
    (r"SHLVL=\d+|JUDGE_OF\w+=1|_=\S+", ""),
)


def without_chance(value):
    """What a client sees, without numbers of processes, paths and times."""
    text = json.dumps(value, ensure_ascii=True)
    for pattern, instead in PLACES:
        text = re.sub(pattern, instead, text)
    return text


def answered(wire, call):
    """What a client sees of one call, and the seconds that it took."""
    begun = time.monotonic()
    if isinstance(call, bytes):
        wire.send(call, {"jsonrpc": "2.0", "id": "ping", "method": "ping"})
        seen = []
        while not seen or seen[-1].get("id") != "ping":
            seen.append(wire.receive(20) or {"id": "ping"})
        return seen, time.monotonic() - begun
    if isinstance(call, tuple):
        name = "begun-%d" % wire.number
        number = wire.begin("echo > %s; %s" % (name, call[0]), name, mode="slow")
        begun = time.monotonic()
        if call[1] == "withdrawn":
            wire.cancel(number)
            return "withdrawn", 0.0
        if call[1] == "input":
            wire.process.stdin.close()
        else:
            wire.signal(getattr(signal, call[1]))
    else:
        arguments = {"command": call} if isinstance(call, str) else call
        number = wire.request("tools/call", name="bash", arguments=arguments)
    return wire.response(number, 20), time.monotonic() - begun


def answered_together(wire, calls):
    """The same of calls that are under way at the same time."""
    for call in calls:
        arguments = {"command": call} if isinstance(call, str) else call
        wire.request("tools/call", name="bash", arguments=arguments)
    for number in range(2, len(calls) + 2):  # behind a ping
        got = wire.response(number, 20)
        yield got, wire.came_s[number] - wire.sent_s[number]


def recorded(words, at_once=24):
    """Of each call of each session what was seen, and how long it took; of what failed the exception."""
    with contextlib.closing(Judge(words, claims={"levels": ["core", "server"]})) as judge:

        def session(how, calls):
            seen = []
            with contextlib.closing(Question(judge, "", "session")) as question:
                wire = question.server(**{key: value for key, value in how.items() if key != "together"})
                come = answered_together(wire, calls) if "together" in how else (answered(wire, each) for each in calls)
                try:
                    wire.ask("ping")  # the start of a server takes its time
                    for got, took_s in come:
                        seen.append((without_chance(got).replace(str(question.place), "PLACE"), took_s))
                except (Wrong, OSError, ValueError) as problem:
                    seen.append((type(problem).__name__, 0.0))
            return seen + [("not asked", 0.0)] * (len(calls) - len(seen))

        return several_at_once(at_once, session, list(sessions()))


def differences(ours, theirs):
    """Where all of their recordings differ from all of ours, in what was seen or in the time that the quickest took: pairs of
    session and call. A busy machine makes a call slow, and none quick. The first call of a session waits for a start."""
    slack_s = 0.4 + 0.01 * os.getloadavg()[0]
    for n, session in enumerate(theirs[0]):
        for m in range(len(session)):
            (our_texts, our_times), (texts, times) = (zip(*(each[n][m] for each in some)) for some in (ours, theirs))
            if not set(texts) & set(our_texts) or m and abs(min(times) - min(our_times)) > slack_s:
                yield n, m
