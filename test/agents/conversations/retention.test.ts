// Each of these changes makes a test of this file fail: a time that counts from the first turn; a conversation that is removed
// while its turn runs; one time for all that counts for conversations.
import { defineAgent, embedded, type EmbeddedBackendOptions } from "agentserve";
import { scriptedModel, type ScriptedStep } from "agentserve/models";
import { expect, it } from "vitest";
import { held } from "../turns/lives.ts";
import { newFile, query, serve } from "../../workflows/waits/serve.ts";

function open(retention: EmbeddedBackendOptions["retention"], script: ScriptedStep[], path = newFile()) {
  const agent = defineAgent({ id: "helper", instructions: "x", model: scriptedModel(script) });
  const server = serve({ agents: [agent], backend: embedded({ path, retention: retention! }) });
  const say = (conversationId: string, headers = {}) =>
    server.post("/agents/helper/text", { input: "Hello", options: { conversationId } }, headers);
  const list = async (): Promise<string[]> =>
    (await server.get("/agents/helper/conversations")).body.data.items.map(({ id }: { id: string }) => id);
  return { ...server, path, say, list };
}

it("removes conversations when their time after the last turn is over", async () => {
  const { clock, say, list, path } = open({ conversations: "10d" }, ["1", "2", "3", "4"]);
  await say("old");
  await say("used");
  await clock.advance("6d");
  await say("used");
  await clock.advance("5d");
  expect(await list()).toEqual(["used"]);
  await say("new");
  await clock.advance("6d");
  expect(await list()).toEqual(["new"]);
  expect(query(path, "select distinct conversation from messages")).toHaveLength(1);
  expect(query(path, "select conversation from conversations")).toHaveLength(1);
});

it("keeps a conversation while its turn runs", async () => {
  const slow = held("answer");
  const { clock, say, list } = open({ conversations: "1h" }, [slow.step]);
  await say("c", { prefer: "respond-async" });
  await slow.reached;
  await clock.advance("2m"); // the model has a limit of its own
  expect(await list()).toEqual(["c"]);
  slow.open();
});

it.each([["1h"], [{ executions: "1h" }], [undefined]])("keeps conversations for ever with %j", async (retention) => {
  const { clock, say, list } = open(retention, ["1"]);
  await say("c");
  await clock.advance("400d");
  expect(await list()).toEqual(["c"]);
});

it("refuses a wrong retention of conversations", () => {
  const wrong = (conversations: never) => () => embedded({ retention: { conversations } });
  expect(wrong("soon" as never)).toThrow(/embedded\(\{ retention\.conversations \}\): expected false or /);
  expect(wrong(7 as never)).toThrow(/retention\.conversations/);
});
