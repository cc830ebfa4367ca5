import { createDecoder, createSigner, createVerifier } from "fast-jwt";
import { describe, expect, it } from "vitest";
import { createKeyPair, toPem } from "../auth/oidc/sign.ts";
import { parseArgs } from "node:util";
import { fail } from "../../src/cli/fail.ts";
import { token as createToken } from "../../src/cli/project/token.ts";
import { agentserve, type Child } from "../harness/cli.ts";
import { capture, runHere } from "../harness/in-process.ts";
import { createProject } from "../harness/project.ts";

const secret = "a secret of at least thirty-two bytes";
const publicKey = toPem(createKeyPair("key").publicKey);
const config = `import { defineConfig, jwtAuth } from "agentserve";
export default defineConfig({
  server: { port: 0 },
  auth: jwtAuth({
    secret: process.env.APP_SECRET!,
    defaultPrivate: true,
    verifyOptions: { algorithms: ["HS384"], audience: "app", issuer: "login" },
  }),
  configureApp: (app) => void app.get("/me", (event) => event.context.authenticatedUser!),
});`;
const project = () => createProject({ "agents.config.ts": config, ".env": `APP_SECRET=${secret}\n` });
const withEnv = (env: Record<string, string>) => ({ ...process.env, AGENTSERVE_JWT_SECRET: "", ...env });
const string = { type: "string" } as const;
const flags = { sub: string, audience: string, issuer: string, secret: string };
/** `agentserve token` in this process: the command itself runs in a child of its own process. */
const token = (args: string[], cwd: string, env: Record<string, string> = {}) => {
  const options = { ...flags, claim: { ...string, multiple: true as const }, expires: { ...string, default: "1h" } };
  return capture(() => createToken(parseArgs({ args, options }).values).catch(fail), { cwd, env: withEnv(env) });
};
const stop = async (child: Child) => {
  child.process.kill("SIGTERM");
  await child.ended;
};

