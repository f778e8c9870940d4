"""Dispatch each program to the function that analyzes it.

A program in no table runs like any other in the workspace: on an overlay, without network access, judged by its
effects. So its name alone needs no approval; paths among its arguments still may.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from handhold.core.policy.shell.paths import is_in_system_bin
from handhold.core.policy.shell.programs import builtins, files, filters, git, interpreters, packages, wrappers
from handhold.core.policy.shell.programs.program_specs import PROGRAMS
from handhold.core.policy.shell.simple_command import SimpleCommand
from handhold.core.policy.shell.words import Word, split_words

ProgramHandler = Callable[[SimpleCommand], None]

DANGEROUS_PROGRAMS = split_words("""
    mount umount mkfs fdisk sfdisk parted wipefs hdparm losetup cryptsetup shutdown reboot halt poweroff init
    telinit service crontab at batch anacron useradd userdel usermod groupadd passwd chpasswd visudo vipw iptables
    ip6tables nft ufw sysctl modprobe insmod rmmod kexec swapon swapoff setcap debugfs gpg gpg2 ssh-add ssh-agent
    ssh-keygen pass security keyctl secret-tool screen tmux xdg-open open gcore bwrap firejail mknod pivot_root chsh
    chfn loginctl hostnamectl timedatectl localectl dmsetup mdadm lvremove vgremove zpool zfs btrfs ldconfig
    update-alternatives xhost xinput xdotool xsel xclip pbcopy pbpaste launchctl defaults diskutil nvram bless
    csrutil dscl fuser logrotate run-parts ld.so gconftool dbus-send gdbus busctl wall write
""")

PROGRAM_HANDLERS: dict[str, ProgramHandler] = {
    **{name: program.analyze for name, program in PROGRAMS.items()},
    **{name: manager.analyze for name, manager in packages.PACKAGE_MANAGERS.items()},
    **{name: wrappers.analyze_wrapper for name in wrappers.WRAPPER_VALUE_OPTIONS},
    **{name: interpreters.analyze_interpreter for name in interpreters.INTERPRETERS},
    **{name: interpreters.analyze_shell for name in interpreters.SHELLS},
    **{name: interpreters.analyze_other_shell for name in interpreters.OTHER_SHELLS},
    **{name: files.analyze_copy for name in ("cp", "mv", "ln", "install", "link", "symlink")},
    **{name: builtins.analyze_declaration for name in ("export", "declare", "local", "readonly", "typeset", "unset")},
    **{name: builtins.analyze_read for name in ("read", "mapfile", "readarray", "getopts")},
    **{
        name: builtins.analyze_rebinding
        for name in ("enable", "hash", "complete", "compgen", "compopt", "bind", "fc", "history")
    },
    **{name: builtins.analyze_test for name in ("test", "[")},
    **{name: wrappers.analyze_fd for name in ("fd", "fdfind")},
    **{name: wrappers.analyze_su for name in ("su", "runuser", "script", "sg", "newgrp")},
    "uniq": files.analyze_uniq,
    "dd": files.analyze_dd,
    "tar": files.analyze_tar,
    "rsync": files.analyze_rsync,
    "sqlite3": files.analyze_sqlite,
    "sed": filters.analyze_sed,
    "awk": filters.analyze_awk,
    "git": git.analyze_git,
    "npx": packages.analyze_npx,
    "env": wrappers.analyze_env,
    "xargs": wrappers.analyze_xargs,
    "parallel": wrappers.analyze_parallel,
    "find": wrappers.analyze_find,
    "flock": wrappers.analyze_flock,
    "watch": wrappers.analyze_watch,
    "entr": wrappers.analyze_watch,
    "hyperfine": wrappers.analyze_hyperfine,
    "eval": interpreters.analyze_eval,
    "source": interpreters.analyze_source,
    ".": interpreters.analyze_source,
    "cd": builtins.analyze_cd,
    "pushd": builtins.analyze_cd,
    "popd": builtins.analyze_popd,
    "printf": builtins.analyze_printf,
    "let": builtins.analyze_let,
    "alias": builtins.analyze_alias,
    "unalias": builtins.analyze_alias,
    "shopt": builtins.analyze_shopt,
    "set": builtins.analyze_set,
    "trap": builtins.analyze_trap,
    "disown": builtins.analyze_disown,
}
PROJECT_BIN_FOLDER = re.compile(r"(?:.*/)?(?:node_modules/\.bin|\.?v?env[\w.-]*/bin|vendor/bin|\.tox/[^/]+/bin)")
HOME_BIN_FOLDER = re.compile(r".*/(?:bin|shims|current|scripts)")


def analyze_program(command: SimpleCommand) -> None:
    """Analyze a command by what is known of its program."""
    word = command.words[0].text
    if "/" in word:
        _analyze_by_path(command, word)
        return
    _analyze_by_name(command)


def _analyze_by_name(command: SimpleCommand) -> None:
    name = interpreters.normalize_program_name(command.name)
    if name.startswith("mkfs") or name in DANGEROUS_PROGRAMS:
        command.report_dangerous(f"`{command.name}` affects the machine, or files outside the workspace")
        command.check_path_arguments(command.arguments)
    elif name in packages.NETWORK_PROGRAMS:
        if packages.has_only_loopback(command.arguments):
            command.report_unknown(
                f"`{command.name}` is not a known program, so its effects are not known before it runs"
            )
        else:
            command.report_network(*_approval_words(command))
        command.check_path_arguments(command.arguments)
    elif name in PROGRAM_HANDLERS:
        PROGRAM_HANDLERS[name](
            command if name == command.name else replace(command, words=(Word(name), *command.arguments))
        )
    else:
        command.check_path_arguments(command.arguments)
        command.report_change()


def _approval_words(command: SimpleCommand) -> tuple[str, ...]:
    """The words that an approval for similar commands would name; none for programs that just take an address."""
    if command.name in ("docker", "podman", "kubectl", "helm", "gh", "glab") and command.arguments:
        words = [word.text for word in command.arguments[:2] if re.fullmatch(r"[a-z][a-z-]*", word.text)]
        if words and words[0] not in ("exec", "run", "auth", "api", "secret", "login"):
            return (command.name, *(words if command.name in ("gh", "glab") else words[:1]))
    return ()


def _analyze_by_path(command: SimpleCommand, path: str) -> None:
    """A program given by path: a system one, the project's own, or one that only has the name of a known program."""
    target = command.classify(path)
    folder = target.path.rpartition("/")[0]
    if is_in_system_bin(target.path):
        _analyze_by_name(command)
    elif target.region in ("inside", "temporary") and PROJECT_BIN_FOLDER.fullmatch(folder):
        command.report_change()
        _analyze_by_name(command)
    elif target.region in ("inside", "temporary"):
        if _is_known_program(command.name):
            command.report_dangerous(
                f"`{command.words[0].display_text}` has the name of a program but is a different file"
            )
        command.check_path_arguments(command.arguments)
        command.report_change()
    elif target.region in ("home", "system") and HOME_BIN_FOLDER.fullmatch(folder):
        command.report_change()
        _analyze_by_name(command)
    else:
        command.report_unknown(f"`{command.words[0].display_text}` is in a folder where programs should not be")


def _is_known_program(name: str) -> bool:
    name = interpreters.normalize_program_name(name)
    return name in PROGRAM_HANDLERS or name in packages.NETWORK_PROGRAMS or name in DANGEROUS_PROGRAMS
