#!/usr/bin/env node
// Plain JavaScript of old Nodes: whoever has one must still be able to read why it does not start.
const [major, minor] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 22)) {
  console.error(`error agentserve needs Node 22.22 or newer; this is ${process.versions.node}`);
  console.error(
    "hint  install a newer one from nodejs.org, or put it into the project: npm install --save-dev node@24",
  );
  process.exit(1);
}
const { main } = await import("../dist/cli.mjs");
await main(process.argv.slice(2));
