#!/usr/bin/env node
// Plain JavaScript that old versions of Node can parse, so that they print the error below.
const [major, minor] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 22)) {
  console.error(`error agentserve needs Node 22.22 or newer; this is ${process.versions.node}`);
  console.error(
    "hint  install a newer version from nodejs.org, or add it to the project: npm install --save-dev node@24",
  );
  process.exit(1);
}
const { main } = await import("../dist/cli.mjs");
await main(process.argv.slice(2));
