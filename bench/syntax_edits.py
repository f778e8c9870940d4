"""Real edits for `bench.syntax`: those that break a file, those that do not, and what a compiler says about each.

An edit is one hunk between two releases of a package, or the whole change of a file where no compiler can judge it
without the rest of its project (C, C++ and C#). Some packages come in one release only: there an edit is made up of
real lines. An edit that breaks is such an edit with a mistake that models make in it. The language's own compiler or
parser, never the one under test, decides what is broken; for C, C++ and C# only mistakes count that no grammar allows.
"""

import json
import os
import random
import re
import subprocess
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.edits.packages import MAX_BYTES, Package, download, hunks, made_up, usable, usable_text

PACKAGES = (
    *(Package("pip", *each) for each in (("rich", ("13.9.4", "14.0.0")), ("httpx", ("0.27.2", "0.28.1")))),
    *(Package("pip", *each) for each in (("flask", ("2.3.3", "3.1.0")), ("django", ("4.2.16", "5.1.4")))),
    Package("npm", "rxjs", ("7.5.0", "7.8.1")),
    Package("npm", "zod", ("4.0.0", "4.1.0")),
    Package("npm", "preact", ("10.19.0", "10.25.0")),
    Package("npm", "express", ("4.18.0", "5.0.0")),
    Package("npm", "three", ("0.170.0", "0.172.0")),
    Package("npm", "effect", ("3.10.0", "3.12.0")),
    Package("npm", "react-native", ("0.72.0", "0.73.0")),
    Package("npm", "react-native-windows", ("0.71.0", "0.72.0")),
    Package("npm", "@wordpress/block-library", ("8.0.0", "8.20.0")),
    Package("npm", "react-native-windows", ("0.66.0", "0.70.0")),
    Package("npm", "bats", ("1.9.0", "1.11.0")),
    Package("npm", "bats", ("1.2.0", "1.5.0")),
    Package("npm", "@wordpress/block-library", ("7.0.0", "7.20.0")),
    Package("npm", "tree-sitter", ("0.20.0", "0.21.0")),
    Package("sdist", "psutil", ("5.9.0", "6.0.0")),
    Package("sdist", "zstandard", ("0.21.0", "0.23.0")),
    *(Package("apt", f"golang-{name}-dev") for name in ("github-spf13-cobra", "golang-x-net", "github-gorilla-mux")),
    *(Package("apt", f"librust-{name}-dev") for name in ("serde", "regex", "clap-3", "tokio", "hyper", "syn")),
    *(Package("apt", name) for name in ("ruby-rack", "ruby-sinatra", "ruby-activesupport", "php-symfony-http-kernel")),
    *(
        Package("apt", name)
        for name in ("git", "testssl.sh", "autoconf-archive", "ansible-core", "dkms", "lxc-templates")
    ),
)
SUFFIXES = {
    ".py": "python", ".js": "javascript", ".mjs": "javascript", ".jsx": "javascript", ".ts": "typescript",
    ".tsx": "typescript", ".go": "go", ".rs": "rust", ".java": "java", ".c": "c", ".cpp": "c++", ".cc": "c++",
    ".cs": "c#", ".rb": "ruby", ".php": "php", ".sh": "bash", ".bash": "bash", ".json": "json", ".toml": "toml",
    ".yml": "yaml", ".yaml": "yaml",
}  # fmt: skip
SKIP = re.compile(r"\.min\.|/umd/|/cjs/|/esm\d*/|bundle|\.lock|package-lock|/build/|/build-module/", re.IGNORECASE)
UNJUDGED = ("c", "c++", "c#")  # no compiler judges one of their files alone
FLOW = re.compile(r"@flow|^\s*import type|^\s*export type", re.MULTILINE)  # JavaScript with types: another language
SEED = 11


@dataclass(frozen=True)
class RealEdit:
    language: str
    path: str
    before: str
    after: str
    start: int = 0  # where the changed lines begin and end in `after`
    end: int = 0


# --- real edits


def fetch(package: Package, release: str | None, box: Path) -> Path:
    if package.client != "sdist":
        return download(package, release, box)
    folder = box / f"{package.name}-{release}"
    folder.mkdir()
    command = ("pip", "download", "-q", "--no-deps", "--no-binary", ":all:", f"{package.name}=={release}")
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for archive in folder.glob("*.tar.gz"):
        subprocess.run(("tar", "xzf", archive, "--strip-components=1"), cwd=folder, check=True)
    return folder


