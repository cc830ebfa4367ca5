// npm run test:restate: installs the Restate server in `server/`, and runs the suites of vitest.restate.config.ts on it, without
// arguments one project after the other.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { projects } from "./projects.ts";

const folder = new URL("server/", import.meta.url);
const binaries = JSON.parse(readFileSync(new URL("package-lock.json", folder), "utf8")).packages[
  "node_modules/@restatedev/restate-server"
].optionalDependencies;
const binary = `@restatedev/restate-server-${process.platform}-${process.arch}`;
if (!(binary in binaries)) {
  console.error(`The tests cannot run: npm has no restate-server for ${process.platform} on ${process.arch}`);
  process.exit(1);
}
if (!existsSync(new URL(`node_modules/${binary}/bin/restate-server`, folder))) {
  const status = run("npm", ["ci"], folder);
  if (status !== 0) process.exit(status);
}
const given = process.argv.slice(2);
const runs = given.length > 0 ? [given] : projects.map((name) => ["--project", name]);
const root = fileURLToPath(new URL("../..", import.meta.url));
const statuses = runs.map((options) =>
  run("vitest", ["run", "--config", "vitest.restate.config.ts", ...options], root),
);
process.exitCode = Math.max(...statuses);

function run(command, options, cwd) {
  const { status, error } = spawnSync(command, options, { cwd, stdio: "inherit" });
  if (error) throw error;
  return status ?? 1;
}