describe("agentserve token", () => {
  it("token signs a JWT in a project without flags that its server and another library accept", async () => {
    const cwd = project();
    const made = await token(
      ["--sub", "ada", "--claim", 'roles=["admin"]', "--claim", "tier=gold", "--claim", "n=7"],
      cwd,
    );
    expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+\n$/) });
    expect(made.stderr).toMatch(
      /^HS384 {2}· {2}sub ada {2}· {2}audience app {2}· {2}issuer login {2}· {2}expires \d{4}-\S+Z\nthe config of this project accepts this token\n$/,
    );
    const jwt = made.stdout.trim();
    const payload = createVerifier({ key: secret, algorithms: ["HS384"], allowedAud: "app", allowedIss: "login" })(jwt);
    expect(payload).toMatchObject({ sub: "ada", roles: ["admin"], tier: "gold", n: 7, aud: "app", iss: "login" });
    expect(payload.exp - payload.iat).toBe(3_600);

    const child = agentserve(["start", "--data", ":memory:"], { cwd, env: withEnv({}) });
    const [base] = await child.waitFor(/http:\/\/\S+:(\d+)/);
    const me = async (bearer: string) => {
      const response = await fetch(`${base}/me`, { headers: { authorization: `Bearer ${bearer}` } });
      return [response.status, await response.json()];
    };
    expect(await me(jwt)).toEqual([200, expect.objectContaining({ id: "ada", roles: ["admin"], tier: "gold" })]);
    const sign = createSigner({ key: secret, algorithm: "HS384", aud: "app", iss: "login", expiresIn: "5m" });
    expect(await me(sign({ sub: "bob" }))).toEqual([200, expect.objectContaining({ id: "bob" })]);
    const late = createSigner({ key: secret, algorithm: "HS384", aud: "app", iss: "login" });
    expect(await me(late({ sub: "bob", exp: 1 }))).toEqual([401, { success: false, error: "Token expired" }]);
    await stop(child);
  });

  it.each([
    ["--expires", "2h", { exp: 7_200 }],
    ["--expires", "never", { exp: undefined }],
    ["--audience", "other", { aud: "other" }],
    ["--issuer", "other", { iss: "other" }],
  ])("token takes %s %s", async (flag, value, wanted) => {
    const { stdout, stderr } = await token(["--sub", "ada", "--secret", secret, flag, value], createProject({}));
    const payload = createDecoder()(stdout.trim());
    const { exp } = payload;
    expect({ ...payload, exp: exp && exp - payload.iat }).toMatchObject(wanted);
    if (value === "never") expect(stderr).toContain("never expires");
  });

  it("token signs with --secret, else AGENTSERVE_JWT_SECRET, else the secret of the config", async () => {
    const cwd = project();
    const isSignedWith = async (key: string, args: string[], env?: Record<string, string>) => {
      const { stdout } = await token(["--sub", "x", ...args], cwd, env);
      return createVerifier({ key, algorithms: ["HS384"] })(stdout.trim()) as { aud: string };
    };
    expect((await isSignedWith("one", ["--secret", "one"], { AGENTSERVE_JWT_SECRET: "two" })).aud).toBe("app");
    await isSignedWith("two", [], { AGENTSERVE_JWT_SECRET: "two" });
    await isSignedWith(secret, []);
  });

  it("token warns when the config of the project rejects the new token", async () => {
    const { code, stderr } = await token(["--sub", "ada", "--audience", "other"], project());
    expect([code, stderr]).toEqual([
      0,
      expect.stringContaining(
        "warning the config of this project rejects this token: claim aud has an unexpected value",
      ),
    ]);
  });

  it.each<[string, string[], Record<string, string>, string]>([
    [
      "without a secret",
      [],
      {},
      "error No signing secret found\nhint  run this next to an agents.config.ts with auth: jwtAuth({ secret }), set AGENTSERVE_JWT_SECRET, or pass --secret\n",
    ],
    [
      "in a project without a provider",
      [],
      { "agents.config.ts": `export default {};` },
      "error No signing secret found\n",
    ],
    [
      "in a project with a provider of its own",
      [],
      { "agents.config.ts": `export default { auth: { type: "session", verifyToken: () => ({}) } };` },
      "hint  the auth provider of this project is session",
    ],
    [
      "in a project with a public key",
      [],
      {
        "agents.config.ts": `import { jwtAuth } from "agentserve"; export default { auth: jwtAuth({ publicKey: ${JSON.stringify(publicKey)} }) };`,
      },
      "hint  the auth provider of this project is jwt, which has no secret here; use a token of its issuer, or pass --secret",
    ],
    ["with a config that is broken", [], { "agents.config.ts": "export default {" }, "error agents.config.ts:1:"],
    [
      "with a claim that is none",
      ["--secret", secret, "--claim", "admin"],
      {},
      'error --claim: expected key=value, found "admin"\n',
    ],
    [
      "with a claim that has no key",
      ["--secret", secret, "--claim", "=admin"],
      {},
      'error --claim: expected key=value, found "=admin"\n',
    ],
    [
      "with a lifetime that is none",
      ["--secret", secret, "--expires", "soon"],
      {},
      'expected a duration such as "30m", "12h" or "7d", found "soon"',
    ],
  ])("token ends with 1, or with 2 for wrong arguments, and prints the reason %s", async (_, args, files, message) => {
    const { code, stdout, stderr } = await token(["--sub", "ada", ...args], createProject(files));
    const isUsage = args.includes("--claim") || args.includes("--expires");
    expect([code, stdout, stderr]).toEqual([isUsage ? 2 : 1, "", expect.stringContaining(message)]);
    expect(stderr).not.toContain(secret);
  });

  it("token needs no valid config with --secret", async () => {
    const cwd = createProject({ "agents.config.ts": "export default {" });
    const { code, stdout } = await token(["--sub", "ada", "--secret", secret], cwd);
    expect([code, createVerifier({ key: secret })(stdout.trim())]).toEqual([
      0,
      expect.objectContaining({ sub: "ada" }),
    ]);
  });

  it("token --help lists the flags, with examples", async () => {
    const { stdout } = await runHere(["token", "--help"]);
    for (const text of ["--sub", "--claim", "--expires", "--audience", "--issuer", "--secret", "Examples:"])
      expect(stdout).toContain(text);
  });
});
