import { isDeepStrictEqual } from "node:util";
import type { Line } from "./log.ts";
import { attemptsOf, before, budgetOf, expect, isCopied, paths, roundsOf } from "./oracle.ts";
import { closingEvents, type Witness } from "./witness.ts";
import { roundOf } from "./workload.ts";

/**
 * Holds what really ran against the definition and against all that was seen. Returns how many runs were repeated.
 * `hearsLate`: a suspend or cancel is answered before the code hears of it, so a step may begin after the answer.
 */
export function checkRuns(witness: Witness, hearsLate = false): number {
  const { asked, holds, done, lost } = witness;
  const must = new Set(expect(asked, witness.tokens()).must);
  const begun = new Map<string, Line[]>();
  const ended = new Set<string>();
  const furthest = new Map<string, number>();
  const closed = new Map<string, string>();
  const tokens = new Map<string, string>();
  let again = 0;
  for (const line of witness.log.of(witness.id)) {
    const { at, life, path, attempt, token, rest } = line;
    const round = roundOf(token);
    // After a retry everything that is not recorded begins again, at its first attempt.
    const segment = witness.segmentOf(at);
    const entry = `${path} ${attempt} ${token}${segment > 0 ? ` retry ${segment}` : ""}`;
    const wrong = (why: string): never => witness.fail(`ran ${entry} at ${at}: ${why}`);
    if (line.what === "end") {
      ended.add(`${path} ${round} ${attempt}`);
      ended.add(`${path} ${round} ${attempt} ${segment}`);
      if (rest === "value" || path === "note") ended.add(path); // a tap may fail
      continue;
    }
    if (!paths(asked.workflow).includes(path)) wrong("nobody knows this code");
    if (isCopied(asked, path)) wrong("its result was copied");
    if (attempt > budgetOf(asked, path)) wrong("one attempt too many");
    if (round > roundsOf(asked, path)) wrong("it was resumed too often");
    // One resume wins.
    const suspension = `${path} ${round}`;
    if (lost.has(token)) wrong("this resume had lost");
    if ((tokens.get(suspension) ?? token) !== token) wrong(`the resume ${tokens.get(suspension)} had won`);
    tokens.set(suspension, token);
    // What is recorded does not run again.
    if (!hearsLate) for (const { from, to, why } of holds) if (at > from && at <= to) wrong(`after ${from} ${why}`);
    for (const one of done) if (one.path === path && at > one.at) wrong(`at ${one.at} ${one.why}`);
    if (closed.has(path)) wrong(`it was recorded: ${closed.get(path)} had begun`);
    const place = segment * 1_000 + round * 10 + attempt;
    if (place < (furthest.get(path) ?? 0)) wrong("a later attempt of it had begun");
    furthest.set(path, place);
    // What comes next begins when what comes before has ended.
    if (attempt > 1 && !ended.has(`${path} ${round} ${attempt - 1} ${segment}`))
      wrong("the attempt before had not ended");
    if (attempt === 1 && round > 0 && !ended.has(`${path} ${round - 1} 1`)) wrong("it had not asked");
    for (const earlier of before(asked.workflow, path)) {
      closed.set(earlier, entry);
      if (must.has(earlier) && !ended.has(earlier)) wrong(`${earlier} had not ended`);
    }
    // Once for each crash, with the same data.
    const [first, ...others] = begun.get(entry) ?? [];
    begun.set(entry, [...(begun.get(entry) ?? []), line]);
    if (!first) continue;
    again++;
    const last = others.at(-1) ?? first;
    if (first.rest !== rest) wrong(`it was given ${rest}, and before ${first.rest}`);
    if (last.life === life) wrong("it ran in this life already");
    if (others.length + 1 > life - first.life) wrong(`${others.length + 2} runs, and fewer crashes`);
  }
  if (witness.final && !witness.final.cancellation) checkWhole(witness, must, ended);
  return again;
}

