// A start without an id of the caller, by a caller that waits, whose connection to Restate is lost: it is sent again, or refused.
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { patienceMs } from "../../harness/patience.ts";
import { eventually, until } from "../../harness/waiting.ts";
import { IngressProxy, type Cut } from "./ingress-proxy.ts";
import { RestateServer } from "../restate-server.ts";
import { checkEvents, isOver, Replicas, type Replica } from "./replicas.ts";

const timeout = 2 * patienceMs;
const indexes = [0, 1, 2, 3, 4, 5];

describe("the connection of a start is cut", () => {
  let replicas: Replicas;
  let all: [Replica, Replica];
  const proxies: IngressProxy[] = [];
  /** What happens to the next requests whose body has a tag. */
  const cuts = new Map<string, Cut[]>();
  const toCut = (body: string): Cut | undefined => {
    const tag = [...cuts.keys()].find((one) => body.includes(one));
    return tag === undefined ? undefined : cuts.get(tag)!.shift();
  };
  beforeAll(async () => {
    const { TEST_RESTATE_INGRESS: ingress = "" } = process.env;
    for (let n = 0; n < 2; n++) proxies.push(await IngressProxy.start(ingress, toCut));
    replicas = await Replicas.start({ count: 2, ingress: proxies.map(({ url }) => url) });
    all = replicas.all as typeof all;
  }, timeout);
  afterAll(() => {
    replicas?.close();
    for (const proxy of proxies) proxy.close();
  });

  const moments: Record<string, (tag: string) => Cut> = {
    "before Restate has it": () => ({ isForwarded: false }),
    "when it was sent": () => ({ isForwarded: true, until: Promise.resolve() }),
    "when its first step has begun": (tag) => ({ isForwarded: true, until: replicas.reached(tag, "s1") }),
    "when it is listed": (tag) => ({ isForwarded: true, until: all[1].listed("gated", tag) }),
    "when Restate has answered": () => ({ isForwarded: true }),
  };
  const toTag = (moment: string, workflow: string, index: number): string =>
    `${moment.replaceAll(" ", "-")}.${workflow}.${index}.`;

  it.each(Object.keys(moments))(
    "runs a start once that is sent again because it was cut %s",
    { timeout },
    async (moment) => {
      const isQuick = moment !== "when it is listed";
      const calls = indexes.map(async (index) => {
        const workflow = isQuick && index % 2 === 0 ? "quick" : "gated";
        const tag = toTag(moment, workflow, index);
        cuts.set(tag, [moments[moment]!(tag)]);
        const isCut = (): boolean => cuts.get(tag)!.length === 0;
        const waiting = all[index % 2]!.execute(workflow, tag);
        await until(isCut, "the start to be sent");
        await replicas.reached(tag, workflow === "quick" ? "s4" : "s2");
        // With the answer as the moment, Restate may answer only at the end.
        if (!isQuick) await all[0].listed(workflow, tag);
        replicas.openGate(tag);
        const { status, id, body } = await waiting;
        const last = workflow === "quick" ? "s4" : "s3";
        expect([status, body.data?.result], JSON.stringify(body)).toEqual([200, `${tag} ${last}`]);
        expect(replicas.ran(tag).map((one) => `${one.id} ${one.step}`)).toEqual(
          ["s1", "s2", "s3", "s4"].slice(0, workflow === "quick" ? 4 : 3).map((step) => `${id} ${step}`),
        );
        for (const replica of all) {
          expect(await replica.listed(workflow, tag)).toMatchObject({ executionId: id, status: "completed" });
          checkEvents(await replica.events(workflow, id), "completed");
        }
      });
      await Promise.all(calls);
    },
  );

  it("refuses a start whose connection is cut each time, and runs it once", { timeout }, async () => {
    const tags = indexes.map((index) => toTag("each", "quick", index));
    const calls = tags.map(async (tag, index) => {
      const moment = index % 2 === 0 ? "when its first step has begun" : "when Restate has answered";
      cuts.set(
        tag,
        Array.from({ length: 50 }, () => moments[moment]!(tag)),
      );
      const { status } = await all[index % 2]!.execute("quick", tag);
      expect(status).toBe(503);
      expect(await all[index % 2]!.listed("quick", tag, isOver)).toMatchObject({ status: "completed" });
      expect(replicas.stepsOf(tag)).toEqual(["s1", "s2", "s3", "s4"]);
    });
    await Promise.all(calls);
  });
});

it(
  "Restate is killed: the caller that waits gets 503 with the id, and each that began completes",
  { timeout: 2 * timeout },
  async () => {
    const server = await RestateServer.start();
    onTestFinished(() => server.remove());
    const replicas = await Replicas.start({ count: 2, ingress: [server.ingress], admin: server.admin });
    onTestFinished(() => replicas.close());
    const { all } = replicas;
    const gated = Array.from({ length: 10 }, (_, index) => `g${index}`);
    const quick = Array.from({ length: 20 }, (_, index) => `q${index}`);
    const waiting = gated.map((tag, index) => all[index % 2]!.execute("gated", tag));
    await Promise.all(gated.map((tag) => replicas.reached(tag, "s2")));
    const ms = [5, 10, 15, 20];
    const others = quick.map((tag, index) => all[index % 2]!.execute("quick", tag, { ms }));
    await until(() => quick.some((tag) => replicas.stepsOf(tag).includes("s3")), "a third step");
    await server.kill();
    for (const [index, call] of waiting.entries()) {
      const { status, id } = await call;
      expect([status, id]).toEqual([503, replicas.ran(gated[index]!)[0]!.id]);
    }
    const answers = await Promise.all(others);
    await server.run();
    for (const tag of gated) replicas.openGate(tag);
    for (const [index, tag] of [...gated, ...quick].entries()) {
      if (replicas.ran(tag).length === 0) continue;
      const workflow = index < gated.length ? "gated" : "quick";
      const answer = answers[index - gated.length];
      const check = async (): Promise<void> => {
        const { executionId, status, result } = await all[index % 2]!.listed(workflow, tag, isOver);
        expect([status, result]).toEqual(["completed", `${tag} ${workflow === "gated" ? "s3" : "s4"}`]);
        expect(new Set(replicas.ran(tag).map(({ id }) => id))).toEqual(new Set([executionId]));
        checkEvents(await all[0]!.events(workflow, executionId), "completed");
        if (answer?.status === 200) expect(answer.body.data).toMatchObject({ executionId, result });
      };
      await eventually(check); // a read may be refused until Restate has loaded everything
    }
    expect(answers.filter(({ status }) => status !== 200 && status !== 503)).toEqual([]);
  },
);
