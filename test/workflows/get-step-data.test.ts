import { defineWorkflow } from "agentserve";
import { describe, expect, it } from "vitest";
import { startServer } from "../harness/server.ts";

describe("a value that JSON keeps", () => {
  it("is given to every step as a copy of its own; undefined stays undefined, undefined properties go", async () => {
    const seen: unknown[] = [];
    const workflow = defineWorkflow({ id: "w" })
      .andThen({ id: "a", execute: () => ({ list: [1], gone: undefined }) })
      .andThen({
        id: "b",
        execute({ data, input, context }) {
          data.list.push(2);
          input["spoiled"] = true;
          (context.get("shared") as unknown[]).push("spoiled");
        },
      })
      .andThen({
        id: "c",
        execute({ data, getStepData, input, context }) {
          (getStepData("a") as { list: number[] }).list.push(3);
          seen.push(data, getStepData("a"), input, context.get("shared"), getStepData("b"), getStepData("nobody"));
          return null;
        },
      });
    const server = await startServer("in process", { config: { workflows: [workflow] } });
    const { body } = await server.post("/workflows/w/execute", {
      input: { n: 1 },
      options: { context: { shared: [] } },
    });
    expect(seen).toEqual([undefined, { list: [1] }, { n: 1 }, [], undefined, undefined]);
    expect(body.data.result).toBeNull();
    await server.close();
  });
});
