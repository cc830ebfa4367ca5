import { type } from "arktype";
import * as v from "valibot";
import * as z from "zod";
import { defineAgent, defineWorkflow, type Config } from "agentserve";
import { echoModel } from "agentserve/models";

interface Tree {
  name: string;
  children?: Tree[] | undefined;
}
export const ValibotTree: v.GenericSchema<Tree> = v.object({
  name: v.string(),
  children: v.optional(v.array(v.lazy(() => ValibotTree))),
});
export const ZodTree = z.object({ name: z.string(), get children() { return z.array(ZodTree).optional(); } }); // prettier-ignore
export const City = z.object({ zip: z.string() }).meta({ id: "City" });
const Odd = v.object({ "*/ x": v.number(), "a-b": v.number(), a_b: v.number(), class: v.optional(v.string()) });
const Shapes = z.object({
  tuple: z.tuple([z.string(), z.number()]),
  rest: z.tuple([z.string()]).rest(z.number()),
  any: z.array(z.any()),
  record: z.partialRecord(z.enum(["a", "b"]), z.number()),
  kinds: z.discriminatedUnion("t", [z.object({ t: z.literal("a") }), z.object({ t: z.literal("b"), n: z.int() })]),
  both: z.intersection(z.object({ a: z.string() }), z.object({ b: z.string() })),
  literals: z.literal([1, "a", null]),
  pattern: z.string().regex(/^a\/b(?=c)/),
  file: z.file(),
  never: z.never().optional(),
});
const Tuples = v.object({
  loose: v.tuple([v.string(), v.number()]),
  strict: v.strictTuple([v.string()]),
  list: v.array(v.unknown()),
});
const text = "*/ process.exit(1) // `${1}` \\ \u202e naïve 🎉 </script>\n\n* one";

const echo = (id: string, input?: any, result?: any) =>
  defineWorkflow({ id, input, result, name: `${id} ${text}`, purpose: text }).andThen({
    id: "only",
    execute: ({ data }) => data,
  });
const asking = defineWorkflow({
  id: "asking",
  result: z.union([z.string(), z.object({ ok: z.boolean() })]).nullable(),
  resumeSchema: v.object({ ok: v.boolean() }),
}).andThen({
  id: "ask",
  resumeSchema: z.object({ why: ZodTree }),
  execute: ({ resumeData, suspend }: any) => resumeData ?? suspend("?"),
});
const N = v.object({ n: v.pipe(v.number(), v.description(text)) });

/** A config whose ids collide in the style of every generator, with 100 workflows and 100 agents beside. */
export const hostile = {
  workflows: [
    ...["a.b", "a:b", "a_b", "a-b", "A.B", "aB", "ab"].map((id) => echo(id, N, N)),
    ...["2fast", "error", "class", "Step", "Workflow", "x".repeat(128), `${"x".repeat(127)}y`].map((id) => echo(id)),
    echo("valibot", v.object({ tree: ValibotTree }), ValibotTree),
    echo("zod", ZodTree, ZodTree),
    echo(
      "arktype",
      type({ x: "string", "y?": "number > 3", z: "1 | 2 | 'a'" }),
      type({ list: "unknown[]", pair: ["string", "number"] }),
    ),
    echo("shared", z.object({ from: City, to: City }), City),
    echo("odd", Odd, z.tuple([z.string(), z.number()])),
    echo("shapes", Shapes, Tuples),
    echo("record", z.record(z.string(), z.number()), z.map(z.string(), z.date())),
    asking,
    ...Array.from({ length: 100 }, (_, n) => echo(`w${n}`, N, N)),
  ],
  agents: ["a.b", "a-b", ...Array.from({ length: 98 }, (_, n) => `agent.${n}`)].map((id) =>
    defineAgent({ id, name: text, description: text, model: echoModel(), instructions: "Hello" }),
  ),
  configureApp(app) {
    app.get("/hello", () => "hello");
    app.post("/orders/:order/pay", () => "paid");
    app.put("/workflows/:workflow", () => "the path of a built-in route, under another name");
    app.get("/doc/a/b", () => "the name of another route");
    app.get("/doc/a-b", () => "the name of another route");
    app.all("/all/**", () => "all");
    app.get("/files/**:path", () => "rest");
    app.get("/optional/:a?", () => "optional");
    app.get("/many/:rest+", () => "many");
    app.get("/any/*", () => "any");
    app.get("/number/:id(\\d+)", () => "number");
    app.delete("/mixed/:id.json", () => "mixed");
    app.get("/group{/:id}?", () => "no equivalent");
    app.on("CONNECT", "/tunnel", () => "no equivalent");
  },
} satisfies Config;
