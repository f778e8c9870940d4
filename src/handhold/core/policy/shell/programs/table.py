"""Programs that can be told by a line: what their operands are, and which of their options do more than it seems."""

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from handhold.core.policy.shell.call import Call, Options
from handhold.core.policy.shell.words import Word, listed

Operands = Literal["texts", "paths", "a text, then paths", "changed", "a text, then changed", "gone", "from, to", "any"]

_MOVES = re.compile(r"\+{1,2}(?:[0-9]*[gGpF%]?|[/?][^\x00-\x1f\x7f]*)")
"""Startup commands of a pager that only move within the file. A line break would end them and begin another."""


@dataclass(frozen=True)
class Program:
    """`takes`: options whose value stands apart. `writes`: those that name a file to be written. `runs`: those that run
    code, or load it. `changes`: those that make a reader of files a writer."""

    operands: Operands = "paths"
    takes: frozenset[str] = field(default_factory=frozenset[str])
    writes: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()  # options whose value is no path, whatever it looks like
    typed: tuple[str, ...] = ()  # options of a pager whose value it takes as if it were typed, as it takes `+…`

    def judge(self, call: Call) -> None:
        options = Options.read(call.arguments, self.takes | set(self.writes) | set(self.texts))
        for name, value in options.given:
            self._option(call, name, value)
        if self.typed:
            self._keys(call, [word.text for word in options.operands if word.text.startswith("+")])
            self._keys(call, [f"+/{value.text}" for value in options.named(*self.typed) if value])
            options = replace(options, operands=tuple(w for w in options.operands if not w.text.startswith("+")))
        if any(word.text.partition("=")[0] in self.runs for word in call.arguments):  # long ones with a single dash
            call.dangerous(f"`{call.name}` runs another program by an option")
        self._operands(call, options.operands, text_given=options.has(*self.texts))
        if options.has(*self.changes):
            for word in options.operands[self.operands.startswith("a text") and not options.has(*self.texts) :]:
                call.writes(word)

    def _keys(self, call: Call, keys: list[str]) -> None:
        if not all(_MOVES.fullmatch(each) for each in keys):
            call.dangerous(f"`{call.name}` would run a command of its own at its start")

    def _option(self, call: Call, name: str, value: Word | None) -> None:
        found = Options(((name, value),), ())
        if found.has(*self.runs):
            call.dangerous(f"`{call.name} {name}` runs another program")
        if value is None or found.has(*self.texts):
            return
        if found.has(*self.writes):
            call.writes(value)
        else:
            call.sweep((value,))

    def _operands(self, call: Call, words: tuple[Word, ...], *, text_given: bool) -> None:
        if self.operands.startswith("a text") and not text_given:
            words = words[1:]
        match self.operands:
            case "texts":
                pass
            case "paths" | "a text, then paths":
                for word in words:
                    call.reads(word)
            case "changed" | "a text, then changed":
                for word in words:
                    call.writes(word)
                call.changes()
            case "gone":
                for word in words:
                    call.writes(word, whole=True)
                call.changes()
            case "from, to":
                for word in words[:-1]:
                    call.reads(word)
                for word in words[-1:]:
                    call.writes(word)
                call.changes()
            case "any":
                call.sweep(words)
                call.changes()


def _names(names: str, program: Program) -> dict[str, Program]:
    return {name: program for name in names.split()}


GREP = Program(
    "a text, then paths",
    takes=listed("-A -B -C -m -d -D --include --exclude --exclude-dir --color --context --after-context"),
    texts=("-e", "--regexp", "--include", "--exclude", "--exclude-dir"),
)

