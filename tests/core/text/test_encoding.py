"""What is not edited comes back byte for byte, whatever the bytes are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.errors import BinaryFile, Unencodable
from handhold.core.text.declared_encoding import EDITABLE_ENCODINGS, resolve_encoding
from handhold.core.text.encoding import (
    BOMS,
    UNKNOWN_ENCODING,
    UTF8,
    Text,
    TextEncoding,
    check_encodable,
    detect_encoding,
    replace_undecodable,
)
from tests.scale import sampled, scaled

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
        assert (text.encoding, text.body) == (TextEncoding(bom[1], bom[0]), body)


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
    assert (text.encoding.name, text.body) == ("cp1252", sample + "\nplain\n")


@pytest.mark.parametrize(
    ("sample", "name"),
    [
        ("x = 'żółć'\n", "cp1250"),
        ("价格\n", "gbk"),
        ("їжак\n", "koi8-u"),
        ("ok \u0152\u0192\u2021\u0192\u2021 \u0178\u0152\n", "cp1252"),
    ],
)
def test_u4_what_is_not_recognised_is_carried_through_and_takes_only_plain_text(sample: str, name: str):
    text = Text.decode(sample.encode(name))
    assert text.encoding == UNKNOWN_ENCODING
    assert text.encode() == sample.encode(name)
    check_encodable("plain", text.encoding, "a")
    with pytest.raises(Unencodable) as refused:
        check_encodable("é", text.encoding, "a")
    assert (refused.value.encoding, refused.value.characters) == ("unknown", "é")


def test_u4_two_bytes_that_happen_to_be_utf8_are_taken_for_it_and_come_back():
    text = Text.decode("# 值\n".encode("gbk"))
    assert (text.encoding, text.encode()) == (UTF8, "# 值\n".encode("gbk"))


@given(st.text(alphabet="añé中あ가яש\n x", max_size=40), st.sampled_from(sorted(EDITABLE_ENCODINGS)))
def test_u4_whatever_is_guessed_or_declared_the_same_bytes_come_back(body: str, name: str):
    data = body.encode(name, "ignore")
    for said in (None, resolve_encoding(name, "settings"), resolve_encoding("cp1251", ".editorconfig")):
        try:
            text = Text.decode(data, "a", said)
        except BinaryFile:
            continue
        assert text.encode() == data


def test_u4_an_encoding_is_recognised_however_late_it_shows():
    text = Text.decode(b"plain\n" * 20_000 + CHINESE.encode("gbk"))
    assert text.encoding.name == "gbk"


def test_a_nul_is_not_written_into_a_text():
    with pytest.raises(Unencodable):
        check_encodable("a\0b", UTF8, "a")


@pytest.mark.parametrize(
    ("sample", "name"),
    [
        *[(CHINESE, "gbk"), (JAPANESE, "cp932"), (FRENCH, "cp1252"), ("naïve café, 10 €\n", "cp1252")],
        *[(JAPANESE, "euc_jp"), (JAPANESE, "iso2022_jp"), ("안녕하세요 세계\n", "cp949"), ("Привет\n", "koi8-r")],
        *[("Привет, мир. Это текст.\n", "cp1251"), ("Ελληνικά κείμενα\n", "cp1253"), ("繁體中文測試文字\n", "cp950")],
    ],
)
@pytest.mark.parametrize("code_around", ["", "def main():\n    return 1  # ", 'x = "'])
def test_u4_prose_is_read_in_its_own_encoding(sample: str, name: str, code_around: str):
    text = Text.decode((code_around + sample).encode(name))
    assert text.encoding.name == name
    assert text.body == code_around + sample


def test_c26_bytes_that_stand_for_nothing_are_shown_replaced():
    text = Text.decode(b"ok \xff\xfe\x81\x81\xff\n" * 3)
    assert "\ufffd" in replace_undecodable(text.body)
    assert text.encoding == UNKNOWN_ENCODING


def test_c25_binary_is_told_by_content():
    with pytest.raises(BinaryFile):
        detect_encoding(b"\x7fELF\0\0\0")


def test_u4_text_that_the_encoding_cannot_hold_is_refused_with_its_characters():
    with pytest.raises(Unencodable) as refused:
        check_encodable("naïve 中文 €", TextEncoding("cp1252"), "a.txt")
    assert refused.value.characters == "中文"


def test_a_lone_surrogate_from_a_model_is_refused():
    with pytest.raises(Unencodable):
        check_encodable("x\udcff", UTF8, "a.txt")


# --- what is declared


@pytest.mark.parametrize("by", ["settings", ".editorconfig"])
def test_u4_a_declared_encoding_goes_before_every_guess(by):
    data = "żółć".encode("cp1250")
    text = Text.decode(data, "a", resolve_encoding("cp1250", by))
    assert (text.body, text.encoding.detected_by, text.encoding.conflicting_declaration) == ("żółć", by, "")


def test_u4_plain_text_is_what_it_is_declared_to_be():
    assert Text.decode(b"plain\n", "a", resolve_encoding("latin1", ".editorconfig")).encoding.name == "iso8859-1"


@pytest.mark.parametrize(
    ("data", "name", "by", "found"),
    [
        (b"\xef\xbb\xbfa\xc3\xa9", "cp1252", "settings", "utf-8"),  # a mark
        ("größer\n".encode(), "latin1", ".editorconfig", "utf-8"),  # UTF-8, which no other text is by chance
        ("größer\n".encode("cp1252") * 3, "utf-8", ".editorconfig", "cp1252"),
        ("“größer”, sagte er\n".encode("cp1252") * 3, "latin1", "settings", "cp1252"),  # ISO 8859 has no such quotes
        (b"plain\n", "utf-16-le", "settings", "utf-8"),  # no text of that kind is without a zero byte
        (b"\x81\xff", "gbk", "settings", "utf-8"),
    ],
)
def test_u4_a_declaration_that_the_bytes_contradict_is_told_and_not_used(data: bytes, name: str, by, found: str):
    coding = Text.decode(data, "a", resolve_encoding(name, by)).encoding
    assert (coding.name, coding.conflicting_declaration) == (found, resolve_encoding(name, by).name)


def test_u4_a_setting_goes_before_utf8_since_somebody_meant_this_file():
    assert Text.decode("联通".encode("gbk"), "a", resolve_encoding("gbk", "settings")).body == "联通"


@pytest.mark.parametrize("name", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_u4_wide_text_without_a_mark_is_binary_unless_it_is_declared(name: str):
    data = "plain ж\r\n".encode(name)
    with pytest.raises(BinaryFile):
        detect_encoding(data)
    text = Text.decode(data, "a", resolve_encoding(name, ".editorconfig"))
    assert (text.body, text.encode()) == ("plain ж\r\n", data)


# --- codecs that do not give back what they were given


@pytest.mark.parametrize("name", sampled(sorted(EDITABLE_ENCODINGS - {"utf-8"}), 18))
def test_u4_a_character_fits_only_if_it_comes_back_as_itself(name: str):
    """The Shift-JIS of Python writes a yen sign as a backslash, and would never say so."""
    coding = TextEncoding(name)
    for code in (
        *range(1, 0x180),
        *range(0x180, 0x3100, scaled(7, 1)),
        *range(0x4E00, 0x4F00, scaled(3, 1)),
        0xAC00,
        0xFF5E,
        0x1F600,
    ):
        char = chr(code)
        try:
            check_encodable(char, coding, "a")
        except Unencodable:
            continue
        assert Text(char, coding).encode().decode(name) == char


@pytest.mark.parametrize(
    ("text", "name", "bad"),
    [
        ("100 ¥", "shift_jis", "¥"),
        ("1〜2", "cp932", "〜"),
        ("日本\x1b$B", "iso2022_jp", "\x1b"),
        ("żółć €", "iso8859-2", "€"),
        ("né 中", "cp1250", "中"),
        ("Привет é", "koi8-r", "é"),
    ],
)
def test_u4_what_does_not_fit_is_named(text: str, name: str, bad: str):
    with pytest.raises(Unencodable) as refused:
        check_encodable(text, TextEncoding(name), "a")
    assert refused.value.characters == bad


@given(
    st.lists(st.text(alphabet="aあ漢ｶ¥~\\ ", max_size=8), max_size=8), st.integers(0, 7), st.text("b字ん", max_size=4)
)
def test_u4_a_line_of_japanese_mail_is_edited_alone(rows: list[str], at: int, new: str):
    """Its bytes are ASCII with sequences that switch; each line must begin as it would by itself."""
    rows = [row.encode("iso2022_jp", "ignore").decode("iso2022_jp") for row in ["文", *rows]]
    data = "\n".join(rows).encode("iso2022_jp")
    text = Text.decode(data)
    assert (text.encoding.name, text.body) == ("iso2022_jp", "\n".join(rows))
    lines, at = data.split(b"\n"), min(at, len(rows) - 1)
    after = text.with_body("\n".join([*rows[:at], new, *rows[at + 1 :]])).encode()
    assert after.split(b"\n") == [*lines[:at], new.encode("iso2022_jp"), *lines[at + 1 :]]


def test_u4_escapes_that_are_no_japanese_stay_what_they_are():
    for data in (b"\x1b[31mred\x1b[0m\n", b"\x1b$ nothing\n", b"\x1b$B!!\n"):
        assert Text.decode(data).encoding == UTF8


def test_u4_utf8_with_a_few_broken_bytes_is_no_other_encoding():
    for sample in ("déjà vu, naïve, élève", "Привет, мир", "中文文件", "größer"):
        text = Text.decode(sample.encode() * 3 + b"\xff\n")
        assert text.encoding == UNKNOWN_ENCODING
        assert replace_undecodable(text.body) == sample * 3 + "\ufffd\n"
