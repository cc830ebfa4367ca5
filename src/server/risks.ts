import { signerOf } from "../auth/jwt.ts";
import type { ResolvedConfig } from "../config/define.ts";
import { isLoopback } from "../core/loopback.ts";
import type { ListedRoute } from "./listing.ts";

/** A setting that is safe on a laptop but may be unsafe elsewhere. */
export interface Risk {
  readonly name:
    | "weak-secret"
    | "no-provider"
    | "open-console"
    | "public-resume"
    | "foreign-executions"
    | "all-origins"
    | "backend";
  readonly message: string;
  /** The way to remove the risk. */
  readonly hint: string;
}

export interface RiskOptions {
  readonly mode: "dev" | "start";
  /** True for `--strict`: 127.0.0.1 is then assumed to be behind a proxy, which forwards requests from elsewhere. */
  readonly isStrict?: boolean | undefined;
  readonly config: Pick<ResolvedConfig, "auth" | "backend" | "console" | "server">;
  readonly host: string;
  readonly routes: readonly ListedRoute[];
}

export function findRisks({ mode, config, host, routes, isStrict }: RiskOptions): Risk[] {
  const { auth, backend, server } = config;
  const risks: Risk[] = [];
  const weak = findWeakSecret(config);
  if (weak) risks.push(weak);
  if (!auth && !server.authenticatedByProxy && (isStrict || !isLoopback(host))) {
    const through = isLoopback(host) ? ", also through a proxy," : "";
    risks.push({
      name: "no-provider",
      message: `No auth provider: anyone who can reach ${host}${through} can call every route`,
      hint: "set auth: jwtAuth({ secret }), or server.authenticatedByProxy: true if a proxy authenticates each request",
    });
  }
  if (mode === "start" && config.console && !auth && !server.authenticatedByProxy) {
    risks.push({
      name: "open-console",
      message: `The console is on without an auth provider: anyone who can reach ${host}, also through a proxy, can use it`,
      hint: "set auth: jwtAuth({ secret }), or server.authenticatedByProxy: true, or remove console",
    });
  }
  const resume = routes.find(
    ({ method, path }) => method === "POST" && path.endsWith("/executions/:executionId/resume"),
  );
  if (auth && resume?.access === "public" && resume.allows === "any caller") {
    risks.push({
      name: "public-resume",
      message: "Anyone who knows the id of an execution can read, suspend and resume it",
      hint: 'set ownership: true in the auth provider, or authorize, or protect: ["ALL /workflows/:id/executions/*"]',
    });
  } else if (isStrict && auth && resume?.allows === "any caller") {
    risks.push({
      name: "foreign-executions",
      message: "Every authenticated caller can list and read the executions of other users",
      hint: "set ownership: true in the auth provider, or authorize",
    });
  }
  if (server.cors === undefined || (server.cors && server.cors.origin === undefined)) {
    risks.push({
      name: "all-origins",
      message: "Pages of any origin can call this server: server.cors.origin is not set",
      hint: 'set server.cors: { origin: ["https://your.app"] }',
    });
  }
  if (backend.risk) risks.push({ name: "backend", ...backend.risk });
  return risks;
}

/** Detects a weak secret. Anyone who guesses the secret can sign a token for any user. */
export function findWeakSecret({ auth }: Pick<ResolvedConfig, "auth">): Risk | undefined {
  if (!signerOf(auth)?.isWeak) return undefined;
  return {
    name: "weak-secret",
    message: "The secret of jwtAuth() is shorter than 32 bytes and can be guessed",
    hint: "generate one: openssl rand -base64 48",
  };
}
