"""Protected names. What each covers and spares stands beside it, and is checked where it is made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.policy.protected_names import (
    PROTECTED_NAMES,
    READ_ONLY_MOUNTS,
    ProtectedName,
    Protection,
    find_protection_reason,
)

GIT = [".git", ".git/config", ".git/hooks/pre-commit", ".git/commondir", ".git/modules/lib/gitdir", ".git/unheard-of"]
COVERED = [*GIT, *(way for name in PROTECTED_NAMES for way in name.covers)]
DATA = {".git/index", ".git/HEAD", ".git/objects/ab/cd", ".git/refs/heads/main", ".git/modules/lib/index"}
SPARED = sorted(
    {*DATA, ".gitignore", "hooks/pre-commit", *(way for name in PROTECTED_NAMES for way in name.does_not_cover)}
)
folders = st.lists(st.sampled_from(["src", "app", "Ä b", "x\ny", "git", "a.b"]), max_size=3)


@pytest.mark.parametrize("way", COVERED)
@given(above=folders)
def test_a_protected_name_is_protected_at_any_depth_and_in_any_case(way: str, above: list[str]):
    spelled = "/".join([*above, way])
    assert find_protection_reason(spelled)
    assert find_protection_reason(spelled.upper())
    assert find_protection_reason(spelled.lower())


@pytest.mark.parametrize("way", SPARED)
def test_what_one_name_spares_no_other_covers(way: str):
    assert not find_protection_reason(way)


@pytest.mark.parametrize("dependencies", ["node_modules/x", "web/node_modules/@a/b", ".venv", "lib/site-packages/y"])
@pytest.mark.parametrize("way", COVERED)
def test_r10_packages_may_ship_what_they_like_except_repositories(dependencies: str, way: str):
    assert bool(find_protection_reason(f"{dependencies}/{way}")) == (way in GIT)


def test_a_wrong_pattern_cannot_be_loaded():
    with pytest.raises(ValueError, match="should cover"):
        ProtectedName(r"\.x", "x", covers=("x",), does_not_cover=())
    with pytest.raises(ValueError, match="should not cover"):
        ProtectedName(r"\.x", "x", covers=(), does_not_cover=("a/.x/b",))


def test_what_stands_above_a_root_does_not_matter():
    protection = Protection(("/home/me/.cursor/work", "/home/me/.cursor/work/inner"))
    assert not protection.covers("/home/me/.cursor/work/a.py")
    assert not protection.covers("/home/me/.cursor/work/inner/a.py")
    assert protection.covers("/home/me/.cursor/work/inner/.vscode/tasks.json")
    assert not protection.covers("/elsewhere/.vscode/tasks.json")


def test_what_is_mounted_read_only_is_protected():
    assert all(find_protection_reason(way) for way in READ_ONLY_MOUNTS)


R24 = ["opencode.json", "opencode.jsonc", ".opencode/x", ".kiro/x", ".roo/x", ".helix/config.toml", "a.code-workspace"]


@pytest.mark.parametrize("way", [*R24, ".qwen/settings.json", ".amp/x", ".cline/x", ".clinerules/x", ".roomodes"])
def test_r24_what_agents_and_editors_obey_is_protected(way: str):
    assert find_protection_reason(way)
    assert find_protection_reason(f"web/{way}")


@pytest.mark.parametrize("way", ["AGENTS.md", "CLAUDE.md", ".pre-commit-config.yaml", "lefthook.yml", ".cursorrules"])
def test_r24_prose_and_what_a_project_reviews_is_not(way: str):
    assert not find_protection_reason(way)
