// Written by `handhold install opencode`: records what opencode's own tools change, for `handhold undo`.
// It changes no call. If it fails, opencode goes on and says so, unless it was installed with --strict.
import { spawn } from "node:child_process"

const PROGRAM = null
const STRICT = null
const TOOLS = null
const SECONDS = 15

export const Handhold = async ({ client, directory }) => {
  const waiting = new Map() // shell calls that wait for approval, by id

  const send = (event) =>
    new Promise((resolve) => {
      const words = ["hook", "opencode", ...(STRICT ? ["--strict"] : [])]
      const child = spawn(PROGRAM, words, { cwd: directory, stdio: ["pipe", "pipe", "pipe"] })
      let said = ""
      let complained = ""
      const timer = setTimeout(() => child.kill("SIGKILL"), SECONDS * 1000)
      child.stdout.on("data", (data) => (said += data))
      child.stderr.on("data", (data) => (complained += data))
      child.stdin.on("error", () => {})
      child.on("error", (error) => {
        clearTimeout(timer)
        resolve(`handhold: this is not recorded: ${error.message}`)
      })
      child.on("close", (code) => {
        clearTimeout(timer)
        if (code !== 0) return resolve(complained.trim() || "handhold: this is not recorded")
        try {
          resolve(JSON.parse(said).systemMessage ?? "")
        } catch {
          resolve("handhold: this is not recorded: no answer")
        }
      })
      child.stdin.end(JSON.stringify({ cwd: directory, ...event }))
    })

  const record = async (name, session, more = {}, mayBlock = false) => {
    const problem = await send({ hook_event_name: name, session_id: session, ...more })
    if (!problem) return
    if (STRICT && mayBlock) throw new Error(problem)
    const show = (call) => Promise.resolve().then(call).catch(() => {})
    await show(() => client.app.log({ body: { service: "handhold", level: "warn", message: problem } }))
    await show(() => client.tui.showToast({ body: { message: problem, variant: "warning" } }))
  }

  const begin = (input, args) =>
    record("before", input.sessionID, { tool_name: input.tool, tool_use_id: input.callID, tool_input: args }, true)

  return {
    "chat.message": async (input) => record("turn", input.sessionID),
    "tool.execute.before": async (input, output) => {
      if (!TOOLS.includes(input.tool)) return
      // A person may be asked before a command runs; `shell.env` comes after the answer.
      if (input.tool === "bash") waiting.set(input.callID, { input, args: output.args })
      else await begin(input, output.args)
    },
    "shell.env": async (input) => {
      const call = waiting.get(input.callID)
      if (!call) return
      waiting.delete(input.callID)
      await begin(call.input, call.args)
    },
    "tool.execute.after": async (input) => {
      if (!TOOLS.includes(input.tool)) return
      await record("after", input.sessionID, { tool_name: input.tool, tool_use_id: input.callID, tool_input: input.args })
    },
    event: async ({ event }) => {
      const part = event.type === "message.part.updated" ? event.properties.part : undefined
      if (part?.type === "tool" && part.state?.status === "error" && TOOLS.includes(part.tool)) {
        waiting.delete(part.callID) // denied, or failed: then there is no `tool.execute.after`
        const call = { tool_name: part.tool, tool_use_id: part.callID, tool_input: part.state.input ?? {} }
        await record("after", part.sessionID, call)
      }
      const session = event.properties?.sessionID ?? event.properties?.info?.id
      if (event.type === "session.created" && session) await record("start", session)
      if (event.type === "session.idle" && session) await record("idle", session)
    },
  }
}
