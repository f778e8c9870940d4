"""An agent with the tools of source 000: it finds, greps, reads, edits and executes.

OPENAI_API_KEY=… OPENAI_BASE_URL=http://localhost:8000/v1 python examples/sources/deepagents_agent.py FOLDER MODEL

The model is any that speaks Chat Completions at that address. Each line that you type is a task; an empty one ends.
"""

import sys
from typing import Any

from openai import OpenAI

from handhold import Toolbox
from handhold.adapters.openai import Chat

MAX_TURNS = 50  # of the model, for one task


def main(folder: str, model: str) -> None:
    client = OpenAI()
    with Toolbox.open(folder, dialect="deepagents") as box:
        runner = Chat(box)
        history: list[Any] = [{"role": "system", "content": box.instructions}] if box.instructions else []
        while task := input("> ").strip():
            history.append({"role": "user", "content": task})
            for _ in range(MAX_TURNS):
                completion = client.chat.completions.create(model=model, messages=history, tools=runner.tools)
                message = completion.choices[0].message
                for call in runner.extract_calls(completion):
                    print(f"  {call.tool} {call.arguments}")
                history += [message, *(results := runner.run_calls(completion))]
                if not results:
                    print(message.content)
                    break


if __name__ == "__main__":
    main(*sys.argv[1:])
