"""An event of a client, carried out: a window begins or ends, a turn begins, or what changed in between is recorded."""

import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from handhold.core.errors import BadPath, OutsideWorkspace, ToolError
from handhold.dialects.error_messages import format_plain_error
from handhold.hooks.client_process import is_gone
from handhold.hooks.events import HookEvent, parse_event
from handhold.hooks.transcript import has_result
from handhold.logs import log_swallowed, suppress_and_log
from handhold.snapshots import find_recorded_root
from handhold.toolbox import Toolbox

EXIT_BLOCKED = 2  # what clients take for a refusal
MESSAGE_KEY = "systemMessage"  # by which they show a person something


class HookAnswer(NamedTuple):
    """What the hook prints, and its exit status."""

    output: str = "{}"
    errors: str = ""
    status: int = 0


class HookRequest(NamedTuple):
    """An event as a hook gets it: JSON. `process` is the client's, `folder` where the hook runs."""

    client: str
    event: bytes
    process: str
    folder: str
    is_strict: bool = False


def answer_event(request: HookRequest, state: Path | None, *, copies: bool = True) -> HookAnswer:
    """Record an event. Never raises: a hook must not stand in the client's way, unless it is strict. Without `copies`,
    call `copy_changed` after the client has the answer to the end of a call."""
    try:
        if event := read_event(request):
            record_event(event, request.process, state, copies=copies)
    except (ToolError, OSError, ValueError) as error:
        log_swallowed()
        reason = f"{error.code}: {format_plain_error(error)}" if isinstance(error, ToolError) else str(error)
        message = f"handhold: this is not recorded: {reason}"
        if request.is_strict:
            return HookAnswer("", message, EXIT_BLOCKED)
        return HookAnswer(json.dumps({MESSAGE_KEY: message}))
    return HookAnswer()


def read_event(request: HookRequest) -> HookEvent | None:
    """Raises ValueError if it is no JSON object."""
    event = parse_event(request.client, _parse_object(request.event))
    return replace(event, folder=event.folder or request.folder) if event else None


def copy_changed(request: HookRequest, state: Path | None) -> None:
    """After the end of a call: copy what it changed, while the client goes on."""
    with suppress_and_log(ToolError, OSError, ValueError):
        event = read_event(request)
        if event and event.action == "end" and event.window:
            root = find_recorded_root(Path(event.folder), state)
            with Toolbox.open(root, state=state, session=event.session) as box:
                box.snapshots.copy()


def record_event(event: HookEvent, process: str, state: Path | None, *, copies: bool) -> None:
    root = find_recorded_root(Path(event.folder), state)
    with Toolbox.open(root, state=state, session=event.session) as box:
        snapshots, window = box.snapshots, event.window
        if event.action != "end":
            # Of turns, the agent itself decides: a sub-agent may go on with what an earlier prompt wanted.
            is_active = None if event.action == "start" or event.agent else event.action in ("turn", "begin")
            prompt = "" if event.agent else event.prompt
            is_new = snapshots.note_client(event.session, process, prompt, is_active=is_active)
            is_new = bool(is_active) and (is_new or (event.action == "turn" and not prompt))
            if is_new or event.action != "begin":
                is_whole = (
                    event.action in ("start", "finish") and not event.agent
                )  # else others' calls may be under way
                # A killed client runs no hook: its calls would stay open, and get what others change from now on.
                killed = [session for session, at in snapshots.list_open_clients().items() if is_gone(at)]
                agent = None if is_whole else event.agent
                snapshots.sweep(event.session, agent=agent, next_turn=is_new, ended=killed)
        if event.action == "start":
            snapshots.start()
        if window is None:
            return
        if event.action == "begin" and event.transcript:
            for call in snapshots.list_open(event.session):
                if has_result(event.transcript, call):
                    snapshots.end(event.session, call)
        if event.action == "end":
            snapshots.end(event.session, window.call_id, copies=copies)
        elif window.paths is None:
            snapshots.begin(window)
        elif paths := find_inside(box, window.paths, event.folder):
            snapshots.begin(replace(window, paths=paths))


def find_inside(box: Toolbox, paths: tuple[str, ...], folder: str) -> tuple[str, ...]:
    """Those of these paths that are in the workspace; others are not recorded."""
    found: list[str] = []
    for path in paths:
        with suppress(OutsideWorkspace, BadPath):
            found.append(box.files.resolve(os.path.join(folder, path)))
    return tuple(found)


def _parse_object(text: bytes) -> dict[str, Any]:
    given = json.loads(text)
    if not isinstance(given, dict):
        raise ValueError("the event is not a JSON object")
    return given  # pyright: ignore[reportUnknownVariableType]
