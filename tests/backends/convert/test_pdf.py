"""C-28: a PDF is read by pages. Each test uses a real worker."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold import Reply, Toolbox
from tests.backends.convert.papers import document, paper, plain, scanned, stream, written
from tests.backends.convert.pictures import read, sent
from tests.scale import examples

BUDGET = 80_000
MANY = plain(*(f"This is page {n}" for n in range(1, 35)))
LONG = paper(*(written([(40, 800 - 3 * n, f"page {p} line {n} " + "word " * 18) for n in range(250)], 2) for p in range(1, 8)))  # fmt: skip


def pages(reply: Reply) -> list[int]:
    return reply.data["pages"]


def test_c28_a_pdf_is_shown_page_by_page():
    reply = read("a.pdf", plain("Hello (world)\nsecond – line", "another page"))
    assert reply.status == "success"
    assert reply.text == (
        "[a.pdf: PDF, 2 pages.]\n\n=== Page 1\nHello (world)\nsecond – line\n\n=== Page 2\nanother page"
    )
    assert not reply.images


@pytest.mark.parametrize(
    ("asked", "shown"),
    [("1-5", [1, 2, 3, 4, 5]), ("3", [3]), ("2-4,7", [2, 3, 4, 7]), ("7, 2-3 ,3", [2, 3, 7]), ("33-40", [33, 34])],
)
def test_c28_pages_are_chosen(asked: str, shown: list[int]):
    reply = read("a.pdf", MANY, pages=asked)
    assert (reply.status, pages(reply)) == ("success", shown)
    assert [f"This is page {n}\n" in reply.text + "\n" for n in range(1, 35)] == [n in shown for n in range(1, 35)]


@pytest.mark.parametrize("asked", ["1-21", "1-10,12-30", "1-999999999", "5-1", "0", "x", "-3", "1-", "1-5-7"])
def test_c28_pages_that_are_too_many_or_none_are_refused(asked: str):
    assert read("a.pdf", MANY, pages=asked).code == "BAD_ARGUMENTS"


def test_c28_the_limit_is_named():
    assert "at most 20" in read("a.pdf", MANY, pages="1-21").text


def test_c28_pages_past_the_end_are_told():
    reply = read("a.pdf", MANY, pages="40-41")
    assert (reply.code, reply.data["count"]) == ("NO_SUCH_PAGE", 34)


def test_c28_without_a_word_the_first_20_are_shown_and_it_is_said_which_are_left():
    reply = read("a.pdf", MANY)
    assert (reply.status, pages(reply), reply.data["left_out"]) == ("partial", list(range(1, 21)), [[21, 34]])
    assert 'pages="21-34"' in reply.text


def test_d12_claude_gets_the_first_20_and_is_told_how_many_there_are():
    box = Toolbox.in_memory({"a.pdf": MANY}, dialect="claude")
    reply = box.call("Read", {"file_path": "/ws/a.pdf"})
    assert pages(reply) == list(range(1, 21))
    assert reply.data["left_out"] == [[21, 34]]
    assert "=== Page 1\nThis is page 1\n" in reply.text
    assert "pages=" not in reply.text


def test_c23_pages_over_the_budget_are_left_and_told():
    reply = read("a.pdf", LONG)
    assert len(reply.text) <= BUDGET
    assert pages(reply) == [1, 2]
    assert (reply.status, reply.data["ended"], reply.data["left_out"]) == ("partial", "room", [[3, 7]])
    assert 'pages="3-7"' in reply.text
    assert pages(read("a.pdf", LONG, pages="3-7")) == [3, 4]


def test_c23_a_page_that_is_too_long_by_itself_is_cut_with_a_count():
    wall = paper(written([(9, 830 - n / 4, "x" * 40) for n in range(3000)], 0.1))
    reply = read("a.pdf", wall)
    assert len(reply.text) <= BUDGET
    assert (reply.status, reply.data["cut"]) == ("partial", [1])


def test_c28_a_page_without_text_comes_as_an_image():
    reply = read("a.pdf", scanned(bytes(range(256)) * 100, 256, 100))
    assert reply.data["pictured"] == [1]
    assert "=== Page 1\n[No text; see image 1.]" in reply.text
    image = sent(reply).convert("L")
    assert max(image.size) == 1568
    assert min(image.tobytes()) < 20


def test_c28_page_images_come_on_request():
    reply = read("a.pdf", plain("one", "two", "three"), images=True)
    assert reply.data["pictured"] == [1, 2, 3]
    assert [block.mime for block in reply.images] == ["image/png"] * 3
    assert "=== Page 2\ntwo\n[See image 2.]" in reply.text


def test_c23_page_images_cost_their_share_of_the_budget():
    reply = read("a.pdf", plain(*["text"] * 20), images=True)
    assert pages(reply) == list(range(1, len(reply.images) + 1))
    assert 5 <= len(reply.images) < 20
    assert reply.data["ended"] == "room"


def test_an_empty_page_is_told_and_not_pictured():
    reply = read("a.pdf", paper(b"", written([(72, 700, "text")])))
    assert "=== Page 1\n[" in reply.text
    assert not reply.images


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_text_is_read_the_way_it_runs_however_the_page_is_turned(turn: int):
    words = written([(72, 700, "the first line"), (72, 680, "the second line")])
    reply = read("a.pdf", paper(words, page=b"/Rotate %d" % turn))
    assert "the first line\nthe second line" in reply.text


@pytest.mark.parametrize("matrix", [b"0 1 -1 0", b"-1 0 0 -1", b"0 -1 1 0"])
def test_text_on_its_side_is_read_too(matrix: bytes):
    lines = [(300, 300, b"the first line"), (300, 300, b"the second line")]
    dx, dy = {b"0 1 -1 0": (20, 0), b"-1 0 0 -1": (0, 20), b"0 -1 1 0": (-20, 0)}[matrix]
    drawn = b"\n".join(
        b"BT /F 10 Tf %s %d %d Tm (%s) Tj ET" % (matrix, x + dx * n, y + dy * n, text)
        for n, (x, y, text) in enumerate(lines)
    )
    assert "the first line\nthe second line" in read("a.pdf", paper(drawn)).text


def test_an_encrypted_pdf_is_told_as_such():
    lock = b"/Encrypt<</Filter/Standard/V 1/R 2/P -4/O(%s)/U(%s)>>/ID[(a)(b)]" % (b"o" * 32, b"u" * 32)
    reply = read("a.pdf", paper(written([(9, 9, "x")]), trailer=lock))
    assert (reply.code, reply.error_source) == ("ENCRYPTED", "model")


@pytest.mark.parametrize("data", [b"%PDF-1.7\n\0\1\2", MANY[:600], b"%PDF-1.7\n" + bytes(3000)])
def test_a_broken_pdf_is_told_as_such(data: bytes):
    assert read("a.pdf", data).code == "BROKEN_FILE"


def test_a_broken_page_spoils_no_other():
    pages = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R 9 0 R 4 0 R]/Count 3>>"]
    leaf = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 5 0 R/Resources<</Font<</F 6 0 R>>>>>>"
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    reply = read("a.pdf", document([*pages, leaf, leaf, stream(written([(9, 9, "text")])), font]))
    assert (reply.status, reply.data["broken"]) == ("partial", [2])
    assert [part.split("\n")[0] for part in reply.text.split("=== ")[1:]] == ["Page 1", "Page 2", "Page 3"]
    assert reply.text.count("text") == 2


def test_pages_of_what_has_none_are_refused():
    assert read("a.txt", b"text\n", pages="1").code == "NOT_PAGED"
    assert read("a.gif", b"GIF89a" + bytes(30), pages="1").code == "NOT_PAGED"


def test_letters_that_control_a_terminal_do_not_reach_the_model():
    reply = read("a.pdf", paper(b"BT /F 9 Tf 9 9 Td (a\\033[31mb\\007) Tj ET"))
    assert not set(reply.text) & {"\x1b", "\x07"}


@settings(max_examples=examples(10))
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 800), st.text("abcdefg ", min_size=1, max_size=60)), max_size=60))  # fmt: skip
def test_c23_a_page_never_exceeds_its_budget(words: list[tuple[int, int, str]]):
    spread = {(x, y): text for x, y, text in words}
    reply = read("a.pdf", paper(written([(x, y, text) for (x, y), text in spread.items()])))
    assert len(reply.text) <= BUDGET
    assert reply.status == "success"
