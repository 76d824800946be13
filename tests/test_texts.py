"""The pure functions, to the letter: texts, kept ends and profiles that no single clause shows whole."""

import dataclasses
import json

import pytest
from hypothesis import example, given, strategies as st

from tests.support import GUARDED, JOBS, MODES, PROFILES, STREAMS, bash_tool, sections


def test_words_for_sizes_and_values():
    """Sizes in the largest unit that leaves one or more, seconds with at most three decimals, what is quoted within 80
    characters."""
    K = 1024
    for count, text in (
        (0, "0B"),
        (1, "1B"),
        (1023, "1023B"),
        (K, "1KB"),
        (K + 1, "1.0KB"),
        (3 * K // 2, "1.5KB"),
        (K * K - 1, "1024.0KB"),
        (K * K, "1MB"),
        (5 * K * K // 2, "2.5MB"),
        (K**3 - K * K, "1023MB"),
        (K**3, "1GB"),
        (5 * K**3 // 2, "2.5GB"),
        (3 * K**4, "3072GB"),
    ):
        assert bash_tool.size_text(count) == text
    for seconds, text in (
        (30.0, "30s"),
        (900.0, "900s"),
        (0.7, "0.7s"),
        (1.23456, "1.235s"),
        (0.0004, "0s"),
        (999999.0, "999999s"),
        (999999.97, "999999s"),
        (1e6, "1000000s"),
        (1000000.5, "1000000s"),
        (86400000.0, "86400000s"),
    ):
        assert bash_tool.seconds_text(seconds) == text
    assert (
        bash_tool.printable("a\nb\udc80\x1bé") == "a\ufffdb\ufffd\ufffdé"
        and bash_tool.printable(7) == "7"
        and bash_tool.printable("\0", "?") == "?"
    )
    assert bash_tool.shown("a\nb\0c") == "a b c" and bash_tool.shown(None) == "None"
    assert (
        bash_tool.shown("x" * 80) == "x" * 80
        and bash_tool.shown("x" * 81) == "x" * 79 + "…"
        and bash_tool.shown("x" * 999) == "x" * 79 + "…"
    )
    assert [bash_tool.last_bytes("aé€", most) for most in range(7)] == [
        "",
        "",
        "",
        "€",
        "€",
        "é€",
        "aé€",
    ] and bash_tool.last_bytes("a", 9) == "a"
    assert [bash_tool.first_bytes("aé€", most) for most in range(7)] == ["", "a", "a", "aé", "aé", "aé", "aé€"]


@given(
    st.text(st.characters(), max_size=100)
    | st.lists(st.sampled_from(["]", "[", '"', "\\", "\n", "\ud800", "u005d", "x"])).map("".join)
)
def test_quoted_comes_back(value):
    """Read as JSON, what is quoted is what `shown` gives; it is one line without `]`, and any wire can carry it."""
    text = bash_tool.quoted(value)
    assert json.loads(text) == bash_tool.shown(value)
    assert "]" not in text and len(text.splitlines()) == 1 and text.encode()


@given(
    st.lists(
        st.sampled_from(
            [
                b"a",
                b"\n",
                b"m",
                "é".encode(),
                "😀".encode(),
                b"\xe2\x82",
                b"\xff",
                b"\x1b",
                b"\x1b[3",
                b"\x1b]0;t",
                b"\x07",
                b"\\",
                b"\r",
                b"\r\n",
                b" ",
            ]
        ),
        max_size=8,
    ).map(b"".join),
    st.integers(0, 9),
    st.integers(0, 5),
)
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
        half = any(
            fits and n < length and all(0x80 <= byte <= 0xBF for byte in end[1:]) for length, fits in more.items()
        )
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
    for name, kept in (
        ("MODES", (65536, 65536)),
        ("JOBS", (0, 102400)),
        ("STREAMS", (120004, 0)),
        ("GUARDED", (262148, 0)),
    ):
        row = getattr(bash_tool, name)
        assert row.truncation.kept(row) == kept
    assert MODES.truncation.kept(dataclasses.replace(MODES, max_output_bytes=9, snip_size=1)) == (4, 5)


def test_profiles_that_cannot_be():
    """A row that no run could keep to is refused with the reason; what is just possible is not."""
    waits = {"timeouts_s": {"default": 1e-9}, "grace_s": 0.0, "drain_idle_s": 0.0, "drain_total_s": 0.0}
    dataclasses.replace(MODES, **waits, max_output_bytes=1, snip_size=1)
    dataclasses.replace(JOBS, **waits, max_output_bytes=1, max_output_lines=1, rolling_bytes=1)
    dataclasses.replace(STREAMS, **waits, max_output_chars=1)
    dataclasses.replace(GUARDED, **waits, max_output_bytes=1)
    dataclasses.replace(MODES, max_output_bytes=8, snip_size=4)
    dataclasses.replace(JOBS, max_output_bytes=8, rolling_bytes=8)
    timeouts = lambda **more: {"timeouts_s": dict({"default": 1.0}, **more)}
    for row, changes, reason in (
        (MODES, {"timeouts_s": {"slow": 1.0}}, "timeouts_s takes seconds by mode, with \"default\", got {'slow': 1.0}"),
        *(
            (
                MODES,
                timeouts(slow=value),
                "timeouts_s['slow'] takes seconds above 0 and up to 1000000000, got %r" % value,
            )
            for value in (0, -0.5, float("inf"), float("nan"), 1e9 + 1, True, "1")
        ),
        *(
            (MODES, {name: -1}, name + " takes seconds from 0 up to 1000000000, got -1")
            for name in ("grace_s", "drain_idle_s", "drain_total_s")
        ),
        *(
            (row, {name: value}, "%s takes a whole number from 1 up, got %r" % (name, value))
            for row, name in (
                (GUARDED, "max_output_bytes"),
                (JOBS, "max_output_lines"),
                (STREAMS, "max_output_chars"),
                (JOBS, "rolling_bytes"),
                (MODES, "snip_size"),
            )
            for value in (0, 1.5, True)
        ),
        *(
            (
                row,
                changes,
                "on_timeout takes OnTimeout.KILL, or KEEP where the format can tell of it and saving is not NEVER, got %r"
                % changes.get("on_timeout", bash_tool.OnTimeout.KEEP),
            )
            for row, changes in (
                (STREAMS, {"on_timeout": bash_tool.OnTimeout.KEEP}),
                (GUARDED, {"on_timeout": bash_tool.OnTimeout.KEEP}),
                (JOBS, {"saving": bash_tool.Saving.NEVER}),
                (MODES, {"on_timeout": "keep"}),
            )
        ),
        *(
            (
                row,
                timeouts(background=1.0),
                'timeouts_s takes no "background" where an answer in this format cannot say that a command was started, '
                "got {'default': 1.0, 'background': 1.0}",
            )
            for row in (JOBS, STREAMS, GUARDED)
        ),
    ):
        with pytest.raises(ValueError) as refused:
            dataclasses.replace(row, **changes)
        assert str(refused.value) == reason


def answers():
    """Outcomes, and what each profile says of them."""
    fitted, outcome, saved, cut = bash_tool.Fitted, bash_tool.Outcome, bash_tool.Saved, bash_tool.Cut
    a, e, part, none = (
        fitted("hi\n", 3, False),
        fitted("err\n", 4, False),
        fitted("part", 4, False),
        fitted("", 0, False),
    )
    whole, partly, lost = saved("/o", "", False), saved("/o\n", "full", False), saved(None, "EROFS", False)
    snipped, long = fitted("a\n\n[snip]\n\nb", 200000, True), "x" * 100
    lines, bytes_ = (
        fitted("2\n3", 6, True, cut(3, 6, 2, 3, True, "lines", False)),
        fitted("zz", 9, True, cut(1, 9, 1, 2, True, "bytes", True)),
    )
    word = fitted("w", 1, False, cut(1, 1, 1, 1, False, None, False))
    counted = lambda most: fitted("\n".join(map(str, range(most))), 9, False)
    job = {"pid": 7, "saved": whole}
    told = "<pid>7</pid>\n<output_file>/o</output_file>"
    stop = "\n<reminder>To stop: kill -9 -7</reminder>"
    middle = "[output truncated in middle: got 195.3KB, max is 128KB]\n"
    return (
        (
            outcome("exited", 0, streams=(a,)),
            {
                "modes": "hi\n",
                "streams": '{"stdout": "hi\\n", "stderr": "", "exitCode": 0}',
                "guarded": "Exit code: 0\nhi\n",
                "jobs": sections("hi\n", "", 0),
            },
        ),
        (
            outcome("exited", 3, streams=(a, e), notes=("one", "two")),
            {
                "modes": "[command failed: exit code 3]\n[one]\n[two]\nhi\nerr\n",
                "jobs": sections("hi\n", "err\n", 3) + "\n[one]\n[two]",
                "streams": '{"stdout": "hi\\n", "stderr": "err\\n", "exitCode": 3, "notes": ["one", "two"]}',
                "guarded": "Exit code: 3\nSTDOUT:\nhi\n\nSTDERR:\nerr\n[one]\n[two]",
            },
        ),
        (
            outcome("exited", 3, streams=(part,), notes=("one",)),
            {"modes": "[command failed: exit code 3]\n[one]\npart", "guarded": "Exit code: 3\npart\n[one]"},
        ),
        (
            outcome("exited", 143, "SIGTERM", streams=(part,)),
            {
                "modes": "[command failed: exit code 143 (SIGTERM)]\npart",
                "streams": '{"stdout": "part", "stderr": "", "exitCode": 143}',
                "guarded": "Exit code: -1\npart",
                "jobs": sections("part", "", "143 (SIGTERM)"),
            },
        ),
        (
            outcome("exited", 137),
            {
                "modes": "[command failed: exit code 137 (SIGKILL); not sent by this tool; possibly out of memory]\n",
                "streams": '{"exitCode": 137}',
                "guarded": "Exit code: 137\n",
                "jobs": sections("", "", "137 (SIGKILL)"),
            },
        ),
        (
            outcome("exited", 168, "signal 40"),
            {"modes": "[command failed: exit code 168 (signal 40)]\n", "jobs": sections("", "", "168 (signal 40)")},
        ),
        (outcome("exited", 200), {"modes": "[command failed: exit code 200]\n", "jobs": sections("", "", 200)}),
        (
            outcome("exited", None),
            {
                "modes": "[no output]",
                "streams": '{"exitCode": null}',
                "guarded": "Exit code: -1\n",
                "jobs": sections("", "", "unknown"),
            },
        ),
        (
            outcome("timed_out", limit_s=1.5, streams=(part,), command=long),
            {
                "modes": "[command timed out after 1.5s]\npart",
                "guarded": "Command timed out after 1.5s\npart",
                "streams": '{"stdout": "part", "stderr": "", "error": "bash \'%s\': timed out after 1.5s"}' % long[:80],
                "jobs": sections("part", "", "none (timed out after 1.5s)"),
            },
        ),
        (
            outcome("cancelled", notes=("n",)),
            {
                "modes": "[command cancelled]\n[n]\n",
                "guarded": "Cancelled\n[n]",
                "streams": '{"error": "bash \'\': cancelled", "notes": ["n"]}',
                "jobs": sections("", "", "none (cancelled)") + "\n[n]",
            },
        ),
        (
            outcome("failed", reason="no shell", command="ls"),
            {
                "modes": "[system error: no shell]",
                "guarded": "Failed to execute: no shell",
                "streams": '{"error": "bash \'ls\': no shell"}',
                "jobs": "[system error: no shell]",
            },
        ),
        (
            outcome("failed", reason="no shell", streams=(part, e), notes=("n",)),
            {
                "modes": "[system error: no shell]\n[n]\npart\nerr\n",
                "guarded": "Failed to execute: no shell\nSTDOUT:\npart\nSTDERR:\nerr\n[n]",
                "jobs": "[system error: no shell]\n\nstdout:\npart\n\nstderr:\nerr\n\n[n]",
            },
        ),
        (
            outcome("failed", reason="no shell", streams=(none, e)),
            {"jobs": "[system error: no shell]\n\nstdout:\n\n\nstderr:\nerr\n"},
        ),
        (
            outcome("failed", reason="no shell", streams=(part, none)),
            {"jobs": "[system error: no shell]\n\nstdout:\npart\n\nstderr:\n"},
        ),
        (
            outcome("rejected", reason="not so", notes=("n",)),
            {
                "modes": "[system error: not so]\n[n]",
                "guarded": "not so\n[n]",
                "streams": '{"error": "not so", "notes": ["n"]}',
                "jobs": "[system error: not so]\n[n]",
            },
        ),
        (
            outcome("lost", reason="gone", streams=(part,)),
            {
                "modes": "[system error: gone]\npart",
                "guarded": "gone\npart",
                "streams": '{"stdout": "part", "stderr": "", "error": "bash \'\': gone"}',
                "jobs": sections("part", "", "unknown"),
            },
        ),
        (
            outcome("exited", 0, streams=(snipped,), saved=whole),
            {"modes": middle + "a\n\n[snip]\n\nb\n[full output: /o]"},
        ),
        (
            outcome("exited", 0, streams=(snipped._replace(text="b\n"),), saved=partly),
            {"modes": middle + "b\n[full output may be incomplete: /o\ufffd (full)]"},
        ),
        (
            outcome("exited", 1, streams=(snipped,), saved=lost),
            {
                "modes": "[command failed: exit code 1]\n"
                + middle
                + "a\n\n[snip]\n\nb\n[full output was not saved: EROFS]"
            },
        ),
        (outcome("exited", 0, streams=(snipped,)), {"modes": middle + "a\n\n[snip]\n\nb"}),
        (outcome("exited", 0, streams=(part,), saved=whole), {"modes": "part"}),
        (
            outcome("exited", 0, streams=(part,), saved=whole._replace(capped=True), notes=("n",)),
            {"modes": "[n]\n[the file with the full output ends at 64MB: the rest was read but not saved]\npart"},
        ),
        (
            outcome("running", notes=("n",), **job),
            {
                "modes": "[n]\n" + told + stop,
                "jobs": "[Process 7 still running.\n\nNew output since last check (0 lines):\n\n\nFull output: /o]\n[n]",
            },
        ),
        (
            outcome("running", limit_s=120.0, kept=True, streams=(part,), **job),
            {"modes": "[command still running after 120s, as a job]\n" + told + stop + "\npart"},
        ),
        (
            outcome("exited", 3, streams=(a,), **job),
            {
                "modes": "[command failed: exit code 3]\n" + told + "\nhi\n",
                "jobs": "[Process 7 exited with code 3.\n\noutput:\nhi\n\n\nFull output: /o]",
            },
        ),
        (
            outcome("exited", 0, **job),
            {
                "modes": told + stop,
                "jobs": "[Process 7 exited with code 0.\n\nstdout:\n\n\nstderr:\n\n\nFull output: /o]",
            },
        ),
        (outcome("lost", error="lost", reason="r", **job), {"modes": "[system error: r]\n" + told + stop}),
        (
            outcome("failed", error="x", reason="r", pid=7, saved=partly),
            {"modes": "[system error: r]\n<pid>7</pid>\n<output_file>/o\ufffd</output_file>"},
        ),
        (
            outcome("exited", 0, streams=(lines, bytes_), saved=whole),
            {
                "jobs": sections(
                    "2\n3\n[stdout: Showing last 2 of 3 lines. Full output: /o]",
                    "zz\n[stderr: Showing last 2 bytes of line 1. Full output: /o]",
                    0,
                )
            },
        ),
        (
            outcome("exited", 0, streams=(lines, word), saved=partly),
            {
                "jobs": sections(
                    "2\n3\n[stdout: Showing last 2 of 3 lines. Full output file may be incomplete: /o\ufffd (full)]",
                    "w",
                    0,
                )
            },
        ),
        (
            outcome("exited", 0, streams=(word, lines), saved=lost),
            {"jobs": sections("w", "2\n3\n[stderr: Showing last 2 of 3 lines. Full output was not saved: EROFS]", 0)},
        ),
        (
            outcome("exited", 0, streams=(bytes_,)),
            {"jobs": sections("zz\n[stdout: Showing last 2 bytes of line 1.]", "", 0)},
        ),
        (
            outcome("running", limit_s=2.0, kept=True, streams=(counted(501), counted(101)), notes=("n",), **job),
            {
                "jobs": "[Command backgrounded after 2s timeout (pid 7). Partial output:\n\nstdout (last 500 lines):\n%s\n\nstderr (last 100 lines):\n%s\n\n"
                "Full output: /o\nUse check_pid or kill_pid to manage.]\n[n]"
                % ("\n".join(map(str, range(1, 501))), "\n".join(map(str, range(1, 101))))
            },
        ),
        (
            outcome("running", limit_s=2.0, kept=True, streams=(counted(500), bytes_), pid=7),
            {
                "jobs": "[Command backgrounded after 2s timeout (pid 7). Partial output:\n\nstdout:\n%s\n\nstderr (last 1 lines):\nzz\n\n"
                "Use check_pid or kill_pid to manage.]" % "\n".join(map(str, range(500)))
            },
        ),
        (
            outcome("running", streams=(lines,), **job),
            {
                "jobs": "[Process 7 still running.\n\nNew output since last check (3 lines):\n2\n3\n[output: Showing last 2 of 3 lines.]\n\nFull output: /o]"
            },
        ),
        (
            outcome("running", pid=7),
            {"jobs": "[Process 7 still running.\n\nNew output since last check (0 lines):\n\n]"},
        ),
        (
            outcome("exited", 143, "SIGTERM", streams=(lines, word), notes=("n",), **job),
            {
                "jobs": "[Process 7 exited with code 143 (SIGTERM).\n\nstdout (last 2 lines):\n2\n3\n\nstderr:\nw\n\nFull output: /o]\n[n]"
            },
        ),
        (
            outcome("exited", 0, streams=(fitted("a b\n\nc", 9, True), none), pid=7),
            {"jobs": "[Process 7 exited with code 0.\n\nstdout (last 3 lines):\na b\n\nc\n\nstderr:\n\n]"},
        ),
        (
            outcome("exited", None, streams=(word, none), pid=7),
            {"jobs": "[Process 7 ended, exit code unknown.\n\nstdout:\nw\n\nstderr:\n\n]"},
        ),
        (
            outcome("timed_out", limit_s=3.0, streams=(word,), pid=7),
            {"jobs": "[Process 7 ended, exit code none (timed out after 3s).\n\noutput:\nw\n]"},
        ),
    )


def test_answers_to_the_letter():
    """What each profile says of each way in which a run can end or go on, to programs too."""
    for outcome, texts in answers():
        for name, text in texts.items():
            row = PROFILES[name]
            result = bash_tool.present(outcome, row)
            assert (result.text, str(result)) == (text, text)
            streams = (*outcome.streams, bash_tool.Fitted("", 0, False), bash_tool.Fitted("", 0, False))
            bad = (
                outcome.status not in ("exited", "running")
                or name in ("modes", "jobs")
                and outcome.exit_code not in (0, None)
            )
            capped = bool(outcome.saved and outcome.saved.capped)
            notes = (
                (*outcome.notes, "the file with the full output ends at 64MB: the rest was read but not saved")
                if capped
                else outcome.notes
            )
            details = (
                json.loads(text)
                if name == "streams"
                else {
                    "exit_code": -1 if outcome.signal or outcome.exit_code is None else outcome.exit_code,
                    "success": outcome.exit_code == 0,
                }
                if name == "guarded"
                else {
                    one: stream.record._asdict() for one, stream in zip(("stdout", "stderr"), streams) if stream.record
                }
            )
            fields = dict(
                text=text,
                is_error=bad,
                status=outcome.status,
                exit_code=outcome.exit_code,
                signal=outcome.signal,
                stdout=streams[0].text,
                stderr=streams[1].text,
                truncated=streams[0].cut or streams[1].cut,
                total_bytes=0,
                pid=outcome.pid,
                output_file=outcome.saved.path if outcome.saved else None,
                duration_s=0.0,
                error=outcome.error,
                notes=list(notes),
                details=details,
            )
            assert result.to_dict() == fields and result.notes == notes and json.dumps(fields)
            assert result.to_dict()["details"] is not result.details
    said = bash_tool.present(bash_tool.Outcome("exited", 0, total_bytes=7, duration_s=2.5), MODES)
    assert (said.total_bytes, said.duration_s, said.output_file) == (7, 2.5, None)


def test_completion_notes_to_the_letter():
    """How a job ended, as its output file says it."""
    outcome = bash_tool.Outcome
    for ended, how in (
        (outcome("exited", 0), "completed"),
        (outcome("exited", 3), "failed: exit status: 3"),
        (outcome("exited", 143, "SIGTERM"), "failed: signal: 15 (SIGTERM)"),
        (outcome("exited", 143), "failed: exit status: 143"),
        (outcome("timed_out", limit_s=1.5), "failed: timed out after 1.5s"),
        (outcome("cancelled"), "failed: cancelled"),
    ):
        assert bash_tool.how_it_ended(ended._asdict(), ":") == how
    assert bash_tool.JOB_NOTE == "\n\n[background process {how}]\n"
