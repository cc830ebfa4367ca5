import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { Replicas, type Replica } from "./replicas.ts";

const pairs = 200;
/** The number of pairs that are sent concurrently. */
const atOnce = 10;
const timeout = 4 * patienceMs;

let replicas: Replicas;
beforeAll(async () => {
  replicas = await Replicas.start();
});
afterAll(() => replicas?.close());

/** Calls `act` for each pair, with two different replicas. */
async function forEachPair(act: (index: number, one: Replica, other: Replica) => Promise<void>): Promise<void> {
  const { all } = replicas;
  const work = async (first: number): Promise<void> => {
    for (let index = first; index < pairs; index += atOnce)
      await act(index, all[index % all.length]!, all[(index + 1) % all.length]!);
  };
  await Promise.all(Array.from({ length: atOnce }, (_, index) => work(index)));
}
const timesStarted = (id: string, step: string): number =>
  replicas.all.flatMap(({ steps }) => steps).filter((one) => one.id === id && one.step === step).length;

describe("at the same moment, on different replicas", () => {
  it(`${pairs} pairs of resumes: one winner each`, { timeout }, async () => {
    const winners = [0, 0];
    await forEachPair(async (index, one, other) => {
      const id = `r${index}`;
      expect(await one.execute("ask", id)).toBe("200 suspended");
      const resume = async (replica: Replica, by: number): Promise<{ status: number; by: unknown }> => {
        const answer = await replica.post(`/workflows/ask/executions/${id}/resume`, { resumeData: { by } });
        const { data } = (await answer.json()) as { data?: { result: { by: number } } };
        return { status: answer.status, by: data?.result.by };
      };
      const answers = await Promise.all([resume(one, 0), resume(other, 1)]);
      expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 404]);
      const winner = answers.findIndex(({ status }) => status === 200);
      winners[winner]!++;
      expect(answers[winner]!.by).toBe(winner);
      expect(await other.state("ask", id)).toMatchObject({ status: "completed", result: { by: winner } });
      expect([timesStarted(id, "person"), timesStarted(id, "resumed")]).toEqual([1, 1]);
    });
    console.log("pairs of resumes, won by the first and the second:", JSON.stringify(winners));
    expect(Math.min(...winners)).toBeGreaterThan(0); // the two really meet
  });

  it(`${pairs} pairs of starts with one id: one winner each`, { timeout }, async () => {
    const winners = [0, 0];
    await forEachPair(async (index, one, other) => {
      const id = `b${index}`;
      const answers = await Promise.all([one.execute("ask", id), other.execute("ask", id)]);
      expect(answers.toSorted()).toEqual(["200 suspended", "409 undefined"]);
      winners[answers.indexOf("200 suspended")]!++;
      expect(timesStarted(id, "person")).toBe(1);
    });
    console.log("pairs of starts, won by the first and the second:", JSON.stringify(winners));
    expect(Math.min(...winners)).toBeGreaterThan(0);
  });
});
