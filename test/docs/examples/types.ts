import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { run } from "../../harness/cli.ts";
import { readTemplate } from "./tools.ts";
import type { World } from "./world.ts";

/** What the compiler says of these files, which may use all packages. Nothing, if all is well. */
export async function findTypeErrors(sources: Record<string, string>, { tools }: World): Promise<string> {
  const folder = tools.project({ "package.json": `{ "type": "module" }` });
  for (const [name, text] of Object.entries(sources)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  // As strict as the projects that `agentserve init` makes.
  const { compilerOptions } = JSON.parse(readTemplate("starter")["tsconfig.json"]!) as { compilerOptions: object };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: Object.keys(sources) }));
  const { stdout, stderr, code } = await run(process.execPath, [
    resolve("node_modules/typescript/bin/tsc"),
    "-p",
    folder,
  ]).ended;
  return code === 0 ? "" : `${stdout}${stderr}`;
}
