// Run a conversation with the official TypeScript client of the major version `sdk`, and print the transcript.
// talk.py describes the argument; `packages` is the folder with the clients.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const CALL_ID = "handhold/callId";
const MILLISECONDS = 30_000;
const task = JSON.parse(process.argv[2]);
const require = createRequire(task.packages + "/");

function clients() {
    if (task.sdk === 1) {
        const from = (name) => require(`@modelcontextprotocol/sdk/client/${name}.js`);
        const { ElicitRequestSchema: ELICITATION } = require("@modelcontextprotocol/sdk/types.js");
        return { ...from("index"), ...from("stdio"), ...from("streamableHttp"), ELICITATION };
    }
    const ELICITATION = "elicitation/create";
    return { ...require("@modelcontextprotocol/client"), ...require("@modelcontextprotocol/client/stdio"), ELICITATION };
}

const { Client, StdioClientTransport, StreamableHTTPClientTransport, ELICITATION } = clients();

function transport() {
    if (task.command) {
        const [command, ...args] = task.command;
        return new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" });
    }
    const headers = { Authorization: `Bearer ${task.token}` };
    return new StreamableHTTPClientTransport(new URL(task.url), { requestInit: { headers } });
}

async function answered(client, call, args) {
    const said = [];
    const options = { timeout: MILLISECONDS };
    const params = { name: call.tool, arguments: args };
    if (call.live) options.onprogress = (progress) => said.push(progress.message ?? "");
    if (call.call_id) params._meta = { [CALL_ID]: call.call_id };
    let result;
    try {
        result = task.sdk === 1 ? await client.callTool(params, undefined, options) : await client.callTool(params, options);
    } catch (error) {
        if (typeof error.code !== "number") throw error;
        return { error: { code: error.code, message: error.message.replace(/^MCP error -?\d+: /, "") } };
    }
    const answer = {};
    for (const key of ["content", "isError", "structuredContent"]) if (result[key] !== undefined) answer[key] = result[key];
    if (call.live) answer.live = said.some((each) => each.includes(call.live));
    return answer;
}

function text(answer) {
    const blocks = (answer.content ?? []).filter((block) => block.type === "text");
    return blocks.map((block) => block.text).join("\n");
}

function filled(value, kept) {
    if (Array.isArray(value) || value === undefined) return value;
    const entries = Object.entries(value);
    return Object.fromEntries(entries.map(([key, each]) => [key, kept[String(each).slice(1, -1)] ?? each]));
}

const conversation = JSON.parse(readFileSync(task.conversation, "utf8"));
const options = { capabilities: conversation.answers ? { elicitation: { form: {} } } : {} };
if (task.sdk === 2) options.versionNegotiation = { mode: task.era === "legacy" ? "legacy" : { pin: task.era } };
const client = new Client({ name: "talk", version: "1" }, options);
const asked = [];
if (conversation.answers) {
    client.setRequestHandler(ELICITATION, async (request) => {
        const answer = conversation.answers[asked.push(request.params.message) - 1];
        return answer === null ? { action: "decline" } : { action: "accept", content: { answer } };
    });
}
const line = transport();
const settle = line.setProtocolVersion?.bind(line);
let protocol = null;
line.setProtocolVersion = (version) => {
    protocol = version;
    settle?.(version);
};
await client.connect(line);
const { tools } = await client.listTools();
const answers = [];
const kept = {};
for (const call of conversation.calls) {
    const args = filled(call.arguments, kept);
    let answer = await answered(client, call, args);
    for (let tries = 0; tries < 200 && !new RegExp(call.until ?? "").test(text(answer)); tries++) {
        await new Promise((done) => setTimeout(done, 100));
        answer = await answered(client, call, args);
    }
    for (const [name, pattern] of Object.entries(call.keep ?? {})) kept[name] = text(answer).match(pattern)?.[1] ?? "";
    answers.push(answer);
}
protocol = client.getNegotiatedProtocolVersion?.() ?? protocol;
await client.close();
process.stdout.write(JSON.stringify({ protocol, tools, answers, kept, asked }) + "\n");
