// A start without an id of the caller, by a caller that waits, whose connection to Restate is lost: it is sent again, or refused.
import { afterAll, beforeAll, expect, it } from "vitest";
import { patienceMs } from "../../harness/patience.ts";
import { until } from "../../harness/waiting.ts";
import { IngressProxy, type Cut } from "./ingress-proxy.ts";
import { checkEvents, isOver, Replicas, type Replica } from "./replicas.ts";

const timeout = 2 * patienceMs;
const indexes = [0, 1, 2, 3, 4, 5];

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