def read(path: Path) -> str | None:
    """With the line endings of Unix, and without a byte order mark."""
    if not path.is_file() or path.is_symlink() or path.stat().st_size > MAX_BYTES:
        return None
    return usable_text(path.read_bytes().removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n"))


def sources(tree: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in sorted(tree.rglob("*")):
        where = path.relative_to(tree).as_posix()
        if path.suffix in SUFFIXES and not SKIP.search("/" + where):
            found[where] = path
    return found


def collect(rng: random.Random) -> Iterator[RealEdit]:
    with tempfile.TemporaryDirectory() as folder:
        for package in PACKAGES:
            try:
                trees = [fetch(package, release, Path(folder)) for release in package.releases or (None,)]
            except subprocess.CalledProcessError as error:
                print(f"left out: {package.name} ({error.cmd[0]} failed)")
                continue
            newer = sources(trees[-1])
            for where, path in sources(trees[0]).items():
                language, text = SUFFIXES[path.suffix], read(path)
                if text is None or (language == "javascript" and FLOW.search(text)):
                    continue
                yield from edits_of(language, f"{package.name}/{where}", text, len(trees), newer.get(where), rng)


def edits_of(
    language: str, path: str, text: str, releases: int, other: Path | None, rng: random.Random
) -> Iterator[RealEdit]:
    lines = text.split("\n")
    if releases == 1 and language in UNJUDGED:
        return
    if releases == 1:
        found = [each for _ in range(3) for each in made_up(lines, rng)]
    else:
        new = read(other) if other else None
        if new is None or new == text or (language == "javascript" and FLOW.search(new)):
            return
        found = hunks(lines, new.split("\n"))
        if language in UNJUDGED:
            start = min((each[0] for each in found), default=0)
            yield RealEdit(language, path, text, new, start, start + 1)
            return
    for start, removed, added in rng.sample(found, min(3, len(found))):
        if usable(lines, (start, removed, added)):
            after = [*lines[:start], *added, *lines[start + removed :]]
            yield RealEdit(language, path, text, "\n".join(after), start, start + len(added))


# --- mistakes


def _lines(edit: RealEdit) -> tuple[list[str], int, int]:
    lines = edit.after.split("\n")
    return lines, edit.start, max(edit.end, edit.start + 1)


def drop_closer(edit: RealEdit, rng: random.Random) -> str | None:
    """A closing bracket is forgotten."""
    lines, start, end = _lines(edit)
    places = [
        (n, at) for n in range(start, min(end + 6, len(lines))) for at, char in enumerate(lines[n]) if char in "})]"
    ]
    if not places:
        return None
    n, at = rng.choice(places)
    lines[n] = lines[n][:at] + lines[n][at + 1 :]
    return "\n".join(lines)


def drop_last_line(edit: RealEdit, _: random.Random) -> str | None:
    """The last line of the block is forgotten: an `end`, a `fi`, a brace."""
    lines, start, end = _lines(edit)
    for n in range(start, min(end + 8, len(lines))):
        if re.fullmatch(r"\s*(?:end|fi|done|esac|\}[;,)]*|\)[;,)]*|\][;,)]*)\s*", lines[n]):
            return "\n".join([*lines[:n], *lines[n + 1 :]])
    return None


def repeat_first_line(edit: RealEdit, _: random.Random) -> str | None:
    """The first line of a block stays although it was quoted as replaced."""
    lines, start, end = _lines(edit)
    for n in range(start, min(end + 4, len(lines))):
        if re.search(r"[{(\[:]\s*$|\bthen\s*$|\bdo\s*$|^\s*(?:def|class|module|if) ", lines[n]):
            return "\n".join([*lines[: n + 1], *lines[n:]])
    return None


def cut_off(edit: RealEdit, _: random.Random) -> str | None:
    """The new text ends in the middle, as when a model runs out of tokens."""
    lines, start, end = _lines(edit)
    if end - start < 2 or len(lines[end - 2]) < 8:
        return None
    return "\n".join([*lines[: end - 2], lines[end - 2][: len(lines[end - 2]) * 2 // 3], *lines[end:]])


def keep_line_numbers(edit: RealEdit, _: random.Random) -> str | None:
    lines, start, end = _lines(edit)
    return "\n".join(
        [*lines[:start], *(f"{n + 1:>6}→{lines[n]}" for n in range(start, min(end, len(lines)))), *lines[end:]]
    )


def keep_plus_signs(edit: RealEdit, _: random.Random) -> str | None:
    lines, start, end = _lines(edit)
    return "\n".join([*lines[:start], *(f"+{line}" for line in lines[start:end]), *lines[end:]])


def leave_conflict(edit: RealEdit, _: random.Random) -> str | None:
    lines, start, end = _lines(edit)
    block = ["<<<<<<< HEAD", *lines[start:end], "=======", *lines[start:end], ">>>>>>> feature"]
    return "\n".join([*lines[:start], *block, *lines[end:]])


def leave_fence(edit: RealEdit, _: random.Random) -> str | None:
    lines, start, end = _lines(edit)
    return "\n".join([*lines[:start], f"```{edit.language}", *lines[start:end], "```", *lines[end:]])


def write_prose(edit: RealEdit, _: random.Random) -> str | None:
    lines, start, end = _lines(edit)
    return "\n".join([*lines[:start], "... rest of the code stays as it is ...", *lines[end:]])


def escape_quotes(edit: RealEdit, _: random.Random) -> str | None:
    lines, start, end = _lines(edit)
    if '"' not in "".join(lines[start:end]):
        return None
    return "\n".join([*lines[:start], *(line.replace('"', '\\"') for line in lines[start:end]), *lines[end:]])


def drop_quote(edit: RealEdit, rng: random.Random) -> str | None:
    lines, start, end = _lines(edit)
    places = [(n, at) for n in range(start, min(end, len(lines))) for at, char in enumerate(lines[n]) if char in "\"'"]
    if not places:
        return None
    n, at = rng.choice(places)
    lines[n] = lines[n][:at] + lines[n][at + 1 :]
    return "\n".join(lines)


def indent_wrongly(edit: RealEdit, rng: random.Random) -> str | None:
    lines, start, end = _lines(edit)
    inner = [n for n in range(start, min(end, len(lines))) if lines[n].startswith("    ")]
    if edit.language != "python" or not inner:
        return None
    n = rng.choice(inner)
    lines[n] = lines[n][rng.randint(1, 3) :] if rng.random() < 0.5 else "  " + lines[n]
    return "\n".join(lines)


Mistake = Callable[[RealEdit, random.Random], str | None]
MISTAKES: tuple[Mistake, ...] = (
    drop_closer, drop_last_line, repeat_first_line, cut_off, keep_line_numbers, keep_plus_signs, leave_conflict,
    leave_fence, write_prose, escape_quotes, drop_quote, indent_wrongly,
)  # fmt: skip
NEVER_VALID: tuple[Mistake, ...] = (leave_conflict, leave_fence, drop_last_line, drop_closer)


def is_certain(mistake: Mistake, edit: RealEdit, text: str) -> bool:
    """Whether a text of C, C++ or C# is broken without doubt: its brackets do not match, or it has foreign lines."""
    if re.search(r"^\s*#\s*(?:if|else|elif|define)", text, re.MULTILINE) and mistake in (drop_last_line, drop_closer):
        return False
    if mistake in (leave_conflict, leave_fence):
        return bool(re.search(r"^(?:<<<<<<<|```)", strip_comments(text), re.MULTILINE))
    return is_balanced(edit.after) and not is_balanced(text)


def is_balanced(text: str) -> bool:
    code = re.sub(
        r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|^\s*#[^\n]*", "", text, flags=re.S | re.M
    )
    return all(code.count(a) == code.count(b) for a, b in ("{}", "()", "[]"))


def strip_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


# --- judges


def judge(language: str, texts: Sequence[str]) -> list[bool]:
    """Which of the texts are valid, by the language's own parser."""
    match language:
        case "python":
            return [_parses(lambda text=text: compile(text, "", "exec")) for text in texts]
        case "json":
            return [_parses(lambda text=text: json.loads(text)) for text in texts]
        case "toml":
            return [_parses(lambda text=text: tomllib.loads(text)) for text in texts]
        case "yaml":
            return [_parses(lambda text=text: list(yaml.parse(text))) for text in texts]
        case "javascript" | "typescript":
            return _judge_together(texts, [os.environ.get("NODE", "node"), str(_write_typescript_judge())])
        case "java":
            return _judge_together(texts, ["java", str(_write_java_judge())])
        case _:
            return [_exits_well(language, text) for text in texts]


def _parses(parse: Callable[[], object]) -> bool:
    try:
        parse()
    except (SyntaxError, ValueError, yaml.YAMLError, RecursionError):
        return False
    return True


COMMANDS = {
    "go": ["gofmt", "-e"],
    "rust": ["rustc", "--edition=2021", "-Zparse-crate-root-only"],
    "ruby": ["ruby", "-c"],
    "php": ["php", "-n", "-l"],
    "bash": ["bash", "-n"],
}


def _exits_well(language: str, text: str) -> bool:
    with tempfile.NamedTemporaryFile("w", suffix=f".{language}") as file:
        file.write(text)
        file.flush()
        env = os.environ | {"RUSTC_BOOTSTRAP": "1"}
        ran = subprocess.run([*COMMANDS[language], file.name], env=env, capture_output=True, check=False)
    return ran.returncode == 0 and not (language == "bash" and ran.stderr)


def _judge_together(texts: Sequence[str], command: list[str]) -> list[bool]:
    """One process for all texts: it starts slowly, reads a JSON array and prints one of booleans."""
    ran = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


TYPESCRIPT_JUDGE = """
const ts = require(process.env.TYPESCRIPT || "typescript");
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
const valid = (text, name) => ts.createSourceFile(name, text, ts.ScriptTarget.Latest).parseDiagnostics.length === 0;
console.log(JSON.stringify(texts.map((text) => valid(text, "a.ts") || valid(text, "a.tsx"))));
"""
JAVA_JUDGE = """
import java.net.URI; import java.util.*; import javax.tools.*; import com.sun.source.util.JavacTask;
class Judge { public static void main(String[] a) throws Exception {
  String in = new String(System.in.readAllBytes(), "UTF-8"); List<String> out = new ArrayList<>();
  for (String text : strings(in)) {
    DiagnosticCollector<JavaFileObject> found = new DiagnosticCollector<>();
    JavaFileObject file = new SimpleJavaFileObject(URI.create("string:///A.java"), JavaFileObject.Kind.SOURCE) {
      public CharSequence getCharContent(boolean b) { return text; } };
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    JavacTask task = (JavacTask) compiler.getTask(null, null, found, null, null, List.of(file));
    for (Object each : task.parse()) {}
    out.add(String.valueOf(found.getDiagnostics().stream().noneMatch(d -> d.getKind() == Diagnostic.Kind.ERROR))); }
  System.out.println(out); }
  static List<String> strings(String json) { List<String> all = new ArrayList<>(); StringBuilder s = null;
    for (int i = 0; i < json.length(); i++) { char c = json.charAt(i);
      if (s == null) { if (c == '"') s = new StringBuilder(); continue; }
      if (c == '"') { all.add(s.toString()); s = null; continue; }
      if (c != '\\\\') { s.append(c); continue; }
      c = json.charAt(++i);
      if (c == 'u') { s.append((char) Integer.parseInt(json.substring(i + 1, i + 5), 16)); i += 4; }
      else s.append(c == 'n' ? '\\n' : c == 't' ? '\\t' : c == 'r' ? '\\r' : c == 'b' ? '\\b' : c == 'f' ? '\\f' : c); }
    return all; } }
"""


def _write_typescript_judge() -> Path:
    return _write("judge.cjs", TYPESCRIPT_JUDGE)


def _write_java_judge() -> Path:
    return _write("Judge.java", JAVA_JUDGE)


def _write(name: str, text: str) -> Path:
    path = Path(tempfile.gettempdir()) / f"handhold-bench-{os.getuid()}-{name}"
    path.write_text(text)
    return path


# --- choosing


@dataclass(frozen=True)
class Cases:
    """Pairs of before and after with their language, path and kind."""

    breaking: list[tuple[RealEdit, str, str]]  # with the broken text and the name of the mistake
    harmless: list[RealEdit]


def choose(breaking: int, harmless: int, seed: int = SEED) -> Cases:
    rng = random.Random(seed)
    by_language: defaultdict[str, list[RealEdit]] = defaultdict(list)
    for edit in collect(rng):
        by_language[edit.language].append(edit)
    cases = Cases([], [])
    for language, pool in sorted(by_language.items()):
        rng.shuffle(pool)
        pool = pool[: 3 * harmless // len(by_language) + 40]
        if language not in UNJUDGED:
            before, after = judge(language, [e.before for e in pool]), judge(language, [e.after for e in pool])
            pool = [edit for edit, a, b in zip(pool, before, after, strict=True) if a and b]
        cases.harmless.extend(pool[: harmless // 11])  # some have fewer
        cases.breaking.extend(break_some(language, pool, breaking // 11, rng))
    return cases


def break_some(language: str, pool: list[RealEdit], wanted: int, rng: random.Random) -> list[tuple[RealEdit, str, str]]:
    tried: list[tuple[RealEdit, str, Mistake]] = []
    mistakes = NEVER_VALID if language in UNJUDGED else MISTAKES
    for number, edit in enumerate(pool[: 6 * wanted]):
        mistake = mistakes[number % len(mistakes)]
        text = mistake(edit, rng)
        if text and text not in (edit.before, edit.after):
            tried.append((edit, text, mistake))
    if language in UNJUDGED:
        broken = [each for each in tried if is_certain(each[2], each[0], each[1])]
    else:
        valid = judge(language, [text for _, text, _ in tried])
        broken = [each for each, fine in zip(tried, valid, strict=True) if not fine]
    return [(edit, text, mistake.__name__) for edit, text, mistake in broken[:wanted]]
