"""The workspace as a backend for deepagents, which has its own tools and runs them on a backend.

    box = Toolbox.open(root, dialect=raw, approver=approve_by_interrupt)
    agent = create_deep_agent(model=…, backend=backend(box), checkpointer=…)

Paths are absolute paths of the machine, the same for files and commands; `/` alone means the workspace. Artifacts of
deepagents (large results, old conversations) stay in the state of its graph, outside the workspace.

Approvals and streamed output work as in the LangChain adapter, with its `approve_by_interrupt`. A backend gets no call
ids, so a repeated call is executed again.
"""

import shlex
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from handhold.adapters.calls import AsyncCallSequencer, OutputWatcher
from handhold.adapters.deepagents_results import (
    MAX_CHARS,
    MAX_ITEMS,
    make_empty_read_result,
    to_delete_result,
    to_edit_result,
    to_execute_response,
    to_glob_result,
    to_grep_result,
    to_ls_result,
    to_read_result,
    to_write_result,
)
from handhold.core.errors import ToolError
from handhold.core.ports.policy import Verb, Verdict
from handhold.core.requests import Glob, Grep, ListFiles, Read, Request
from handhold.core.results import OutputChunk, Reply, Result, RunResult, TextResult
from handhold.dialects import commands, deepagents
from handhold.dialects.formatting import replace_surrogates

if TYPE_CHECKING:
    from deepagents.backends import CompositeBackend
    from deepagents.backends.protocol import FileDownloadResponse, SandboxBackendProtocol

    from handhold.toolbox import Toolbox

ARTIFACTS_ROOT = "/deepagents"  # for the framework's artifacts; not a path of the machine or the workspace
FRAMEWORK_ERRORS: Mapping[str, str] = {
    "NOT_FOUND": "file_not_found",
    "IS_DIRECTORY": "is_directory",
    "OUTSIDE_WORKSPACE": "invalid_path",
    "DENIED": "permission_denied",
}
"""The framework's names for common errors."""


class RawDialect(deepagents.DeepAgents):
    """The dialect deepagents without line numbers and framing, which the framework's tools add themselves."""

    def build_request(self, tool: str, a: Mapping[str, Any]) -> Request:
        request = super().build_request(tool, a)
        match request:
            case Read(limits=limits):
                return replace(request, limits=replace(limits, split_long_lines=False, line_chars=limits.chars))
            case Grep():
                return replace(request, limit=MAX_ITEMS, chars=MAX_CHARS, before=0, after=0)
            case ListFiles() | Glob():
                return replace(request, limit=MAX_ITEMS, chars=MAX_CHARS)
            case _:
                return request

    def encode(self, tool: str, request: Request, result: Result, *, hints: bool, call_id: str = "") -> str:
        return replace_surrogates(self.format_result(request, result))

    def format_result(self, request: Request, result: Result) -> str:
        match result:
            case TextResult(lines=lines):
                texts = [
                    line.text + (f"… [{line.omitted_chars} more characters]" if line.omitted_chars else "")
                    for line in lines
                ]
                return "\n".join(texts) + ("\n" if result.has_more or result.ends_with_newline else "")
            case RunResult(exit_status=end):
                ended = [f"[{commands.format_exit(end)}]"] if end.signal or end.timed_out else []
                return "\n".join([*commands.format_output(result.output), *ended, *commands.format_warnings(result)])
            case _:
                return super().format_result(request, result)


raw = RawDialect(deepagents.__file__)
"""The dialect to open a toolbox with that is used as a backend."""


def backend(box: "Toolbox") -> "CompositeBackend":
    """For `create_deep_agent(backend=…)`."""
    from deepagents.backends import CompositeBackend, StateBackend

    if any(f"{root}/".startswith(f"{ARTIFACTS_ROOT}/") for root in box.files.roots):
        raise ValueError(f"a workspace inside {ARTIFACTS_ROOT} would be hidden by the framework's artifacts")
    return CompositeBackend(
        workspace_backend(box), {f"{ARTIFACTS_ROOT}/": StateBackend()}, artifacts_root=ARTIFACTS_ROOT
    )


