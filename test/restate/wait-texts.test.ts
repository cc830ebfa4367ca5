import { expect, it } from "vitest";
import { createCalls, toNames } from "../../src/backends/restate/calls.ts";
import { createWait } from "../../src/backends/restate/reads/wait.ts";

// What builds since 0.2 wrote into the journals of open waits. A replay with another text fails, and the caller gets 503.
const texts = {
  settled: [{ id: "e", afterEpoch: 1 }, '{"awakeable":"w","afterEpoch":1}'],
  row: [{ id: "e", afterRow: 1, replica: "r" }, '{"afterRow":1,"replica":"r","awakeable":"w"}'],
  place: [{ key: "g", id: "e" }, '{"id":"e","awakeable":"w"}'],
  turn: [{ key: "c", id: "p" }, '{"id":"p","awakeable":"w"}'],
  orders: [{ key: "c", id: "p", isPublishing: true }, '{"id":"p","isPublishing":true,"awakeable":"w"}'],
  answer: [{ turnId: "t", run: 1, from: 2 }, '{"run":1,"from":2,"awakeable":"w"}'],
} as const;

it("a wait that another build began is replayed with the text that it has in the journal", async () => {
  const sent: string[] = [];
  const context = {
    awakeable: () => ({ id: "w", promise: Promise.resolve(null) }),
    genericSend: ({ parameter }: { parameter: unknown }) => sent.push(JSON.stringify(parameter)),
  };
  const sdk = { service: (service: unknown) => service, serde: { json: "json" } };
  const parts = { sdk, names: toNames("x"), calls: createCalls(sdk as never, toNames("x")) };
  const { handlers } = createWait(parts as never) as unknown as {
    handlers: Record<string, (...input: unknown[]) => unknown>;
  };
  for (const [name, [input]] of Object.entries(texts)) await handlers[name]!(context, input);
  expect(sent).toEqual(Object.values(texts).map(([, text]) => text));
});
