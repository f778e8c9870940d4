"""A deep agent that uses Handhold for files and commands. It pauses at each change, shows it, and waits for an answer.

ANTHROPIC_API_KEY=… python examples/deepagents_backend.py FOLDER MODEL TASK
"""

import asyncio
import sys
from typing import Any

from deepagents import create_deep_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from handhold import Toolbox
from handhold.adapters.deepagents import backend, raw
from handhold.adapters.langchain import approve_by_interrupt


async def main(folder: str, model: str, task: str) -> None:
    here: Any = {"configurable": {"thread_id": "1"}}
    given: Any = {"messages": [("user", f"{task} You work in {folder}.")]}
    with Toolbox.open(folder, dialect=raw, approver=approve_by_interrupt) as box:
        agent = create_deep_agent(model=f"anthropic:{model}", backend=backend(box), checkpointer=InMemorySaver())
        while given:
            result = await agent.ainvoke(given, here)
            answers: dict[str, bool] = {}
            for asked in result.get("__interrupt__", ()):
                answers[asked.id] = input(f"{asked.value['diff']}\nShall I? [y/n] ") == "y"
            given = Command(resume=answers) if answers else None
        print(result["messages"][-1].text)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
