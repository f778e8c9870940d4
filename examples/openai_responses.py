"""A coding agent in a loop around OpenAI's client. It shows each change, and applies it if you answer y.

OPENAI_API_KEY=… python examples/openai_responses.py FOLDER MODEL TASK
"""

import sys
from typing import Any

from openai import OpenAI

from handhold import Question, Toolbox
from handhold.adapters.openai import Responses


def allowed(question: Question) -> bool:
    return input(f"{question.diff or question.command}\nShall I? [y/n] ") == "y"


def main(folder: str, model: str, task: str) -> None:
    client = OpenAI()
    with Toolbox.open(folder, approver=allowed) as box:
        runner = Responses(box)
        history: list[Any] = [{"role": "user", "content": task}]
        while True:
            response = client.responses.create(model=model, input=history, tools=runner.tools)
            print(response.output_text)
            results = runner.run_calls(response)
            if not results:
                break
            history += [*response.output, *results]


if __name__ == "__main__":
    main(*sys.argv[1:])
