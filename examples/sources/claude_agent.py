"""An agent with Read, Edit and MultiEdit of source 002.

ANTHROPIC_API_KEY=… ANTHROPIC_BASE_URL=http://localhost:8000 python examples/sources/claude_agent.py FOLDER MODEL

The model is any that speaks the Messages API at that address. Each line that you type is a task; an empty one ends.
"""

import sys
from typing import Any

from anthropic import Anthropic

from handhold import Toolbox
from handhold.adapters.anthropic import Messages

MAX_TURNS = 50  # of the model, for one task
MAX_TOKENS = 8000  # of one turn


def main(folder: str, model: str) -> None:
    client = Anthropic()
    with Toolbox.open(folder, dialect="claude") as box:
        runner = Messages(box)
        history: list[Any] = []
        while task := input("> ").strip():
            history.append({"role": "user", "content": task})
            for _ in range(MAX_TURNS):
                message = client.messages.create(
                    model=model, max_tokens=MAX_TOKENS, system=box.instructions, messages=history, tools=runner.tools
                )
                for call in runner.extract_calls(message):
                    print(f"  {call.tool} {call.arguments}")
                history.append({"role": "assistant", "content": message.content})
                if not (results := runner.run_calls(message)):
                    print(*(block.text for block in message.content if block.type == "text"))
                    break
                history.append({"role": "user", "content": results})


if __name__ == "__main__":
    main(*sys.argv[1:])
