"""Who judges which program.

A program that is in no table runs like any other of the workspace: on a shadow, without a network, judged by what it
did. So its name alone raises no question; paths among its arguments still may.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from handhold.core.policy.shell.call import Call
from handhold.core.policy.shell.places import in_a_bin
from handhold.core.policy.shell.programs import builtins, files, filters, git, interpreters, packages, wrappers
from handhold.core.policy.shell.programs.table import PROGRAMS
from handhold.core.policy.shell.words import Word, listed

Judge = Callable[[Call], None]

DANGEROUS = listed("""
    mount umount mkfs fdisk sfdisk parted wipefs hdparm losetup cryptsetup shutdown reboot halt poweroff init
    telinit service crontab at batch anacron useradd userdel usermod groupadd passwd chpasswd visudo vipw iptables
    ip6tables nft ufw sysctl modprobe insmod rmmod kexec swapon swapoff setcap debugfs gpg gpg2 ssh-add ssh-agent
    ssh-keygen pass security keyctl secret-tool screen tmux xdg-open open gcore bwrap firejail mknod pivot_root chsh
    chfn loginctl hostnamectl timedatectl localectl dmsetup mdadm lvremove vgremove zpool zfs btrfs ldconfig
    update-alternatives xhost xinput xdotool xsel xclip pbcopy pbpaste launchctl defaults diskutil nvram bless
    csrutil dscl fuser logrotate run-parts ld.so gconftool dbus-send gdbus busctl wall write
""")

JUDGES: dict[str, Judge] = {
    **{name: program.judge for name, program in PROGRAMS.items()},
    **{name: manager.judge for name, manager in packages.MANAGERS.items()},
    **{name: wrappers.wrapper for name in wrappers.TAKES},
    **{name: interpreters.interpreter for name in interpreters.INTERPRETERS},
    **{name: interpreters.shell for name in interpreters.SHELLS},
    **{name: interpreters.other_shell for name in interpreters.OTHER_SHELLS},
    **{name: files.copy for name in ("cp", "mv", "ln", "install", "link", "symlink")},
    **{name: builtins.declares for name in ("export", "declare", "local", "readonly", "typeset", "unset")},
    **{name: builtins.reads_variables for name in ("read", "mapfile", "readarray", "getopts")},
    **{name: builtins.rarely for name in ("enable", "hash", "complete", "compgen", "compopt", "bind", "fc", "history")},
    **{name: builtins.test for name in ("test", "[")},
    **{name: wrappers.fd for name in ("fd", "fdfind")},
    **{name: wrappers.become for name in ("su", "runuser", "script", "sg", "newgrp")},
    "uniq": files.uniq,
    "dd": files.dd,
    "tar": files.tar,
    "rsync": files.rsync,
    "sqlite3": files.sqlite,
    "sed": filters.sed,
    "awk": filters.awk,
    "git": git.git,
    "npx": packages.npx,
    "env": wrappers.env,
    "xargs": wrappers.xargs,
    "parallel": wrappers.parallel,
    "find": wrappers.find,
    "flock": wrappers.flock,
    "watch": wrappers.joined,
    "entr": wrappers.joined,
    "hyperfine": wrappers.each_code,
    "eval": interpreters.eval_,
    "source": interpreters.source,
    ".": interpreters.source,
    "cd": builtins.cd,
    "pushd": builtins.cd,
    "popd": builtins.popd,
    "printf": builtins.prints,
    "let": builtins.let,
    "alias": builtins.alias,
    "unalias": builtins.alias,
    "shopt": builtins.shopt,
    "set": builtins.sets,
    "trap": builtins.trap,
    "disown": builtins.disown,
}
OWN_TOOLS = re.compile(r"(?:.*/)?(?:node_modules/\.bin|\.?v?env[\w.-]*/bin|vendor/bin|\.tox/[^/]+/bin)")
HOME_TOOLS = re.compile(r".*/(?:bin|shims|current|scripts)")


def judge(call: Call) -> None:
    """Whatever is known of the program that this command names."""
    word = call.words[0].text
    if "/" in word:
        _by_path(call, word)
        return
    _by_name(call)


def _by_name(call: Call) -> None:
    name = interpreters.plain_name(call.name)
    if name.startswith("mkfs") or name in DANGEROUS:
        call.dangerous(f"`{call.name}` reaches the machine, or what lies outside the workspace")
        call.sweep(call.arguments)
    elif name in packages.NETWORK:
        if packages.name_only_loopback(call.arguments):
            call.unknown(f"what answers `{call.name}` on this machine is not known before it runs")
        else:
            call.connects(*_pattern(call))
        call.sweep(call.arguments)
    elif name in JUDGES:
        JUDGES[name](call if name == call.name else replace(call, words=(Word(name), *call.arguments)))
    else:
        call.sweep(call.arguments)
        call.changes()


def _pattern(call: Call) -> tuple[str, ...]:
    """Of a program with subcommands. One that takes an address and no more has no like."""
    if call.name in ("docker", "podman", "kubectl", "helm", "gh", "glab") and call.arguments:
        words = [word.text for word in call.arguments[:2] if re.fullmatch(r"[a-z][a-z-]*", word.text)]
        if words and words[0] not in ("exec", "run", "auth", "api", "secret", "login"):
            return (call.name, *(words if call.name in ("gh", "glab") else words[:1]))
    return ()


def _by_path(call: Call, path: str) -> None:
    """A program named by its place: the system's, the project's own, or one that only bears a known name."""
    at = call.where(path)
    folder = at.path.rpartition("/")[0]
    if in_a_bin(at.path):
        _by_name(call)
    elif at.region in ("inside", "temporary") and OWN_TOOLS.fullmatch(folder):
        call.changes()
        _by_name(call)
    elif at.region in ("inside", "temporary"):
        if _known(call.name):
            call.dangerous(f"`{call.words[0].shown}` bears the name of a program that it is not")
        call.sweep(call.arguments)
        call.changes()
    elif at.region in ("home", "system") and HOME_TOOLS.fullmatch(folder):
        call.changes()
        _by_name(call)
    else:
        call.unknown(f"`{call.words[0].shown}` lies where no programs should")


def _known(name: str) -> bool:
    name = interpreters.plain_name(name)
    return name in JUDGES or name in packages.NETWORK or name in DANGEROUS
