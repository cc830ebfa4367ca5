import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readCommand } from "./commands.ts";
import { projects, readDocument } from "./documents.ts";
import { createWorkshop, type Workshop } from "./workshop.ts";

describe.each(["the starter template", "a hostile config with a provider"])("a client for %s", (name) => {
  let workshop: Workshop;
  beforeAll(async () => {
    workshop = createWorkshop();
    workshop.write("doc.json", await readDocument(await projects[name]!()));
  });
  afterAll(() => workshop.close());

  it.each(["openapi-typescript", "openapi-ts", "orval"])(
    "generates a client by %s that compiles under strict",
    async (tool) => {
      const generated = await workshop.run(...readCommand(tool, "./doc.json"));
      expect(generated.code, generated.stdout + generated.stderr).toBe(0);
      const entry = { "openapi-typescript": "api.ts", "openapi-ts": "client/index.ts", orval: "client.ts" }[tool]!;
      workshop.write("tsconfig.one.json", JSON.stringify({ extends: "./tsconfig.json", files: [entry] }));
      expect(await workshop.run("tsc", "-p", "tsconfig.one.json", "--noEmit")).toMatchObject({ stdout: "", code: 0 });
    },
  );
});