def workspace_backend(box: "Toolbox") -> "SandboxBackendProtocol":
    """The workspace alone, to combine it with other backends."""
    from deepagents.backends.protocol import (
        DeleteResult,
        EditResult,
        ExecuteResponse,
        FileDownloadResponse,
        GlobResult,
        GrepResult,
        LsResult,
        ReadResult,
        SandboxBackendProtocol,
        WriteResult,
    )

    if box.dialect is not raw:
        raise ValueError("open the toolbox with dialect=handhold.adapters.deepagents.raw")
    sequencer, lock = AsyncCallSequencer(box), threading.Lock()

    def call(tool: str, **arguments: Any) -> Reply:
        with lock:
            return box.call(tool, drop_missing(arguments))

    async def acall(tool: str, **arguments: Any) -> Reply:
        return await sequencer.call(tool, drop_missing(arguments), watch=make_output_watcher(tool))

    class WorkspaceBackend(SandboxBackendProtocol):
        @property
        def id(self) -> str:
            return box.session

        def ls(self, path: str) -> LsResult:
            return to_ls_result(call("ls", path=path))

        async def als(self, path: str) -> LsResult:
            return to_ls_result(await acall("ls", path=path))

        def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
            if limit <= 0:
                return make_empty_read_result()
            return to_read_result(
                box, file_path, call("read_file", file_path=file_path, offset=max(0, offset), limit=limit)
            )

        async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
            if limit <= 0:
                return make_empty_read_result()
            reply = await acall("read_file", file_path=file_path, offset=max(0, offset), limit=limit)
            return to_read_result(box, file_path, reply)

        def glob(self, pattern: str, path: str | None = None) -> GlobResult:
            return to_glob_result(call("glob", pattern=to_recursive_glob(pattern), path=path))

        async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
            return to_glob_result(await acall("glob", pattern=to_recursive_glob(pattern), path=path))

        def grep(
            self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
        ) -> GrepResult:
            return to_grep_result(call("grep", pattern=pattern, path=path, glob=glob, output_mode="content"), max_count)

        async def agrep(
            self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
        ) -> GrepResult:
            return to_grep_result(
                await acall("grep", pattern=pattern, path=path, glob=glob, output_mode="content"), max_count
            )

        def write(self, file_path: str, content: str) -> WriteResult:
            return to_write_result(file_path, call("write_file", file_path=file_path, content=content))

        async def awrite(self, file_path: str, content: str) -> WriteResult:
            return to_write_result(file_path, await acall("write_file", file_path=file_path, content=content))

        def edit(
            self,
            file_path: str,
            old_string: str,
            new_string: str,
            replace_all: bool = False,  # noqa: FBT001 - the framework's
        ) -> EditResult:
            return to_edit_result(
                file_path,
                call("edit_file", **build_edit_arguments(file_path, old_string, new_string, every=replace_all)),
            )

        async def aedit(
            self,
            file_path: str,
            old_string: str,
            new_string: str,
            replace_all: bool = False,  # noqa: FBT001 - the framework's
        ) -> EditResult:
            arguments = build_edit_arguments(file_path, old_string, new_string, every=replace_all)
            return to_edit_result(file_path, await acall("edit_file", **arguments))

        def delete(self, file_path: str) -> DeleteResult:
            if why := explain_undeletable(box, file_path):
                return DeleteResult(error=why)
            return to_delete_result(file_path, call("execute", command=build_rm_command(file_path)))

        async def adelete(self, file_path: str) -> DeleteResult:
            if why := explain_undeletable(box, file_path):
                return DeleteResult(error=why)
            return to_delete_result(file_path, await acall("execute", command=build_rm_command(file_path)))

        def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
            return to_execute_response(call("execute", command=command, timeout=timeout))

        async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
            return to_execute_response(await acall("execute", command=command, timeout=timeout))

        def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
            return [download_file(box, path) for path in paths]

    return WorkspaceBackend()


def drop_missing(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without None, so that the dialect applies its defaults."""
    return {name: value for name, value in arguments.items() if value is not None}


def build_edit_arguments(path: str, old: str, new: str, *, every: bool) -> dict[str, Any]:
    return {"file_path": path, "old_string": old, "new_string": new, "replace_all": every}


def to_recursive_glob(pattern: str) -> str:
    """Translate the framework's globs: a bare name matches at any depth, a leading slash anchors it."""
    return pattern.lstrip("/") if "/" in pattern else f"**/{pattern}"


def build_rm_command(path: str) -> str:
    """Delete by a command, which removes a whole folder in one step that one undo restores."""
    return f"rm -r -- {shlex.quote(path)}"


def explain_undeletable(box: "Toolbox", path: str) -> str:
    try:
        place = box.files.resolve(path)
    except ToolError as error:
        return raw.refuse("execute", error, hints=False)
    return f"Error: {path} is the workspace itself" if path == "/" or place in box.files.roots else ""


def make_output_watcher(tool: str) -> OutputWatcher | None:
    """Stream output to `stream_mode="custom"`. None if no graph is running, or for other tools than `execute`."""
    if tool != "execute":
        return None
    from langgraph.config import get_stream_writer

    try:
        write = get_stream_writer()
    except (KeyError, RuntimeError):  # not called from a graph
        return None

    def watch(call_id: str, printed: OutputChunk) -> None:  # noqa: ARG001 - a backend gets no call id
        write({"tool": tool, "printed": printed.text, "dropped": printed.dropped_chars})

    return watch


def download_file(box: "Toolbox", path: str) -> "FileDownloadResponse":
    """The bytes of a file, if the policy allows the model to read it."""
    from deepagents.backends.protocol import FileDownloadResponse

    try:
        if box.decide(Verb.READ, path).verdict is not Verdict.ALLOW:
            return FileDownloadResponse(path, error="permission_denied")
        whole = box.files.read(path)
        if box.decide(Verb.READ, whole.path).verdict is not Verdict.ALLOW:  # a link changed meanwhile
            return FileDownloadResponse(path, error="permission_denied")
        return FileDownloadResponse(path, content=whole.data)
    except ToolError as error:
        return FileDownloadResponse(path, error=FRAMEWORK_ERRORS.get(error.code, format_error(error)))


def format_error(error: ToolError) -> str:
    return raw.refuse("read_file", error, hints=False).removeprefix("Error: ")
