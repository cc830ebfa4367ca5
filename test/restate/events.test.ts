import { andSleep, andWaitFor, defineWorkflow, type Config } from "agentserve";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { bySize } from "../harness/size.ts";
import { by, trusting } from "../auth/authorize/world.ts";
import { createPlace, startHere } from "./waiting-server.ts";

const timeout = 4 * patienceMs;
const noInline = { inlineSleepMs: 1 };
const key = ({ input }: { input: unknown }): string => String((input as { order: string }).order);

const paid = defineWorkflow({ id: "paid" }).andWaitFor({ id: "wait", event: "paid", key });
const checked = defineWorkflow({ id: "checked" }).andWaitFor({
  id: "wait",
  event: "paid",
  key,
  schema: v.object({ amount: v.number() }),
});
const limited = defineWorkflow({ id: "limited" }).andWaitFor({ id: "wait", event: "paid", key, timeout: "2s" });
const always = defineWorkflow({ id: "always" }).andWaitFor({ id: "wait", event: "paid", key, since: "always" });
const code = defineWorkflow({ id: "code" }).andWaitFor({ id: "wait", event: "paid", key, from: "code" });
/** Waits for an event while another branch sleeps for less than 5 s, so it stays running. */
const racing = defineWorkflow({ id: "racing" }).andRace({
  id: "race",
  steps: [andWaitFor({ id: "wait", event: "paid", key }), andSleep({ id: "sleep", duration: 4_500 })],
});

