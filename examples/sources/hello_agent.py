"""An agent with the registry of source 003, in Chinese: bash, files, and `uppercase`, a tool of your own.

OPENAI_API_KEY=… OPENAI_BASE_URL=http://localhost:8000/v1 python examples/sources/hello_agent.py FOLDER MODEL

The model is any that speaks Chat Completions at that address. Each line that you type is a task; an empty one ends.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from openai import OpenAI

from handhold import Toolbox
from handhold.adapters.openai import Chat

MAX_TURNS = 50  # of the model, for one task
INSTRUCTIONS = "若用户明确要求「只转大小写、不访问磁盘」,优先使用 `uppercase` 工具。"


@dataclass(frozen=True)
class OwnTool:
    """A tool of the application: what the model is told of it, and what it does."""

    description: str
    properties: Mapping[str, Any]
    run: Callable[..., str]

    def declare(self, name: str) -> Any:
        schema = {"type": "object", "properties": self.properties, "required": [*self.properties]}
        return {"type": "function", "function": {"name": name, "description": self.description, "parameters": schema}}

    def answer(self, arguments: str) -> str:
        """The result; an error is a result, too, so that the model can mend its call."""
        try:
            return self.run(**json.loads(arguments))
        except (TypeError, ValueError) as error:
            return f"错误:{error}"


OWN_TOOLS = {"uppercase": OwnTool("将文本转换为大写。", {"text": {"type": "string"}}, lambda text: text.upper())}


def main(folder: str, model: str) -> None:
    client = OpenAI()
    with Toolbox.open(folder, dialect="hello") as box:
        runner = Chat(box, other_tools=OWN_TOOLS)
        tools = [*runner.tools, *(tool.declare(name) for name, tool in OWN_TOOLS.items())]
        history: list[Any] = [{"role": "system", "content": box.instructions + INSTRUCTIONS}]
        while task := input("> ").strip():
            history.append({"role": "user", "content": task})
            for _ in range(MAX_TURNS):
                completion = client.chat.completions.create(model=model, messages=history, tools=tools)
                message = completion.choices[0].message
                history += [message, *runner.run_calls(completion)]
                for call in message.tool_calls or ():
                    if call.type == "function":
                        print(f"  {call.function.name} {call.function.arguments}")
                        if own := OWN_TOOLS.get(call.function.name):
                            text = own.answer(call.function.arguments)
                            history.append({"role": "tool", "tool_call_id": call.id, "content": text})
                if not message.tool_calls:
                    print(message.content)
                    break


if __name__ == "__main__":
    main(*sys.argv[1:])
