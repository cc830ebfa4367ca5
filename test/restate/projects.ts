import config from "../../vitest.restate.config.ts";

const { SEED: seed } = process.env;
const { test } = config({ mode: "test" });
// The config has set it. The suites that `test/all.ts` starts choose their own: a new one at full size.
if (seed === undefined) delete process.env["SEED"];
// The config lists objects with names.
const all = test!.projects as { readonly test: { readonly name: string } }[];

/** The names of the projects. Each has a restate-server of its own: one becomes slow with what earlier suites have stored. */
export const projects: string[] = all.map((project) => project.test.name);
