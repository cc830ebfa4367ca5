import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { until } from "../harness/waiting.ts";
import { config, startDev } from "./dev-server.ts";

/** An agent whose model waits for the file `released`, calls a tool, and answers with its result. */
const agent = (version: string): string => `
import { existsSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import * as v from "valibot";
import { defineAgent, defineTool } from "agentserve";
import { scriptedModel } from "agentserve/models";

async function answer({ prompt }) {
  const { role, content } = prompt.at(-1);
  if (role === "tool") return "model ${version}, " + content[0].output.value;
  writeFileSync("asked", "");
  while (!existsSync("released")) await sleep(10);
  return { toolCalls: [{ toolName: "name", input: {} }] };
}
const name = defineTool({ description: "", inputSchema: v.object({}), execute: () => "tool ${version}" });
const model = scriptedModel(Array.from({ length: 20 }, () => answer));
export const a = defineAgent({ id: "a", instructions: "${version}", model, tools: { name } });
`;

it("dev runs a turn to its end on the code with which it began, also if a save comes in its middle", async () => {
  const dev = await startDev({ "agents.config.ts": config, "agents/a.ts": agent("one") });
  const options = { userId: "ada", conversationId: "c" };
  const ask = async (path: string, input: unknown): Promise<Response> =>
    fetch(`${dev.url}/agents/a/${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ input, options }),
    });
  const message = { id: "m", role: "user", parts: [{ type: "text", text: "hello" }] };
  const begun = ask("chat", [message]);
  await until(() => existsSync(join(dev.folder, "asked")), "the model to be asked");
  await dev.serves({ "agents/a.ts": agent("two") });
  expect(await (await fetch(`${dev.url}/agents/a`)).json()).toMatchObject({ data: { instructions: "two" } });
  // The new version finds the turn of the old one.
  const attached = fetch(`${dev.url}/agents/a/chat/c/stream?userId=ada&after=m`);
  const next = ask("text", "again");
  writeFileSync(join(dev.folder, "released"), "");
  expect(await readText(await begun)).toBe("model one, tool one");
  expect(await readText(await attached)).toBe("model one, tool one");
  expect(await (await next).json()).toMatchObject({ data: { text: "model two, tool two" } });
});

async function readText(response: Response): Promise<string> {
  const text = await response.text();
  expect(text.trim().endsWith("data: [DONE]")).toBe(true);
  return [...text.matchAll(/"delta":"(.*?)"/g)].map(([, delta]) => delta).join("");
}
