import { expect } from "vitest";
import { ServeError } from "../../../../src/core/error.ts";
import type { ExecutionState, Transition } from "../../../../src/engine/execution.ts";
import { resume } from "../../../../src/workflows/resume.ts";
import { retry } from "../../../../src/workflows/repair.ts";
import { patienceMs } from "../../../harness/patience.ts";
import { pause } from "../code.ts";
import type { Luck } from "../luck.ts";
import { answerOf } from "../values.ts";
import { makeFork } from "./forks.ts";
import type { Tally } from "./tally.ts";
import { isForPerson, isWaiting, passTime, playWaits, send } from "./waits.ts";
import type { World } from "./world.ts";

/** Suspends, resumes, goes back, retries and forks at random, until the execution and its forks have ended. */
export async function play(world: World, id: string, luck: Luck, tally: Tally, cancels: boolean): Promise<void> {
  const { engine, book } = world;
  const expectDurable = ({ epoch }: ExecutionState): void => {
    const found = world.durable.of(id);
    if (!found) return;
    expect(found.epoch, "transitions in the file when one is answered").toBeGreaterThanOrEqual(epoch);
    expect(found.ended !== null, `ended, when it is ${found.status}`).toBe(/completed|error/.test(found.status));
  };
  let backs = 0;
  let retries = 0;
  for (let round = 0; ; round++) {
    expect(round, "resumes after which it has not ended").toBeLessThan(500);
    if (round < 8 && luck.chance(0.5)) {
      await pause(luck.pick(14));
      if (cancels && luck.chance(0.15)) await engine.cancel(id, "no more");
      const answered = await engine.suspend(id, "outside");
      if (answered) {
        tally.external++;
        const begun = book.begun.get(id);
        expectDurable(answered);
        expect(answered.status).toBe("suspended");
        if (luck.chance(0.3)) passTime(world, luck, tally);
        if (luck.chance(0.7)) await pause(luck.pick(14));
        expect((await engine.state(id))?.epoch, "nobody but us resumes").toBe(answered.epoch);
        if (!world.hearsLate) expect(book.begun.get(id), "a step began after the suspend was answered").toBe(begun);
      }
    }
    if (world.clock && luck.chance(0.1)) await send(world, luck.chance(0.5) ? "" : "all", luck, tally);
    const state = await settle(world, id).catch(async (cause) => {
      const stuck = JSON.stringify({ ...(await engine.state(id)), complaints: world.complaints() });
      throw new Error(`it neither ends nor suspends: ${stuck}`, { cause });
    });
    expectDurable(state);
    if (luck.chance(0.15)) {
      const made = await makeFork(world, state, luck, tally);
      if (made) await play(world, made.executionId, luck, tally, cancels);
      await made?.checkOriginal();
    }
    if (state.status === "error" && state.last && "error" in state.last && retries < 4 && luck.chance(0.7)) {
      retries++;
      await playRetry(world, state, luck, tally);
      continue;
    }
    if (state.status !== "suspended") {
      if (state.last && "cancellation" in state.last) tally.cancelled++;
      else tally[state.status as "completed" | "error"]++;
      return;
    }
    if (cancels && luck.chance(0.1)) {
      const resumes = luck.chance(0.5) ? [resume(engine, world.runnable, state, toGoOn(state, luck))] : [];
      const [cancelled] = await Promise.allSettled([engine.cancel(id, "no more"), ...resumes]);
      const { status, last } = (await engine.state(id))!;
      // The end of a wait may have been first, and the end of the execution with it.
      const isOver = status === "completed" || (status === "error" && last && "error" in last);
      if (!isWaiting(state) || !isOver)
        expect(cancelled, "a cancel, perhaps at once with a resume").toMatchObject({ value: { status: "error" } });
      continue;
    }
    const isOwn = pendingOf(state).length > 0;
    if (isOwn) tally.suspensions++;
    if (await playWaits(world, state, luck, tally)) {
      await pause(luck.pick(8));
      continue;
    }
    if (isOwn && !pendingOf(state).some(isForPerson) && backs >= 3) {
      passTime(world, luck, tally); // nobody can resume it
      continue;
    }
    const goesBack = backs < 3 && (luck.chance(0.2) || (isOwn && !pendingOf(state).some(isForPerson)));
    const asked = goesBack ? toGoBack(world, state, luck) : toGoOn(state, luck);
    if (goesBack && backs++ >= 0) tally.wentBack++;
    const attempts = [resume(engine, world.runnable, state, asked)];
    if (luck.chance(0.5) && (!isOwn || pendingOf(state).some(isForPerson)))
      attempts.push(resume(engine, world.runnable, state, toGoOn(state, luck)));
    tally.twoAtOnce += attempts.length - 1;
    const answers = await Promise.allSettled(attempts);
    const won = answers.filter(({ status }) => status === "fulfilled").length;
    const reasons = answers.map((answer) =>
      answer.status === "rejected" ? `${answer.reason} (${answer.reason.cause})` : "won",
    );
    if (!isWaiting(state)) expect(won, `exactly one resume wins: ${reasons.join("; ")}`).toBe(1);
    for (const answer of answers) {
      if (answer.status === "fulfilled") expectDurable(answer.value);
      else {
        expect(answer.reason).toBeInstanceOf(ServeError);
        // Going back to a step that sleeps is refused; also to one that sleeps since the end of another wait.
        const isAsleep = pendingOf(state).some((one) => one.stepId === asked.stepId && !isForPerson(one));
        expect(isAsleep || isWaiting(state) ? [404, 409] : [404], String(answer.reason)).toContain(
          answer.reason.status,
        );
      }
    }
  }
}

