import type { Mutation } from "./mutation.ts";

const folder = "src/engine/rules";
const tests = "test/engine/rules";

/** Faults of the rules that both backends use. The first ones turn a suite of each backend red, and the unit test. */
export const rules: readonly Mutation[] = [
  {
    breaks: "A completed execution is cancelled",
    file: `${folder}/transitions.ts`,
    find: 'error: ["running", "suspended"],',
    replace: 'error: ["running", "suspended", "completed"],',
    suite: `${tests}/transitions.test.ts`,
    backends: {
      embedded: "test/workflows/races.test.ts > has one legal outcome of a cancel",
      restate: "test/workflows/races.test.ts > has one legal outcome of a cancel",
    },
  },
  {
    breaks: "The state after a transition has the transition before it",
    file: `${folder}/transitions.ts`,
    find: "last: next, retriedBy",
    replace: "last: state.last, retriedBy",
    suite: `${tests}/transitions.test.ts`,
    backends: {
      embedded: "test/workflows/spec.test.ts > suspends an execution begun by",
      restate: "test/workflows/spec.test.ts > suspends an execution begun by",
    },
  },
  {
    breaks: "A cancelled execution has not ended",
    file: `${folder}/transitions.ts`,
    find: 'status === "completed" || status === "error"',
    replace: 'status === "completed"',
    suite: `${tests}/transitions.test.ts`,
    backends: {
      embedded: "test/engine/final-end.test.ts > keeps a cancelled execution ended",
      restate: "test/workflows/concurrency/concurrency.test.ts > cancels an execution that waits for its turn",
    },
  },
  {
    breaks: "An execution takes an event that another user has sent",
    file: `${folder}/take-events.ts`,
    find: "head.userId !== undefined && head.userId !== userId",
    replace: "head.userId !== undefined && userId === undefined",
    suite: `${tests}/take-events.test.ts`,
    backends: {
      embedded: "test/workflows/waits/real-clock.test.ts > gives an event to executions of its sender only",
      restate: "test/workflows/waits/real-clock.test.ts > gives an event to executions of its sender only",
    },
  },
  {
    breaks: "One event more is stored than limits.storedEvents allows",
    file: `${folder}/event-shares.ts`,
    find: "count < Math.max(1,",
    replace: "count <= Math.max(1,",
    suite: `${tests}/event-shares.test.ts`,
    backends: {
      embedded: "test/workflows/waits/real-clock.test.ts > answers a new event with 503",
      restate: "test/workflows/waits/real-clock.test.ts > answers a new event with 503",
    },
  },
  {
    breaks: "An execution is suspended after the second crash",
    file: `${folder}/crashes.ts`,
    find: "export const maxCrashes = 2;",
    replace: "export const maxCrashes = 1;",
    suite: `${tests}/crashes.test.ts`,
    backends: {
      embedded: "test/engine/crashes.test.ts > suspends an execution after the third crash",
      restate: "test/restate/crashes.test.ts > suspends a step that",
    },
  },
  {
    breaks: "A third crash is allowed before an execution is suspended",
    file: `${folder}/crashes.ts`,
    find: "if (count > crashesBeside) return",
    replace: "if (count > crashesOfCulprit) return",
    suite: `${tests}/crashes.test.ts`,
    backends: {
      embedded: "test/engine/crashes.test.ts > suspends an execution after the third crash",
      restate: "test/restate/suspects.test.ts > suspends only the suspect",
    },
  },
  {
    breaks: "A suspect that ran beside another one does not run alone",
    file: `${folder}/crashes.ts`,
    find: "count === crashesBeside",
    replace: "count === crashesOfCulprit",
    suite: `${tests}/crashes.test.ts`,
    backends: {
      embedded: "test/engine/suspects.test.ts",
      restate: "test/restate/suspects.test.ts > suspends only the suspect",
    },
  },
  {
    breaks: "A value that takes an execution to exactly limits.executionBytes is refused",
    file: "src/engine/runs/journal-row.ts",
    find: "bytes + Buffer.byteLength(text) <= executionBytes",
    replace: "bytes + Buffer.byteLength(text) < executionBytes",
    suite: `${tests}/value-bound.test.ts`,
    backends: { embedded: "test/workflows/execution-bytes.test.ts", restate: "test/workflows/execution-bytes.test.ts" },
  },
  {
    breaks: "An event ends a wait whose time came before it",
    file: `${folder}/wait-order.ts`,
    find: "if (!event || due!.at < event.at) return true;",
    replace: "if (!event) return true;",
    suite: `${tests}/wait-order.test.ts`,
    backends: {
      embedded: "test/workflows/waits/order.test.ts",
      restate:
        "test/workflows/waits/real-order.test.ts > ends waits in the order of their times at a resume in real time",
    },
  },
  {
    breaks: "The 32nd turn that waits in a conversation is refused",
    file: `${folder}/turn-line.ts`,
    find: "turns > maxWaiting",
    replace: "turns >= maxWaiting",
    suite: `${tests}/turn-line.test.ts`,
    backends: {
      embedded: "test/agents/conversations.test.ts > at most 32 turns wait",
      restate: "test/agents/conversations.test.ts > at most 32 turns wait",
    },
  },

  // Only the unit test notices these: another check refuses the same, or no suite comes to the bound.
  {
    breaks: "A cancelled execution is retried",
    file: `${folder}/transitions.ts`,
    find: 'last !== undefined && "error" in last',
    replace: "last !== undefined",
    suite: `${tests}/transitions.test.ts`,
  },
  {
    breaks: "The caller of a retry is forgotten with the next transition",
    file: `${folder}/transitions.ts`,
    find: "next.by : state.retriedBy",
    replace: "next.by : undefined",
    suite: `${tests}/transitions.test.ts`,
  },
  {
    breaks: "An execution without anyAge takes an event from before its start",
    file: `${folder}/take-events.ts`,
    find: "return filter.isAnyAge === true || !head.isOlder;",
    replace: "return true;",
    suite: `${tests}/take-events.test.ts`,
  },
  {
    breaks: "Characters count for limits.executionBytes, not bytes",
    file: "src/engine/runs/journal-row.ts",
    find: "bytes + Buffer.byteLength(text)",
    replace: "bytes + text.length",
    suite: `${tests}/value-bound.test.ts`,
  },
];
