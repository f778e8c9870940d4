"""Programs that can be told by a line: what their operands are, and which of their options do more than it seems."""

import re
from dataclasses import dataclass, replace
from typing import Literal

from handhold.core.policy.shell.call import Call, Options
from handhold.core.policy.shell.words import Word, listed

Operands = Literal["texts", "paths", "a text, then paths", "changed", "a text, then changed", "gone", "any"]

NONE: frozenset[str] = frozenset()
_MOVES = re.compile(r"\+{1,2}(?:[0-9]*[gGpF%]?|[/?][^\x00-\x1f\x7f]*)")
"""Startup commands of a pager that only move within the file. A line break would end them and begin another."""


@dataclass(frozen=True)
class Program:
    """`takes`: options whose value stands apart. `writes`: those that name a file to be written. `runs`: those that run
    code, or load it. `changes`: those that make a reader of files a writer."""

    operands: Operands = "paths"
    takes: frozenset[str] = NONE
    writes: frozenset[str] = NONE
    runs: frozenset[str] = NONE
    changes: frozenset[str] = NONE
    texts: frozenset[str] = NONE  # options whose value is no path, whatever it looks like
    typed: frozenset[str] = NONE  # options of a pager whose value it takes as if it were typed, as it takes `+…`

    def judge(self, call: Call) -> None:
        options = Options.read(call.arguments, self.takes | self.writes | self.texts)
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
            case "any":
                call.sweep(words)
                call.changes()


def _names(names: str, program: Program) -> dict[str, Program]:
    return {name: program for name in names.split()}


GREP = Program(
    "a text, then paths",
    takes=listed("-A -B -C -m -d -D --include --exclude --exclude-dir --color --context --after-context"),
    texts=listed("-e --regexp --include --exclude --exclude-dir"),
)
COLUMNS = Program(takes=listed("-d -f -c -b -w -t -s -1 -2 -j -o -n -N -e -l"))
PACKAGE = Program(
    "texts",
    runs=listed("-i --install -r --remove -P --purge -U -e --unpack --configure --root --pre-invoke --post-invoke"),
)
PAGER = Program(
    takes=listed("-p --pattern"),
    writes=listed("-o -O --log-file --LOG-FILE"),
    runs=listed("-k --lesskey-file --lesskey-src --lesskey-content"),
    texts=listed("-p --pattern"),
    typed=listed("-p --pattern"),
)
DIFF = Program(
    takes=listed("-U -C -x -X -I --exclude --label -L"),
    texts=listed("-x --exclude --label -L -I"),
    runs=listed("--diff-program"),
    writes=listed("-o"),
)
SORT = Program(
    takes=listed("-k -t -S -T --key --field-separator --buffer-size --parallel"),
    writes=listed("-o --output"),
    runs=listed("--compress-program"),
    texts=listed("-t --field-separator"),
)
RIPGREP = Program(
    "a text, then paths",
    takes=listed("-t --type -T --type-not -A -B -C -m -M -j -E --max-depth --sort --sortr --colors -d"),
    texts=listed("-e --regexp -g --glob --iglob -r --replace"),
    runs=listed("--pre --hostname-bin -z --search-zip"),
)
ACK = Program(
    "a text, then paths",
    takes=listed("-A -B -C -m -G --ignore --ignore-dir"),
    texts=listed("-G --ignore"),
    runs=listed("--pager"),
)
JQ = Program("a text, then paths", takes=listed("--indent --tab"), texts=listed("--arg --argjson -f --from-file"))
MAKES = Program("changed", takes=listed("-m --mode -d --date -r --reference -t -s --size"))
PATCH = Program(
    "changed",
    takes=listed("-p -i --input -d --directory -o -r -B -Y -z -D -F -g -V"),
    writes=listed("-o --output -r --reject-file -d --directory"),
)
MANUAL = Program("texts", runs=listed("-P --pager -H --html --browser -C --config-file -X"))
ZIP = Program("any", runs=listed("-TT --unzip-command"), takes=listed("-x -i"), writes=listed("-O --out -b"))

PROGRAMS: dict[str, Program] = {
    **_names("echo true false : seq expr sleep basename yes uname whoami id groups arch nproc tty", Program("texts")),
    **_names("which whereis type printenv locale getconf lscpu lsblk free ps pgrep cal factor", Program("texts")),
    **_names("tr exit return break continue shift wait times jobs logname users who w hostname", Program("texts")),
    **_names("apropos whatis reset stty ulimit umask getopt dpkg-query pkg-config vmstat lsof ss", Program("texts")),
    **_names("numfmt tput clear uptime dirname help pwd dirs caller logout suspend", Program("texts")),
    **_names("dpkg rpm", PACKAGE),
    **_names("date", Program("texts", runs=listed("-s --set"), takes=listed("-d --date -f -r"))),
    **_names("cat tac rev nl file stat readlink realpath md5sum sha1sum sha224sum sha256sum sha384sum", Program()),
    **_names("wc du df ls dir vdir lsattr zcat bzcat xzcat zstdcat lz4cat base32 iconv nm size ldd", Program()),
    **_names("objdump addr2line c++filt tokei cloc scc bat batcat exa eza lsd pathchk look hexyl", Program()),
    **_names("sha512sum b2sum readelf", Program()),
    **_names("cksum sum od xxd hexdump hd strings cut paste column fold fmt expand unexpand pr comm", COLUMNS),
    **_names("cmp join tsort", COLUMNS),
    **_names("tree", Program(writes=listed("-o"), takes=listed("-L -I -P"), texts=listed("-I -P"))),
    **_names("head tail", Program(takes=listed("-n -c --lines --bytes --pid -s"))),
    **_names("base64", Program(takes=listed("-w --wrap"))),
    **_names("xmllint", Program(takes=listed("--xpath"), texts=listed("--xpath"), writes=listed("--output -o"))),
    **_names("less more most", PAGER),
    **_names("diff colordiff sdiff diff3 wdiff", DIFF),
    **_names("sort", SORT),
    **_names("shuf", Program(takes=listed("-n -i"), writes=listed("-o --output"))),
    **_names("grep egrep fgrep zgrep rgrep", GREP),
    **_names("rg", RIPGREP),
    **_names("ag ack", ACK),
    **_names("jq gojq jaq", JQ),
    **_names("yq", Program("a text, then paths", changes=listed("-i --inplace"), takes=listed("-o -p"))),
    **_names("rm rmdir unlink shred trash", Program("gone")),
    **_names("mkdir touch mkfifo tee truncate dos2unix unix2dos rename", MAKES),
    **_names("chmod chown chgrp setfacl chattr", Program("a text, then changed", texts=listed("--reference -m -x"))),
    **_names("gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4", Program("changed", writes=listed("-o"))),
    **_names("compress uncompress", Program("changed", writes=listed("-o"))),
    **_names("patch", PATCH),
    **_names("mktemp", Program("any", takes=listed("-p --tmpdir"), writes=listed("-p --tmpdir"))),
    **_names("man info", MANUAL),
    **_names("zip", ZIP),
    **_names("unzip 7z 7za unrar", Program("any", takes=listed("-x"), writes=listed("-d"))),
    **_names("split csplit", Program("any", runs=listed("--filter"), takes=listed("-b -l -n -a -f"))),
    **_names(
        "gcc g++ cc c++ clang clang++ ld as ar", Program("any", runs=listed("-wrapper -fplugin --wrapper -fuse-ld"))
    ),
    **_names(
        "make gmake ninja cmake ctest meson just task bazel scons", Program("any", runs=listed("--eval --run_under"))
    ),
    **_names("kill pkill killall skill", Program("any")),
}
