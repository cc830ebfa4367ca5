import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { projects, readDocument } from "./documents.ts";
import { createWorkshop, type Workshop } from "./workshop.ts";

const lint = "lint doc.json --format json --max-problems 10000".split(" ");
const rules = {
  "no-invalid-media-type-examples": "error",
  "no-invalid-parameter-examples": "error",
  "no-invalid-schema-examples": "error",
  "operation-operationId-url-safe": "error",
  "operation-tag-defined": "error",
  "no-duplicated-tag-names": "error",
};
const sockets = ["/ws", "/ws/logs", "/ws/observability"];

describe.each(Object.entries(projects))("the document of %s", (_, toProject) => {
  let workshop: Workshop;
  beforeAll(async () => {
    workshop = createWorkshop();
    workshop.write("redocly.yaml", JSON.stringify({ extends: ["recommended"], rules }));
    workshop.write("doc.json", await readDocument(await toProject()));
  });
  afterAll(() => workshop.close());

  it("serves an OpenAPI document without errors in redocly lint, with warnings only about what it cannot say", async () => {
    const { stdout, stderr, code } = await workshop.run("redocly", ...lint);
    expect(stdout, stderr).toMatch(/^\{/);
    const problems = (JSON.parse(stdout).problems as any[]).map(
      ({ severity, ruleId, location }) => `${severity} ${ruleId} ${location[0].pointer}`,
    );
    expect(problems.toSorted()).toEqual([
      "warn info-license #/info", // the license of the API is the author's
      // A WebSocket answers 101.
      ...sockets.map((path) => `warn operation-2xx-response #/paths/${path.replaceAll("/", "~1")}/get/responses`),
    ]);
    expect(code).toBe(0);
  });
});
