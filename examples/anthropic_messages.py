"""A coding agent on Anthropic's client loop, with the vendor's own editor and shell. Answer n to undo its changes.

ANTHROPIC_API_KEY=… python examples/anthropic_messages.py FOLDER MODEL TASK
"""

import sys

from anthropic import Anthropic

from handhold import Target, Toolbox
from handhold.adapters.anthropic import Messages


def main(folder: str, model: str, task: str) -> None:
    with Toolbox.open(folder, dialect="anthropic") as box:
        runner = Anthropic().beta.messages.tool_runner(
            model=model,
            max_tokens=8000,
            messages=[{"role": "user", "content": task}],
            tools=Messages(box).make_runnable_tools(),
        )
        for message in runner:
            print(*(block.text for block in message.content if block.type == "text"))
        if input("Shall it stay? [y/n] ") == "n":
            print(box.undo(Target.session()).text)


if __name__ == "__main__":
    main(*sys.argv[1:])
