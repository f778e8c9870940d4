"""An OpenAI Agents SDK coding agent. A run pauses before each call that may change something, until you answer.

OPENAI_API_KEY=… python examples/openai_agents_sdk.py FOLDER MODEL TASK
"""

import asyncio
import sys
from typing import Any

from agents import Agent, Runner

from handhold import Toolbox
from handhold.adapters.openai_agents import approve_by_run, tools


async def main(folder: str, model: str, task: str) -> None:
    with Toolbox.open(folder, approver=approve_by_run) as box:
        shown = tools(box, watch=lambda _, printed: print(printed.text, end=""))
        agent = Agent(name="coder", model=model, tools=shown)
        result = await Runner.run(agent, task)
        while result.interruptions:
            state = result.to_state()
            for asked in result.interruptions:
                call: Any = asked.raw_item
                if input(f"{call.name} {call.arguments}\nShall I? [y/n] ") == "y":
                    state.approve(asked)
                else:
                    state.reject(asked)
            result = await Runner.run(agent, state)
        print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
