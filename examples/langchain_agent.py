"""A LangChain coding agent. It pauses at each change, shows it, and waits for your answer.

OPENAI_API_KEY=… python examples/langchain_agent.py FOLDER MODEL TASK
"""

import asyncio
import sys
from typing import Any

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from handhold import Toolbox
from handhold.adapters.langchain import approve_by_interrupt, tools


async def main(folder: str, model: str, task: str) -> None:
    here: Any = {"configurable": {"thread_id": "1"}}
    given: Any = {"messages": [("user", task)]}
    with Toolbox.open(folder, approver=approve_by_interrupt) as box:
        agent: Any = create_agent(ChatOpenAI(model=model), tools(box), checkpointer=InMemorySaver())
        while given:
            answers: dict[str, bool] = {}
            async for mode, piece in agent.astream(given, here, stream_mode=["custom", "updates"]):
                if mode == "custom":
                    print(piece["printed"], end="")
                for asked in piece.get("__interrupt__", ()):
                    answers[asked.id] = input(f"{asked.value['diff']}\nShall I? [y/n] ") == "y"
            given = Command(resume=answers) if answers else None
        print(agent.get_state(here).values["messages"][-1].text)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
