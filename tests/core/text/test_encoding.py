"""What is not edited comes back byte for byte, whatever the bytes are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.errors import BinaryFile, Unencodable
from handhold.core.text.encoding import BOMS, UNKNOWN, UTF8, Coding, Text, coding_of, must_fit, shown

LINES = st.text(alphabet="ab é中文あ“”\r\n\t\ufeff", max_size=60)
CHINESE = "第一章:文件操作工具。读取文件内容,然后修改其中一行,最后写回磁盘。函数返回值应当检查。\n"
JAPANESE = "ファイルを読み込み、内容を変更してから書き戻します。エラーが発生した場合は処理を中止する。\n"
FRENCH = "Le système a été mis à jour après l’incident ; voilà un résumé très précis — c’est gênant.\n"


@given(st.binary(max_size=300))
def test_c26_any_bytes_come_back_the_same(data: bytes):
    try:
        text = Text.decode(data)
    except BinaryFile:
        assert b"\0" in data
        return
    assert text.encode() == data


@given(LINES, st.sampled_from(BOMS))
def test_c26_a_file_with_a_mark_comes_back_with_it(body: str, bom: tuple[bytes, str]):
    data = bom[0] + body.encode(bom[1])
    text = Text.decode(data)
    assert text.encode() == data
    if not (bom[1] == "utf-16-le" and body.startswith("\0\0")):
        assert (text.coding, text.body) == (Coding(bom[1], bom[0]), body)


@pytest.mark.parametrize(
    "sample",
    [
        "I don’t",
        "it is 25°C now",
        "10 µs",
        "½ cup",
        "El Niño y la Ñandú",
        "à la carte",
        "Größe: 3 × 4",
        "© 2024 Müller",
        "• item",
        "“quoted”",
        "10 €",
    ],
)
def test_u4_a_single_western_character_is_not_taken_for_an_east_asian_one(sample: str):
    text = Text.decode((sample + "\nplain\n").encode("cp1252"))
    assert (text.coding.name, text.body) == ("cp1252", sample + "\nplain\n")


@pytest.mark.parametrize(
    ("sample", "name"),
    [
        ("Привет, мир. Это текст.\n", "cp1251"),
        ("Привет\n", "koi8-r"),
        ("Ελληνικά κείμενα\n", "cp1253"),
        ("日本語のテキスト\n", "euc_jp"),
        ("繁體中文測試文字\n", "big5"),
    ],
)
def test_u4_what_is_not_recognised_is_carried_through_and_takes_only_plain_text(sample: str, name: str):
    text = Text.decode(sample.encode(name))
    assert text.coding == UNKNOWN
    assert text.encode() == sample.encode(name)
    must_fit("plain", text.coding, "a")
    with pytest.raises(Unencodable) as refused:
        must_fit("é", text.coding, "a")
    assert (refused.value.encoding, refused.value.characters) == ("unknown", "é")


@pytest.mark.parametrize(
    ("sample", "name"), [("안녕하세요 세계\n", "cp949"), ("x = 'żółć'\n", "cp1250"), ("# 值\n", "gbk")]
)
def test_u4_a_wrong_guess_still_gives_the_same_bytes_back(sample: str, name: str):
    """These are guessed wrongly today; a better detector may move them to the test above."""
    text = Text.decode(sample.encode(name))
    assert text.body != sample
    assert text.encode() == sample.encode(name)


def test_u4_an_encoding_is_recognised_however_late_it_shows():
    text = Text.decode(b"plain\n" * 20_000 + CHINESE.encode("gbk"))
    assert text.coding.name == "gbk"


def test_a_nul_is_not_written_into_a_text():
    with pytest.raises(Unencodable):
        must_fit("a\0b", UTF8, "a")


@pytest.mark.parametrize(
    ("sample", "name"),
    [(CHINESE, "gbk"), (JAPANESE, "cp932"), (FRENCH, "cp1252"), ("naïve café, 10 €\n", "cp1252"), ("价格\n", "gbk")],
)
@pytest.mark.parametrize("code_around", ["", "def main():\n    return 1  # ", 'x = "'])
def test_u4_prose_is_read_in_its_own_encoding(sample: str, name: str, code_around: str):
    text = Text.decode((code_around + sample).encode(name))
    assert text.coding.name == name
    assert text.body == code_around + sample


def test_c26_bytes_that_stand_for_nothing_are_shown_replaced():
    text = Text.decode(b"ok \xff\xfe\x81\x81\xff\n" * 3)
    assert "\ufffd" in shown(text.body)
    assert text.coding == UNKNOWN


def test_c25_binary_is_told_by_content():
    with pytest.raises(BinaryFile):
        coding_of(b"\x7fELF\0\0\0")


def test_u4_text_that_the_encoding_cannot_hold_is_refused_with_its_characters():
    with pytest.raises(Unencodable) as refused:
        must_fit("naïve 中文 €", Coding("cp1252"), "a.txt")
    assert refused.value.characters == "中文"


def test_a_lone_surrogate_from_a_model_is_refused():
    with pytest.raises(Unencodable):
        must_fit("x\udcff", UTF8, "a.txt")
