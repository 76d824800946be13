"""Commands with a known outcome: what properties draw.

A property over "every command" draws its commands here. Each comes with what it writes, how it ends, how long it takes
and what it leaves behind; `test_known_commands` asks bash itself whether that is so.

    known_commands()       ends by itself: writes to both streams in many ways, then ends in one of many ways
    endless()              does not end by itself: has written before, and takes TERM in one of many ways;
    endless_in_each_way()  one for each of these ways
    leaving(names)         ends by itself and leaves processes behind; the number of each stands in a file
    filler(size)           the text of a command that writes so many bytes
    sizes_about(limit)     sizes of an output at a limit, near it and far from it
    names, folders         names of variables that look like no secret; names of directories
    any_of(…), some_of(…)  one of these values; a list of at least one of them
    at_once(run, things)   runs things side by side, so that a property waits once for many
"""

import dataclasses
import os
import random
import shlex
import signal
from concurrent.futures import ThreadPoolExecutor

from hypothesis import strategies as st


def any_of(*values):
    return st.sampled_from(values)


def some_of(*values, most=3):
    return st.lists(st.sampled_from(values), min_size=1, max_size=most)


@dataclasses.dataclass(frozen=True)
class Known:
    """A command and its outcome."""

    text: str
    stdout: str = ""
    stderr: str = ""
    merged: str = ""  # both streams, in the order of writing
    code: object = 0  # of the shell, 128 + n after a signal; None if it does not end by itself
    signal: object = None  # the name of the signal that ends the shell itself
    seconds: float = 0.0  # it takes at least so long, in a pause
    early: str = ""  # what of `merged` it writes before that pause
    leaves: tuple = ()  # files in its directory, each with the number of a process that lives on
    last: str = ""  # what it writes to stdout when it receives TERM
    deaf: bool = False  # TERM does not end it

    def held(self, file):
        """Its text, with a pause that lasts until this file is there, however long a busy machine takes to make it."""
        assert self.seconds and self.text.count("sleep %s" % self.seconds) == 1, self
        return self.text.replace("sleep %s" % self.seconds, until(file))


def until(file):
    """In a command: waits for a file."""
    return "until [ -e %s ]; do sleep 0.1; done" % file


SNIPPETS = r"""
echo hi
exit 3
return 3
if
echo a; if
set -e; false; echo no
set -euo pipefail; echo $x; echo no
trap "echo bye" EXIT; echo x
kill -9 $$
cat <<E\nhi\nE
cat <<E\nhi\nE\necho z
echo $0 $# "$@" $-
echo $LINENO\necho $LINENO
read x; echo $?
# only a comment
\n\n
nonexistent-command
! true
exec false
exec echo hi
f() { return 4; }; f
echo ${BASH_SOURCE[0]} ${#BASH_SOURCE[@]}
echo `echo \`echo a\``
echo a\
echo 'unterminated
(exit 7)
ls /proc/self/fd
set -o pipefail; false | true
shopt -s expand_aliases\nalias q="echo qq"\nq
trap "echo err" ERR; false; true
echo $((1/0)); echo after
${x?bad}; echo no
wait; jobs; echo $!
exit $?
echo !!
echo {1..3} ~ *.nomatch
exec 3>/dev/null; echo x >&3; echo k
readonly x=1; x=2; echo after
unset PATH; ls
echo "$(trap)" $BASH_SUBSHELL
case x in
)
;
&
echo \x01\x7f\xff
exit 300
yes | head -n 1
""".strip("\n").split("\n")

ESCAPE_SEQUENCES = (
    "\x1b[31m \x1b[0m \x1b[1;38;5;9m \x1b[?25l \x1b[2J \x1b]0;title\x07 \x1b]8;;http://x\x1b\\ \x1bP1$r0m\x1b\\ "
    "\x1b_app\x1b\\ \x1b^pm\x1b\\ \x1bXsos\x1b\\ \x1b(B \x1b= \x1bM \x9b1m \x1b[1:2m \x9d0;title\x9c \x90dcs\x1b\\ "
    "\x98sos\x9c \x9epm\x07 \x9fapp\x9c \x9c \x1b[\x1b[m \x1bK \x1b(D"
).split(" ")

