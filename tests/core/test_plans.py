"""What stays of a command's changes when somebody else got ahead of some of them."""

from handhold.core.plans import Conflict, DirectoryMetadata, Effects, FileChange, InlineContent


def test_e17_what_is_protected_below_an_excluded_folder_stays_protected():
    """The folder's new mode is left out; the file in it is another change, which still has to be asked about."""
    folder = FileChange("/ws/d", DirectoryMetadata(0o755), DirectoryMetadata(0o700))
    hook = FileChange("/ws/d/.envrc", None, InlineContent(b"x"))
    effects = Effects((folder, hook), protected=("/ws/d/.envrc",), privileged=("/ws/d/.envrc",))
    left = effects.exclude([Conflict("/ws/d", "mode")])
    assert left.files == (hook,)
    assert left.protected == left.privileged == ("/ws/d/.envrc",)
    assert [each.path for each in left.conflicts] == ["/ws/d"]


def test_e17_what_is_in_an_excluded_tree_is_nobodys_question():
    tree = FileChange("/ws/d", None, InlineContent(b"tree"))
    other = FileChange("/ws/da", None, InlineContent(b"x"))
    effects = Effects((tree, other), protected=("/ws/d/.envrc", "/ws/da"))
    left = effects.exclude([Conflict("/ws/d", "changed")])
    assert (left.files, left.protected) == ((other,), ("/ws/da",))
