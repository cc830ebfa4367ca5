// Each of these changes makes a test of this file fail: a conversation for which no removal is scheduled; a removal that leaves
// some keys of the conversation; one that counts from the first turn, or removes a conversation whose turn runs.
import { randomUUID } from "node:crypto";
import { defineAgent } from "agentserve";
import { scriptedModel } from "agentserve/models";
import { expect, it } from "vitest";
import { restate } from "../../src/backends/restate/define.ts";
import { createGates } from "../harness/gates.ts";
import { patienceMs, patientTimeouts } from "../harness/patience.ts";
import { startTestServer } from "../harness/server.ts";
import { query } from "./replica-process.ts";

const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;

it("removes a conversation after its last turn, and not while a turn runs", { timeout: 4 * patienceMs }, async () => {
  const name = `kept-${randomUUID()}`;
  const gates = createGates();
  const held = async (): Promise<string> => {
    await gates.pass("answer");
    return "Two";
  };
  const agent = defineAgent({ id: "helper", instructions: "x", model: scriptedModel(["One", "Other", held]) });
  const retention = { conversations: "2s" };
  const backend = restate({ ingress, admin, name, serve: { port: 0 }, timeouts: patientTimeouts, retention });
  const server = await startTestServer("start", { config: { agents: [agent], backend } });
  const say = (conversationId: string) =>
    server.post("/agents/helper/text", { input: "Hello", options: { conversationId } });
  const statusOf = async (id: string) => (await server.get(`/agents/helper/conversations/${id}`)).status;
  const keysOf = (id: string): Promise<unknown[]> =>
    query(`select key from state where service_name = '${name}.conversation' and service_key like '%"${id}"]'`);
  await say("used");
  await say("idle");
  const running = say("used");
  await gates.reached("answer");
  await expect.poll(() => statusOf("idle"), { timeout: patienceMs }).toBe(404);
  expect(await keysOf("idle")).toEqual([]);
  expect(await statusOf("used")).toBe(200);
  gates.open("answer");
  expect((await running).status).toBe(200);
  await expect.poll(() => statusOf("used"), { timeout: 2 * patienceMs }).toBe(404);
});
