import type { Config } from "agentserve";
import { expect, it } from "vitest";
import { by, trusting } from "../../auth/authorize/world.ts";
import { startTestServer } from "../../harness/server.ts";
import { bankConfig, list, request } from "./bank.ts";

it("says of each approval whether the caller may read its conversation", async () => {
  const start = (config: Config) =>
    startTestServer("in process", { config: bankConfig({ auth: trusting, ...config }) });
  async function look(authorize: Config["authorize"], caller: string): Promise<unknown> {
    const server = await start({ authorize });
    const { id } = await request(server, "5", by("ada"));
    const items = await list(server, "?limit=200", by(caller));
    return items.find(({ approvalId }: { approvalId: string }) => approvalId === id)?.mayReadConversation;
  }
  expect(await look(undefined, "ada")).toBe(true);
  expect(await look(() => true, "boss")).toBe(true);
  expect(await look(({ action }) => !action.includes(".others."), "boss")).toBe(false);
  expect(await look(({ action }) => action !== "conversation.read", "ada")).toBe(false);
  expect(await look(({ action }) => action !== "conversation.read", "boss")).toBe(true);
});
