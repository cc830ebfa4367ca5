// npm run test:restate: installs the Restate server in `server/`, and runs the suites of vitest.restate.config.ts on it. Without
// arguments it runs each project on a server of its own (`test/all.ts`).
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = new URL("server/", import.meta.url);
const binaries = JSON.parse(readFileSync(new URL("package-lock.json", folder), "utf8")).packages[
  "node_modules/@restatedev/restate-server"
].optionalDependencies;
const binary = `@restatedev/restate-server-${process.platform}-${process.arch}`;
if (!(binary in binaries)) {
  console.error(`The tests cannot run: npm has no restate-server for ${process.platform} on ${process.arch}`);
  process.exit(1);
}
if (!existsSync(new URL(`node_modules/${binary}/bin/restate-server`, folder))) run("npm", ["ci"], folder);
const root = fileURLToPath(new URL("../..", import.meta.url));
const given = process.argv.slice(2);
if (given.length === 0) run(process.execPath, ["test/all.ts", "restate"], root);
else run("vitest", ["run", "--config", "vitest.restate.config.ts", ...given], root);

function run(command, options, cwd) {
  const { status, error } = spawnSync(command, options, { cwd, stdio: "inherit" });
  if (error) throw error;
  if (status !== 0) process.exit(status ?? 1);
}