describe("an event on Restate", () => {
  it("treats an event with a known id as the same one, or as a conflict", { timeout }, async () => {
    const place = await createPlace();
    const { server } = await place.start([paid]);
    const send = async (body: object) => {
      const headers = { "content-type": "application/json" };
      return (await server.request("/events", { method: "POST", headers, body: JSON.stringify(body) })).status;
    };
    const event = { name: "paid", key: "a", data: { n: 1 }, id: "ev1" };
    expect([await send(event), await send(event), await send({ ...event, data: { n: 2 } })]).toEqual([202, 202, 409]);
    expect(await send({ ...event, data: undefined, id: "ev2" })).toBe(202);
    expect(await send({ ...event, data: undefined, id: "ev2" })).toBe(202);
    // An id is unique for a name and key.
    expect(await send({ ...event, key: "b", data: { n: 2 } })).toBe(202);
    expect(await place.scheduled(".mailbox", "expire")).toHaveLength(2);
  });

  it(
    "keeps the ids of users, of the anonymous caller and of code apart, and takes each event once",
    { timeout },
    async () => {
      const three = [1, 2, 3].map((n) => andWaitFor({ id: `w${n}`, event: "tick", since: "always" }));
      const taker = defineWorkflow({ id: "taker" }).andAll({ id: "all", steps: three });
      const sender = defineWorkflow({ id: "sender" }).andThen({
        id: "send",
        execute: ({ runtime, input }) => runtime.send({ name: "tick", id: "e1", ...(input as object) }),
      });
      const more = { auth: { ...trusting, publicRoutes: ["POST /events"] } };
      const { server } = await (await createPlace()).start([taker, sender], noInline, more);
      const send = async (user: string | undefined, data: unknown) =>
        (await server.post("/events", { name: "tick", id: "e1", data }, by(user))).status;
      const sendByCode = async (data: unknown) =>
        (await server.post("/workflows/sender/execute", { input: { data } }, by("ada"))).status;
      for (const _ of [1, 2])
        expect([
          await send("code", "of a user"),
          await send(undefined, "of nobody"),
          await sendByCode("of code"),
        ]).toEqual([202, 202, 200]);
      expect([await send("code", 1), await send(undefined, 1), await sendByCode(1)]).toEqual([409, 409, 409]);
      await server.post("/workflows/taker/execute", { input: {}, options: { executionId: "t" } }, by("ada"));
      const path = "/workflows/taker/executions/t/state";
      const read = async () => (await server.get(path, by("ada"))).body.data;
      await expect.poll(async () => (await read()).status, { timeout: patienceMs }).toBe("completed");
      expect((await read()).result).toEqual(["of a user", "of nobody", "of code"]);
    },
  );

  it(
    "gives each user a tenth of a mailbox, all callers a half of it, and code the other half",
    { timeout },
    async () => {
      const more: Config = {
        auth: trusting,
        configureApp: (app) =>
          void app.post("/send/:id", ({ context }) =>
            context.runtime.send({ name: "paid", key: "a", id: context.params!["id"]! }),
          ),
      };
      const { server } = await (await createPlace()).start([paid], { storedEvents: 20 }, more);
      const send = async (user: string, id: number, order = "a") =>
        (await server.post("/events", { name: "paid", key: order, id: `${id}` }, by(user))).status;
      for (const user of ["ann", "ben", "cid", "dan", "eve"])
        expect([await send(user, 1), await send(user, 2), await send(user, 3)], user).toEqual([202, 202, 503]);
      expect([await send("fay", 1), await send("ann", 1), await send("fay", 1, "b")]).toEqual([503, 202, 202]);
      const sendByCode = async (id: number) =>
        (await server.send(`/send/${id}`, { method: "POST", ...by("ann") })).status;
      for (let id = 0; id < 10; id++) expect(await sendByCode(id)).toBe(200);
      expect(await sendByCode(10)).toBe(503);
    },
  );

  it(
    "takes an event that a version stored which did not know senders, and knows it when it is sent again",
    { timeout },
    async () => {
      const place = await createPlace();
      const { server, begin, reach, state } = await place.start([always], noInline);
      const head = { id: "e1", isFromCode: false, hasData: true, receivedAt: Date.now() };
      await place.set(".mailbox", "paid a", { events: [head], de1: JSON.stringify("former") });
      const send = async (data: unknown) =>
        (await server.post("/events", { name: "paid", key: "a", id: "e1", data })).status;
      expect(await send("former")).toBe(202);
      await begin("f1", { order: "a" });
      await reach("f1", "completed");
      expect((await state("f1")).result).toBe("former");
      expect([await send("another"), await send("another"), await send("third")]).toEqual([202, 202, 409]);
    },
  );

  it("takes an event that is older than its wait, and not than the execution", { timeout }, async () => {
    const late = defineWorkflow({ id: "late" })
      .andThen({
        id: "ask",
        execute: ({ suspend, resumeData }) => resumeData ?? suspend("Continue?"),
      })
      .andWaitFor({ id: "wait", event: "paid", key });
    const { server, begin, reach, state } = await startHere([late, paid, always], noInline);
    await server.post("/events", { name: "paid", key: "a", data: "old" });
    await begin("e3", { order: "a" }, "late");
    await reach("e3", "suspended", "late");
    await server.post("/events", { name: "paid", key: "a", data: "new" });
    await server.post("/workflows/late/executions/e3/resume", { resumeData: true });
    await reach("e3", "completed", "late");
    expect((await state("e3", "late")).result).toBe("new");
    await begin("e4", { order: "a" }, "always");
    await reach("e4", "completed", "always");
    expect((await state("e4", "always")).result).toBe("old");
  });

  it("leaves an event alone that the schema refuses, with one warning", { timeout }, async () => {
    const { server, begin, reach, state } = await startHere([checked], noInline);
    await begin("e5", { order: "a" });
    await reach("e5", "suspended");
    await server.post("/events", { name: "paid", key: "a", data: { amount: "much" } });
    const warnings = () => server.logs.filter(({ message }) => message.startsWith("An event does not match"));
    await expect.poll(() => warnings().length, { timeout: patienceMs }).toBe(1);
    await server.post("/events", { name: "paid", key: "a", data: { amount: 3 } });
    await reach("e5", "completed");
    expect((await state("e5")).result).toEqual({ amount: 3 });
    expect(warnings()).toHaveLength(1);
  });

  it("hands an event to an execution that stays running", { timeout }, async () => {
    const { server, begin, state, reach } = await startHere([racing]);
    await begin("e6", { order: "a" });
    await server.post("/events", { name: "paid", key: "a", data: "event" });
    await reach("e6", "completed");
    expect((await state("e6")).result).toBe("event");
  });

  it("hands no event of a request to a wait for events from code", { timeout }, async () => {
    const { server, begin, reach, state } = await startHere([code, paid], noInline);
    await begin("e7", { order: "a" });
    await begin("e8", { order: "a" }, "paid");
    await reach("e7", "suspended");
    await reach("e8", "suspended", "paid");
    await server.post("/events", { name: "paid", key: "a", data: 1 });
    await reach("e8", "completed", "paid");
    expect((await state("e7")).status).toBe("suspended");
  });

  it("removes the scheduled call of a time-out at an event before it", { timeout }, async () => {
    const patient = defineWorkflow({ id: "patient" }).andWaitFor({
      id: "wait",
      event: "paid",
      key,
      timeout: "1h",
    });
    const place = await createPlace();
    const { server, begin, reach, state } = await place.start([patient]);
    await begin("e9", { order: "a" });
    await reach("e9", "suspended");
    expect(await place.scheduled()).toEqual([{ key: "e9" }]);
    const sentAt = performance.now();
    await server.post("/events", { name: "paid", key: "a", data: 1 });
    await reach("e9", "completed");
    console.log(`an event was taken after ${Math.round(performance.now() - sentAt)} ms`);
    expect((await state("e9")).result).toBe(1);
    expect(await place.scheduled()).toEqual([]);
  });

  it("gives an event and a time-out at the same time one outcome", { timeout }, async () => {
    const place = await createPlace();
    const { server, begin, reach, state } = await place.start([limited], noInline);
    const outcomes = { event: 0, timeout: 0 };
    const race = async (index: number): Promise<void> => {
      const id = `x${index}`;
      await begin(id, { order: id });
      await expect.poll(async () => (await state(id)).status, { timeout: patienceMs }).not.toBe("running");
      const { suspension } = await state(id); // none if the machine was too slow
      const ms = suspension ? Date.parse(suspension.deadline) - Date.now() - 800 + (index % 10) * 90 : 0;
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));
      await server.post("/events", { name: "paid", key: id, data: "paid" });
      await reach(id, "completed");
      const { result } = await state(id);
      expect([null, "paid"]).toContain(result);
      const { body } = await server.get(`/workflows/limited/executions/${id}/steps`);
      expect(JSON.stringify(body.data)).toContain('"success"');
      outcomes[result === null ? "timeout" : "event"]++;
    };
    const count = bySize(40, 1_000);
    for (let index = 0; index < count; index += 10)
      await Promise.all(Array.from({ length: 10 }, (_, offset) => race(index + offset)));
    console.log(`${count} races of an event and a time-out:`, outcomes);
    // No wait is left in a mailbox, no wake in Restate.
    await expect.poll(() => place.scheduled(), { timeout: patienceMs }).toEqual([]);
  });
});

