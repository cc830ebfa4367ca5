import config from "../../vitest.restate.config.ts";

const { test } = config({ mode: "test" });
// The config lists objects with names.
const all = test!.projects as { readonly test: { readonly name: string } }[];

/** The names of the projects. Each has a restate-server of its own: one becomes slow with what earlier suites have stored. */
export const projects: string[] = all.map((project) => project.test.name);
