import fc from "fast-check";
import { expect, it } from "vitest";
import type { Branch, BranchEnd, ForkPlan } from "../../../src/engine/definition/definition.ts";
import type { AttemptPlan, EntryResult } from "../../../src/engine/walk/decision.ts";
import { Fibers } from "../../../src/engine/walk/fibers.ts";
import { bySize } from "../../harness/size.ts";
import { Luck } from "../trees/luck.ts";

/** A branch: what it waits for, one after the other. `fails`: the entry fails until the fork is retried. */
type Script = ("entry" | "park" | "fails")[];
interface Plan {
  mode: ForkPlan["mode"];
  concurrency: number;
  scripts: Script[];
}

const script = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.constant("entry" as const) },
    { weight: 2, arbitrary: fc.constant("park" as const) },
    { weight: 1, arbitrary: fc.constant("fails" as const) },
  ),
  { maxLength: 3 },
);
const plan: fc.Arbitrary<Plan> = fc
  .record({
    mode: fc.constantFrom("all" as const, "race" as const, "collect" as const),
    concurrency: fc.constantFrom(1, 2, 3, Infinity),
    scripts: fc.array(script, { minLength: 1, maxLength: 6 }),
  })
  // All branches of a race begin at once.
  .map((one) => (one.mode === "race" ? { ...one, concurrency: Infinity } : one));

/** The key of the n-th wait of a branch, in its k-th try. */
const keyOf = (branch: number, wait: number, tries: number): string => `${branch}.${wait}#${tries}`;
const placeOf = (key: string): string => key.replace(/#\d+$/, "");

function* run(scripts: Script[], index: number, isMended: () => boolean, begun: number[]): Branch {
  begun.push(index);
  for (const [wait, kind] of scripts[index]!.entries()) {
    if (kind === "park") {
      yield { type: "park", branch: { stepIndex: 0, stepId: `${index}`, key: keyOf(index, wait, 1), reason: "" } };
      continue;
    }
    for (let tries = 1; ; tries++) {
      const key = keyOf(index, wait, tries);
      const found = yield { type: "entry", plan: { key } as AttemptPlan };
      if (found === undefined) continue; // it was aborted, and is retried
      if (kind === "entry" || isMended()) break;
      yield { type: "fail", error: { message: placeOf(key) } };
    }
  }
  return { value: String(index) };
}

it("runs the branches of a fork as a plain list of them would: bound, order, first failure, winner, collected ends", () => {
  const seen = { ends: 0, errors: 0, retries: 0, aborts: 0, parked: 0 };
  fc.assert(
    fc.property(plan, fc.nat(), ({ mode, concurrency, scripts }, seed) => {
      const luck = new Luck(seed);
      const fibers = new Fibers();
      const begun: number[] = [];
      let mended = false;
      let result: readonly BranchEnd[] | undefined;
      const count = scripts.length;
      const branch = (index: number): Branch => run(scripts, index, () => mended, begun);
      fibers.setRoot(
        (function* (): Branch {
          result = (yield { type: "fork", fork: { mode, count, concurrency, branch } }) as readonly BranchEnd[];
          return { value: "done" };
        })(),
      );
      // The oracle: how far each branch has come; undefined before it begins.
      const at: (number | undefined)[] = scripts.map(() => undefined);
      const ends: (BranchEnd | undefined)[] = scripts.map(() => undefined);
      let failed = new Map<number, string>();
      let winner: number | undefined;
      let error: string | undefined;
      const isOpen = (index: number): boolean => at[index] !== undefined && ends[index] === undefined;
      const fill = (): void => {
        for (let index = 0; index < count; index++) {
          if (winner !== undefined) return;
          if (at[index] !== undefined || scripts.filter((_, one) => isOpen(one)).length >= concurrency) continue;
          at[index] = 0;
          endIfOver(index);
        }
      };
      const endIfOver = (index: number): void => {
        if (at[index]! < scripts[index]!.length || winner !== undefined) return;
        ends[index] = { value: String(index) };
        if (mode === "race") winner = index;
        else fill();
      };
      const fail = (index: number): void => {
        const message = `${index}.${at[index]}`;
        if (mode === "collect") {
          ends[index] = { error: { message } };
          return fill();
        }
        failed.set(index, message);
        if (mode === "all" || scripts.every((_, one) => failed.has(one))) error = message;
      };
      const advance = (): void => {
        fibers.advance();
        const { aborts, parks } = fibers.takePlans();
        seen.aborts += aborts.length;
        seen.parked += parks.length;
      };
      const isOver = (): boolean => winner !== undefined || ends.every((end) => end !== undefined);
      const check = (): void => {
        const open = scripts.flatMap((_, index) =>
          isOpen(index) && winner === undefined && error === undefined && !failed.has(index) ? [index] : [],
        );
        const waits = open.filter((index) => !isOver() && at[index]! < scripts[index]!.length);
        const places = (kind: boolean): string[] =>
          waits.filter((index) => (scripts[index]![at[index]!] === "park") === kind).map((i) => `${i}.${at[i]}`);
        expect([...fibers.waiting.keys()].map(placeOf).toSorted(), "entries").toEqual(places(false).toSorted());
        expect(
          fibers.parkedBranches().map(({ key }) => placeOf(key!)),
          "parked, in order",
        ).toEqual(places(true));
        expect(begun, "begun, each once and in order").toEqual([...begun.keys()]);
        expect(begun.length).toBe(at.filter((one) => one !== undefined).length);
        if (error !== undefined) expect(fibers.ended).toEqual({ error: { message: error } });
        else expect(fibers.ended).toEqual(isOver() ? { value: "done" } : undefined);
      };
      fill();
      advance();
      check();
      for (let rounds = 0; !isOver() && rounds < 200; rounds++) {
        if (error !== undefined) {
          seen.retries++;
          mended = luck.chance(0.6);
          failed = new Map();
          error = undefined;
          fibers.retry();
          advance();
          check();
          continue;
        }
        const keys = [...fibers.waiting.keys(), ...fibers.parkedBranches().map(({ key }) => key!)];
        const key = keys[luck.pick(keys.length)]!;
        const index = Number(key.split(".")[0]);
        const kind = scripts[index]![at[index]!]!;
        if (kind === "park") fibers.resume(key, { data: undefined, by: undefined });
        else fibers.deliver(key, { at: 0, value: "1" } as EntryResult);
        if (kind === "fails" && !mended) fail(index);
        else {
          at[index]!++;
          endIfOver(index);
        }
        advance();
        check();
        if (error !== undefined) seen.errors++;
      }
      if (!isOver()) return;
      seen.ends++;
      const expected = mode === "race" ? [{ value: String(winner) }] : ends;
      expect(result).toEqual(expected);
    }),
    { numRuns: bySize(800, 5_000) },
  );
  console.log("forks", JSON.stringify(seen));
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(0);
});
