// Installs agentserve and its rivals for production, each into an empty folder, and prints size and number of packages.
// Needs a package registry. The versions are those of the README's table.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const folder = mkdtempSync(join(tmpdir(), "installs-"));
const npm = (cwd, ...args) => execFileSync("npm", [...args, "--loglevel", "error"], { cwd, encoding: "utf8" });
const [{ filename }] = JSON.parse(npm(".", "pack", "--json", "--pack-destination", folder));

const installs = {
  agentserve: [join(folder, filename)],
  VoltAgent: ["@voltagent/core@2.10.0", "@voltagent/server-hono@2.0.14", "@voltagent/libsql@2.1.2"],
  Mastra: ["mastra@1.31.0", "@mastra/core@1.71.0", "@mastra/libsql@1.23.1"],
  "LangGraph server": ["@langchain/langgraph-cli@2.0.0", "@langchain/langgraph@1.4.18", "@langchain/core"],
  "Inngest, without its server": ["inngest@4.24.0"],
};
try {
  for (const [name, packages] of Object.entries(installs)) {
    const cwd = mkdtempSync(join(folder, "project-"));
    writeFileSync(join(cwd, "package.json"), `{ "private": true }`);
    const { added } = JSON.parse(npm(cwd, "install", "--omit=dev", "--json", ...packages));
    console.log(`${name}: ${Math.round(sizeOf(join(cwd, "node_modules")) / 1_000_000)} MB, ${added} packages`);
    rmSync(cwd, { recursive: true });
  }
} finally {
  rmSync(folder, { recursive: true });
}

/** The size of all files in a folder, in bytes. */
function sizeOf(path) {
  const files = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}
