import { andThen, andWaitFor, createServer, defineWorkflow, type AuthProvider, type Config } from "agentserve";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { by, trusting } from "../../auth/authorize/world.ts";
import { newFile, query, serve } from "./serve.ts";

const auth: AuthProvider = { ...trusting, publicRoutes: ["POST /events"] };
const headersOf = (user: string | object | undefined) => by(user).headers;

/** Sends what its input says, from code. */
const sender = defineWorkflow({ id: "sender" }).andThen({
  id: "send",
  execute: ({ runtime, input }) => runtime.send(input["event"] as { name: string }),
});
/** Takes three events. */
const taker = defineWorkflow({ id: "taker" })
  .andWaitFor({ id: "one", event: "tick" })
  .andThen({ id: "keep-one", execute: ({ data }) => [data] })
  .andWaitFor({ id: "two", event: "tick" })
  .andThen({ id: "keep-two", execute: ({ data, getStepData }) => [...(getStepData("keep-one") as unknown[]), data] })
  .andWaitFor({ id: "three", event: "tick" })
  .andThen({ id: "end", execute: ({ data, getStepData }) => [...(getStepData("keep-two") as unknown[]), data] });

/** A server to which users, nobody and code send. */
function open(config: Config = {}, file?: string) {
  const place = serve({ workflows: [sender, taker], auth, ...config }, file === undefined ? {} : { file });
  const { post, server } = place;
  const get = async (path: string) => {
    const response = await server.fetch(new Request(`http://localhost${path}`, { headers: headersOf("ada") }));
    return ((await response.json()) as any).data;
  };
  return {
    ...place,
    send: (user: string | object | undefined, event: object) =>
      post("/events", { name: "tick", ...event }, headersOf(user)),
    statusOf: async (user: string | object | undefined, event: object) =>
      (await post("/events", { name: "tick", ...event }, headersOf(user))).status,
    /** Sends from a step. Returns the status that its error has. */
    async sendByCode(event: object): Promise<number> {
      const input = { event: { name: "tick", ...event } };
      const { status } = await post("/workflows/sender/execute", { input }, headersOf("ada"));
      return status;
    },
    /** Sends from outside of a step: within one, a 503 is tried again. */
    sendOutside: (event: object): Promise<number> =>
      server.runtime.send({ name: "tick", ...event }).then(
        () => 202,
        ({ status }) => status,
      ),
    beginTaker: () =>
      post(
        "/workflows/taker/execute",
        { input: {}, options: { executionId: "t" } },
        { ...headersOf("ada"), prefer: "respond-async" },
      ),
    stateOf: () => get("/workflows/taker/executions/t/state"),
  };
}

