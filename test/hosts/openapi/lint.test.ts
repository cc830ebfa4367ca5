import { join } from "node:path";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { projects, readDocument } from "./documents.ts";
import { createWorkshop, type Workshop } from "./workshop.ts";

const redocly = "lint doc.json --extends recommended --format json --max-problems 10000".split(" ");
const spectral = "lint doc.json --ruleset spectral.yaml --format json --output problems.json".split(" ");
const sockets = ["/ws", "/ws/logs", "/ws/observability"];

describe.each(Object.entries(projects))("the document of %s", (_, toProject) => {
  let workshop: Workshop;
  beforeAll(async () => {
    workshop = createWorkshop();
    workshop.write("doc.json", await readDocument(await toProject()));
  });
  afterAll(() => workshop.close());

  it("has no errors in redocly lint, and warnings only about what it cannot say", async () => {
    const { stdout, stderr, code } = await workshop.run("redocly", ...redocly);
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

  it("has no errors in spectral lint, and warnings only about what it cannot say", async () => {
    workshop.write("spectral.yaml", 'extends: ["spectral:oas"]\n');
    const { code, stderr } = await workshop.run("spectral", ...spectral);
    const found: any[] = JSON.parse(readFileSync(join(workshop.folder, "problems.json"), "utf8"));
    expect(found.map(({ severity, code: rule, path }) => `${severity} ${rule} ${path.join(" ")}`).toSorted()).toEqual([
      "1 info-contact info",
      ...sockets.map((path) => `1 operation-success-response paths ${path} get responses`),
    ]);
    expect(code, stderr).toBe(0);
  });
});