/** Retries a failed execution, perhaps twice at once. */
async function playRetry({ engine, book, runnable }: World, state: ExecutionState, luck: Luck, tally: Tally) {
  const { id } = state.execution;
  if (luck.chance(0.7)) book.mended.add(id);
  const attempts = Array.from({ length: 1 + luck.pick(2) }, () => retry(engine, runnable, state));
  tally.retried++;
  tally.twoAtOnce += attempts.length - 1;
  const answers = await Promise.allSettled(attempts);
  expect(answers.filter(({ status }) => status === "fulfilled").length, "exactly one retry wins").toBe(1);
  for (const answer of answers) if (answer.status === "rejected") expect(answer.reason).toMatchObject({ status: 409 });
}

/** The state at the next suspension or end. Where callers hear late, it may be one that is over. */
async function settle({ engine, hearsLate, clock }: World, id: string): Promise<ExecutionState> {
  const signal = AbortSignal.timeout(patienceMs);
  // Short sleeps and retry delays end without a request.
  let ms = 400;
  const ticking = clock && setInterval(() => clock.skip((ms *= 1.02)), 5);
  try {
    for (;;) {
      const state = await engine.settled(id, -1, signal);
      if (!hearsLate || (await engine.state(id))?.epoch === state.epoch) return state;
    }
  } finally {
    clearInterval(ticking);
  }
}

interface Asked {
  readonly stepId?: string;
  readonly resumeData: unknown;
}

function toGoOn(state: ExecutionState, luck: Luck): Asked {
  if (pendingOf(state).length === 0) return { resumeData: "neither checked nor used" };
  const pending = pendingOf(state).filter(isForPerson);
  if (pending.length === 0) return { resumeData: "nobody waits for it" };
  for (const { stepId, reason, data } of pending)
    expect({ reason, data }).toEqual({ reason: `ask ${stepId}`, data: JSON.stringify({ ask: stepId }) });
  if (luck.chance(0.3)) return { resumeData: answerOf(pending[0]!.stepId) };
  const { stepId } = pending[luck.pick(pending.length)]!;
  return { stepId, resumeData: answerOf(stepId) };
}

function toGoBack({ runnable }: World, { last }: ExecutionState, luck: Luck): Asked {
  const { pending = [], position }: Partial<Transition & { to: "suspended" }> = last?.to === "suspended" ? last : {};
  const at = pending[0]?.stepIndex ?? position?.stepIndex ?? 0;
  const stepId = runnable.definition.steps[luck.pick(at + 1)]!.id;
  return { stepId, resumeData: answerOf(stepId) };
}

function pendingOf({ last }: ExecutionState) {
  return last?.to === "suspended" ? last.pending : [];
}
