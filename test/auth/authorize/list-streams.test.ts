import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { defineWorkflow, type AuthorizeRequest, type Config } from "agentserve";
import { chosenBackend } from "../../harness/backends.ts";
import { createGates } from "../../harness/gates.ts";
import { describeInProcess, type TestServer } from "../../harness/server.ts";
import { eventually, within } from "../../harness/waiting.ts";
import { by, trusting } from "./world.ts";

/** Follows GET /executions/stream. `next` resolves to the next event as `<id> <status>`. */
async function follow(server: TestServer, user: string | object | undefined, query = "") {
  const response = await server.send(`/executions/stream${query}`, by(user));
  expect(response.status).toBe(200);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  expect((await reader.read()).value).toBe(":\n\n");
  return {
    async next(): Promise<string | undefined> {
      const { done, value } = await within(reader.read(), "an event");
      if (done) return undefined;
      if (value === ":\n\n") return this.next();
      const { executionId, status } = JSON.parse(value.replace(/^data: /, ""));
      return `${executionId} ${status}`;
    },
    leave: () => reader.cancel(),
  };
}

const create = (id: string) => defineWorkflow({ id }).andThen({ id: "only", execute: () => 1 });
let asked: AuthorizeRequest[] = [];
const gates = createGates();
const config: Config = {
  workflows: [create("alpha"), create("beta")],
  auth: trusting,
  authorize(request) {
    if (request.action !== "execution.read") return true;
    asked.push(request);
    const { user, execution } = request;
    if (user?.["id"] === "slow") return gates.pass(execution!.executionId).then(() => true);
    return execution!.isOwn || user?.["role"] === "lead";
  },
};
const run = (server: TestServer, user: string, executionId: string, workflowId = "alpha") =>
  server.post(`/workflows/${workflowId}/execute`, { input: {}, options: { executionId } }, by(user));
const usersOf = (requests: readonly AuthorizeRequest[]): unknown[] => requests.map(({ user }) => user);

const own: Config = {
  workflows: [
    defineWorkflow({ id: "open", authorize: () => true }).andThen({ id: "only", execute: () => 1 }),
    create("plain"),
  ],
  auth: trusting,
};
/** `authorize` gets as long as a test needs: the time limit is that of a timer. */
function stopTimers(): void {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
}

// On Restate, a replica has those that it drives or has answered.
describe.skipIf(chosenBackend.isDistributed)("list streams", () => {
  describeInProcess("GET /executions/stream with authorize", config, (server) => {
    beforeEach(() => void (asked = []));

    it("asks authorize once per change for all streams of equal users, and shows each what it allows", async () => {
      const readers = { ann: by("ann"), lead: { id: "ann", role: "lead" } };
      const of = (user: string | object) => Promise.all([1, 2, 3].map(() => follow(server, user)));
      const [ann, ben, lead] = [await of("ann"), await of("ben"), await of(readers.lead)];
      await run(server, "ben", "once-1");
      await run(server, "ann", "once-2");
      const statuses = (id: string) => [`${id} running`, `${id} completed`];
      for (const [streams, ids] of [
        [ann, ["once-2"]],
        [ben, ["once-1"]],
        [lead, ["once-1", "once-2"]],
      ] as const)
        for (const stream of streams)
          for (const expected of ids.flatMap(statuses)) expect(await stream.next()).toBe(expected);
      expect(asked.map(({ execution, user }) => [execution!.executionId, execution!.status, user])).toEqual(
        ["once-1", "once-2"].flatMap((id) =>
          ["running", "completed"].flatMap((status) =>
            [{ id: "ann" }, { id: "ben" }, readers.lead].map((user) => [id, status, user]),
          ),
        ),
      );
      for (const stream of [...ann, ...ben, ...lead]) await stream.leave();
    });

    it("does not ask authorize about a change that the filter of a stream leaves out", async () => {
      const streams = [
        await follow(server, "ann", "?workflowId=beta"),
        await follow(server, "ben", "?userId=ben"),
        await follow(server, "cid", "?userId=ann&workflowId=beta"),
      ];
      await run(server, "ann", "filtered-1");
      await run(server, "ann", "filtered-2", "beta");
      expect([await streams[0]!.next(), await streams[0]!.next()]).toEqual([
        "filtered-2 running",
        "filtered-2 completed",
      ]);
      expect(usersOf(asked)).toEqual([{ id: "ann" }, { id: "cid" }, { id: "ann" }, { id: "cid" }]);
      for (const stream of streams) await stream.leave();
    });

    it("asks nothing once the last stream is closed", async () => {
      const stream = await follow(server, "ann");
      await stream.leave();
      await eventually(() => expect(server.snapshot.holders().size).toBe(0));
      await run(server, "ann", "closed-1");
      expect(asked).toEqual([]);
    });

    it("delays only the streams of the user whose authorize is slow, and keeps the order of their events", async () => {
      stopTimers();
      const slow = await follow(server, "slow");
      const ann = await follow(server, "ann");
      const ids = Array.from({ length: 120 }, (_, n) => `slow-${n}`); // more than the states that are kept
      for (const id of ids) await run(server, "ann", id);
      for (const id of ids) expect([await ann.next(), await ann.next()]).toEqual([`${id} running`, `${id} completed`]);
      expect(asked.filter(({ user }) => user?.["id"] === "slow")).toHaveLength(1);
      for (const id of ids) gates.open(id);
      for (const id of ids)
        expect([await slow.next(), await slow.next()]).toEqual([`${id} running`, `${id} completed`]);
      await slow.leave();
      await ann.leave();
    });

    it("ends the streams of a user whose authorize is too slow for more than 1,000 events, and no others", async () => {
      stopTimers();
      const slow = await follow(server, "slow");
      const ann = await follow(server, "ann");
      for (let round = 0; round < 21; round++) {
        await Promise.all(Array.from({ length: 24 }, (_, n) => run(server, "ann", `late-${round}-${n}`)));
        for (let n = 0; n < 48; n++) expect(await ann.next()).toMatch(`late-${round}-`);
      }
      expect(await slow.next()).toBeUndefined();
      await run(server, "ann", "late-end");
      expect(await ann.next()).toBe("late-end running");
      await ann.leave();
    });
  });

  describeInProcess("GET /executions/stream where one workflow has an authorize", own, (server) => {
    it("asks the authorize of a workflow, and shows the caller's own executions of the others", async () => {
      const ann = await follow(server, "ann");
      const asBen = await follow(server, "ann", "?userId=ben");
      const anonymous = await follow(server, { name: "no id" });
      await run(server, "ben", "mixed-1", "plain");
      await run(server, "ann", "mixed-2", "plain");
      await run(server, "ben", "mixed-3", "open");
      for (const id of ["mixed-2", "mixed-3"])
        expect([await ann.next(), await ann.next()]).toEqual([`${id} running`, `${id} completed`]);
      for (const id of ["mixed-1", "mixed-3"])
        expect([await asBen.next(), await asBen.next()]).toEqual([`${id} running`, `${id} completed`]);
      expect(await anonymous.next()).toBe("mixed-3 running");
      for (const stream of [ann, asBen, anonymous]) await stream.leave();
    });
  });
});
