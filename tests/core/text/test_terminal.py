import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.text.terminal import render_terminal_text


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("plain\n", "plain\n"),
        ("tab\there\fand there\n", "tab\there\fand there\n"),
        ("\x1b[31mred\x1b[0m and \x1b[1;38;5;208mbold\x1b[m\n", "red and bold\n"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;file:///x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bcharset\x1b=keypad", "charsetkeypad"),
        ("\x9b31mold style", "31mold style"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("a long line\rshort\n", "shortg line\n"),
        ("a long line\r\x1b[Kshort\n", "short\n"),
        ("a long line\rshort\x1b[K\n", "short\n"),
        ("a long line\x1b[2K\rx\n", "x\n"),
        ("spinner |\x1b[1G\x1b[0Kdone\n", "done\n"),
        ("grep\x1b[01;31m\x1b[Kmatch\x1b[m\x1b[K rest\n", "grepmatch rest\n"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("N\bNA\bAM\bME\bE", "NAME"),
        ("_\bu_\bn", "un"),
        ("abc\b\b\b\b\bX", "Xbc"),
        ("bell\a and nul\0", "bell and nul"),
        ("cut off \x1b[3", "cut off "),
        ("cut off \x1b]0;tit", "cut off "),
        ("alone \x1b", "alone "),
        ("50%\r", "50%"),
    ],
)
def test_a_line_is_shown_as_it_stood_in_the_end(printed: str, shown: str):
    assert render_terminal_text(printed) == shown


@given(st.text(alphabet="ab\r\b\n"))
def test_what_is_overwritten_is_shown_as_a_terminal_would(text: str):
    assert render_terminal_text(text) == "\n".join(map(typed, text.split("\n")))


def typed(line: str) -> str:
    """The same, key by key."""
    cells: list[str] = []
    at = 0
    for key in line:
        if key == "\r":
            at = 0
        elif key == "\b":
            at = max(0, at - 1)
        else:
            cells[at : at + 1] = [key]
            at += 1
    return "".join(cells)


@given(st.text(alphabet="a\x1b[]0;mK\x07\\\r\b\x01\x02"))
def test_nothing_that_moves_a_terminal_is_ever_left(text: str):
    assert not set(render_terminal_text(text)) & set("\x1b\r\b\x07\x01\x02")


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_text_without_controls_is_always_the_same(text: str):
    assert render_terminal_text(text) == text


def test_a_line_that_is_written_over_a_million_times_is_quick():
    def seconds(times: int) -> float:
        began = time.process_time()
        assert render_terminal_text("x" * times + "\ry" * times) == "y" + "x" * (times - 1)
        return time.process_time() - began

    seconds(1_000)
    assert seconds(1_000_000) < 40 * seconds(100_000), "it grows with the square"
