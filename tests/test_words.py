"""The names of bash_tool.py: each part is a word of the glossary at the head of the file, or a plain word of this list. A
new part is red until it is entered in one of the two, so that a second word for a thing is noticed."""

import ast
import re

from tests.support import SOURCE

# What means nothing but itself. A second word for a thing belongs in NOT_OURS, with the first one in its place.
PLAIN = set(
    """
above absolute accept action acts add added after all alone and anew annotations announced answer answered any append
apply argparse argument arguments argv as ask asked askpass at await background base bash be become before began begin
begun behind below blocked body borrow brackets bug busy by bytes c call callable called caller calls can cancel cap
capped captured carrying caught changes chars check child childless children choose chosen chunk chunks cleaning clear
code codecs codes command complete completion config confirm container contextmanager control controls copied coroutine
count counts cpu create created ctypes cut cwd data dataclass deadline decode decoded decoders default define
definition deny deque descendants describe description details dict digits dir directly directory do draw drop dropped
due dumpable duration early echo encode enter entered enum env environ environment ephemeral errno error escaped
evaluate events every exception exit exited exiting exported f fail failed fault fcntl fd fds field fields file files
filter filters final find finish finished first fit fitted flag flags flood flush fnmatch folder for form format forms
found free from frozen fsencode function gc get given glob globs goes gone goodbye got group groups guarded half handle
handled handler handshake has hashlib hear heard heartbeat held hints how hung id identity idle ids if ignored in inbox
inf info inner input inquire inquiry instead int integer interactive internal interpret interpreter interrupt
interrupted interruptible invalid io is iscoroutinefunction item iterable iterator join json judge k keep keeps key
keys kib kill kind labels large larger last latest least letter lifetime limit limits line lines list listed lists
literal live living load loader lock log logger lone long longer longest looks loop lost main make mapping mark marshal
matches max may medium memo merged message messages meta method mib minutes mode modes monotonic more most move moves n
name named names narrow never new newline newlines next no nobody non nonzero not nothing notice now nowhere nul null
number numbers object of offset ok old oldest omitted on once one only open option options os other others ours outbox
output outputs over overload overwrite overwritten own owner pack pair parameters params parent parents parse parser
part partial partly parts passed passes path patient pattern patterns pending perform persists phase pid pipe pipes
place plain poll poller pool pop popen popitem pr prctl prefix present print printable problem problems proc process
processes prog program progress properties python quiet quote raise raw re read reader reads ready reason receive
received recent refusal refuse reject remaining remains remote remove render repeated replace require required rest
restart return returncode right rolling room row rows rule rules run running s safe sanitise save saved saves scale
schema schemas scratch scrub search seconds secret sections seen sees select selector selectors self send sent separate
sequence serve session set setdefault setpipe setting settings settle share shared shell shells short shorten shown
shows signal signalled signals silent size sizes skipped slack snip socket socketpair sockets spawn spawned standard
start started starting stat state stateless states status stay stayed stderr stdin stdout step still strays strings
structured style subprocess subreaper supervise supervised suppress surplus survives sys system sz table take taken
takes targets task tell tells template temporary tenth term terminate text texts theirs thread threading time timeout
timeouts to told too tool total tree truncated truncation try tuple two type typed types unauthenticated underway
unfinished union unit unkillable unknown unquoted unread unsent until untold unwrap update used user v value variable
verb verbs version versions view wait waited waiting waits wake wanted wants was watch weakref what where while whole
why wide will with withdrawal withdrawn without word words wrappers writable write writer writers wrong
""".split()
)
# Words that are explained beside another one.
BESIDE = "plan outcome token cancel grace kept buffer head tail inspect half forget abandon end detached"
# Second words, with the word in their place.
NOT_OURS = {
    "left": "leftover, gone, omitted, remaining",
    "look": "inspect, observe, poll",
    "looked": "inspected",
    "known": "report, fields, schemas",
    "connection": "channel",
    "daemon": "supervisor",
    "worker": "supervisor, monitor",
    "abort": "stop, cancel, abandon",
    "survivor": "leftover",
    "fetch": "receive, read",
    "scan": "inspect",
}


def glossary():
    """The nouns and verbs that the head of the file explains."""
    lines = re.search(r"# The words of this file[^\n]*\n#\n((?:#     [^\n]*\n)+)#\n", SOURCE)[1]
    heads = re.findall(r"(?m)^#     (\w+(?: \w+)?)\s{2,}", lines)
    words = {word for head in heads for word in re.split("[ _]", head)}
    return words | {word for word in BESIDE.split() if re.search(r"\b%s\b" % word, lines)}


def forms(word):
    """The forms in which a word stands within names."""
    stem = word[:-1] if word[-1] in "ey" else word
    double = word + word[-1]
    return {
        word,
        word + "s",
        *(stem + end for end in ("ed", "es", "er", "ing", "ies", "ied")),
        double + "ed",
        double + "ing",
    }


def parts():
    """The words within the names that the file defines: {part: a name}."""
    found = {}
    for node in ast.walk(ast.parse(SOURCE)):
        stored = isinstance(getattr(node, "ctx", None), ast.Store)
        name = node.arg if isinstance(node, ast.arg) else getattr(node, "name", None)
        name = name or (stored and (getattr(node, "id", None) or getattr(node, "attr", None)))
        if isinstance(name, str) and not name.startswith("__"):
            for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name):
                found.setdefault(part.lower(), name)
    return found


def strange(found, words):
    """The parts that are no form of a word and not plain, with a name that has each."""
    ours = set().union(*map(forms, words)) | {"lives", "withheld"}
    return {part: name for part, name in found.items() if part not in ours | PLAIN}


def test_each_part_of_a_name_is_a_word_of_the_glossary_or_plain():
    words, found = glossary(), parts()
    assert 30 <= len(words) <= 60 and not words & PLAIN
    assert strange(found, words) == {}
    assert PLAIN - set(found) == set(), "no name has these any more"
    assert {word: NOT_OURS[word] for word in NOT_OURS if word in found or word in PLAIN} == {}


def test_a_second_word_for_a_thing_is_noticed():
    for name in ("close_connection", "look_round", "_survivors", "Worker"):
        assert strange({part.lower(): name for part in re.findall("[A-Z]?[a-z]+", name)}, glossary())
