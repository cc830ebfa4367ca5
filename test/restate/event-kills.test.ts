import { afterEach, expect, it } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { bySize } from "../harness/size.ts";
import { until } from "../harness/waiting.ts";
import { readStream } from "./event-reader.ts";
import { forAll, persist, Replicas } from "./replicas.ts";

const count = bySize(20, 300);
const early = Array.from({ length: count }, (_, index) => `early${index}`);
const late = Array.from({ length: count }, (_, index) => `late${index}`);

let replicas: Replicas | undefined;
afterEach(() => replicas?.close());

const pick = (index: number) => replicas!.all[index % 3]!;
const begin = (id: string, index: number) =>
  persist(async () => {
    const status = await pick(index).begin("orders", id);
    return status === 202 || status === 409 ? status : undefined;
  });
const send = (id: string, index: number, event: string) =>
  persist(async () => {
    const body = { name: "paid", key: id, data: `${event} of ${id}`, id: `${id}-${event}` };
    const { status } = await pick(index).post("/events", body);
    return status === 202 ? status : undefined;
  });
const reach = (id: string, index: number, expected: object) =>
  until(
    async () => {
      const state = await persist(() => pick(index).state("orders", id));
      return Object.entries(expected).every(([key, value]) => JSON.stringify(at(state, key)) === JSON.stringify(value));
    },
    `${id} to reach ${JSON.stringify(expected)}`,
  );
const at = (state: object, path: string): unknown => path.split(".").reduce((value: any, key) => value?.[key], state);

it(
  "an event that is sent before, while or after an execution waits is taken once, while replicas are killed",
  { timeout: 8 * patienceMs },
  async () => {
    replicas = await Replicas.start({ checks: true });
    // Before: their first step waits for the gate.
    await forAll(early, begin);
    const hasBegun = (id: string): boolean => replicas!.all.some(({ steps }) => steps.some((step) => step.id === id));
    await until(() => early.every(hasBegun), "the first step of all");
    await forAll(early, (id, index) => send(id, index, "first"));
    await replicas.replace(0);
    replicas.openGate();
    // While: the others wait when theirs is sent.
    await forAll(late, begin);
    await forAll(late, (id, index) => reach(id, index, { status: "suspended", "suspension.stepId": "first" }));
    const sent = forAll(late, (id, index) => send(id, index, "first"));
    await replicas.replace(1);
    await sent;
    const ids = [...early, ...late];
    await forAll(ids, (id, index) => reach(id, index, { status: "suspended", "suspension.stepId": "second" }));
    // After: it is sent again, by another replica, and would be the first that the second wait takes.
    await forAll(ids, (id, index) => send(id, index + 1, "first"));
    const sentAgain = forAll(ids, (id, index) => send(id, index, "second"));
    await replicas.replace(2);
    await sentAgain;
    await forAll(ids, (id, index) =>
      reach(id, index, { status: "completed", result: [`first of ${id}`, `second of ${id}`] }),
    );
    await forAll(ids, async (id, index) => {
      const events = await persist(() => readStream(pick(index), `/workflows/orders/executions/${id}/stream`));
      const ends = events.filter(({ type }) => type === "step-complete").map(({ from }) => from);
      expect(ends).toEqual(["gate", "first", "between", "second", "both"]);
    });
  },
);
