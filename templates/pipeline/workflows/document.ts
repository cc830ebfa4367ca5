import { andAgent, defineWorkflow } from "agentserve";
import * as v from "valibot";
import { reader } from "../agents/reader.ts";
import { publish } from "./publish.ts";

/** The times of the pipeline. Set them in .env to try it quickly: REVIEW_TIME=1m COOLING_TIME=10s */
const reviewTime = process.env.REVIEW_TIME ?? "3d";
const coolingTime = process.env.COOLING_TIME ?? "2d";

const Page = v.object({ summary: v.string(), words: v.number() });

/** Reads a document page by page, asks a person, waits two days, and publishes it. */
export const document = defineWorkflow({
  id: "document",
  name: "Document pipeline",
  purpose: "Reads a document of any number of pages, asks for approval and publishes it later",
  input: v.object({ title: v.string(), text: v.string() }),
  resumeSchema: v.object({ approved: v.boolean(), note: v.optional(v.string()) }), // the form of the person
})
  // Pages are separated by an empty line. Their number is known only now.
  .andThen({ id: "split", execute: ({ data }) => data.text.split(/\n\s*\n/) })
  .andForEach({
    id: "pages",
    concurrency: 4, // four pages at a time
    step: andAgent({
      id: "read",
      agent: reader,
      prompt: ({ data }) => data,
      schema: Page,
      retry: { attempts: 3, delay: 2_000, backoff: 2 }, // a model may be busy
    }),
  })
  .andThen({
    id: "review",
    purpose: "Waits for a person until the deadline",
    execute: async ({ data: pages, resumeData, timedOut, suspend }) => {
      // suspend() ends the step. It runs again with resumeData, or with timedOut after the deadline.
      if (timedOut) return { approved: false, note: "Nobody has answered in time", pages };
      if (!resumeData) return suspend(`Publish ${pages.length} pages?`, { pages }, { timeout: reviewTime });
      return { ...resumeData, pages };
    },
  })
  .andThen({
    id: "stop-if-rejected",
    execute: ({ data, input }) => {
      if (!data.approved) throw new Error(`Not published: ${data.note ?? "rejected"}`);
      return { title: input.title, summaries: data.pages.map(({ summary }) => summary) };
    },
  })
  // The execution sleeps in the file: no timer and no memory is held, and a restart changes nothing.
  .andSleep({ id: "cooling", duration: coolingTime, skippable: true })
  .andWorkflow({ id: "publish", workflow: publish });
