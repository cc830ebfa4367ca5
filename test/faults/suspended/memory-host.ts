// A server on a file, as a process of its own that says how much memory it has: node --expose-gc memory-host.ts <file>
import { embedded } from "../../../src/backends/embedded/define.ts";
import { createServer } from "../../../src/server/create.ts";
import { defineWorkflow } from "../../../src/workflows/define.ts";
import { keepRecords } from "../../harness/logged.ts";

keepRecords();

const asks = defineWorkflow({ id: "asks" }).andThen({
  id: "ask",
  execute: ({ suspend, resumeData }) => resumeData ?? suspend("Approve?", { amount: 100 }),
});
const server = createServer({ workflows: [asks], backend: embedded({ path: process.argv[2]! }) });
const { url } = await server.listen({ port: 0 });
process.send!(url);
process.on("message", () => {
  for (let i = 0; i < 3; i++) globalThis.gc!();
  const { heapUsed, external, rss } = process.memoryUsage();
  process.send!({ heap: heapUsed + external, rss });
});
