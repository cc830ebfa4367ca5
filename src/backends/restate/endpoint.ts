import { createServer, type Http2Server, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { withoutRepeats } from "../../core/log.ts";
import { UserError } from "../../core/user-error.ts";
import type { Replica, ReplicaServiceParts } from "./replica.ts";
import { answerProbe } from "./drive/replaying.ts";
import { createRegister } from "./register/register.ts";
import { createDriveService } from "./drive/drive-service.ts";
import { createWait } from "./reads/wait.ts";
import { createConversation } from "./conversations/service.ts";
import { createGroup } from "./groups/service.ts";
import { createMailbox } from "./mailbox/service.ts";
import { createScheduleBook } from "./schedules.ts";
import { createRecords } from "./records.ts";
import { createAnswers } from "./conversations/answers.ts";
import { createUsage } from "./usage/service.ts";
import { createTurnService } from "./turns.ts";

type EndpointParts = ReplicaServiceParts & Parameters<typeof createTurnService>[0];

const creators = [
  createRegister,
  createDriveService,
  createWait,
  createConversation,
  createGroup,
  createMailbox,
  createScheduleBook,
  createRecords,
  createAnswers,
  createUsage,
  createTurnService,
];

/** The port on which Restate calls the handlers of this replica, and its registration. */
export class Endpoint {
  readonly #replica: Replica;
  readonly #server: Http2Server;
  readonly #sessions = new Set<ServerHttp2Session>();
  readonly #closing = new AbortController();
  #isRegistered = false;

  constructor(parts: EndpointParts) {
    this.#replica = parts.host;
    const { identityKeys, logger: all } = parts.host.options;
    // A cut connection is reported by each of its calls.
    const logger = withoutRepeats(all);
    const handler = parts.sdk.createEndpointHandler({
      services: creators.map((create) => create(parts)),
      ...(identityKeys.length > 0 && { identityKeys: [...identityKeys] }),
      // Errors only: at every other level the SDK reports each invocation.
      logger: ({ level, replaying }, message, ...rest) => {
        if (answerProbe(message, replaying)) return;
        // Connections that are cut by `close` are errors to the SDK.
        if (level === "error" && !this.#closing.signal.aborted) logger.warn(`Restate: ${String(message)}`, { rest });
      },
    });
    this.#server = createServer({ settings: { maxConcurrentStreams: 10_000 } }, handler);
    this.#server.on("session", (session) => {
      this.#sessions.add(session);
      session.on("close", () => this.#sessions.delete(session));
    });
  }

  get isRegistered(): boolean {
    return this.#isRegistered;
  }

  listen(): Promise<void> {
    const { host, port } = this.#replica.options.serve;
    return new Promise((resolve, reject) => {
      this.#server.once("error", (cause) => reject(cannotListen(host, port, cause)));
      this.#server.listen({ port, host }, resolve);
    });
  }

  get #url(): string {
    const { host, url } = this.#replica.options.serve;
    return url ?? `http://${host}:${(this.#server.address() as AddressInfo).port}`; // it listens on a port
  }

  /** Registers the URL with Restate. Resolves after the first try; while Restate cannot be reached, it keeps trying. */
  async register(): Promise<void> {
    const { logger } = this.#replica.options;
    try {
      await this.#tryToRegister();
    } catch (error) {
      logger.error("Registration with Restate failed: requests get 503 until it succeeds", { reason: toReason(error) });
      void this.#keepTrying();
    }
  }

  async #keepTrying(): Promise<void> {
    for (let ms = 250; !this.#closing.signal.aborted && !this.#isRegistered; ms = Math.min(ms * 2, 2_000)) {
      await sleep(ms, undefined, { ref: false });
      await this.#tryToRegister().catch(() => {});
    }
    if (this.#isRegistered) this.#replica.options.logger.info(`Restate calls this replica at ${this.#url}`);
  }

  async #tryToRegister(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    await this.#replica.client.register(this.#url);
    this.#isRegistered = true;
  }

  /** Ends the connections of Restate. What was in flight continues on another replica. */
  async close(): Promise<void> {
    this.#closing.abort();
    if (!this.#server.listening) return;
    for (const session of this.#sessions) session.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}

const cannotListen = (host: string, port: number, cause: NodeJS.ErrnoException): UserError =>
  new UserError(
    cause.code === "EADDRINUSE"
      ? `Port ${port} for Restate is already in use`
      : `Cannot listen on ${host}:${port} for Restate: ${cause.message}`,
    { hint: "choose another serve.port or serve.host in restate()", cause },
  );

/** The innermost cause: the answer of Restate, or the reason why there was none. */
function toReason(error: unknown): string {
  const { cause, message } = error as Error;
  return cause === undefined ? message : toReason(cause);
}
