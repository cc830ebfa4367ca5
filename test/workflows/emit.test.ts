import { defineWorkflow } from "agentserve";
import { describe, expect, it } from "vitest";
import { startTestServer } from "../harness/server.ts";

describe("emit", () => {
  it("puts an emitted event on the live stream, and only there", async () => {
    const workflow = defineWorkflow({ id: "w" }).andThen({
      id: "s",
      execute({ emit }) {
        emit({ type: "progress", percent: 50, executionId: "forged", from: "forged" });
        for (const event of [{ type: "workflow-result" }, { type: "step-start" }, {}, { type: "x", n: 1n }]) {
          expect(() => emit(event as never)).toThrow(/^(emit|event)/);
        }
        return 1;
      },
    });
    const server = await startTestServer("in process", { config: { workflows: [workflow] } });
    const { events } = await server.post("/workflows/w/stream", { input: {}, options: { executionId: "e" } });
    expect(events.filter(({ type }) => type === "progress")).toEqual([
      { type: "progress", percent: 50, executionId: "e", from: "s", timestamp: expect.any(String) },
    ]);
    expect(
      (await server.get("/workflows/w/executions/e/stream")).events.filter(({ type }) => type === "progress"),
    ).toEqual([]);
  });

  it("lets no emitted event hide, number or forge an event of the server", async () => {
    const forged = 'id: 99\ndata: {"type":"workflow-complete"}';
    const numbers = [
      1_000_000,
      3,
      1,
      0,
      -1,
      0.5,
      null,
      true,
      "7",
      `1\n\n${forged}\n\n`,
      `\r\r${forged}\r\r`,
      { a: forged },
    ];
    const own = numbers.map((seq) => ({
      type: "own",
      seq,
      id: forged,
      event: forged,
      executionId: "x",
      timestamp: "x",
    }));
    for (const target of ["in process", "start"] as const) {
      const go = Promise.withResolvers<void>();
      const workflow = defineWorkflow({ id: "w" })
        .andThen({ id: "early", execute: ({ emit }) => own.forEach(emit) })
        .andThen({ id: "waits", execute: () => go.promise })
        .andThen({ id: "late", execute: ({ emit }) => own.forEach(emit) });
      const server = await startTestServer(target, { config: { workflows: [workflow] } });
      const begun = server.send("/workflows/w/stream", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ input: {}, options: { executionId: "e" } }),
      });
      const streams = [await begun, await server.send("/workflows/w/executions/e/stream", {})];
      const texts = streams.map((stream) => stream.text());
      go.resolve();
      for (const [index, text] of (await Promise.all(texts)).entries()) {
        const events = [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data!));
        const lifecycle = events.filter(({ type }) => type !== "own" && type !== "workflow-result");
        expect(lifecycle.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
        expect(lifecycle.at(-1).type).toBe("workflow-complete");
        const ids = [...text.matchAll(/^id: (.*)$/gm)].map(([, id]) => id);
        expect(ids).toEqual(index === 0 ? [] : ["1", "2", "3", "4", "5", "6", "7", "8", "8.end"]);
        for (const line of text.split(/\r\n|\n|\r/)) expect(line).toMatch(/^(id: \d+(\.end)?|data: \{.*\}|)$/);
        const shown = events.filter(({ type }) => type === "own");
        if (index === 0) expect(shown).toHaveLength(own.length * 2);
        for (const event of shown) {
          expect(Object.keys(event).toSorted()).toEqual(["event", "executionId", "from", "id", "timestamp", "type"]);
          expect(event).toMatchObject({ executionId: "e", id: forged, from: expect.stringMatching(/^(early|late)$/) });
          expect(Date.parse(event.timestamp)).not.toBeNaN();
        }
      }
    }
  });

  it("checks the emitted type that is sent: a getter cannot change it after the check", async () => {
    for (let honest = 0; honest < 6; honest++) {
      let reads = 0;
      const changing = {
        get type() {
          return reads++ < honest ? "own" : "workflow-complete";
        },
      };
      const workflow = defineWorkflow({ id: "w" }).andThen({ id: "s", execute: ({ emit }) => emit(changing) });
      const server = await startTestServer("in process", { config: { workflows: [workflow] } });
      const { events } = await server.post("/workflows/w/stream", { input: {} });
      const closing = events.filter(({ type }) => /^workflow-(complete|error)$/.test(type));
      expect(closing).toEqual([expect.objectContaining({ seq: expect.any(Number) })]);
    }
  });
});
