import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { eventually } from "../../harness/waiting.ts";
import { ada, as, bob, deliver, grace, idsOf, now, open, send, toBody, webhookSecret, type Delivery } from "./shop.ts";

describe("the webhook of the template webhook", () => {
  it("the webhook starts a signed order once, and answers 202 each time", async () => {
    const { server } = await open("2026-01-15T18:00:00Z");
    expect(await deliver(server, {})).toEqual([202, { executionId: "order-d-1" }]);
    expect(await deliver(server, { time: now() - 60 })).toEqual([202, { executionId: "order-d-1" }]);
    expect(await idsOf(server)).toEqual(["order-d-1"]);
    expect(await deliver(server, { body: toBody("d-2", 10) })).toEqual([202, { executionId: "order-d-2" }]);
    const handle = await server.runtime.executions.get("order-d-2");
    expect(await handle.result()).toMatchObject({ status: "completed", result: { amount: 20, approvedBy: null } });
    const { context } = await handle.state();
    expect(context).toMatchObject({ userId: "service:shop" });
  });

  const wrong = [401, { success: false, error: "Wrong signature" }];
  const old = [401, { success: false, error: "The timestamp is too old, or in the future" }];
  it.each<[string, Delivery, unknown]>([
    ["of another body", { signed: toBody("d-1", 1) }, wrong],
    ["by another secret", { signature: createHmac("sha256", "x").update("x").digest("hex") }, wrong],
    ["that is too short", { signature: "00" }, wrong],
    ["that is missing", { signature: "" }, wrong],
    [
      "of another time",
      { signature: createHmac("sha256", webhookSecret).update(toBody("d-1", 450)).digest("hex") },
      wrong,
    ],
    ["that is over five minutes old", { time: now() - 301 }, old],
    ["of the future", { time: now() + 3_600 }, old],
    ["without a time", { time: "" }, old],
    ["with a time that is not a number", { time: "soon" }, old],
    ["with an infinite time", { time: "Infinity" }, old],
  ])("the webhook refuses a signature %s", async (_, delivery, refused) => {
    const { server } = await open("2026-01-15T18:00:00Z");
    expect(await deliver(server, delivery)).toEqual(refused);
    expect(await idsOf(server)).toEqual([]);
  });

  it("the webhook checks the bytes of a body, not the decoded text", async () => {
    const { server } = await open("2026-01-15T18:00:00Z");
    const body = new Uint8Array([0xef, 0xbb, 0xbf, ...Buffer.from(toBody("d-1", 450))]);
    expect(await deliver(server, { body })).toEqual([202, { executionId: "order-d-1" }]);
    expect((await deliver(server, { body, signed: toBody("d-1", 450) }))[0]).toBe(401);
  });

  it.each<[string, string]>([
    ["is not JSON", "{"],
    ["has no id", JSON.stringify({ order: JSON.parse(toBody("d-1", 1)).order })],
    ["has an id that no execution may have", toBody("d 1", 1)],
    ["has no items", JSON.stringify({ id: "d-1", order: { number: "d-1", requestedBy: "ada", items: [] } })],
  ])("the webhook answers 400 to a signed delivery that %s", async (_, body) => {
    const { server } = await open("2026-01-15T18:00:00Z");
    expect(await deliver(server, { body })).toEqual([
      400,
      { success: false, error: expect.stringMatching(/^Invalid delivery: /) },
    ]);
    expect(await idsOf(server)).toEqual([]);
  });

  it("the webhook is the only route without a token", async () => {
    const { server } = await open("2026-01-15T18:00:00Z");
    for (const path of ["/workflows", "/schedules", "/executions", "/doc", "/webhooks/other"])
      expect((await send(server, path))[0], path).toBe(401);
  });
});

describe("the approval of the template webhook", () => {
  const path = "/workflows/order/executions/order-d-1";
  const approve = { resumeData: { approved: true } };

  it("lets a manager approve an order of the webhook, and never the requester", async () => {
    const { server } = await open("2026-01-15T18:00:00Z");
    await deliver(server, {});
    await eventually(async () =>
      expect(await as(server, grace, `${path}/state`)).toMatchObject([200, { data: { status: "suspended" } }]),
    );
    const [, { data }] = await as(server, grace, `${path}/state`);
    expect(data.suspension.reason).toBe("Approve order d-1 of ada for 900?");
    expect((await as(server, ada, `${path}/state`))[0]).toBe(200);
    expect(await as(server, ada, `${path}/resume`, approve)).toEqual([403, { success: false, error: "Forbidden" }]);
    const managedAda = { ...ada, role: "manager" };
    expect((await as(server, managedAda, `${path}/resume`, approve))[0]).toBe(403);
    for (const stranger of [bob, {}]) {
      expect((await as(server, stranger, `${path}/state`))[0]).toBe(404);
      expect((await as(server, stranger, `${path}/resume`, approve))[0]).toBe(404);
    }
    expect(await as(server, grace, `${path}/resume`, approve)).toMatchObject([
      200,
      { data: { status: "completed", result: { amount: 900, approved: true, approvedBy: "grace" } } },
    ]);
  });

  it("does not let a manager approve an own order whose requester id is a number", async () => {
    const { server } = await open("2026-01-15T18:00:00Z");
    await deliver(server, { body: toBody("d-1", 450, "7") });
    const handle = await server.runtime.executions.get("order-d-1");
    expect(await handle.result()).toMatchObject({ status: "suspended" });
    expect((await as(server, { id: 7, role: "manager" }, `${path}/resume`, approve))[0]).toBe(403);
    expect((await as(server, { id: 8, role: "manager" }, `${path}/resume`, approve))[0]).toBe(200);
  });

  it("refuses an order that a manager starts or forks to avoid the approval", async () => {
    const { server } = await open("2026-01-15T18:00:00Z");
    await deliver(server, {});
    const { order: input } = JSON.parse(toBody("d-2", 450, "bob"));
    expect((await as(server, grace, "/workflows/order/execute", { input }))[0]).toBe(403);
    expect((await as(server, grace, `${path}/fork`, { input }))[0]).toBe(403);
    expect(await idsOf(server)).toEqual(["order-d-1"]);
  });
});