describe("the senders of events", () => {
  it("keeps the ids of users, of the anonymous caller and of code apart, whatever a user is called", async () => {
    const { send, statusOf, sendByCode } = open();
    const senders = ["ada", "bob", "code", "anonymous", "user ada", "x code", undefined];
    for (const user of senders) expect(await statusOf(user, { id: "e1", data: user ?? null }), `${user}`).toBe(202);
    expect(await sendByCode({ id: "e1", data: "of code" })).toBe(200);
    for (const user of senders) {
      expect(await statusOf(user, { id: "e1", data: user ?? null }), `${user} again`).toBe(202);
      expect(await send(user, { id: "e1", data: "another" })).toEqual({
        status: 409,
        body: { success: false, error: "Event e1 exists with another body" },
      });
    }
    expect([await sendByCode({ id: "e1", data: "of code" }), await sendByCode({ id: "e1" })]).toEqual([200, 409]);
    const faceless = { name: "no id" }; // is anonymous
    expect([await statusOf(faceless, { id: "e1", data: null }), await statusOf(faceless, { id: "e1" })]).toEqual([
      202, 409,
    ]);
  });

  it("hands an execution the events of several senders with the same id, and each of them once", async () => {
    const { statusOf, sendByCode, beginTaker, stateOf, clock } = open();
    await beginTaker();
    await clock.advance(0);
    for (const _ of [1, 2]) {
      await statusOf("eve", { id: "invoice-7", data: "squatted" });
      await clock.advance(0);
    }
    expect((await stateOf()).suspension).toMatchObject({ stepId: "two" });
    for (const _ of [1, 2]) {
      expect(await sendByCode({ id: "invoice-7", data: "of code" })).toBe(200);
      await clock.advance(0);
    }
    expect((await stateOf()).suspension).toMatchObject({ stepId: "three" });
    await statusOf("bob", { id: "invoice-7", data: "of bob" });
    await clock.advance(0);
    expect(await stateOf()).toMatchObject({ status: "completed", result: ["squatted", "of code", "of bob"] });
  });

  it.each([
    ["1,024 characters", "x".repeat(1_024), 202],
    ["1,025 characters", "x".repeat(1_025), 400],
    ["no characters", "", 400],
    ["a space", "a b", 400],
    ["a line break", "a\n", 400],
    ["a letter that is not ASCII", "é", 400],
    ["every other visible character", String.fromCharCode(...Array.from({ length: 94 }, (_, n) => n + 33)), 202],
  ])("answers an event id of %s with the right status", async (_, id, status) => {
    const { send, sendByCode } = open();
    const answer = await send("ada", { id });
    expect(answer.status).toBe(status);
    if (status === 202) expect(answer.body.data).toEqual({ id });
    else expect(answer.body.error).toBe("Invalid request body: id: expected 1 to 1024 visible ASCII characters");
    expect(await sendByCode({ id })).toBe(status === 202 ? 200 : 400);
    const { body } = await send("ada", { id, data: "another" });
    expect(body.error.length).toBeLessThan(300);
  });

  it("takes the idempotencyKey of a step as the id of an event, also inside of a loop", async () => {
    const seen: string[] = [];
    const keyed = defineWorkflow({ id: "keyed" }).andForEach({
      id: "each",
      items: () => [1, 2],
      step: andThen({
        id: "send",
        execute({ runtime, idempotencyKey, data }) {
          seen.push(idempotencyKey);
          return runtime.send({ name: "tick", id: idempotencyKey, data });
        },
      }),
    });
    const { post, statusOf } = open({ workflows: [keyed] });
    const { body } = await post(
      "/workflows/keyed/execute",
      { input: {}, options: { executionId: "k" } },
      headersOf("ada"),
    );
    expect(body.data.result).toEqual(seen.map((id) => ({ id })));
    expect(seen).toHaveLength(2);
    for (const id of seen) expect(await statusOf("ada", { id })).toBe(202);
  });

  it("sends from code outside of steps as code", async () => {
    const server = createServer({ workflows: [taker] });
    await server.runtime.send({ name: "tick", id: "a/b?1", data: 1 });
    await expect(server.runtime.send({ name: "tick", id: "a/b?1", data: 2 })).rejects.toMatchObject({ status: 409 });
    await server.close();
  });
});

const full = { status: 503, body: { success: false, error: "Too many events are stored" } };

