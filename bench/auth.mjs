// The cost of authentication per request: no provider, a cached token, a token that is verified each time, mapUser.
// Usage: node bench/auth.mjs [rounds] [seconds]. Prints requests per second and the CPU of the server. The variants
// take turns within one run.
import { compare, startVariants } from "./harness.mjs";

const secret = "a secret of at least thirty-two bytes";
const { createToken, jwtAuth } = await import("../dist/index.mjs");

async function serve(auth) {
  const { createServer, embedded } = await import("../dist/index.mjs");
  const server = createServer({ auth, server: { cors: {} }, backend: embedded({ path: ":memory:" }) });
  return (await server.listen({ port: 0 })).port;
}

const verifyAnew = (token) => jwtAuth({ secret }).verifyToken(token);

const variants = {
  none: () => serve(undefined),
  remembered: () => serve(jwtAuth({ secret, defaultPrivate: true })),
  mapUser: () => serve(jwtAuth({ secret, defaultPrivate: true, mapUser: ({ sub, roles }) => ({ id: sub, roles }) })),
  // A new provider knows no token.
  verified: () => serve({ ...jwtAuth({ secret, defaultPrivate: true }), verifyToken: verifyAnew }),
};

const servers = await startVariants(import.meta.filename, variants);
if (servers) {
  const [rounds = 5, seconds = 2] = process.argv.slice(2).map(Number);
  const token = await createToken({ sub: "ada", roles: ["admin"] }, secret, { expiresIn: "1h" });
  const request = { seconds, method: "GET", path: "/workflows", headers: `Authorization: Bearer ${token}\r\n` };
  await compare(servers, request, { rounds, connections: 16 });
  for (const { child } of Object.values(servers)) child.kill();
}
