import { expect, it } from "vitest";
import { describeAgents, shapes } from "./provider-suite.ts";

describeAgents("an answer that is not what the schema says", {}, (_, ask) => {
  const mismatch = /^Model output does not match schema: ./;
  it.for(shapes)("answers object with 502 for a model output of the shape %s", async (id) => {
    const { status, body } = await ask("object", id);
    expect([status, body]).toEqual([502, { success: false, error: expect.stringMatching(mismatch) }]);
  });
  it.for(shapes)("ends stream-object with an error for a model output of the shape %s", async (id) => {
    const { status, body, events } = await ask("stream-object", id);
    const error = expect.stringMatching(mismatch);
    // Words are no part of an object: it is not said whether a stream without one has begun.
    if (status === 502) expect(body).toEqual({ success: false, error });
    else expect([status, events.at(-1)]).toEqual([200, { type: "error", error }]);
    if (!["prose", "null-shape"].includes(id)) expect(status).toBe(200);
    expect(events.filter(({ type }) => type === "object")).toEqual([]);
  });
});
