"""A Pydantic AI coding agent. A run ends at each change, shows it, and continues when you answer.

OPENAI_API_KEY=… python examples/pydantic_ai_agent.py FOLDER MODEL TASK
"""

import asyncio
import sys

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.models.openai import OpenAIChatModel

from handhold import Toolbox
from handhold.adapters.pydantic_ai import approve_by_deferral, toolset


async def main(folder: str, model: str, task: str) -> None:
    with Toolbox.open(folder, approver=approve_by_deferral) as box:
        agent = Agent(OpenAIChatModel(model), toolsets=[toolset(box)], output_type=[str, DeferredToolRequests])
        result = await agent.run(task)
        while isinstance(asked := result.output, DeferredToolRequests):
            answers: dict[str, bool] = {}
            for call in asked.approvals:
                diff = asked.metadata[call.tool_call_id]["diff"]
                answers[call.tool_call_id] = input(f"{diff}\nShall I? [y/n] ") == "y"
            answered = asked.build_results(approvals=answers, metadata=asked.metadata)
            result = await agent.run(message_history=result.all_messages(), deferred_tool_results=answered)
        print(result.output)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
