"""The pure functions, to the letter: texts, kept ends and profiles that no single clause shows whole."""

import dataclasses
import json
import re

import pytest
from hypothesis import example, given, strategies as st

from test_bash_tool import AUTHENTICATION, OTHER_FAILURES
from tests.known_commands import any_of
from tests.support import GUARDED, JOBS, MODES, STREAMS, bash_tool


def test_words_for_sizes_and_values():
    """Sizes in the largest unit that leaves one or more, seconds to three decimals, quotes within 80 characters."""
    K = 1024
    sizes = {0: "0B", 1: "1B", 1023: "1023B", K: "1KB", K + 1: "1.0KB", 3 * K // 2: "1.5KB", K * K - 1: "1024.0KB"}
    sizes.update({K * K: "1MB", 5 * K * K // 2: "2.5MB", K**3 - K * K: "1023MB", K**3: "1GB", 5 * K**3 // 2: "2.5GB"})
    sizes[3 * K**4] = "3072GB"
    assert {count: bash_tool.format_size(count) for count in sizes} == sizes
    times = {30.0: "30s", 900.0: "900s", 0.7: "0.7s", 1.23456: "1.235s", 0.0004: "0s", 86400000.0: "86400000s"}
    times.update({999999.0: "999999s", 999999.97: "999999s", 1e6: "1000000s", 1000000.5: "1000000s"})
    assert {seconds: bash_tool.format_seconds(seconds) for seconds in times} == times
    assert bash_tool.make_printable("a\nb\udc80\x1bé") == "a\ufffdb\ufffd\ufffdé"
    assert bash_tool.make_printable(7) == "7" and bash_tool.make_printable("\0", "?") == "?"
    assert bash_tool.shorten("a\nb\0c") == "a b c" and bash_tool.shorten(None) == "None"
    assert [bash_tool.shorten("x" * n) for n in (80, 81, 999)] == ["x" * 80, "x" * 79 + "…", "x" * 79 + "…"]
    assert [bash_tool.last_bytes("aé€", most) for most in range(1, 7)] == ["", "", "€", "€", "é€", "aé€"]
    assert bash_tool.last_bytes("a", 9) == "a"
    assert [bash_tool.first_bytes("aé€", most) for most in range(7)] == ["", "a", "a", "aé", "aé", "aé", "aé€"]


@given(
    st.text(st.characters(), max_size=100)
    | st.lists(any_of("]", "[", '"', "\\", "\n", "\ud800", "u005d", "x")).map("".join)
)
def test_quoted_comes_back(value):
    """Read as JSON, what is quoted is what `shown` gives; it is one line without `]`, and any wire can carry it."""
    text = bash_tool.quote(value)
    assert json.loads(text) == bash_tool.shorten(value)
    assert "]" not in text and len(text.splitlines()) == 1 and text.encode()


PIECES = [b" ", *b"a \n m \xc3\xa9 \xf0\x9f\x98\x80 \xe2\x82 \xff \x1b \x1b[3 \x1b]0;t \x07 \\ \r \r\n".split(b" ")]


@given(st.lists(any_of(*PIECES), max_size=8).map(b"".join), st.integers(0, 9), st.integers(0, 5))
@example(b"\x1b[" + b"1;" * 600, 300, 0)
@example(b"\x1b[" + b"1;" * 400, 300, 0)
@example(b"\x1b[31", 2, 0)
def test_what_may_be_half_there_is_held_back(data, in_head, newlines):
    """Of a stream that goes on, what a later byte could make part of a character, of a sequence or of a line end waits;
    wherever the stream was split."""
    held = 0
    for n in range(1, min(len(data), 1024) + 1):
        end = data[-n:]
        lead = end[0]
        more = {2: 0xC2 <= lead <= 0xDF, 3: 0xE0 <= lead <= 0xEF, 4: 0xF0 <= lead <= 0xF4}
        goes_on = all(0x80 <= byte <= 0xBF for byte in end[1:])
        half = any(fits and n < length and goes_on for length, fits in more.items())
        half |= end in (b"\r", b"\x1b", b"\x1b[", b"\x1b]")
        half |= end[:2] == b"\x1b[" and end[2:].lstrip(b"0123456789:;<=>?").lstrip(b" !\"#$%&'()*+,-./") == b""
        half |= end[:2] == b"\x1b]" and not set(end[2:-1]) & set(b"\x07\x1b\n") and end[-1:] not in (b"\x07", b"\n")
        held = n if half else held
    stream = bash_tool.Captured(data[:in_head], data[in_head:], len(data) + 7, newlines)
    left = bash_tool.without_unfinished(stream)
    kept = data[: len(data) - held]
    assert left == bash_tool.Captured(kept[:in_head], kept[in_head:], len(data) + 7 - held, newlines)


def test_what_is_kept_of_a_stream():
    """Enough of each end, whatever it turns out to be, and no more."""
    for row, kept in (MODES, (65536, 65536)), (JOBS, (0, 102400)), (STREAMS, (120004, 0)), (GUARDED, (262148, 0)):
        assert bash_tool.size_buffers(row)[:2] == kept
    assert bash_tool.size_buffers(dataclasses.replace(MODES, max_output_bytes=9, snip_size=1)) == (4, 5, False)


def test_profiles_that_cannot_be():
    """A row that no run could keep to is refused with the reason; what is just possible is not."""
    waits = {"timeouts_s": {"default": 1e-9}, "grace_s": 0.0, "drain_idle_s": 0.0, "drain_total_s": 0.0}
    dataclasses.replace(MODES, **waits, max_output_bytes=1, snip_size=1)
    dataclasses.replace(JOBS, **waits, max_output_bytes=1, max_output_lines=1, rolling_bytes=1)
    dataclasses.replace(STREAMS, **waits, max_output_chars=1)
    dataclasses.replace(GUARDED, **waits, max_output_bytes=1)
    dataclasses.replace(MODES, max_output_bytes=8, snip_size=4)
    dataclasses.replace(JOBS, max_output_bytes=8, rolling_bytes=8)
    KEEP = bash_tool.OnTimeout.KEEP
    by_mode = (
        'timeouts_s takes seconds by mode such as {"default": 30}, '
        'without "background" where the format cannot tell of jobs, got %r'
    )
    wrong = [(MODES, {"timeouts_s": {"slow": 1.0}}, by_mode % {"slow": 1.0})]
    for value in (0, -0.5, float("inf"), float("nan"), 1e9 + 1, True, "1"):
        reason = "timeouts_s['slow'] takes seconds above 0 and up to 1000000000, got %r" % value
        wrong.append((MODES, {"timeouts_s": {"default": 1.0, "slow": value}}, reason))
    for name in ("grace_s", "drain_idle_s", "drain_total_s"):
        wrong.append((MODES, {name: -1}, name + " takes seconds from 0 up to 1000000000, got -1"))
    counts = {"max_output_bytes": GUARDED, "max_output_lines": JOBS, "max_output_chars": STREAMS, "rolling_bytes": JOBS}
    for name, row in {**counts, "snip_size": MODES}.items():
        for value in (0, 1.5, True):
            wrong.append((row, {name: value}, "%s takes a whole number from 1 up, got %r" % (name, value)))
    cannot_keep = [(row, {"on_timeout": KEEP}, KEEP) for row in (STREAMS, GUARDED)]
    cannot_keep += [(JOBS, {"saves": False}, KEEP), (MODES, {"on_timeout": "keep"}, "keep")]
    reason = "on_timeout takes OnTimeout.KILL, or KEEP where the format tells of jobs and `saves` is True, got %r"
    wrong += [(row, changes, reason % got) for row, changes, got in cannot_keep]
    both = {"default": 1.0, "background": 1.0}
    wrong += [(row, {"timeouts_s": both}, by_mode % both) for row in (STREAMS, GUARDED)]
    for row, changes, reason in wrong:
        with pytest.raises(ValueError) as refused:
            dataclasses.replace(row, **changes)
        assert str(refused.value) == reason


def test_phrases_of_authentication():
    """What programs say of a missing login is known for that, and no other failure is."""
    for line in AUTHENTICATION + OTHER_FAILURES:
        assert bool(re.search(bash_tool._UNAUTHENTICATED, line)) == (line in AUTHENTICATION), line
