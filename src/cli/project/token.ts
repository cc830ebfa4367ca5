import { decodeJwt, decodeProtectedHeader, type JWTPayload } from "jose";
import { createToken, type CreateTokenOptions, signerOf } from "../../auth/jwt.ts";
import type { AuthProvider } from "../../auth/provider.ts";
import { durationRule, fromDuration, within } from "../../core/clock.ts";
import { toErrorMessage } from "../../core/error.ts";
import { colors } from "../colors.ts";
import { hasConfig, type Project } from "../../config/load.ts";
import { cut } from "../../core/cut.ts";
import { tryParseJson } from "../../core/json.ts";
import { UserError } from "../../core/user-error.ts";
import { leaveProject, openProject } from "./open.ts";
import { writeResult } from "../result.ts";
import { UsageError } from "../usage.ts";

export interface TokenFlags {
  readonly sub?: string;
  readonly claim?: readonly string[];
  readonly expires: string;
  readonly audience?: string;
  readonly issuer?: string;
  readonly secret?: string;
}

/** Prints a token to stdout, and its details to stderr. */
export async function token(flags: TokenFlags): Promise<void> {
  const findSecret = () => flags.secret || process.env["AGENTSERVE_JWT_SECRET"] || undefined;
  const project = await findProject(findSecret() !== undefined);
  const provider = project?.config.auth;
  const secret = findSecret(); // again, because loading the project has read its .env file
  const signer = signerOf(provider);
  const payload: JWTPayload = { ...toClaims(flags.claim), ...(flags.sub !== undefined && { sub: flags.sub }) };
  const options: CreateTokenOptions = {
    ...signer?.defaults,
    expiresIn: toLifetime(flags.expires),
    ...(flags.audience !== undefined && { audience: flags.audience }),
    ...(flags.issuer !== undefined && { issuer: flags.issuer }),
  };
  if (!secret && !signer) {
    throw new UserError("No signing secret found", {
      hint: provider
        ? `the auth provider of this project is ${provider.type}, which has no secret here; use a token of its issuer, or pass --secret to sign one`
        : "run this next to an agents.config.ts with auth: jwtAuth({ secret }), set AGENTSERVE_JWT_SECRET, or pass --secret",
    });
  }
  const made = secret ? await createToken(payload, secret, options) : await signer!.sign(payload, options);
  writeResult(`${made}\n`);
  for (const line of await describe(made, provider)) process.stderr.write(`${line}\n`);
  await leaveProject(project);
}

/** Loads the project of this folder. If a secret is given, the project is optional, and errors in it are ignored. */
async function findProject(isOptional: boolean): Promise<Project | undefined> {
  if (!hasConfig(process.cwd())) return undefined;
  return openProject(undefined).catch((error: unknown) => {
    if (isOptional) return undefined;
    throw error;
  });
}

function toLifetime(text: string): string | undefined {
  if (text === "never") return undefined;
  if (!fromDuration(text))
    throw new UsageError(`--expires: expected ${durationRule}, found ${cut(JSON.stringify(text))}`);
  return text;
}

function toClaims(texts: readonly string[] = []): Record<string, unknown> {
  const claims: Record<string, unknown> = {};
  for (const text of texts) {
    const at = text.indexOf("=");
    if (at < 1) throw new UsageError(`--claim: expected key=value, found ${cut(JSON.stringify(text))}`);
    // With an assignment, the key `__proto__` would set the prototype.
    const value = toValue(text.slice(at + 1));
    Object.defineProperty(claims, text.slice(0, at), { value, enumerable: true, configurable: true, writable: true });
  }
  return claims;
}

/** Returns the parsed value if the text is JSON, otherwise the text. */
function toValue(text: string): unknown {
  const value = tryParseJson(text);
  return value === undefined ? text : value;
}

async function describe(made: string, provider: AuthProvider | undefined): Promise<string[]> {
  const { sub, aud, iss, exp } = decodeJwt(made);
  const { alg } = decodeProtectedHeader(made);
  const facts = [
    alg,
    sub === undefined ? "no sub: the user has no id" : `sub ${sub}`,
    aud && `audience ${String(aud)}`,
    iss && `issuer ${iss}`,
    exp === undefined ? "never expires" : `expires ${new Date(exp * 1_000).toISOString()}`,
  ];
  const lines = [colors.dim(facts.filter(Boolean).join("  ·  "))];
  if (!provider) return lines;
  const refusal = await refusalOf(provider, made);
  lines.push(
    refusal === undefined
      ? colors.dim("the config of this project accepts this token")
      : `${colors.yellow("warning")} the config of this project rejects this token: ${refusal}`,
  );
  return lines;
}

async function refusalOf(provider: AuthProvider, made: string): Promise<string | undefined> {
  const verify = async (): Promise<undefined> => void (await provider.verifyToken(made));
  return within(5_000, verify(), { onLate: () => "verification timed out" }).catch(toErrorMessage);
}