describe("events and restarts on Restate", () => {
  it("takes an event on the next replica that was sent while none served the workflow", { timeout }, async () => {
    const place = await createPlace();
    const first = await place.start([paid], noInline);
    await first.begin("k1", { order: "a" });
    await first.reach("k1", "suspended");
    const other = defineWorkflow({ id: "paid" }).andThen({ id: "other", execute: () => "other" });
    const second = await place.start([other], noInline);
    await second.server.post("/events", { name: "paid", key: "a", data: "sent" });
    await expect.poll(async () => (await second.state("k1")).suspension?.kind, { timeout: patienceMs }).toBe("system");
    const third = await place.start([paid], noInline);
    await third.server.post("/workflows/paid/executions/k1/resume", {});
    await third.reach("k1", "completed");
    expect((await third.state("k1")).result).toBe("sent");
  });

  it("does not take an event without its data that is removed while it is looked at", { timeout }, async () => {
    const place = await createPlace();
    const { server, begin, reach, state } = await place.start([always], noInline);
    const head = { id: "gone", isFromCode: false, hasData: true, receivedAt: Date.now() };
    await place.set(".mailbox", "paid a", { events: [head] });
    await begin("k3", { order: "a" });
    await server.post("/events", { name: "paid", key: "a", data: "sent" });
    await reach("k3", "completed");
    expect((await state("k3")).result).toBe("sent");
  });

  it("removes events after their retention", { timeout }, async () => {
    const place = await createPlace({ retention: { events: "1s" } });
    const { server, begin, reach } = await place.start([always], noInline);
    await server.post("/events", { name: "paid", key: "a", data: "old" });
    expect(await place.scheduled(".mailbox", "expire")).toHaveLength(1);
    await expect.poll(() => place.scheduled(".mailbox", "expire"), { timeout: patienceMs }).toEqual([]);
    await begin("k2", { order: "a" });
    await reach("k2", "suspended");
  });
});