NAP = "sleep %d" % random.randint(10**6, 10**7)  # no other process of the machine is called so
DEADLY = ["HUP", "INT", "ILL", "ABRT", "FPE", "KILL", "SEGV", "PIPE", "ALRM", "TERM", "USR1", "USR2", "BUS", "XCPU"]
words = st.text(any_of(*"abcXYZ089 .,:-_=+\né€😀"), max_size=12).map(lambda word: word + ";")
failures = any_of(1, 2, 3, 124, 126, 127, 128, 130, 137, 141, 143, 254, 255) | st.integers(1, 255)
if "BASH_TOOL_CODE" in os.environ:  # for a change of what one code does
    failures = st.just(int(os.environ["BASH_TOOL_CODE"]))
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True).map(lambda name: "T_%s_" % name)
folders = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=40).filter(
    lambda name: name not in (".", "..") and len(name.encode()) < 200
)
WAYS_OF_WRITING = [
    *("printf %s {}", "printf %s {} | cat", "(printf %s {})", "sh -c 'printf %s \"$1\"' - {}"),
    *("f() {{ printf %s \"$1\"; }}; f {}", "w={}; printf %s \"$w\"", "echo -n \"$(printf %s {})\""),
]
WAYS_OF_EXITING = [
    *("exit {}", "(exit {})", "exec sh -c 'exit {}'", "trap 'exit {}' EXIT", "sh -c 'exit {}'"),
    *("set -e; sh -c 'exit {}'; exit", "g() {{ return {}; }}; g", ": & wait $!; exit {}"),
]
# The end of a command that does not end by itself; what it writes at TERM; whether it is deaf to TERM.
WAYS_OF_TERM = [
    *(("{ready}; %s" % NAP, "", False), ("trap 'exit {code}' TERM; {ready}; %s & wait" % NAP, "", False)),
    ("trap 'printf bye; exit {code}' TERM; {ready}; %s & wait" % NAP, "bye", False),
    *(("trap '' TERM; {ready}; %s" % NAP, "", True), ("(trap '' TERM; {ready}; exec %s) & wait" % NAP, "", True)),
    *(("{ready}; %s & exec %s" % (NAP, NAP), "", False), ("{ready}; kill -STOP $$", "", False)),
    *(("{ready}; while :; do sleep 0.1; done", "", False), ("{ready}; %s | %s" % (NAP, NAP), "", False)),
]
WAYS_OF_LEAVING = [  # each leaves one process, which writes its number into a file
    *("{} &", "{} >/dev/null 2>&1 &", "nohup {} >/dev/null 2>&1 &", "setsid {} >/dev/null 2>&1 &", "({} &)"),
    *("{} </dev/null & disown", "set -m; {} & set +m", "env -i {} >/dev/null 2>&1 &"),
    "(env -i setsid {} >/dev/null 2>&1 &)",
]


@st.composite
def _writes(draw, streams=(1, 2), words=words, most=4):
    """Lines that each write a word, and the words with their streams."""
    writes = draw(st.lists(st.tuples(any_of(*streams), words, any_of(*WAYS_OF_WRITING)), max_size=most))
    lines = ["{ %s; } >&%d" % (way.format(shlex.quote(word)), stream) for stream, word, way in writes]
    return lines, [(stream, word) for stream, word, _ in writes]


def _known(lines, said, **outcome):
    """The command of these lines, which write what was said."""
    apart = ["".join(word for stream, word in said if stream == wanted) for wanted in (1, 2)]
    return Known("\n".join(lines), *apart, "".join(word for _, word in said), **outcome)


@st.composite
def known_commands(draw, codes=st.just(0) | failures, signals=DEADLY, pause_s=0.0, **writes):
    """A command that ends by itself, with one of `codes` or by one of `signals`; it takes `pause_s` somewhere before."""
    lines, said = draw(_writes(**writes))
    place = draw(st.integers(0, len(lines))) if pause_s else 0
    lines[place:place] = ["sleep %s" % pause_s] if pause_s else []
    early = "".join(word for _, word in said[:place])
    name = draw(st.none() | any_of(*signals)) if signals else None
    if name is not None:
        end, code = "ulimit -c 0; kill -%s $$" % name, 128 + getattr(signal, "SIG" + name)
    else:
        code = draw(codes)
        ways = WAYS_OF_EXITING if code else [":", "exit 0", "! false", *WAYS_OF_EXITING]
        end = draw(any_of(*ways)).format(code)
    return _known([*lines, end], said, code=code, signal=name and "SIG" + name, seconds=pause_s, early=early)


@st.composite
def endless(draw, way=None, ready=":", **writes):
    """A command that does not end by itself; it executes `ready` when all else is done."""
    lines, said = draw(_writes(**writes))
    end, last, deaf = way or draw(any_of(*WAYS_OF_TERM))
    lines.append(end.format(code=draw(st.integers(0, 255)), ready=ready))
    return _known(lines, said, code=None, last=last, deaf=deaf)


def endless_in_each_way(**given):
    """A command that does not end by itself for each of the ways in which one takes TERM; the n-th makes a file ready-n."""
    return st.tuples(*(endless(way, ": > ready-%d" % n, **given) for n, way in enumerate(WAYS_OF_TERM)))


@st.composite
def leaving(draw, ways=None, **known):
    """A command that ends by itself when the processes that it leaves, in each of `ways`, have written their numbers."""
    ways = ways or draw(st.lists(any_of(*WAYS_OF_LEAVING), min_size=1, max_size=3))
    files = tuple("left-%d" % n for n in range(len(ways)))
    starts = [way.format("sh -c 'echo $$ > %s; exec %s'" % (file, NAP)) for way, file in zip(ways, files)]
    starts = ["%s\nuntil [ -s %s ]; do sleep 0.1; done" % each for each in zip(starts, files)]
    end = draw(known_commands(**known))
    return dataclasses.replace(end, text="\n".join([*starts, end.text]), leaves=files)


def filler(size, byte="x", stream=1):
    """The text of a command that writes so many bytes."""
    return "head -c %d /dev/zero | tr '\\0' '%s' >&%d" % (size, byte, stream)


def sizes_about(limit, most=None):
    """Sizes at a limit, next to it and far from it."""
    return any_of(limit - 1, limit, limit + 1) | st.integers(0, most or 3 * limit)


def at_once(run, things):
    """What `run` gives for each of the things, which it runs side by side."""
    with ThreadPoolExecutor(max(1, len(things))) as pool:
        return list(pool.map(run, things))
