import { randomBytes } from "node:crypto";
import { createToken, ServeError, type CustomApp } from "agentserve";

/** The users of the demo. Everyone can sign in as one of them, so only `agentserve dev` has their sign-in. */
const users = [
  { id: "ada", name: "Ada", role: "customer" },
  { id: "grace", name: "Grace", role: "manager" },
];

/** The secret that signs their tokens. A random one is kept while the process lives. */
export const secret = (process.env.JWT_SECRET ??= randomBytes(32).toString("base64"));

/** Adds the sign-in of the demo. It returns a token, which the page sends with each request. */
export function addSignIn(app: CustomApp): void {
  app.post("/sign-in", async (event) => {
    const { userId } = (await event.req.json()) as { userId?: unknown };
    const user = users.find(({ id }) => id === userId);
    if (!user) throw new ServeError(401, "Unknown user");
    const { id, name, role } = user;
    return { token: await createToken({ sub: id, name, role }, secret, { expiresIn: "12h" }), name, role };
  });
}
