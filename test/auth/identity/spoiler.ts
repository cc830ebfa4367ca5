import { defineAgent, defineWorkflow, jwtAuth, type AuthProvider, type Config } from "agentserve";
import { echoModel } from "agentserve/models";
import { base, secret, userOf } from "./witness.ts";

/** Does to a user what careless code does. One that is frozen says no. */
function spoil(user: unknown): void {
  const changes: ((it: any) => unknown)[] = [
    (it) => it.roles.push("admin"),
    (it) => (it.id = "ada"),
    (it) => (it.deep.list[0] = "spoilt"),
    (it) => delete it.email,
  ];
  for (const change of changes)
    try {
      change(user);
    } catch {}
}
const spoiler = defineAgent({
  id: "spoiler",
  instructions: ({ context }) => (spoil(context.get("user")), "Spoil."),
  model: echoModel(),
  hooks: {
    onStart({ context }) {
      spoil(context.context.get("user"));
      (context.context as Map<string, unknown>).set("user", { id: "ada" }).set("userId", "ada");
    },
  },
});
const spoiling = defineWorkflow({ id: "spoiling" })
  .andThen({ id: "first", execute: ({ context }) => spoil(context.get("user")) })
  .andAgent({ id: "ask", agent: spoiler, prompt: "spoil" })
  .andThen({
    id: "person",
    retry: { attempts: 2 },
    execute({ context, resumeData, suspend, attempt }) {
      if (resumeData === undefined) return suspend();
      const user = structuredClone(context.get("user"));
      spoil(context.get("user"));
      if (attempt === 1) throw new Error("once more");
      return { user };
    },
  })
  .andThen({ id: "last", execute: ({ context, data }) => ({ ...data, last: context.get("user") }) });
const shared = { id: "bob", roles: ["reader"], deep: { list: [2] }, email: "bob@private.test" };
/** Its agent, its workflow and its routes change the user that they are given. */
export const spoilt: Config = {
  agents: [...base.agents!, spoiler],
  workflows: [spoiling],
  configureApp(app) {
    app.get("/me", (event) => ({ user: event.context.authenticatedUser }));
    app.get("/spoil", (event) => (spoil(event.context.authenticatedUser), "done"));
    app.use("/spoil", (event) => void spoil(event.context.authenticatedUser));
  },
};
/** Providers, and the user that each makes of the token of bob. */
export const careless: [title: string, auth: AuthProvider, user: object][] = [
  ["a token", jwtAuth({ secret }), userOf("bob")],
  [
    "mapUser that hands on the payload",
    jwtAuth({ secret, mapUser: (payload) => Object.assign(payload, { id: payload.sub }) }),
    userOf("bob"),
  ],
  [
    "mapUser that changes the payload",
    jwtAuth({
      secret,
      mapUser(payload) {
        const { roles, ...rest } = payload as { roles: string[]; sub: string };
        roles.push(`role ${roles.length}`);
        return { ...rest, id: rest.sub, roles };
      },
    }),
    { ...userOf("bob"), roles: ["reader", "role 1"] },
  ],
  ["mapUser with one user for all", jwtAuth({ secret, mapUser: () => shared }), structuredClone(shared)],
  ["a provider with one user for all", { type: "one", verifyToken: () => shared }, structuredClone(shared)],
];