PROGRAMS: dict[str, Program] = {
    **_names(
        "echo true false : seq expr sleep basename yes uname whoami id groups arch nproc tty uptime", Program("texts")
    ),
    **_names(
        "which whereis type printenv locale getconf lscpu lsblk free ps pgrep cal factor numfmt tput clear",
        Program("texts"),
    ),
    **_names(
        "tr exit return break continue shift wait times jobs logname users who w hostname dirname help",
        Program("texts"),
    ),
    **_names(
        "apropos whatis reset stty ulimit umask getopt getopts dpkg-query pkg-config vmstat lsof ss", Program("texts")
    ),
    **_names("printf", Program("texts")),
    **_names(
        "dpkg rpm",
        Program(
            "texts",
            runs=(
                "-i",
                "--install",
                "-r",
                "--remove",
                "-P",
                "--purge",
                "-U",
                "-e",
                "--unpack",
                "--configure",
                "--root",
                "--pre-invoke",
                "--post-invoke",
            ),
        ),
    ),
    **_names("date", Program("texts", runs=("-s", "--set"), takes=listed("-d --date -f -r"))),
    **_names(
        "cat tac rev nl file stat readlink realpath md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum",
        Program(),
    ),
    **_names(
        "cksum sum od xxd hexdump hd strings cut paste column fold fmt expand unexpand pr comm cmp join tsort",
        Program(takes=listed("-d -f -c -b -w -t -s -1 -2 -j -o -n -N -e -l")),
    ),
    **_names(
        "wc du df tree ls dir vdir lsattr zcat bzcat xzcat zstdcat lz4cat base32 iconv nm size ldd readelf", Program()
    ),
    **_names("objdump addr2line c++filt tokei cloc scc bat batcat exa eza lsd pathchk look hexyl", Program()),
    **_names("tree", Program(writes=("-o",), takes=listed("-L -I -P"), texts=("-I", "-P"))),
    **_names("head tail", Program(takes=listed("-n -c --lines --bytes --pid -s"))),
    **_names("base64", Program(takes=listed("-w --wrap"))),
    **_names("xmllint", Program(takes=listed("--xpath"), texts=("--xpath",), writes=("--output", "-o"))),
    **_names(
        "less more most",
        Program(
            takes=listed("-p --pattern"),
            writes=("-o", "-O", "--log-file", "--LOG-FILE"),
            runs=("-k", "--lesskey-file", "--lesskey-src", "--lesskey-content"),
            texts=("-p", "--pattern"),
            typed=("-p", "--pattern"),
        ),
    ),
    **_names(
        "diff colordiff sdiff diff3 wdiff",
        Program(
            takes=listed("-U -C -x -X -I --exclude --label -L"),
            texts=("-x", "--exclude", "--label", "-L", "-I"),
            runs=("--diff-program",),
            writes=("-o",),
        ),
    ),
    **_names(
        "sort",
        Program(
            takes=listed("-k -t -S -T --key --field-separator --buffer-size --parallel"),
            writes=("-o", "--output"),
            runs=("--compress-program",),
            texts=("-t", "--field-separator"),
        ),
    ),
    **_names("shuf", Program(takes=listed("-n -i"), writes=("-o", "--output"))),
    **_names("grep egrep fgrep zgrep rgrep", GREP),
    **_names(
        "rg",
        Program(
            "a text, then paths",
            takes=listed("-t --type -T --type-not -A -B -C -m -M -j -E --max-depth --sort --sortr --colors -d"),
            texts=("-e", "--regexp", "-g", "--glob", "--iglob", "-r", "--replace"),
            runs=("--pre", "--hostname-bin", "-z", "--search-zip"),
        ),
    ),
    **_names(
        "ag ack",
        Program(
            "a text, then paths",
            takes=listed("-A -B -C -m -G --ignore --ignore-dir"),
            texts=("-G", "--ignore"),
            runs=("--pager",),
        ),
    ),
    **_names(
        "jq gojq jaq",
        Program(
            "a text, then paths", takes=listed("--indent --tab"), texts=("--arg", "--argjson", "-f", "--from-file")
        ),
    ),
    **_names("yq", Program("a text, then paths", changes=("-i", "--inplace"), takes=listed("-o -p"))),
    **_names("rm rmdir unlink shred trash", Program("gone")),
    **_names(
        "mkdir touch mkfifo tee truncate dos2unix unix2dos rename",
        Program("changed", takes=listed("-m --mode -d --date -r --reference -t -s --size")),
    ),
    **_names("chmod chown chgrp setfacl chattr", Program("a text, then changed", texts=("--reference", "-m", "-x"))),
    **_names(
        "gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4 compress uncompress", Program("changed", writes=("-o",))
    ),
    **_names(
        "patch",
        Program(
            "changed",
            takes=listed("-p -i --input -d --directory -o -r -B -Y -z -D -F -g -V"),
            writes=("-o", "--output", "-r", "--reject-file", "-d", "--directory"),
        ),
    ),
    **_names("mktemp", Program("any", takes=listed("-p --tmpdir"), writes=("-p", "--tmpdir"))),
    **_names(
        "man info", Program("texts", runs=("-P", "--pager", "-H", "--html", "--browser", "-C", "--config-file", "-X"))
    ),
    **_names(
        "zip",
        Program("any", runs=("-TT", "--unzip-command"), takes=listed("-x -i"), writes=("-O", "--out", "-b")),
    ),
    **_names("unzip 7z 7za unrar", Program("any", takes=listed("-x"), writes=("-d",))),
    **_names("split csplit", Program("any", runs=("--filter",), takes=listed("-b -l -n -a -f"))),
    **_names(
        "gcc g++ cc c++ clang clang++ ld as ar", Program("any", runs=("-wrapper", "-fplugin", "--wrapper", "-fuse-ld"))
    ),
    **_names(
        "make gmake ninja cmake ctest meson just task bazel scons", Program("any", runs=("--eval", "--run_under"))
    ),
}
