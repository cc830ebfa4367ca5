import { andAgent, andAll, andThen, defineAgent, defineTool, defineWorkflow, createToken } from "agentserve";
import type { AgentContext, Config, StepContext } from "agentserve";
import { echoModel, scriptedModel } from "agentserve/models";
import { defineWebSocketHandler, H3 } from "h3";
import * as v from "valibot";
import { withBounds } from "../../harness/bounds.ts";

/** What one place of the author's code was told about the caller. */
export interface Sight {
  readonly where: string;
  readonly user: unknown;
  readonly userId: unknown;
  /** The key `userId` of the map; in agents it stands on the context, too. */
  readonly inMap: unknown;
  readonly resumedBy?: unknown;
}
/** What every place was told, in order. Tests empty it. */
export const seen: Sight[] = [];
export const places = (): string[] => [...new Set(seen.map(({ where }) => where))].toSorted();

// Who there is.

export const secret = "a secret of more than thirty-two bytes";
export const tokens = {
  ada: await createToken({ sub: "ada", email: "ada@private.test", roles: ["admin"], deep: { list: [1] } }, secret),
  bob: await createToken({ sub: "bob", email: "bob@private.test", roles: ["reader"], deep: { list: [2] } }, secret),
  carol: await createToken({ sub: "carol", email: "carol@private.test", roles: [] }, secret),
  /** Signed, but without an id. */
  faceless: await createToken({ email: "faceless@private.test" }, secret),
};
export type Name = keyof typeof tokens;
export const bearer = (token: string): { authorization: string } => ({ authorization: `Bearer ${token}` });
export const as = (name: Name): { headers: { authorization: string } } => ({ headers: bearer(tokens[name]) });

/** The user that a token without `mapUser` stands for: read here, not by the code under test. */
export function userOf(name: Name): Record<string, unknown> {
  const payload = JSON.parse(Buffer.from(tokens[name].split(".")[1]!, "base64url").toString());
  return payload.sub === undefined ? payload : { ...payload, id: payload.sub };
}
export const idOf = (name: Name): string | undefined => userOf(name)["id"] as string | undefined;

// The author's code: it says who it thinks is calling.

function lookAt(where: string, { userId, context }: AgentContext): void {
  seen.push({ where, user: context.get("user"), userId, inMap: context.get("userId") });
}
function lookIn(where: string, { context, resumedBy }: Pick<StepContext, "context" | "resumedBy">): void {
  const userId = context.get("userId");
  seen.push({ where, user: context.get("user"), userId, inMap: userId, resumedBy });
}

const look = defineTool({
  description: "Looks who is calling",
  inputSchema: v.object({}),
  execute: (_, { context }) => lookAt("tool", context),
});
const common = {
  instructions(context: AgentContext) {
    lookAt("instructions", context);
    return "Look.";
  },
  tools: { look },
};
/** Asked to `look`, it calls its tool. */
export const witness = defineAgent({
  id: "witness",
  model: echoModel(),
  ...common,
  hooks: {
    onStart: ({ context }) => lookAt("onStart", context),
    onStepEnd: ({ context }) => lookAt("onStepEnd", context),
    onToolStart: ({ context }) => lookAt("onToolStart", context),
    onToolEnd: ({ context }) => lookAt("onToolEnd", context),
    onEnd: ({ context }) => lookAt("onEnd", context),
  },
});
const failing = defineAgent({
  id: "failing",
  model: scriptedModel([]),
  ...common,
  maxRetries: 0,
  hooks: { onError: ({ context }) => lookAt("onError", context) },
});

const inner = defineWorkflow({ id: "inner" }).andThen({ id: "within", execute: (context) => lookIn("sub", context) });
const noted = (id: string) =>
  andThen({
    id,
    execute(context) {
      lookIn(id, context);
      return {};
    },
  });
/** Looks in every kind of step, then waits for a person if the input says so, then looks again. */
export const tour = defineWorkflow({ id: "tour", input: v.object({ wait: v.optional(v.boolean()) }) })
  .andThen({ id: "then", execute: (context) => lookIn("then", context) })
  .andTap({ id: "tap", execute: (context) => lookIn("tap", context) })
  .andWhen({
    id: "when",
    condition(context) {
      lookIn("condition", context);
      return true;
    },
    step: andAll({ id: "all", steps: [noted("branch"), noted("other-branch")] }),
  })
  .andRace({ id: "race", steps: [noted("racer")] })
  .andWorkflow({ id: "sub", workflow: inner })
  .andAgent({
    id: "ask",
    agent: witness,
    prompt(context) {
      lookIn("prompt", context);
      return "look";
    },
    map: (_, context) => lookIn("map", context),
  })
  .andThen({
    id: "person",
    execute(context) {
      lookIn("person", context);
      return context.input.wait && context.resumeData === undefined ? context.suspend() : null;
    },
  })
  .andAll({ id: "after", steps: [noted("last"), andAgent({ id: "again", agent: witness, prompt: "look" })] })
  .andThen({ id: "end", execute: ({ context }) => ({ user: context.get("user") ?? null }) });

/** What agents see when asked to `look`, and what workflows see. */
export const agentPlaces = ["instructions", "onEnd", "onStart", "onStepEnd", "onToolEnd", "onToolStart", "tool"];
const stepPlaces = ["branch", "condition", "last", "map", "other-branch", "person", "prompt", "racer", "sub"];
export const tourPlaces = [...agentPlaces, ...stepPlaces, "tap", "then"].toSorted();

/** Custom routes that answer with their user. */
function configureApp(app: H3): void {
  const tell = (event: { context: { authenticatedUser?: unknown } }) => ({
    user: event.context.authenticatedUser ?? null,
  });
  app.use((event) => void event.res.headers.set("x-user", JSON.stringify(event.context.authenticatedUser ?? null)));
  app.get("/me", tell);
  app.post("/me", tell);
  app.get("/people/:id/**", tell);
  app.mount("/inside", new H3().get("/me", tell));
  app.get(
    "/live",
    defineWebSocketHandler((event) => ({
      open: (peer) => void peer.send(JSON.stringify({ ...tell(event), ofPeer: tell(peer).user })),
    })),
  );
}

// Schemas are not what is tested here: on a busy machine 250 ms may be too short for one.
export const base: Config = withBounds(
  { schemaMs: 10_000 },
  { agents: [witness, failing], workflows: [tour], configureApp },
);

// Every way to ask.

const schema = { type: "object", properties: { title: { type: "string" } } };
export const agentWays = ["text", "object", "stream", "stream-object", "chat"] as const;
export type AgentWay = (typeof agentWays)[number];
/** What each endpoint needs to be asked to look; `options` come from the test. */
export function toBody(way: AgentWay): Record<string, unknown> {
  if (way === "chat") return { messages: [{ id: "m", role: "user", parts: [{ type: "text", text: "look" }] }] };
  return way === "object" || way === "stream-object" ? { input: "look", schema } : { input: "look" };
}
