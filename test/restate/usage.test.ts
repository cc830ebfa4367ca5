// Each of these changes makes a test of this file fail: a record or a batch that is sent twice and counted twice; a call that is
// made again and not counted; days that are never removed, or too early; a conversation that expires with its usage.
import { randomUUID } from "node:crypto";
import { expect, it } from "vitest";
import { RestateClient } from "../../src/backends/restate/client/client.ts";
import { restate } from "../../src/backends/restate/define.ts";
import { patienceMs, patientTimeouts } from "../harness/patience.ts";
import { startTestServer } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";
import { query } from "./replica-process.ts";
import { meteredAgent, readItems, sumOf, toQuestion } from "../agents/usage/metered.ts";

const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;
const noConversation = JSON.stringify(["a", null, null]);
const today = Math.floor(Date.now() / 86_400_000);

async function open(retention?: { conversations: string }) {
  const name = `usage-${randomUUID()}`;
  const backend = restate({
    ingress,
    admin,
    name,
    serve: { port: 0 },
    timeouts: patientTimeouts,
    ...(retention && { retention }),
  });
  const server = await startTestServer("start", { config: { agents: [meteredAgent("a")], backend } });
  const client = new RestateClient({ ingress: [ingress], admin, name, timeouts: patientTimeouts });
  const call = (service: "records" | "usage", key: string, method: string, body: unknown): Promise<unknown> =>
    client.write(`${service}/${method}`, key, body);
  const send = (parts: readonly object[], id: string): Promise<boolean> =>
    client.sendOnce("usage/add", noConversation, parts, { id });
  const items = (by: string, since?: string): Promise<any[]> => readItems(server, "a", { by, since });
  const left = (): Promise<any[]> =>
    query(`select id from sys_invocation
      where target_service_name = '${name}.usage' and status not in ('scheduled', 'completed')`);
  return { name, server, call, send, items, left };
}
const toPart = (day: number, calls = 1) => ({ day, model: "m/m", ...sumOf([1, 1]), calls });

it("counts the usage of a record once that is sent twice, and of a call twice that is made again", async () => {
  const { call, items, left } = await open();
  const usage = { key: noConversation, part: toPart(today) };
  const write = (owner: string) => call("records", "r", "write", { owner, name: "model#0", text: "[]", usage });
  await call("records", "r", "open", "one");
  expect([await write("one"), await write("one"), await write("other")]).toEqual([true, true, false]);
  await eventually(async () => expect(await items("user")).toMatchObject([{ calls: 1 }]));
  expect(await call("records", "r", "open", "two")).toEqual(["model#0"]);
  expect([await write("two"), await write("two"), await write("one")]).toEqual([true, true, false]);
  await eventually(async () => expect(await items("user")).toMatchObject([{ calls: 2 }]));
  await eventually(async () => expect(await left()).toEqual([]));
  expect(await items("user")).toMatchObject([{ calls: 2 }]);
});

it("counts a batch of usage once that is sent twice", async () => {
  const { send, items, left } = await open();
  for (const id of ["x", "x", "y", "x"]) await send([toPart(today, 5)], id);
  await eventually(async () => expect(await items("user")).toMatchObject([{ calls: 10 }]));
  await eventually(async () => expect(await left()).toEqual([]));
  expect(await items("user")).toMatchObject([{ calls: 10 }]);
});

it("removes the usage of a day after 400 days", async () => {
  const { name, call, items } = await open();
  const add = (...ages: number[]) =>
    call(
      "usage",
      noConversation,
      "add",
      ages.map((age) => toPart(today - age)),
    );
  await add(1);
  await add(402, 401, 400); // those of a conversation that was deleted
  const keys = async (): Promise<string[]> => {
    const rows = await query<any>(`select key from state where service_name = '${name}.usage' order by 1`);
    return rows.map(({ key: one }) => one);
  };
  const toKey = (day: number): string => `d${String(day).padStart(7, "0")} m/m`;
  await eventually(async () => expect(await keys()).toEqual([toKey(today - 400), toKey(today - 1), "expiry", "first"]));
  expect((await items("day", "2020-01-01")).map(({ calls }) => calls)).toEqual([1, 1]);
  const scheduled = await query<any>(
    `select id from sys_invocation where target_service_name = '${name}.usage' and status = 'scheduled'`,
  );
  expect(scheduled).toHaveLength(1);
});

it("keeps the usage of a conversation that has expired", { timeout: 4 * patienceMs }, async () => {
  const { name, server, items } = await open({ conversations: "1s" });
  const input = toQuestion([1, 2], [3, 4]);
  await server.post("/agents/a/text", { input, options: { userId: "ada", conversationId: "c" } });
  await eventually(async () =>
    expect(await items("conversation")).toEqual([{ conversationId: null, userId: "ada", ...sumOf([1, 2], [3, 4]) }]),
  );
  const gone = JSON.stringify(["a", "ada", "c"]);
  expect(
    await query<any>(`select key from state where service_name = '${name}.usage' and service_key = '${gone}'`),
  ).toEqual([]);
});
