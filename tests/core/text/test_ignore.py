from collections.abc import Mapping

from handhold.core.text.ignore import IgnoreRules, parse_ignore_file


def rules(*folders: tuple[str, Mapping[str, str]], top: str = "") -> IgnoreRules:
    held = IgnoreRules()
    for folder, files in folders:
        held = held.enter_folder(
            folder, {name: text.encode() for name, text in files.items()}, is_repository_root=folder == top
        )
    return held


def ignored(held: IgnoreRules, place: str, *, directory: bool = False) -> bool | None:
    raw = place.encode()
    rule = held.decide(raw, raw.rpartition(b"/")[2], directory=directory)
    return None if rule is None else not rule.line.is_negated


def test_a_rule_says_where_it_stands():
    held = rules(("/ws", {".ignore": "# dull\n\n*.log\r\n"}))
    rule = held.decide(b"/ws/d/a.log", b"a.log", directory=False)
    assert rule
    assert (rule.source, rule.line.number, rule.line.text) == ("/ws/.ignore", 3, "*.log")


def test_the_last_line_that_matches_decides():
    held = rules(("/ws", {".ignore": "*.log\n!keep.log\n"}))
    assert ignored(held, "/ws/a.log") is True
    assert ignored(held, "/ws/keep.log") is False
    assert ignored(held, "/ws/a.txt") is None


def test_the_nearer_folder_decides():
    held = rules(("/ws", {".ignore": "*.log"}), ("/ws/d", {".ignore": "!*.log"}))
    assert ignored(held, "/ws/d/a.log") is False


def test_a_stronger_name_decides_even_from_further_up():
    held = rules(("/ws", {".rgignore": "!*.log"}), ("/ws/d", {".ignore": "*.log"}))
    assert ignored(held, "/ws/d/a.log") is False


def test_gits_files_count_in_a_repository_only():
    assert ignored(rules(("/ws", {".gitignore": "*.log"})), "/ws/a.log") is None
    assert ignored(rules(("/ws", {".gitignore": "*.log"}), top="/ws"), "/ws/a.log") is True


def test_the_rules_of_an_outer_repository_end_at_the_inner_one():
    held = rules(("/ws", {".gitignore": "*.log", ".ignore": "*.tmp"}), ("/ws/inner", {}), top="/ws")
    assert ignored(held, "/ws/inner/a.log") is True
    held = IgnoreRules().enter_folder("/ws", {".gitignore": b"*.log", ".ignore": b"*.tmp"}, is_repository_root=True)
    held = held.enter_folder("/ws/inner", {}, is_repository_root=True)
    assert ignored(held, "/ws/inner/a.log") is None
    assert ignored(held, "/ws/inner/a.tmp") is True


def test_exclude_is_the_weakest():
    held = rules(("/ws", {".git/info/exclude": "*.log\n*.tmp", ".gitignore": "!a.log"}), top="/ws")
    assert ignored(held, "/ws/a.log") is False
    assert ignored(held, "/ws/a.tmp") is True


def test_an_anchored_rule_stays_in_its_folder():
    held = rules(("/ws", {".ignore": "/build\nd/*.o"}))
    assert ignored(held, "/ws/build") is True
    assert ignored(held, "/ws/d/build") is None
    assert ignored(held, "/ws/d/a.o") is True
    assert ignored(held, "/ws/x/d/a.o") is None


def test_a_folder_with_everything_in_it():
    held = rules(("/ws", {".ignore": "out/**"}))
    assert ignored(held, "/ws/out", directory=True) is None
    assert ignored(held, "/ws/out/a") is True


def test_broken_rules_and_broken_bytes_do_no_harm():
    held = rules(("/ws", {".ignore": "a}\n[z-a]\n*.log\n"}))
    assert ignored(held, "/ws/a.log") is True
    assert [line.text for line in parse_ignore_file(b"\xef\xbb\xbfone\ntwo\n\xff\nthree\n")] == ["one", "two"]
