"""Git's internal files: lists of changes summarise them, because a commit touches dozens.

Only objects, refs, logs and the like are internal. Hooks, configuration and anything else under `.git` are still named.
"""

import re

INTERNAL_PATH = re.compile(
    r"""(?: .*/ )? \.git / (?:
        (?: objects | refs | logs | rebase-merge | rebase-apply | sequencer ) (?: / .* )?
      | index (?: \.lock )? | packed-refs | HEAD | [A-Z]+ (?: _ [A-Z]+ )* _HEAD | AUTO_MERGE
      | COMMIT_EDITMSG | MERGE_MSG | MERGE_MODE | SQUASH_MSG | gc\.log
    )""",
    re.VERBOSE,
)


def is_git_internal(path: str) -> bool:
    """Whether this is one of the files that git itself writes, for example in a commit."""
    return INTERNAL_PATH.fullmatch(path) is not None


def git_folder(path: str) -> str:
    """The `.git` folder that contains an internal path."""
    return path[: path.rindex(".git/") + 4] if ".git/" in path else path
