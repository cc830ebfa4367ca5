// Each of these changes makes tests of this file fail: event ids that are unique over all senders, or per user id without the
// kind of the sender (`src/workflows/send-event`, the table of events); a wait that takes events by their id alone
// (`hasTaken` in `src/engine/runs/find-takes`); one count for all senders in `storedEvents`; `from: "code"` by a
// user called `code`.
import { describe, expect, it } from "vitest";
import { Random } from "../faults/kills/plan.ts";
import { seed } from "../harness/seed.ts";
import { together } from "../harness/waiting.ts";
import type { Rule } from "./attack-app.ts";
import { all, begin, callers, openWorld, toName, type Answer, type Caller, type World } from "./world.ts";

const { ada, bob, code, anonymous, nameless, nobody } = callers;
/** The server's own code, which sends without a request. */
const server = "the server";
type Sender = Caller | typeof server;
const senders: readonly Sender[] = [...all, server];
const nameOf = (sender: Sender): string => (sender === server ? server : toName(sender));
const hasId = (sender: Sender): boolean => sender !== server && sender?.["id"] !== undefined;
/** A user without an id and a caller without a token may be one sender: nothing else tells callers without an id apart. */
const isOne = (one: Sender, other: Sender): boolean =>
  one === other || [one, other].every((sender) => sender !== server && !hasId(sender));

type Sent = Pick<Answer, "status" | "shown"> & Partial<Answer>;
async function send(world: World, sender: Sender, event: object): Promise<Sent> {
  if (sender !== server) return world.post(sender, "/events", { name: "paid", ...event });
  const { status = 202, message = "" } = await world.code("send", { name: "paid", ...event });
  return { status, shown: `${server}: runtime.send(${JSON.stringify(event)}) → ${status} ${message}` };
}
const show = (sent: readonly Sent[]): string => sent.map(({ shown }) => shown).join("\n");

/** Starts an execution that waits for an event: callers without an id by a request, others by code. Returns its id. */
async function wait(world: World, workflow: string, owner: Sender, key: string): Promise<string> {
  if (owner === server || hasId(owner))
    return (await begin(world, workflow, owner === server ? undefined : owner, { key })).executionId;
  const { body, shown } = await world.post(owner, `/workflows/${workflow}/execute`, { input: { key } });
  expect(body.data, shown).toMatchObject({ status: "suspended" });
  return body.data.executionId;
}
const resultOf = async (world: World, id: string): Promise<unknown> => (await world.code("result", id)).result;

