import type { Answer } from "../../harness/former-build.ts";
import type { Answers } from "./work.ts";

/** Forks by role, with the steps that they have not copied. */
export type OwnSteps = Readonly<Record<string, readonly string[]>>;

/**
 * Removes the start times of copied steps. Today they are those of the original. Former builds showed the time of the end.
 * `toRole` returns the role of the execution whose steps were asked for; "" for other requests.
 */
export function withoutCopiedStarts(
  answers: Answers,
  ownSteps: OwnSteps,
  toRole: (request: string) => string,
): Answers {
  for (const [request, answer] of Object.entries(answers)) {
    const own = ownSteps[toRole(request)];
    const steps: any[] = own ? (answer as Answer).body.data.items : [];
    for (const step of steps.filter(({ path }) => !own!.includes(path)))
      for (const one of [step, ...step.attempts]) delete one.startAt;
  }
  return answers;
}
