// A workflow that suspends, on a file.
import { embedded } from "../../../src/backends/embedded/define.ts";
import { defineWorkflow } from "../../../src/workflows/define.ts";
import type { Hosted } from "../../harness/hosted.ts";

const asks = defineWorkflow({ id: "asks" }).andThen({
  id: "ask",
  execute: ({ suspend, resumeData }) => resumeData ?? suspend("Approve?", { amount: 100 }),
});

export default ({ file }: { file: string }): Hosted => ({
  config: { workflows: [asks], backend: embedded({ path: file }) },
});