describe.each<Rule>(["none", "ownership", "desk"])("with the rule %s", (rule) => {
  const world = openWorld({ rule });

  it("an event ends only the waits that its sender may end, whoever the execution belongs to", async () => {
    const owners: Sender[] = rule === "desk" ? [ada, code, server] : [ada, code, anonymous, nameless, nobody, server];
    const cases = owners.flatMap((owner) =>
      senders.flatMap((sender) => ["wait", "wait-for-code"].map((workflow) => ({ owner, sender, workflow }))),
    );
    const findings: string[] = [];
    await together(4, cases, async ({ owner, sender, workflow }) => {
      const key = `${workflow} ${nameOf(owner)} ${nameOf(sender)}`;
      const id = await wait(world(), workflow, owner, key);
      const { status, shown } = await send(world(), sender, { key, data: "of the sender" });
      if (status !== (sender !== server && rule === "desk" ? 403 : 202)) findings.push(shown);
      await send(world(), server, { key, data: "of the server" }); // it ends each wait that is left
      const isOwn = hasId(owner) && owner === sender;
      const mayEnd = workflow === "wait" && (rule === "none" || (rule === "ownership" && isOwn));
      const result = await resultOf(world(), id);
      if (result !== (sender === server || mayEnd ? "of the sender" : "of the server"))
        findings.push(`an execution of ${nameOf(owner)} in ${workflow} got the event ${result}: ${shown}`);
    });
    expect(findings).toEqual([]);
  });

  if (rule === "desk") return; // its callers send nothing

  it("an id that one sender has used is free for every other sender, and their event ends the wait", async () => {
    const random = new Random(seed);
    const pairs = senders.flatMap((squatter) => senders.map((victim) => ({ squatter, victim })));
    const findings: string[] = [];
    const cases = pairs.filter(({ squatter, victim }) => !isOne(squatter, victim)).entries();
    await together(4, [...cases], async ([n, { squatter, victim }]) => {
      const long = Array.from({ length: 1_010 }, () => random.pick(..."abcXYZ019._:-")).join("");
      const id = random.pick(`invoice-${n}`, `i${long}${n}`, `x${n}/each/3/pay@2`, `x${n}/sub/verify?@1`);
      const key = `squatted-${n}`;
      const squatted = await send(world(), squatter, { id, key, data: "squatted" });
      const execution = await wait(world(), "wait", rule === "ownership" ? victim : server, key);
      const sent = await send(world(), victim, { id, key, data: "real" });
      await send(world(), server, { key, data: "too late" });
      const endsNone = rule === "ownership" && victim !== server && !hasId(victim);
      const result = await resultOf(world(), execution);
      if (squatted.status !== 202 || sent.status !== 202 || result !== (endsNone ? "too late" : "real"))
        findings.push(`${show([squatted, sent])}: the wait got ${result}`);
    });
    expect(findings).toEqual([]);
  });

  it("the same id with the same body is one event, and with another body a 409, for each sender alone", async () => {
    const event = { id: "mine", key: "repeated", data: { n: 1 } };
    for (const sender of senders.filter((one) => one !== nobody)) {
      const sent: Sent[] = [];
      for (const one of [event, event, { ...event, data: { n: 2 } }, { ...event, key: "other" }])
        sent.push(await send(world(), sender, one));
      expect(
        sent.map(({ status }) => status),
        show(sent),
      ).toEqual([202, 202, 409, 409]);
    }
  });

  it("an execution takes events of two senders with one id, each once", async () => {
    const execution = await wait(world(), "wait-twice", ada, "twice");
    const event = { id: "one-id", key: "twice", data: "first" };
    const sent = [await send(world(), ada, event), await send(world(), ada, event)];
    sent.push(await send(world(), rule === "ownership" ? server : bob, { ...event, data: "second" }));
    await send(world(), server, { key: "twice", data: "too late" });
    expect(await resultOf(world(), execution), show(sent)).toEqual(["first", "second"]);
  });

  it("a step that sends with its idempotency key is not kept from it by callers who guess the key", async () => {
    const event = { id: "n1/tell", key: "notified", data: "squatted" };
    const squatted = await Promise.all(all.map((caller) => send(world(), caller, event)));
    const execution = await wait(world(), "wait", ada, "notified");
    const { status, error } = await begin(world(), "notify", ada, { key: "notified" }, { executionId: "n1" });
    await send(world(), server, { key: "notified", data: "too late" });
    const shown = `${show(squatted)}\nthe step: ${error}`;
    expect([status, await resultOf(world(), execution)], shown).toEqual(["completed", "notified"]);
    expect([...new Set(squatted.map((sent) => sent.status))], shown).toEqual([202]);
  });

  it("the sender and the id of an event are never read as those of another pair", async () => {
    const findings: string[] = [];
    const names = ["u x", "code x", "user ada", "anonymous x"].map((name) => name.split(" "));
    for (const gap of [":", "/", "@", ".", " ", "|", "\n", "\u0000", "%3A"])
      for (const [left = "", right = ""] of names) {
        const one = await send(world(), { id: left + gap + right }, { id: "y", data: [gap, left, 1] });
        const other = await send(world(), { id: left }, { id: `${right}${gap}y`, data: [gap, left, 2] });
        // An id that no event may have is a 400. Each pair has one event, so none is a 409.
        if (one.status !== 202 || ![202, 400].includes(other.status)) findings.push(show([one, other]));
      }
    expect(findings).toEqual([]);
  });

  it("an id of 1,024 characters is accepted, and a longer one is a 400 that does not repeat it", async () => {
    const sent: Sent[] = [];
    for (const length of [1_024, 1_025, 100_000])
      sent.push(await send(world(), bob, { id: "i".repeat(length), data: length }));
    expect(
      sent.map(({ status }) => status),
      show(sent),
    ).toEqual([202, 400, 400]);
    for (const { text = "" } of sent.slice(1)) expect(text.length).toBeLessThan(2_000);
  });
});

describe("storedEvents", () => {
  const [whole, half, tenth] = [40, 20, 4];
  /** Sends events until two are refused. Returns how many were stored. */
  async function fill(world: World, sender: Sender): Promise<number> {
    const sent: Sent[] = [];
    const refused = () => sent.filter(({ status }) => status !== 202);
    for (let n = 0; n < whole + 10 && refused().length < 2; n++)
      sent.push(await send(world, sender, { id: `fill-${n}`, key: `k${n}`, data: n }));
    for (const { status, headers = { "retry-after": "1" }, shown } of refused())
      expect([status, headers["retry-after"]], shown).toEqual([503, expect.stringMatching(/^[1-9]\d*$/)]);
    return sent.length - refused().length;
  }

  describe("filled by users first", () => {
    const world = openWorld({ rule: "none", storedEvents: whole });

    it("one user fills a tenth, all users fill half, and code still sends into the other half", async () => {
      expect(await fill(world(), ada)).toBe(tenth);
      const more = [
        await send(world(), { id: "ada", role: "manager" }, { id: "new", data: 1 }), // the same user with another claim
        await send(world(), ada, { id: "fill-0", key: "k0", data: 0 }), // it is stored already, and needs no room
      ];
      expect(
        more.map(({ status }) => status),
        show(more),
      ).toEqual([503, 202]);
      let stored = tenth;
      for (const sender of [code, anonymous, nobody]) {
        expect(await fill(world(), sender), nameOf(sender)).toBe(tenth);
        stored += tenth;
      }
      for (const id of ["u1", "u2", "u3", "u4", "u5"]) stored += await fill(world(), { id });
      expect(stored).toBe(half);
      expect(await fill(world(), server)).toBe(half);
    });
  });

  describe("filled by code first", () => {
    const world = openWorld({ rule: "ownership", storedEvents: whole });

    it("code fills half, and users still send into the other half", async () => {
      expect(await fill(world(), server)).toBe(half);
      for (const sender of [bob, code]) expect(await fill(world(), sender), nameOf(sender)).toBe(tenth);
    });
  });
});