describe("the shares of limits.storedEvents", () => {
  const limited = { server: { limits: { storedEvents: 40 } } };

  it("gives each user a tenth, all callers a half together, and code the other half", async () => {
    const { send, statusOf, sendOutside, clock } = open(limited);
    const users = ["ada", "bob", "code", "dan", undefined];
    for (const user of users) {
      for (let n = 0; n < 4; n++) expect(await statusOf(user, { id: `${n}` }), `${user} ${n}`).toBe(202);
      expect(await send(user, { id: "more" }), `${user}`).toEqual(full);
    }
    // Five callers have their half: a sixth one has no room, and a known event is still known.
    expect(await send("eve", { id: "0" })).toEqual(full);
    expect(await statusOf("ada", { id: "0" })).toBe(202);
    for (let n = 0; n < 20; n++) expect(await sendOutside({ id: `${n}` })).toBe(202);
    expect([await sendOutside({ id: "more" }), await sendOutside({ id: "0" })]).toEqual([503, 202]);
    await clock.advance("25h");
    expect([await statusOf("eve", { id: "0" }), await sendOutside({ id: "more" })]).toEqual([202, 202]);
  });

  it("counts what is stored at the start, and gives the anonymous caller the half of callers without a provider", async () => {
    const file = newFile();
    const first = open({ ...limited, auth: undefined as never }, file);
    for (let n = 0; n < 20; n++) expect(await first.statusOf(undefined, { id: `${n}` })).toBe(202);
    expect(await first.send(undefined, { id: "more" })).toEqual(full);
    expect(await first.sendOutside({ id: "0" })).toBe(202);
    await first.close();
    const second = open({ ...limited, auth: undefined as never }, file);
    expect(await second.send(undefined, { id: "more" })).toEqual(full);
    for (let n = 1; n < 20; n++) expect(await second.sendOutside({ id: `${n}` })).toBe(202);
    expect(await second.sendOutside({ id: "more" })).toBe(503);
  });

  it("leaves every kind of sender at least one event", async () => {
    const { statusOf, sendOutside } = open({ server: { limits: { storedEvents: 1 } } });
    expect([await statusOf("ada", { id: "a" }), await statusOf("ada", { id: "b" }), await statusOf("bob", {})]).toEqual(
      [202, 503, 503],
    );
    expect([await sendOutside({ id: "a" }), await sendOutside({ id: "b" })]).toEqual([202, 503]);
  });
});

describe("events of a version that did not know senders", () => {
  it("are taken, counted as those of callers or code, and known when they are sent again", async () => {
    const file = newFile();
    const late = defineWorkflow({ id: "late" }).andRace({
      id: "race",
      steps: [andWaitFor({ id: "wait", event: "tick", since: "always" })],
    });
    const workflows = [sender, taker, late];
    const limits = { server: { limits: { storedEvents: 20 } } };
    const before = open({ workflows, ...limits }, file);
    await before.beginTaker();
    await before.clock.advance(0);
    await before.statusOf("ada", { id: "taken", data: 1 });
    await before.clock.advance(0);
    await before.statusOf("bob", { name: "other", id: "stored", data: 2 });
    await before.sendByCode({ name: "other", id: "of-code", data: 3 });
    await before.close();
    const database = new DatabaseSync(file);
    database.exec(`update events set id = substr(id, 1, instr(id, ' ') - 1);
      update journal set body = replace(body, 'taken user ada', 'taken') where kind = 'wake'`);
    database.close();
    expect(query(file, "select id from events order by id")).toEqual([
      { id: "of-code" },
      { id: "stored" },
      { id: "taken" },
    ]);

    const now = open({ workflows, ...limits }, file);
    const stored = () => query<{ count: number }>(file, "select count(*) as count from events")[0]!.count;
    // The same events again have no effect.
    expect(await now.statusOf("ada", { id: "taken", data: 1 })).toBe(202);
    expect(await now.statusOf("bob", { name: "other", id: "stored", data: 2 })).toBe(202);
    expect(await now.sendByCode({ name: "other", id: "of-code", data: 3 })).toBe(200);
    await now.clock.advance(0);
    expect([stored(), (await now.stateOf()).suspension.stepId]).toEqual([3, "two"]);
    // Others may use their ids.
    expect(await now.statusOf("eve", { id: "taken", data: "of eve" })).toBe(202);
    expect(await now.sendByCode({ id: "taken", data: "of code" })).toBe(200);
    await now.clock.advance(0);
    expect(await now.stateOf()).toMatchObject({ status: "completed", result: [1, "of eve", "of code"] });
    await now.post("/workflows/late/execute", { input: {}, options: { executionId: "l" } }, headersOf("ada"));
    // Two of callers are stored, besides that of Eve.
    for (let n = 0; n < 7; n++) expect(await now.statusOf(`user-${n}`, {})).toBe(202);
    expect((await now.send("one-more", {})).status).toBe(503);
  });
});