/** All that must run has run. */
function checkWhole(witness: Witness, must: ReadonlySet<string>, ended: ReadonlySet<string>): void {
  const { asked, won, log, id } = witness;
  for (const token of won)
    if (!log.of(id).some((line) => line.token === token))
      witness.fail(`was resumed by ${token}, and nothing of that ran`);
  if (witness.failures.length !== asked.retries)
    witness.fail(`failed ${witness.failures.length} times, expected ${asked.retries}`);
  // Each retry has the whole budget of attempts again.
  for (let segment = 0; asked.workflow === "mend" && segment < asked.retries; segment++)
    for (let attempt = 1; attempt <= budgetOf(asked, "weak"); attempt++)
      if (!ended.has(`weak 0 ${attempt} ${segment}`))
        witness.fail(`failed for the time ${segment + 1} without attempt ${attempt} of weak`);
  for (const path of must) {
    const rounds = roundsOf(asked, path);
    for (let round = 0; round <= rounds; round++) {
      const attempts = round === rounds ? attemptsOf(asked, path) : 1;
      for (let attempt = 1; attempt <= attempts; attempt++)
        if (!ended.has(`${path} ${round} ${attempt}`))
          witness.fail(`ended without ${path}, round ${round}, attempt ${attempt}`);
    }
  }
}

/** Holds all stored events against the definition, and against those that a reader was given. */
export function checkEvents(witness: Witness, stored: readonly any[]): void {
  const { asked, events, final, id } = witness;
  const wrong = (what: string): never => witness.fail(`has events that ${what}: ${JSON.stringify(stored)}`);
  if (stored.some(({ seq, executionId }, index) => seq !== index + 1 || executionId !== id)) wrong("are not in order");
  if (events.some((event, index) => !isDeepStrictEqual(event, stored[index])))
    wrong(`are not those that its reader was given, ${JSON.stringify(events)}`);
  const froms = (type: string): string[] => stored.flatMap((event) => (event.type === type ? event.from : []));
  const count = (type: string): number => stored.filter((event) => event.type === type).length;
  const [started, completed] = [froms("step-start"), froms("step-complete")];
  if (stored[0]?.type !== "workflow-start" || count("workflow-start") !== 1) wrong("do not begin");
  if (new Set(started).size < started.length || new Set(completed).size < completed.length) wrong("say a step twice");
  const open = new Set<string>();
  for (const { type, from } of stored) {
    if (type === "step-start") open.add(from);
    if (type === "step-complete" && !open.has(from)) wrong(`complete ${from} before it began`);
  }
  if (stored.at(-1).type !== closingEvents[final?.status ?? "suspended"]) wrong("end otherwise than it did");
  if (count("workflow-complete") + count("workflow-error") !== witness.failures.length + (final ? 1 : 0))
    wrong("do not end once");
  const suspensions = stored.flatMap(({ suspension }) => suspension ?? []);
  for (const seen of [...witness.past, ...(witness.suspension ? [witness.suspension] : [])])
    if (!suspensions.some((one) => isDeepStrictEqual(one, seen))) wrong(`do not have ${JSON.stringify(seen)}`);
  if (!final || final.cancellation) return;
  const { completes, oneOf, starts } = expect(asked, witness.tokens());
  const winners = oneOf.map((group) => group.filter((one) => completed.includes(one)));
  if (winners.some(({ length }) => length !== 1)) wrong("do not have one winner");
  if (!isSame(completed, [...completes, ...winners.flat()])) wrong("complete other steps");
  if (!isSame(started, [...completes, ...starts])) wrong("begin other steps");
}

/** Holds what ran after each retry against the events: what was recorded before it stays, everything else runs again. */
export function checkRetries(witness: Witness, stored: readonly any[]): void {
  const { asked, retried, log, id } = witness;
  let segment = 0;
  for (const { type, from } of stored) {
    if (type === "workflow-error") segment++;
    if (type !== "step-complete") continue;
    const place = retried[segment];
    if (place !== undefined)
      for (const suffix of ["", "?", ">"])
        witness.recorded(from + suffix, `it was retried, and ${from} had completed`, place);
    const isCode = paths(asked.workflow).includes(from);
    const own = log.of(id).filter(({ what, path, at }) => {
      return what === "begin" && path === from && witness.segmentOf(at) === segment;
    });
    // A result that came while the execution was suspended is recorded, and its step completes after the retry.
    const last = log.of(id).findLast(({ what, path }) => what === "end" && path === from);
    const isRecorded = stored.some((one) => one.type === "workflow-suspended") && last?.rest === "value";
    if (isCode && own.length === 0 && !isRecorded)
      witness.fail(`completed ${from} after retry ${segment}, and it had not run since`);
  }
}

const isSame = (found: string[], expected: string[]): boolean =>
  isDeepStrictEqual(found.toSorted(), expected.toSorted());
