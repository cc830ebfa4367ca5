import { defineAgent } from "agentserve";
import { scriptedModel } from "agentserve/models";
import fc from "fast-check";
import { expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { bySize } from "../../harness/size.ts";
import { meant } from "./arbitrary-schema.ts";
import { accepts } from "./oracle.ts";
import { endpoints, object, ofBody, ofStream, untilChecked, type Json, type Verdict } from "./verdict.ts";

// What the model says next, and what it was asked for.
let next = "";
const model = scriptedModel(Array.from({ length: 100_000 }, () => () => next));
const wanted = (): Json => (model.calls.at(-1)!.responseFormat as { schema: Json }).schema;

describeServer(
  "Schemas of honest clients",
  { only: ["start"], config: { agents: [defineAgent({ id: "says", model, instructions: "" })] } },
  (server) => {
    const ask = (endpoint: string, schema: unknown, says: unknown): Promise<Omit<Verdict, "ms">> =>
      untilChecked(async () => {
        next = JSON.stringify(says);
        const { status, text } = await server.post(`/agents/says/${endpoint}`, { input: "go", schema });
        return status === 200 && endpoint === "stream-object" ? ofStream(text) : ofBody(status, text);
      });

    it("checks an object against a client's schema as the oracle does, and asks the model for an object", async () => {
      let [matched, missed] = [0, 0];
      const runs = fc.asyncProperty(meant, fc.constantFrom(...endpoints), async ({ schema, value }, endpoint) => {
        const isArray = schema["type"] === "array";
        const fits = accepts(schema, value, schema);
        fits ? matched++ : missed++;
        const { status, value: got, message } = await ask(endpoint, schema, isArray ? { elements: value } : value);
        expect(status, message).toBe(fits ? 200 : 502);
        if (fits) expect(JSON.stringify(got)).toBe(JSON.stringify(value));
        expect(wanted()).toMatchObject({ type: "object" });
        const told = wanted();
        expect(accepts(told, isArray ? { elements: value } : value, told), "what the model was told").toBe(fits);
      });
      await fc.assert(runs, { numRuns: bySize(60, 2_000) });
      console.log(`${matched} matched, ${missed} did not`);
      expect(Math.min(matched, missed)).toBeGreaterThan(bySize(3, 300));
    });

    const numbers = { type: "number" };
    it.each<[string, Json, unknown, unknown]>([
      ["$defs", { type: "array", items: { $ref: "#/$defs/n" }, $defs: { n: numbers } }, [1], ["1"]],
      ["definitions", { type: "array", items: { $ref: "#/definitions/n" }, definitions: { n: numbers } }, [1], ["1"]],
      ["itself", { type: "array", items: { $ref: "#" } }, [[], [[]]], [[], [1]]],
      ["its own items", { type: "array", prefixItems: [numbers, { $ref: "#/prefixItems/0" }] }, [1, 2], [1, "2"]],
      [
        "itself from $defs",
        { type: "array", items: { $ref: "#/$defs/l" }, $defs: { l: object({ a: { $ref: "#" } }) } },
        [{ a: [{}] }],
        [{ a: [1] }],
      ],
      ["an $anchor", { type: "array", items: { $ref: "#n" }, $defs: { n: { $anchor: "n", ...numbers } } }, [1], ["1"]],
      [
        "a literal that looks like one",
        { type: "array", items: { const: { $ref: "#" } } },
        [{ $ref: "#" }],
        [{ $ref: "#/properties/elements" }],
      ],
      ["a root that is one", { $ref: "#/$defs/l", $defs: { l: { type: "array", items: numbers } } }, [1], ["1"]],
    ])("checks a client's schema of a root array with a reference: %s", async (_, schema, good, bad) => {
      for (const endpoint of endpoints) {
        expect(await ask(endpoint, schema, { elements: good })).toMatchObject({ status: 200, value: good });
        expect(await ask(endpoint, schema, { elements: bad })).toMatchObject({ status: 502 });
      }
      const told = wanted();
      expect(told["type"]).toBe("object");
      const verdicts = [good, bad].map((elements) => accepts(told, { elements }, told));
      expect(verdicts, `what the model was told: ${JSON.stringify(told)}`).toEqual([true, false]);
    });

    it("asks the model for an object if the root of a client's schema refers to one", async () => {
      const schema = { $ref: "#/$defs/a", $defs: { a: object({ n: numbers }) } };
      expect(await ask("object", schema, { n: 1 })).toMatchObject({ status: 200, value: { n: 1 } });
      expect(wanted()["type"]).toBe("object");
    });

    it("follows or refuses a $dynamicRef of a client's schema, and does not pass over it", async () => {
      const schema = { ...object({ a: { $dynamicRef: "#t" } }), $defs: { t: { $dynamicAnchor: "t", type: "string" } } };
      expect([400, 502]).toContain((await ask("object", schema, { a: 5 })).status);
    });

    it("refuses an object with a key that is half a character: it cannot be checked", async () => {
      const schema = { type: "object", additionalProperties: { type: "string" } };
      expect(await ask("object", schema, { "\ud800": "x" })).toMatchObject({ status: 502 });
    });
  },
);
