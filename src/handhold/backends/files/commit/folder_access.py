"""Open folders of ours that a command has closed, to reach what is in them."""

import os
import stat

from handhold.backends.files.commit.file_metadata import file_id

FULL_ACCESS = 0o700


class FolderAccess:
    """Knows the modes that folders had before they were opened."""

    def __init__(self) -> None:
        self.modes: dict[tuple[int, int], int] = {}
        self._paths: dict[tuple[int, int], str] = {}

    def open_above(self, path: str) -> bool:
        """Open every closed folder on the way to a path; whether there was one."""
        opened = False
        for at in (index for index, char in enumerate(path) if char == "/" and index):
            folder = path[:at]
            try:
                found = os.lstat(folder)
                if stat.S_ISDIR(found.st_mode) and found.st_mode & FULL_ACCESS != FULL_ACCESS:
                    os.chmod(folder, stat.S_IMODE(found.st_mode) | FULL_ACCESS)
                    self.modes.setdefault(file_id(found), found.st_mode)
                    self._paths.setdefault(file_id(found), folder)
                    opened = True
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue  # not ours
        return opened

    def close_again(self, restored: set[tuple[int, int]]) -> None:
        """Give folders their modes back, except those that are restored otherwise."""
        for inode, path in self._paths.items():
            if inode in restored:
                continue
            try:
                if file_id(os.lstat(path)) == inode:
                    os.chmod(path, stat.S_IMODE(self.modes[inode]))
            except OSError:
                continue  # it is gone, with everything in it
