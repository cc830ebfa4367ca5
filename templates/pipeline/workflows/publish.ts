import { defineWorkflow } from "agentserve";
import * as v from "valibot";

/** Publishes a text. It runs inside the pipeline, and can be started by itself. */
export const publish = defineWorkflow({
  id: "publish",
  name: "Publish a text",
  input: v.object({ title: v.string(), summaries: v.array(v.string()) }),
})
  .andThen({ id: "format", execute: ({ data }) => `# ${data.title}\n\n${data.summaries.join("\n")}` })
  .andThen({
    id: "upload",
    // A real upload may fail for a moment. The same key in every attempt lets the service recognize a repeated one.
    retry: { attempts: 5, delay: 1_000, backoff: 2, maxDelay: 60_000, jitter: 0.5 },
    execute: ({ data, idempotencyKey }) => ({ text: data, uploadedAs: idempotencyKey }),
  });
